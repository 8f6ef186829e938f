// The inside of the port of OpenCL devices: the entry points it uses, and a device.
#ifndef OPENCL_OPENCL_H_
#define OPENCL_OPENCL_H_

#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS

#include <CL/cl.h>

#include "kit_driver.h"

// Every function of the loader that the port calls; all of them are part of OpenCL 1.2.
// clang-format off
#define CL_FUNCTIONS(X) \
  X(BuildProgram) X(CreateBuffer) X(CreateCommandQueue) X(CreateContext) X(CreateKernel) \
  X(CreateProgramWithSource) X(EnqueueCopyBuffer) X(EnqueueFillBuffer) \
  X(EnqueueMarkerWithWaitList) X(EnqueueNDRangeKernel) X(EnqueueReadBuffer) \
  X(EnqueueWriteBuffer) X(Finish) X(Flush) X(GetDeviceIDs) X(GetDeviceInfo) X(GetEventInfo) \
  X(GetEventProfilingInfo) X(GetKernelWorkGroupInfo) X(GetPlatformIDs) X(GetPlatformInfo) \
  X(GetProgramBuildInfo) X(ReleaseCommandQueue) X(ReleaseContext) X(ReleaseEvent) \
  X(ReleaseKernel) X(ReleaseMemObject) X(ReleaseProgram) X(SetKernelArg)
// clang-format on

typedef struct cl_functions {
#define X(name) __typeof__(&cl##name) name;
  CL_FUNCTIONS(X)
#undef X
} cl_functions;

extern cl_functions cl;

// One device of one platform, with a context of its own.
typedef struct cl_chip {
  cl_device_id id;
  cl_context context;
  uint32_t lanes;  // Of every group; 0: chosen for each kernel.
} cl_chip;

extern char cl_runtime[256];  // Platform, version and driver of the first device.
int32_t cl_start(void);
int32_t cl_describe(void *chip, kit_device_facts *facts);
void cl_drop(void *chip);
int32_t cl_check(cl_int error, const char *call);         // Fails with an error in words.
uint64_t cl_number(cl_device_id id, cl_device_info key);  // 0 when it is not told.

#endif  // OPENCL_OPENCL_H_
