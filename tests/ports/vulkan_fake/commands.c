// Memory, and commands as they are recorded.
#include <stdlib.h>
#include <string.h>

#include "fake.h"

// ---- Memory ----

VkResult vkCreateBuffer(VkDevice device, const VkBufferCreateInfo *info, ALLOCATOR, VkBuffer *out) {
  (void)device, NO_ALLOCATOR;
  ANSWER("vkCreateBuffer");
  buffer *made = make(sizeof(*made));
  made->bytes = info->size;
  *out = TO(VkBuffer, made);
  return VK_SUCCESS;
}

void vkDestroyBuffer(VkDevice device, VkBuffer handle, ALLOCATOR) {
  (void)device, NO_ALLOCATOR;
  free(OF(buffer, handle));
}

void vkGetBufferMemoryRequirements(VkDevice device, VkBuffer handle, VkMemoryRequirements *out) {
  (void)device;
  *out = (VkMemoryRequirements){OF(buffer, handle)->bytes, 16, 3};
}

VkDeviceAddress vkGetBufferDeviceAddress(VkDevice device, const VkBufferDeviceAddressInfo *info) {
  (void)device;
  return (VkDeviceAddress)(uintptr_t)OF(buffer, info->buffer)->memory->data;
}

VkResult vkAllocateMemory(VkDevice device, const VkMemoryAllocateInfo *info, ALLOCATOR,
                          VkDeviceMemory *out) {
  (void)device, NO_ALLOCATOR;
  ANSWER("vkAllocateMemory");
  memory *made = make(sizeof(*made));
  made->bytes = info->allocationSize;
  made->type = info->memoryTypeIndex;
  made->data = malloc(info->allocationSize);
  check(made->data != NULL, "no memory");
  memset(made->data, 0xA5, info->allocationSize);
  *out = TO(VkDeviceMemory, made);
  return VK_SUCCESS;
}

void vkFreeMemory(VkDevice device, VkDeviceMemory handle, ALLOCATOR) {
  (void)device, NO_ALLOCATOR;
  if (handle != VK_NULL_HANDLE) {
    free(OF(memory, handle)->data);
    free(OF(memory, handle));
  }
}

VkResult vkBindBufferMemory(VkDevice device, VkBuffer handle, VkDeviceMemory to,
                            VkDeviceSize offset) {
  (void)device;
  ANSWER("vkBindBufferMemory");
  check(offset == 0 && OF(memory, to)->bytes >= OF(buffer, handle)->bytes, "memory is too short");
  OF(buffer, handle)->memory = OF(memory, to);
  return VK_SUCCESS;
}

VkResult vkMapMemory(VkDevice device, VkDeviceMemory handle, VkDeviceSize offset, VkDeviceSize size,
                     VkMemoryMapFlags flags, void **out) {
  (void)device, (void)size, (void)flags;
  ANSWER("vkMapMemory");
  check(OF(memory, handle)->type == 1, "memory of the device is mapped");
  *out = OF(memory, handle)->data + offset;
  return VK_SUCCESS;
}

// ---- Commands ----

typedef struct pool {
  commands *first;
} pool;

VkResult vkCreateCommandPool(VkDevice device, const VkCommandPoolCreateInfo *info, ALLOCATOR,
                             VkCommandPool *out) {
  (void)device, (void)info, NO_ALLOCATOR;
  ANSWER("vkCreateCommandPool");
  *out = TO(VkCommandPool, make(sizeof(pool)));
  return VK_SUCCESS;
}

VkResult vkAllocateCommandBuffers(VkDevice device, const VkCommandBufferAllocateInfo *info,
                                  VkCommandBuffer *out) {
  (void)device;
  ANSWER("vkAllocateCommandBuffers");
  pool *from = OF(pool, info->commandPool);
  for (uint32_t i = 0; i < info->commandBufferCount; ++i) {
    commands *made = make(sizeof(*made));
    made->next = from->first;
    from->first = made;
    out[i] = TO(VkCommandBuffer, made);
  }
  return VK_SUCCESS;
}

VkResult vkBeginCommandBuffer(VkCommandBuffer handle, const VkCommandBufferBeginInfo *info) {
  (void)info;
  ANSWER("vkBeginCommandBuffer");
  OF(commands, handle)->count = 0;
  return VK_SUCCESS;
}

VkResult vkEndCommandBuffer(VkCommandBuffer handle) {
  (void)handle;
  ANSWER("vkEndCommandBuffer");
  return VK_SUCCESS;
}

static command *add(VkCommandBuffer handle, kind kind) {
  commands *to = OF(commands, handle);
  if (to->count == to->room) {
    to->room = to->room * 2 + 4;
    to->list = realloc(to->list, to->room * sizeof(*to->list));
    check(to->list != NULL, "no memory");
  }
  command *added = &to->list[to->count++];
  *added = (command){.kind = kind};
  return added;
}

void vkCmdPipelineBarrier(VkCommandBuffer handle, VkPipelineStageFlags from,
                          VkPipelineStageFlags to, VkDependencyFlags flags, uint32_t count,
                          const VkMemoryBarrier *barriers, uint32_t buffer_count,
                          const VkBufferMemoryBarrier *buffers, uint32_t image_count,
                          const VkImageMemoryBarrier *images) {
  (void)handle, (void)from, (void)to, (void)flags, (void)count, (void)barriers;
  (void)buffer_count, (void)buffers, (void)image_count, (void)images;
}

void vkCmdCopyBuffer(VkCommandBuffer handle, VkBuffer source, VkBuffer target, uint32_t count,
                     const VkBufferCopy *regions) {
  check(count == 1, "the fake copies one region");
  command *added = add(handle, COPY);
  added->from = OF(buffer, source);
  added->to = OF(buffer, target);
  added->from_offset = regions->srcOffset;
  added->to_offset = regions->dstOffset;
  added->bytes = regions->size;
}

void vkCmdFillBuffer(VkCommandBuffer handle, VkBuffer target, VkDeviceSize offset,
                     VkDeviceSize bytes, uint32_t word) {
  command *added = add(handle, FILL);
  added->to = OF(buffer, target);
  added->to_offset = offset;
  added->bytes = bytes == VK_WHOLE_SIZE ? (added->to->bytes - offset) / 4 * 4 : bytes;
  added->word = word;
  check(offset % 4 == 0 && added->bytes % 4 == 0, "a fill off the grid of words");
}

void vkCmdBindPipeline(VkCommandBuffer handle, VkPipelineBindPoint point, VkPipeline pipeline) {
  (void)point;
  OF(commands, handle)->fills = *OF(bool, pipeline);
}

void vkCmdPushConstants(VkCommandBuffer handle, VkPipelineLayout layout, VkShaderStageFlags stages,
                        uint32_t offset, uint32_t bytes, const void *values) {
  (void)layout, (void)stages;
  check(offset == 0 && bytes == sizeof(push), "a shader's constants have another length");
  memcpy(&OF(commands, handle)->push, values, bytes);
}

void vkCmdDispatch(VkCommandBuffer handle, uint32_t x, uint32_t y, uint32_t z) {
  check(x >= 1 && y == 1 && z == 1, "a dispatch of no groups");
  command *added = add(handle, DISPATCH);
  added->fills = OF(commands, handle)->fills;
  added->push = OF(commands, handle)->push;
}

void vkDestroyCommandPool(VkDevice device, VkCommandPool handle, ALLOCATOR) {
  (void)device, NO_ALLOCATOR;
  pool *ended = OF(pool, handle);
  while (ended != NULL && ended->first != NULL) {
    commands *next = ended->first->next;
    forget(NULL, ended->first);
    free(ended->first->list);
    free(ended->first);
    ended->first = next;
  }
  free(ended);
}
