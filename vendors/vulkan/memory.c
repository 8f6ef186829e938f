// Hooks of memory: a block for each allocation.
#include <stdlib.h>

#include "vk.h"

int32_t vulkan_reserve(kit_device *device, uint64_t bytes, uint64_t alignment, int zero,
                       kit_allocation *out_allocation) {
  vulkan_device *on = vulkan_device_of(device);
  vulkan_block *made = calloc(1, sizeof(*made));
  if (made == NULL) {
    return kit_fail(HAL_ERROR_OUT_OF_MEMORY, "no host memory for a buffer");
  }
  // Room to move the first byte, and to fill whole words.
  uint64_t whole = (bytes + 3) & ~UINT64_C(3);
  int32_t status = vulkan_block_create(on, whole + alignment, false, made);
  if (status == HAL_OK && zero && (status = vulkan_clear(device, made)) != HAL_OK) {
    vulkan_block_free(on, made);
  }
  if (status != HAL_OK) {
    free(made);
    return status;
  }
  uint64_t first = (made->address + alignment - 1) & ~(alignment - 1);
  *out_allocation =
      (kit_allocation){.pointer = (void *)(uintptr_t)first, .native = first, .port_data = made};
  return HAL_OK;
}

void vulkan_release(kit_device *device, kit_allocation *allocation) {
  vulkan_block_free(vulkan_device_of(device), allocation->port_data);
  free(allocation->port_data);
}
