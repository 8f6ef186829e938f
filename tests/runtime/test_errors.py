"""The exceptions: one for each status, with call, problem, device and next step."""

from __future__ import annotations

import pickle

import pytest

from hal import errors
from hal._generated.constants import Status

CAMEL = {"VERSION": "VersionMismatch"}


@pytest.mark.parametrize("status", [s for s in Status if s != Status.OK], ids=lambda s: s.name)
def test_each_status_has_an_exception_named_after_it(status: Status) -> None:
    expected = CAMEL.get(status.name, status.name.replace("_", " ").title().replace(" ", ""))
    made = errors.from_status(status)
    assert (type(made).__name__, made.status) == (expected, status)


def test_the_message_names_call_problem_device_and_next_step() -> None:
    made = errors.OutOfMemory("no free block of 4 bytes", call="memory.alloc", device="acme:0")
    expected = (
        "memory.alloc: no free block of 4 bytes (acme:0). Free buffers, or call device.pool.trim()."
    )
    assert str(made) == expected


def test_the_message_of_failed_work_names_its_operation() -> None:
    made = errors.from_status(Status.EXECUTION_FAILED, "boom", operation_id=3)
    assert str(made).startswith("boom, first at operation 3 of its stream. ")


def test_a_status_that_the_abi_lacks_is_the_ports_fault() -> None:
    made = errors.from_status(-77, call="memory.free")
    assert (type(made), made.status) == (errors.Internal, -77)
    assert "the status -77, which the ABI does not know" in str(made)


@pytest.mark.parametrize(
    "error",
    [
        errors.from_status(-10, "boom", call="stream.query", operation_id=3, device="acme:0"),
        errors.HcdError("wrong", call="a.yaml", problems=["a.yaml:1:1: x", "a.yaml:2:1: y"]),
        errors.PortLoadError("none", reasons=["one", "two"]),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_exception_comes_whole_from_another_process(error: errors.HalError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))


def test_exceptions_are_what_python_expects_of_their_kind() -> None:
    bases = {
        errors.OutOfMemory: MemoryError,
        errors.InvalidValue: ValueError,
        errors.OutOfRange: IndexError,
        errors.NotFound: LookupError,
    }
    assert [kind for kind, base in bases.items() if not issubclass(kind, base)] == []
