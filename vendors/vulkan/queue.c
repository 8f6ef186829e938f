// A stream: command buffers in flight, ordered by one timeline semaphore. Each waits for the value
// that the one before signals, so that it sees all that those before have written. A launch is
// dispatched again until all its work-groups have finished; what comes behind waits for it here, so
// that nothing runs behind a failure.
#include <stdlib.h>
#include <string.h>

#include "vk.h"

enum { IN_FLIGHT = 64, KEPT_BYTES = 1 << 20, FAULT_WORDS = 6 };
static const uint64_t PATIENCE_NS = 30000000000;  // For work that the device has; then it hangs.

typedef struct slot {  // One operation in flight.
  VkCommandBuffer commands;
  vulkan_block staging;  // Bytes on their way between host and device, or what a launch reads.
  uint64_t value;        // Of the timeline, when the device is through with it.
  const void *launch;    // The kit's; it lives until the operation has finished.
  void *host_target;
  uint64_t host_bytes;
} slot;

typedef struct queue {
  VkSemaphore timeline;
  VkCommandPool pool;
  vulkan_block fault;  // Words of the first fault; see interpret.comp.
  vulkan_block arena;  // Tiles of the running launch; launches of one queue run one after another.
  vulkan_block spare;  // A staging block for the next operation.
  uint64_t submitted, finished;
  uint64_t value;     // Latest of the timeline that will be signalled.
  uint64_t launched;  // Number of the latest launch.
  slot slots[IN_FLIGHT];
} queue;

static int32_t fill_queue(vulkan_device *on, queue *made) {
  VkSemaphoreTypeCreateInfo type = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                    .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
  VkSemaphoreCreateInfo semaphore = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO,
                                     .pNext = &type};
  VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                  .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
                                  .queueFamilyIndex = on->family};
  VULKAN_TRY(vkCreateSemaphore, on->device, &semaphore, NULL, &made->timeline);
  VULKAN_TRY(vkCreateCommandPool, on->device, &pool, NULL, &made->pool);
  VkCommandBuffer commands[IN_FLIGHT];
  VkCommandBufferAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                      .commandPool = made->pool,
                                      .commandBufferCount = IN_FLIGHT};
  VULKAN_TRY(vkAllocateCommandBuffers, on->device, &info, commands);
  for (int i = 0; i < IN_FLIGHT; ++i) {
    made->slots[i].commands = commands[i];
  }
  int32_t status = vulkan_block_create(on, FAULT_WORDS * 4, true, &made->fault);
  if (status == HAL_OK) {
    memset(made->fault.mapped, 0, FAULT_WORDS * 4);
  }
  return status;
}

int32_t vulkan_queue_open(kit_device *device, uint64_t *out_queue) {
  queue *made = calloc(1, sizeof(*made));
  if (made == NULL) {
    return kit_fail(HAL_ERROR_OUT_OF_MEMORY, "no host memory for a queue");
  }
  int32_t status = fill_queue(vulkan_device_of(device), made);
  *out_queue = (uint64_t)(uintptr_t)made;
  if (status != HAL_OK) {
    vulkan_queue_close(device, *out_queue);
  }
  return status;
}

static int32_t wait_for(vulkan_device *on, queue *self, uint64_t value) {
  VkSemaphoreWaitInfo wait = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
                              .semaphoreCount = 1,
                              .pSemaphores = &self->timeline,
                              .pValues = &value};
  VULKAN_TRY(vkWaitSemaphores, on->device, &wait, PATIENCE_NS);
  return HAL_OK;
}

void vulkan_queue_close(kit_device *device, uint64_t handle) {
  vulkan_device *on = vulkan_device_of(device);
  queue *self = (queue *)(uintptr_t)handle;
  if (self->value != 0 && wait_for(on, self, self->value) == HAL_ERROR_INTERNAL) {
    return;  // It hangs, and may still write what would be freed here.
  }
  vk.vkDestroySemaphore(on->device, self->timeline, NULL);
  vk.vkDestroyCommandPool(on->device, self->pool, NULL);
  for (int i = 0; i < IN_FLIGHT; ++i) {
    vulkan_block_free(on, &self->slots[i].staging);
  }
  vulkan_block_free(on, &self->fault);
  vulkan_block_free(on, &self->arena);
  vulkan_block_free(on, &self->spare);
  free(self);
}

static int32_t take_staging(vulkan_device *on, queue *self, uint64_t bytes, slot *at) {
  if (self->spare.bytes >= bytes) {
    at->staging = self->spare;
    self->spare = (vulkan_block){0};
    return HAL_OK;
  }
  return vulkan_block_create(on, bytes < 4096 ? 4096 : bytes, true, &at->staging);
}

static void order(VkCommandBuffer commands, VkPipelineStageFlags to, VkAccessFlags access) {
  VkMemoryBarrier barrier = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                             .srcAccessMask = VK_ACCESS_MEMORY_WRITE_BIT,
                             .dstAccessMask = access};
  vk.vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, to, 0, 1, &barrier, 0, NULL,
                          0, NULL);
}

// ---- What each kind of operation records ----

static int32_t record_copy(vulkan_device *on, queue *self, slot *at, kit_operation *operation) {
  bool in = operation->kind == KIT_COPY_TO_DEVICE, out = operation->kind == KIT_COPY_TO_HOST;
  uint64_t bytes = in ? operation->target.bytes : operation->source.bytes;
  VkBufferCopy from = {.size = bytes}, to = {.size = bytes};
  VkBuffer source = VK_NULL_HANDLE, target = VK_NULL_HANDLE;
  if (!in) {
    source = vulkan_range(&operation->source, &from.srcOffset);
  }
  if (!out) {
    target = vulkan_range(&operation->target, &to.dstOffset);
  }
  if (!in && !out && source != target) {
    from.dstOffset = to.dstOffset;
    vk.vkCmdCopyBuffer(at->commands, source, target, 1, &from);
    return HAL_OK;
  }
  int32_t status = take_staging(on, self, bytes, at);  // Ranges of one buffer may overlap.
  if (status != HAL_OK) {
    return status;
  }
  if (in) {
    memcpy(at->staging.mapped, operation->host_source, bytes);
  } else {
    vk.vkCmdCopyBuffer(at->commands, source, at->staging.buffer, 1, &from);
  }
  if (out) {
    at->host_target = operation->host_target;
    at->host_bytes = bytes;
    return HAL_OK;
  }
  order(at->commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_READ_BIT);
  vk.vkCmdCopyBuffer(at->commands, at->staging.buffer, target, 1, &to);
  return HAL_OK;
}

static void dispatch(vulkan_device *on, slot *at, VkPipeline pipeline, const vulkan_push *push,
                     uint64_t groups) {
  vk.vkCmdBindPipeline(at->commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
  vk.vkCmdPushConstants(at->commands, on->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof(*push),
                        push);
  vk.vkCmdDispatch(at->commands, groups < on->shape.groups ? (uint32_t)groups : on->shape.groups, 1,
                   1);
}

// The runtime fills whole words with one word; other patterns and places are written by a shader.
static int32_t record_fill(vulkan_device *on, slot *at, const kit_operation *operation) {
  uint64_t bytes = operation->target.bytes, pattern = 0;
  uint32_t length = operation->pattern_bytes, word;
  VkDeviceSize offset;
  VkBuffer buffer = vulkan_range(&operation->target, &offset);
  for (uint32_t i = 0; i < 8; ++i) {
    pattern |= (uint64_t)operation->pattern[i % length] << 8 * i;
  }
  word = (uint32_t)pattern;
  if (word == pattern >> 32 && offset % 4 == 0 && bytes % 4 == 0) {
    vk.vkCmdFillBuffer(at->commands, buffer, offset, bytes, word);
    return HAL_OK;
  }
  VkPipeline pipeline;
  int32_t status = vulkan_pipeline_get(on, NULL, &pipeline);
  if (status == HAL_OK) {
    vulkan_push push = {
        {(uint64_t)(uintptr_t)kit_range_pointer(&operation->target), bytes, pattern}, {length, 0}};
    dispatch(on, at, pipeline, &push, bytes / on->shape.lanes + 1);
  }
  return status;
}

static int32_t hold_arena(vulkan_device *on, queue *self, uint64_t bytes) {
  if (self->arena.bytes >= bytes) {
    return HAL_OK;
  }
  vulkan_block_free(on, &self->arena);  // No launch is in flight.
  return vulkan_block_create(on, bytes, false, &self->arena);
}

static int32_t record_launch(vulkan_device *on, queue *self, slot *at,
                             const kit_operation *operation) {
  uint32_t count = vil_launch_steps(operation->launch);
  vil_flat_step *steps = calloc(count + 1, sizeof(*steps));
  int32_t status = steps == NULL
                       ? kit_fail(HAL_ERROR_OUT_OF_MEMORY, "no host memory for a launch")
                       : take_staging(on, self, vil_flat_bytes(operation->launch, &on->shape), at);
  uint64_t arena = 0;
  if (status == HAL_OK) {
    vil_flat_write(operation->launch, &on->shape, at->staging.mapped, steps);
    for (uint32_t i = 0; i < count; ++i) {
      uint64_t bytes = steps[i].groups * steps[i].slice_bytes;
      arena = bytes > arena ? bytes : arena;
    }
    status = hold_arena(on, self, arena);
  }
  at->launch = operation->launch;
  for (uint32_t i = 0; i < count && status == HAL_OK; ++i) {
    VkPipeline pipeline;
    if (steps[i].groups == 0 ||
        (status = vulkan_pipeline_get(on, steps[i].masks, &pipeline)) != HAL_OK) {
      continue;
    }
    vulkan_push push = {
        {at->staging.address + steps[i].offset, self->arena.address, self->fault.address}, {i, 0}};
    order(at->commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
          VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT);
    dispatch(on, at, pipeline, &push, steps[i].groups);
  }
  free(steps);
  return status;
}

static int32_t record(vulkan_device *on, queue *self, slot *at, kit_operation *operation) {
  if (operation->kind == KIT_LAUNCH) {
    return record_launch(on, self, at, operation);
  }
  if (operation->source.bytes == 0 && operation->target.bytes == 0) {
    return HAL_OK;
  }
  if (operation->kind == KIT_FILL) {
    return record_fill(on, at, operation);
  }
  return record_copy(on, self, at, operation);
}

// ---- Submitting and finishing ----

static void drop(vulkan_device *on, queue *self, slot *at) {
  if (at->staging.bytes <= KEPT_BYTES && at->staging.bytes > self->spare.bytes) {
    vulkan_block kept = at->staging;
    at->staging = self->spare;
    self->spare = kept;
  }
  vulkan_block_free(on, &at->staging);
  at->launch = NULL;
  at->host_bytes = 0;
}

static int32_t send(vulkan_device *on, queue *self, slot *at) {
  uint64_t before = self->value, after = before + 1;
  VkTimelineSemaphoreSubmitInfo values = {.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
                                          .waitSemaphoreValueCount = 1,
                                          .pWaitSemaphoreValues = &before,
                                          .signalSemaphoreValueCount = 1,
                                          .pSignalSemaphoreValues = &after};
  VkPipelineStageFlags stage = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
  VkSubmitInfo info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                       .pNext = &values,
                       .waitSemaphoreCount = 1,
                       .pWaitSemaphores = &self->timeline,
                       .pWaitDstStageMask = &stage,
                       .commandBufferCount = 1,
                       .pCommandBuffers = &at->commands,
                       .signalSemaphoreCount = 1,
                       .pSignalSemaphores = &self->timeline};
  pthread_mutex_lock(&on->lock);
  VkResult result = vk.vkQueueSubmit(on->queue, 1, &info, VK_NULL_HANDLE);
  pthread_mutex_unlock(&on->lock);
  if (result == VK_SUCCESS) {
    self->value = at->value = after;
  }
  return vulkan_check(result, "vkQueueSubmit");
}

static int32_t record_and_send(vulkan_device *on, queue *self, slot *at, kit_operation *operation) {
  VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  VULKAN_TRY(vkBeginCommandBuffer, at->commands, &begin);
  int32_t status = record(on, self, at, operation);
  if (status != HAL_OK) {
    return status;
  }
  order(at->commands, VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT);
  VULKAN_TRY(vkEndCommandBuffer, at->commands);
  return send(on, self, at);
}

int32_t vulkan_submit(kit_device *device, uint64_t handle, kit_operation *operation) {
  vulkan_device *on = vulkan_device_of(device);
  queue *self = (queue *)(uintptr_t)handle;
  if (self->submitted - self->finished == IN_FLIGHT || self->launched > self->finished) {
    return HAL_NOT_READY;
  }
  slot *at = &self->slots[self->submitted % IN_FLIGHT];
  int32_t status = record_and_send(on, self, at, operation);
  if (status != HAL_OK) {
    drop(on, self, at);
    return status;
  }
  ++self->submitted;
  if (operation->kind == KIT_LAUNCH) {
    self->launched = self->submitted;
  }
  return HAL_OK;
}

// A launch whose dispatch has ended: HAL_OK, HAL_NOT_READY when it goes on, or its fault.
static int32_t look_at_launch(vulkan_device *on, queue *self, slot *at) {
  const uint32_t *fault = self->fault.mapped;
  if (fault[0] != 0) {
    char text[400];
    vil_flat_fault(at->launch, fault, text, sizeof(text));
    return kit_fail(HAL_ERROR_EXECUTION_FAILED, "%s", text);
  }
  if (vil_flat_is_done(at->launch, &on->shape, at->staging.mapped)) {
    return HAL_OK;
  }
  int32_t status = send(on, self, at);
  return status == HAL_OK ? HAL_NOT_READY : status;
}

int32_t vulkan_poll(kit_device *device, uint64_t handle, uint64_t *out_finished) {
  vulkan_device *on = vulkan_device_of(device);
  queue *self = (queue *)(uintptr_t)handle;
  uint64_t reached = 0;
  int32_t status = vulkan_check(vk.vkGetSemaphoreCounterValue(on->device, self->timeline, &reached),
                                "vkGetSemaphoreCounterValue");
  while (status == HAL_OK && self->finished < self->submitted) {
    slot *at = &self->slots[self->finished % IN_FLIGHT];
    if (at->value > reached ||
        (at->launch != NULL && (status = look_at_launch(on, self, at)) != HAL_OK)) {
      break;
    }
    if (at->host_bytes != 0) {
      memcpy(at->host_target, at->staging.mapped, at->host_bytes);
    }
    drop(on, self, at);
    ++self->finished;
  }
  *out_finished = self->finished;
  return status < 0 ? status : HAL_OK;
}

static int32_t clear(vulkan_device *on, queue *self, const vulkan_block *block) {
  slot *at = &self->slots[0];
  VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  VULKAN_TRY(vkBeginCommandBuffer, at->commands, &begin);
  vk.vkCmdFillBuffer(at->commands, block->buffer, 0, VK_WHOLE_SIZE, 0);
  VULKAN_TRY(vkEndCommandBuffer, at->commands);
  int32_t status = send(on, self, at);
  return status == HAL_OK ? wait_for(on, self, 1) : status;
}

int32_t vulkan_clear(kit_device *device, const vulkan_block *block) {
  uint64_t handle = 0;
  int32_t status = vulkan_queue_open(device, &handle);
  if (status == HAL_OK) {
    status = clear(vulkan_device_of(device), (queue *)(uintptr_t)handle, block);
    vulkan_queue_close(device, handle);
  }
  return status;
}
