"""Chains of the cpu port: row by row in registers, operations give what they give one by one.

Values are small whole numbers, so that every order of a sum gives the same bits.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

import hal.vil
from hal.device import Device
from hal.vil.module import Module
from tests.ports.cpu_sets import launch

FULL, COLUMN = ("t0", "t1", "t2"), ("c0", "c1")


def moves(name: str, buffer: str, rows: int, columns: int, base: int) -> str:
    """A descriptor of a block of a buffer that starts at element `base`."""
    return f"""  desc {name} = {buffer} {{
    row limit {rows} digits (_, 1)
    column limit {columns} digits (_, 1)
    dim {base + rows * columns} stride 1 base {base}, r0 * {columns}, c0 * 1
  }}
"""


def program(body: list[str], rows: int, columns: int, room: tuple[int, int]) -> Module:
    """A program that loads x and w, runs the body and stores all tiles; `room` are the tiles'."""
    size = rows * columns
    parts = [*FULL, *COLUMN]
    tiles = [f"  tile {name}: f32[{room[0]}, {room[1]}] near @{n * room[0] * room[1] * 4}"
             for n, name in enumerate((*FULL, "s"))]  # fmt: skip
    at = 4 * room[0] * room[1] * 4
    tiles += [f"  tile {name}: f32[{room[0]}, 1] near @{at + n * room[0] * 64}"
              for n, name in enumerate(COLUMN)]  # fmt: skip
    at += 2 * room[0] * 64
    tiles += [
        f"  tile v: f32[1, {room[1]}] near @{at}",
        f"  tile one: f32[1, 1] near @{at + 4 * room[1] + 64}",
    ]
    descriptors = moves("from_x", "x", rows, columns, 0) + moves("from_w", "w", 1, columns, 0)
    descriptors += moves("to_s", "out", rows, columns, len(parts) * size)
    descriptors += "".join(
        moves(f"to_{name}", "out", rows, columns, n * size) for n, name in enumerate(parts)
    )
    last = []
    for name in FULL:
        last.append(f"store to_{name}, {name}")
    for name in COLUMN:
        last += [f"bin.add s, {name}, v", f"store to_{name}, s"]
    start = ["fill one, 3.0", *(f"load {name}, from_x" for name in FULL), "load v, from_w"]
    start += ["red.max c0, t0 axis=cols", "red.min c1, t1 axis=cols"]
    text = "\n  ".join([*start, *body, "loop %4, 1", *last, "end"])
    lines = "\n".join(tiles)
    return hal.vil.parse(f"""vil 1.0
kernel main {{
  arg x: f32 read bytes {4 * size}
  arg w: f32 read bytes {4 * columns}
  arg out: f32 write bytes {4 * size * (len(parts) + 1)}
  launch work grid(1) (x, w, out)
}}
program work flat {{
  param x: f32 read
  param w: f32 read
  param out: f32 write
{lines}
{descriptors}  {text}
}}
""")


def step(rng: random.Random) -> str:
    """One operation of a chain; values stay small whole numbers."""
    kind = rng.random()
    full = rng.choice(FULL)
    if kind < 0.2:
        return f"un.{rng.choice(['neg', 'abs', 'mov'])} {full}, {rng.choice(FULL)}"
    if kind < 0.4:
        return f"red.{rng.choice(['add', 'max', 'min'])} {rng.choice(COLUMN)}, {full} axis=cols"
    if kind < 0.5:
        return f"bin.{rng.choice(['add', 'max'])} {rng.choice(COLUMN)}, c0, c1"
    sides = [rng.choice(FULL), rng.choice([*FULL, *COLUMN, "v", "one"])]
    rng.shuffle(sides)
    return f"bin.{rng.choice(['add', 'sub', 'max', 'min'])} {full}, {sides[0]}, {sides[1]}"


def body_of(rng: random.Random) -> list[str]:
    """Straight operations, some of them in a loop or under a condition, and a store between."""
    body = [step(rng) for _ in range(rng.randint(2, 7))]
    for head in rng.sample(["loop %3, 2", "if 1", "loop %3, 0"], rng.randint(0, 2)):
        body += [head, *(step(rng) for _ in range(rng.randint(2, 6))), "end"]
    body.insert(rng.randint(0, len(body)), f"store to_s, {rng.choice(FULL)} stream")
    return body


def given(rows: int, columns: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    """x, w and an empty target."""
    rng = np.random.default_rng(seed)
    x = rng.integers(-2, 3, (rows, columns)).astype(np.float32)
    w = rng.integers(-2, 3, columns).astype(np.float32)
    return x, w, np.zeros((6, rows, columns), np.float32)


@pytest.mark.parametrize("seed", range(40))
def test_a_random_chain_gives_what_its_operations_give(
    fast: Device, plain: Device, seed: int
) -> None:
    rng = random.Random(seed)
    rows, columns = rng.choice([(33, 64), (40, 203), (7, 512), (1, 4096), (9, 260)])
    room = (rows + rng.choice([0, 3]), columns + rng.choice([0, 5]))
    module = program(body_of(rng), rows, columns, room)
    x, w, out = given(rows, columns, seed)
    want = launch(plain, module, x, w, out=out)
    got = launch(fast, module, x, w, out=out)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_special_values_pass_through_a_chain(fast: Device, plain: Device, value: float) -> None:
    body = ["bin.max t0, t0, v", "red.max c0, t0 axis=cols", "red.min c1, t0 axis=cols",
            "bin.min t1, c0, t0", "un.exp t2, t1"]  # fmt: skip
    module = program(body, 12, 203, (12, 203))
    x, w, out = given(12, 203, 1)
    x[3, 7] = x[4, 202] = value
    w[100] = value
    want = launch(plain, module, x, w, out=out)
    got = launch(fast, module, x, w, out=out)
    np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.parametrize(("rows", "columns"), [(40, 203), (3, 4096), (64, 64), (2, 5000)])
def test_a_softmax_keeps_the_law(fast: Device, rows: int, columns: int) -> None:
    body = ["red.max c0, t0 axis=cols", "bin.sub t1, t0, c0", "un.exp t1, t1",
            "red.add c0, t1 axis=cols", "bin.div t0, t1, c0"]  # fmt: skip
    module = program(body, rows, columns, (rows, columns))
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((rows, columns)) * 20).astype(np.float32)
    got = launch(
        fast, module, x, np.zeros(columns, np.float32), out=np.zeros((6, rows, columns), np.float32)
    )
    power = np.exp((x - x.max(1, keepdims=True)).astype(np.float64))
    want = power / power.sum(1, keepdims=True)
    np.testing.assert_allclose(got[0], want, rtol=2e-6, atol=1e-38)
    np.testing.assert_allclose(got[1], power, rtol=1e-6, atol=1e-38)
