"""Explicit programs for the small example chip: engines that meet at tokens."""

from __future__ import annotations

PIPELINE = """vil 1.0
kernel main {
  arg N: symbol
  arg X: f32 read bytes 4 * N
  arg Y: f32 write bytes 4 * N
  launch main grid(1) (X, Y, N)
}
program main explicit sregs 4 {
  param X: f32 read
  param Y: f32 write
  param N: symbol
  tile x: f32[8, 64] near @0 stages 2
  tile y: f32[8, 64] near @8192 stages 2
  token filled: dma_in -> vector credits 0
  token used: vector -> dma_in credits 2
  token made: vector -> dma_out credits 0
  token kept: dma_out -> vector credits 2
  desc dx = X {
    row origin 0 digits (_, 1)
    column origin 0 digits (_, 1)
    dim N stride 1 base 0, %3 * 512, r0 * 64, c0 * 1
  }
  desc dy = Y {
    row origin 0 digits (_, 1)
    column origin 0 digits (_, 1)
    dim N stride 1 base 0, %3 * 512, r0 * 64, c0 * 1
  }
  loop %3, ceildiv(N, 512)
    wait used
    load x[%3], dx
    signal filled
    wait filled
    wait kept
    un.neg y[%3], x[%3]
    signal used
    signal made
    wait made
    store dy, y[%3]
    signal kept
  end
}
"""
"""Y = −X over blocks of 512 with two stages: load, negation and store overlap."""


def without(text: str, *lines: str) -> str:
    """Drop the first line that reads so, for each of `lines`."""
    kept = text.splitlines()
    for line in lines:
        kept.remove(f"    {line}")
    return "\n".join(kept) + "\n"
