// Collectives of the loader: one rank's part, on its stream.
#include <string.h>

#include "comm.h"
#include "reduce.h"

void hal_emulate_comm(hal_emulation *emulation);  // comm.c

// ---- Parts ----

void hal_part_release(hal_part *part) {
  if (atomic_fetch_sub(&part->user_count, 1) != 1) return;
  hal_rank_drop(part->rank);
  free(part->in);
  free(part);
}

// The bytes that each side moves; 0 when they overflow.
static int measure(hal_part *part, uint32_t rank_count) {
  const uint64_t element = hal_dtype_bytes(part->desc.dtype);
  uint64_t one = 0, all = 0;
  if (element == 0 || __builtin_mul_overflow(part->desc.count, element, &one) ||
      __builtin_mul_overflow(one, (uint64_t)rank_count, &all) || all > INT64_MAX) {
    return 0;
  }
  const int is_root = part->desc.peer == part->rank->rank;
  static const struct {
    unsigned char in, out;  // 0 none, 1 one part, 2 a part for each rank.
  } sides[] = {{1, 1}, {1, 2}, {2, 1}, {0, 1}, {2, 2}, {1, 0}, {0, 1}};
  const uint64_t bytes[] = {0, one, all};
  part->in_bytes = bytes[sides[part->what].in];
  part->out_bytes = bytes[sides[part->what].out];
  if (part->what == HAL_BROADCAST && is_root) {
    part->in_bytes = one;
    if (part->desc.target.memory == 0) part->out_bytes = 0;
  }
  return 1;
}

static int32_t check_side(hal_emulation *emulation, const hal_part *part, hal_memory_ref *ref,
                          uint64_t bytes, const char *what) {
  if (bytes == 0) return HAL_OK;
  hal_device device = 0;
  const int32_t status = hal_check_range(emulation, ref, what, &device);
  if (status != HAL_OK) return status;
  if (device != part->rank->device) {
    return hal_refuse_handle(emulation, "buffer of the rank's device", ref->memory);
  }
  if (ref->bytes < bytes) {
    return hal_record(emulation->port, HAL_ERROR_OUT_OF_RANGE,
                      "the %s has %llu bytes, %llu elements of each of the ranks need %llu", what,
                      (unsigned long long)ref->bytes, (unsigned long long)part->desc.count,
                      (unsigned long long)bytes);
  }
  ref->bytes = bytes;
  return HAL_OK;
}

static int32_t check_part(hal_emulation *emulation, hal_part *part) {
  hal_circle *circle = part->rank->circle;
  const hal_collective_desc *desc = &part->desc;
  pthread_mutex_lock(&circle->lock);
  const int32_t failed = circle->status;
  pthread_mutex_unlock(&circle->lock);
  if (failed != HAL_OK) {
    return hal_record(emulation->port, failed, "the communicator failed before: %s",
                      hal_status_name(failed));
  }
  if (hal_stream_device(emulation, part->stream) != part->rank->device) {
    return hal_refuse_handle(emulation, "stream of the rank's device", part->stream);
  }
  const int has_peer =
      part->what == HAL_BROADCAST || part->what == HAL_SEND || part->what == HAL_RECV;
  if (has_peer && desc->peer >= circle->rank_count) {
    return hal_record(emulation->port, HAL_ERROR_OUT_OF_RANGE, "peer %u of %u ranks", desc->peer,
                      circle->rank_count);
  }
  const int reduces = part->what == HAL_ALL_REDUCE || part->what == HAL_REDUCE_SCATTER;
  if (reduces && !hal_reduce_can(desc->dtype)) {
    return hal_record(emulation->port, HAL_ERROR_UNSUPPORTED,
                      "dtype %u is not reduced; dtypes f32 to i64 are", desc->dtype);
  }
  if (!measure(part, circle->rank_count)) {
    return hal_record(emulation->port, HAL_ERROR_OUT_OF_RANGE, "%llu elements of dtype %u",
                      (unsigned long long)desc->count, desc->dtype);
  }
  int32_t status = check_side(emulation, part, &part->desc.source, part->in_bytes, "source");
  if (status != HAL_OK) return status;
  return check_side(emulation, part, &part->desc.target, part->out_bytes, "target");
}

int32_t hal_part_make(hal_emulation *emulation, hal_comm comm, hal_stream stream, uint32_t what,
                      const hal_collective_desc *desc, hal_part **out_part) {
  pthread_mutex_lock(&emulation->lock);
  hal_rank *rank = hal_slot_get(&emulation->ranks, comm);
  if (rank != NULL) hal_rank_hold(rank);
  pthread_mutex_unlock(&emulation->lock);
  if (rank == NULL) return hal_refuse_handle(emulation, "communicator", comm);
  hal_part *part = calloc(1, sizeof(*part));
  if (part == NULL) {
    hal_rank_drop(rank);
    return hal_record(emulation->port, HAL_ERROR_OUT_OF_MEMORY, "no host memory");
  }
  part->rank = rank;
  part->stream = stream;
  part->what = what;
  atomic_init(&part->user_count, 1);
  memcpy(&part->desc, desc, desc->size < sizeof(part->desc) ? desc->size : sizeof(part->desc));
  int32_t status = check_part(emulation, part);
  if (status == HAL_OK) {
    part->in = malloc(part->in_bytes + part->out_bytes + 1);
    if (part->in == NULL) {
      status = hal_record(emulation->port, HAL_ERROR_OUT_OF_MEMORY, "no host memory for %llu bytes",
                          (unsigned long long)(part->in_bytes + part->out_bytes));
    } else {
      part->out = part->in + part->in_bytes;
    }
  }
  if (status != HAL_OK) {
    hal_part_release(part);
    return status;
  }
  *out_part = part;
  return HAL_OK;
}

// ---- A part on its stream ----

static int32_t copy_in(const hal_part *part) {
  const hal_emulation *emulation = part->rank->emulation;
  if (part->what == HAL_RECV || part->in_bytes == 0) return HAL_OK;
  const hal_copy_desc copy = {.size = sizeof(copy),
                              .kind = HAL_COPY_DEVICE_TO_HOST,
                              .source = part->desc.source,
                              .host_target = part->in};
  return emulation->next->calls->transfer_copy(emulation->next, part->stream, &copy);
}

static void fail_circle(const hal_part *part) {
  hal_circle *circle = part->rank->circle;
  pthread_mutex_lock(&circle->lock);
  hal_circle_fail(circle, HAL_ERROR_PEER_FAILED);
  pthread_mutex_unlock(&circle->lock);
}

int32_t hal_part_begin(hal_part *part) {
  int32_t status = part->what < HAL_SEND ? hal_round_enter(part) : HAL_OK;
  if (status != HAL_OK) return status;
  status = copy_in(part);
  if (status != HAL_OK) {
    if (part->round != NULL) hal_round_undo(part);
    return status;
  }
  status = hal_lane_mark(part->rank->emulation, part->stream, &part->reached);
  if (status != HAL_OK) {
    // The copy is on its way to the part's memory: one more user keeps that for ever.
    atomic_fetch_add(&part->user_count, 1);
    fail_circle(part);
  }
  return status;
}

static int32_t release_job(void *user, int32_t reached) {
  hal_part_release(user);
  return reached;
}

// The stream waits for the gate, copies the result to the target, and then lets the part go.
static int32_t enqueue_result(hal_part *part, hal_event *out_gate) {
  hal_emulation *emulation = part->rank->emulation;
  int32_t status = hal_lane_gate(emulation, part->stream, out_gate);
  if (status != HAL_OK || part->out_bytes == 0) return status;
  const hal_copy_desc copy = {.size = sizeof(copy),
                              .kind = HAL_COPY_HOST_TO_DEVICE,
                              .flags = HAL_COPY_FLAG_BORROW,
                              .target = part->desc.target,
                              .host_source = part->out};
  status = emulation->next->calls->transfer_copy(emulation->next, part->stream, &copy);
  if (status != HAL_OK) return status;
  atomic_fetch_add(&part->user_count, 1);
  status = hal_lane_follow(emulation, part->stream, release_job, part);
  return status;
}

int32_t hal_part_finish(hal_part *part) {
  static const struct {
    hal_job_fn job;
    uint32_t lane;
  } jobs[] = {[HAL_SEND] = {hal_message_send, HAL_LANE_SENDS},
              [HAL_RECV] = {hal_message_recv, HAL_LANE_RECVS}};
  hal_emulation *emulation = part->rank->emulation;
  const int is_message = part->what >= HAL_SEND;
  if (part->what == HAL_SEND) {
    pthread_mutex_lock(&part->rank->circle->lock);
    part->rank->circle->sends[part->rank->rank] += 1;
    pthread_mutex_unlock(&part->rank->circle->lock);
  }
  const hal_lane_id lane = {part->rank, is_message ? jobs[part->what].lane : HAL_LANE_ROUNDS};
  hal_event gate = 0;
  atomic_fetch_add(&part->user_count, 1);  // For this function; the job has the first one.
  int32_t status = part->what == HAL_SEND ? HAL_OK : enqueue_result(part, &gate);
  const int32_t added = hal_lane_add(emulation, lane, part->rank->device, part->reached, gate,
                                     is_message ? jobs[part->what].job : hal_round_arrive, part);
  if (added != HAL_OK) {
    // Without a lane the stream fails at its gate, and the others learn of it. The part stays: its
    // copies may be on their way.
    hal_event_drop(emulation, gate);
    if (status == HAL_OK) status = added;
  }
  if (status != HAL_OK) fail_circle(part);
  hal_part_release(part);
  return status;
}

// ---- The functions of the interface ----

typedef int32_t (*native_fn)(hal_layer *next, hal_comm comm, hal_stream stream,
                             const hal_collective_desc *desc);

static int32_t take(hal_layer *self, hal_comm comm, hal_stream stream,
                    const hal_collective_desc *desc, uint32_t what, native_fn native,
                    const char *call) {
  hal_emulation *emulation = self->state;
  pthread_mutex_lock(&emulation->lock);
  const int is_ours = hal_slot_get(&emulation->ranks, comm) != NULL;
  pthread_mutex_unlock(&emulation->lock);
  int32_t status;
  if (!is_ours && HAL_PORT_HAS(emulation, collective_comm_create)) {
    status = native(self->next, comm, stream, desc);
    if (status == HAL_ERROR_UNSUPPORTED && what == HAL_ALL_TO_ALL) {
      status = hal_exchange(emulation, comm, stream, desc);
    }
    if (status != HAL_ERROR_UNSUPPORTED) return status;
  }
  status = hal_capture_refuse(emulation, stream, call);
  hal_part *part = NULL;
  if (status == HAL_OK) status = hal_part_make(emulation, comm, stream, what, desc, &part);
  if (status != HAL_OK) return status;
  if (hal_group_is_open()) return hal_group_add_part(part);
  status = hal_part_begin(part);
  if (status != HAL_OK) {
    hal_part_release(part);
    return status;
  }
  return hal_part_finish(part);
}

// Defines take_NAME, which does collective.NAME.
#define DEFINE_TAKE(name, what)                                                       \
  static int32_t take_##name(hal_layer *self, hal_comm comm, hal_stream stream,       \
                             const hal_collective_desc *desc) {                       \
    return take(self, comm, stream, desc, what, self->next->calls->collective_##name, \
                "collective." #name);                                                 \
  }

DEFINE_TAKE(all_reduce, HAL_ALL_REDUCE)
DEFINE_TAKE(all_gather, HAL_ALL_GATHER)
DEFINE_TAKE(reduce_scatter, HAL_REDUCE_SCATTER)
DEFINE_TAKE(broadcast, HAL_BROADCAST)
DEFINE_TAKE(all_to_all, HAL_ALL_TO_ALL)
DEFINE_TAKE(send, HAL_SEND)
DEFINE_TAKE(recv, HAL_RECV)

static int32_t take_group_begin(hal_layer *self) {
  hal_emulation *emulation = self->state;
  if (HAL_PORT_HAS(emulation, collective_group_begin)) {
    const int32_t status = self->next->calls->collective_group_begin(self->next);
    if (status == HAL_OK) hal_exchange_group_begun();
    if (status != HAL_ERROR_UNSUPPORTED) return status;
  }
  hal_group_open();
  return HAL_OK;
}

static int32_t take_group_end(hal_layer *self) {
  hal_emulation *emulation = self->state;
  if (HAL_PORT_HAS(emulation, collective_group_end)) {
    const int32_t status = self->next->calls->collective_group_end(self->next);
    if (status != HAL_ERROR_UNSUPPORTED) hal_exchange_group_ended(status);
    if (status != HAL_ERROR_UNSUPPORTED) return status;
  }
  return hal_group_close(emulation);
}

void hal_emulate_collective(hal_emulation *emulation) {
  hal_emulate_comm(emulation);
  HAL_TAKE_OVER(emulation, collective_all_reduce, COLLECTIVE_ALL_REDUCE, take_all_reduce);
  HAL_TAKE_OVER(emulation, collective_all_gather, COLLECTIVE_ALL_GATHER, take_all_gather);
  HAL_TAKE_OVER(emulation, collective_reduce_scatter, COLLECTIVE_REDUCE_SCATTER,
                take_reduce_scatter);
  HAL_TAKE_OVER(emulation, collective_broadcast, COLLECTIVE_BROADCAST, take_broadcast);
  HAL_TAKE_OVER(emulation, collective_send, COLLECTIVE_SEND, take_send);
  HAL_TAKE_OVER(emulation, collective_recv, COLLECTIVE_RECV, take_recv);
  HAL_TAKE_OVER(emulation, collective_group_begin, COLLECTIVE_GROUP_BEGIN, take_group_begin);
  HAL_TAKE_OVER(emulation, collective_group_end, COLLECTIVE_GROUP_END, take_group_end);
  HAL_TAKE_OVER(emulation, collective_all_to_all, COLLECTIVE_ALL_TO_ALL, take_all_to_all);
}
