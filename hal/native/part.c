// One rank's part in a collective: checked, made, and put on its stream.
#include <string.h>

#include "circle.h"
#include "reduce.h"

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
