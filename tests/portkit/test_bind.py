"""`hal port bind`: what a header becomes, and why none does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hal.errors import UsageError
from hal.portkit.bind import bind
from hal.portkit.worksheet import worksheet

ROOT = Path(__file__).resolve().parents[2]

HEADER = """
#include <stdint.h>
#define ACME_OK 0
typedef struct { int x; } acme_thing;
int acme_alloc(uint64_t bytes, uint64_t *out);
int acme_copy(uint64_t to, const void *from, uint64_t bytes);
"""


@pytest.fixture
def header(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Write a header of this text to the current folder, a new one."""
    monkeypatch.chdir(tmp_path)

    def write(text: str, name: str = "acme.h") -> Path:
        path = Path(name)
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_functions_constants_and_structs_are_bound(header, tmp_path: Path) -> None:
    code = "#include <stdint.h>\nint acme_alloc(uint64_t b, uint64_t *o) { *o = b; return 7; }"
    source = header(code, "acme.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", "libacme.so", source], check=True)
    made = bind(header(HEADER), library="./libacme.so")
    assert (str(made.path), made.declared) == ("acme_binding.py", ["acme_alloc", "acme_copy"])
    assert (made.bound, made.complaints) == (["acme_alloc"], [])
    use = (
        "import acme_binding as a; from ctypes import byref; out = a.uint64_t();"
        "print(a.ACME_OK, a.acme_alloc(5, byref(out)), out.value, a.acme_thing(3).x)"
    )
    done = subprocess.run([sys.executable, "-c", use], capture_output=True, text=True, check=False)
    assert (done.stdout.split(), done.stderr) == (["0", "7", "5", "3"], "")


def test_without_a_library_nothing_is_bound_and_it_says_so(header, run, tmp_path: Path) -> None:
    header(HEADER)
    done = run("hal.cli", "port", "bind", "acme.h", "-o", "own.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Wrote own.py: 2 functions of acme.h." in done.stdout
    assert "name the library that has them with --library" in done.stdout
    assert "  alloc              acme_alloc\n" in done.stdout


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("this is no header @@@ ((", r"not read as C: acme.h:1:\d+: error: .*Correct it"),
        ("int good(int a);\nint bad(((;\n", r"acme.h:2:\d+: error: "),
        ('#include "lost.h"\nint f(void);', r"lost\.h: No such file.*Name the folder .* with -I"),
        ("namespace a { int f(); }", r"error: .*It looks like C\+\+: bind its C interface"),
        ("class B { public: int f(); };", r"error: .*It looks like C\+\+"),
        ("", r"acme\.h declares no function"),
        ("#define ONLY 1\ntypedef int number;", r"acme\.h declares no function"),
    ],
)
def test_a_header_that_cannot_be_bound_says_why(header, text: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        bind(header(text))
    assert not Path("acme_binding.py").exists()


def test_a_header_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no such file"):
        bind(tmp_path / "none.h")


def test_folders_of_other_headers_are_searched(header) -> None:
    header("typedef int number;", "more/kinds.h")
    path = header('#include "kinds.h"\nnumber acme_count(void);')
    assert bind(path, include=[Path("more")]).declared == ["acme_count"]


@pytest.mark.parametrize(
    ("library", "reason"),
    [("acme_none", "the library acme_none does not load"), ("m", "has none of the 2 functions")],
)
def test_a_library_that_does_not_serve_is_refused(header, library: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        bind(header(HEADER), library=library)


def test_a_place_that_cannot_be_written_is_refused(header) -> None:
    with pytest.raises(UsageError, match="cannot be written: No such file or directory"):
        bind(header(HEADER), into=Path("none/x.py"))


def test_names_are_taken_apart_into_words() -> None:
    rows = {row.what: row.functions for row in worksheet(["clEnqueueReadBuffer", "acmeMalloc"])}
    assert rows == {"alloc": ("acmeMalloc",), "write, read, copy": ("clEnqueueReadBuffer",)}
