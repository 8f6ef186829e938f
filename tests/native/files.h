// Reading the files that C tests need. HAL_ROOT names the checkout.
#ifndef HAL_TESTS_FILES_H_
#define HAL_TESTS_FILES_H_

#include <stdint.h>

#include "expect.h"

// Reads a file of the checkout whole; the caller frees it.
static inline unsigned char *read_file(const char *name, uint64_t *out_bytes) {
  char path[1024];
  const char *root = getenv("HAL_ROOT");
  snprintf(path, sizeof(path), "%s/%s", root == NULL ? "." : root, name);
  FILE *file = fopen(path, "rb");
  if (file == NULL) expect_fail(path, 0, "cannot be read; HAL_ROOT names the checkout");
  unsigned char *bytes = malloc(1 << 20);
  TRUE(bytes != NULL);
  *out_bytes = fread(bytes, 1, 1 << 20, file);
  fclose(file);
  return bytes;
}

#endif  // HAL_TESTS_FILES_H_
