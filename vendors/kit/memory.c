// Interface 3: buffers. The figures count per device index, over all its opened handles.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit_state.h"

kit_device *kit_memory_device(const kit_memory *memory) {
  return memory->object.device;
}

kit_allocation *kit_memory_allocation(kit_memory *memory) {
  return &memory->allocation;
}

unsigned char *kit_range_pointer(const kit_range *range) {
  uintptr_t first = (uintptr_t)range->memory->allocation.pointer;  // 0 for handles: an offset.
  return (unsigned char *)(first + range->offset_bytes);
}

// Gives device bytes back; runs when the last operation that uses the buffer has finished.
static void finish_memory(kit_object *object) {
  kit_memory *memory = (kit_memory *)object;
  if (!memory->wrapped) {
    uint64_t bytes = memory->allocation.bytes;
    void (*release)(kit_device *, kit_allocation *) = kit_the_port()->hooks.release;
    (release != NULL ? release : kit_host_release)(object->device, &memory->allocation);
    kit_chip *chip = object->device->chip;
    pthread_mutex_lock(&chip->lock);
    chip->reserved_bytes -= bytes;
    pthread_mutex_unlock(&chip->lock);
  }
  free(memory);
}

// Counts a buffer against the chip's total before anything is reserved; false when it is too much.
static bool count_in(kit_chip *chip, uint64_t bytes, uint64_t *out_free) {
  pthread_mutex_lock(&chip->lock);
  *out_free = chip->facts.memory_bytes - chip->reserved_bytes;
  bool fits = bytes <= *out_free;
  if (fits) {
    chip->reserved_bytes += bytes;
    chip->in_use_bytes += bytes;
    if (chip->in_use_bytes > chip->peak_bytes) {
      chip->peak_bytes = chip->in_use_bytes;
    }
  }
  pthread_mutex_unlock(&chip->lock);
  return fits;
}

static void count_out(kit_chip *chip, uint64_t in_use, uint64_t reserved) {
  pthread_mutex_lock(&chip->lock);
  chip->in_use_bytes -= in_use;
  chip->reserved_bytes -= reserved;
  pthread_mutex_unlock(&chip->lock);
}

static int32_t reserve(kit_device *device, kit_memory *memory) {
  kit_chip *chip = device->chip;
  uint64_t free_bytes = 0;
  if (!count_in(chip, memory->bytes, &free_bytes)) {
    return kit_fail(HAL_ERROR_OUT_OF_MEMORY, "%llu bytes are asked for, %llu of %llu are free",
                    (unsigned long long)memory->bytes, (unsigned long long)free_bytes,
                    (unsigned long long)chip->facts.memory_bytes);
  }
  int zero = (memory->flags & HAL_MEMORY_FLAG_ZERO) != 0;
  const kit_hooks *hooks = &kit_the_port()->hooks;
  int32_t status = (hooks->reserve != NULL ? hooks->reserve : kit_host_reserve)(
      device, memory->bytes, memory->alignment_bytes, zero, &memory->allocation);
  if (status != HAL_OK) {
    count_out(chip, memory->bytes, memory->bytes);
  }
  memory->allocation.bytes = memory->bytes;
  return status;
}

static int32_t alloc(kit_device *device, const hal_memory_desc *desc, hal_memory *out_memory) {
  int32_t status = kit_device_check(device);
  if (status != HAL_OK) {
    return status;
  }
  kit_memory *memory = calloc(1, sizeof(*memory));
  if (memory == NULL) {
    return kit_fail(HAL_ERROR_OUT_OF_MEMORY, "no host memory for a buffer");
  }
  uint64_t alignment = KIT_HAS(desc, alignment_bytes) ? desc->alignment_bytes : 0;
  memory->bytes = desc->bytes;
  memory->flags = KIT_HAS(desc, flags) ? desc->flags : 0;
  memory->alignment_bytes = alignment > device->chip->facts.alignment_bytes
                                ? alignment
                                : device->chip->facts.alignment_bytes;
  memory->object.finish = finish_memory;
  status = kit_device_answer(device, reserve(device, memory));
  if (status != HAL_OK) {
    free(memory);
    return status;
  }
  uint64_t handle = kit_handle_create(&memory->object, KIT_KIND_MEMORY, device);
  if (handle == 0) {
    count_out(device->chip, memory->bytes, 0);
    memory->object.device = device;
    finish_memory(&memory->object);
    return kit_fail(HAL_ERROR_OUT_OF_MEMORY, "no handle is left for a buffer");
  }
  *out_memory = handle;
  return HAL_OK;
}

int32_t kit_memory_alloc(hal_device handle, const hal_memory_desc *desc, hal_memory *out_memory) {
  kit_device *device = kit_acquire(handle, KIT_KIND_DEVICE);
  if (device == NULL) {
    return HAL_ERROR_INVALID_HANDLE;
  }
  int32_t status = alloc(device, desc, out_memory);
  kit_release(device);
  return status;
}

int32_t kit_memory_free(hal_memory handle) {
  kit_memory *memory = kit_acquire(handle, KIT_KIND_MEMORY);
  if (memory == NULL) {
    return HAL_ERROR_INVALID_HANDLE;
  }
  if (!kit_retire(memory)) {
    kit_release(memory);
    return kit_fail(HAL_ERROR_INVALID_HANDLE, "another thread frees the buffer");
  }
  if (!memory->wrapped) {
    count_out(memory->object.device->chip, memory->bytes, 0);
  }
  kit_release(memory);
  return HAL_OK;
}

int32_t kit_memory_info(hal_memory handle, hal_memory_facts *out_info) {
  kit_memory *memory = kit_acquire(handle, KIT_KIND_MEMORY);
  if (memory == NULL) {
    return HAL_ERROR_INVALID_HANDLE;
  }
  hal_memory_facts info = {.bytes = memory->bytes,
                           .alignment_bytes = memory->alignment_bytes,
                           .device = memory->object.device->object.handle,
                           .flags = memory->flags};
  kit_write_out(out_info, &info, sizeof(info));
  kit_release(memory);
  return HAL_OK;
}

int32_t kit_memory_stats(hal_device handle, hal_memory_figures *out_stats) {
  kit_device *device = kit_acquire(handle, KIT_KIND_DEVICE);
  if (device == NULL) {
    return HAL_ERROR_INVALID_HANDLE;
  }
  kit_chip *chip = device->chip;
  hal_memory_figures stats = {.total_bytes = chip->facts.memory_bytes};
  pthread_mutex_lock(&chip->lock);
  stats.in_use_bytes = chip->in_use_bytes;
  stats.peak_bytes = chip->peak_bytes;
  pthread_mutex_unlock(&chip->lock);
  kit_write_out(out_stats, &stats, sizeof(stats));
  kit_release(device);
  return HAL_OK;
}

int32_t kit_memory_wrap(hal_device handle, uint64_t native, uint64_t bytes,
                        hal_memory *out_memory) {
  kit_device *device = kit_acquire(handle, KIT_KIND_DEVICE);
  if (device == NULL) {
    return HAL_ERROR_INVALID_HANDLE;
  }
  kit_memory *memory = calloc(1, sizeof(*memory));
  uint64_t made = 0;
  if (memory != NULL) {
    memory->wrapped = true;
    memory->bytes = bytes;
    memory->alignment_bytes = native & -native;
    memory->allocation.native = native;
    memory->allocation.pointer = (void *)(uintptr_t)native;
    memory->allocation.bytes = bytes;
    memory->object.finish = finish_memory;
    made = kit_handle_create(&memory->object, KIT_KIND_MEMORY, device);
  }
  kit_release(device);
  if (made == 0) {
    free(memory);
    return kit_fail(HAL_ERROR_INVALID_VALUE, "no host memory or handle is left for a buffer");
  }
  *out_memory = made;
  return HAL_OK;
}

int32_t kit_memory_native_handle(hal_memory handle, uint64_t *out_native) {
  kit_memory *memory = kit_acquire(handle, KIT_KIND_MEMORY);
  if (memory == NULL) {
    return HAL_ERROR_INVALID_HANDLE;
  }
  int32_t status = HAL_OK;
  if (kit_host_is_fenced() && !memory->wrapped) {
    status = kit_fail(HAL_ERROR_UNSUPPORTED, "device memory is fenced from the host");
  } else {
    *out_native = memory->allocation.native;
  }
  kit_release(memory);
  return status;
}

int32_t kit_range_take(const hal_memory_ref *ref, const kit_device *device, const char *what,
                       kit_range *out) {
  kit_memory *memory = kit_acquire(ref->memory, KIT_KIND_MEMORY);
  if (memory == NULL) {
    char text[200];
    snprintf(text, sizeof(text), "%s", kit_error_text());
    return kit_fail(HAL_ERROR_INVALID_HANDLE, "%s: %s", what, text);
  }
  int32_t status = HAL_OK;
  if (device != NULL && memory->object.device != device) {
    status = kit_fail(HAL_ERROR_INVALID_HANDLE, "%s: the buffer belongs to another device", what);
  } else if (ref->offset_bytes > memory->bytes || ref->bytes > memory->bytes - ref->offset_bytes) {
    status = kit_fail(HAL_ERROR_OUT_OF_RANGE,
                      "%s: offset %llu + %llu bytes is beyond the buffer's %llu bytes", what,
                      (unsigned long long)ref->offset_bytes, (unsigned long long)ref->bytes,
                      (unsigned long long)memory->bytes);
  }
  if (status != HAL_OK) {
    kit_release(memory);
    return status;
  }
  *out = (kit_range){memory, ref->offset_bytes, ref->bytes};
  return HAL_OK;
}

void kit_range_drop(kit_range *range) {
  if (range->memory != NULL) {
    kit_release(range->memory);
    range->memory = NULL;
  }
}
