// Copies between two devices through host memory: transfer.copy_peer for ports that lack it,
// device.peer_info that says so, and copies between two ports.
#include <sched.h>
#include <string.h>

#include "emulation.h"

enum { HELPER_TIMEOUT_NS = 2000000000 };

// A copy on its way, shared by the jobs that take part in it.
typedef struct relay {
  hal_emulation *source_side, *target_side;  // NULL once the side needs its buffer no longer.
  hal_memory_ref source, target;
  hal_stream helper;         // The stream of the other device.
  hal_emulation *gate_side;  // Between two ports: the target's side,
  hal_event gate;            // its event that the bytes are in host memory,
  atomic_int is_open;        // and whether the event's signal has returned.
  unsigned char host[];
} relay;

// The stream that copies for others on a device; it is made on first use.
static int32_t helper_of(hal_emulation *emulation, hal_device device, hal_stream *out_stream) {
  pthread_mutex_lock(&emulation->lock);
  hal_stream stream = (hal_stream)(uintptr_t)hal_map_get(&emulation->helpers, device);
  pthread_mutex_unlock(&emulation->lock);
  if (stream == 0) {
    hal_layer *next = emulation->next;
    const int32_t status = next->calls->stream_create(next, device, 0, &stream);
    if (status != HAL_OK) return status;
    pthread_mutex_lock(&emulation->lock);
    void *other = hal_map_get(&emulation->helpers, device);
    const int is_kept =
        other == NULL && hal_map_add(&emulation->helpers, device, (void *)(uintptr_t)stream);
    pthread_mutex_unlock(&emulation->lock);
    if (!is_kept) {
      next->calls->stream_destroy(next, stream);
      if (other == NULL) {
        return hal_record(emulation->port, HAL_ERROR_OUT_OF_MEMORY, "no host memory");
      }
      stream = (hal_stream)(uintptr_t)other;
    }
  }
  *out_stream = stream;
  return HAL_OK;
}

static int32_t copy_host(hal_emulation *emulation, hal_stream stream, const hal_memory_ref *ref,
                         void *host, uint32_t kind) {
  const hal_copy_desc desc = {
      .size = sizeof(desc),
      .kind = kind,
      .flags = kind == HAL_COPY_HOST_TO_DEVICE ? HAL_COPY_FLAG_BORROW : 0,
      .source = kind == HAL_COPY_DEVICE_TO_HOST ? *ref : (hal_memory_ref){0},
      .target = kind == HAL_COPY_HOST_TO_DEVICE ? *ref : (hal_memory_ref){0},
      .host_source = host,
      .host_target = host};
  return emulation->next->calls->transfer_copy(emulation->next, stream, &desc);
}

// Copies on the helper stream and waits for it. A device that hangs keeps its lane, not the host.
static int32_t copy_with_helper(hal_emulation *emulation, hal_stream helper,
                                const hal_memory_ref *ref, void *host, uint32_t kind) {
  hal_layer *next = emulation->next;
  int32_t status = copy_host(emulation, helper, ref, host, kind);
  if (status != HAL_OK) return status;
  do {
    status = next->calls->stream_synchronize(next, helper, HELPER_TIMEOUT_NS);
    // TIMEOUT may also be what the stream failed with.
  } while (status == HAL_ERROR_TIMEOUT && next->calls->stream_query(next, helper) == HAL_NOT_READY);
  return status;
}

// A side needs its buffer no longer: the copy is done, or enqueued, and a port keeps the buffers of
// enqueued work itself. So a free behind the stream's end is never late.
static void release_source(relay *copy) {
  if (copy->source_side != NULL) hal_release(copy->source_side, copy->source.memory);
  copy->source_side = NULL;
}

static void release_target(relay *copy) {
  if (copy->target_side != NULL) hal_release(copy->target_side, copy->target.memory);
  copy->target_side = NULL;
}

static void end_relay(relay *copy) {
  release_source(copy);
  release_target(copy);
  free(copy);
}

static relay *begin_relay(hal_emulation *source_side, const hal_memory_ref *source,
                          hal_emulation *target_side, const hal_memory_ref *target) {
  relay *copy =
      source->bytes > SIZE_MAX - sizeof(relay) ? NULL : malloc(sizeof(relay) + source->bytes);
  if (copy == NULL) return NULL;
  memset(copy, 0, sizeof(*copy));
  copy->source_side = source_side;
  copy->target_side = target_side;
  copy->source = *source;
  copy->target = *target;
  if (!hal_keep(source_side, source->memory)) {
    free(copy);
    return NULL;
  }
  if (!hal_keep(target_side, target->memory)) {
    hal_release(source_side, source->memory);
    free(copy);
    return NULL;
  }
  return copy;
}

// The stream of the source reached this point: its bytes are in host memory. Ends the copy.
static int32_t write_target(void *user, int32_t reached) {
  relay *copy = user;
  if (reached == HAL_OK) {
    reached = copy_with_helper(copy->target_side, copy->helper, &copy->target, copy->host,
                               HAL_COPY_HOST_TO_DEVICE);
  }
  end_relay(copy);
  return reached;
}

// The stream of the target reached this point: fetches the bytes.
static int32_t read_source(void *user, int32_t reached) {
  relay *copy = user;
  if (reached == HAL_OK) {
    reached = copy_with_helper(copy->source_side, copy->helper, &copy->source, copy->host,
                               HAL_COPY_DEVICE_TO_HOST);
  }
  release_source(copy);
  return reached;
}

static int32_t finish(void *user, int32_t reached) {
  end_relay(user);
  return reached;
}

// `stream` belongs to the source's device.
static int32_t copy_from_here(hal_emulation *emulation, hal_stream stream, relay *copy) {
  int32_t status = copy_host(emulation, stream, &copy->source, copy->host, HAL_COPY_DEVICE_TO_HOST);
  if (status != HAL_OK) {
    end_relay(copy);
    return status;
  }
  release_source(copy);
  status = hal_lane_hold(emulation, stream, write_target, copy);
  // Without a lane the bytes may still be on their way to `copy`: it stays, the stream failed.
  return status;
}

// `stream` belongs to the target's device.
static int32_t copy_to_here(hal_emulation *emulation, hal_stream stream, relay *copy) {
  int32_t status = hal_lane_hold(emulation, stream, read_source, copy);
  if (status != HAL_OK) {
    end_relay(copy);
    return status;
  }
  status = copy_host(emulation, stream, &copy->target, copy->host, HAL_COPY_HOST_TO_DEVICE);
  release_target(copy);
  // A refused copy leaves `copy` to the job that is on its way.
  return status == HAL_OK ? hal_lane_follow(emulation, stream, finish, copy) : status;
}

static int32_t copy_on_device(hal_emulation *emulation, hal_stream stream,
                              const hal_memory_ref *source, const hal_memory_ref *target) {
  const hal_copy_desc desc = {.size = sizeof(desc),
                              .kind = HAL_COPY_DEVICE_TO_DEVICE,
                              .source = *source,
                              .target = *target};
  return emulation->next->calls->transfer_copy(emulation->next, stream, &desc);
}

static int32_t emulate(hal_emulation *emulation, hal_stream stream, const hal_memory_ref *source,
                       const hal_memory_ref *target) {
  hal_device source_device = 0, target_device = 0;
  int32_t status = hal_check_range(emulation, source, "source", &source_device);
  if (status == HAL_OK) status = hal_check_range(emulation, target, "target", &target_device);
  if (status != HAL_OK) return status;
  const hal_device device = hal_stream_device(emulation, stream);
  if (device == 0 || (device != source_device && device != target_device)) {
    return hal_refuse_handle(emulation, "stream of either device", stream);
  }
  if (source->bytes != target->bytes) {
    return hal_record(emulation->port, HAL_ERROR_INVALID_VALUE,
                      "the source has %llu bytes, the target %llu",
                      (unsigned long long)source->bytes, (unsigned long long)target->bytes);
  }
  if (source_device == target_device) return copy_on_device(emulation, stream, source, target);
  status = emulation->next->calls->stream_query(emulation->next, stream);
  if (status < 0 || source->bytes == 0) return status < 0 ? status : HAL_OK;
  relay *copy = begin_relay(emulation, source, emulation, target);
  if (copy == NULL) {
    return hal_record(emulation->port, HAL_ERROR_OUT_OF_MEMORY, "no host memory for %llu bytes",
                      (unsigned long long)source->bytes);
  }
  const int is_from_here = device == source_device;
  status = helper_of(emulation, is_from_here ? target_device : source_device, &copy->helper);
  if (status != HAL_OK) {
    end_relay(copy);
    return status;
  }
  return is_from_here ? copy_from_here(emulation, stream, copy)
                      : copy_to_here(emulation, stream, copy);
}

static int32_t take_copy_peer(hal_layer *self, hal_stream stream, const hal_memory_ref *source,
                              const hal_memory_ref *target) {
  hal_emulation *emulation = self->state;
  int32_t status = hal_capture_refuse(emulation, stream, "transfer.copy_peer");
  if (status == HAL_OK) status = hal_check_dead(emulation, source->memory);
  if (status == HAL_OK) status = hal_check_dead(emulation, target->memory);
  if (status != HAL_OK) return status;
  if (HAL_PORT_HAS(emulation, transfer_copy_peer)) {
    status = self->next->calls->transfer_copy_peer(self->next, stream, source, target);
    if (status != HAL_ERROR_UNSUPPORTED) return status;
  }
  return emulate(emulation, stream, source, target);
}

// Nothing is known of the way between the devices: copies go through host memory.
static int32_t take_peer_info(hal_layer *self, hal_device device, hal_device peer, uint32_t key,
                              int64_t *out_value) {
  hal_emulation *emulation = self->state;
  if (HAL_PORT_HAS(emulation, device_peer_info)) {
    const int32_t status =
        self->next->calls->device_peer_info(self->next, device, peer, key, out_value);
    if (status != HAL_ERROR_UNSUPPORTED) return status;
  }
  int64_t bytes = 0;
  hal_layer *next = self->next;
  int32_t status = next->calls->device_get_i64(next, device, "device.memory_bytes", &bytes);
  if (status != HAL_ERROR_INVALID_HANDLE) {
    status = next->calls->device_get_i64(next, peer, "device.memory_bytes", &bytes);
  }
  if (status == HAL_ERROR_INVALID_HANDLE) return status;
  if (key < HAL_PEER_ACCESS || key > HAL_PEER_LATENCY) {
    return hal_record(emulation->port, HAL_ERROR_NOT_FOUND, "no key %u; keys are %d to %d", key,
                      HAL_PEER_ACCESS, HAL_PEER_LATENCY);
  }
  *out_value = key == HAL_PEER_ACCESS && device == peer;
  return HAL_OK;
}

void hal_emulate_peer(hal_emulation *emulation) {
  HAL_TAKE_OVER(emulation, transfer_copy_peer, TRANSFER_COPY_PEER, take_copy_peer);
  HAL_TAKE_OVER(emulation, device_peer_info, DEVICE_PEER_INFO, take_peer_info);
}

// ---- Between two ports ----

// The bytes are in host memory: the target's stream may go on. From the last line on `copy` may be
// gone.
static int32_t open_gate(void *user, int32_t reached) {
  relay *copy = user;
  hal_layer *next = copy->gate_side->next;
  next->calls->event_signal(next, copy->gate, reached > HAL_OK ? HAL_OK : reached);
  atomic_store(&copy->is_open, 1);
  return reached;
}

// The target's stream passed the copy, or failed.
static int32_t finish_bridge(void *user, int32_t reached) {
  relay *copy = user;
  while (!atomic_load(&copy->is_open)) sched_yield();  // The signal is about to return.
  hal_event_drop(copy->gate_side, copy->gate);
  end_relay(copy);
  return reached;
}

static int32_t bridge(relay *copy, hal_stream source_stream, hal_stream target_stream) {
  hal_emulation *from = copy->source_side, *to = copy->target_side;
  copy->gate_side = to;
  int32_t status = hal_lane_gate(to, target_stream, &copy->gate);
  if (status != HAL_OK) {
    end_relay(copy);
    return status;
  }
  status = copy_host(to, target_stream, &copy->target, copy->host, HAL_COPY_HOST_TO_DEVICE);
  release_target(copy);
  if (status == HAL_OK) {
    status = hal_lane_follow(to, target_stream, finish_bridge, copy);
  }
  if (status != HAL_OK) {
    // The stream fails when its gate goes; the copy may be queued behind it, so its memory stays.
    hal_event_drop(to, copy->gate);
    return status;
  }
  status = copy_host(from, source_stream, &copy->source, copy->host, HAL_COPY_DEVICE_TO_HOST);
  release_source(copy);
  if (status == HAL_OK) {
    status = hal_lane_follow(from, source_stream, open_gate, copy);
  }
  if (status != HAL_OK) open_gate(copy, status);  // The target's stream must not wait for ever.
  return status;
}

int32_t hal_bridge_copy(hal_port *source_port, hal_stream source_stream,
                        const hal_memory_ref *source, hal_port *target_port,
                        hal_stream target_stream, const hal_memory_ref *target) {
  if (source_port == NULL || target_port == NULL) return HAL_ERROR_INVALID_HANDLE;
  if (hal_port_ended(source_port)) return hal_layer_absent(&source_port->ended, "");
  if (hal_port_ended(target_port)) return hal_layer_absent(&target_port->ended, "");
  if (source == NULL || target == NULL || source->bytes != target->bytes) {
    return hal_record(target_port, HAL_ERROR_INVALID_VALUE,
                      "two ranges of one length are needed; given are %llu and %llu bytes",
                      (unsigned long long)(source == NULL ? 0 : source->bytes),
                      (unsigned long long)(target == NULL ? 0 : target->bytes));
  }
  hal_emulation *from = source_port->emulation, *to = target_port->emulation;
  if (from == NULL || to == NULL) {
    return hal_record(from == NULL ? source_port : target_port, HAL_ERROR_UNSUPPORTED,
                      "a copy between ports needs the emulate layer on both");
  }
  int32_t status = hal_capture_refuse(from, source_stream, "a copy between ports");
  if (status == HAL_OK) status = hal_capture_refuse(to, target_stream, "a copy between ports");
  if (status == HAL_OK) status = hal_check_range(from, source, "source", NULL);
  if (status == HAL_OK) status = hal_check_range(to, target, "target", NULL);
  if (status != HAL_OK) return status;
  status = from->next->calls->stream_query(from->next, source_stream);
  if (status >= HAL_OK) status = to->next->calls->stream_query(to->next, target_stream);
  if (status < HAL_OK || source->bytes == 0) return status < HAL_OK ? status : HAL_OK;
  relay *copy = begin_relay(from, source, to, target);
  if (copy == NULL) {
    return hal_record(target_port, HAL_ERROR_OUT_OF_MEMORY, "no host memory for %llu bytes",
                      (unsigned long long)source->bytes);
  }
  return bridge(copy, source_stream, target_stream);
}
