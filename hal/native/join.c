// How the ranks of a communicator find each other.
#include <string.h>

#include "circle.h"

enum { RANK_LIMIT = 4096 };

static pthread_mutex_t forming_lock = PTHREAD_MUTEX_INITIALIZER;
static hal_circle *forming;

// The forming circle of an id; made when there is none. Caller holds the forming lock.
static hal_circle *find_circle(const hal_comm_desc *desc) {
  for (hal_circle *circle = forming; circle != NULL; circle = circle->next) {
    if (memcmp(&circle->id, &desc->id, sizeof(desc->id)) == 0) return circle;
  }
  hal_circle *circle = hal_circle_make(desc);
  if (circle == NULL) return NULL;
  circle->next = forming;
  forming = circle;
  return circle;
}

// Takes a circle out of the forming ones. Caller holds the forming lock.
static void leave_forming(const hal_circle *circle) {
  for (hal_circle **at = &forming; *at != NULL; at = &(*at)->next) {
    if (*at != circle) continue;
    *at = circle->next;
    return;
  }
}

static int32_t refuse_join(hal_emulation *emulation, const hal_circle *circle,
                           const hal_comm_desc *desc) {
  if (circle == NULL) {
    return hal_record(emulation->port, HAL_ERROR_OUT_OF_MEMORY, "no host memory");
  }
  if (circle->rank_count != desc->rank_count) {
    return hal_record(emulation->port, HAL_ERROR_INVALID_VALUE,
                      "rank %u joins with %u ranks, others joined with %u", desc->rank,
                      desc->rank_count, circle->rank_count);
  }
  return hal_record(emulation->port, HAL_ERROR_INVALID_VALUE,
                    "rank %u of this communicator has joined already", desc->rank);
}

int32_t hal_rank_join(hal_emulation *emulation, hal_device device, const hal_comm_desc *desc,
                      hal_rank **out_rank) {
  hal_layer *next = emulation->next;
  int64_t bytes = 0;
  const int32_t known = next->calls->device_get_i64(next, device, "device.memory_bytes", &bytes);
  if (known != HAL_OK && known != HAL_ERROR_NOT_FOUND) return known;
  if (desc->rank >= desc->rank_count || desc->rank_count > RANK_LIMIT) {
    return hal_record(emulation->port, HAL_ERROR_OUT_OF_RANGE,
                      "rank %u of %u; there are at most %d", desc->rank, desc->rank_count,
                      RANK_LIMIT);
  }
  hal_rank *rank = calloc(1, sizeof(*rank));
  if (rank == NULL) return hal_record(emulation->port, HAL_ERROR_OUT_OF_MEMORY, "no host memory");
  int32_t status = HAL_OK;
  pthread_mutex_lock(&forming_lock);
  hal_circle *circle = find_circle(desc);
  if (circle == NULL || circle->rank_count != desc->rank_count ||
      circle->ranks[desc->rank] != NULL) {
    status = refuse_join(emulation, circle, desc);
    free(rank);
  } else {
    *rank = (hal_rank){.circle = circle,
                       .emulation = emulation,
                       .device = device,
                       .rank = desc->rank,
                       .user_count = 1,
                       .timeout_ns = desc->timeout_ns};
    pthread_mutex_lock(&circle->lock);
    circle->ranks[desc->rank] = rank;
    circle->user_count += 1;
    circle->joined_count += 1;
    if (circle->joined_count == circle->rank_count) leave_forming(circle);
    pthread_cond_broadcast(&circle->changed);
    pthread_mutex_unlock(&circle->lock);
    *out_rank = rank;
  }
  pthread_mutex_unlock(&forming_lock);
  return status;
}

// Waits until all have joined; on a timeout the rank's place is free again.
static int32_t wait_for_all(hal_rank *rank) {
  hal_circle *circle = rank->circle;
  const uint64_t deadline_ns = hal_deadline_ns(rank->timeout_ns);
  uint32_t joined = 0;
  pthread_mutex_lock(&circle->lock);
  while (circle->joined_count < circle->rank_count && hal_circle_wait(circle, deadline_ns)) {
  }
  joined = circle->joined_count;
  pthread_mutex_unlock(&circle->lock);
  if (joined == circle->rank_count) return HAL_OK;
  // The last rank may join meanwhile; the forming lock settles who was first.
  pthread_mutex_lock(&forming_lock);
  pthread_mutex_lock(&circle->lock);
  joined = circle->joined_count;
  if (joined < circle->rank_count) {
    circle->joined_count -= 1;
    circle->ranks[rank->rank] = NULL;
    if (circle->joined_count == 0) leave_forming(circle);
  }
  pthread_mutex_unlock(&circle->lock);
  pthread_mutex_unlock(&forming_lock);
  if (joined == circle->rank_count) return HAL_OK;
  return hal_record(rank->emulation->port, HAL_ERROR_TIMEOUT,
                    "%u of %u ranks joined within %llu ns", joined, circle->rank_count,
                    (unsigned long long)rank->timeout_ns);
}

int32_t hal_rank_complete(hal_rank *rank, hal_comm *out_comm) {
  hal_emulation *emulation = rank->emulation;
  int32_t status = wait_for_all(rank);
  if (status != HAL_OK) {
    hal_rank_drop(rank);
    return status;
  }
  pthread_mutex_lock(&emulation->lock);
  const hal_comm comm = hal_slot_add(&emulation->ranks, rank);
  pthread_mutex_unlock(&emulation->lock);
  if (comm == 0) {
    pthread_mutex_lock(&rank->circle->lock);
    hal_circle_fail(rank->circle, HAL_ERROR_PEER_FAILED);
    pthread_mutex_unlock(&rank->circle->lock);
    hal_rank_drop(rank);
    return hal_record(emulation->port, HAL_ERROR_OUT_OF_MEMORY, "no host memory");
  }
  *out_comm = comm;
  return HAL_OK;
}
