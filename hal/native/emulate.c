// The emulate layer as a whole: its life, the streams that it knows, and the calls that pass.
#include "emulate_layer.h"

#include <stdlib.h>

#include "emulation.h"

enum { GRAPH_KIND = 0xE1, RANK_KIND = 0xE2 };

void hal_lanes_end(hal_emulation *emulation);  // lanes.c

// ---- Calls that pass, unless a graph is recorded or a buffer is dead ----

static int is_watching(const hal_emulation *emulation) {
  return atomic_load_explicit(&emulation->watch, memory_order_relaxed) != 0;
}

static int32_t copy(hal_layer *self, hal_stream stream, const hal_copy_desc *desc) {
  int32_t status = HAL_OK;
  if (is_watching(self->state) && hal_capture_copy(self->state, stream, desc, &status)) {
    return status;
  }
  return self->next->calls->transfer_copy(self->next, stream, desc);
}

static int32_t fill(hal_layer *self, hal_stream stream, const hal_memory_ref *target,
                    const void *pattern, uint32_t pattern_bytes) {
  int32_t status = HAL_OK;
  if (is_watching(self->state) &&
      hal_capture_fill(self->state, stream, target, pattern, pattern_bytes, &status)) {
    return status;
  }
  return self->next->calls->transfer_fill(self->next, stream, target, pattern, pattern_bytes);
}

static int32_t launch(hal_layer *self, hal_stream stream, hal_kernel kernel,
                      const hal_launch_desc *desc) {
  int32_t status = HAL_OK;
  if (is_watching(self->state) && hal_capture_launch(self->state, stream, kernel, desc, &status)) {
    return status;
  }
  return self->next->calls->launch_launch(self->next, stream, kernel, desc);
}

static int32_t query(hal_layer *self, hal_stream stream) {
  const int32_t status = hal_capture_refuse(self->state, stream, "stream.query");
  return status == HAL_OK ? self->next->calls->stream_query(self->next, stream) : status;
}

static int32_t synchronize(hal_layer *self, hal_stream stream, uint64_t timeout_ns) {
  const int32_t status = hal_capture_refuse(self->state, stream, "stream.synchronize");
  if (status != HAL_OK) return status;
  return self->next->calls->stream_synchronize(self->next, stream, timeout_ns);
}

static int32_t wait_event(hal_layer *self, hal_stream stream, hal_event event) {
  const int32_t status = hal_capture_refuse(self->state, stream, "stream.wait_event");
  return status == HAL_OK ? self->next->calls->stream_wait_event(self->next, stream, event)
                          : status;
}

static int32_t record(hal_layer *self, hal_event event, hal_stream stream) {
  const int32_t status = hal_capture_refuse(self->state, stream, "event.record");
  return status == HAL_OK ? self->next->calls->event_record(self->next, event, stream) : status;
}

static int32_t operator_run(hal_layer *self, hal_stream stream, const hal_operator_desc *desc,
                            const hal_memory_ref *workspace) {
  const int32_t status = hal_capture_refuse(self->state, stream, "operator.run");
  if (status != HAL_OK) return status;
  return self->next->calls->operator_run(self->next, stream, desc, workspace);
}

// ---- Streams and devices ----

static int32_t add_stream(hal_emulation *emulation, hal_device device, hal_stream stream,
                          hal_stream *out_stream) {
  pthread_mutex_lock(&emulation->lock);
  hal_map_remove(&emulation->streams, stream);
  const int added = hal_map_add(&emulation->streams, stream, (void *)(uintptr_t)device);
  pthread_mutex_unlock(&emulation->lock);
  if (!added) {
    emulation->next->calls->stream_destroy(emulation->next, stream);
    return hal_record(emulation->port, HAL_ERROR_OUT_OF_MEMORY, "no host memory");
  }
  *out_stream = stream;
  return HAL_OK;
}

static int32_t stream_create(hal_layer *self, hal_device device, uint32_t flags,
                             hal_stream *out_stream) {
  hal_stream stream = 0;
  const int32_t status = self->next->calls->stream_create(self->next, device, flags, &stream);
  if (status != HAL_OK) return status;
  // A port that hands out nothing is passed on as it is.
  return stream == 0 ? status : add_stream(self->state, device, stream, out_stream);
}

static int32_t stream_wrap(hal_layer *self, hal_device device, uint64_t native,
                           hal_stream *out_stream) {
  hal_stream stream = 0;
  const int32_t status = self->next->calls->stream_wrap(self->next, device, native, &stream);
  if (status != HAL_OK) return status;
  return stream == 0 ? status : add_stream(self->state, device, stream, out_stream);
}

static int32_t stream_destroy(hal_layer *self, hal_stream stream) {
  hal_emulation *emulation = self->state;
  const int32_t status = self->next->calls->stream_destroy(self->next, stream);
  if (status != HAL_OK) return status;
  hal_capture_drop(emulation, stream);
  hal_lane_leave(emulation, hal_lane_of_stream(stream));
  pthread_mutex_lock(&emulation->lock);
  hal_map_remove(&emulation->streams, stream);
  pthread_mutex_unlock(&emulation->lock);
  return status;
}

// Forgets what belongs to a device; 0 forgets all.
static void forget(hal_emulation *emulation, hal_device device) {
  hal_graphs_drop(emulation, device);
  hal_ranks_drop(emulation, device);
  hal_registrations_drop(emulation, device);
  pthread_mutex_lock(&emulation->lock);
  for (uint32_t i = 0; emulation->streams.entries != NULL && i <= emulation->streams.mask;) {
    const hal_map_entry entry = emulation->streams.entries[i];
    const int is_gone =
        entry.key != 0 && (device == 0 || (hal_device)(uintptr_t)entry.value == device);
    // A removal may move another entry to this place: look at it again.
    if (is_gone) {
      hal_map_remove(&emulation->streams, entry.key);
    } else {
      ++i;
    }
  }
  if (device == 0) {
    hal_map_free(&emulation->helpers);
  } else {
    hal_map_remove(&emulation->helpers, device);
  }
  pthread_mutex_unlock(&emulation->lock);
}

// Waits for host work of a device, or of all for 0. Gives the time that is left.
static int32_t settle(hal_emulation *emulation, hal_device device, uint64_t *timeout_ns) {
  const uint64_t deadline_ns = hal_deadline_ns(*timeout_ns);
  if (hal_emulation_settle(emulation, device, deadline_ns) != HAL_OK) {
    return hal_record(emulation->port, HAL_ERROR_TIMEOUT, "host work still waits after %llu ns",
                      (unsigned long long)*timeout_ns);
  }
  const uint64_t now_ns = hal_now_ns();
  *timeout_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
  return HAL_OK;
}

static int32_t device_close(hal_layer *self, hal_device device, uint64_t timeout_ns) {
  int32_t status = settle(self->state, device, &timeout_ns);
  if (status != HAL_OK) return status;
  status = self->next->calls->device_close(self->next, device, timeout_ns);
  if (status == HAL_OK) forget(self->state, device);
  return status;
}

static int32_t device_reset(hal_layer *self, hal_device device) {
  const int32_t status = self->next->calls->device_reset(self->next, device);
  if (status == HAL_OK) forget(self->state, device);
  return status;
}

static int32_t port_shutdown(hal_layer *self, uint64_t timeout_ns) {
  int32_t status = settle(self->state, 0, &timeout_ns);
  if (status != HAL_OK) return status;
  status = self->next->calls->port_shutdown(self->next, timeout_ns);
  if (status == HAL_OK) forget(self->state, 0);
  return status;
}

// ---- The layer ----

static void take_passing_calls(hal_calls *calls) {
  calls->transfer_copy = copy;
  calls->transfer_fill = fill;
  calls->launch_launch = launch;
  calls->stream_query = query;
  calls->stream_synchronize = synchronize;
  calls->stream_wait_event = wait_event;
  calls->event_record = record;
  calls->operator_run = operator_run;
  calls->stream_create = stream_create;
  calls->stream_wrap = stream_wrap;
  calls->stream_destroy = stream_destroy;
  calls->device_close = device_close;
  calls->device_reset = device_reset;
  calls->port_shutdown = port_shutdown;
}

hal_emulation *hal_emulation_create(hal_port *port, hal_layer *next) {
  hal_emulation *emulation = calloc(1, sizeof(*emulation));
  if (emulation == NULL) return NULL;
  emulation->calls = hal_forward_calls;
  emulation->port = port;
  emulation->next = next;
  emulation->graphs.kind = GRAPH_KIND;
  emulation->ranks.kind = RANK_KIND;
  pthread_mutex_init(&emulation->lock, NULL);
  pthread_mutex_init(&emulation->lane_lock, NULL);
  pthread_cond_init(&emulation->lane_changed, NULL);
  take_passing_calls(&emulation->calls);
  hal_emulate_kept(emulation);
  hal_emulate_host_call(emulation);
  hal_emulate_copy_2d(emulation);
  hal_emulate_peer(emulation);
  hal_emulate_register(emulation);
  hal_emulate_graph(emulation);
  hal_emulate_collective(emulation);
  return emulation;
}

static void free_kept(hal_map *kept) {
  for (uint32_t i = 0; kept->entries != NULL && i <= kept->mask; ++i) {
    if (kept->entries[i].key != 0) free(kept->entries[i].value);
  }
  hal_map_free(kept);
}

void hal_emulation_destroy(hal_emulation *emulation) {
  if (emulation == NULL) return;
  hal_lanes_end(emulation);
  forget(emulation, 0);
  hal_map_free(&emulation->streams);
  hal_map_free(&emulation->captures);
  hal_map_free(&emulation->own_comms);
  free_kept(&emulation->kept);
  free(emulation->graphs.slots);
  free(emulation->ranks.slots);
  pthread_mutex_destroy(&emulation->lock);
  pthread_mutex_destroy(&emulation->lane_lock);
  pthread_cond_destroy(&emulation->lane_changed);
  free(emulation);
}

const hal_calls *hal_emulation_calls(const hal_emulation *emulation) {
  return &emulation->calls;
}

int hal_emulation_has(const hal_emulation *emulation, uint32_t function) {
  return emulation != NULL && function < HAL_FUNCTION_COUNT && emulation->does[function];
}
