// The port "{{ name }}": every function answers HAL_ERROR_UNSUPPORTED.
//
// Work from the top: functions stand in the order in which certification needs them, tier 1 first.
// `hal port check` lists what is missing. Contracts and the ids of their rules are in hal/hal.h and
// in docs/interfaces. Rules marked [loader] there are checked before the port is called; all others
// are the port's. An optional function that the chip lacks may go, with its table entry.
//
// clang-format off
#include <stddef.h>

#include "hal/hal.h"

#define PORT_NAME "{{ name }}"
#define PORT_VENDOR "{{ vendor }}"
#define PORT_VERSION "0.1.0"
#define PORT_BUILD_ID ""

// ---- Tier 1 ----

// Starts the port. Called once before any other function but last_error. NOT_FOUND says that the
// machine lacks the driver or the device.
static int32_t port_init(const hal_host *host) {
  (void)host;
  return HAL_ERROR_UNSUPPORTED;
}

// Stops the port; open devices are closed. Every handle is dead afterwards.
static int32_t port_shutdown(uint64_t timeout_ns) {
  (void)timeout_ns;
  return HAL_ERROR_UNSUPPORTED;
}

// Reads one fact about the port as text.
static int32_t port_get_info(uint32_t key, uint64_t capacity, char *out_text, uint64_t *out_bytes) {
  (void)key;
  (void)capacity;
  (void)out_text;
  (void)out_bytes;
  return HAL_ERROR_UNSUPPORTED;
}

// Counts the devices that can be opened; 0 is a good answer.
static int32_t port_device_count(uint32_t *out_count) {
  (void)out_count;
  return HAL_ERROR_UNSUPPORTED;
}

// Copies the calling thread's last error. It never fails once the port is loaded.
static int32_t port_last_error(hal_error *out_error) {
  (void)out_error;
  return HAL_ERROR_UNSUPPORTED;
}

// Opens a device. Opening it again gives another handle with its own objects.
static int32_t device_open(uint32_t index, hal_device *out_device) {
  (void)index;
  (void)out_device;
  return HAL_ERROR_UNSUPPORTED;
}

// Waits for the device's work and closes it with every object on it.
static int32_t device_close(hal_device device, uint64_t timeout_ns) {
  (void)device;
  (void)timeout_ns;
  return HAL_ERROR_UNSUPPORTED;
}

// Reads a number: an HCD path or one of the run-time keys.
static int32_t device_get_i64(hal_device device, const char *key, int64_t *out_value) {
  (void)device;
  (void)key;
  (void)out_value;
  return HAL_ERROR_UNSUPPORTED;
}

// Reads a text: `device.name`, `hcd.ref`, `hcd.overlay`, or an HCD path.
static int32_t device_get_str(hal_device device, const char *key, uint64_t capacity, char *out_text,
                              uint64_t *out_bytes) {
  (void)device;
  (void)key;
  (void)capacity;
  (void)out_text;
  (void)out_bytes;
  return HAL_ERROR_UNSUPPORTED;
}

// Waits until all work enqueued on the device has finished.
static int32_t device_synchronize(hal_device device, uint64_t timeout_ns) {
  (void)device;
  (void)timeout_ns;
  return HAL_ERROR_UNSUPPORTED;
}

// Makes a buffer in device memory.
static int32_t memory_alloc(hal_device device, const hal_memory_desc *desc,
                            hal_memory *out_memory) {
  (void)device;
  (void)desc;
  (void)out_memory;
  return HAL_ERROR_UNSUPPORTED;
}

// Ends a buffer. It never blocks; memory returns when work enqueued earlier on the device has
// finished.
static int32_t memory_free(hal_memory memory) {
  (void)memory;
  return HAL_ERROR_UNSUPPORTED;
}

// Describes a buffer.
static int32_t memory_info(hal_memory memory, hal_memory_facts *out_info) {
  (void)memory;
  (void)out_info;
  return HAL_ERROR_UNSUPPORTED;
}

// Reads the device's memory figures.
static int32_t memory_stats(hal_device device, hal_memory_figures *out_stats) {
  (void)device;
  (void)out_stats;
  return HAL_ERROR_UNSUPPORTED;
}

// Makes pinned host memory that the device copies from and to without staging.
static int32_t memory_host_alloc(hal_device device, uint64_t bytes, void **out_pointer) {
  (void)device;
  (void)bytes;
  (void)out_pointer;
  return HAL_ERROR_UNSUPPORTED;
}

// Ends pinned host memory.
static int32_t memory_host_free(hal_device device, void *pointer) {
  (void)device;
  (void)pointer;
  return HAL_ERROR_UNSUPPORTED;
}

// Copies consecutive bytes in stream order. A length of zero does nothing.
static int32_t transfer_copy(hal_stream stream, const hal_copy_desc *desc) {
  (void)stream;
  (void)desc;
  return HAL_ERROR_UNSUPPORTED;
}

// Repeats a pattern over a range in stream order.
static int32_t transfer_fill(hal_stream stream, const hal_memory_ref *target, const void *pattern,
                             uint32_t pattern_bytes) {
  (void)stream;
  (void)target;
  (void)pattern;
  (void)pattern_bytes;
  return HAL_ERROR_UNSUPPORTED;
}

// Makes a stream. There is no implicit default stream and no implicit order between streams.
static int32_t stream_create(hal_device device, uint32_t flags, hal_stream *out_stream) {
  (void)device;
  (void)flags;
  (void)out_stream;
  return HAL_ERROR_UNSUPPORTED;
}

// Ends a stream. It never blocks; work enqueued before still finishes.
static int32_t stream_destroy(hal_stream stream) {
  (void)stream;
  return HAL_ERROR_UNSUPPORTED;
}

// Asks whether all work enqueued so far has finished: OK or NOT_READY.
static int32_t stream_query(hal_stream stream) {
  (void)stream;
  return HAL_ERROR_UNSUPPORTED;
}

// Waits until all work enqueued on the stream has finished.
static int32_t stream_synchronize(hal_stream stream, uint64_t timeout_ns) {
  (void)stream;
  (void)timeout_ns;
  return HAL_ERROR_UNSUPPORTED;
}

// Makes later work of the stream wait for the event's latest record made before this call.
static int32_t stream_wait_event(hal_stream stream, hal_event event) {
  (void)stream;
  (void)event;
  return HAL_ERROR_UNSUPPORTED;
}

// Makes an event.
static int32_t event_create(hal_device device, uint32_t flags, hal_event *out_event) {
  (void)device;
  (void)flags;
  (void)out_event;
  return HAL_ERROR_UNSUPPORTED;
}

// Ends an event. An unsignalled HOST event signals an error to its waiters.
static int32_t event_destroy(hal_event event) {
  (void)event;
  return HAL_ERROR_UNSUPPORTED;
}

// Puts the event behind all work enqueued on the stream so far. A second record replaces the first.
static int32_t event_record(hal_event event, hal_stream stream) {
  (void)event;
  (void)stream;
  return HAL_ERROR_UNSUPPORTED;
}

// Asks whether the event is complete: OK or NOT_READY. A never-recorded event is complete.
static int32_t event_query(hal_event event) {
  (void)event;
  return HAL_ERROR_UNSUPPORTED;
}

// Waits until the event is complete.
static int32_t event_synchronize(hal_event event, uint64_t timeout_ns) {
  (void)event;
  (void)timeout_ns;
  return HAL_ERROR_UNSUPPORTED;
}

// Completes a HOST event with a status.
static int32_t event_signal(hal_event event, int32_t status) {
  (void)event;
  (void)status;
  return HAL_ERROR_UNSUPPORTED;
}

// Checks an image and makes its kernels ready.
static int32_t module_load(hal_device device, const hal_module_desc *desc, hal_module *out_module) {
  (void)device;
  (void)desc;
  (void)out_module;
  return HAL_ERROR_UNSUPPORTED;
}

// Ends a module and its kernels. It never blocks; launches enqueued before still run.
static int32_t module_unload(hal_module module) {
  (void)module;
  return HAL_ERROR_UNSUPPORTED;
}

// Finds a program of the module by name.
static int32_t module_get_kernel(hal_module module, const char *name, hal_kernel *out_kernel) {
  (void)module;
  (void)name;
  (void)out_kernel;
  return HAL_ERROR_UNSUPPORTED;
}

// Enqueues a grid of programs. Arguments are copied at enqueue.
static int32_t launch_launch(hal_stream stream, hal_kernel kernel, const hal_launch_desc *desc) {
  (void)stream;
  (void)kernel;
  (void)desc;
  return HAL_ERROR_UNSUPPORTED;
}

// ---- Tier 2 ----

// Time on the device between the completions of two TIMING events.
static int32_t event_elapsed_ns(hal_event start, hal_event end, int64_t *out_ns) {
  (void)start;
  (void)end;
  (void)out_ns;
  return HAL_ERROR_UNSUPPORTED;
}

// Reads the device's and the host's clock together.
static int32_t profile_clock(hal_device device, hal_clock *out_clock) {
  (void)device;
  (void)out_clock;
  return HAL_ERROR_UNSUPPORTED;
}

// Starts to keep records of the kinds in a mask.
static int32_t profile_start(hal_device device, uint32_t mask) {
  (void)device;
  (void)mask;
  return HAL_ERROR_UNSUPPORTED;
}

// Ends the keeping of records; those kept can still be drained.
static int32_t profile_stop(hal_device device) {
  (void)device;
  return HAL_ERROR_UNSUPPORTED;
}

// Moves finished records out.
static int32_t profile_drain(hal_device device, uint64_t capacity, hal_profile_record *out_records,
                             uint64_t *out_count, uint64_t *out_dropped) {
  (void)device;
  (void)capacity;
  (void)out_records;
  (void)out_count;
  (void)out_dropped;
  return HAL_ERROR_UNSUPPORTED;
}

// ---- Tier 3 ----

// Tells how one device reaches another one's memory. Without it: copies go through host memory.
static int32_t device_peer_info(hal_device device, hal_device peer, uint32_t key,
                                int64_t *out_value) {
  (void)device;
  (void)peer;
  (void)key;
  (void)out_value;
  return HAL_ERROR_UNSUPPORTED;
}

// Copies between two devices of one port in stream order. Without it: through host memory.
static int32_t transfer_copy_peer(hal_stream stream, const hal_memory_ref *source,
                                  const hal_memory_ref *target) {
  (void)stream;
  (void)source;
  (void)target;
  return HAL_ERROR_UNSUPPORTED;
}

// Makes the name of a new communicator. Without it: the loader makes it.
static int32_t collective_unique_id(hal_unique_id *out_id) {
  (void)out_id;
  return HAL_ERROR_UNSUPPORTED;
}

// Joins a communicator. It returns when all ranks have joined; several ranks of one thread use a
// group. Without it: the loader's algorithms over copy_peer.
static int32_t collective_comm_create(hal_device device, const hal_comm_desc *desc,
                                      hal_comm *out_comm) {
  (void)device;
  (void)desc;
  (void)out_comm;
  return HAL_ERROR_UNSUPPORTED;
}

// Leaves a communicator. It never blocks. Without it: the loader's algorithms over copy_peer.
static int32_t collective_comm_destroy(hal_comm comm) {
  (void)comm;
  return HAL_ERROR_UNSUPPORTED;
}

// Reduces element by element over all ranks; each rank gets the whole result. In place is allowed.
// Without it: the loader's algorithms over copy_peer.
static int32_t collective_all_reduce(hal_comm comm, hal_stream stream,
                                     const hal_collective_desc *desc) {
  (void)comm;
  (void)stream;
  (void)desc;
  return HAL_ERROR_UNSUPPORTED;
}

// Gives each rank the parts of all ranks in rank order; target holds count × ranks elements. In
// place is allowed at the rank's own part. Without it: the loader's algorithms over copy_peer.
static int32_t collective_all_gather(hal_comm comm, hal_stream stream,
                                     const hal_collective_desc *desc) {
  (void)comm;
  (void)stream;
  (void)desc;
  return HAL_ERROR_UNSUPPORTED;
}

// Reduces over all ranks and gives each rank its part; source holds count × ranks elements. Without
// it: the loader's algorithms over copy_peer.
static int32_t collective_reduce_scatter(hal_comm comm, hal_stream stream,
                                         const hal_collective_desc *desc) {
  (void)comm;
  (void)stream;
  (void)desc;
  return HAL_ERROR_UNSUPPORTED;
}

// Gives each rank the root's elements; desc.peer is the root. Without it: the loader's algorithms
// over copy_peer.
static int32_t collective_broadcast(hal_comm comm, hal_stream stream,
                                    const hal_collective_desc *desc) {
  (void)comm;
  (void)stream;
  (void)desc;
  return HAL_ERROR_UNSUPPORTED;
}

// Sends elements to a peer that receives as many. Without it: the loader's algorithms over
// copy_peer.
static int32_t collective_send(hal_comm comm, hal_stream stream, const hal_collective_desc *desc) {
  (void)comm;
  (void)stream;
  (void)desc;
  return HAL_ERROR_UNSUPPORTED;
}

// Receives elements from a peer that sends as many. Without it: the loader's algorithms over
// copy_peer.
static int32_t collective_recv(hal_comm comm, hal_stream stream, const hal_collective_desc *desc) {
  (void)comm;
  (void)stream;
  (void)desc;
  return HAL_ERROR_UNSUPPORTED;
}

// Opens a group of this thread; collectives inside it start together at group_end. Groups nest.
// Without it: the loader's algorithms over copy_peer.
static int32_t collective_group_begin(void) {
  return HAL_ERROR_UNSUPPORTED;
}

// Starts what the group holds. Without it: the loader's algorithms over copy_peer.
static int32_t collective_group_end(void) {
  return HAL_ERROR_UNSUPPORTED;
}

// Ends all work of the communicator with PEER_FAILED. It never blocks. Without it: the loader's
// algorithms over copy_peer.
static int32_t collective_abort(hal_comm comm) {
  (void)comm;
  return HAL_ERROR_UNSUPPORTED;
}

// Reads the communicator's first failure, or OK. Without it: the loader's algorithms over
// copy_peer.
static int32_t collective_async_error(hal_comm comm, int32_t *out_status) {
  (void)comm;
  (void)out_status;
  return HAL_ERROR_UNSUPPORTED;
}

// ---- Optional ----

// Returns a named extension's table.
static int32_t port_get_extension(const char *name, uint32_t version, const void **out_table) {
  (void)name;
  (void)version;
  (void)out_table;
  return HAL_ERROR_UNSUPPORTED;
}

// Brings a lost device back; every object on it is dead, the device's handle works again. Without
// it: close and open.
static int32_t device_reset(hal_device device) {
  (void)device;
  return HAL_ERROR_UNSUPPORTED;
}

// Pins host memory that the caller owns. Without it: staged copies.
static int32_t memory_host_register(hal_device device, void *pointer, uint64_t bytes) {
  (void)device;
  (void)pointer;
  (void)bytes;
  return HAL_ERROR_UNSUPPORTED;
}

// Ends the pinning of host memory. Without it: staged copies.
static int32_t memory_host_unregister(hal_device device, void *pointer) {
  (void)device;
  (void)pointer;
  return HAL_ERROR_UNSUPPORTED;
}

// Makes bytes with which another process can import the buffer.
static int32_t memory_export_handle(hal_memory memory, hal_ipc_handle *out_handle) {
  (void)memory;
  (void)out_handle;
  return HAL_ERROR_UNSUPPORTED;
}

// Opens a buffer that another process exported.
static int32_t memory_import_handle(hal_device device, const hal_ipc_handle *handle,
                                    hal_memory *out_memory) {
  (void)device;
  (void)handle;
  (void)out_memory;
  return HAL_ERROR_UNSUPPORTED;
}

// Makes a buffer of memory that the caller owns.
static int32_t memory_wrap(hal_device device, uint64_t native, uint64_t bytes,
                           hal_memory *out_memory) {
  (void)device;
  (void)native;
  (void)bytes;
  (void)out_memory;
  return HAL_ERROR_UNSUPPORTED;
}

// Shows the runtime's own handle or address of a buffer.
static int32_t memory_native_handle(hal_memory memory, uint64_t *out_native) {
  (void)memory;
  (void)out_native;
  return HAL_ERROR_UNSUPPORTED;
}

// Copies rows with a pitch on each side in stream order. Without it: row loop.
static int32_t transfer_copy_2d(hal_stream stream, const hal_copy_2d_desc *desc) {
  (void)stream;
  (void)desc;
  return HAL_ERROR_UNSUPPORTED;
}

// Calls a host function in stream order. Without it: host-signalled events.
static int32_t stream_host_call(hal_stream stream, hal_host_fn function, void *user) {
  (void)stream;
  (void)function;
  (void)user;
  return HAL_ERROR_UNSUPPORTED;
}

// Makes a stream of a queue that the caller owns.
static int32_t stream_wrap(hal_device device, uint64_t native, hal_stream *out_stream) {
  (void)device;
  (void)native;
  (void)out_stream;
  return HAL_ERROR_UNSUPPORTED;
}

// Reads one number about a kernel. Without it: the image's signature.
static int32_t module_kernel_info(hal_kernel kernel, uint32_t key, int64_t *out_value) {
  (void)kernel;
  (void)key;
  (void)out_value;
  return HAL_ERROR_UNSUPPORTED;
}

// Writes the module in a form that loads faster the next time. Without it: the image itself.
static int32_t module_serialize(hal_module module, uint64_t capacity, void *out_image,
                                uint64_t *out_bytes) {
  (void)module;
  (void)capacity;
  (void)out_image;
  (void)out_bytes;
  return HAL_ERROR_UNSUPPORTED;
}

// Proposes a block for a kernel and a grid. Without it: the HCD's default.
static int32_t launch_suggest(hal_kernel kernel, const hal_launch_desc *desc, uint32_t *out_block) {
  (void)kernel;
  (void)desc;
  (void)out_block;
  return HAL_ERROR_UNSUPPORTED;
}

// Describes the operator at an index. Without it: kernels generated from the tensor IR.
static int32_t operator_enumerate(hal_device device, uint32_t index, hal_operator_info *out_info) {
  (void)device;
  (void)index;
  (void)out_info;
  return HAL_ERROR_UNSUPPORTED;
}

// Tells whether the library runs this use of an operator and with how much workspace. Without it:
// kernels generated from the tensor IR.
static int32_t operator_supports(hal_device device, const hal_operator_desc *desc,
                                 uint64_t *out_workspace_bytes) {
  (void)device;
  (void)desc;
  (void)out_workspace_bytes;
  return HAL_ERROR_UNSUPPORTED;
}

// Enqueues an operator. Without it: kernels generated from the tensor IR.
static int32_t operator_run(hal_stream stream, const hal_operator_desc *desc,
                            const hal_memory_ref *workspace) {
  (void)stream;
  (void)desc;
  (void)workspace;
  return HAL_ERROR_UNSUPPORTED;
}

// Starts to record what is enqueued on the stream; nothing runs. Without it: the loader records and
// replays.
static int32_t graph_begin(hal_stream stream) {
  (void)stream;
  return HAL_ERROR_UNSUPPORTED;
}

// Ends the recording. Without it: the loader records and replays.
static int32_t graph_end(hal_stream stream, hal_graph *out_graph) {
  (void)stream;
  (void)out_graph;
  return HAL_ERROR_UNSUPPORTED;
}

// Enqueues the recorded work in its order. Without it: the loader records and replays.
static int32_t graph_launch(hal_graph graph, hal_stream stream) {
  (void)graph;
  (void)stream;
  return HAL_ERROR_UNSUPPORTED;
}

// Ends a graph. It never blocks. Without it: the loader records and replays.
static int32_t graph_destroy(hal_graph graph) {
  (void)graph;
  return HAL_ERROR_UNSUPPORTED;
}

// Replaces the arguments of a recorded launch for later launches of the graph. Without it: the
// loader records and replays.
static int32_t graph_update_arguments(hal_graph graph, uint32_t node, const hal_argument *arguments,
                                      uint32_t argument_count) {
  (void)graph;
  (void)node;
  (void)arguments;
  (void)argument_count;
  return HAL_ERROR_UNSUPPORTED;
}

// Gives part r of each rank to rank r; source and target hold count × ranks elements. Without it:
// send and recv.
static int32_t collective_all_to_all(hal_comm comm, hal_stream stream,
                                     const hal_collective_desc *desc) {
  (void)comm;
  (void)stream;
  (void)desc;
  return HAL_ERROR_UNSUPPORTED;
}

// Reads a named counter of the device.
static int32_t profile_counter(hal_device device, const char *name, int64_t *out_value) {
  (void)device;
  (void)name;
  (void)out_value;
  return HAL_ERROR_UNSUPPORTED;
}

// ---- Tables ----

static const hal_port_table port_functions = {
    .size = sizeof(hal_port_table),
    .init = port_init,
    .shutdown = port_shutdown,
    .get_info = port_get_info,
    .device_count = port_device_count,
    .last_error = port_last_error,
    .get_extension = port_get_extension,
};

static const hal_device_table device_functions = {
    .size = sizeof(hal_device_table),
    .open = device_open,
    .close = device_close,
    .get_i64 = device_get_i64,
    .get_str = device_get_str,
    .synchronize = device_synchronize,
    .peer_info = device_peer_info,
    .reset = device_reset,
};

static const hal_memory_table memory_functions = {
    .size = sizeof(hal_memory_table),
    .alloc = memory_alloc,
    .free = memory_free,
    .info = memory_info,
    .stats = memory_stats,
    .host_alloc = memory_host_alloc,
    .host_free = memory_host_free,
    .host_register = memory_host_register,
    .host_unregister = memory_host_unregister,
    .export_handle = memory_export_handle,
    .import_handle = memory_import_handle,
    .wrap = memory_wrap,
    .native_handle = memory_native_handle,
};

static const hal_transfer_table transfer_functions = {
    .size = sizeof(hal_transfer_table),
    .copy = transfer_copy,
    .fill = transfer_fill,
    .copy_peer = transfer_copy_peer,
    .copy_2d = transfer_copy_2d,
};

static const hal_stream_table stream_functions = {
    .size = sizeof(hal_stream_table),
    .create = stream_create,
    .destroy = stream_destroy,
    .query = stream_query,
    .synchronize = stream_synchronize,
    .wait_event = stream_wait_event,
    .host_call = stream_host_call,
    .wrap = stream_wrap,
};

static const hal_event_table event_functions = {
    .size = sizeof(hal_event_table),
    .create = event_create,
    .destroy = event_destroy,
    .record = event_record,
    .query = event_query,
    .synchronize = event_synchronize,
    .signal = event_signal,
    .elapsed_ns = event_elapsed_ns,
};

static const hal_module_table module_functions = {
    .size = sizeof(hal_module_table),
    .load = module_load,
    .unload = module_unload,
    .get_kernel = module_get_kernel,
    .kernel_info = module_kernel_info,
    .serialize = module_serialize,
};

static const hal_launch_table launch_functions = {
    .size = sizeof(hal_launch_table),
    .launch = launch_launch,
    .suggest = launch_suggest,
};

static const hal_operator_table operator_functions = {
    .size = sizeof(hal_operator_table),
    .enumerate = operator_enumerate,
    .supports = operator_supports,
    .run = operator_run,
};

static const hal_graph_table graph_functions = {
    .size = sizeof(hal_graph_table),
    .begin = graph_begin,
    .end = graph_end,
    .launch = graph_launch,
    .destroy = graph_destroy,
    .update_arguments = graph_update_arguments,
};

static const hal_collective_table collective_functions = {
    .size = sizeof(hal_collective_table),
    .unique_id = collective_unique_id,
    .comm_create = collective_comm_create,
    .comm_destroy = collective_comm_destroy,
    .all_reduce = collective_all_reduce,
    .all_gather = collective_all_gather,
    .reduce_scatter = collective_reduce_scatter,
    .broadcast = collective_broadcast,
    .send = collective_send,
    .recv = collective_recv,
    .group_begin = collective_group_begin,
    .group_end = collective_group_end,
    .abort = collective_abort,
    .async_error = collective_async_error,
    .all_to_all = collective_all_to_all,
};

static const hal_profile_table profile_functions = {
    .size = sizeof(hal_profile_table),
    .clock = profile_clock,
    .start = profile_start,
    .stop = profile_stop,
    .drain = profile_drain,
    .counter = profile_counter,
};

static const hal_port_root root = {
    .size = sizeof(hal_port_root),
    .abi_major = HAL_ABI_MAJOR,
    .abi_minor = HAL_ABI_MINOR,
    .name = PORT_NAME,
    .vendor = PORT_VENDOR,
    .version = PORT_VERSION,
    .build_id = PORT_BUILD_ID,
    .port = &port_functions,
    .device = &device_functions,
    .memory = &memory_functions,
    .transfer = &transfer_functions,
    .stream = &stream_functions,
    .event = &event_functions,
    .module = &module_functions,
    .launch = &launch_functions,
    .operators = &operator_functions,
    .graph = &graph_functions,
    .collective = &collective_functions,
    .profile = &profile_functions,
};

// A host of another major is refused; any minor is served, since tables only grow.
int32_t hal_port_entry(uint32_t host_major, uint32_t host_minor, const hal_port_root **out_root) {
  (void)host_minor;
  if (host_major != HAL_ABI_MAJOR) return HAL_ERROR_VERSION;
  if (out_root == NULL) return HAL_ERROR_INVALID_VALUE;
  *out_root = &root;
  return HAL_OK;
}
