// libhal: opens ports and adds what is written once for all of them.
//
// A program links libhal, opens a port by the path of its shared object and calls the functions of
// hal/calls.h with it. On top of the port's own functions libhal offers module images with checked
// launches (hal_image, hal_plan), a stream-ordered caching allocator (hal_pool) and copies between
// ports (hal_bridge_copy).
//
// Errors of a port's functions are statuses; hal_port_last_error has the text, also for functions
// of this header that take or hold a port. Functions that open or read something answer with a
// reason: a text that they write to `reason`, cut at `capacity` bytes, NUL-terminated.
//
// Threads: what is said of a function's object holds here as in hal/hal.h. Where nothing is said,
// any thread may call at any time.
#ifndef HAL_LOADER_H_
#define HAL_LOADER_H_

#include "hal/calls.h"

#ifdef __cplusplus
extern "C" {
#endif

// The parts between these marks are what cffi reads: see hal/native/loader_cdef.py.
// [cffi

// ---- Ports ----

// Layers that libhal puts above a port; the highest is called first.
#define HAL_LAYER_TRACE 1     // Writes a line for each call.
#define HAL_LAYER_VALIDATE 2  // Checks arguments: the rules that the host answers for.
#define HAL_LAYER_EMULATE 4   // Does by other means what the port lacks.
#define HAL_LAYER_MUTATE 8    // Breaks one rule on purpose; for tests of tests.
#define HAL_LAYER_DEFAULT 6   // Validate and emulate.

// Flags of hal_port_open.
#define HAL_OPEN_NO_INIT 1  // The caller calls port.init and port.shutdown itself.

// How a function is offered.
#define HAL_CAPABILITY_NONE 0      // It answers UNSUPPORTED.
#define HAL_CAPABILITY_NATIVE 1    // The port has it.
#define HAL_CAPABILITY_EMULATED 2  // libhal does it by other means.

// Takes one line of the trace layer: a JSON object without a line end, valid during the call. It
// may come from any thread.
typedef void (*hal_trace_fn)(void *user, const char *line);

// How to open a port. Texts are copied.
typedef struct hal_open_desc {
  // sizeof(hal_open_desc) in the caller's build.
  uint64_t size;
  // Bits of HAL_LAYER_*.
  uint32_t layers;
  // Bits of HAL_OPEN_*.
  uint32_t flags;
  // The chip's resolved HCD in flat form; NULL leaves it to the port.
  const char *hcd_text;
  // Length of hcd_text.
  uint64_t hcd_bytes;
  // Lines key=value for the port; NULL when there are none.
  const char *options;
  // Where the port's log lines go; NULL drops them.
  hal_log_fn log;
  // First argument of log.
  void *log_user;
  // Where the trace layer's lines go; needed with HAL_LAYER_TRACE.
  hal_trace_fn trace;
  // First argument of trace.
  void *trace_user;
  // Id of the rule that the mutate layer breaks; needed with HAL_LAYER_MUTATE.
  const char *break_rule;
  // Id of a host rule that the validate layer leaves out; NULL checks all.
  const char *skip_rule;
} hal_open_desc;

// Opens the port in a shared object: loads it, shakes hands, builds the layers, starts the port.
//   path (in): the shared object. It is never unloaded again.
//   desc (in): how; NULL takes the default layers and nothing else.
//   out_port (out, owner: caller): ends with hal_port_close.
//   reason (out): why it failed; untouched on success. NULL when capacity is 0.
// Opening one file again with the same HCD and options shares the running port; with others it
// loads a second copy of the file, which knows nothing of the first.
// NOT_FOUND: no such file. INVALID_VALUE: the file is no shared object for this machine, or an
// argument is wrong. VERSION: the port speaks another major. INTERNAL: the port breaks the rules
// of the handshake. INVALID_STATE: the port was started before this process was forked.
// Else: what port.init answered.
HAL_API int32_t hal_port_open(const char *path, const hal_open_desc *desc, hal_port **out_port,
                              char *reason, uint64_t capacity);

// cffi]

// The same for a port that is linked into the program: `entry` is its hal_port_entry.
HAL_API int32_t hal_port_open_entry(hal_port_entry_fn entry, const hal_open_desc *desc,
                                    hal_port **out_port, char *reason, uint64_t capacity);

// [cffi

// Closes a port object; the last one of a running port shuts that down, whoever started it. Pools
// and plans on it end first. Calls with a closed port answer INVALID_STATE.
//   timeout_ns (in): how long to wait for running work. After TIMEOUT the port is still open.
// No other call with the port may be running.
HAL_API int32_t hal_port_close(hal_port *port, uint64_t timeout_ns);

// Returns the port's own tables, below all layers; NULL for a NULL port. They live until the
// process ends.
HAL_API const hal_port_root *hal_port_raw(const hal_port *port);

// Returns the path that the port was opened with; "" for one that is linked in.
HAL_API const char *hal_port_path(const hal_port *port);

// Returns the port's layers: bits of HAL_LAYER_*.
HAL_API uint32_t hal_port_layers(const hal_port *port);

// Tells how a function is offered through the port's layers.
//   call (in): "interface.verb", as "transfer.copy_2d".
//   out_capability (out): one of HAL_CAPABILITY_*.
// NOT_FOUND: the ABI has no such function.
HAL_API int32_t hal_port_capability(const hal_port *port, const char *call,
                                    int32_t *out_capability);

// Returns the name of a status, as "OUT_OF_RANGE"; never NULL.
HAL_API const char *hal_status_text(int32_t status);

// Copies between devices of two ports, through host memory, in the order of both streams: it starts
// after earlier work of both, and later work of both starts after it.
//   source_stream (in): a stream of the source's device; serialised by the caller.
//   target_stream (in): a stream of the target's device; serialised by the caller.
//   source, target (in): ranges of one length.
// The record of an error is with the port that refused: `target_port` unless the source is at
// fault.
HAL_API int32_t hal_bridge_copy(hal_port *source_port, hal_stream source_stream,
                                const hal_memory_ref *source, hal_port *target_port,
                                hal_stream target_stream, const hal_memory_ref *target);

// ---- Module images ----

// The signature of a module image, whatever its format. It does not change after it was read.
typedef struct hal_image hal_image;

// Kinds of an image.
#define HAL_IMAGE_VIL 1       // A VIL module.
#define HAL_IMAGE_ENVELOPE 2  // Another format in the envelope that carries a signature.

// Kinds of a kernel's argument in the signature.
#define HAL_SIGNATURE_BUFFER 1
#define HAL_SIGNATURE_SCALAR 2
#define HAL_SIGNATURE_SYMBOL 3

// How a kernel uses a buffer.
#define HAL_ACCESS_READ 1
#define HAL_ACCESS_WRITE 2
#define HAL_ACCESS_INOUT 3

// Stands for "no index".
#define HAL_INDEX_NONE 0xFFFFFFFFu

// What an image is.
typedef struct hal_image_facts {
  // sizeof(hal_image_facts) in the caller's build.
  uint64_t size;
  // One of HAL_IMAGE_*.
  uint32_t kind;
  // Kernels in the signature.
  uint32_t kernel_count;
  // Feature bits of a VIL module; 0 in an envelope.
  uint64_t features;
  // Programs of a VIL module; 0 in an envelope.
  uint32_t program_count;
  uint32_t reserved;
  // The format's name, as "vil.v1" or "source.opencl"; lives as long as the image.
  const char *format;
} hal_image_facts;

// What a kernel takes.
typedef struct hal_kernel_facts {
  // sizeof(hal_kernel_facts) in the caller's build.
  uint64_t size;
  // The kernel's name; lives as long as the image.
  const char *name;
  // Arguments of its signature.
  uint32_t argument_count;
  // Workspaces; hal_plan_launch supplies them.
  uint32_t workspace_count;
  // Launches of its plan.
  uint32_t launch_count;
  // 1 when a launch takes the caller's grid.
  uint32_t takes_grid;
} hal_kernel_facts;

// One argument of a kernel.
typedef struct hal_parameter_facts {
  // sizeof(hal_parameter_facts) in the caller's build.
  uint64_t size;
  // The argument's name; lives as long as the image.
  const char *name;
  // One of HAL_SIGNATURE_*.
  uint32_t kind;
  // One of HAL_DTYPE_*: of the elements, of the scalar, or I64.
  uint32_t dtype;
  // One of HAL_ACCESS_* for a buffer, else 0.
  uint32_t access;
  // The earlier buffer argument that this one may be equal to, or HAL_INDEX_NONE.
  uint32_t alias;
  // HAL_ARGUMENT_* that a launch must give.
  uint32_t argument_kind;
  uint32_t reserved;
} hal_parameter_facts;

// Reads an image's signature. The bytes are not used after the call.
//   out_image (out, owner: caller): ends with hal_image_free.
//   reason (out): why it was refused, with the offset of the bad byte.
// INVALID_MODULE: the bytes are no image or are damaged. OUT_OF_MEMORY.
HAL_API int32_t hal_image_read(const void *bytes, uint64_t byte_count, hal_image **out_image,
                               char *reason, uint64_t capacity);
// Ends an image; NULL does nothing. Plans made of it live on.
HAL_API void hal_image_free(hal_image *image);
HAL_API int32_t hal_image_info(const hal_image *image, hal_image_facts *out_facts);
// OUT_OF_RANGE: no such kernel.
HAL_API int32_t hal_image_kernel(const hal_image *image, uint32_t kernel,
                                 hal_kernel_facts *out_facts);
// OUT_OF_RANGE: no such kernel or argument.
HAL_API int32_t hal_image_parameter(const hal_image *image, uint32_t kernel, uint32_t parameter,
                                    hal_parameter_facts *out_facts);
// Finds a kernel by its name. NOT_FOUND: the image has none of that name.
HAL_API int32_t hal_image_find(const hal_image *image, const char *name, uint32_t *out_kernel);

// Computes what a launch with these arguments needs, and checks them: count, kinds, ranges,
// overlap.
//   out_required_bytes (out): per argument the bytes that a buffer must have, else 0; NULL allowed.
//   out_workspace_bytes (out): the workspace block's length; NULL allowed.
//   reason (out): which argument was refused and why.
// INVALID_VALUE: count, kind, misaligned offset, overlap, or an expression that has no value.
// OUT_OF_RANGE: a buffer is smaller than required.
HAL_API int32_t hal_image_check(const hal_image *image, uint32_t kernel,
                                const hal_argument *arguments, uint32_t argument_count,
                                uint64_t *out_required_bytes, uint64_t *out_workspace_bytes,
                                char *reason, uint64_t capacity);

// ---- The caching allocator ----

// Device memory that is kept and given again, in stream order. Any thread may use it.
typedef struct hal_pool hal_pool;

// How a pool behaves.
typedef struct hal_pool_desc {
  // sizeof(hal_pool_desc) in the caller's build.
  uint64_t size;
  // Largest sum of memory to take from the device; 0 sets no limit.
  uint64_t limit_bytes;
  // Alignment of each range; a power of two, 0 takes 256.
  uint64_t alignment_bytes;
} hal_pool_desc;

// A pool in figures.
typedef struct hal_pool_stats {
  // sizeof(hal_pool_stats) in the caller's build.
  uint64_t size;
  // In ranges that are given out, rounded up to their blocks.
  uint64_t allocated_bytes;
  // Taken from the device.
  uint64_t reserved_bytes;
  // Highest allocated_bytes so far.
  uint64_t peak_bytes;
  // Ranges given out now.
  uint64_t live_count;
  // Requests served without the device.
  uint64_t hit_count;
  // Requests that took memory from the device.
  uint64_t miss_count;
  // Length of the largest free block.
  uint64_t largest_free_bytes;
} hal_pool_stats;

// Makes a pool on a device; it ends before the device is closed. NULL desc takes the defaults.
HAL_API int32_t hal_pool_create(hal_port *port, hal_device device, const hal_pool_desc *desc,
                                hal_pool **out_pool);
// Ends a pool and gives its memory back; ranges still given out are dead too. NULL does nothing.
// No other call with the pool may be running.
HAL_API int32_t hal_pool_destroy(hal_pool *pool);

// Gives out a range for work on a stream. It never waits for the device.
//   stream (in): the stream that uses the range first; 0 takes only ranges that no work uses.
//   bytes (in): at least 1.
//   out_ref (out): the range, `bytes` long.
// OUT_OF_MEMORY: also after unused memory went back to the device; the text names the largest
// free block.
HAL_API int32_t hal_pool_alloc(hal_pool *pool, hal_stream stream, uint64_t bytes,
                               hal_memory_ref *out_ref);
// Takes a range back. Work enqueued earlier on `stream` still sees it.
//   stream (in): the stream that used it last, serialised by the caller; 0 when no work uses it any
//     more. A range that two streams used: the caller makes one wait for the other first.
// INVALID_HANDLE: the pool did not give this range or it was freed.
HAL_API int32_t hal_pool_free(hal_pool *pool, hal_stream stream, const hal_memory_ref *ref);
// Forgets a stream that is about to be destroyed; its free ranges serve all streams once its work
// has finished.
HAL_API int32_t hal_pool_forget_stream(hal_pool *pool, hal_stream stream);
// Gives unused memory back to the device until at most keep_bytes are reserved.
//   out_released_bytes (out): how much; NULL allowed.
HAL_API int32_t hal_pool_trim(hal_pool *pool, uint64_t keep_bytes, uint64_t *out_released_bytes);
// Reads the figures; the caller sets out_stats->size.
HAL_API int32_t hal_pool_stats_read(hal_pool *pool, hal_pool_stats *out_stats);

// ---- Checked launches ----

// A kernel of a loaded module together with its signature.
typedef struct hal_plan hal_plan;

// Joins a loaded kernel and its signature.
//   kernel (in): from module.get_kernel.
//   image, index (in): the image that the module was loaded from and the kernel's place in it.
//   pool (in): where workspaces come from; it outlives the plan. NULL when there are none.
//   out_plan (out, owner: caller): ends with hal_plan_free; the image may end before.
// INVALID_VALUE: the kernel has workspaces and there is no pool.
HAL_API int32_t hal_plan_create(hal_port *port, hal_kernel kernel, const hal_image *image,
                                uint32_t index, hal_pool *pool, hal_plan **out_plan);
// Ends a plan; NULL does nothing. Work enqueued with it goes on.
HAL_API void hal_plan_free(hal_plan *plan);
// Checks the arguments (see hal_image_check), takes the workspace and enqueues the kernel's whole
// plan as one operation. Different streams may launch one plan at the same time.
//   arguments (in): in the signature's order, without the workspace; read during the call.
//   grid (in): three lengths for kernels that take the caller's grid; NULL stands for 1, 1, 1.
HAL_API int32_t hal_plan_launch(hal_plan *plan, hal_stream stream, const hal_argument *arguments,
                                uint32_t argument_count, const uint32_t *grid);
// Replaces the arguments of a launch that was recorded with this plan: graph.update_arguments with
// the same checks, and a workspace that fits the new arguments.
HAL_API int32_t hal_plan_update(hal_plan *plan, hal_graph graph, uint32_t node,
                                const hal_argument *arguments, uint32_t argument_count);

// cffi]

#ifdef __cplusplus
}
#endif

#endif  // HAL_LOADER_H_
