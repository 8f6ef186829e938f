"""A port in Python over a vendor's C runtime: any OpenCL device, by the binding of its header.

    hal port bind /usr/include/CL/cl.h --library OpenCL -o opencl_binding.py
    hal-certify opencl_port.py:OpenclPort --tier 1

The binding lies beside this file. Buffers, copies and fills are the device's; kernels run on the
host until the port is written in C.
"""

from __future__ import annotations

from ctypes import byref, c_char, c_int, c_size_t, c_ubyte, c_uint, c_ulong, sizeof
from typing import Any

import opencl_binding as cl

from hal.errors import DeviceLost, Internal, NotFound, OutOfMemory
from hal.testing import PythonPort

STATUSES = {
    cl.CL_MEM_OBJECT_ALLOCATION_FAILURE: OutOfMemory,
    cl.CL_OUT_OF_RESOURCES: OutOfMemory,
    cl.CL_OUT_OF_HOST_MEMORY: OutOfMemory,
    cl.CL_INVALID_BUFFER_SIZE: OutOfMemory,
    cl.CL_DEVICE_NOT_AVAILABLE: DeviceLost,
}
NONE = (0, None, None)  # no events to wait for, none to give back


def check(status: int, call: str) -> None:
    """Raise what an OpenCL status stands for."""
    if status != cl.CL_SUCCESS:
        raise STATUSES.get(status, Internal)(f"{call} answered {status}")


class OpenclPort(PythonPort):
    """Each buffer is a pair: its device's queue and the memory object."""

    def start(self) -> None:
        """Find the first platform's devices; each gets a context and a queue."""
        platform, count = cl.cl_platform_id(), c_uint()
        if cl.clGetPlatformIDs(1, byref(platform), byref(count)) != cl.CL_SUCCESS:
            raise NotFound("OpenCL has no platform here; install a driver, as pocl-opencl-icd")
        kinds = cl.CL_DEVICE_TYPE_ALL
        check(cl.clGetDeviceIDs(platform, kinds, 0, None, byref(count)), "clGetDeviceIDs")
        self.devices = (cl.cl_device_id * count.value)()
        check(cl.clGetDeviceIDs(platform, kinds, count, self.devices, None), "clGetDeviceIDs")
        self.contexts, self.queues, status = [], [], c_int()
        for device in self.devices:
            one = (cl.cl_device_id * 1)(device)
            unheard = cl.clCreateContext.argtypes[3]()  # no function that hears of errors
            self.contexts.append(cl.clCreateContext(None, 1, one, unheard, None, byref(status)))
            check(status.value, "clCreateContext")
            self.queues.append(cl.clCreateCommandQueue(self.contexts[-1], device, 0, byref(status)))
            check(status.value, "clCreateCommandQueue")
        self.runtime = self.device_text(0, cl.CL_DEVICE_VERSION)

    def stop(self) -> None:
        """Give queues and contexts back."""
        for queue, context in zip(self.queues, self.contexts, strict=True):
            check(cl.clReleaseCommandQueue(queue), "clReleaseCommandQueue")
            check(cl.clReleaseContext(context), "clReleaseContext")

    def device_text(self, device: int, key: int) -> str:
        """A text that clGetDeviceInfo gives."""
        room = (c_char * 256)()
        asked = cl.clGetDeviceInfo(self.devices[device], key, sizeof(room), room, None)
        check(asked, "clGetDeviceInfo")
        return room.value.decode()

    def device_count(self) -> int:
        """As many as the platform has."""
        return len(self.devices)

    def device_name(self, device: int) -> str:
        """The driver's name for it."""
        return self.device_text(device, cl.CL_DEVICE_NAME)

    def memory_bytes(self, device: int) -> int:
        """What one buffer may take: OpenCL does not say what is free."""
        room, key = c_ulong(), cl.CL_DEVICE_MAX_MEM_ALLOC_SIZE
        asked = cl.clGetDeviceInfo(self.devices[device], key, sizeof(room), byref(room), None)
        check(asked, "clGetDeviceInfo")
        return room.value

    def alloc(self, device: int, length: int, alignment: int) -> Any:
        """Make a memory object."""
        status = c_int()
        flags = cl.CL_MEM_READ_WRITE
        memory = cl.clCreateBuffer(self.contexts[device], flags, length, None, byref(status))
        check(status.value, "clCreateBuffer")
        return self.queues[device], memory

    def free(self, memory: Any) -> None:
        """Release it."""
        check(cl.clReleaseMemObject(memory[1]), "clReleaseMemObject")

    def write(self, memory: Any, offset: int, data: bytes) -> None:
        """Copy from the host, to the end."""
        queue, buffer = memory
        status = cl.clEnqueueWriteBuffer(queue, buffer, 1, offset, len(data), data, *NONE)
        check(status, "clEnqueueWriteBuffer")

    def read(self, memory: Any, offset: int, length: int) -> Any:
        """Copy to the host, to the end."""
        queue, buffer = memory
        room = (c_ubyte * length)()
        status = cl.clEnqueueReadBuffer(queue, buffer, 1, offset, length, room, *NONE)
        check(status, "clEnqueueReadBuffer")
        return room

    def copy(
        self, target: Any, target_offset: int, source: Any, source_offset: int, length: int
    ) -> None:
        """Copy on the device; OpenCL refuses ranges that overlap, so those go through the host."""
        if target is source and abs(target_offset - source_offset) < length:
            super().copy(target, target_offset, source, source_offset, length)
            return
        offsets = c_size_t(source_offset), c_size_t(target_offset)
        queue = target[0]
        status = cl.clEnqueueCopyBuffer(queue, source[1], target[1], *offsets, length, *NONE)
        check(status, "clEnqueueCopyBuffer")
        check(cl.clFinish(queue), "clFinish")

    def fill(self, memory: Any, offset: int, length: int, pattern: bytes) -> None:
        """Fill on the device, where the offset is one that OpenCL takes."""
        if offset % len(pattern) != 0:
            super().fill(memory, offset, length, pattern)
            return
        queue, buffer = memory
        size = len(pattern)
        status = cl.clEnqueueFillBuffer(queue, buffer, pattern, size, offset, length, *NONE)
        check(status, "clEnqueueFillBuffer")
        check(cl.clFinish(queue), "clFinish")
