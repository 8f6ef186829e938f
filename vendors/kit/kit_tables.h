// The kit's functions as the ABI's tables. One line makes the root and the entry of a port that
// has the kit's tables:
//
//   KIT_ENTRY(port, .name = "acme", .vendor = "Acme Chips", .version = "0.1.0", .build_id = "");
//
// A port that adds an entry, or does one itself, names that table:
//
//   KIT_ENTRY(port, .name = …, .stream = KIT_STREAM_TABLE(.host_call = kit_stream_host_call));
#ifndef KIT_KIT_TABLES_H_
#define KIT_KIT_TABLES_H_

#include "kit.h"

// clang-format off
#define KIT_PORT_ENTRIES                    \
  .size = sizeof(hal_port_table),           \
  .init = kit_port_init,                    \
  .shutdown = kit_port_shutdown,            \
  .get_info = kit_port_get_info,            \
  .device_count = kit_port_device_count,    \
  .last_error = kit_port_last_error

#define KIT_DEVICE_ENTRIES                  \
  .size = sizeof(hal_device_table),         \
  .open = kit_device_open,                  \
  .close = kit_device_close,                \
  .get_i64 = kit_device_get_i64,            \
  .get_str = kit_device_get_str,            \
  .synchronize = kit_device_synchronize     // More: peer_info.

#define KIT_MEMORY_ENTRIES                  \
  .size = sizeof(hal_memory_table),         \
  .alloc = kit_memory_alloc,                \
  .free = kit_memory_free,                  \
  .info = kit_memory_info,                  \
  .stats = kit_memory_stats,                \
  .host_alloc = kit_memory_host_alloc,      \
  .host_free = kit_memory_host_free         // More: wrap, native_handle.

#define KIT_TRANSFER_ENTRIES                \
  .size = sizeof(hal_transfer_table),       \
  .copy = kit_transfer_copy,                \
  .fill = kit_transfer_fill                 // More: copy_peer.

#define KIT_STREAM_ENTRIES                  \
  .size = sizeof(hal_stream_table),         \
  .create = kit_stream_create,              \
  .destroy = kit_stream_destroy,            \
  .query = kit_stream_query,                \
  .synchronize = kit_stream_synchronize,    \
  .wait_event = kit_stream_wait_event       // More: host_call, wrap.

#define KIT_EVENT_ENTRIES                   \
  .size = sizeof(hal_event_table),          \
  .create = kit_event_create,               \
  .destroy = kit_event_destroy,             \
  .record = kit_event_record,               \
  .query = kit_event_query,                 \
  .synchronize = kit_event_synchronize,     \
  .signal = kit_event_signal,               \
  .elapsed_ns = kit_event_elapsed_ns

#define KIT_MODULE_ENTRIES                  \
  .size = sizeof(hal_module_table),         \
  .load = kit_module_load,                  \
  .unload = kit_module_unload,              \
  .get_kernel = kit_module_get_kernel,      \
  .kernel_info = kit_module_kernel_info

#define KIT_LAUNCH_ENTRIES                  \
  .size = sizeof(hal_launch_table),         \
  .launch = kit_launch_launch

#define KIT_OPERATOR_ENTRIES               \
  .size = sizeof(hal_operator_table),       \
  .enumerate = kit_operator_enumerate,      \
  .supports = kit_operator_supports,        \
  .run = kit_operator_run

#define KIT_COLLECTIVE_ENTRIES              \
  .size = sizeof(hal_collective_table),     \
  .unique_id = kit_collective_unique_id,    \
  .comm_create = kit_collective_comm_create, \
  .comm_destroy = kit_collective_comm_destroy, \
  .all_reduce = kit_collective_all_reduce,  \
  .all_gather = kit_collective_all_gather,  \
  .reduce_scatter = kit_collective_reduce_scatter, \
  .broadcast = kit_collective_broadcast,    \
  .send = kit_collective_send,              \
  .recv = kit_collective_recv,              \
  .group_begin = kit_collective_group_begin, \
  .group_end = kit_collective_group_end,    \
  .abort = kit_collective_abort,            \
  .async_error = kit_collective_async_error

#define KIT_PROFILE_ENTRIES                 \
  .size = sizeof(hal_profile_table),        \
  .clock = kit_profile_clock,               \
  .start = kit_profile_start,               \
  .stop = kit_profile_stop,                 \
  .drain = kit_profile_drain

// Pointers to a table of the kit with what stands in the brackets; for the root of a port.
#define KIT_PORT_TABLE(...) &(const hal_port_table){KIT_PORT_ENTRIES, __VA_ARGS__}
#define KIT_DEVICE_TABLE(...) &(const hal_device_table){KIT_DEVICE_ENTRIES, __VA_ARGS__}
#define KIT_MEMORY_TABLE(...) &(const hal_memory_table){KIT_MEMORY_ENTRIES, __VA_ARGS__}
#define KIT_TRANSFER_TABLE(...) &(const hal_transfer_table){KIT_TRANSFER_ENTRIES, __VA_ARGS__}
#define KIT_STREAM_TABLE(...) &(const hal_stream_table){KIT_STREAM_ENTRIES, __VA_ARGS__}
#define KIT_EVENT_TABLE(...) &(const hal_event_table){KIT_EVENT_ENTRIES, __VA_ARGS__}
#define KIT_MODULE_TABLE(...) &(const hal_module_table){KIT_MODULE_ENTRIES, __VA_ARGS__}
#define KIT_LAUNCH_TABLE(...) &(const hal_launch_table){KIT_LAUNCH_ENTRIES, __VA_ARGS__}
#define KIT_OPERATOR_TABLE(...) &(const hal_operator_table){KIT_OPERATOR_ENTRIES, __VA_ARGS__}
#define KIT_PROFILE_TABLE(...) &(const hal_profile_table){KIT_PROFILE_ENTRIES, __VA_ARGS__}

#define KIT_COLLECTIVE_TABLE(...) &(const hal_collective_table){KIT_COLLECTIVE_ENTRIES, __VA_ARGS__}

// The kit has no functions for this one.
#define KIT_GRAPH_TABLE(...) \
  &(const hal_graph_table){.size = sizeof(hal_graph_table), __VA_ARGS__}

// The root of a port, with the kit's tables unless another is named. There are no operators unless
// the port, which then has the hooks for them, says .operators = KIT_OPERATOR_TABLE(); nor
// collectives, which are for ports whose driver has them, without .collective =
// KIT_COLLECTIVE_TABLE().
#define KIT_ROOT(...)                                                                    \
  _Pragma("GCC diagnostic push")                                                         \
  _Pragma("GCC diagnostic ignored \"-Woverride-init\"")                                  \
  static const hal_port_root kit_root = {                                                \
      .size = sizeof(kit_root),                                                          \
      .abi_major = HAL_ABI_MAJOR,                                                        \
      .abi_minor = HAL_ABI_MINOR,                                                        \
      .port = KIT_PORT_TABLE(),                                                          \
      .device = KIT_DEVICE_TABLE(),                                                      \
      .memory = KIT_MEMORY_TABLE(),                                                      \
      .transfer = KIT_TRANSFER_TABLE(),                                                  \
      .stream = KIT_STREAM_TABLE(),                                                      \
      .event = KIT_EVENT_TABLE(),                                                        \
      .module = KIT_MODULE_TABLE(),                                                      \
      .launch = KIT_LAUNCH_TABLE(),                                                      \
      .operators = &(const hal_operator_table){.size = sizeof(hal_operator_table)},      \
      .graph = KIT_GRAPH_TABLE(),                                                        \
      .collective = &(const hal_collective_table){.size = sizeof(hal_collective_table)}, \
      .profile = KIT_PROFILE_TABLE(),                                                    \
      __VA_ARGS__};                                                                      \
  _Pragma("GCC diagnostic pop")                                                          \
  extern const kit_port kit_root_ends_here

// KIT_ROOT and hal_port_entry for the kit_port `port`.
#define KIT_ENTRY(port, ...)                                                             \
  KIT_ROOT(__VA_ARGS__);                                                                 \
  int32_t hal_port_entry(uint32_t host_major, uint32_t host_minor,                       \
                         const hal_port_root **out_root) {                               \
    return kit_entry(&(port), &kit_root, host_major, host_minor, out_root);              \
  }                                                                                      \
  extern const kit_port kit_entry_ends_here
// clang-format on

#endif  // KIT_KIT_TABLES_H_
