// The kit: what a port needs beside its chip. docs/kit.md is the guide.
//
// A port describes itself in a kit_port (texts and hooks), puts the kit's table-ready functions
// (kit_device_open, kit_stream_create …) into the tables of its hal_port_root, and answers
// hal_port_entry with kit_entry. The kit then does handles, streams, events, order, errors, limits,
// deferred frees, time-outs, profile records and every rule that the registry lays on a port.
//
// One shared library holds one port: the kit keeps its state in static variables.
#ifndef KIT_KIT_H_
#define KIT_KIT_H_

#include <stddef.h>
#include <stdint.h>

#include "hal/hal.h"
#include "kit_hcd.h"
#include "vil.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kit_device kit_device;
typedef struct kit_stream kit_stream;
typedef struct kit_memory kit_memory;
typedef struct kit_kernel kit_kernel;
typedef struct kit_point kit_point;

// Device bytes as the port's runtime knows them.
typedef struct kit_allocation {
  void *pointer;  // First byte when the host can name it; the kit passes it on to kernels. NULL for
                  // handles: kit_source.h gives kernels a buffer and an offset.
  uint64_t native;  // The runtime's own handle or address: what memory.native_handle shows.
  uint64_t bytes;   // What the device really gave away for it; counted against its total.
  void *port_data;  // The port's own.
} kit_allocation;

// A byte range of device memory inside an operation.
typedef struct kit_range {
  kit_memory *memory;  // The operation holds a reference until it has finished. NULL: no range.
  uint64_t offset_bytes;
  uint64_t bytes;
} kit_range;

enum {
  KIT_COPY_TO_DEVICE = 1,
  KIT_COPY_TO_HOST,
  KIT_COPY_ON_DEVICE,  // Ranges may overlap: copy as if through a third place.
  KIT_COPY_PEER,       // The ranges lie on two devices.
  KIT_FILL,
  KIT_LAUNCH,
  KIT_HOST_CALL,  // The kit runs these three itself.
  KIT_RECORD,
  KIT_WAIT,
  KIT_OPERATOR,
  KIT_COLLECTIVE,
};

// One operation of a stream. The port's hooks get it; they read it and may set the two times.
typedef struct kit_operation {
  uint32_t kind;           // One of KIT_*.
  uint32_t pattern_bytes;  // Fill: 1, 2, 4 or 8.
  uint64_t id;             // 1-based number on its stream.
  kit_range target;        // Copies to a device, fill.
  kit_range source;        // Copies from a device.
  const void *host_source;
  void *host_target;
  uint8_t pattern[8];
  kit_kernel *kernel;     // Launch.
  const void *launch;     // Launch: what vil_launch_bind wrote, for vil_launch_run. Operator: the
                          // kit_operator.
  const kit_range *uses;  // Launch: the buffers of the arguments.
  uint32_t use_count;
  uint32_t kept;  // Private to the kit, as all that follows but the times.
  uint64_t ticket;
  kit_point *point;
  struct kit_part *part;  // Collective.
  void *owned;            // Staged bytes; freed with the operation.
  hal_host_fn function;
  void *user;
  uint64_t ready_ns;  // Virtual clock: not before this time.
  uint64_t begin_ns;  // On the device's clock.
  uint64_t end_ns;
  uint32_t planned;  // Virtual clock: the two times are known.
  void *port_data;   // The hook plan's or submit's own, from malloc; freed with the operation.
} kit_operation;

// One use of an operator, as it runs. Inputs come before outputs.
typedef struct kit_operator {
  const char *name;
  uint32_t input_count, output_count, attribute_count;
  hal_tensor *tensors;
  void **data;  // First element of each tensor.
  hal_attribute *attributes;
  void *workspace;  // NULL: none was asked for.
} kit_operator;

// What a device is. Texts live until shutdown.
typedef struct kit_device_facts {
  const char *name;          // device.get_str("device.name").
  const char *hcd_ref;       // device.get_str("hcd.ref").
  const char *hcd_overlay;   // Flat text of values read at run time; NULL when there are none.
  const kit_hcd *hcd;        // The device's description without the overlay; NULL: the host's.
  uint64_t memory_bytes;     // Bytes that buffers can use.
  uint64_t alignment_bytes;  // Of a buffer that asks for none; a power of two.
  int64_t dlpack_type;       // DLPack's number for what native_handle shows; 0: not for others.
  char *lines;               // The kit's own: what kit_facts_number and its like have written.
} kit_device_facts;

// What the port does. A hook that is NULL takes the kit's own way for memory that the host can
// address; hooks that undo each other's work (reserve and release, pin and unpin, the queue's) are
// all there or all NULL, and init refuses a half. No hook is called with a lock held, and none of
// them may call a table-ready function. Statuses are the ABI's; a failing hook explains itself with
// kit_fail.
typedef struct kit_hooks {
  // Starts the port: called by init after options and HCD are read. NULL: nothing to do.
  int32_t (*start)(void);
  // Stops it: called by shutdown when every device is closed.
  void (*stop)(void);
  // What devices there are; or, for ports that offer them in `start` (kit_runtime.h), the facts of
  // one, and its end at shutdown: name and description are filled in, `data` is what was offered.
  uint32_t (*device_count)(void);
  int32_t (*device_facts)(uint32_t index, kit_device_facts *out_facts);
  int32_t (*device_describe)(void *data, kit_device_facts *facts);
  void (*device_drop)(void *data);
  // Device bytes; `alignment` is a power of two. Total and in use are the kit's to check.
  int32_t (*reserve)(kit_device *device, uint64_t bytes, uint64_t alignment, int zero,
                     kit_allocation *out_allocation);
  void (*release)(kit_device *device, kit_allocation *allocation);
  // Pinned memory of the host, aligned to 64 at least. NULL: ordinary memory.
  int32_t (*pin)(kit_device *device, uint64_t bytes, void **out_pointer);
  void (*unpin)(kit_device *device, void *pointer);
  // Thread executor: does one operation to its end, on the stream's thread or, when the stream is
  // idle and the operation short, on the caller's.
  int32_t (*run)(kit_device *device, kit_operation *operation);
  // Operators of the port's own library; a port whose table is KIT_OPERATOR_TABLE() has all three.
  // `info` is OUT_OF_RANGE past the last one, `supports` UNSUPPORTED with a reason for what cannot
  // run, and `run` does one use to its end, on the stream's thread.
  int32_t (*operator_info)(kit_device *device, uint32_t index, hal_operator_info *out_info);
  int32_t (*operator_supports)(kit_device *device, const hal_operator_desc *desc,
                               uint64_t *out_workspace_bytes);
  int32_t (*operator_run)(kit_device *device, const kit_operator *use);
  // Nanoseconds of the device's clock. NULL: the host's monotonic clock.
  uint64_t (*now_ns)(kit_device *device);
  // A virtual clock: how long the operation takes. NULL: times are real.
  uint64_t (*duration_ns)(kit_device *device, const kit_operation *operation);
  // A virtual clock with things that operations share: sets begin_ns and end_ns, begin_ns at least
  // the value it finds. Instead of duration_ns. Called once for every operation when the times of
  // all that it waits for are known: at its enqueue, unless it stands behind an event of the host.
  // Records, waits and host calls come too and take no time. `stream` is the stream's handle.
  void (*plan)(kit_device *device, uint64_t stream, kit_operation *operation);
  // device.peer_info: HAL_OK, or HAL_ERROR_NOT_FOUND for a key that the port does not know.
  int32_t (*peer_info)(uint32_t index, uint32_t peer, uint32_t key, int64_t *out_value);
  // Native executor: with `submit` a stream has no thread. The kit hands operations to the
  // runtime's queue in order and asks how many have finished. `queue_open` makes a queue or, with
  // *queue != 0, takes the caller's, which is closed when the hook has put another value there;
  // `submit` starts one operation and returns, or answers HAL_NOT_READY: not now, while others of
  // the queue run; `poll` tells how many of the queue's operations have finished since it was
  // opened; a status below 0 says that the one after them failed.
  int32_t (*queue_open)(kit_device *device, uint64_t *queue);
  void (*queue_close)(kit_device *device, uint64_t queue);
  int32_t (*submit)(kit_device *device, uint64_t queue, kit_operation *operation);
  int32_t (*poll)(kit_device *device, uint64_t queue, uint64_t *out_finished);
  // Instead of `poll`, for runtimes with an event for each operation: whether one that was
  // submitted has finished. HAL_OK, HAL_NOT_READY, or a status below 0: it failed. Asked in order,
  // again and again until it is not NOT_READY, also when an earlier one failed; so what `submit`
  // kept in operation->port_data (from malloc; the kit frees it) can be let go here. It may set
  // begin_ns and end_ns (of now_ns' clock): then profile records and timed events have the device's
  // own times.
  int32_t (*finished)(kit_device *device, uint64_t queue, kit_operation *operation);
  // module.load of another format than `format`: gives the VIL behind the image (kit_module_read),
  // with machine code for its programs (vil_module_set_entry), and what the port keeps with the
  // module. UNSUPPORTED: the port does not know the format. NULL: there is one format.
  int32_t (*module_open)(kit_device *device, const hal_module_desc *desc, vil_module **out_module,
                         void **out_data);
  void (*module_close)(void *data);  // The module and its last launch are gone.
} kit_hooks;

typedef struct kit_port {
  const char *runtime;      // Name and version of the runtime underneath; "" when there is none.
  const char *runs_on;      // "device" or "host": where kernels run.
  const char *format;       // The module format that module.load takes: "vil.v1", which the kit
                            // reads, or "source.ID", which module_open does (kit_source.h).
  const char *hcd_default;  // Flat text used when the host gives none; NULL: init refuses then.
  const struct kit_driver *driver;  // Makes most hooks, for ports of a driver (kit_driver.h).
  kit_hooks hooks;
} kit_port;

// ---- What a port calls ----

// Answers hal_port_entry: checks the host's major and hands out the root, which says the port's
// name and version.
int32_t kit_entry(const kit_port *port, const hal_port_root *root, uint32_t host_major,
                  uint32_t host_minor, const hal_port_root **out_root);

// Sets the calling thread's error record and returns `status`.
int32_t kit_fail(int32_t status, const char *format, ...) __attribute__((format(printf, 2, 3)));

// The text of the calling thread's error record.
const char *kit_error_text(void);

// Sends a line to the host's log; nothing before init or after shutdown.
void kit_log(int32_t level, const char *format, ...) __attribute__((format(printf, 2, 3)));

// The description that the host gave, or the default one; NULL when there is none.
const kit_hcd *kit_host_hcd(void);

// An option of the host (`key=value` lines), else the environment variable (NULL: none), else NULL.
// The text is written to `out`.
const char *kit_option(const char *key, const char *environment, char *out, size_t capacity);

uint32_t kit_device_index(const kit_device *device);
uint64_t kit_device_handle(const kit_device *device);     // Of this opening.
const kit_hcd *kit_device_hcd(const kit_device *device);  // With the overlay.
kit_device *kit_memory_device(const kit_memory *memory);
kit_allocation *kit_memory_allocation(kit_memory *memory);
// Reads and judges a VIL image for a device; the error record says what is wrong with it.
int32_t kit_module_read(const kit_device *device, const void *image, uint64_t bytes,
                        vil_module **out_module);
const vil_kernel *kit_kernel_vil(const kit_kernel *kernel);

// First byte of a range that the host can address.
unsigned char *kit_range_pointer(const kit_range *range);

// The kit's own ways for memory that the host can address; hooks may call them.
int32_t kit_host_reserve(kit_device *device, uint64_t bytes, uint64_t alignment, int zero,
                         kit_allocation *out_allocation);
void kit_host_release(kit_device *device, kit_allocation *allocation);
int32_t kit_host_run(kit_device *device, kit_operation *operation);

// With a fence, memory of kit_host_reserve can be touched only while an operation that uses it
// runs: the host cannot read device memory by accident. Call it in `start`.
void kit_host_fence(int on);
int kit_host_is_fenced(void);

// Threads beside the stream's own that kit_host_run spreads a large launch over; 0 by default.
void kit_host_threads(uint32_t count);

// kit_host_run on the calling thread alone with these hooks in place of the registered ones.
int32_t kit_host_run_with(kit_operation *operation, const vil_hooks *hooks);

// A wait of a stream for an event that the host has not signalled after so long fails the stream.
// 0, as at first: it waits for ever.
void kit_host_patience(uint64_t wait_ns);

// Registers the caller's own tile operations for kit_host_run; NULL takes the kit's.
void kit_host_hooks(const vil_hooks *hooks);

uint64_t kit_monotonic_ns(void);

// Binds a launch without enqueueing it and calls `visit` with what vil_launch_bind wrote. Buffers
// need no memory: of a reference only `bytes` counts. The launch's status, or that of `visit`.
int32_t kit_launch_preview(hal_kernel kernel, const hal_launch_desc *desc,
                           int32_t (*visit)(void *context, kit_device *device, const void *launch),
                           void *context);

// ---- Table-ready functions ----

int32_t kit_port_init(const hal_host *host);
int32_t kit_port_shutdown(uint64_t timeout_ns);
int32_t kit_port_get_info(uint32_t key, uint64_t capacity, char *out_text, uint64_t *out_bytes);
int32_t kit_port_device_count(uint32_t *out_count);
int32_t kit_port_last_error(hal_error *out_error);

int32_t kit_device_open(uint32_t index, hal_device *out_device);
int32_t kit_device_close(hal_device device, uint64_t timeout_ns);
int32_t kit_device_get_i64(hal_device device, const char *key, int64_t *out_value);
int32_t kit_device_get_str(hal_device device, const char *key, uint64_t capacity, char *out_text,
                           uint64_t *out_bytes);
int32_t kit_device_synchronize(hal_device device, uint64_t timeout_ns);
int32_t kit_device_peer_info(hal_device device, hal_device peer, uint32_t key, int64_t *out_value);

int32_t kit_memory_alloc(hal_device device, const hal_memory_desc *desc, hal_memory *out_memory);
int32_t kit_memory_free(hal_memory memory);
int32_t kit_memory_info(hal_memory memory, hal_memory_facts *out_info);
int32_t kit_memory_stats(hal_device device, hal_memory_figures *out_stats);
int32_t kit_memory_host_alloc(hal_device device, uint64_t bytes, void **out_pointer);
int32_t kit_memory_host_free(hal_device device, void *pointer);
int32_t kit_memory_wrap(hal_device device, uint64_t native, uint64_t bytes, hal_memory *out_memory);
int32_t kit_memory_native_handle(hal_memory memory, uint64_t *out_native);

int32_t kit_transfer_copy(hal_stream stream, const hal_copy_desc *desc);
int32_t kit_transfer_fill(hal_stream stream, const hal_memory_ref *target, const void *pattern,
                          uint32_t pattern_bytes);
int32_t kit_transfer_copy_peer(hal_stream stream, const hal_memory_ref *source,
                               const hal_memory_ref *target);

int32_t kit_stream_create(hal_device device, uint32_t flags, hal_stream *out_stream);
int32_t kit_stream_destroy(hal_stream stream);
int32_t kit_stream_query(hal_stream stream);
int32_t kit_stream_synchronize(hal_stream stream, uint64_t timeout_ns);
int32_t kit_stream_wait_event(hal_stream stream, hal_event event);
int32_t kit_stream_host_call(hal_stream stream, hal_host_fn function, void *user);
int32_t kit_stream_wrap(hal_device device, uint64_t native, hal_stream *out_stream);

int32_t kit_event_create(hal_device device, uint32_t flags, hal_event *out_event);
int32_t kit_event_destroy(hal_event event);
int32_t kit_event_record(hal_event event, hal_stream stream);
int32_t kit_event_query(hal_event event);
int32_t kit_event_synchronize(hal_event event, uint64_t timeout_ns);
int32_t kit_event_signal(hal_event event, int32_t status);
int32_t kit_event_elapsed_ns(hal_event start, hal_event end, int64_t *out_ns);

int32_t kit_module_load(hal_device device, const hal_module_desc *desc, hal_module *out_module);
int32_t kit_module_unload(hal_module module);
int32_t kit_module_get_kernel(hal_module module, const char *name, hal_kernel *out_kernel);
int32_t kit_module_kernel_info(hal_kernel kernel, uint32_t key, int64_t *out_value);

int32_t kit_launch_launch(hal_stream stream, hal_kernel kernel, const hal_launch_desc *desc);

int32_t kit_operator_enumerate(hal_device device, uint32_t index, hal_operator_info *out_info);
int32_t kit_operator_supports(hal_device device, const hal_operator_desc *desc,
                              uint64_t *out_workspace_bytes);
int32_t kit_operator_run(hal_stream stream, const hal_operator_desc *desc,
                         const hal_memory_ref *workspace);

int32_t kit_collective_unique_id(hal_unique_id *out_id);
int32_t kit_collective_comm_create(hal_device device, const hal_comm_desc *desc,
                                   hal_comm *out_comm);
int32_t kit_collective_comm_destroy(hal_comm comm);
int32_t kit_collective_all_reduce(hal_comm comm, hal_stream stream,
                                  const hal_collective_desc *desc);
int32_t kit_collective_all_gather(hal_comm comm, hal_stream stream,
                                  const hal_collective_desc *desc);
int32_t kit_collective_reduce_scatter(hal_comm comm, hal_stream stream,
                                      const hal_collective_desc *desc);
int32_t kit_collective_broadcast(hal_comm comm, hal_stream stream, const hal_collective_desc *desc);
int32_t kit_collective_send(hal_comm comm, hal_stream stream, const hal_collective_desc *desc);
int32_t kit_collective_recv(hal_comm comm, hal_stream stream, const hal_collective_desc *desc);
int32_t kit_collective_group_begin(void);
int32_t kit_collective_group_end(void);
int32_t kit_collective_abort(hal_comm comm);
int32_t kit_collective_async_error(hal_comm comm, int32_t *out_status);

int32_t kit_profile_clock(hal_device device, hal_clock *out_clock);
int32_t kit_profile_start(hal_device device, uint32_t mask);
int32_t kit_profile_stop(hal_device device);
int32_t kit_profile_drain(hal_device device, uint64_t capacity, hal_profile_record *out_records,
                          uint64_t *out_count, uint64_t *out_dropped);

#ifdef __cplusplus
}
#endif

#endif  // KIT_KIT_H_
