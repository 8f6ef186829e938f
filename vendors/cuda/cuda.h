// The inside of the port of CUDA devices: what it uses of the driver's interface, declared here so
// that no CUDA is needed to build, and its own parts.
//
// Names and numbers are those of the CUDA driver API and NVRTC (their reference manuals); the
// symbols with _v2 are what today's headers map the plain names to.
#ifndef CUDA_CUDA_H_
#define CUDA_CUDA_H_

#include <stdbool.h>

#include "kit_source.h"

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;

enum {
  CUDA_OUT_OF_MEMORY = 2,
  CUDA_STREAM_NON_BLOCKING = 1,
  CUDA_HOST_PORTABLE = 1,
  CUDA_FUNCTION_THREADS_MAX = 0,  // CUfunction_attribute.
  CUDA_FUNCTION_NEAR_MAX = 8,
  CUDA_CLOCK_KHZ = 13,  // CUdevice_attribute.
  CUDA_MULTIPROCESSORS = 16,
  CUDA_ECC = 32,
  CUDA_MEMORY_CLOCK_KHZ = 36,
  CUDA_MEMORY_BUS_BITS = 37,
  CUDA_L2_BYTES = 38,
  CUDA_MAJOR = 75,
  CUDA_MINOR = 76,
  CUDA_NEAR_MAX = 97,
  CUDA_NOT_READY = 600,
};

// X(member, symbol, parameters)
#define CUDA_FUNCTIONS(X)                                                                          \
  X(Init, "cuInit", (unsigned flags))                                                              \
  X(DriverGetVersion, "cuDriverGetVersion", (int *version))                                        \
  X(GetErrorName, "cuGetErrorName", (CUresult result, const char **name))                          \
  X(GetErrorString, "cuGetErrorString", (CUresult result, const char **text))                      \
  X(DeviceGetCount, "cuDeviceGetCount", (int *count))                                              \
  X(DeviceGet, "cuDeviceGet", (CUdevice * device, int ordinal))                                    \
  X(DeviceGetName, "cuDeviceGetName", (char *name, int capacity, CUdevice device))                 \
  X(DeviceGetAttribute, "cuDeviceGetAttribute", (int *value, int attribute, CUdevice device))      \
  X(DeviceTotalMem, "cuDeviceTotalMem_v2", (size_t *bytes, CUdevice device))                       \
  X(DeviceCanAccessPeer, "cuDeviceCanAccessPeer", (int *can, CUdevice device, CUdevice peer))      \
  X(PrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (CUcontext * context, CUdevice device))          \
  X(PrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", (CUdevice device))                          \
  X(CtxPush, "cuCtxPushCurrent_v2", (CUcontext context))                                           \
  X(CtxPop, "cuCtxPopCurrent_v2", (CUcontext * context))                                           \
  X(MemAlloc, "cuMemAlloc_v2", (CUdeviceptr * address, size_t bytes))                              \
  X(MemFree, "cuMemFree_v2", (CUdeviceptr address))                                                \
  X(MemHostAlloc, "cuMemHostAlloc", (void **pointer, size_t bytes, unsigned flags))                \
  X(MemFreeHost, "cuMemFreeHost", (void *pointer))                                                 \
  X(CopyToDevice, "cuMemcpyHtoDAsync_v2",                                                          \
    (CUdeviceptr to, const void *from, size_t bytes, CUstream stream))                             \
  X(CopyToHost, "cuMemcpyDtoHAsync_v2",                                                            \
    (void *to, CUdeviceptr from, size_t bytes, CUstream stream))                                   \
  X(CopyOnDevice, "cuMemcpyDtoDAsync_v2",                                                          \
    (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream))                             \
  X(CopyPeer, "cuMemcpyPeerAsync",                                                                 \
    (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes, \
     CUstream stream))                                                                             \
  X(Set8, "cuMemsetD8Async", (CUdeviceptr to, unsigned char value, size_t count, CUstream stream)) \
  X(Set32, "cuMemsetD32Async", (CUdeviceptr to, unsigned value, size_t count, CUstream stream))    \
  X(SetRows8, "cuMemsetD2D8Async",                                                                 \
    (CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height,               \
     CUstream stream))                                                                             \
  X(SetRows32, "cuMemsetD2D32Async",                                                               \
    (CUdeviceptr to, size_t pitch, unsigned value, size_t width, size_t height, CUstream stream))  \
  X(StreamCreate, "cuStreamCreate", (CUstream * stream, unsigned flags))                           \
  X(StreamDestroy, "cuStreamDestroy_v2", (CUstream stream))                                        \
  X(StreamSynchronize, "cuStreamSynchronize", (CUstream stream))                                   \
  X(EventCreate, "cuEventCreate", (CUevent * event, unsigned flags))                               \
  X(EventDestroy, "cuEventDestroy_v2", (CUevent event))                                            \
  X(EventRecord, "cuEventRecord", (CUevent event, CUstream stream))                                \
  X(EventQuery, "cuEventQuery", (CUevent event))                                                   \
  X(EventSynchronize, "cuEventSynchronize", (CUevent event))                                       \
  X(EventElapsed, "cuEventElapsedTime", (float *ms, CUevent from, CUevent to))                     \
  X(ModuleLoad, "cuModuleLoadData", (CUmodule * module, const void *image))                        \
  X(ModuleUnload, "cuModuleUnload", (CUmodule module))                                             \
  X(ModuleGetFunction, "cuModuleGetFunction",                                                      \
    (CUfunction * function, CUmodule module, const char *name))                                    \
  X(FunctionGet, "cuFuncGetAttribute", (int *value, int attribute, CUfunction function))           \
  X(FunctionSet, "cuFuncSetAttribute", (CUfunction function, int attribute, int value))            \
  X(Launch, "cuLaunchKernel",                                                                      \
    (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,     \
     unsigned block_y, unsigned block_z, unsigned near_bytes, CUstream stream, void **arguments,   \
     void **extra))

typedef struct cuda_functions {
#define X(member, symbol, parameters) CUresult(*member) parameters;
  CUDA_FUNCTIONS(X)
#undef X
} cuda_functions;

extern cuda_functions cu;

typedef struct cuda_chip {
  CUdevice id;
  CUcontext context;  // The primary one; NULL until the first use.
  CUstream service;   // For the port's own work.
  char name[128], overlay[1200];
  int capability;  // 90: sm_90.
  uint64_t memory_bytes, near_bytes;
} cuda_chip;

// ---- runtime.c ----
typedef struct cuda_symbol {
  const char *name;
  void *place;  // Of the pointer.
} cuda_symbol;

extern char cuda_words[96];  // Versions of driver and compiler.
int32_t cuda_start(void);    // NOT_FOUND and VERSION say what is missing.
void cuda_stop(void);
uint32_t cuda_chip_count(void);
cuda_chip *cuda_chip_at(uint32_t index);
cuda_chip *cuda_chip_of(const kit_device *device);
// Opens a library: what an option or the environment names, else the first of `names`. NULL, and
// the linker's words in `reason`, when there is none.
void *cuda_library(const char *option, const char *environment, const char *const *names,
                   char *reason, size_t capacity);
// Finds symbols; the name of one that is missing, or NULL.
const char *cuda_symbols(void *library, const cuda_symbol *symbols);
// Fails with an error of the driver in words. 0 gives HAL_OK.
int32_t cuda_check(CUresult result, const char *call);
// The device's context becomes the thread's, until cuda_leave.
int32_t cuda_enter(cuda_chip *chip);
void cuda_leave(void);

// ---- program.c ----
typedef struct cuda_function {
  CUfunction entry;
  uint32_t near_bytes, lanes_max;
} cuda_function;
typedef struct cuda_program {  // A compiled module.
  cuda_chip *chip;
  CUmodule module;
  cuda_function functions[];  // One for each program of the plan.
} cuda_program;

int32_t cuda_compiler_start(void);
const char *cuda_compiler_name(void);  // "NVRTC 13.0".
int32_t cuda_module_open(kit_device *device, const hal_module_desc *desc, vil_module **out_module,
                         void **out_data);
void cuda_module_close(void *data);

// ---- queue.c ----
typedef struct cuda_mark cuda_mark;
typedef struct cuda_queue {
  CUstream stream;
  bool is_ours;       // Not the caller's.
  CUdeviceptr state;  // Two i32 that the launches of the queue share.
  cuda_mark *free;    // Marks to be used again.
  CUevent anchor;     // An event whose time is known.
  uint64_t anchor_ns, end_ns;
  void *blas;  // The library's handle; NULL until it is needed.
} cuda_queue;

int32_t cuda_queue_open(kit_device *device, uint64_t *queue);
void cuda_queue_close(kit_device *device, uint64_t queue);
int32_t cuda_submit(kit_device *device, uint64_t queue, kit_operation *operation);
int32_t cuda_finished(kit_device *device, uint64_t queue, kit_operation *operation);

// ---- blas.c ----
bool cuda_blas_start(void);
int32_t cuda_blas_info(kit_device *device, uint32_t index, hal_operator_info *out_info);
int32_t cuda_blas_supports(kit_device *device, const hal_operator_desc *desc,
                           uint64_t *out_workspace_bytes);
int32_t cuda_blas_run(cuda_queue *queue, const kit_operator *use);
void cuda_blas_stop(cuda_queue *queue);

#endif  // CUDA_CUDA_H_
