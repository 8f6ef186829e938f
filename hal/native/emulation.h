// Inside the emulate layer: what its files share. Inside libhal only.
#ifndef HAL_NATIVE_EMULATION_H_
#define HAL_NATIVE_EMULATION_H_

#include <pthread.h>

#include "emulate_layer.h"
#include "map.h"

typedef struct hal_lane hal_lane;        // lanes.c
typedef struct hal_capture hal_capture;  // graph.c
typedef struct hal_graph_object hal_graph_object;
typedef struct hal_rank hal_rank;  // comm.c
typedef struct hal_registration hal_registration;

// Handles that the layer makes itself: a kind in the top bits, a generation, an index.
typedef struct hal_slot {
  void *object;  // NULL: free.
  uint32_t generation;
} hal_slot;

typedef struct hal_slots {
  hal_slot *slots;
  uint32_t count;
  uint32_t first_free;  // No slot before it is free.
  uint64_t kind;
} hal_slots;

struct hal_emulation {
  hal_calls calls;
  hal_port *port;
  hal_layer *next;
  hal_layer *self;  // The layer itself, once it is in the stack.
  unsigned char does[HAL_FUNCTION_COUNT];

  // Streams that record plus buffers that are dead but kept. While it is 0, calls pass at once.
  atomic_uint watch;
  // Buffers that graphs or copies keep.
  atomic_uint kept_count;

  pthread_mutex_t lock;  // Of all that follows. Never held while the port is called.
  hal_map streams;       // From a stream to its device.
  hal_map captures;      // From a stream to its hal_capture.
  hal_map kept;          // From a buffer to its hal_kept.
  hal_slots graphs;
  hal_slots ranks;
  hal_map helpers;    // From a device to the stream that copies for others.
  hal_map own_comms;  // From a communicator of the port to its rank and count of ranks.
  hal_registration *registrations;

  pthread_mutex_t lane_lock;  // Of the lanes and their queues.
  pthread_cond_t lane_changed;
  hal_lane *lanes;
  uint32_t job_count;  // Jobs that are not done.
  int is_ending;
};

// ---- known.c ----

// The device of a stream that was made through this port object; 0 when it is unknown.
hal_device hal_stream_device(hal_emulation *emulation, hal_stream stream);
// Refuses a handle that this port object does not know.
int32_t hal_refuse_handle(hal_emulation *emulation, const char *what, uint64_t handle);

// ---- range.c ----

// Length of a buffer, and its device when out_device is given.
int32_t hal_buffer_facts(hal_emulation *emulation, hal_memory memory, uint64_t *out_bytes,
                         hal_device *out_device);
// Checks that a range lies within its buffer.
int32_t hal_check_range(hal_emulation *emulation, const hal_memory_ref *ref, const char *what,
                        hal_device *out_device);

// ---- slots.c ----

// Adds an object and returns its handle; 0 without host memory. Caller holds the lock.
uint64_t hal_slot_add(hal_slots *slots, void *object);
// The object of a handle; NULL when there is none.
void *hal_slot_get(const hal_slots *slots, uint64_t handle);
// Makes a handle dead and returns its object.
void *hal_slot_remove(hal_slots *slots, uint64_t handle);
// Frees a slot by its place.
void hal_slot_clear(hal_slots *slots, uint32_t index);

// ---- kept.c ----

// Keeps a buffer alive: a free of it waits until as many releases. Returns 0 without host memory.
int hal_keep(hal_emulation *emulation, hal_memory memory);
void hal_release(hal_emulation *emulation, hal_memory memory);
// HAL_OK, or refuses a buffer whose handle is dead although it is kept.
int32_t hal_check_dead(hal_emulation *emulation, hal_memory memory);
int32_t hal_kept_free(hal_layer *self, hal_memory memory);

// ---- lanes.c ----

// Work on a lane. `reached` is HAL_OK, or the status with which the stream failed before. Returns
// the status that the stream goes on with.
typedef int32_t (*hal_job_fn)(void *user, int32_t reached);

// Names a lane: a stream's (no owner), or one of several lanes of an object.
typedef struct hal_lane_id {
  const void *owner;
  uint64_t number;
} hal_lane_id;

static inline hal_lane_id hal_lane_of_stream(hal_stream stream) {
  return (hal_lane_id){NULL, stream};
}

// Lanes are threads; each does its jobs in order. A job waits for an event, calls its function,
// then signals another event. Jobs of different lanes do not hold each other up.
//   id: names the lane; a lane starts with its first job.
//   device: whose events these are; its close waits for the job.
//   reached: complete when the job may start; destroyed by the lane. 0 starts at once.
//   gate: a HOST event that the lane signals and destroys; 0 when there is none.
int32_t hal_lane_add(hal_emulation *emulation, hal_lane_id id, hal_device device, hal_event reached,
                     hal_event gate, hal_job_fn function, void *user);
// Ends a lane once it is empty.
void hal_lane_leave(hal_emulation *emulation, hal_lane_id id);

// Makes work of the stream behind this call wait for a job that runs on the stream's lane when the
// stream gets here.
int32_t hal_lane_hold(hal_emulation *emulation, hal_stream stream, hal_job_fn function, void *user);
// Runs a job on the stream's lane when the stream gets here; the stream does not wait for it.
int32_t hal_lane_follow(hal_emulation *emulation, hal_stream stream, hal_job_fn function,
                        void *user);
// The two halves of hal_lane_hold for callers that enqueue something between them.
int32_t hal_lane_mark(hal_emulation *emulation, hal_stream stream, hal_event *out_reached);
int32_t hal_lane_gate(hal_emulation *emulation, hal_stream stream, hal_event *out_gate);
void hal_event_drop(hal_emulation *emulation, hal_event event);

// ---- graph.c ----

// While `watch` is not 0: records the call when its stream is recording. Returns 1 when the call is
// answered with *out_status, 0 when it goes on to the port.
int hal_capture_copy(hal_emulation *emulation, hal_stream stream, const hal_copy_desc *desc,
                     int32_t *out_status);
int hal_capture_fill(hal_emulation *emulation, hal_stream stream, const hal_memory_ref *target,
                     const void *pattern, uint32_t pattern_bytes, int32_t *out_status);
int hal_capture_launch(hal_emulation *emulation, hal_stream stream, hal_kernel kernel,
                       const hal_launch_desc *desc, int32_t *out_status);
// Refuses any other call on a stream that is recording, and voids its capture.
int32_t hal_capture_refuse(hal_emulation *emulation, hal_stream stream, const char *call);
// Drops the capture of a stream that is destroyed.
void hal_capture_drop(hal_emulation *emulation, hal_stream stream);
// Drops graphs and captures of a device that was closed; 0 drops all.
void hal_graphs_drop(hal_emulation *emulation, hal_device device);

// ---- comm.c ----

// Leaves the communicators of a device that was closed; 0 leaves all.
void hal_ranks_drop(hal_emulation *emulation, hal_device device);

// ---- Each subject puts its functions into the table ----

void hal_emulate_kept(hal_emulation *emulation);
void hal_emulate_host_call(hal_emulation *emulation);
void hal_emulate_copy_2d(hal_emulation *emulation);
void hal_emulate_peer(hal_emulation *emulation);
void hal_emulate_register(hal_emulation *emulation);
void hal_emulate_graph(hal_emulation *emulation);
void hal_emulate_collective(hal_emulation *emulation);
// Drops the registrations of a device that was closed; 0 drops all.
void hal_registrations_drop(hal_emulation *emulation, hal_device device);

// Whether the port has the function.
#define HAL_PORT_HAS(emulation, function) ((emulation)->port->entries.function != NULL)
// Takes a function over and says so.
#define HAL_TAKE_OVER(emulation, name, NAME, target) \
  ((emulation)->calls.name = (target), (emulation)->does[HAL_FUNCTION_##NAME] = 1)

#endif  // HAL_NATIVE_EMULATION_H_
