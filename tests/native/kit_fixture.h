// A port inside a C test: the kit linked in, device memory of the host, tables by their functions.
#ifndef TESTS_NATIVE_KIT_FIXTURE_H_
#define TESTS_NATIVE_KIT_FIXTURE_H_

#include "expect.h"
#include "kit.h"

enum { SECOND = 1000000000, TOTAL_BYTES = 16 << 20 };

static inline uint32_t two_devices(void) {
  return 2;
}

static inline int32_t plain_facts(uint32_t index, kit_device_facts *out_facts) {
  *out_facts = (kit_device_facts){.name = index == 0 ? "zero" : "one",
                                  .hcd_ref = "test/chip",
                                  .hcd_overlay = "features.peer\ttrue\n",
                                  .hcd = kit_host_hcd(),
                                  .memory_bytes = TOTAL_BYTES,
                                  .alignment_bytes = 64};
  return HAL_OK;
}

// The texts of a port for tests; a test adds its hooks.
#define PLAIN_TEXTS .runtime = "", .runs_on = "host", .format = "vil.v1"

static const hal_port_root plain_root = {
    .size = sizeof(plain_root), .name = "test", .version = "0"};

static inline hal_device open_port(const kit_port *port) {
  const hal_port_root *out = NULL;
  hal_host host = {.size = sizeof(host), .abi_major = HAL_ABI_MAJOR};
  EQUAL(kit_entry(port, &plain_root, HAL_ABI_MAJOR, 0, &out), HAL_OK);
  TRUE(out == &plain_root);
  EQUAL(kit_port_init(&host), HAL_OK);
  hal_device device = 0;
  EQUAL(kit_device_open(0, &device), HAL_OK);
  return device;
}

// The error record of this thread.
static inline hal_error last_error(void) {
  hal_error error = {.size = sizeof(error)};
  kit_port_last_error(&error);
  return error;
}

static inline hal_memory allocate(hal_device device, uint64_t bytes, uint32_t flags) {
  hal_memory_desc desc = {.size = sizeof(desc), .bytes = bytes, .flags = flags};
  hal_memory memory = 0;
  EQUAL(kit_memory_alloc(device, &desc, &memory), HAL_OK);
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

#endif  // TESTS_NATIVE_KIT_FIXTURE_H_
