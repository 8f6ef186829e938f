// What commands do, and the order of submissions.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

// ---- What commands do ----

static unsigned char *at(const buffer *in, uint64_t offset, uint64_t bytes) {
  check(offset <= in->bytes && bytes <= in->bytes - offset, "a command beyond its buffer");
  return in->memory->data + offset;
}

static bool overlap(const command *one) {
  return one->from == one->to && one->from_offset < one->to_offset + one->bytes &&
         one->to_offset < one->from_offset + one->bytes;
}

// A step of a launch (vendors/kit/vil_flat.h): it fails, goes on, or has finished.
static void interpret(const push *with) {
  static int turns;
  uint32_t *block = OF(uint32_t, with->words[0]), *fault = OF(uint32_t, with->words[2]);
  const char *wanted = wrong("turns:");
  if (is_wrong("fault") && fault[0] == 0) {
    const uint32_t words[] = {1, 1, 0, 2, 3, with->small[0]};
    memcpy(fault, words, sizeof(words));
  } else if (wanted == NULL || ++turns % atoi(wanted) == 0) {
    block[18] = block[17];
  }
}

static void dispatch(const command *one) {
  if (!one->fills) {
    interpret(&one->push);
    return;
  }
  unsigned char *to = OF(unsigned char, one->push.words[0]);
  for (uint64_t i = 0; i < one->push.words[1]; ++i) {
    to[i] = (unsigned char)(one->push.words[2] >> i % one->push.small[0] * 8);
  }
}

void run(const commands *all) {
  for (uint32_t i = 0; i < all->count; ++i) {
    const command *one = &all->list[i];
    if (one->kind == DISPATCH) {
      dispatch(one);
    } else if (one->kind == COPY) {
      check(!overlap(one), "a copy over itself");
      memcpy(at(one->to, one->to_offset, one->bytes), at(one->from, one->from_offset, one->bytes),
             one->bytes);
    } else {
      unsigned char *to = at(one->to, one->to_offset, one->bytes);
      for (uint64_t k = 0; k < one->bytes; k += 4) {
        memcpy(to + k, &one->word, 4);
      }
    }
  }
}

// ---- Submissions, in order ----

typedef struct submission {
  struct submission *next;
  const commands *commands;
  uint64_t *timeline, value;
} submission;

static submission *first;

static void run_first(void) {
  submission *one = first;
  first = one->next;
  run(one->commands);
  *one->timeline = one->value;
  free(one);
}

static void run_all(void) {
  pthread_mutex_lock(&lock);
  while (first != NULL) {
    run_first();
  }
  pthread_mutex_unlock(&lock);
}

VkResult vkQueueSubmit(VkQueue queue, uint32_t count, const VkSubmitInfo *info, VkFence fence) {
  (void)queue, (void)fence;
  ANSWER("vkQueueSubmit");
  const VkTimelineSemaphoreSubmitInfo *values = info->pNext;
  check(count == 1 && info->commandBufferCount == 1 && info->signalSemaphoreCount == 1,
        "the fake takes one command buffer and one semaphore");
  submission *made = make(sizeof(*made));
  made->commands = OF(commands, info->pCommandBuffers[0]);
  made->timeline = OF(uint64_t, info->pSignalSemaphores[0]);
  made->value = values->pSignalSemaphoreValues[0];
  pthread_mutex_lock(&lock);
  submission **last = &first;
  while (*last != NULL) {
    last = &(*last)->next;
  }
  *last = made;
  pthread_mutex_unlock(&lock);
  return VK_SUCCESS;
}

VkResult vkCreateSemaphore(VkDevice device, const VkSemaphoreCreateInfo *info, ALLOCATOR,
                           VkSemaphore *out) {
  (void)device, (void)info, NO_ALLOCATOR;
  ANSWER("vkCreateSemaphore");
  *out = TO(VkSemaphore, make(sizeof(uint64_t)));
  return VK_SUCCESS;
}

VkResult vkGetSemaphoreCounterValue(VkDevice device, VkSemaphore handle, uint64_t *out) {
  (void)device;
  ANSWER("vkGetSemaphoreCounterValue");
  pthread_mutex_lock(&lock);
  if (first != NULL) {
    run_first();
  }
  *out = *OF(uint64_t, handle);
  pthread_mutex_unlock(&lock);
  return VK_SUCCESS;
}

VkResult vkWaitSemaphores(VkDevice device, const VkSemaphoreWaitInfo *info, uint64_t timeout) {
  (void)device, (void)timeout;
  ANSWER("vkWaitSemaphores");
  run_all();
  return *OF(uint64_t, info->pSemaphores[0]) >= info->pValues[0] ? VK_SUCCESS : VK_TIMEOUT;
}

VkResult vkDeviceWaitIdle(VkDevice device) {
  (void)device;
  ANSWER("vkDeviceWaitIdle");
  run_all();
  return VK_SUCCESS;
}

void forget(const void *timeline, const commands *of) {
  pthread_mutex_lock(&lock);
  for (submission **at = &first; *at != NULL;) {
    submission *one = *at;
    if (one->timeline == timeline || one->commands == of) {
      *at = one->next;
      free(one);
    } else {
      at = &one->next;
    }
  }
  pthread_mutex_unlock(&lock);
}

void vkDestroySemaphore(VkDevice device, VkSemaphore handle, ALLOCATOR) {
  (void)device, NO_ALLOCATOR;
  if (handle != VK_NULL_HANDLE) {
    forget(OF(uint64_t, handle), NULL);
    free(OF(uint64_t, handle));
  }
}
