"""What the generator writes: clean C and C++, one layout for everybody, whole tables."""

from __future__ import annotations

import ctypes
import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cffi import FFI

from hal._generate.registry import load
from hal._generated import constants
from hal._generated.functions import FUNCTIONS, INTERFACES
from hal._generated.rules import RULES

ROOT = Path(__file__).parents[2]
TEMPLATE = ROOT / "vendors/template/tables.c"  # C as it is, but for its name
GOLDEN = json.loads((ROOT / "tests/golden/layout.json").read_text(encoding="utf-8"))
GENERATOR = ROOT / "hal/_generate"
Compile = Callable[..., None]


@pytest.mark.parametrize(
    ("name", "flags"),
    [
        ("use.c", ["-std=c99"]),
        ("use.c", ["-std=c11", "-Wstrict-prototypes"]),
        ("use.cpp", ["-std=c++17"]),
    ],
)
@pytest.mark.parametrize("header", ["hal/hal.h", "hal/calls.h"])
def test_a_header_stands_alone_and_compiles_clean(
    compile_c: Compile, tmp_path: Path, name: str, flags: list[str], header: str
) -> None:
    source = tmp_path / name
    source.write_text(f'#include "{header}"\n#include "{header}"\nint main(void) {{ return 0; }}\n')
    compile_c(*flags, "-c", source, "-o", tmp_path / "use.o")


def test_the_header_needs_stdint_alone() -> None:
    text = (ROOT / "include/hal/hal.h").read_text(encoding="utf-8")
    assert re.findall(r"#include +(\S+)", text) == ["<stdint.h>"]


def test_a_struct_holds_no_type_that_compilers_size_differently() -> None:
    text = (ROOT / "include/hal/hal.h").read_text(encoding="utf-8")
    code = re.sub(r"//[^\n]*", "", text)
    assert re.findall(r"\b(?:enum|bool|long|short|int|unsigned|size_t)\b", code) == []


def test_c_has_the_golden_layout(compile_c: Compile, tmp_path: Path) -> None:
    compile_c("-std=c99", ROOT / "tests/golden/layout.c", "-o", tmp_path / "layout")
    done = subprocess.run([tmp_path / "layout"], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == GOLDEN


def test_cffi_has_the_golden_layout(cdef: str) -> None:
    ffi = FFI()
    ffi.cdef(cdef)
    seen = {
        name: {
            "size": ffi.sizeof(name),
            "fields": {
                field: {"offset": kind.offset, "size": ffi.sizeof(kind.type)}
                for field, kind in ffi.typeof(name).fields
            },
        }
        for name in GOLDEN["structs"]
    }
    assert seen == GOLDEN["structs"]


def test_cffi_has_the_golden_constants(cdef: str) -> None:
    found = dict(re.findall(r"#define (HAL_\w+) (\S+)", cdef))
    abi = {"major": int(found.pop("HAL_ABI_MAJOR")), "minor": int(found.pop("HAL_ABI_MINOR"))}
    values = {name: int(value.rstrip("u"), 0) for name, value in found.items()}
    assert (abi, values) == (GOLDEN["abi"], GOLDEN["constants"])


@pytest.fixture(scope="module")
def ctypes_module(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """hal.h as ctypesgen, which knows nothing of our generator, reads it."""
    path = tmp_path_factory.mktemp("ctypesgen") / "hal_ctypes.py"
    start = "import sys; from ctypesgen.main import main; sys.exit(main())"
    command = ["-c", start, f"-I{ROOT / 'include'}", str(ROOT / "include/hal/hal.h")]
    done = subprocess.run(
        [sys.executable, *command, "-o", str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    spec = importlib.util.spec_from_file_location("hal_ctypes", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_ctypesgen_has_the_golden_layout(ctypes_module: Any) -> None:
    seen = {}
    for name in GOLDEN["structs"]:
        struct = getattr(ctypes_module, f"struct_{name}")
        places = {field: getattr(struct, field) for field, *_ in struct._fields_}
        fields = {f: {"offset": at.offset, "size": at.size} for f, at in places.items()}
        seen[name] = {"size": ctypes.sizeof(struct), "fields": fields}
    assert seen == GOLDEN["structs"]


def test_ctypesgen_has_the_golden_constants(ctypes_module: Any) -> None:
    seen = {name: getattr(ctypes_module, name) for name in GOLDEN["constants"]}
    assert seen == GOLDEN["constants"]


def test_python_has_the_golden_constants() -> None:
    seen = {}
    golden = {k: v for k, v in GOLDEN["constants"].items() if not k.endswith("_MINIMUM")}
    for name in golden:
        word = name.removeprefix("HAL_")
        if word in ("OK", "NOT_READY") or word.startswith("ERROR_"):
            seen[name] = constants.Status[word.removeprefix("ERROR_")].value
        else:
            seen[name] = next(
                kind[value].value
                for kind in vars(constants).values()
                if isinstance(kind, type) and kind.__module__ == constants.__name__
                for value in kind.__members__
                if name == f"HAL_{snake(kind.__name__)}_{value}".upper()
            )
    assert seen == golden


def snake(name: str) -> str:
    """`PortInfo` → `port_info`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def test_python_lists_each_function_and_rule_of_the_registry() -> None:
    registry = load(ROOT / "include/registry")
    assert [f.call for f in FUNCTIONS] == [f.call for f in registry.functions]
    assert [r.id for r in RULES] == [r.id for r in registry.rules]
    assert list(INTERFACES) == [i.interface for i in registry.interfaces]


def test_the_abi_has_twelve_interfaces_and_the_tiers_of_the_design() -> None:
    assert len(INTERFACES) == 12
    required = [sum(0 < f.tier <= tier for f in FUNCTIONS) for tier in (1, 2, 3)]
    assert required == [33, 38, 53]


def test_each_rule_is_checked_by_somebody_and_can_be_broken() -> None:
    assert {rule.checked_by for rule in RULES} == {"host", "port"}
    assert [rule.id for rule in RULES if bool(rule.breaking) == bool(rule.mutant)] == []


def test_the_generator_is_small() -> None:
    lines = sum(
        len(path.read_text(encoding="utf-8").splitlines())
        for path in GENERATOR.glob("*.py")
        if path.name != "release.py"  # it keeps what was generated
    )
    assert lines <= 660


def test_the_generator_names_no_function() -> None:
    files = [*GENERATOR.glob("*.py"), *GENERATOR.glob("templates/*")]
    text = "\n".join(path.read_text(encoding="utf-8") for path in files)
    words = set(re.findall(r"[a-z][a-z0-9_.]*", text))
    calls = {f.call for f in FUNCTIONS} | {f"{f.interface}_{f.verb}" for f in FUNCTIONS}
    calls |= {f"hal_{f.interface}_{f.verb}" for f in FUNCTIONS}
    assert sorted(words & calls) == []


def test_generated_c_has_at_most_100_columns() -> None:
    names = (
        "include/hal/hal.h",
        "include/hal/calls.h",
        "hal/native/calls.h",
        "vendors/template/tables.c",
    )
    files = [*(ROOT / name for name in names), *(ROOT / "hal/native/layers").glob("*.c")]
    long = [
        f"{path.name}:{number}"
        for path in files
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1)
        if len(line) > 100
    ]
    assert long == []


def test_the_template_exports_the_entry_and_no_function_of_its_own(
    compile_c: Compile, tmp_path: Path
) -> None:
    flags = ["-std=c11", "-shared", "-fPIC", "-fvisibility=hidden"]
    compile_c(*flags, "-x", "c", TEMPLATE, "-o", tmp_path / "port.so")
    library = ctypes.CDLL(str(tmp_path / "port.so"))
    own = [name for f in FUNCTIONS if hasattr(library, name := f"{f.interface}_{f.verb}")]
    assert (own, hasattr(library, "hal_port_entry")) == ([], True)


def test_the_template_answers_unsupported_everywhere(
    compile_c: Compile, cdef: str, tmp_path: Path
) -> None:
    flags = ["-std=c11", "-shared", "-fPIC"]
    compile_c(*flags, "-x", "c", TEMPLATE, "-o", tmp_path / "port.so")
    ffi = FFI()
    ffi.cdef(cdef + "int32_t hal_port_entry(uint32_t, uint32_t, const hal_port_root **);")
    library = ffi.dlopen(str(tmp_path / "port.so"))
    found = ffi.new("const hal_port_root **")
    assert library.hal_port_entry(constants.ABI_MAJOR + 1, 0, found) == constants.Status.VERSION
    assert found[0] == ffi.NULL
    assert library.hal_port_entry(constants.ABI_MAJOR, 0, found) == constants.Status.OK
    answers = set()
    for name, kind in ffi.typeof("hal_port_root").fields:
        if name not in INTERFACES and not str(kind.type.cname).endswith("_table *"):
            continue
        table = getattr(found[0], name)
        for entry, entry_kind in ffi.typeof(table[0]).fields:
            if entry != "size":
                zeros = [ffi.cast(a, 0) for a in entry_kind.type.args]
                answers.add(getattr(table, entry)(*zeros))
    assert answers == {constants.Status.UNSUPPORTED}


def test_each_descriptor_is_checked_for_null_size_and_tail() -> None:
    registry = load(ROOT / "include/registry")
    sized = {f"hal_{s.name}": s for s in registry.all_structs if s.minimum and not s.out}
    missing = []
    for function in registry.functions:
        for param in function.params:
            if param.base not in sized or param.dir != "in" or function.thread == "once":
                continue
            when = "\n".join(rule.when for rule in function.rules)
            name = param.name
            wanted = (f"{name} == 0", f"{name}->size < HAL_", f"hal_tail_is_dirty({name},")
            missing += [f"{function.call}: {text}" for text in wanted if text not in when]
    assert missing == []


def test_each_out_struct_is_checked_for_null_and_size() -> None:
    registry = load(ROOT / "include/registry")
    outs = {f"hal_{s.name}" for s in registry.all_structs if s.out}
    missing = []
    for function in registry.functions:
        for param in function.params:
            when = "\n".join(rule.when for rule in function.rules)
            wanted = (f"{param.name} == 0", f"{param.name}->size < HAL_")
            if param.base in outs:
                missing += [f"{function.call}: {text}" for text in wanted if text not in when]
    assert missing == []
