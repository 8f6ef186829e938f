"""Ports in Python that are right, or wrong in one thing each; tests load them from this file."""

from __future__ import annotations

import threading

import numpy as np

from hal.errors import OutOfMemory, OutOfRange
from hal.testing import PythonPort


class Plain(PythonPort):
    def alloc(self, device: int, length: int, alignment: int) -> bytearray:
        return bytearray(length)

    def free(self, memory: bytearray) -> None:
        memory.clear()

    def write(self, memory: bytearray, offset: int, data: bytes) -> None:
        memory[offset : offset + len(data)] = data

    def read(self, memory: bytearray, offset: int, length: int) -> bytearray:
        return memory[offset : offset + length]


class Seen(Plain):
    """The host may touch its memory."""

    def alloc(self, device: int, length: int, alignment: int) -> np.ndarray:
        room = np.zeros(length + 64, np.uint8)
        start = -room.ctypes.data % 64
        return room[start : start + length]

    def free(self, memory: np.ndarray) -> None:
        memory[:] = 0

    def write(self, memory: np.ndarray, offset: int, data: bytes) -> None:
        memory[offset : offset + len(data)] = np.frombuffer(data, np.uint8)

    def view(self, memory: np.ndarray) -> np.ndarray:
        return memory


class Two(Plain):
    runtime = "Two 1.0"

    def device_count(self) -> int:
        return 2

    def device_name(self, device: int) -> str:
        return ("first", "second")[device]

    def memory_bytes(self, device: int) -> int:
        return (1 << 20, 2 << 20)[device]


class Threads(Plain):
    """Fails when two methods run at once."""

    def __init__(self) -> None:
        self.inside = threading.Lock()

    def write(self, memory: bytearray, offset: int, data: bytes) -> None:
        assert self.inside.acquire(blocking=False)
        super().write(memory, offset, data)
        self.inside.release()


class Unfinished(PythonPort):
    def alloc(self, device: int, length: int) -> bytearray:
        return bytearray(length)

    def free(self, memory: bytearray) -> None:
        memory.clear()


class Stranger:
    pass


class Status(Plain):
    def write(self, memory: bytearray, offset: int, data: bytes) -> int:
        return -30


class Short(Plain):
    def read(self, memory: bytearray, offset: int, length: int) -> bytes:
        return b""


class Number(Plain):
    def read(self, memory: bytearray, offset: int, length: int) -> int:
        return 5


class Nothing(Plain):
    def alloc(self, device: int, length: int, alignment: int) -> None:
        return None


class Raises(Plain):
    def write(self, memory: bytearray, offset: int, data: bytes) -> None:
        raise ValueError("the link is down\nand more")


class Exits(Plain):
    def write(self, memory: bytearray, offset: int, data: bytes) -> None:
        raise SystemExit(0)


class Full(Plain):
    def alloc(self, device: int, length: int, alignment: int) -> bytearray:
        raise OutOfMemory(f"no room for {length} bytes")


class Host(Plain):
    def alloc(self, device: int, length: int, alignment: int) -> bytearray:
        raise MemoryError


class Narrow(Plain):
    def write(self, memory: bytearray, offset: int, data: bytes) -> None:
        raise OutOfRange("the chip takes 4 bytes")


class Absent(Plain):
    def start(self) -> None:
        raise OSError("libacme.so is not there")


class Words(Plain):
    def device_count(self) -> str:
        return "two"


class Small(Seen):
    def view(self, memory: np.ndarray) -> np.ndarray:
        return memory[:1]


class Crooked(Seen):
    def alloc(self, device: int, length: int, alignment: int) -> np.ndarray:
        return super().alloc(device, length + 1, alignment)[1:]


class Locked(Seen):
    def view(self, memory: np.ndarray) -> bytes:
        return bytes(len(memory))
