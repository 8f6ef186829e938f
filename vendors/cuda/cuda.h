// The inside of the port of CUDA devices: what it uses of the driver's interface, declared here so
// that no CUDA is needed to build, and its own parts.
//
// Names and numbers are those of the CUDA driver API (its reference manual); the symbols with _v2
// are what today's headers map the plain names to.
#ifndef CUDA_CUDA_H_
#define CUDA_CUDA_H_

#include <stdbool.h>

#include "kit_driver.h"

typedef int CUresult, CUdevice;
typedef unsigned long long CUdeviceptr;
typedef void *CUcontext, *CUstream, *CUevent, *CUmodule, *CUfunction;

enum { CUDA_STREAM_NON_BLOCKING = 1, CUDA_HOST_PORTABLE = 1, CUDA_NOT_READY = 600 };
enum { CUDA_FUNCTION_THREADS_MAX = 0, CUDA_FUNCTION_NEAR_MAX = 8 };  // CUfunction_attribute.

// X(name without "cu", types of the parameters)
// clang-format off
#define CUDA_FUNCTIONS(X) \
  X(Init, unsigned) X(DriverGetVersion, int *) X(GetErrorName, CUresult, const char **) \
  X(DeviceGetCount, int *) X(DeviceGet, CUdevice *, int) X(DeviceGetName, char *, int, CUdevice) \
  X(DeviceGetAttribute, int *, int, CUdevice) X(DeviceTotalMem_v2, size_t *, CUdevice) \
  X(DeviceCanAccessPeer, int *, CUdevice, CUdevice) \
  X(DevicePrimaryCtxRetain, CUcontext *, CUdevice) X(DevicePrimaryCtxRelease_v2, CUdevice) \
  X(CtxPushCurrent_v2, CUcontext) X(CtxPopCurrent_v2, CUcontext *) \
  X(MemAlloc_v2, CUdeviceptr *, size_t) X(MemFree_v2, CUdeviceptr) \
  X(MemHostAlloc, void **, size_t, unsigned) X(MemFreeHost, void *) \
  X(MemcpyHtoDAsync_v2, CUdeviceptr, const void *, size_t, CUstream) \
  X(MemcpyDtoHAsync_v2, void *, CUdeviceptr, size_t, CUstream) \
  X(MemcpyDtoDAsync_v2, CUdeviceptr, CUdeviceptr, size_t, CUstream) \
  X(MemcpyPeerAsync, CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t, CUstream) \
  X(MemsetD8Async, CUdeviceptr, unsigned char, size_t, CUstream) \
  X(MemsetD16Async, CUdeviceptr, unsigned short, size_t, CUstream) \
  X(MemsetD32Async, CUdeviceptr, unsigned, size_t, CUstream) \
  X(MemsetD2D32Async, CUdeviceptr, size_t, unsigned, size_t, size_t, CUstream) \
  X(StreamCreate, CUstream *, unsigned) X(StreamDestroy_v2, CUstream) \
  X(StreamSynchronize, CUstream) X(EventCreate, CUevent *, unsigned) X(EventDestroy_v2, CUevent) \
  X(EventRecord, CUevent, CUstream) X(EventQuery, CUevent) \
  X(EventElapsedTime, float *, CUevent, CUevent) X(ModuleLoadData, CUmodule *, const void *) \
  X(ModuleUnload, CUmodule) X(ModuleGetFunction, CUfunction *, CUmodule, const char *) \
  X(FuncGetAttribute, int *, int, CUfunction) X(FuncSetAttribute, CUfunction, int, int) \
  X(LaunchKernel, CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, \
    unsigned, CUstream, void **, void **)
// clang-format on

extern struct cuda_functions {
  CUDA_FUNCTIONS(KIT_POINTER)
} cu;

// Calls the driver. HAL_OK, or fails with its error in words.
#define CU(name, ...) cuda_check(cu.name(__VA_ARGS__), "cu" #name)
int32_t cuda_check(CUresult result, const char *call);

typedef struct cuda_chip {
  CUdevice id;
  CUcontext context;  // The primary one; NULL until the first use.
  int capability;     // 90: sm_90.
  uint64_t near_bytes;
} cuda_chip;

// ---- devices.c ----
extern char cuda_runtime[128];  // Versions of driver, compiler and NCCL.
int32_t cuda_start(void);
int32_t cuda_describe(void *chip, kit_device_facts *facts);
void cuda_drop(void *chip);
int32_t cuda_enter(void *chip);  // The device's context becomes the thread's, until cuda_leave.
void cuda_leave(void);

// ---- program.c ----
int32_t cuda_compiler_start(void);
extern char cuda_compiler[32];  // "NVRTC 13.0".
int32_t cuda_compile(const kit_source *source, kit_program *program);
int32_t cuda_find(const kit_program *program, kit_function *function);
void cuda_program_drop(kit_program *program);

// ---- Optional ----

// blas.c
int cuda_blas_start(void);  // Whether there is one.
int32_t cuda_blas_info(kit_device *device, uint32_t index, hal_operator_info *out_info);
int32_t cuda_blas_supports(kit_device *device, const hal_operator_desc *desc,
                           uint64_t *out_workspace_bytes);
int32_t cuda_blas_run(kit_queue *queue, const kit_operator *use);
void cuda_blas_stop(kit_queue *queue);

// nccl.c
int cuda_nccl_start(void);  // Its version, 22703 for 2.27.3; 0: there is none.
extern const kit_collectives cuda_collectives;

#endif  // CUDA_CUDA_H_
