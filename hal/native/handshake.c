// The first words between the host and a port: version by ranges, then the root and its tables.
#include <string.h>

#include "library.h"

enum { TABLE_SIZE_LIMIT = 1 << 16 };  // A table's size beyond this is a mistake, not growth.

static int32_t check_name(const hal_port_root *root, char *reason, uint64_t capacity) {
  if (root->name == NULL || root->name[0] == '\0') {
    return hal_reason(reason, capacity, HAL_ERROR_INTERNAL, "the root has no name");
  }
  const size_t bytes = strnlen(root->name, 64);
  if (bytes == 64 || strspn(root->name, "abcdefghijklmnopqrstuvwxyz0123456789_") != bytes) {
    return hal_reason(reason, capacity, HAL_ERROR_INTERNAL,
                      "the root's name '%.64s' is not lower-case letters, digits and underscores "
                      "of at most 63 bytes",
                      root->name);
  }
  if (root->vendor == NULL || root->version == NULL || root->build_id == NULL) {
    return hal_reason(reason, capacity, HAL_ERROR_INTERNAL, "the root's %s is NULL",
                      root->vendor == NULL    ? "vendor"
                      : root->version == NULL ? "version"
                                              : "build_id");
  }
  return HAL_OK;
}

static int32_t check_table(const char *name, const void *table, char *reason, uint64_t capacity) {
  if (table == NULL) return HAL_OK;
  uint64_t size;
  memcpy(&size, table, sizeof(size));
  if (size < sizeof(uint64_t) || size % sizeof(void *) != 0 || size > TABLE_SIZE_LIMIT) {
    return hal_reason(reason, capacity, HAL_ERROR_INTERNAL,
                      "the table %s says that its size is %llu bytes; it is at least %u, at most "
                      "%u and a multiple of %u",
                      name, (unsigned long long)size, (unsigned)sizeof(uint64_t),
                      (unsigned)TABLE_SIZE_LIMIT, (unsigned)sizeof(void *));
  }
  return HAL_OK;
}

// Every table that lies within the root's own size has a believable size.
static int32_t check_tables(const hal_port_root *root, char *reason, uint64_t capacity) {
#define CHECK(member)                                                            \
  if (root->size >= offsetof(hal_port_root, member) + sizeof(root->member)) {    \
    const int32_t status = check_table(#member, root->member, reason, capacity); \
    if (status != HAL_OK) return status;                                         \
  }
  CHECK(port)
  CHECK(device)
  CHECK(memory)
  CHECK(transfer)
  CHECK(stream)
  CHECK(event)
  CHECK(module)
  CHECK(launch)
  CHECK(operators)
  CHECK(graph)
  CHECK(collective)
  CHECK(profile)
#undef CHECK
  return HAL_OK;
}

int32_t hal_handshake(hal_port_entry_fn entry, const hal_port_root **out_root, char *reason,
                      uint64_t capacity) {
  const hal_port_root *root = NULL;
  const int32_t status = entry(HAL_ABI_MAJOR, HAL_ABI_MINOR, &root);
  if (status == HAL_ERROR_VERSION) {
    return hal_reason(reason, capacity, HAL_ERROR_VERSION,
                      "the port does not speak ABI %d.%d; build it with this release's hal/hal.h",
                      HAL_ABI_MAJOR, HAL_ABI_MINOR);
  }
  if (status != HAL_OK) {
    return hal_reason(reason, capacity, HAL_ERROR_INTERNAL,
                      "hal_port_entry answered %d (%s) instead of OK or VERSION", status,
                      hal_status_name(status));
  }
  if (root == NULL) {
    return hal_reason(reason, capacity, HAL_ERROR_INTERNAL,
                      "hal_port_entry answered OK but gave no root");
  }
  const uint64_t least = offsetof(hal_port_root, port) + sizeof(root->port);
  if (root->size < offsetof(hal_port_root, name)) {
    return hal_reason(reason, capacity, HAL_ERROR_INTERNAL,
                      "the root says that its size is %llu bytes; it is at least %llu",
                      (unsigned long long)root->size, (unsigned long long)least);
  }
  if (root->abi_major != HAL_ABI_MAJOR) {
    return hal_reason(reason, capacity, HAL_ERROR_VERSION,
                      "the port speaks ABI %u.%u, this host %d.x; build it with this release's "
                      "hal/hal.h",
                      root->abi_major, root->abi_minor, HAL_ABI_MAJOR);
  }
  if (root->size < least || root->size > TABLE_SIZE_LIMIT) {
    return hal_reason(reason, capacity, HAL_ERROR_INTERNAL,
                      "the root says that its size is %llu bytes; it is at least %llu and at most "
                      "%u",
                      (unsigned long long)root->size, (unsigned long long)least,
                      (unsigned)TABLE_SIZE_LIMIT);
  }
  const int32_t named = check_name(root, reason, capacity);
  if (named != HAL_OK) return named;
  const int32_t checked = check_tables(root, reason, capacity);
  if (checked == HAL_OK) *out_root = root;
  return checked;
}
