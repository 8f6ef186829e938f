"""The validator refuses each broken rule and names it; what it passes the evaluator runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from vil_strategies import cases

import hal.hcd
import hal.vil
from hal import dtypes
from hal.vil import Module, VilError, parse, validate
from hal.vil.check_chip import Limits
from hal.vil.generate import Case
from hal.vil.model import Binding, Instruction, SReg, TileRef
from hal.vil.serialise import serialise

CHIPS = ["hal/cpu", "sim/npu-small", "sim/npu-systolic"]
TEXT = """vil 1.0
kernel main {
  arg n: symbol
  arg s: scalar f32
  arg k: scalar i32
  arg x: f32 read bytes 4 * n
  arg y: f32 write bytes 4 * n
  arg z: i32 inout bytes 4 * n
  workspace w bytes 4 * n
  launch p grid(1) (x, y, z, w, s, k, n)
}
program p flat sregs 12 {
  param x: f32 read
  param y: f32 write
  param z: i32 inout
  param w: f32 inout
  param s: scalar f32
  param k: scalar i32
  param n: symbol
  tile f: f32[8, 8] near @0
  tile g: f32[8, 8] near @256
  tile h: f16[8, 8] near @512
  tile row: f32[1, 8] near @640
  tile col: f32[8, 1] near @704
  tile i: i32[8, 8] near @768
  tile ri: i32[8, 1] near @1024
  tile one: i32[1, 1] near @1088
  tile m: bool[8, 8] near @1152
  tile q: f8e4m3[8, 8] near @1216
  tile far: f32[8, 8] vec @0
  tile wide: f32[8, 16] near @1280
  tile two: f32[8, 8] near @1792 stages 2
  desc dx = x {
    row origin %3 limit n digits (_, 1)
    column digits (_, 1)
    dim n stride 8 base 0, r0 * 1
    dim 8 stride 1 base 0, c0 * 1
  }
  desc dy = y {
    row digits (_, 1)
    column digits (_, 1)
    dim n stride 8 base 0, r0 * 1
    dim 8 stride 1 base 0, c0 * 1
  }
  desc dz = z {
    row digits (_, 1)
    column digits (_, 1)
    dim n stride 8 base 0, r0 * 1
    dim 8 stride 1 base 0, c0 * 1
  }
  desc dn = near f32 {
    row digits (_, 1)
    column digits (_, 1)
    dim 8 stride 8 base 0, r0 * 1
    dim 8 stride 1 base 0, c0 * 1
  }
  HERE
}
"""


def module_of(body: str) -> Module:
    return parse(TEXT.replace("HERE", body))


def problems_of(body: str, hcd: Any = None) -> list[tuple[str, str]]:
    return [(problem.rule, problem.text) for problem in validate(module_of(body), hcd)]


GOOD = """load f, dx
  store dy, f stream
  load g, dn near=f
  store dn, g near=f
  fill g, s rows=n cols=%3
  fill m, true
  iota i base=n row=8 col=1
  un.exp f, g
  un.isnan m, f
  bin.add f, f, row
  bin.lt m, f, col
  sel f, m, f, g
  cast h, f
  cast q, h saturate
  red.add row, f axis=rows
  red.argmax ri, f axis=cols base=3
  mma g, f, two[%4] init
  trn g, f
  loop %5, n
    if %5
      sreg.add %6, %5, n
    end
  end
  sreg.arg %7, k
  sreg.tile %8, one
  sreg.grid %9 axis=2
  gather f, dx, ri dim=0
  scatter.add dz, i, ri dim=0
  scatter.set dy, f, ri dim=1
  copy far, f
  scan.max g, f axis=cols exclusive reverse
  topk f, i, wide init smallest
  rng.uniform f seed=1 base=%3"""


def test_a_program_with_every_operation_is_valid() -> None:
    assert [str(problem) for problem in validate(module_of(GOOD))] == []


BROKEN = [
    # types
    ("load h, dx", "types", "tile h is f16, descriptor dx f32"),
    ("load f, dy", "types", "buffer y is write; load needs read or inout"),
    ("store dx, f", "types", "buffer x is read; store needs write or inout"),
    ("load f, dn", "types", "addresses near tiles; name one with near="),
    ("load f, dx near=g", "types", "addresses buffer x, not a near tile"),
    ("load f, dn near=far", "types", "tile far is in vec; near= needs the space near"),
    ("load f, dn near=f", "types", "d and a are the same tile"),
    ("store dn, f near=f", "types", "d and a are the same tile"),
    ("fill q, 1.0", "types", "fill of f8e4m3"),
    ("fill m, s", "types", "cannot fill a bool tile"),
    ("iota f", "types", "iota into f32"),
    ("un.exp i, i", "types", "un.exp of i32 does not exist"),
    ("un.not f, f", "types", "un.not of f32 does not exist"),
    ("un.mov q, q", "types", "un.mov of f8e4m3 does not exist"),
    ("un.isnan f, g", "types", "un.isnan of f32 gives bool"),
    ("un.neg h, f", "types", "un.neg of f32 gives f32"),
    ("un.neg f, wide", "types", "does not broadcast to 8 x 8"),
    ("bin.add f, f, h", "types", "a is f32 and b is f16"),
    ("bin.idiv f, f, g", "types", "bin.idiv of f32 does not exist"),
    ("bin.div i, i, i", "types", "bin.div of i32 does not exist"),
    ("bin.add m, m, m", "types", "bin.add of bool does not exist"),
    ("bin.lt f, f, g", "types", "bin.lt of f32 gives bool"),
    ("bin.add row, f, row", "types", "a is 8 x 8, which does not broadcast to 1 x 8"),
    ("sel f, f, f, g", "types", "a is f32; sel chooses by bool"),
    ("sel f, m, h, g", "types", "one float, int or bool type"),
    ("red.add h, f axis=rows", "types", "red.add from f32 to f16 does not exist"),
    ("red.add col, f axis=rows", "types", "it must be 1 x 8"),
    ("red.and row, f axis=rows", "types", "red.and from f32 to f32 does not exist"),
    ("red.argmax row, f axis=rows", "types", "red.argmax from f32 to f32 does not exist"),
    ("red.add row, f axis=rows base=1", "types", "base belongs to argmax and argmin alone"),
    ("scan.add row, f axis=rows", "types", "it must be 8 x 8"),
    ("scan.add f, f axis=rows", "types", "d and a are the same tile"),
    ("mma f, h, g", "types", "mma of f16 and f32 does not exist"),
    ("mma h, f, g", "types", "mma of f32 and f32 gives f32"),
    ("mma f, wide, g", "types", "do not give 8 x 8"),
    ("mma f, f, g", "types", "d and a are the same tile"),
    ("mma m, m, m", "types", "mma of bool and bool does not exist"),
    ("trn f, wide", "types", "it must be 16 x 8"),
    ("copy h, f", "types", "a is f32 and d f16"),
    ("copy q, q", "types", "one float, int or bool type"),
    ("gather f, dx, i dim=0", "types", "it must be 8 x 1"),
    ("gather f, dx, col dim=0", "types", "the index tile is f32"),
    ("scatter.add dy, f, ri dim=0", "types", "buffer y is write; scatter needs inout"),
    ("scatter.set dx, f, ri dim=0", "types", "buffer x is read"),
    ("topk i, i, f init", "types", "one float or int type"),
    ("topk f, m, g init", "types", "the indices are bool"),
    ("rng.raw f", "types", "rng.raw gives i32"),
    ("rng.uniform i", "types", "rng.uniform gives f32"),
    ("sreg.tile %5, ri", "types", "an i32 or i64 tile of 1 x 1"),
    ("sreg.arg %5, s", "types", "allowed: i32 i64"),
    # structure
    ("sreg.mov %2, 5", "structure", "%2 holds a program id"),
    ("loop %0, 4\n  end", "structure", "%0 holds a program id"),
    ("gather f, dx, ri dim=2", "structure", "axis or dim 2; below 2"),
    ("un.exp f, g @matrix", "structure", "engine 'matrix'; un runs on vector"),
    ("load f, dn near=g @dma_in", "structure", "load runs on vector"),
    # control
    ("loop %5, 3", "control", "its end is missing"),
    ("end", "control", "end closes nothing"),
    ("loop %5, 3\n sreg.mov %5, 1\n end", "control", "%5 counts an open loop"),
    ("loop %5, 3\n loop %5, 2\n end\n end", "control", "%5 counts an open loop"),
    ("if 1\n" * 5 + "end\n" * 5, "control", "if nests 5 deep; at most 4"),
    (
        "".join(f"loop %{5 + i}, 3\n" for i in range(5)) + "end\n" * 5,
        "control",
        "loop nests 5 deep; at most 4",
    ),
]


@pytest.mark.parametrize(("body", "rule", "words"), BROKEN, ids=[item[0][:40] for item in BROKEN])
def test_each_broken_rule_is_refused(body: str, rule: str, words: str) -> None:
    found = problems_of(body)
    assert found, f"{body} passed"
    assert any(kind == rule and words in text for kind, text in found), found


def test_a_problem_names_program_line_and_instruction() -> None:
    problem = validate(module_of("un.exp i, i"))[0]
    line = TEXT[: TEXT.index("HERE")].count("\n") + 1
    assert problem.line == line
    assert str(problem).startswith(f"program p, line {line} `un.exp i, i`: ")


@pytest.mark.parametrize(
    ("body", "overlaps"),
    [
        ("load f, dx\n store dy, f\n load over, dx\n store dy, over", False),
        ("load f, dx\n load over, dx\n store dy, f\n store dy, over", True),
        # a loop that is cut by a lifetime keeps the tile alive to its end
        ("load f, dx\n loop %5, 3\n store dy, f\n load over, dx\n store dy, over\n end", True),
        ("loop %5, 3\n load f, dx\n store dy, f\n load over, dx\n store dy, over\n end", False),
        # a read before the first write carries a value from one iteration to the next
        ("loop %5, 3\n store dy, f\n load f, dx\n load over, dx\n store dy, over\n end", True),
        # a first write under a condition does not end what was there before
        (
            "loop %5, 3\nif %5\nload f, dx\nend\nstore dy, f\nload over, dx\nstore dy, over\nend",
            True,
        ),
        ("loop %5, 3\n mma f, g, wide8\n store dy, f\n load over, dx\n store dy, over\n end", True),
    ],
)
def test_overlapping_tiles_need_disjoint_lifetimes(body: str, overlaps: bool) -> None:
    text = TEXT.replace(
        "  tile wide:",
        "  tile over: f32[8, 8] near @128\n  tile wide8: f32[8, 8] near @3000\n  tile wide:",
    ).replace("HERE", body)
    found = [problem.text for problem in validate(parse(text)) if problem.rule == "overlap"]
    assert bool(found) == overlaps, found


def explicit(body: str, start: int = 0) -> list[str]:
    token = f"  token t: dma_in -> vector credits {start}\n  desc dx"
    text = TEXT.replace("program p flat", "program p explicit")
    text = text.replace("  desc dx", token, 1).replace("HERE", body)
    found = validate(parse(text), hal.hcd.load("sim/npu-small"))
    return [problem.text for problem in found if problem.rule == "tokens"]


@pytest.mark.parametrize(
    ("body", "start", "words"),
    [
        ("signal t\n wait t", 0, None),
        ("wait t", 1, None),
        ("wait t", 0, "a deadlock"),
        ("wait t\n signal t", 0, "a deadlock"),
        ("loop %5, 2\n signal t\n end", 0, "changes token t by +1"),
        ("loop %5, 2\n wait t\n end", 5, "changes token t by -1"),
        ("if 1\n signal t\n end", 0, "changes token t by +1"),
        ("loop %5, 2\n wait t\n signal t\n end", 1, None),
    ],
)
def test_tokens_are_balanced_and_never_deadlock(body: str, start: int, words: str | None) -> None:
    found = explicit(body, start)
    assert (not found) if words is None else any(words in text for text in found), found


def test_flat_programs_have_no_tokens() -> None:
    text = TEXT.replace("  desc dx", "  token t: dma_in -> vector credits 1\n  desc dx", 1)
    found = validate(parse(text.replace("HERE", "wait t")))
    assert any("no tokens" in problem.text for problem in found)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("(x, y, z, w, s, k, n)", "(x, y, z, w, s, k)", "6 arguments; the program has 7"),
        ("(x, y, z, w, s, k, n)", "(y, y, z, w, s, k, n)", "it is read, but y is write"),
        ("(x, y, z, w, s, k, n)", "(x, x, z, w, s, k, n)", "it is written, but x is read"),
        ("(x, y, z, w, s, k, n)", "(x, y, x, w, s, k, n)", "x is f32, the parameter i32"),
        ("(x, y, z, w, s, k, n)", "(w, y, z, w, s, k, n)", "w is bound twice and written"),
        ("(x, y, z, w, s, k, n)", "(x, y, z, w, n, k, n)", "a scalar takes a scalar"),
        ("(x, y, z, w, s, k, n)", "(x, y, z, w, k, k, n)", "k is i32, the parameter f32"),
        ("(x, y, z, w, s, k, n)", "(x, y, z, w, s, k, s)", "a symbol takes an expression"),
        ("grid(1)", "grid(0 - 1 + 0, 1, -3)", "a grid axis of -3"),
    ],
)
def test_launches_bind_what_parameters_need(old: str, new: str, words: str) -> None:
    found = validate(parse(TEXT.replace(old, new, 1).replace("HERE", "load f, dx")))
    assert any(words in problem.text for problem in found), [str(each) for each in found]


def test_store_that_ignores_a_tile_axis_is_refused() -> None:
    body = "store dy, f"
    text = TEXT.replace(
        "dim n stride 8 base 0, r0 * 1\n    dim 8 stride 1 base 0, c0 * 1",
        "dim n stride 8 base 0, r0 * 1\n    dim 8 stride 1 base 0",
    )
    found = validate(parse(text.replace("HERE", body)))
    assert any("ignores the columns of f" in problem.text for problem in found)


# --- objects that no text or image can give ------------------------------------------------------


def with_instruction(item: Instruction) -> list[str]:
    module = module_of("load f, dx")
    program = replace(module.programs[0], instructions=(item,))
    return [problem.text for problem in validate(program)]


@pytest.mark.parametrize(
    ("item", "words"),
    [
        (Instruction("nop"), "operation 'nop'"),
        (Instruction("un", "sqrtt", "vector"), "function 'sqrtt'"),
        (Instruction("un", "exp", "vector", d=TileRef(0)), "tile a is missing"),
        (Instruction("un", "exp", "vector", d=TileRef(0), a=TileRef(99)), "tile a: 99 of 13"),
        (Instruction("un", "exp", "vector", d=TileRef(0), a=TileRef(1), b=TileRef(1)), "no tile b"),
        (Instruction("load", "", "dma_in", d=TileRef(0), x=17), "descriptor 17 of 4"),
        (Instruction("loop", "", "scalar", x=5), "v0 is missing"),
        (Instruction("end", "", "scalar", x=5), "end has no x"),
        (Instruction("end", "", "scalar", flags=frozenset(["init"])), "end has no flag init"),
        (Instruction("end", "", "scalar", axis=1), "axis or dim 1"),
        (
            Instruction("if", "", "scalar", values=(SReg(77), None, None, None)),
            "%77 of 12 SREGs",
        ),
        (Instruction("fill", "", "vector", d=TileRef(0)), "either a constant or a scalar"),
        (Instruction("fill", "", "vector", d=TileRef(5), constant=1.5), "does not fit i32"),
        (Instruction("fill", "", "vector", d=TileRef(0), parameter=0), "x is not a scalar"),
    ],
)
def test_malformed_instructions_are_refused(item: Instruction, words: str) -> None:
    found = with_instruction(item)
    assert any(words in text for text in found), found


@pytest.mark.parametrize(
    ("table", "change", "words"),
    [
        ("tiles", {"rows": 0}, "rows and columns are 1 to 2^20"),
        ("tiles", {"stages": 65}, "65 stages"),
        ("tiles", {"space": "global"}, "space 'global'"),
        ("tiles", {"layout": "panel"}, "panel 0 with layout panel"),
        ("tiles", {"panel": 3}, "panel 3 with layout row"),
        ("tiles", {"panel": 2000}, "panel 2000 with layout row"),
        ("tiles", {"layout": "panel", "panel": 2000}, "panel 2000 with layout panel"),
        ("tiles", {"name": "g"}, "two are called g"),
        ("tiles", {"name": "9"}, "'9' is not a name"),
        ("tiles", {"offset": 2**32}, "at most 2^32"),
        ("descriptors", {"param": "s"}, "s is not a buffer parameter"),
        ("descriptors", {"dtype": dtypes.f16}, "dtype f16, but x holds f32"),
        ("descriptors", {"dimensions": ()}, "0 dimensions"),
        ("params", {"access": "rw"}, "access 'rw'"),
        ("params", {"kind": "thing"}, "kind 'thing'"),
    ],
)
def test_malformed_tables_are_refused(table: str, change: dict[str, Any], words: str) -> None:
    program = module_of("load f, dx").programs[0]
    items = getattr(program, table)
    program = replace(program, **{table: (replace(items[0], **change), *items[1:])})
    found = [problem.text for problem in validate(program)]
    assert any(words in text for text in found), found


def test_a_binding_is_one_thing() -> None:
    module = module_of("load f, dx")
    kernel = module.kernels[0]
    launch = kernel.launches[0]
    launch = replace(launch, bindings=(Binding(), *launch.bindings[1:]))
    module = replace(module, kernels=(replace(kernel, launches=(launch,)),))
    assert any("one of argument" in problem.text for problem in validate(module))


# --- the chip ------------------------------------------------------------------------------------


def chip(**changes: Any) -> dict[str, Any]:
    data = hal.hcd.load("hal/cpu").data
    data["kernels"]["vil"].update(changes)
    return data


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"granule_rows": 16}, "8 rows; the chip takes 1 or a multiple of 16"),
        ({"granule_columns": 16}, "8 columns; the chip takes 1 or a multiple of 16"),
        ({"max_columns": 8}, "16 columns; the chip takes at most 8"),
        ({"max_tile_bytes": 256}, "512 bytes; the chip takes at most 256"),
        ({"max_tiles": 12}, "13 tiles; the chip has at most 12"),
        ({"max_instructions": 3}, "instructions; the chip has at most 3"),
        ({"registers_per_program": 11}, "12 SREGs; the chip has at most 11"),
        ({"features": []}, "needs the feature near_descriptors"),
        ({"features": ["near_descriptors"]}, "needs the feature sreg_from_tile"),
        ({"ops": []}, "the chip has no load"),
    ],
)
def test_a_chip_refuses_what_it_lacks(changes: dict[str, Any], words: str) -> None:
    found = [text for rule, text in problems_of(GOOD, chip(**changes)) if rule == "chip"]
    assert any(words in text for text in found), found


def test_a_row_of_ops_limits_functions_and_types() -> None:
    data = chip()
    rows = [row for row in data["kernels"]["vil"]["ops"] if row["op"] != "bin"]
    rows.append({"id": "only", "op": "bin", "functions": ["add"], "dtypes": ["i32"]})
    data["kernels"]["vil"]["ops"] = rows
    found = [text for _, text in problems_of("bin.add f, f, g\n bin.sub i, i, i", data)]
    assert found == [
        "f32 is not among the chip's types of bin (row only)",
        "function sub is not in the chip's rows of bin",
    ]


def test_explicit_spaces_are_checked_and_flat_ones_are_not() -> None:
    npu = hal.hcd.load("sim/npu-small")
    body = "mma g, f, two init"
    assert problems_of(body, npu) == []
    text = TEXT.replace("program p flat", "program p explicit").replace("HERE", body)
    found = [problem.text for problem in validate(parse(text), npu)]
    assert found == ["tile two is in near; row mma takes mma_b"] or any(
        "is in near; row mma takes" in each for each in found
    )


def test_vil_core_refuses_explicit_programs() -> None:
    text = TEXT.replace("program p flat", "program p explicit").replace("HERE", "load f, dx")
    found = [problem.text for problem in validate(parse(text))]
    assert "an explicit program; the chip runs flat ones alone" in found


def test_a_description_without_vil_is_an_error() -> None:
    with pytest.raises(VilError, match=r"no section kernels\.vil"):
        validate(module_of("load f, dx"), {"kernels": {}})


@pytest.mark.parametrize("name", [None, *CHIPS])
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_generated_programs_are_valid_and_run(name: str | None, data: Any) -> None:
    chip_ = hal.hcd.load(name) if name else None
    case: Case = data.draw(cases(Limits.of(chip_), exact=False))
    assert [str(problem) for problem in validate(case.module, chip_)] == []
    hal.vil.evaluate(case.module, case.kernel, case.arguments)


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(cases())
def test_serialised_programs_have_balanced_tokens_and_the_same_results(case: Case) -> None:
    programs = tuple(serialise(program) for program in case.module.programs)
    module = replace(case.module, programs=programs)
    assert [problem for problem in validate(module) if problem.rule == "tokens"] == []
    want = hal.vil.evaluate(case.module, "main", case.arguments)
    got = hal.vil.evaluate(module, "main", case.arguments)
    assert all(want[name].tobytes() == got[name].tobytes() for name in want)
