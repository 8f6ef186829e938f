"""`hal port size`: lines by cloc's rules, and which of them tier 1 needs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hal.errors import UsageError
from hal.portkit.c_source import code_lines, items
from hal.portkit.size import measure

PORT = """\
#include "hal/hal.h"  // 1 line

/* A comment
   of two lines. */
static int shared(void) { return 0; }

static int32_t slow(int x);

static int32_t open_it(uint32_t i, hal_device *out) {
  // only a comment
  return shared();
}

static int32_t tell_peer(hal_device a, hal_device b, uint32_t k, int64_t *out) {
  return slow(1) + shared();
}

static int32_t slow(int x) {
  return x;
}

static const hal_device_table devices = {
    .size = sizeof(devices),
    .open = open_it,
    .peer_info = tell_peer,
};

int32_t hal_port_entry(uint32_t a, uint32_t b, const hal_port_root **root) {
  return (int32_t)(a + b + devices.size);
}
"""


def port(folder: Path, **files: str) -> Path:
    """A folder with sources; double underscores in names stand for dots."""
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("int a; // b\n\n// c\n", {1}),
        ("/* a\n b */ int c;\n", {2}),
        ('char *a = "// no comment";\n', {1}),
        ('char *a = "/*";\nint b;\n/* */\n', {1, 2}),
        ("// goes \\\n on\nint a;", {3}),
        ("char a = '\"'; // \"\n", {1}),
        ("/* never closed\nint a;\n", set()),
        ("", set()),
    ],
)
def test_only_lines_with_code_count(text: str, lines: set[int]) -> None:
    assert code_lines(text) == lines


def test_functions_are_found_in_namespaces_and_behind_attributes() -> None:
    text = (
        'extern "C" {\nint a(void) {\n  return 1;\n}\n}\n'
        "namespace x {\n__attribute__((format(printf, 1, 2))) static void b(const char *f) {}\n}\n"
        "struct s { int c; };\nstatic int d = 1;\nint e(void);\ntypedef int (*f)(int);\n"
    )
    found = [(item.kind, item.name, item.first, item.last) for item in items(text)]
    assert found == [
        ("function", "a", 2, 4),
        ("function", "b", 7, 7),
        ("other", "", 9, 9),
        ("value", "", 10, 10),
        ("prototype", "e", 11, 11),
        ("other", "", 12, 12),
    ]


def test_functions_that_only_later_tiers_reach_are_not_tier_1(tmp_path: Path) -> None:
    size = measure(port(tmp_path, port__c=PORT))
    assert (size.lines, size.tier_1_lines) == (20, 20 - 3 - 3 - 1)
    assert size.beyond_tier_1 == ["tell_peer", "slow"]


def test_entries_in_the_tables_of_the_kit_count_by_their_tier(tmp_path: Path) -> None:
    head = PORT[: PORT.index("static const hal_device_table")]
    code = head + "KIT_ENTRY(port, .name = 0,\n  .device = KIT_DEVICE_TABLE(.open = open_it,\n"
    size = measure(port(tmp_path, port__c=code + "  .peer_info = tell_peer));\n"))
    assert (size.lines, size.tier_1_lines) == (15, 15 - 3 - 3 - 1)
    assert size.beyond_tier_1 == ["tell_peer", "slow"]


def test_a_mark_puts_what_follows_beyond_tier_1(tmp_path: Path) -> None:
    code = (
        "static int a(void) { return 1; }\n// ---- Tier 2 ----\n"
        "static int b(void) { return 2; }\n// ---- Tables ----\nint c = 3;\n"
    )
    size = measure(port(tmp_path, port__c=code))
    assert (size.lines, size.tier_1_lines, size.beyond_tier_1) == (3, 2, ["b"])


def test_a_function_that_nothing_calls_counts_to_tier_1(tmp_path: Path) -> None:
    size = measure(port(tmp_path, port__c="int a(void) {\n  return 1;\n}\n"))
    assert (size.lines, size.tier_1_lines) == (3, 3)


def test_descriptions_and_other_files_are_told_and_builds_are_not(tmp_path: Path) -> None:
    hcd = "a: 1\n# no\n\nkernels:\n  dialect:\n    id: x\n    y: 2\n  z: 3\n"
    port(tmp_path, port__c="int a;\n", acme__hcd__yaml=hcd, CMakeLists__txt="x\n")
    for name in ("build", "tests", ".git"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "more.c").write_text("int b;\n", encoding="utf-8")
    size = measure(tmp_path)
    assert (size.lines, size.hcd_lines, size.dialect_lines) == (1, 6, 3)
    assert size.other_files == ["CMakeLists.txt", "acme.hcd.yaml"]


def test_a_folder_without_c_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no C"):
        measure(tmp_path)
    with pytest.raises(UsageError, match="is no folder"):
        measure(tmp_path / "none")


def test_the_command_prints_a_table_and_writes_json(run, tmp_path: Path) -> None:
    folder = port(tmp_path, port__c=PORT)
    target = tmp_path / "size.json"
    done = run("hal.cli", "port", "size", folder, "--json", target)
    assert (done.returncode, done.stderr) == (0, "")
    assert "lines of C and C++" in done.stdout
    assert json.loads(target.read_text(encoding="utf-8"))["tier_1_lines"] == 13
    done = run("hal.cli", "port", "size", tmp_path / "none")
    assert (done.returncode, done.stdout) == (2, "")
    assert "is no folder" in done.stderr


def test_the_page_on_costs_has_the_example_vendors_figures(root: Path) -> None:
    size = measure(root / "docs/examples/acme")
    page = (root / "docs/porting-cost.md").read_text(encoding="utf-8")
    row = next(line for line in page.splitlines() if line.startswith("| acme |"))
    cells = [cell.strip() for cell in row.split("|")[4:8]]
    assert cells == [str(size.tier_1_lines), str(size.lines), "3", f"{size.hcd_lines} lines"]
