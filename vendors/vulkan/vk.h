// The port's parts: the runtime's functions, devices, blocks of memory, queues, launches.
#ifndef VULKAN_VK_H_
#define VULKAN_VK_H_

#include <pthread.h>
#include <stdbool.h>
#define VK_NO_PROTOTYPES
#include <vulkan/vulkan.h>

#include "kit_runtime.h"
#include "vil_flat.h"

// The functions that are called: the loader exports all of Vulkan 1.2. It is found at run time and
// not needed to build.
// clang-format off
#define VULKAN_FUNCTIONS(X) \
  X(vkCreateInstance) X(vkDestroyInstance) X(vkEnumeratePhysicalDevices) \
  X(vkGetPhysicalDeviceProperties2) X(vkGetPhysicalDeviceFeatures2) \
  X(vkGetPhysicalDeviceMemoryProperties) X(vkGetPhysicalDeviceQueueFamilyProperties) \
  X(vkCreateDevice) X(vkDestroyDevice) X(vkGetDeviceQueue) X(vkDeviceWaitIdle) \
  X(vkCreateBuffer) X(vkDestroyBuffer) X(vkGetBufferMemoryRequirements) \
  X(vkGetBufferDeviceAddress) X(vkAllocateMemory) X(vkFreeMemory) X(vkBindBufferMemory) \
  X(vkMapMemory) X(vkCreateSemaphore) X(vkDestroySemaphore) X(vkGetSemaphoreCounterValue) \
  X(vkWaitSemaphores) X(vkCreateCommandPool) X(vkDestroyCommandPool) \
  X(vkAllocateCommandBuffers) X(vkBeginCommandBuffer) X(vkEndCommandBuffer) \
  X(vkCmdPipelineBarrier) X(vkCmdCopyBuffer) X(vkCmdFillBuffer) X(vkCmdBindPipeline) \
  X(vkCmdPushConstants) X(vkCmdDispatch) X(vkQueueSubmit) X(vkCreateShaderModule) \
  X(vkDestroyShaderModule) X(vkCreatePipelineLayout) X(vkDestroyPipelineLayout) \
  X(vkCreateComputePipelines) X(vkDestroyPipeline)
// clang-format on

#define VULKAN_MEMBER(name) PFN_##name name;
typedef struct vulkan_api {
  VULKAN_FUNCTIONS(VULKAN_MEMBER)
} vulkan_api;
extern vulkan_api vk;

// The status of a call's result, with the error record set.
int32_t vulkan_check(VkResult result, const char *call);

// Calls a function of the runtime; returns the status from the calling function when it fails.
#define VULKAN_TRY(function, ...)                                        \
  do {                                                                   \
    int32_t failed_ = vulkan_check(vk.function(__VA_ARGS__), #function); \
    if (failed_ != HAL_OK) return failed_;                               \
  } while (0)

// A buffer with memory of its own. Every buffer has an address for shaders; `mapped` is NULL in
// memory of the device.
typedef struct vulkan_block {
  VkBuffer buffer;
  VkDeviceMemory memory;
  uint64_t address, bytes;
  void *mapped;
} vulkan_block;

// The interpreter with these or without, and the shader that fills.
enum { VULKAN_ELEMENTARY = 1, VULKAN_MORE = 2, VULKAN_FILL = 4, VULKAN_PIPELINES };

typedef struct vulkan_device {
  VkPhysicalDevice physical;
  VkDevice device;
  VkQueue queue;
  uint32_t family;
  pthread_mutex_t lock;             // Guards `queue` and `pipelines`.
  uint32_t device_type, host_type;  // Numbers of memory types.
  vil_flat_shape shape;
  VkShaderModule interpret, fill;
  VkPipelineLayout layout;
  VkPipeline pipelines[VULKAN_PIPELINES];
  uint64_t memory_bytes, allocation_bytes;
} vulkan_device;

// What a shader gets: all it works on is named by address.
typedef struct vulkan_push {
  uint64_t words[3];
  uint32_t small[2];
} vulkan_push;

vulkan_device *vulkan_device_of(const kit_device *device);

// devices.c
int32_t vulkan_start(void);
void vulkan_stop(void);
int32_t vulkan_describe(void *data, kit_device_facts *facts);
void vulkan_drop(void *data);

// block.c
int32_t vulkan_block_create(vulkan_device *on, uint64_t bytes, bool for_host,
                            vulkan_block *out_block);
void vulkan_block_free(vulkan_device *on, vulkan_block *block);
int32_t vulkan_reserve(kit_device *device, uint64_t bytes, uint64_t alignment, int zero,
                       kit_allocation *out_allocation);
void vulkan_release(kit_device *device, kit_allocation *allocation);
VkBuffer vulkan_range(const kit_range *range, VkDeviceSize *out_offset);

// pipeline.c
int32_t vulkan_pipelines_create(vulkan_device *on);
void vulkan_pipelines_free(vulkan_device *on);
// The interpreter for a program with these masks; NULL: the shader that fills.
int32_t vulkan_pipeline_get(vulkan_device *on, const uint32_t uses[4], VkPipeline *out_pipeline);

// queue.c
int32_t vulkan_queue_open(kit_device *device, uint64_t *queue);
void vulkan_queue_close(kit_device *device, uint64_t queue);
int32_t vulkan_submit(kit_device *device, uint64_t queue, kit_operation *operation);
// Fills a block with zeros, and waits for it.
int32_t vulkan_clear(kit_device *device, const vulkan_block *block);
int32_t vulkan_poll(kit_device *device, uint64_t queue, uint64_t *out_finished);

#endif  // VULKAN_VK_H_
