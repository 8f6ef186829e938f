// Ports that are broken from the start. FAULT chooses one:
//   0 an empty root: no table at all      1 tables full of NULL
//   2 success, and nothing is done        3 a crash in init
//   4 a hang in stream.synchronize        5 exit(0) in init
//   6 an older header: the event table ends before elapsed_ns; the rest as 2 but it writes outputs
//   7 another major                       8 every function answers UNSUPPORTED
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hal/hal.h"

#ifndef FAULT
#define FAULT 0
#endif

static int32_t succeed(void) {
  return HAL_OK;
}
static int32_t refuse(void) {
  return HAL_ERROR_UNSUPPORTED;
}

static int32_t crash(const hal_host *host) {
  (void)host;
  abort();
  return HAL_OK;
}

static int32_t leave(const hal_host *host) {
  (void)host;
  exit(0);
  return HAL_OK;
}

static int32_t hang(hal_stream stream, uint64_t timeout_ns) {
  (void)stream, (void)timeout_ns;
  while (getpid() != 0) pause();
  return HAL_OK;
}

static int32_t count(uint32_t *out_count) {
  *out_count = 1;
  return HAL_OK;
}

static int32_t open_device(uint32_t index, hal_device *out_device) {
  *out_device = 7 + index;
  return HAL_OK;
}

static int32_t text(hal_device device, const char *key, uint64_t capacity, char *out_text,
                    uint64_t *out_bytes) {
  (void)device, (void)key;
  if (capacity != 0) out_text[0] = '\0';
  *out_bytes = 1;
  return HAL_OK;
}

static int32_t create(hal_device device, uint32_t flags, uint64_t *out) {
  (void)device, (void)flags;
  *out = 9;
  return HAL_OK;
}

static int32_t allocate(hal_device device, const hal_memory_desc *desc, hal_memory *out_memory) {
  (void)device, (void)desc;
  *out_memory = 8;
  return HAL_OK;
}

static hal_port_table port = {.size = sizeof(hal_port_table)};
static hal_device_table device = {.size = sizeof(hal_device_table)};
static hal_memory_table memory = {.size = sizeof(hal_memory_table)};
static hal_transfer_table transfer = {.size = sizeof(hal_transfer_table)};
static hal_stream_table stream = {.size = sizeof(hal_stream_table)};
static hal_event_table event = {.size = sizeof(hal_event_table)};
static hal_module_table module = {.size = sizeof(hal_module_table)};
static hal_launch_table launch = {.size = sizeof(hal_launch_table)};
static hal_port_root root = {
    .size = sizeof(hal_port_root),
    .abi_major = FAULT == 7 ? HAL_ABI_MAJOR + 1 : HAL_ABI_MAJOR,
    .abi_minor = HAL_ABI_MINOR,
    .name = "broken",
    .vendor = "tests",
    .version = "0",
    .build_id = "",
};

// Puts one function into every entry of a table.
static void fill(void *table, uint64_t size, int32_t (*function)(void)) {
  for (uint64_t at = sizeof(uint64_t); at < size; at += sizeof(function)) {
    memcpy((char *)table + at, &function, sizeof(function));
  }
}

static void add_tables(int32_t (*function)(void)) {
  if (function != NULL) {
    fill(&port, sizeof(port), function);
    fill(&device, sizeof(device), function);
    fill(&memory, sizeof(memory), function);
    fill(&transfer, sizeof(transfer), function);
    fill(&stream, sizeof(stream), function);
    fill(&event, sizeof(event), function);
    fill(&module, sizeof(module), function);
    fill(&launch, sizeof(launch), function);
  }
  root.port = &port;
  root.device = &device;
  root.memory = &memory;
  root.transfer = &transfer;
  root.stream = &stream;
  root.event = &event;
  root.module = &module;
  root.launch = &launch;
}

// Enough truth for the first steps.
static void add_outputs(void) {
  port.device_count = count;
  device.open = open_device;
  device.get_str = text;
  memory.alloc = allocate;
  stream.create = create;
}

HAL_PORT_EXPORT int32_t hal_port_entry(uint32_t host_major, uint32_t host_minor,
                                       const hal_port_root **out_root) {
  (void)host_major, (void)host_minor;
  if (FAULT != 0) add_tables(FAULT == 1 ? NULL : FAULT == 8 ? refuse : succeed);
  if (FAULT == 3) port.init = crash;
  if (FAULT == 5) port.init = leave;
  if (FAULT == 4 || FAULT == 6) add_outputs();
  if (FAULT == 4) stream.synchronize = hang;
  if (FAULT == 6) event.size = offsetof(hal_event_table, elapsed_ns);
  *out_root = &root;
  return HAL_OK;
}
