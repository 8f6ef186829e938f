"""The pytest fixtures that cases share, as one plugin.

| fixture | what it is |
|---|---|
| `raw` | the port without layers (`hal.testing.raw.Raw`), opened once a process |
| `device` | a raw handle of the device, new for each case; closed and checked for leaks |
| `rig` | `raw` and `device` with short-cuts (`hal.testing.rig.Rig`) |
| `layer` | a `Rig` over the validate layer, with a device of its own: for host rules |
| `stack` | a `Rig` over all layers that users have: what the port lacks is emulated |
| `unstarted`, `unstarted_layer` | a copy of the port, loaded and not started |
| `faulty` | `faulty(kernel=2)`: a `Rig` on a copy of the port with that fault asked for |
| `port`, `dev`, `stream` | the Python objects of `import hal` on the same port |
| `hcd` | what the HCD claims (`Hcd`) |
| `numerics` | what the HCD declares weaker, for `close` |
| `soak` | rounds of a long case: at least some, then until its share of `--budget` is over |
| `rng` | NumPy's generator, seeded by case id, suite, run seed and nonce |
| `vil` | VIL text to image bytes |
| `lab` | `rig` for programs: load, run, guard (`hal.testing.compute.Lab`) |
| `capability` | `capability("features.peer")`: go on only when the chip has it |
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from _pytest.outcomes import Skipped

from hal.testing import record, seeds
from hal.testing import session as sessions
from hal.testing.capability import capability as hear_witnesses
from hal.testing.capability import is_claimed
from hal.testing.case import ATTRIBUTE
from hal.testing.raw import CLOSE_TIMEOUT_NS, Raw, open_target
from hal.testing.rig import LONG_NS, Rig, check_health, in_use_bytes

if TYPE_CHECKING:
    import numpy as np

    from hal.testing.compute import Lab
    from hal.testing.session import Session
    from hal.testing.tolerance import Numerics

__all__ = ["Hcd", "settings"]


class Hcd:
    """What the chip's HCD claims, by path of the flat form."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def claims(self, path: str) -> bool:
        """Tell whether a feature is true or a type's compute is not none."""
        return is_claimed(self._session, path)

    def text(self, path: str, default: str = "") -> str:
        """Return a value as text."""
        return self._session.flat.get(path, default)

    def number(self, path: str, default: float = 0) -> int:
        """Return a value as an integer."""
        return int(float(self._session.flat.get(path, default)))

    def items(self, path: str) -> list[Any]:
        """Return a list of scalars; empty when the HCD has none."""
        value = json.loads(self._session.flat.get(path, "[]"))
        return list(value)

    def below(self, prefix: str) -> dict[str, str]:
        """Return all paths that start with `prefix.`, and their values."""
        flat = self._session.flat
        return {path: value for path, value in flat.items() if path.startswith(prefix + ".")}


@pytest.fixture(scope="session")
def settings() -> Session:
    """The run's settings: target, device index, seed and nonce."""
    return sessions.current()


@pytest.fixture(scope="session")
def hcd(settings: Session) -> Hcd:
    """What the HCD claims."""
    return Hcd(settings)


@pytest.fixture(scope="session")
def numerics(settings: Session) -> Numerics:
    """What the HCD declares weaker; pass it to `close`."""
    from hal.testing.tolerance import Numerics

    return Numerics.of(settings.flat)


@pytest.fixture
def rng() -> np.random.Generator:
    """The case's own random numbers."""
    return seeds.generator(record.current().seed)


@pytest.fixture
def soak(settings: Session) -> Callable[[int], Iterator[int]]:
    """`for number in soak(200)`: at least 200 rounds, more while the case's time lasts.

    What a case finds never depends on how many there were beyond those.
    """

    def rounds(least: int) -> Iterator[int]:
        end = time.monotonic() + settings.soak_s
        for number in itertools.count():
            if number >= least and time.monotonic() >= end:
                return
            yield number

    return rounds


def _close(raw: Raw) -> None:
    """Close a port at the end of a process; a port that cannot end fails the case."""
    status = raw.close(CLOSE_TIMEOUT_NS)
    assert status == 0, f"port.shutdown answered {status} after the case"


@pytest.fixture(scope="session")
def raw(settings: Session) -> Iterator[Raw]:
    """The port with no layer (with the mutate layer under a mutant)."""
    port = open_target(settings.target, broken_rule=settings.broken_rule)
    yield port
    _close(port)


@pytest.fixture(scope="session")
def _layer_port(settings: Session) -> Iterator[Raw]:
    port = open_target(
        settings.target,
        layers=("validate",),
        broken_rule=settings.broken_rule,
        skipped_rule=settings.skipped_rule,
    )
    yield port
    _close(port)


def _with_device(port: Raw, index: int) -> Iterator[int]:
    """Open a device; at the end of the case clean up, look for leaks and close it."""
    out = port.out("hal_device")
    port.ok("device.open", index, out)
    device = int(out[0])
    assert device != 0, "device.open answered OK and gave no handle (HAL-DEV-004)"
    before, bad = in_use_bytes(port, device), port.bad_statuses
    yield device
    if not port.owns("device.close", device):
        assert port.clean() == []
        return
    problems = port.clean(keep=device)
    idle = port.call("device.synchronize", device, LONG_NS)
    if idle != 0:
        problems.append(f"device.synchronize answered {idle} after the case")
    after = in_use_bytes(port, device)
    if after != before:
        problems.append(f"{after - before} bytes stay in use after the case (HAL-ABI-009)")
    if port.bad_statuses > bad and not problems:
        check_health(port, device)
    port.ok("device.close", device, CLOSE_TIMEOUT_NS)
    assert problems == []


@pytest.fixture
def unstarted(settings: Session) -> Iterator[Raw]:
    """A copy of the port that is loaded and not started: for cases of init and shutdown."""
    port = open_target(settings.target, init=False, broken_rule=settings.broken_rule)
    yield port
    _close(port)


@pytest.fixture
def unstarted_layer(settings: Session) -> Iterator[Raw]:
    """The same under the validate layer."""
    port = open_target(
        settings.target,
        layers=("validate",),
        init=False,
        broken_rule=settings.broken_rule,
        skipped_rule=settings.skipped_rule,
    )
    yield port
    _close(port)


@pytest.fixture
def faulty(settings: Session) -> Iterator[Callable[..., Rig]]:
    """`faulty(kernel=2)`: a copy of the port started with the option `fault_kernel=2`, its device.

    Only a port that claims `features.fault_injection` knows these options.
    """
    opened: list[Raw] = []

    def start(**faults: int) -> Rig:
        lines = [f"fault_{name}={value}" for name, value in faults.items()]
        options = "\n".join([*settings.target.options.splitlines(), *lines])
        target = replace(settings.target, options=options)
        port = open_target(target, broken_rule=settings.broken_rule)
        opened.append(port)
        out = port.out("hal_device")
        port.ok("device.open", settings.device_index, out)
        return Rig(port, int(out[0]), settings.device_index)

    yield start
    for port in opened:
        _close(port)


@pytest.fixture
def device(raw: Raw, settings: Session) -> Iterator[int]:
    """A raw handle of the device under test."""
    yield from _with_device(raw, settings.device_index)


@pytest.fixture
def rig(raw: Raw, device: int, settings: Session) -> Rig:
    """The raw port and the device, with short-cuts."""
    return Rig(raw, device, settings.device_index)


@pytest.fixture
def lab(rig: Rig, settings: Session) -> Lab:
    """The raw port as programs see it."""
    from hal.testing.compute import Lab

    return Lab(rig, settings.flat)


@pytest.fixture
def _layer_device(_layer_port: Raw, settings: Session) -> Iterator[int]:
    yield from _with_device(_layer_port, settings.device_index)


@pytest.fixture
def layer(_layer_port: Raw, _layer_device: int, settings: Session) -> Rig:
    """The port under the validate layer, with a device of its own."""
    return Rig(_layer_port, _layer_device, settings.device_index, is_layer=True)


@pytest.fixture(scope="session")
def _stack_port(settings: Session) -> Iterator[Raw]:
    port = open_target(
        settings.target, layers=("validate", "emulate"), broken_rule=settings.broken_rule
    )
    yield port
    _close(port)


@pytest.fixture
def _stack_device(_stack_port: Raw, settings: Session) -> Iterator[int]:
    yield from _with_device(_stack_port, settings.device_index)


@pytest.fixture
def stack(_stack_port: Raw, _stack_device: int, settings: Session) -> Rig:
    """The port under all layers that users have: what it lacks is emulated."""
    return Rig(_stack_port, _stack_device, settings.device_index)


@pytest.fixture(scope="session")
def port(settings: Session) -> Iterator[Any]:
    """The port as a Python object, with the layers that every user has."""
    import hal

    layers = ["validate", "emulate", *(["mutate"] if settings.broken_rule else [])]
    target = settings.target
    loaded = hal.load_port(
        target.spec,
        hcd=target.hcd_name or None,
        layers=tuple(layers),
        break_rule=settings.broken_rule or "",
    )
    yield loaded
    loaded.close()


@pytest.fixture
def dev(port: Any, settings: Session) -> Iterator[Any]:
    """The device as a Python object."""
    with port.device(settings.device_index) as opened:
        yield opened


@pytest.fixture
def stream(dev: Any) -> Any:
    """A stream of `dev`."""
    return dev.stream()


@pytest.fixture(scope="session")
def vil() -> Callable[[str], bytes]:
    """Turn VIL text into the bytes of a module image."""
    import hal.vil

    def assemble(text: str) -> bytes:
        return bytes(hal.vil.encode(hal.vil.parse(text)))

    return assemble


@pytest.fixture
def capability(raw: Raw, device: int, settings: Session) -> Callable[[str], None]:
    """Let the case go on only when the chip has a capability."""

    def need(path: str) -> None:
        hear_witnesses(raw, device, settings, path)

    return need


@pytest.fixture(autouse=True)
def _needs(request: pytest.FixtureRequest) -> None:
    """Hear the witnesses for what the case's decorator says that it needs."""
    found = getattr(request.function, ATTRIBUTE, None)
    for path in found.needs if found is not None else ():
        try:
            request.getfixturevalue("capability")(path)
        except record.CapabilityAbsent as absent:
            raise _AbsentAtSetup(absent.capability, absent.witnesses) from None


class _AbsentAtSetup(record.CapabilityAbsent, Skipped):
    """What a fixture raises: pytest puts a fixture in order only behind outcomes that it knows."""
