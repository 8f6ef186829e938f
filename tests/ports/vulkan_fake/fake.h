// A libvulkan.so.1 with one device whose memory is the host's and whose interpreter of kernels does
// nothing but say that it has finished.
//
// Work is done late: one submission at each question for a semaphore's value, all of them at a
// wait. So what a port frees too early is touched, and a sanitizer tells.
//
// FAKE_VULKAN says what is wrong:
//   drivers      no driver is installed        init         the driver fails at its start
//   enumerate    devices cannot be listed      devices      there are none
//   old          the device has Vulkan 1.1     lacks:NAME   it lacks a feature
//   queue        it has no queue for compute   shader       it refuses the shaders
//   fault        kernels end with a fault      turns:N      kernels need N dispatches
//   at:CALL:N    CALL answers VkResult N
//   lost:CALL    CALL finds that the device is lost, and from then on all calls do
#ifndef TESTS_PORTS_VULKAN_FAKE_FAKE_H_
#define TESTS_PORTS_VULKAN_FAKE_FAKE_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <vulkan/vulkan.h>

extern char fake_thing;  // What handles without a state point at.
#define HANDLE(kind) ((kind)(void *)&fake_thing)

const char *wrong(const char *what);  // What FAKE_VULKAN says behind `what`; NULL: something else.
bool is_wrong(const char *what);
VkResult answer(const char *call);  // What a call answers.
void check(bool holds, const char *what);
void *make(size_t bytes);

// Returns from a call that fails.
#define ANSWER(call)                           \
  do {                                         \
    VkResult result_ = answer(call);           \
    if (result_ != VK_SUCCESS) return result_; \
  } while (0)

#define ALLOCATOR const VkAllocationCallbacks *allocator
#define NO_ALLOCATOR (void)allocator

// Handles are pointers to these.
typedef struct memory {
  uint32_t type;
  uint64_t bytes;
  unsigned char *data;
} memory;

typedef struct buffer {
  uint64_t bytes;
  memory *memory;
} buffer;

#define OF(kind, handle) ((kind *)(uintptr_t)(handle))
#define TO(kind, pointer) ((kind)(uintptr_t)(pointer))

typedef enum kind { COPY, FILL, DISPATCH } kind;

typedef struct push {
  uint64_t words[3];
  uint32_t small[2];
} push;

typedef struct command {
  kind kind;
  buffer *from, *to;
  uint64_t from_offset, to_offset, bytes;
  uint32_t word;
  bool fills;  // The shader that fills, not the interpreter.
  push push;
} command;

typedef struct commands {
  struct commands *next;  // Of its pool.
  uint32_t count, room;
  command *list;
  bool fills;
  push push;
} commands;

void run(const commands *all);
// What a lost device has not run is never run: of a semaphore, of a command buffer.
void forget(const void *timeline, const commands *of);

#endif  // TESTS_PORTS_VULKAN_FAKE_FAKE_H_
