// A launch that is bound and looked at, and never enqueued.
#include <stdlib.h>

#include "kit_state.h"

enum { MOST_ARGUMENTS = 4096 };

// Each buffer's bytes lie at the start of an address space that nobody reads.
static void describe(const hal_launch_desc *desc, vil_argument *arguments) {
  for (uint32_t i = 0; i < desc->argument_count; ++i) {
    const hal_argument *given = &desc->arguments[i];
    arguments[i] = (vil_argument){.kind = given->kind, .scalar = given->scalar};
    if (given->kind == HAL_ARGUMENT_BUFFER) {
      arguments[i].bytes = given->buffer.bytes;
    }
  }
}

static int32_t preview(kit_kernel *kernel, const hal_launch_desc *desc,
                       int32_t (*visit)(void *context, kit_device *device, const void *launch),
                       void *context) {
  if (desc->argument_count > MOST_ARGUMENTS) {
    return kit_fail(HAL_ERROR_INVALID_VALUE, "%u arguments are too many", desc->argument_count);
  }
  kit_device *device = kernel->object.device;
  uint64_t launch_bytes = (vil_launch_bytes(kernel->vil) + 63) & ~UINT64_C(63);
  void *launch = aligned_alloc(64, launch_bytes);
  vil_argument *arguments = calloc(desc->argument_count + 1u, sizeof(*arguments));
  int32_t status = HAL_ERROR_OUT_OF_MEMORY;
  if (launch == NULL || arguments == NULL) {
    kit_fail(status, "no host memory for a launch");
  } else {
    char reason[400] = "";
    describe(desc, arguments);
    status = vil_launch_bind(kernel->vil, desc->grid, arguments, desc->argument_count,
                             device->chip->limits, launch, reason, sizeof(reason));
    status = status != HAL_OK ? kit_fail(status, "%s", reason) : visit(context, device, launch);
  }
  free(arguments);
  free(launch);
  return status;
}

int32_t kit_launch_preview(hal_kernel handle, const hal_launch_desc *desc,
                           int32_t (*visit)(void *context, kit_device *device, const void *launch),
                           void *context) {
  kit_kernel *kernel = kit_acquire(handle, KIT_KIND_KERNEL);
  if (kernel == NULL) {
    return HAL_ERROR_INVALID_HANDLE;
  }
  int32_t status = preview(kernel, desc, visit, context);
  kit_release(kernel);
  return status;
}
