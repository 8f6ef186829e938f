// Interface 11: collectives of a driver's library (kit_collective.h).
#include <stdlib.h>
#include <string.h>

#include "comm_state.h"
#include "vil_image.h"

typedef struct joining {
  kit_device *device;
  hal_comm_desc desc;
  hal_comm *out_comm;
} joining;

// What this thread's group holds.
static _Thread_local struct {
  uint32_t depth, join_count, part_count;
  joining *joins;
  kit_part *parts;
} group;

static void *add_one(void *items, uint32_t count, size_t bytes) {
  void *more = realloc(items, (count + 1) * bytes);
  if (more == NULL) {
    kit_fail(HAL_ERROR_OUT_OF_MEMORY, "no host memory for a group");
  }
  return more;
}

// ---- Communicators ----

int32_t kit_collective_unique_id(hal_unique_id *out_id) {
  int32_t status = kit_comms_check();
  return status == HAL_OK ? kit_the_collectives()->unique_id(out_id) : status;
}

// Joins ranks of this thread; all get their handles, or none.
static int32_t join_all(const joining *joins, uint32_t count) {
  kit_comm **comms = calloc(count, sizeof(*comms));
  hal_comm_desc *descs = calloc(count, sizeof(*descs));
  int32_t status = comms != NULL && descs != NULL
                       ? HAL_OK
                       : kit_fail(HAL_ERROR_OUT_OF_MEMORY, "no host memory for communicators");
  uint32_t made = 0;
  for (; made < count && status == HAL_OK; made += status == HAL_OK) {
    descs[made] = joins[made].desc;
    status = kit_device_check(joins[made].device);
    if (status == HAL_OK) {
      status = kit_comm_create(joins[made].device, &descs[made], &comms[made]);
    }
  }
  if (status == HAL_OK) {
    status = kit_comms_join(comms, descs, count);
  }
  for (uint32_t i = 0; i < made; ++i) {
    if (status == HAL_OK) {
      *joins[i].out_comm = comms[i]->object.handle;
    } else {
      kit_retire(comms[i]);
    }
  }
  free(comms);
  free(descs);
  return status;
}

int32_t kit_collective_comm_create(hal_device handle, const hal_comm_desc *desc,
                                   hal_comm *out_comm) {
  int32_t status = kit_comms_check();
  if (status != HAL_OK) {
    return status;
  }
  joining one = {kit_acquire(handle, KIT_KIND_DEVICE), *desc, out_comm};
  if (one.device == NULL) {
    return HAL_ERROR_INVALID_HANDLE;
  }
  if (group.depth > 0) {
    joining *more = add_one(group.joins, group.join_count, sizeof(*more));
    if (more != NULL) {
      group.joins = more;
      more[group.join_count++] = one;
      return HAL_OK;
    }
    status = HAL_ERROR_OUT_OF_MEMORY;
  } else {
    status = join_all(&one, 1);
  }
  kit_release(one.device);
  return status;
}

int32_t kit_collective_comm_destroy(hal_comm handle) {
  kit_comm *comm = kit_acquire(handle, KIT_KIND_COMM);
  if (comm == NULL) {
    return HAL_ERROR_INVALID_HANDLE;
  }
  bool is_first = kit_retire(comm);
  kit_release(comm);
  return is_first ? HAL_OK
                  : kit_fail(HAL_ERROR_INVALID_HANDLE, "another thread ends the communicator");
}

int32_t kit_collective_abort(hal_comm handle) {
  kit_comm *comm = kit_acquire(handle, KIT_KIND_COMM);
  if (comm == NULL) {
    return HAL_ERROR_INVALID_HANDLE;
  }
  kit_comms_lock();  // Whoever looks after the streams stops the work.
  kit_comm_fail(comm, HAL_ERROR_PEER_FAILED, "a rank has aborted the communicator");
  kit_comms_unlock();
  kit_release(comm);
  return HAL_OK;
}

int32_t kit_collective_async_error(hal_comm handle, int32_t *out_status) {
  kit_comm *comm = kit_acquire(handle, KIT_KIND_COMM);
  if (comm == NULL) {
    return HAL_ERROR_INVALID_HANDLE;
  }
  hal_error saved;
  kit_error_save(&saved);
  kit_comms_lock();
  int32_t status = kit_comm_watch(comm);
  kit_comms_unlock();
  *out_status = status < 0 ? status : HAL_OK;
  kit_error_restore(&saved);
  kit_release(comm);
  return HAL_OK;
}

// ---- Parts ----

static void drop_part(kit_part *part) {
  kit_range_drop(&part->source);
  kit_range_drop(&part->target);
  kit_release(part->comm);
  kit_release(part->stream);
}

// Puts the parts on their streams; each belongs to its operation then.
static int32_t enqueue_all(kit_part *parts, uint32_t count) {
  kit_meeting *meeting = kit_meeting_create(parts, count);
  int32_t first = meeting == NULL ? HAL_ERROR_OUT_OF_MEMORY : HAL_OK;
  hal_error error;
  for (uint32_t i = 0; i < count; ++i) {
    kit_part *part = meeting == NULL ? &parts[i] : &meeting->parts[i];
    kit_place *place = NULL;
    int32_t status = first == HAL_OK ? kit_enqueue_begin(part->stream, false, &place) : first;
    if (status == HAL_OK) {
      place->operation.kind = KIT_COLLECTIVE;
      place->operation.source = part->source;
      place->operation.target = part->target;
      place->operation.part = part;
      kit_enqueue_end(part->stream, place);
      continue;
    }
    if (first == HAL_OK) {
      first = status;
      kit_error_save(&error);
    }
    kit_range_drop(&part->source);
    kit_range_drop(&part->target);
    if (meeting == NULL) {
      kit_release(part->comm);
    } else {
      kit_part_leave(part);
    }
  }
  if (meeting != NULL) {
    kit_meeting_seal(meeting);
    kit_meeting_release(meeting);
  }
  for (uint32_t i = 0; i < count; ++i) {  // Those that came before the last one go on now.
    kit_native_pump(parts[i].stream);
    kit_release(parts[i].stream);
  }
  if (first != HAL_OK && meeting != NULL) {
    kit_error_restore(&error);
  }
  return first;
}

// Which sides a rank has: 0 none, 1 a part, 2 a part for each rank.
static void sides_of(const kit_comm *comm, const kit_share *share, const hal_collective_desc *desc,
                     int *out_source, int *out_target) {
  static const struct {
    int source, target;
  } sides[] = {[KIT_ALL_REDUCE] = {1, 1}, [KIT_ALL_GATHER] = {1, 2}, [KIT_REDUCE_SCATTER] = {2, 1},
               [KIT_BROADCAST] = {0, 1},  [KIT_SEND] = {1, 0},       [KIT_RECV] = {0, 1}};
  *out_source = sides[share->what].source;
  *out_target = sides[share->what].target;
  if (share->what == KIT_BROADCAST && share->peer == comm->rank) {
    *out_source = 1;
    *out_target = desc->target.memory != 0;
  }
}

static int32_t take_side(const kit_part *part, const hal_memory_ref *ref, int parts,
                         const char *what, kit_range *out_range, void **out_pointer) {
  uint64_t bytes = part->share.bytes * (parts == 2 ? part->comm->rank_count : 1);
  if (parts == 0 || bytes == 0) {
    return HAL_OK;
  }
  int32_t status = kit_range_take(ref, part->stream->object.device, what, out_range);
  if (status == HAL_OK && out_range->bytes < bytes) {
    status = kit_fail(HAL_ERROR_OUT_OF_RANGE, "the %s has %llu bytes, %llu are needed", what,
                      (unsigned long long)out_range->bytes, (unsigned long long)bytes);
  }
  if (status == HAL_OK) {
    *out_pointer = kit_range_pointer(out_range);
  }
  return status;
}

static int32_t measure(kit_part *part, const hal_collective_desc *desc) {
  kit_share *share = &part->share;
  uint64_t all = 0;
  if (__builtin_mul_overflow(share->count, (uint64_t)vil_dtype_bytes(share->dtype),
                             &share->bytes) ||
      __builtin_mul_overflow(share->bytes, (uint64_t)part->comm->rank_count, &all)) {
    return kit_fail(HAL_ERROR_OUT_OF_RANGE, "%llu elements are more than memory holds",
                    (unsigned long long)share->count);
  }
  bool has_peer = share->what >= KIT_BROADCAST;
  if (has_peer && share->peer >= part->comm->rank_count) {
    return kit_fail(HAL_ERROR_OUT_OF_RANGE, "peer %u of %u ranks", share->peer,
                    part->comm->rank_count);
  }
  int source = 0, target = 0;
  sides_of(part->comm, share, desc, &source, &target);
  void *from = NULL;
  int32_t status =
      take_side(part, &desc->source, source, "collective source", &part->source, &from);
  if (status == HAL_OK) {
    status =
        take_side(part, &desc->target, target, "collective target", &part->target, &share->target);
  }
  share->source = from;
  return status;
}

static int32_t check(kit_part *part, const hal_collective_desc *desc) {
  const kit_share *share = &part->share;
  int32_t status = kit_comm_status(part->comm);
  if (status == HAL_OK && part->comm->object.device != part->stream->object.device) {
    status = kit_fail(HAL_ERROR_INVALID_HANDLE, "the stream is not of the rank's device");
  }
  if (status == HAL_OK && (share->what == KIT_ALL_REDUCE || share->what == KIT_REDUCE_SCATTER)) {
    status = kit_the_collectives()->can_reduce(share->dtype);
  }
  return status == HAL_OK ? measure(part, desc) : status;
}

static int32_t call(uint32_t what, hal_comm comm, hal_stream stream,
                    const hal_collective_desc *desc) {
  kit_part part = {.share = {.what = what,
                             .dtype = desc->dtype,
                             .reduce = desc->reduce,
                             .peer = desc->peer,
                             .count = desc->count}};
  part.comm = kit_acquire(comm, KIT_KIND_COMM);
  if (part.comm == NULL) {
    return HAL_ERROR_INVALID_HANDLE;
  }
  part.stream = kit_acquire(stream, KIT_KIND_STREAM);
  if (part.stream == NULL) {
    kit_release(part.comm);
    return HAL_ERROR_INVALID_HANDLE;
  }
  int32_t status = check(&part, desc);
  if (status == HAL_OK && group.depth == 0) {
    return enqueue_all(&part, 1);
  }
  if (status == HAL_OK) {
    kit_part *more = add_one(group.parts, group.part_count, sizeof(*more));
    if (more != NULL) {
      group.parts = more;
      more[group.part_count++] = part;
      return HAL_OK;
    }
    status = HAL_ERROR_OUT_OF_MEMORY;
  }
  drop_part(&part);
  return status;
}

#define COLLECTIVE(name, what)                                     \
  int32_t kit_collective_##name(hal_comm comm, hal_stream stream,  \
                                const hal_collective_desc *desc) { \
    return call(what, comm, stream, desc);                         \
  }
COLLECTIVE(all_reduce, KIT_ALL_REDUCE)
COLLECTIVE(all_gather, KIT_ALL_GATHER)
COLLECTIVE(reduce_scatter, KIT_REDUCE_SCATTER)
COLLECTIVE(broadcast, KIT_BROADCAST)
COLLECTIVE(send, KIT_SEND)
COLLECTIVE(recv, KIT_RECV)

// ---- Groups ----

int32_t kit_collective_group_begin(void) {
  int32_t status = kit_comms_check();
  group.depth += status == HAL_OK;
  return status;
}

int32_t kit_collective_group_end(void) {
  int32_t status = kit_comms_check();
  if (status != HAL_OK) {
    return status;
  }
  if (group.depth == 0) {
    return kit_fail(HAL_ERROR_INVALID_STATE, "this thread has not opened a group");
  }
  if (--group.depth != 0) {
    return HAL_OK;
  }
  joining *joins = group.joins;
  kit_part *parts = group.parts;
  uint32_t join_count = group.join_count, part_count = group.part_count;
  memset(&group, 0, sizeof(group));
  int32_t started = part_count == 0 ? HAL_OK : enqueue_all(parts, part_count);
  hal_error saved;
  kit_error_save(&saved);
  status = join_count == 0 ? HAL_OK : join_all(joins, join_count);
  for (uint32_t i = 0; i < join_count; ++i) {
    kit_release(joins[i].device);
  }
  free(joins);
  free(parts);
  if (started != HAL_OK) {
    kit_error_restore(&saved);
  }
  return started != HAL_OK ? started : status;
}
