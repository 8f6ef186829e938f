// What the Python binding adds to libhal: calls that take bytes where C takes an array.
#ifndef HAL_NATIVE_PYTHON_H_
#define HAL_NATIVE_PYTHON_H_

#include <stddef.h>

#include "hal/loader.h"
#include "python_port/hooks.h"

// hal_plan_launch with packed arguments, as one cffi call that allocates nothing.
//   arguments: hal_argument[argument_count].
static inline int32_t hal_python_launch(hal_plan *plan, hal_stream stream, const void *arguments,
                                        uint32_t argument_count) {
  return hal_plan_launch(plan, stream, arguments, argument_count, NULL);
}

// The same for a kernel that takes the caller's grid.
//   grid: uint32_t[3].
static inline int32_t hal_python_launch_grid(hal_plan *plan, hal_stream stream,
                                             const void *arguments, uint32_t argument_count,
                                             const void *grid) {
  return hal_plan_launch(plan, stream, arguments, argument_count, grid);
}

// transfer.copy of ranges that come as packed buffer arguments.
//   source, target: a hal_argument, or NULL for the host's side. host: the host's bytes.
static inline int32_t hal_python_copy(hal_port *port, hal_stream stream, uint32_t kind,
                                      uint32_t flags, const void *source, const void *target,
                                      void *host) {
  hal_copy_desc desc = {.size = sizeof(desc), .kind = kind, .flags = flags};
  if (source != NULL) desc.source = ((const hal_argument *)source)->buffer;
  if (target != NULL) desc.target = ((const hal_argument *)target)->buffer;
  if (kind == HAL_COPY_HOST_TO_DEVICE) desc.host_source = host;
  if (kind == HAL_COPY_DEVICE_TO_HOST) desc.host_target = host;
  return hal_transfer_copy(port, stream, &desc);
}

// hal_pool_free of a range that starts at an offset of a memory object.
static inline int32_t hal_python_pool_free(hal_pool *pool, hal_stream stream, hal_memory memory,
                                           uint64_t offset_bytes) {
  const hal_memory_ref ref = {.memory = memory, .offset_bytes = offset_bytes};
  return hal_pool_free(pool, stream, &ref);
}

// The same for a range that any stream may have used: only when the device is idle, else NOT_READY
// (or what the device answers) and the range stays given out.
static inline int32_t hal_python_pool_recycle(hal_port *port, hal_device device, hal_pool *pool,
                                              hal_memory memory, uint64_t offset_bytes) {
  const int32_t status = hal_device_synchronize(port, device, 0);
  if (status == HAL_ERROR_TIMEOUT) return HAL_NOT_READY;
  return status != HAL_OK ? status : hal_python_pool_free(pool, 0, memory, offset_bytes);
}

// hal_graph_update_arguments with packed arguments.
static inline int32_t hal_python_update(hal_port *port, hal_graph graph, uint32_t node,
                                        const void *arguments, uint32_t argument_count) {
  return hal_graph_update_arguments(port, graph, node, arguments, argument_count);
}

#endif  // HAL_NATIVE_PYTHON_H_
