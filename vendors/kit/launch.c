// Interface 8: launches. All that can be refused is refused here, before the launch is enqueued.
#include <string.h>

#include "kit_state.h"

static int32_t check_limits(const kit_chip *chip, const hal_launch_desc *desc) {
  for (int axis = 0; axis < 3; ++axis) {
    if (desc->grid[axis] > chip->grid_max[axis]) {
      return kit_fail(HAL_ERROR_OUT_OF_RANGE, "grid axis %d has %u programs, the chip takes %u",
                      axis, desc->grid[axis], chip->grid_max[axis]);
    }
  }
  uint64_t scratch = KIT_HAS(desc, scratch_bytes) ? desc->scratch_bytes : 0;
  if (scratch > chip->scratch_max_bytes) {
    return kit_fail(HAL_ERROR_OUT_OF_RANGE,
                    "%llu bytes of scratch are asked for, the chip has %llu",
                    (unsigned long long)scratch, (unsigned long long)chip->scratch_max_bytes);
  }
  return HAL_OK;
}

static int32_t check_kinds(const vil_kernel *kernel, const hal_launch_desc *desc) {
  uint32_t wanted = vil_kernel_argument_count(kernel);
  if (desc->argument_count != wanted) {
    return kit_fail(HAL_ERROR_INVALID_VALUE, "kernel %s takes %u arguments, %u are given",
                    vil_kernel_name(kernel), wanted, desc->argument_count);
  }
  static const char *const names[] = {"nothing", "BUFFER", "I32", "I64", "F32", "F64"};
  for (uint32_t i = 0; i < wanted; ++i) {
    uint32_t kind = vil_kernel_argument_kind(kernel, i);
    uint32_t given = desc->arguments[i].kind;
    if (given != kind) {
      return kit_fail(HAL_ERROR_INVALID_VALUE, "argument %u of kernel %s is %s, %s is given", i,
                      vil_kernel_name(kernel), names[kind <= 5 ? kind : 0],
                      names[given <= 5 ? given : 0]);
    }
  }
  return HAL_OK;
}

// Resolves the arguments into `resolved` and the operation's uses, each with a reference.
static int32_t resolve(const kit_device *device, const vil_kernel *kernel,
                       const hal_launch_desc *desc, kit_operation *operation, kit_range *uses,
                       vil_argument *resolved) {
  operation->uses = uses;
  for (uint32_t i = 0; i < desc->argument_count; ++i) {
    const hal_argument *given = &desc->arguments[i];
    resolved[i] = (vil_argument){.kind = given->kind, .scalar = given->scalar};
    if (given->kind != HAL_ARGUMENT_BUFFER) {
      continue;
    }
    kit_range *range = &uses[operation->use_count];
    int32_t status = kit_range_take(&given->buffer, device, "kernel argument", range);
    if (status != HAL_OK) {
      return status;
    }
    ++operation->use_count;
    resolved[i].data = kit_range_pointer(range);
    resolved[i].bytes = range->bytes;
    uint32_t element = vil_kernel_argument_element_bytes(kernel, i);
    if (element > 1 && (uintptr_t)resolved[i].data % element != 0) {
      return kit_fail(
          HAL_ERROR_INVALID_VALUE,
          "argument %u of kernel %s: offset %llu is no multiple of its %u-byte elements", i,
          vil_kernel_name(kernel), (unsigned long long)given->buffer.offset_bytes, element);
    }
  }
  return HAL_OK;
}

static int32_t fill_place(kit_place *place, kit_device *device, kit_kernel *kernel,
                          const hal_launch_desc *desc) {
  kit_operation *operation = &place->operation;
  operation->kind = KIT_LAUNCH;
  uint64_t launch_bytes = (vil_launch_bytes(kernel->vil) + 15) & ~UINT64_C(15);
  uint64_t count = desc->argument_count;
  char *block =
      kit_place_block(place, launch_bytes + count * (sizeof(kit_range) + sizeof(vil_argument)));
  if (block == NULL) {
    return kit_fail(HAL_ERROR_OUT_OF_MEMORY, "no host memory for a launch");
  }
  kit_range *uses = (kit_range *)(block + launch_bytes);
  vil_argument *resolved = (vil_argument *)(uses + count);
  int32_t status = resolve(device, kernel->vil, desc, operation, uses, resolved);
  if (status != HAL_OK) {
    return status;
  }
  char reason[400] = "";
  status = vil_launch_bind(kernel->vil, desc->grid, resolved, desc->argument_count,
                           device->chip->limits, block, reason, sizeof(reason));
  if (status != HAL_OK) {
    return kit_fail(status, "%s", reason);
  }
  operation->launch = block;
  kit_retain(kernel);
  operation->kernel = kernel;
  return HAL_OK;
}

static int32_t launch(kit_stream *stream, kit_kernel *kernel, const hal_launch_desc *desc) {
  kit_device *device = stream->object.device;
  if (kernel->object.device != device) {
    return kit_fail(HAL_ERROR_INVALID_HANDLE, "the kernel belongs to another device");
  }
  int32_t status = check_limits(device->chip, desc);
  if (status == HAL_OK) {
    status = check_kinds(kernel->vil, desc);
  }
  kit_place *place = NULL;
  if (status == HAL_OK) {
    status = kit_enqueue_begin(stream, false, &place);
  }
  if (status != HAL_OK) {
    return status;
  }
  status = fill_place(place, device, kernel, desc);
  if (status != HAL_OK) {
    kit_enqueue_cancel(stream, place);
    return status;
  }
  return kit_enqueue_end(stream, place);
}

int32_t kit_launch_launch(hal_stream stream_handle, hal_kernel kernel_handle,
                          const hal_launch_desc *desc) {
  kit_stream *stream = kit_acquire(stream_handle, KIT_KIND_STREAM);
  kit_kernel *kernel = stream == NULL ? NULL : kit_acquire(kernel_handle, KIT_KIND_KERNEL);
  int32_t status = kernel == NULL ? HAL_ERROR_INVALID_HANDLE : launch(stream, kernel, desc);
  if (kernel != NULL) {
    kit_release(kernel);
  }
  if (stream != NULL) {
    kit_release(stream);
  }
  return status;
}
