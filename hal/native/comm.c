// Communicators of the loader: the functions of the interface, and how ranks leave.
#include "circle.h"

#include <string.h>
#include <sys/random.h>
#include <unistd.h>

static void leave(hal_rank *rank) {
  hal_circle *circle = rank->circle;
  pthread_mutex_lock(&circle->lock);
  circle->has_left[rank->rank] = 1;
  pthread_cond_broadcast(&circle->changed);
  pthread_mutex_unlock(&circle->lock);
  for (uint64_t which = HAL_LANE_ROUNDS; which <= HAL_LANE_RECVS; ++which) {
    hal_lane_leave(rank->emulation, (hal_lane_id){rank, which});
  }
  hal_rank_drop(rank);
}

void hal_ranks_drop(hal_emulation *emulation, hal_device device) {
  for (uint32_t i = 0;; ++i) {
    pthread_mutex_lock(&emulation->lock);
    const int is_end = i >= emulation->ranks.count;
    hal_rank *rank = is_end ? NULL : emulation->ranks.slots[i].object;
    const int is_gone = rank != NULL && (device == 0 || rank->device == device);
    if (is_gone) hal_slot_clear(&emulation->ranks, i);
    pthread_mutex_unlock(&emulation->lock);
    if (is_gone) leave(rank);
    if (is_end) return;
  }
}

// ---- The functions of the interface ----

static int32_t take_unique_id(hal_layer *self, hal_unique_id *out_id) {
  hal_emulation *emulation = self->state;
  if (HAL_PORT_HAS(emulation, collective_unique_id)) {
    const int32_t status = self->next->calls->collective_unique_id(self->next, out_id);
    if (status != HAL_ERROR_UNSUPPORTED) return status;
  }
  static atomic_ullong count;
  hal_unique_id id = {{0}};
  const uint64_t number = atomic_fetch_add(&count, 1);
  const uint64_t process = (uint64_t)getpid();
  memcpy(id.data, "HALCOMM1", 8);
  memcpy(id.data + 8, &process, 8);
  memcpy(id.data + 16, &number, 8);
  if (getrandom(id.data + 24, 32, 0) != 32) {
    return hal_record(emulation->port, HAL_ERROR_INTERNAL, "the system gives no random bytes");
  }
  *out_id = id;
  return HAL_OK;
}

static int32_t take_create(hal_layer *self, hal_device device, const hal_comm_desc *desc,
                           hal_comm *out_comm) {
  hal_emulation *emulation = self->state;
  if (hal_group_is_open()) return hal_group_add_rank(emulation, device, desc, out_comm);
  if (HAL_PORT_HAS(emulation, collective_comm_create)) {
    const int32_t status =
        self->next->calls->collective_comm_create(self->next, device, desc, out_comm);
    if (status == HAL_OK) hal_exchange_created(emulation, desc, *out_comm);
    if (status != HAL_ERROR_UNSUPPORTED) return status;
  }
  hal_rank *rank = NULL;
  const int32_t status = hal_rank_join(emulation, device, desc, &rank);
  return status == HAL_OK ? hal_rank_complete(rank, out_comm) : status;
}

static int32_t take_destroy(hal_layer *self, hal_comm comm) {
  hal_emulation *emulation = self->state;
  pthread_mutex_lock(&emulation->lock);
  hal_rank *rank = hal_slot_remove(&emulation->ranks, comm);
  pthread_mutex_unlock(&emulation->lock);
  if (rank != NULL) {
    leave(rank);
    return HAL_OK;
  }
  if (HAL_PORT_HAS(emulation, collective_comm_destroy)) {
    const int32_t status = self->next->calls->collective_comm_destroy(self->next, comm);
    if (status == HAL_OK) hal_exchange_destroyed(emulation, comm);
    if (status != HAL_ERROR_UNSUPPORTED) return status;
  }
  return hal_refuse_handle(emulation, "communicator", comm);
}

// The rank of a handle, held; NULL when the layer did not make it.
static hal_rank *hold_rank(hal_emulation *emulation, hal_comm comm) {
  pthread_mutex_lock(&emulation->lock);
  hal_rank *rank = hal_slot_get(&emulation->ranks, comm);
  if (rank != NULL) hal_rank_hold(rank);
  pthread_mutex_unlock(&emulation->lock);
  return rank;
}

static int32_t take_abort(hal_layer *self, hal_comm comm) {
  hal_emulation *emulation = self->state;
  hal_rank *rank = hold_rank(emulation, comm);
  if (rank != NULL) {
    pthread_mutex_lock(&rank->circle->lock);
    hal_circle_fail(rank->circle, HAL_ERROR_PEER_FAILED);
    pthread_mutex_unlock(&rank->circle->lock);
    hal_rank_drop(rank);
    return HAL_OK;
  }
  if (HAL_PORT_HAS(emulation, collective_abort)) {
    const int32_t status = self->next->calls->collective_abort(self->next, comm);
    if (status != HAL_ERROR_UNSUPPORTED) return status;
  }
  return hal_refuse_handle(emulation, "communicator", comm);
}

static int32_t take_async_error(hal_layer *self, hal_comm comm, int32_t *out_status) {
  hal_emulation *emulation = self->state;
  hal_rank *rank = hold_rank(emulation, comm);
  if (rank != NULL) {
    pthread_mutex_lock(&rank->circle->lock);
    *out_status = rank->circle->status;
    pthread_mutex_unlock(&rank->circle->lock);
    hal_rank_drop(rank);
    return HAL_OK;
  }
  if (HAL_PORT_HAS(emulation, collective_async_error)) {
    const int32_t status = self->next->calls->collective_async_error(self->next, comm, out_status);
    if (status != HAL_ERROR_UNSUPPORTED) return status;
  }
  return hal_refuse_handle(emulation, "communicator", comm);
}

void hal_emulate_comm(hal_emulation *emulation) {
  HAL_TAKE_OVER(emulation, collective_unique_id, COLLECTIVE_UNIQUE_ID, take_unique_id);
  HAL_TAKE_OVER(emulation, collective_comm_create, COLLECTIVE_COMM_CREATE, take_create);
  HAL_TAKE_OVER(emulation, collective_comm_destroy, COLLECTIVE_COMM_DESTROY, take_destroy);
  HAL_TAKE_OVER(emulation, collective_abort, COLLECTIVE_ABORT, take_abort);
  HAL_TAKE_OVER(emulation, collective_async_error, COLLECTIVE_ASYNC_ERROR, take_async_error);
}
