// The driver, the devices behind it, and what they say about themselves.
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda.h"

enum { NEAR_OF_PROGRAMS = 65536 };  // What programs may count on; the rest is global memory.

cuda_functions cu;
char cuda_words[96];

static struct {
  pthread_mutex_t lock;  // Guards the contexts.
  cuda_chip *chips;
  uint32_t count;
} runtime = {.lock = PTHREAD_MUTEX_INITIALIZER};

uint32_t cuda_chip_count(void) {
  return runtime.count;
}

cuda_chip *cuda_chip_at(uint32_t index) {
  return &runtime.chips[index];
}

cuda_chip *cuda_chip_of(const kit_device *device) {
  return &runtime.chips[kit_device_index(device)];
}

// ---- Errors ----

// Whether an error ends the context: nothing on the device works after it.
static bool is_fatal(CUresult result) {
  static const CUresult fatal[] = {46,  214, 220, 226, 700, 702, 709,
                                   710, 714, 715, 716, 717, 718, 719};
  for (size_t i = 0; i < sizeof(fatal) / sizeof(*fatal); ++i) {
    if (result == fatal[i]) return true;
  }
  return false;
}

int32_t cuda_check(CUresult result, const char *call) {
  if (result == 0) return HAL_OK;
  const char *name = NULL, *text = NULL;
  if (cu.GetErrorName == NULL || cu.GetErrorName(result, &name) != 0) name = "CUDA error";
  if (cu.GetErrorString == NULL || cu.GetErrorString(result, &text) != 0) text = "no text";
  return kit_fail(is_fatal(result)               ? HAL_ERROR_DEVICE_LOST
                  : result == CUDA_OUT_OF_MEMORY ? HAL_ERROR_OUT_OF_MEMORY
                                                 : HAL_ERROR_EXECUTION_FAILED,
                  "%s: %s (%d): %s", call, name, result, text);
}

// ---- Libraries ----

void *cuda_library(const char *option, const char *environment, const char *const *names,
                   char *reason, size_t capacity) {
  char path[1024];
  void *library = NULL;
  if (kit_option(option, environment, path, sizeof(path)) != NULL) {
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  } else {
    for (; *names != NULL && library == NULL; ++names) {
      library = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
    }
  }
  if (library == NULL) snprintf(reason, capacity, "%s", dlerror());
  return library;
}

const char *cuda_symbols(void *library, const cuda_symbol *symbols) {
  for (; symbols->name != NULL; ++symbols) {
    void *found = dlsym(library, symbols->name);
    if (found == NULL) return symbols->name;
    memcpy(symbols->place, &found, sizeof(found));
  }
  return NULL;
}

static int32_t open_driver(void) {
  static const char *const names[] = {"libcuda.so.1", NULL};
  static const cuda_symbol symbols[] = {
#define X(member, symbol, parameters) {symbol, &cu.member},
      CUDA_FUNCTIONS(X)
#undef X
          {NULL, NULL}};
  char reason[300];
  void *library = cuda_library("libcuda", "HAL_CUDA_DRIVER", names, reason, sizeof(reason));
  if (library == NULL) {
    return kit_fail(HAL_ERROR_NOT_FOUND,
                    "no CUDA driver: %s. It comes with the NVIDIA driver of the machine; "
                    "HAL_CUDA_DRIVER=PATH names another file",
                    reason);
  }
  const char *missing = cuda_symbols(library, symbols);
  if (missing != NULL) {
    return kit_fail(HAL_ERROR_VERSION,
                    "the CUDA driver has no %s: it is older than CUDA 11.0. Install a newer driver",
                    missing);
  }
  return HAL_OK;
}

static int32_t refuse_start(CUresult result, const char *call) {
  int32_t status = cuda_check(result, call);
  hal_error error = {.size = sizeof(error)};
  kit_port_last_error(&error);
  const char *advice = result == 100   ? "No device is visible: look at nvidia-smi and "
                                         "CUDA_VISIBLE_DEVICES"
                       : result == 803 ? "Library and kernel module are of different versions: "
                                         "restart the machine, or install one of both"
                       : result == 34  ? "This libcuda is a stub to link against, no driver"
                                       : "Look at nvidia-smi";
  status = result == 100 || result == 34 ? HAL_ERROR_NOT_FOUND
           : result == 803               ? HAL_ERROR_VERSION
                                         : status;
  return kit_fail(status, "%.300s. %s", error.text, advice);
}

// ---- What a device says ----

static int number_of(const cuda_chip *chip, int attribute) {
  int value = 0;
  return cu.DeviceGetAttribute(&value, attribute, chip->id) == 0 ? value : 0;
}

// Adds a line to the overlay.
__attribute__((format(printf, 2, 3))) static void overlay(cuda_chip *chip, const char *format,
                                                          ...) {
  size_t used = strlen(chip->overlay);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(chip->overlay + used, sizeof(chip->overlay) - used, format, arguments);
  va_end(arguments);
}

// What the driver knows better than the description, under the ids of hal/cuda; a description of
// another shape keeps its own words.
static void write_overlay(cuda_chip *chip, bool has_library) {
  unsigned long long memory = chip->memory_bytes, near = chip->near_bytes;
  uint64_t clock_khz = (uint64_t)number_of(chip, CUDA_CLOCK_KHZ);
  uint64_t beats = 2ull * (uint64_t)number_of(chip, CUDA_MEMORY_CLOCK_KHZ) * 1000;
  uint64_t wide = (uint64_t)number_of(chip, CUDA_MEMORY_BUS_BITS) / 8;
  chip->overlay[0] = '\0';
  if (kit_hcd_text(kit_host_hcd(), "memory.shared.capacity_bytes") == NULL) return;
  overlay(chip, "identity.arch\tsm_%d\n", chip->capability);
  overlay(chip, "memory.hbm.capacity_bytes\t%llu\n", memory);
  overlay(chip, "execution.limits.allocation_bytes_max\t%llu\n", memory);
  overlay(chip, "memory.shared.capacity_bytes\t%llu\n", near);
  overlay(chip, "execution.simt.shared_bytes_per_block_max\t%llu\n", near);
  if (near > NEAR_OF_PROGRAMS)
    overlay(chip, "kernels.vil.spaces.near.capacity_bytes\t%llu\n", near);
  overlay(chip, "units.sm.count\t%d\n", number_of(chip, CUDA_MULTIPROCESSORS));
  overlay(chip, "features.ecc\t%s\n", number_of(chip, CUDA_ECC) ? "true" : "false");
  overlay(chip, "features.library\t%s\n", has_library ? "true" : "false");
  if (clock_khz != 0) {
    overlay(chip, "clocks.core.sustained_hz\t%llu\n", (unsigned long long)clock_khz * 1000);
  }
  if (number_of(chip, CUDA_L2_BYTES) != 0) {
    overlay(chip, "memory.l2.capacity_bytes\t%d\n", number_of(chip, CUDA_L2_BYTES));
  }
  if (beats * wide != 0) {  // Two transfers a clock.
    overlay(chip, "memory.hbm.bandwidth_bytes_per_s\t%llu\n", (unsigned long long)(beats * wide));
  }
}

// Describes a device; false, with a line in the log, when it cannot be used.
static bool describe(cuda_chip *chip, int ordinal, bool has_library) {
  size_t bytes = 0;
  memset(chip, 0, sizeof(*chip));
  if (cu.DeviceGet(&chip->id, ordinal) != 0 || cu.DeviceTotalMem(&bytes, chip->id) != 0 ||
      cu.DeviceGetName(chip->name, sizeof(chip->name), chip->id) != 0) {
    kit_log(HAL_LOG_WARNING, "CUDA device %d says nothing about itself and is left out", ordinal);
    return false;
  }
  chip->memory_bytes = bytes;
  chip->capability = number_of(chip, CUDA_MAJOR) * 10 + number_of(chip, CUDA_MINOR);
  chip->near_bytes = (uint64_t)number_of(chip, CUDA_NEAR_MAX);
  write_overlay(chip, has_library);
  return true;
}

static int32_t find_devices(void) {
  int found = 0;
  CUresult result = cu.Init(0);
  if (result != 0) return refuse_start(result, "cuInit");
  if ((result = cu.DeviceGetCount(&found)) != 0 || found == 0) {
    return refuse_start(result != 0 ? result : 100, "cuDeviceGetCount");
  }
  int version = 0;
  cu.DriverGetVersion(&version);
  snprintf(cuda_words, sizeof(cuda_words), "CUDA driver %d.%d, %s", version / 1000,
           version % 1000 / 10, cuda_compiler_name());
  bool has_library = cuda_blas_start();
  runtime.chips = calloc((size_t)found, sizeof(*runtime.chips));
  for (int i = 0; runtime.chips != NULL && i < found; ++i) {
    runtime.count += describe(&runtime.chips[runtime.count], i, has_library);
  }
  return runtime.count != 0
             ? HAL_OK
             : kit_fail(HAL_ERROR_NOT_FOUND,
                        "none of the %d CUDA devices can be used; the log says why", found);
}

int32_t cuda_start(void) {
  int32_t status = open_driver();
  if (status == HAL_OK) status = cuda_compiler_start();
  if (status == HAL_OK) status = find_devices();
  if (status != HAL_OK) cuda_stop();
  return status;
}

void cuda_stop(void) {
  for (uint32_t i = 0; i < runtime.count; ++i) {
    cuda_chip *chip = &runtime.chips[i];
    if (chip->context == NULL || cuda_enter(chip) != HAL_OK) continue;
    cu.StreamDestroy(chip->service);
    cuda_leave();
    cu.PrimaryCtxRelease(chip->id);
  }
  free(runtime.chips);
  runtime.chips = NULL;
  runtime.count = 0;  // The libraries stay open: a driver is never unloaded.
}

// ---- Contexts ----

static int32_t retain(cuda_chip *chip) {
  CUcontext context = NULL;
  int32_t status = cuda_check(cu.PrimaryCtxRetain(&context, chip->id), "cuDevicePrimaryCtxRetain");
  if (status != HAL_OK) return status;
  status = cuda_check(cu.CtxPush(context), "cuCtxPushCurrent");
  if (status == HAL_OK) {
    status =
        cuda_check(cu.StreamCreate(&chip->service, CUDA_STREAM_NON_BLOCKING), "cuStreamCreate");
    cuda_leave();
  }
  if (status != HAL_OK) {
    cu.PrimaryCtxRelease(chip->id);
  } else {
    __atomic_store_n(&chip->context, context, __ATOMIC_RELEASE);
  }
  return status;
}

int32_t cuda_enter(cuda_chip *chip) {
  int32_t status = HAL_OK;
  if (__atomic_load_n(&chip->context, __ATOMIC_ACQUIRE) == NULL) {
    pthread_mutex_lock(&runtime.lock);
    if (chip->context == NULL) status = retain(chip);
    pthread_mutex_unlock(&runtime.lock);
  }
  return status != HAL_OK ? status : cuda_check(cu.CtxPush(chip->context), "cuCtxPushCurrent");
}

void cuda_leave(void) {
  CUcontext ignored;
  cu.CtxPop(&ignored);
}
