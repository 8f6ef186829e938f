// A VkBuffer with memory of its own.
#include "vk.h"

void vulkan_block_free(vulkan_device *on, vulkan_block *block) {
  vk.vkDestroyBuffer(on->device, block->buffer, NULL);
  vk.vkFreeMemory(on->device, block->memory, NULL);
  *block = (vulkan_block){0};
}

static int32_t fill_block(vulkan_device *on, bool for_host, vulkan_block *block) {
  VkBufferCreateInfo made = {
      .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
      .size = block->bytes,
      .usage = VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT |
               VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT};
  VULKAN_TRY(vkCreateBuffer, on->device, &made, NULL, &block->buffer);
  VkMemoryRequirements wants;
  vk.vkGetBufferMemoryRequirements(on->device, block->buffer, &wants);
  VkMemoryAllocateFlagsInfo addressed = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
                                         .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT};
  VkMemoryAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                               .pNext = &addressed,
                               .allocationSize = wants.size,
                               .memoryTypeIndex = for_host ? on->host_type : on->device_type};
  VULKAN_TRY(vkAllocateMemory, on->device, &info, NULL, &block->memory);
  VULKAN_TRY(vkBindBufferMemory, on->device, block->buffer, block->memory, 0);
  if (for_host) {
    VULKAN_TRY(vkMapMemory, on->device, block->memory, 0, VK_WHOLE_SIZE, 0, &block->mapped);
  }
  VkBufferDeviceAddressInfo ask = {.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO,
                                   .buffer = block->buffer};
  block->address = vk.vkGetBufferDeviceAddress(on->device, &ask);
  return HAL_OK;
}

int32_t vulkan_block_create(vulkan_device *on, uint64_t bytes, bool for_host,
                            vulkan_block *out_block) {
  *out_block = (vulkan_block){.bytes = bytes};
  int32_t status = fill_block(on, for_host, out_block);
  if (status != HAL_OK) {
    vulkan_block_free(on, out_block);
  }
  return status;
}

VkBuffer vulkan_range(const kit_range *range, VkDeviceSize *out_offset) {
  const vulkan_block *made = kit_memory_allocation(range->memory)->port_data;
  *out_offset = (uint64_t)(uintptr_t)kit_range_pointer(range) - made->address;
  return made->buffer;
}
