#include "acme_runtime.h"

#include <stdlib.h>
#include <string.h>

static const uint64_t capacity_bytes = 4ull << 30;

int acme_open(void) {
  const char *chips = getenv("ACME_CHIPS");
  return chips != NULL && strcmp(chips, "0") == 0 ? ACME_NO_CHIP : ACME_OK;
}

void acme_close(void) {}

const char *acme_name(void) {
  return "Acme One";
}

uint64_t acme_memory_bytes(void) {
  return capacity_bytes;
}

int acme_take(uint64_t bytes, uint64_t alignment, acme_address *out_address) {
  void *memory = NULL;
  if (bytes > capacity_bytes || posix_memalign(&memory, alignment, bytes) != 0) {
    return ACME_NO_MEMORY;
  }
  *out_address = (acme_address)(uintptr_t)memory;
  return ACME_OK;
}

void acme_give(acme_address address) {
  free(acme_window(address));
}

void *acme_window(acme_address address) {
  return (void *)(uintptr_t)address;
}

void acme_write(acme_address target, const void *source, uint64_t bytes) {
  memcpy(acme_window(target), source, bytes);
}

void acme_read(void *target, acme_address source, uint64_t bytes) {
  memcpy(target, acme_window(source), bytes);
}

void acme_move(acme_address target, acme_address source, uint64_t bytes) {
  memmove(acme_window(target), acme_window(source), bytes);
}

void acme_fill(acme_address target, const void *pattern, uint32_t pattern_bytes, uint64_t bytes) {
  unsigned char *to = acme_window(target);
  for (uint64_t at = 0; at + pattern_bytes <= bytes; at += pattern_bytes) {
    memcpy(to + at, pattern, pattern_bytes);
  }
}
