// The loader of OpenCL drivers, the devices behind it, and what they say about themselves.
#include <stdio.h>
#include <string.h>

#include "opencl.h"

enum { MOST = 32 };  // Devices of a platform, platforms.

cl_functions cl;
char cl_runtime[256];

int32_t cl_check(cl_int error, const char *call) {
  static const kit_codes_row rows[] = {
      {HAL_ERROR_DEVICE_LOST,
       "the driver has given the device up",
       {CL_DEVICE_NOT_AVAILABLE, CL_INVALID_COMMAND_QUEUE, CL_INVALID_CONTEXT}},
      {HAL_ERROR_OUT_OF_MEMORY,
       "the driver has no room",
       {CL_MEM_OBJECT_ALLOCATION_FAILURE, CL_OUT_OF_RESOURCES, CL_OUT_OF_HOST_MEMORY,
        CL_INVALID_BUFFER_SIZE}}};
  static const kit_codes codes = {"OpenCL", NULL, rows, 2};
  return kit_check(&codes, error, call);
}

uint64_t cl_number(cl_device_id id, cl_device_info key) {
  uint64_t value = 0;  // Little-endian: shorter numbers fill its low bytes.
  return cl.GetDeviceInfo(id, key, sizeof(value), &value, NULL) == CL_SUCCESS ? value : 0;
}

static int32_t open_chip(cl_chip *chip, const char *platform) {
  char version[128] = "", driver[64] = "";
  cl_int error;
  cl.GetDeviceInfo(chip->id, CL_DEVICE_VERSION, sizeof(version), version, NULL);
  cl.GetDeviceInfo(chip->id, CL_DRIVER_VERSION, sizeof(driver), driver, NULL);
  if (strncmp(version, "OpenCL 1.0", 10) == 0 || strncmp(version, "OpenCL 1.1", 10) == 0) {
    return kit_fail(HAL_ERROR_UNSUPPORTED, "it is %s; OpenCL 1.2 is needed", version);
  }
  if (cl_number(chip->id, CL_DEVICE_AVAILABLE) == 0 ||
      cl_number(chip->id, CL_DEVICE_COMPILER_AVAILABLE) == 0) {
    return kit_fail(HAL_ERROR_UNSUPPORTED, "it is not available, or has no compiler");
  }
  // Processors have one lane, which has no barriers to meet at.
  int is_processor = (cl_number(chip->id, CL_DEVICE_TYPE) & CL_DEVICE_TYPE_CPU) != 0;
  chip->lanes = (uint32_t)kit_option_number("lanes", "HAL_OPENCL_LANES", (uint64_t)is_processor);
  chip->context = cl.CreateContext(NULL, 1, &chip->id, NULL, NULL, &error);
  if (error != CL_SUCCESS) {
    return kit_fail(HAL_ERROR_NOT_FOUND, "%.80s, driver %s: no context (OpenCL %d)", platform,
                    driver, error);
  }
  if (cl_runtime[0] == '\0') {
    snprintf(cl_runtime, sizeof(cl_runtime), "%.80s, %.80s, driver %s", platform, version, driver);
  }
  return HAL_OK;
}

static void take_platform(cl_platform_id platform, uint32_t number) {
  cl_device_id ids[MOST];
  cl_uint found = 0;
  char name[128] = "";
  cl.GetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof(name), name, NULL);
  if (!kit_option_picks("platform", "HAL_OPENCL_PLATFORM", name, number) ||
      cl.GetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, MOST, ids, &found) != CL_SUCCESS) {
    found = 0;
  }
  for (cl_uint i = 0; i < found && i < MOST; ++i) {
    cl_chip chip = {.id = ids[i]};
    char device[256] = "";
    cl.GetDeviceInfo(chip.id, CL_DEVICE_NAME, sizeof(device), device, NULL);
    if (!kit_option_picks("device", "HAL_OPENCL_DEVICE", device, i)) {
      continue;
    }
    if (open_chip(&chip, name) != HAL_OK ||
        kit_device_offer(device, &chip, sizeof(chip)) != HAL_OK) {
      kit_device_refuse(device);
    }
  }
}

int32_t cl_start(void) {
  static const kit_symbol symbols[] = {
#define X(name) {"cl" #name, &cl.name},
      CL_FUNCTIONS(X)
#undef X
          {NULL, NULL}};
  static const kit_library loader = {
      .what = "OpenCL loader",
      .files = {"libOpenCL.so.1"},
      .symbols = symbols,
      .advice = "Install the device's driver, or Debian's ocl-icd-libopencl1 with pocl-opencl-icd",
      .missing = "it is older than OpenCL 1.2, or broken"};
  cl_platform_id ids[MOST];
  cl_uint found = 0;
  int32_t status = kit_library_open(&loader);
  if (status != HAL_OK) {
    return status;
  }
  cl_int error = cl.GetPlatformIDs(MOST, ids, &found);
  if (found == 0 || error != CL_SUCCESS) {
    return kit_fail(HAL_ERROR_NOT_FOUND,
                    "no OpenCL platform: clGetPlatformIDs answers %d. Install a driver (Debian: "
                    "pocl-opencl-icd), or see what /etc/OpenCL/vendors and OCL_ICD_VENDORS name",
                    error);
  }
  cl_runtime[0] = '\0';
  for (cl_uint i = 0; i < found && i < MOST; ++i) {
    take_platform(ids[i], i);
  }
  return HAL_OK;
}

// ---- Optional ----

enum { NEAR_OF_PROGRAMS = 65536 };  // What programs may count on; the rest is global memory.

// What is more than the description says of every device.
static void describe_more(const cl_chip *chip, kit_device_facts *facts) {
  uint64_t words = cl_number(chip->id, CL_DEVICE_MAX_PARAMETER_SIZE);
  uint64_t local = cl_number(chip->id, CL_DEVICE_LOCAL_MEM_SIZE);
  if (local > NEAR_OF_PROGRAMS) {
    kit_facts_number(facts, "kernels.vil.spaces.near.capacity_bytes", local);
  }
  kit_facts_number(facts, "units.{execution.core}.count",
                   cl_number(chip->id, CL_DEVICE_MAX_COMPUTE_UNITS));
  kit_facts_number(facts, "clocks.core.sustained_hz",
                   cl_number(chip->id, CL_DEVICE_MAX_CLOCK_FREQUENCY) * 1000000);
  // A buffer is three arguments of 8 bytes; the grid and the state are four more.
  kit_facts_number(facts, "execution.limits.argument_count_max",
                   (words < 1024 ? 1024 : words - 32) / 24);
}

// ---- Tier 1 ----

int32_t cl_describe(void *data, kit_device_facts *facts) {
  const cl_chip *chip = data;
  facts->hcd_ref = "hal/opencl";
  facts->memory_bytes = cl_number(chip->id, CL_DEVICE_GLOBAL_MEM_SIZE);
  facts->alignment_bytes = 128;  // Of the driver's largest type; offsets count from there.
  kit_facts_number(facts, "memory.{execution.buffers}.capacity_bytes", facts->memory_bytes);
  kit_facts_number(facts, "execution.limits.allocation_bytes_max",
                   cl_number(chip->id, CL_DEVICE_MAX_MEM_ALLOC_SIZE));
  kit_facts_number(facts, "memory.{kernels.vil.spaces.near.memory}.capacity_bytes",
                   cl_number(chip->id, CL_DEVICE_LOCAL_MEM_SIZE));
  kit_facts_dtype(facts, "f64", cl_number(chip->id, CL_DEVICE_DOUBLE_FP_CONFIG) != 0);
  describe_more(chip, facts);
  return HAL_OK;
}

void cl_drop(void *chip) {
  cl.ReleaseContext(((cl_chip *)chip)->context);
}
