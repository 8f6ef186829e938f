"""The proof of the barriers: values stay, no run races, and each token is needed.

The simulated chip follows happens-before clocks, so a token that is missing shows on every run that
takes its path, whatever the engines' speed.
"""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from hal.codegen.barriers import Barrier
from hal.codegen.explicit import explicit, explicit_program
from hal.codegen.spaces_chip import Chip as Description
from hal.errors import HalError
from hal.vil.check_chip import Limits
from hal.vil.evaluator import evaluate
from hal.vil.expressions import as_expr
from hal.vil.generate import Case, Choices, generate
from hal.vil.module import Module
from hal.vil.validator import validate
from tests.codegen.explicit.port import Arrays, Chip, with_credits, with_program, without_token
from tests.codegen.explicit.programs import SAMPLES, Sample

RANDOM_PROGRAMS = 12
PATHS = 40

samples = pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
seeds = pytest.mark.parametrize("seed", range(RANDOM_PROGRAMS))


def assert_same(actual: Arrays, expected: Arrays) -> None:
    """Every written buffer holds the same bits; NaNs may have other payloads."""
    assert list(actual) == list(expected)
    for name, array in expected.items():
        got = actual[name].astype(np.float64)
        assert np.array_equal(got, array.astype(np.float64), equal_nan=True), name


@samples
def test_values_are_those_of_the_flat_program(chip: Chip, sample: Sample) -> None:
    flat = sample.build()
    turned = explicit(flat, chip.hcd)
    assert validate(turned, chip.hcd) == []
    assert {program.profile for program in turned.programs} == {"explicit"}
    for arguments in sample.arguments():
        assert_same(evaluate(turned, "main", arguments), evaluate(flat, "main", arguments))
        assert_same(chip.run(turned, arguments), chip.run(flat, arguments))


@samples
def test_each_token_that_is_deleted_is_a_race(chip: Chip, sample: Sample) -> None:
    turned = explicit(sample.build(), chip.hcd)
    runs = sample.arguments()
    for program in turned.programs:
        for token, entry in enumerate(program.tokens):
            deleted = without_token(turned, program.name, token)
            raced = any(chip.races(deleted, arguments) for arguments in runs)
            assert raced, f"{program.name}: token {entry.name} is implied by the others"


@samples
def test_one_credit_too_many_is_a_race(chip: Chip, sample: Sample) -> None:
    turned = explicit(sample.build(), chip.hcd)
    runs = sample.arguments()
    for program in turned.programs:
        for token, entry in enumerate(program.tokens):
            if entry.credits:
                loose = with_credits(turned, program.name, token, 1)
                raced = any(chip.races(loose, arguments) for arguments in runs)
                assert raced, f"{program.name}: token {entry.name} may have one credit more"


# ---- random programs ----


def random_case(chip: Chip, seed: int) -> tuple[Case, Module, tuple[Barrier, ...]]:
    """A random flat program that the chip could run, and its explicit form."""
    limits = replace(Limits.of(chip.hcd), explicit=False)
    case = generate(Choices(seed), limits, steps=25)
    flat = case.module.program("generated")
    program, barriers = explicit_program(
        flat, Description.of(chip.hcd), chip.hcd, case.module.kernels
    )
    return case, with_program(case.module, program), barriers


def on_path(module: Module, path: int) -> Module:
    """The module with other counts of its LOOPs and other outcomes of its IFs.

    The first paths are all or nothing; the others are drawn.
    """
    program = module.program("generated")
    plain = [(3, 1), (3, 0), (1, 1), (0, 1), (0, 0)]
    source = random.Random(path)
    changed = []
    for item in program.instructions:
        if item.op in ("loop", "if"):
            count, taken = source.choice([0, 1, 3]), source.choice([0, 1])
            if path < len(plain):
                count, taken = plain[path]
            first = as_expr(count if item.op == "loop" else taken)
            item = replace(item, values=(first, *item.values[1:]))
        changed.append(item)
    return with_program(module, replace(program, instructions=tuple(changed)))


@seeds
def test_random_programs_keep_their_values(chip: Chip, seed: int) -> None:
    case, turned, _ = random_case(chip, seed)
    wanted = evaluate(case.module, "main", case.arguments)
    assert_same(evaluate(turned, "main", case.arguments), wanted)
    assert_same(chip.run(turned, case.arguments), wanted)


@seeds
def test_random_programs_race_on_no_path_and_need_each_token(chip: Chip, seed: int) -> None:
    """Tokens for what may overlap and does not in truth are left out: no run can show them."""
    case, turned, barriers = random_case(chip, seed)
    for path in range(8):
        assert not chip.races(on_path(turned, path), case.arguments)
    certain = {each.token for each in barriers} - {b.token for b in barriers if not b.is_certain}
    for token in certain:
        deleted = without_token(turned, "generated", token)
        raced = any(chip.races(on_path(deleted, path), case.arguments) for path in range(PATHS))
        assert raced, deleted.program("generated").tokens


def test_a_flat_chip_is_refused_with_the_reason() -> None:
    from hal.hcd import load

    with pytest.raises(HalError, match=r"codegen\.explicit: the chip's profile is flat\. Run"):
        explicit(SAMPLES[0].build(), load("nvidia/a100-sxm-80gb"))
