// A port inside a C test: the kit linked in, device memory of the host, tables by their functions.
#ifndef TESTS_NATIVE_KIT_FIXTURE_H_
#define TESTS_NATIVE_KIT_FIXTURE_H_

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit.h"

static int failures;

#define CHECK(condition)                                                            \
  do {                                                                              \
    if (!(condition)) {                                                             \
      fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
      ++failures;                                                                   \
    }                                                                               \
  } while (0)

#define CHECK_EQUAL(actual, expected)                                                             \
  do {                                                                                            \
    long long actual_ = (long long)(actual);                                                      \
    long long expected_ = (long long)(expected);                                                  \
    if (actual_ != expected_) {                                                                   \
      fprintf(stderr, "%s:%d: %s is %lld, expected %lld\n", __FILE__, __LINE__, #actual, actual_, \
              expected_);                                                                         \
      ++failures;                                                                                 \
    }                                                                                             \
  } while (0)

// The error record of this thread.
static inline hal_error last_error(void) {
  hal_error error = {.size = sizeof(error)};
  kit_port_last_error(&error);
  return error;
}

static inline hal_memory allocate(hal_device device, uint64_t bytes, uint32_t flags) {
  hal_memory_desc desc = {.size = sizeof(desc), .bytes = bytes, .flags = flags};
  hal_memory memory = 0;
  CHECK_EQUAL(kit_memory_alloc(device, &desc, &memory), HAL_OK);
  return memory;
}

static inline int32_t copy_to_device(hal_stream stream, hal_memory memory, uint64_t offset,
                                     const void *source, uint64_t bytes, uint32_t flags) {
  hal_copy_desc desc = {.size = sizeof(desc),
                        .kind = HAL_COPY_HOST_TO_DEVICE,
                        .flags = flags,
                        .target = {memory, offset, bytes},
                        .host_source = source};
  return kit_transfer_copy(stream, &desc);
}

static inline int32_t copy_to_host(hal_stream stream, hal_memory memory, uint64_t offset,
                                   void *target, uint64_t bytes) {
  hal_copy_desc desc = {.size = sizeof(desc),
                        .kind = HAL_COPY_DEVICE_TO_HOST,
                        .source = {memory, offset, bytes},
                        .host_target = target};
  return kit_transfer_copy(stream, &desc);
}

static inline int32_t fill_with(hal_stream stream, hal_memory memory, uint64_t offset,
                                uint64_t bytes, uint32_t pattern, uint32_t pattern_bytes) {
  hal_memory_ref ref = {memory, offset, bytes};
  return kit_transfer_fill(stream, &ref, &pattern, pattern_bytes);
}

enum { SECOND = 1000000000 };

#endif  // TESTS_NATIVE_KIT_FIXTURE_H_
