// A port of another size than today's: it passes on the port named by HAL_BENT_PORT, with tables
// that end elsewhere. Environment: HAL_BENT_GROW=N puts N unknown entries behind each table and
// behind the root; HAL_BENT_CUT=TABLE:BYTES ends one table early; HAL_BENT_ROOT=BYTES ends the root
// early; HAL_BENT_MAJOR and HAL_BENT_MINOR are what it says of its ABI.
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hal/hal.h"

enum { ROOM = 4096, TABLES = 12 };

static const char *const names[TABLES] = {"port",      "device", "memory",     "transfer",
                                          "stream",    "event",  "module",     "launch",
                                          "operators", "graph",  "collective", "profile"};
static union {
  hal_port_root root;
  unsigned char bytes[ROOM];
} bent;
static union {
  uint64_t size;
  unsigned char bytes[ROOM];
} tables[TABLES];

static uint64_t number(const char *name) {
  const char *text = getenv(name);
  return text == NULL ? 0 : strtoull(text, NULL, 10);
}

// What an entry of a later release would be: nobody who does not know it may call it.
static int32_t unknown(void) {
  abort();
}

static uint64_t grow(unsigned char *bytes, uint64_t size) {
  int32_t (*entry)(void) = unknown;
  const uint64_t more = number("HAL_BENT_GROW");
  for (uint64_t i = 0; i < more; ++i) memcpy(bytes + size + i * 8, &entry, 8);
  return size + more * 8;
}

static void bend(uint32_t index, const void **place) {
  if (*place == NULL) return;
  uint64_t size;
  memcpy(&size, *place, sizeof(size));
  memcpy(tables[index].bytes, *place, size);
  size = grow(tables[index].bytes, size);
  const char *cut = getenv("HAL_BENT_CUT");
  const size_t length = strlen(names[index]);
  if (cut != NULL && strncmp(cut, names[index], length) == 0 && cut[length] == ':') {
    size = strtoull(cut + length + 1, NULL, 10);
  }
  tables[index].size = size;
  *place = tables[index].bytes;
}

HAL_PORT_EXPORT int32_t hal_port_entry(uint32_t host_major, uint32_t host_minor,
                                       const hal_port_root **out_root) {
  const char *path = getenv("HAL_BENT_PORT");
  void *library = path == NULL ? NULL : dlopen(path, RTLD_NOW | RTLD_LOCAL);
  void *symbol = library == NULL ? NULL : dlsym(library, "hal_port_entry");
  if (symbol == NULL) return HAL_ERROR_INTERNAL;
  hal_port_entry_fn entry;
  memcpy(&entry, &symbol, sizeof(entry));
  const hal_port_root *root = NULL;
  const int32_t status = entry(host_major, host_minor, &root);
  if (status != HAL_OK) return status;
  memcpy(bent.bytes, root, root->size);
  const void **first = (const void **)(void *)(bent.bytes + offsetof(hal_port_root, port));
  for (uint32_t i = 0; i < TABLES; ++i) bend(i, first + i);
  bent.root.size = grow(bent.bytes, root->size);
  if (number("HAL_BENT_ROOT") != 0) bent.root.size = number("HAL_BENT_ROOT");
  if (getenv("HAL_BENT_MAJOR") != NULL) bent.root.abi_major = (uint32_t)number("HAL_BENT_MAJOR");
  if (getenv("HAL_BENT_MINOR") != NULL) bent.root.abi_minor = (uint32_t)number("HAL_BENT_MINOR");
  *out_root = &bent.root;
  return HAL_OK;
}
