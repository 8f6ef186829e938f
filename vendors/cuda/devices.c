// The driver, the devices behind it, and what they say about themselves.
#include <stdio.h>
#include <string.h>

#include "cuda.h"

enum { MAJOR = 75, MINOR = 76, NEAR_MAX = 97 };  // CUdevice_attribute.

struct cuda_functions cu;
char cuda_runtime[128];

static const char *name_of(int32_t result) {
  const char *name = NULL;
  return cu.GetErrorName(result, &name) == 0 ? name : NULL;
}

int32_t cuda_check(CUresult result, const char *call) {
  static const kit_codes_row rows[] = {
      {HAL_ERROR_DEVICE_LOST,
       "after which nothing on the device works",
       {46, 214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719}},
      {HAL_ERROR_OUT_OF_MEMORY, NULL, {2}},
      {HAL_ERROR_NOT_FOUND,
       "no device is visible: look at nvidia-smi and CUDA_VISIBLE_DEVICES",
       {100}},
      {HAL_ERROR_NOT_FOUND, "this libcuda is a stub to link against, no driver", {34}},
      {HAL_ERROR_VERSION,
       "library and kernel module are of different versions: restart the machine, or install one "
       "of both",
       {803}},
      {HAL_ERROR_EXECUTION_FAILED, "look at nvidia-smi", {3, 101, 802, 999}}};
  static const kit_codes codes = {"CUDA", name_of, rows, sizeof(rows) / sizeof(*rows)};
  return kit_check(&codes, result, call);
}

static uint64_t number_of(const cuda_chip *chip, int attribute) {
  int value = 0;
  return cu.DeviceGetAttribute(&value, attribute, chip->id) == 0 ? (uint64_t)value : 0;
}

static void take(int ordinal) {
  cuda_chip chip = {0};
  char name[128];
  snprintf(name, sizeof(name), "device %d", ordinal);
  int32_t status = CU(DeviceGet, &chip.id, ordinal);
  if (status == HAL_OK) {
    status = CU(DeviceGetName, name, sizeof(name), chip.id);
  }
  if (!kit_option_picks("device", "HAL_CUDA_DEVICE", name, (uint32_t)ordinal)) {
    return;
  }
  chip.capability = (int)(number_of(&chip, MAJOR) * 10 + number_of(&chip, MINOR));
  chip.near_bytes = number_of(&chip, NEAR_MAX);
  if (status != HAL_OK || kit_device_offer(name, &chip, sizeof(chip)) != HAL_OK) {
    kit_device_refuse(name);
  }
}

#define CUDA_SYMBOL(name, ...) {"cu" #name, &cu.name},

static int32_t open_driver(void) {
  static const kit_symbol symbols[] = {CUDA_FUNCTIONS(CUDA_SYMBOL){NULL, NULL}};
  static const kit_library library = {
      .what = "CUDA driver",
      .option = "libcuda",
      .environment = "HAL_CUDA_DRIVER",
      .files = {"libcuda.so.1"},
      .symbols = symbols,
      .advice =
          "It comes with the NVIDIA driver of the machine; HAL_CUDA_DRIVER=PATH names "
          "another file",
      .missing = "it is older than CUDA 11.0. Install a newer driver"};
  return kit_library_open(&library);
}

// ---- Optional ----

static int has_library, nccl_version;

// The libraries that may be missing, and the versions of all.
static void start_more(void) {
  int version = 0;
  char collectives[48] = "collectives through the host";
  has_library = cuda_blas_start();
  nccl_version = cuda_nccl_start();
  if (nccl_version != 0) {
    snprintf(collectives, sizeof(collectives), "NCCL %d.%d.%d", nccl_version / 10000,
             nccl_version % 10000 / 100, nccl_version % 100);
  }
  cu.DriverGetVersion(&version);
  snprintf(cuda_runtime, sizeof(cuda_runtime), "CUDA driver %d.%d, %s, %s", version / 1000,
           version % 1000 / 10, cuda_compiler, collectives);
}

// ---- Tier 1 ----

int32_t cuda_start(void) {
  int found = 0;
  int32_t status;
  if ((status = open_driver()) != HAL_OK || (status = cuda_compiler_start()) != HAL_OK ||
      (status = CU(Init, 0)) != HAL_OK || (status = CU(DeviceGetCount, &found)) != HAL_OK) {
    return status;
  }
  start_more();
  for (int i = 0; i < found; ++i) {
    take(i);
  }
  return HAL_OK;
}

// ---- Optional ----

enum { CLOCK_KHZ = 13, MULTIPROCESSORS = 16, ECC = 32, L2_BYTES = 38 };  // CUdevice_attribute.
enum { MEMORY_CLOCK_KHZ = 36, MEMORY_BUS_BITS = 37 };
enum { NEAR_OF_PROGRAMS = 65536 };  // What programs may count on; the rest is global memory.

// What is more than the description says of every device.
static void describe_more(const cuda_chip *chip, kit_device_facts *facts) {
  char arch[16];
  snprintf(arch, sizeof(arch), "sm_%d", chip->capability);
  kit_facts_text(facts, "identity.arch", arch);
  if (chip->near_bytes > NEAR_OF_PROGRAMS) {
    kit_facts_number(facts, "kernels.vil.spaces.near.capacity_bytes", chip->near_bytes);
  }
  kit_facts_number(facts, "units.sm.count", number_of(chip, MULTIPROCESSORS));
  kit_facts_number(facts, "clocks.core.sustained_hz", number_of(chip, CLOCK_KHZ) * 1000);
  kit_facts_number(facts, "memory.l2.capacity_bytes", number_of(chip, L2_BYTES));
  kit_facts_number(
      facts, "memory.hbm.bandwidth_bytes_per_s",  // Two transfers a clock.
      number_of(chip, MEMORY_CLOCK_KHZ) * 2000 * (number_of(chip, MEMORY_BUS_BITS) / 8));
  kit_facts_text(facts, "features.ecc", number_of(chip, ECC) ? "true" : "false");
  kit_facts_text(facts, "features.library", has_library ? "true" : "false");
  kit_facts_text(facts, "features.collective", nccl_version != 0 ? "true" : "false");
}

// ---- Tier 1 ----

int32_t cuda_describe(void *data, kit_device_facts *facts) {
  const cuda_chip *chip = data;
  size_t bytes = 0;
  int32_t status = CU(DeviceTotalMem_v2, &bytes, chip->id);
  facts->hcd_ref = "hal/cuda";
  facts->memory_bytes = bytes;
  facts->alignment_bytes = 256;
  facts->dlpack_type = 2;  // kDLCUDA
  kit_facts_number(facts, "memory.hbm.capacity_bytes", bytes);
  kit_facts_number(facts, "execution.limits.allocation_bytes_max", bytes);
  kit_facts_number(facts, "memory.shared.capacity_bytes", chip->near_bytes);
  kit_facts_number(facts, "execution.simt.shared_bytes_per_block_max", chip->near_bytes);
  describe_more(chip, facts);
  return status;
}

void cuda_drop(void *data) {
  const cuda_chip *chip = data;
  if (chip->context != NULL) {
    cu.DevicePrimaryCtxRelease_v2(chip->id);
  }
}

// ---- Contexts ----

int32_t cuda_enter(void *data) {
  cuda_chip *chip = data;
  CUcontext context = __atomic_load_n(&chip->context, __ATOMIC_ACQUIRE), none = NULL;
  if (context == NULL) {  // It takes room: not before it is needed.
    int32_t status = CU(DevicePrimaryCtxRetain, &context, chip->id);
    if (status != HAL_OK) {
      return status;
    }
    if (!__atomic_compare_exchange_n(&chip->context, &none, context, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE)) {
      cu.DevicePrimaryCtxRelease_v2(chip->id);  // Another thread was first, with the same one.
    }
  }
  return CU(CtxPushCurrent_v2, context);
}

void cuda_leave(void) {
  CUcontext ignored;
  cu.CtxPopCurrent_v2(&ignored);
}
