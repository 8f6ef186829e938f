// Root, tables, start and stop of the broken port; faults of texts and claims.
#include <stdlib.h>
#include <string.h>

#include "kit_tables.h"
#include "mutant.h"
#include "ranks.h"

static hal_log_fn host_log;
static void *host_user;
static uint64_t memory_bytes;
static int64_t alignment_bytes = 64;

static int32_t start(void) {
  char text[16];
  mutant_fault = 0;
  if (kit_option("mutant", "HAL_FAULT", text, sizeof(text)) != NULL && text[0] == 'M') {
    mutant_fault = atoi(text + 1);
  }
  char limit[24];
  int is_limited = kit_option("fault_device_lost_after", NULL, limit, sizeof(limit)) != NULL;
  mutant_operation_limit = is_limited ? strtoull(limit, NULL, 10) + 1 : 0;
  int64_t bytes = 0;
  if (!kit_hcd_i64(kit_host_hcd(), "memory.dram.capacity_bytes", &bytes)) {
    return kit_fail(HAL_ERROR_NOT_FOUND, "the description lacks memory.dram.capacity_bytes");
  }
  memory_bytes = (uint64_t)bytes;
  kit_hcd_i64(kit_host_hcd(), "memory.dram.alignment_bytes", &alignment_bytes);
  static const vil_hooks hooks = {.tile = mutant_tile};
  kit_host_hooks(mutant_fault == 0 ? NULL : &hooks);
  mutant_stream_table.wait_event = is_fault(1) ? NULL : mutant_wait_event;
  return HAL_OK;
}

static uint32_t device_count(void) {
  return 1;
}

static int32_t device_facts(uint32_t index, kit_device_facts *out_facts) {
  (void)index;
  *out_facts = (kit_device_facts){
      .name = "broken on purpose",
      .hcd_ref = "hal_port_mutant.hcd.yaml",
      .hcd_overlay = "",
      .hcd = kit_host_hcd(),
      .memory_bytes = memory_bytes,
      .alignment_bytes = (uint64_t)alignment_bytes,
  };
  return HAL_OK;
}

static int32_t init(const hal_host *host) {
  int32_t status = kit_port_init(host);
  if (status == HAL_OK) {
    host_log = host->log;
    host_user = host->user;
  }
  return mutant_note(status);
}

// M40: a line comes when somebody calls after the end.
static int32_t stop(uint64_t timeout_ns) {
  int32_t status = kit_port_shutdown(timeout_ns);
  if (is_fault(40) && status == HAL_ERROR_INVALID_STATE && host_log != NULL) {
    host_log(host_user, HAL_LOG_WARNING, "shutdown: the port had ended already");
  }
  return mutant_note(status);
}

// M70: what it does on the host it says it does on the host, and the HCD says device.
static int32_t get_info(uint32_t key, uint64_t capacity, char *out_text, uint64_t *out_bytes) {
  if (is_fault(70) && key == HAL_PORT_INFO_RUNS_ON) {
    static const char host[] = "host";
    if (capacity != 0) {
      uint64_t kept = sizeof(host) < capacity ? sizeof(host) : capacity;
      memcpy(out_text, host, kept);
      out_text[kept - 1] = '\0';
    }
    *out_bytes = sizeof(host);
    return HAL_OK;
  }
  return mutant_note(kit_port_get_info(key, capacity, out_text, out_bytes));
}

static const kit_port port = {
    .runtime = "",
    .runs_on = "device",
    .format = "vil.v1",
    .hcd_default = NULL,
    .hooks = {.start = start,
              .device_count = device_count,
              .device_facts = device_facts,
              .reserve = mutant_reserve,
              .release = mutant_release,
              .run = mutant_run},
};

// clang-format off
static const hal_port_table port_table = {
    .size = sizeof(port_table), .init = init, .shutdown = stop, .get_info = get_info,
    .device_count = kit_port_device_count, .last_error = mutant_last_error};
static const hal_device_table device_table = {
    .size = sizeof(device_table), .open = mutant_device_open, .close = kit_device_close,
    .get_i64 = mutant_get_i64, .get_str = kit_device_get_str,
    .synchronize = mutant_device_synchronize};
static const hal_memory_table memory_table = {
    .size = sizeof(memory_table), .alloc = mutant_alloc, .free = mutant_free,
    .info = mutant_memory_info, .stats = mutant_memory_stats, .host_alloc = kit_memory_host_alloc,
    .host_free = kit_memory_host_free, .wrap = kit_memory_wrap,
    .native_handle = kit_memory_native_handle};
static const hal_transfer_table transfer_table = {
    .size = sizeof(transfer_table), .copy = mutant_copy, .fill = mutant_fill,
    .copy_2d = mutant_copy_2d};
hal_stream_table mutant_stream_table = {
    .size = sizeof(mutant_stream_table), .create = mutant_stream_create,
    .destroy = mutant_stream_destroy, .query = mutant_stream_query,
    .synchronize = mutant_stream_synchronize, .wait_event = mutant_wait_event,
    .host_call = kit_stream_host_call};
static const hal_event_table event_table = {
    .size = sizeof(event_table), .create = mutant_event_create, .destroy = kit_event_destroy,
    .record = mutant_event_record, .query = mutant_event_query,
    .synchronize = mutant_event_synchronize, .signal = kit_event_signal,
    .elapsed_ns = mutant_elapsed_ns};
static const hal_module_table module_table = {
    .size = sizeof(module_table), .load = mutant_load, .unload = mutant_unload,
    .get_kernel = kit_module_get_kernel, .kernel_info = kit_module_kernel_info};
static const hal_launch_table launch_table = {.size = sizeof(launch_table), .launch = mutant_launch};
static const hal_collective_table collective_table = {
    .size = sizeof(collective_table), .unique_id = mutant_unique_id,
    .comm_create = mutant_comm_create, .comm_destroy = mutant_comm_destroy,
    .all_reduce = mutant_all_reduce, .all_gather = mutant_all_gather,
    .reduce_scatter = mutant_reduce_scatter, .broadcast = mutant_broadcast,
    .send = mutant_send, .recv = mutant_recv, .group_begin = mutant_group_begin,
    .group_end = mutant_group_end, .abort = mutant_abort, .async_error = mutant_async_error,
    .all_to_all = mutant_all_to_all};
// clang-format on

KIT_ROOT(.name = "mutant", .vendor = "hal", .version = "1.0.0", .build_id = "1.0.0",
         .port = &port_table, .device = &device_table, .memory = &memory_table,
         .transfer = &transfer_table, .stream = &mutant_stream_table, .event = &event_table,
         .module = &module_table, .launch = &launch_table, .collective = &collective_table);

// M02: any major will do.
int32_t hal_port_entry(uint32_t host_major, uint32_t host_minor, const hal_port_root **out_root) {
  uint32_t major = is_fault(2) ? HAL_ABI_MAJOR : host_major;
  return kit_entry(&port, &kit_root, major, host_minor, out_root);
}
