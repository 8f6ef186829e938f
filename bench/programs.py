"""The device and the small programs that the subjects run."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

DEVICE = os.environ.get("HAL_BENCH_DEVICE", "cpu:0")

ADD = """vil 1.0
kernel add {
  arg a: f32 read bytes 256
  arg b: f32 read bytes 256
  arg out: f32 write bytes 256
  launch add grid(1) (a, b, out)
}
program add flat {
  param a: f32 read
  param b: f32 read
  param out: f32 write
  tile x: f32[1, 64] near @0
  tile y: f32[1, 64] near @256
  desc from_a = a {
    column limit 64 digits (_, 1)
    dim 64 stride 1 base 0, c0 * 1
  }
  desc from_b = b {
    column limit 64 digits (_, 1)
    dim 64 stride 1 base 0, c0 * 1
  }
  desc to_out = out {
    column limit 64 digits (_, 1)
    dim 64 stride 1 base 0, c0 * 1
  }
  load x, from_a
  load y, from_b
  bin.add x, x, y
  store to_out, x
}
"""
"""out = a + b for 64 floats: a kernel so small that only its launch costs."""


@cache
def device() -> Any:
    """Open the device that is measured; it stays open until the process ends."""
    import hal

    return hal.open(DEVICE)


@cache
def add_kernel() -> Any:
    """Load the kernel `add` on the device."""
    import hal.vil

    return device().load(hal.vil.parse(ADD))["add"]
