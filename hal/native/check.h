// What the conditions of the registry's host rules may call, and the filling of out-parameters.
// Used by the generated layers only.
#ifndef HAL_NATIVE_CHECK_H_
#define HAL_NATIVE_CHECK_H_

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "hal/hal.h"

// Longest struct that a caller may state. A size above it is read as garbage, not as a newer
// struct.
#define HAL_STRUCT_BYTES_LIMIT 65536u

// Whether the caller's struct reaches to the end of `field`.
#define HAL_HAS(desc, field) \
  ((desc)->size >=           \
   (uint64_t)((const unsigned char *)(&(desc)->field + 1) - (const unsigned char *)(desc)))

// The size at the head of a struct.
static inline uint64_t hal_struct_size(const void *pointer) {
  uint64_t size = 0;
  memcpy(&size, pointer, sizeof(size));
  return size;
}

// Whether a caller's struct is longer than the `known_bytes` that we know and says something there.
static inline int hal_tail_is_dirty(const void *desc, uint64_t known_bytes) {
  const unsigned char *bytes = desc;
  const uint64_t size = hal_struct_size(desc);
  if (size > HAL_STRUCT_BYTES_LIMIT) return 1;
  for (uint64_t i = known_bytes; i < size; i++) {
    if (bytes[i] != 0) return 1;
  }
  return 0;
}

// Whether some argument of a launch has a kind outside HAL_ARGUMENT_*.
static inline int hal_argument_kind_is_bad(const hal_launch_desc *desc) {
  for (uint32_t i = 0; i < desc->argument_count; i++) {
    const uint32_t kind = desc->arguments[i].kind;
    if (kind < HAL_ARGUMENT_BUFFER || kind > HAL_ARGUMENT_F64) return 1;
  }
  return 0;
}

// Sets an out-parameter's bytes; NULL is left alone.
static inline void hal_fill(void *out, int byte, uint64_t bytes) {
  if (out != NULL) memset(out, byte, bytes);
}

// Sets what follows the size of an out-struct, as far as its caller's size says.
static inline void hal_fill_struct(void *out, int byte) {
  if (out == NULL) return;
  const uint64_t size = hal_struct_size(out);
  if (size <= sizeof(size) || size > HAL_STRUCT_BYTES_LIMIT) return;
  memset((unsigned char *)out + sizeof(size), byte, size - sizeof(size));
}

#endif  // HAL_NATIVE_CHECK_H_
