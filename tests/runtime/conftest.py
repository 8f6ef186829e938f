"""Devices of both ports that come with the SDK, and a kernel that adds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import hal
from hal import dtypes
from hal.vil.recipes import elementwise

PORTS = ("cpu", "sim")


@pytest.fixture(params=PORTS)
def device(request: pytest.FixtureRequest) -> Iterator[hal.Device]:
    """An open device of each port in turn."""
    with hal.open(request.param) as opened:
        yield opened


@pytest.fixture
def cpu() -> Iterator[hal.Device]:
    """The processor as a device, for what only it does."""
    with hal.open("cpu") as opened:
        yield opened


@pytest.fixture
def stream(device: hal.Device) -> hal.Stream:
    """A stream of `device`."""
    return device.stream()


@pytest.fixture
def add(device: hal.Device) -> hal.Kernel:
    """Y[M, N] = X0 + X1 in f32: arguments M, N, X0, X1, Y."""
    image = elementwise("bin", "add", [dtypes.f32, dtypes.f32], dtypes.f32)
    return device.load(image)["main"]


@pytest.fixture
def gate(device: hal.Device, stream: hal.Stream) -> Iterator[hal.Event]:
    """A host event that holds `stream` back until it is signalled; signalled at the end."""
    event = device.event(host=True)
    stream.wait(event)
    yield event
    if not event.query():
        event.signal()
    stream.synchronize(timeout_s=10)


def message(caught: pytest.ExceptionInfo[Any]) -> str:
    """The whole text of a caught exception."""
    return str(caught.value)
