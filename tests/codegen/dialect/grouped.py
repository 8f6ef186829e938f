"""Compiles sources of the OpenCL C dialect with the machine's OpenCL and runs plans with them."""

from __future__ import annotations

import ctypes
import ctypes.util
from typing import Any

import numpy as np
from plan import Step, results, steps

import hal.hcd
from hal.codegen.dialect import entry_name
from hal.codegen.dialect.source import written
from hal.vil import Module, VilRefused

LANES = 8
READ_WRITE, COPY_HOST = 1, 32
BUILD_LOG = 0x1183
Handle = ctypes.c_void_p


def library() -> ctypes.CDLL | None:
    """The loader of OpenCL platforms, where the machine has a device behind it."""
    name = ctypes.util.find_library("OpenCL")
    if name is None:
        return None
    found = ctypes.CDLL(name)
    for each in ("clCreateContext", "clCreateCommandQueue", "clCreateProgramWithSource"):
        getattr(found, each).restype = Handle
    for each in ("clCreateBuffer", "clCreateKernel"):
        getattr(found, each).restype = Handle
    platform, device = Handle(), Handle()
    if found.clGetPlatformIDs(1, ctypes.byref(platform), None):
        return None
    everything = ctypes.c_uint64(0xFFFFFFFF)
    if found.clGetDeviceIDs(platform, everything, 1, ctypes.byref(device), None):
        return None
    return found


class Runtime:
    """One device, its queue, and the programs that were built for it."""

    def __init__(self) -> None:
        found = library()
        assert found is not None, "no OpenCL device: apt-get install pocl-opencl-icd"
        self.cl = found
        self.platform, self.device = Handle(), Handle()
        self.cl.clGetPlatformIDs(1, ctypes.byref(self.platform), None)
        everything = ctypes.c_uint64(0xFFFFFFFF)
        self.cl.clGetDeviceIDs(self.platform, everything, 1, ctypes.byref(self.device), None)
        devices = (Handle * 1)(self.device)
        self.context = Handle(self.cl.clCreateContext(None, 1, devices, None, None, None))
        self.queue = Handle(
            self.cl.clCreateCommandQueue(self.context, self.device, ctypes.c_uint64(0), None)
        )
        self.programs: dict[str, Handle] = {}

    def build(self, source: str) -> Handle:
        """The program of a source. Raises AssertionError with the compiler's words."""
        if source not in self.programs:
            text = (ctypes.c_char_p * 1)(source.encode())
            program = Handle(self.cl.clCreateProgramWithSource(self.context, 1, text, None, None))
            devices = (Handle * 1)(self.device)
            status = self.cl.clBuildProgram(program, 1, devices, b"-cl-std=CL1.2 -w", None, None)
            log = ctypes.create_string_buffer(1 << 16)
            self.cl.clGetProgramBuildInfo(
                program, self.device, BUILD_LOG, ctypes.c_size_t(len(log)), log, None
            )
            assert status == 0, log.value.decode(errors="replace")[:3000]
            self.programs[source] = program
        return self.programs[source]

    def run(
        self, module: Module, kernel: str, arguments: dict[str, Any], hcd: Any = None
    ) -> tuple[str, dict[str, Any]]:
        """Status and written buffers of one launch."""
        module, source = written(module, hcd or hal.hcd.load("hal/opencl"))
        program = self.build(source)
        try:
            memory, plan = steps(module, kernel, arguments)
            for step in plan:
                if not self._step(program, step):
                    return "EXECUTION_FAILED", {}
        except VilRefused:
            return "INVALID_VALUE", {}
        return "OK", results(module, kernel, arguments, memory)

    def _step(self, program: Handle, step: Step) -> bool:
        """Runs one launch; False when it faulted."""
        if 0 in step.grid:
            return True
        kernel = Handle(self.cl.clCreateKernel(program, entry_name(step.program).encode(), None))
        state = np.zeros(4, np.int32)
        buffers: dict[int, tuple[Any, Handle]] = {}
        values: list[Any] = []
        for param, value in zip(step.program.params, step.bound, strict=True):
            if param.kind == "symbol":
                values.append(ctypes.c_int64(value))
            elif param.kind == "scalar":
                assert param.dtype is not None
                values.append(np.asarray([value]).astype(param.dtype.numpy))
            else:
                assert param.dtype is not None
                count = value.nbytes // param.dtype.bytes
                held = buffers.setdefault(id(value), (value, self._buffer(value)))[1]
                values += [held, ctypes.c_int64(0), ctypes.c_int64(count)]
        values += [ctypes.c_int64(axis) for axis in step.grid]
        buffers[id(state)] = (state, self._buffer(state))
        values.append(buffers[id(state)][1])
        for number, value in enumerate(values):
            self._argument(kernel, number, value)
        whole = (ctypes.c_size_t * 3)(step.grid[0] * LANES, *step.grid[1:])
        local = (ctypes.c_size_t * 3)(LANES, 1, 1)
        status = self.cl.clEnqueueNDRangeKernel(
            self.queue, kernel, 3, None, whole, local, 0, None, None
        )
        assert status == 0, status
        for array, held in buffers.values():
            size = ctypes.c_size_t(array.nbytes)
            if array.nbytes:
                self.cl.clEnqueueReadBuffer(
                    *(self.queue, held, 1, ctypes.c_size_t(0), size),
                    *(ctypes.c_void_p(array.ctypes.data), 0, None, None),
                )
            self.cl.clReleaseMemObject(held)
        self.cl.clReleaseKernel(kernel)
        return not state[0]

    def _buffer(self, array: Any) -> Handle:
        data = array if array.nbytes else np.zeros(8, np.uint8)
        flags = ctypes.c_uint64(READ_WRITE | COPY_HOST)
        held = self.cl.clCreateBuffer(
            self.context, flags, ctypes.c_size_t(data.nbytes), Handle(data.ctypes.data), None
        )
        assert held
        return Handle(held)

    def _argument(self, kernel: Handle, number: int, value: Any) -> None:
        if isinstance(value, np.ndarray):
            size, at = value.nbytes, ctypes.c_void_p(value.ctypes.data)
        else:
            size, at = ctypes.sizeof(value), ctypes.cast(ctypes.byref(value), ctypes.c_void_p)
        status = self.cl.clSetKernelArg(kernel, number, ctypes.c_size_t(size), at)
        assert status == 0, (number, status)
