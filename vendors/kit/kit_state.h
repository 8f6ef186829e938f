// The inside of the kit: objects behind the handles. Ports include kit.h only.
//
// Life of an object: kit_handle_create gives it a handle and the table's reference; kit_acquire
// takes one more by handle; kit_retire kills the handle and drops the table's reference. The last
// kit_release calls the object's `finish`, which frees it. So queued operations keep what they use,
// and a stale handle is refused, never followed.
#ifndef KIT_STATE_H_
#define KIT_STATE_H_

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "kit.h"

// Whether a descriptor of the caller's size has a field.
#define KIT_HAS(desc, field) \
  ((desc)->size >= (uint64_t)((const char *)(&(desc)->field + 1) - (const char *)(desc)))
#define KIT_FOREVER UINT64_MAX

typedef enum kit_kind {
  KIT_KIND_DEVICE = 1,
  KIT_KIND_MEMORY,
  KIT_KIND_STREAM,
  KIT_KIND_EVENT,
  KIT_KIND_MODULE,
  KIT_KIND_KERNEL,
  KIT_KIND_COMM,
} kit_kind;

// A switch that is swapped. It is no bool: not every machine swaps single bytes without a library.
typedef _Atomic uint32_t kit_switch;

typedef struct kit_object {
  uint64_t handle;
  struct kit_slot *slot;
  kit_device *device;  // Holds a reference on it; NULL in a device.
  void (*finish)(struct kit_object *object);
} kit_object;

// ---- handles.c ----
// Gives `object` a handle; the caller has set finish and device. 0 when the table is full.
uint64_t kit_handle_create(kit_object *object, kit_kind kind, kit_device *device);
void *kit_acquire(uint64_t handle, kit_kind kind);  // NULL, and the error record, when refused.
void kit_retain(void *object);
void kit_release(void *object);
bool kit_retire(void *object);  // False when another thread was first.
// Calls `visit` on every live object of a device (NULL: every live device).
void kit_handles_each(const kit_device *device, void (*visit)(kit_object *object));
kit_kind kit_object_kind(const kit_object *object);
void kit_handles_salt(const char *name);

// ---- error.c ----
int32_t kit_fail_operation(int32_t status, uint64_t operation_id, const char *text);
int32_t kit_error_status(void);  // Of the calling thread's error record.
void kit_error_save(hal_error *out_saved);
void kit_error_restore(const hal_error *saved);
void kit_error_read(hal_error *out_error);
// Copies what the caller's size has room for, all but the size itself.
void kit_write_out(void *out, const void *ours, uint64_t bytes);
int32_t kit_write_text(const char *text, uint64_t capacity, char *out_text, uint64_t *out_bytes);

// ---- wait.c ----
// Waits until ready(context) or the deadline (KIT_FOREVER: none); tells whether it is ready.
bool kit_wait(bool (*ready)(void *context), void *context, const void *key, uint64_t deadline_ns);
bool kit_spin(bool (*ready)(void *context), void *context);  // The short first part of kit_wait.
bool kit_sleep(bool (*ready)(void *context), void *context, const void *key, uint64_t deadline_ns);
long kit_processors(void);
void kit_wake(const void *key);  // After what `ready` reads was stored (sequentially consistent).
uint64_t kit_deadline(uint64_t timeout_ns);

// ---- point.c ----
// What an event completes: a place in a stream's order, or the host's signal.
struct kit_point {
  _Atomic uint32_t references;
  _Atomic uint32_t done;  // 0 pending, 1 seen by streams, 2 seen by the host.
  int32_t status;         // These four are set before `done`.
  uint64_t operation_id;
  uint64_t stamp_ns;
  _Atomic uint64_t
      planned_ns;  // Virtual clock: 1 + the time that the record will have; 0: unknown.
  char *text;
  uint64_t stream, place_id;  // Whose operation completes it: handle and number; 0 for the host.
};
kit_point *kit_point_create(void);
void kit_point_retain(kit_point *point);
void kit_point_release(kit_point *point);
void kit_point_complete(kit_point *point, int32_t status, uint64_t operation_id, const char *text,
                        uint64_t stamp_ns);
void kit_point_publish(kit_point *point);  // Step 2: after the stream counts the record.

typedef struct kit_event {
  kit_object object;
  uint32_t flags;
  pthread_mutex_t lock;  // Guards point.
  kit_point *point;      // NULL: never recorded.
  bool signalled;
} kit_event;

// ---- device.c ----
typedef struct kit_chip {  // One per device index; the figures count all its opened handles.
  pthread_mutex_t lock;
  kit_device_facts facts;
  kit_hcd *hcd;  // With the overlay.
  vil_limits *limits;
  uint32_t grid_max[3];        // Programs of a launch along each axis.
  uint64_t scratch_max_bytes;  // Scratch that a launch may ask for.
  uint64_t in_use_bytes, peak_bytes, reserved_bytes;
} kit_chip;

typedef struct kit_profile {
  pthread_mutex_t lock;
  _Atomic uint32_t mask;  // 0: not started.
  hal_profile_record *records;
  uint64_t first, count, dropped;
} kit_profile;

struct kit_device {
  kit_object object;
  uint32_t index;
  kit_chip *chip;
  _Atomic bool lost;
  pthread_mutex_t lock;  // Guards streams and pinned.
  kit_stream *streams;   // Linked through next; streams that drain after destroy too.
  struct kit_pinned *pinned;
  _Atomic uint64_t workers;    // Threads that have not ended.
  _Atomic uint64_t seen_ns;    // Virtual clock: what the host has waited for.
  _Atomic uint64_t latest_ns;  // Virtual clock: latest end of any operation.
  kit_profile profile;
};
int32_t kit_device_drain(kit_device *device, uint64_t deadline_ns);

// ---- device_state.c ----
// What a hook has answered, given back; DEVICE_LOST loses the device: later calls fail.
int32_t kit_device_answer(kit_device *device, int32_t status);
int32_t kit_device_check(const kit_device *device);  // HAL_OK, or it fails with DEVICE_LOST.

// ---- clock.c ----
uint64_t kit_device_now(kit_device *device);
void kit_device_saw(kit_device *device, uint64_t stamp_ns);
void kit_raise(_Atomic uint64_t *value, uint64_t at_least);
// Times of a virtual clock.
bool kit_clock_is_virtual(void);
void kit_clock_enqueue(kit_stream *stream, kit_operation *operation);  // With the stream locked.
void kit_clock_finish(kit_stream *stream, kit_operation *operation, bool ran);

// ---- stream_list.c ----
void kit_stream_list(kit_stream *stream);
// Off its device's list, once it is closed and drained; drops the list's reference.
void kit_stream_unlist(kit_stream *stream);
// The streams of a device, live or draining, each with a reference. NULL without memory.
kit_stream **kit_device_streams(kit_device *device, size_t *out_count);
void kit_device_each_stream(kit_device *device, void (*visit)(kit_stream *stream));

// ---- records.c ----
enum { KIT_PROFILE_RECORDS = 65536 };  // Kept between two drains; further ones are dropped.
void kit_profile_keep(kit_device *device, uint64_t stream, uint32_t kind,
                      const kit_operation *operation);
void kit_profile_finish(kit_profile *profile);

struct kit_memory {
  kit_object object;
  uint64_t bytes, alignment_bytes;
  uint32_t flags;
  bool wrapped;  // The caller's memory: neither counted nor released.
  kit_allocation allocation;
};
// Checks a range and fills `out`, holding a reference on the buffer. `device` NULL takes any
// device.
int32_t kit_range_take(const hal_memory_ref *ref, const kit_device *device, const char *what,
                       kit_range *out);
void kit_range_drop(kit_range *range);

struct kit_kernel {
  kit_object object;
  struct kit_module *module;  // Holds a reference.
  const vil_kernel *vil;
};
typedef struct kit_module {
  kit_object object;
  vil_module *vil;
  void *port_data;  // What the hook module_open gave.
  uint32_t kernel_count;
  uint64_t *kernels;  // Handles, in the order of the image.
} kit_module;

// ---- places.c, queue.c ----
// A stream's queue is a list of chunks with a place for each operation. One producer (under the
// stream's lock) writes places and publishes them in `head`; one executor takes them in order.
enum { KIT_CHUNK_PLACES = 64, KIT_QUEUE_LIMIT = 65536 };
enum { KIT_KEEP_PROFILE = 1, KIT_KEEP_TIME = 2 };  // Bits of kit_operation.kept.

typedef struct kit_place {
  kit_operation operation;
  void *block;  // Storage of a launch; kept for the next one.
  uint64_t block_bytes;
} kit_place;
typedef struct kit_chunk {
  struct kit_chunk *_Atomic next;
  kit_place places[KIT_CHUNK_PLACES];
} kit_chunk;
typedef struct kit_cursor {  // Where a reader of the queue stands.
  kit_chunk *chunk;
  uint64_t number;  // Of the chunk.
} kit_cursor;

struct kit_stream {
  kit_object object;
  kit_stream *next;            // In the device's list.
  pthread_mutex_t lock;        // One enqueue at a time.
  _Atomic uint64_t enqueued;   // Operations taken: the id of the last one.
  _Atomic uint64_t completed;  // Id of the last finished operation.
  _Atomic uint64_t head;       // Places that the executor may take.
  _Atomic uint64_t left;       // Places that the executor has left.
  _Atomic bool closing;
  kit_switch claimed;      // A thread takes operations off the queue.
  _Atomic bool called;     // Somebody waits: the stream's thread shall look at once.
  kit_switch helped;       // A waiting thread has done operations, or could have.
  kit_switch deep;         // The stream's thread sleeps until it is woken.
  _Atomic int32_t failed;  // Status of the first failure; set after the three below.
  uint64_t failed_id;
  uint64_t failed_at_ns;
  char failed_text[512];
  _Atomic uint64_t now_ns;      // End of the last operation on the device's clock.
  _Atomic uint64_t planned_ns;  // Virtual clock: end of the last operation with a time,
  _Atomic uint64_t planned_id;  // and its number.
  uint64_t written;             // Places written; the producer's.
  bool has_thread;              // Guarded by lock: it is started when there is work for it.
  kit_cursor writer;
  kit_chunk *_Atomic spare;
  kit_place direct;    // Place of an operation that runs on the caller's thread.
  kit_cursor reader;   // The executor's: the operation to finish next.
  struct kit_native {  // The native executor's, guarded by `pumping`.
    kit_switch pumping;
    bool owns_queue, is_open;
    uint64_t queue;
    uint64_t submitted;   // Operations that the runtime's queue took.
    uint64_t sent, done;  // Places handed on, places finished.
    uint64_t risk;        // The operation that may fault is done when `done` reaches it.
    uint64_t end_ns;      // When the last operation of the queue ended; 0: unknown.
    uint64_t seen_ns;     // When the kit saw the last one end whose times are kept.
    kit_cursor sender;
  } native;
};

// Begins an enqueue: locks the stream and gives a cleared place. `direct`: an operation that
// ends at once may run on the caller's thread when the stream is idle.
// On failure the error record is set and nothing is locked.
int32_t kit_enqueue_begin(kit_stream *stream, bool direct, kit_place **out_place);
void *kit_place_block(kit_place *place, uint64_t bytes);        // Storage; NULL without memory.
int32_t kit_enqueue_end(kit_stream *stream, kit_place *place);  // Counts and publishes.
void kit_enqueue_cancel(kit_stream *stream, kit_place *place);  // Drops what the place holds.
bool kit_stream_is_idle(kit_stream *stream);
int32_t kit_stream_sticky(kit_stream *stream);  // 0, or the failure with its record copied.
int32_t kit_stream_drain(kit_stream *stream, uint64_t deadline_ns);  // HAL_OK or TIMEOUT.
int32_t kit_queue_create(kit_stream *stream);
void kit_queue_free(kit_stream *stream);
// The place with a number; moves the cursor on. `recycle` when no other cursor stands behind.
kit_place *kit_queue_at(kit_stream *stream, kit_cursor *cursor, uint64_t number, bool recycle);
void kit_queue_leave(kit_stream *stream);  // The executor is done with one more place.
void kit_queue_call(kit_stream *stream);   // Somebody waits for the work.
void kit_place_drop(kit_place *place);     // References and staged bytes of an operation.

// ---- operation.c ----
uint32_t kit_profile_kind(uint32_t kind);  // HAL_PROFILE_*; 0 for what no profile keeps.
void kit_execute(kit_stream *stream, kit_place *place);  // Does one operation to its end.
// Counts an operation as finished: failure, times, profile, point, references.
void kit_finish_operation(kit_stream *stream, kit_place *place, int32_t status, uint64_t failed_id,
                          const char *text);

// ---- queue_thread.c, queue_native.c ----
int32_t kit_thread_start(kit_stream *stream);
void kit_thread_notify(kit_stream *stream);  // There is new work.
// A thread that is about to wait for operation `id` does what it may of the queue itself, and wakes
// the stream's thread for the rest.
void kit_thread_help(kit_stream *stream, uint64_t id, uint64_t deadline_ns);
void kit_thread_help_point(const kit_point *point, uint64_t deadline_ns);
int32_t kit_native_start(kit_stream *stream, uint64_t native);
void kit_native_stop(kit_stream *stream);
void kit_native_pump(kit_stream *stream);
void kit_native_pump_all(void);  // Every stream of every device.
// As kit_wait, but moves native queues on while it waits.
bool kit_wait_pumping(bool (*ready)(void *context), void *context, const void *key,
                      uint64_t deadline_ns);

// ---- source.c ----
bool kit_source_can_fault(const kit_operation *operation);  // Of programs as text.

// ---- host_memory.c ----
// Opens a range's buffer for a running operation, or closes it again.
void kit_host_open(const kit_range *range, bool open);
uint64_t kit_host_physical_bytes(void);

// ---- host_run.c ----
void kit_host_stop(void);  // Ends the helper threads.

// ---- found.c ----
typedef struct kit_compiled kit_compiled;
typedef struct kit_found {  // A device that the port offered.
  char *name;
  void *data;
  uint64_t alignment_bytes;   // Of its facts.
  pthread_mutex_t lock;       // Guards what follows, of ports of a driver.
  struct kit_queue *service;  // For what belongs to no stream; NULL until it is needed.
  struct kit_anchor *anchor;  // The latest one.
  kit_compiled *kept;         // Programs.
} kit_found;
kit_found *kit_found_at(uint32_t index);  // NULL beyond the last one.
uint32_t kit_found_count(void);
int32_t kit_found_check(void);  // NOT_FOUND, with the reasons, when no device was offered.
kit_found *kit_found_take(uint32_t index);  // Out of the list.
void kit_found_free(kit_found *found);
void kit_found_reset(void);  // With none left.

// ---- driver.c, driver_program.c: ports of a driver (kit_driver.h) ----
void kit_driver_hooks(const struct kit_driver *driver, kit_hooks *hooks);
void kit_driver_forget(kit_found *found);  // Ends its queue and the programs that are kept.
void kit_compiled_release(kit_compiled *compiled);

// ---- meeting.c, comm.c: collectives of a driver's library (comm_state.h) ----
void kit_part_leave(struct kit_part *part);  // Its operation has ended, or never began.
void kit_comms_end(void);                    // At shutdown: those that still leave.

// ---- the_port.c, chip.c ----
const kit_port *kit_the_port(void);
const hal_port_root *kit_the_root(void);
void kit_port_is(const kit_port *port, const hal_port_root *root);
bool kit_is_native(void);  // Whether the runtime underneath has queues of its own.
bool kit_is_started(void);
void kit_set_started(bool now);
void kit_host_is(const hal_host *host);  // NULL: what it gave is forgotten.
void kit_host_describes(kit_hcd *hcd);   // Which is the kit's from now on.
kit_chip *kit_chip_at(uint32_t index);   // NULL beyond the count.
uint32_t kit_chip_count(void);
int32_t kit_chips_read(void);
void kit_chips_drop(void);
void kit_chips_end_offers(void);  // Of devices, by the port's start.

#endif  // KIT_STATE_H_
