// The kit's functions as initialisers of the ABI's tables. A port adds what else it has:
//
//   static const hal_stream_table stream_table = {KIT_STREAM, .host_call = kit_stream_host_call};
#ifndef KIT_KIT_TABLES_H_
#define KIT_KIT_TABLES_H_

#include "kit.h"

// clang-format off
#define KIT_PORT                            \
  .size = sizeof(hal_port_table),           \
  .init = kit_port_init,                    \
  .shutdown = kit_port_shutdown,            \
  .get_info = kit_port_get_info,            \
  .device_count = kit_port_device_count,    \
  .last_error = kit_port_last_error

#define KIT_DEVICE                          \
  .size = sizeof(hal_device_table),         \
  .open = kit_device_open,                  \
  .close = kit_device_close,                \
  .get_i64 = kit_device_get_i64,            \
  .get_str = kit_device_get_str,            \
  .synchronize = kit_device_synchronize     // More: peer_info.

#define KIT_MEMORY                          \
  .size = sizeof(hal_memory_table),         \
  .alloc = kit_memory_alloc,                \
  .free = kit_memory_free,                  \
  .info = kit_memory_info,                  \
  .stats = kit_memory_stats,                \
  .host_alloc = kit_memory_host_alloc,      \
  .host_free = kit_memory_host_free         // More: wrap, native_handle.

#define KIT_TRANSFER                        \
  .size = sizeof(hal_transfer_table),       \
  .copy = kit_transfer_copy,                \
  .fill = kit_transfer_fill                 // More: copy_peer.

#define KIT_STREAM                          \
  .size = sizeof(hal_stream_table),         \
  .create = kit_stream_create,              \
  .destroy = kit_stream_destroy,            \
  .query = kit_stream_query,                \
  .synchronize = kit_stream_synchronize,    \
  .wait_event = kit_stream_wait_event       // More: host_call, wrap.

#define KIT_EVENT                           \
  .size = sizeof(hal_event_table),          \
  .create = kit_event_create,               \
  .destroy = kit_event_destroy,             \
  .record = kit_event_record,               \
  .query = kit_event_query,                 \
  .synchronize = kit_event_synchronize,     \
  .signal = kit_event_signal,               \
  .elapsed_ns = kit_event_elapsed_ns

#define KIT_MODULE                          \
  .size = sizeof(hal_module_table),         \
  .load = kit_module_load,                  \
  .unload = kit_module_unload,              \
  .get_kernel = kit_module_get_kernel,      \
  .kernel_info = kit_module_kernel_info

#define KIT_LAUNCH                          \
  .size = sizeof(hal_launch_table),         \
  .launch = kit_launch_launch

#define KIT_OPERATORS                       \
  .size = sizeof(hal_operator_table),       \
  .enumerate = kit_operator_enumerate,      \
  .supports = kit_operator_supports,        \
  .run = kit_operator_run

#define KIT_PROFILE                         \
  .size = sizeof(hal_profile_table),        \
  .clock = kit_profile_clock,               \
  .start = kit_profile_start,               \
  .stop = kit_profile_stop,                 \
  .drain = kit_profile_drain
// clang-format on

#endif  // KIT_KIT_TABLES_H_
