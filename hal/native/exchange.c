// collective.all_to_all for ports that have collectives of their own, but not this one: a group of
// sends and receives. For that the layer remembers the ranks of the port's communicators.
#include "circle.h"
#include "reduce.h"

void hal_exchange_created(hal_emulation *emulation, const hal_comm_desc *desc, hal_comm comm) {
  if (comm == 0) return;
  const uint64_t ranks = (uint64_t)desc->rank_count << 32 | desc->rank;
  pthread_mutex_lock(&emulation->lock);
  hal_map_remove(&emulation->own_comms, comm);
  // Without host memory the communicator has no all_to_all.
  hal_map_add(&emulation->own_comms, comm, (void *)(uintptr_t)ranks);
  pthread_mutex_unlock(&emulation->lock);
}

void hal_exchange_destroyed(hal_emulation *emulation, hal_comm comm) {
  if (comm == 0) return;
  pthread_mutex_lock(&emulation->lock);
  hal_map_remove(&emulation->own_comms, comm);
  pthread_mutex_unlock(&emulation->lock);
}

int hal_exchange_knows(hal_emulation *emulation, hal_comm comm) {
  pthread_mutex_lock(&emulation->lock);
  const int is_known = comm != 0 && hal_map_get(&emulation->own_comms, comm) != NULL;
  pthread_mutex_unlock(&emulation->lock);
  return is_known;
}

// A rank's part for itself does not leave the device.
static int32_t copy_own_part(hal_layer *next, hal_stream stream, const hal_collective_desc *part) {
  const hal_memory_ref *from = &part->source, *to = &part->target;
  if (from->bytes == 0 || (from->memory == to->memory && from->offset_bytes == to->offset_bytes)) {
    return HAL_OK;
  }
  const hal_copy_desc copy = {
      .size = sizeof(copy), .kind = HAL_COPY_DEVICE_TO_DEVICE, .source = *from, .target = *to};
  return next->calls->transfer_copy(next, stream, &copy);
}

// What a rank exchanges with one peer.
static hal_collective_desc part_of(const hal_collective_desc *all, uint32_t peer, uint64_t bytes) {
  hal_collective_desc part = *all;
  part.size = sizeof(part);
  part.peer = peer;
  part.source.offset_bytes += peer * bytes;
  part.target.offset_bytes += peer * bytes;
  part.source.bytes = part.target.bytes = bytes;
  return part;
}

static int32_t exchange(hal_layer *next, hal_comm comm, hal_stream stream,
                        const hal_collective_desc *desc, uint64_t bytes, uint32_t rank,
                        uint32_t rank_count) {
  const hal_collective_desc own = part_of(desc, rank, bytes);
  int32_t status = copy_own_part(next, stream, &own);
  if (status == HAL_OK) status = next->calls->collective_group_begin(next);
  if (status != HAL_OK) return status;
  for (uint32_t peer = 0; status == HAL_OK && peer < rank_count; ++peer) {
    if (peer == rank) continue;
    const hal_collective_desc part = part_of(desc, peer, bytes);
    status = next->calls->collective_send(next, comm, stream, &part);
    if (status == HAL_OK) status = next->calls->collective_recv(next, comm, stream, &part);
  }
  const int32_t ended = next->calls->collective_group_end(next);
  return status == HAL_OK ? ended : status;
}

int32_t hal_exchange(hal_emulation *emulation, hal_comm comm, hal_stream stream,
                     const hal_collective_desc *desc) {
  pthread_mutex_lock(&emulation->lock);
  const uint64_t ranks =
      comm == 0 ? 0 : (uint64_t)(uintptr_t)hal_map_get(&emulation->own_comms, comm);
  pthread_mutex_unlock(&emulation->lock);
  if (ranks == 0) return hal_refuse_handle(emulation, "communicator", comm);
  const uint32_t rank = (uint32_t)ranks, rank_count = (uint32_t)(ranks >> 32);
  uint64_t bytes = 0, all = 0;
  if (__builtin_mul_overflow(desc->count, (uint64_t)hal_dtype_bytes(desc->dtype), &bytes) ||
      __builtin_mul_overflow(bytes, (uint64_t)rank_count, &all) || all > desc->source.bytes ||
      all > desc->target.bytes) {
    return hal_record(emulation->port, HAL_ERROR_OUT_OF_RANGE,
                      "%llu elements for each of %u ranks do not fit %llu and %llu bytes",
                      (unsigned long long)desc->count, rank_count,
                      (unsigned long long)desc->source.bytes,
                      (unsigned long long)desc->target.bytes);
  }
  return exchange(emulation->next, comm, stream, desc, bytes, rank, rank_count);
}
