// Communicators of the loader: how ranks find each other, leave, and tell each other of failures.
#include "comm.h"

#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

enum { RANK_LIMIT = 4096 };

static pthread_mutex_t forming_lock = PTHREAD_MUTEX_INITIALIZER;
static hal_circle *forming;

// ---- Circles and ranks ----

static hal_circle *make_circle(const hal_comm_desc *desc) {
  hal_circle *circle = calloc(1, sizeof(*circle));
  if (circle == NULL) return NULL;
  circle->ranks = calloc(desc->rank_count, sizeof(*circle->ranks));
  circle->has_left = calloc(desc->rank_count, 1);
  circle->sends = calloc(desc->rank_count, sizeof(*circle->sends));
  if (circle->ranks == NULL || circle->has_left == NULL || circle->sends == NULL) {
    free(circle->ranks);
    free(circle->has_left);
    free(circle->sends);
    free(circle);
    return NULL;
  }
  circle->id = desc->id;
  circle->rank_count = desc->rank_count;
  pthread_mutex_init(&circle->lock, NULL);
  pthread_condattr_t clock;
  pthread_condattr_init(&clock);
  pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
  pthread_cond_init(&circle->changed, &clock);
  pthread_condattr_destroy(&clock);
  return circle;
}

static void free_circle(hal_circle *circle) {
  hal_messages_free(circle);
  hal_rounds_free(circle);
  pthread_mutex_destroy(&circle->lock);
  pthread_cond_destroy(&circle->changed);
  free(circle->ranks);
  free(circle->has_left);
  free(circle->sends);
  free(circle);
}

void hal_circle_fail(hal_circle *circle, int32_t status) {
  if (circle->status == HAL_OK) circle->status = status;
  pthread_cond_broadcast(&circle->changed);
}

int hal_circle_wait(hal_circle *circle, uint64_t deadline_ns) {
  const uint64_t limit_ns = UINT64_C(1000000000) * 3600 * 24 * 365;  // A time that all clocks know.
  const uint64_t now = hal_now_ns();
  if (now >= deadline_ns) return 0;
  const uint64_t until_ns = deadline_ns - now < limit_ns ? deadline_ns : now + limit_ns;
  const struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000u),
                                 .tv_nsec = (long)(until_ns % 1000000000u)};
  pthread_cond_timedwait(&circle->changed, &circle->lock, &until);
  return 1;
}

void hal_rank_hold(hal_rank *rank) {
  pthread_mutex_lock(&rank->circle->lock);
  rank->user_count += 1;
  pthread_mutex_unlock(&rank->circle->lock);
}

void hal_rank_drop(hal_rank *rank) {
  hal_circle *circle = rank->circle;
  pthread_mutex_lock(&circle->lock);
  const int is_last_of_rank = --rank->user_count == 0;
  if (is_last_of_rank) circle->user_count -= 1;
  const int is_last = circle->user_count == 0;
  pthread_mutex_unlock(&circle->lock);
  if (is_last_of_rank) free(rank);
  if (is_last) free_circle(circle);
}

// ---- Joining ----

// The forming circle of an id; made when there is none. Caller holds the forming lock.
static hal_circle *find_circle(const hal_comm_desc *desc) {
  for (hal_circle *circle = forming; circle != NULL; circle = circle->next) {
    if (memcmp(&circle->id, &desc->id, sizeof(desc->id)) == 0) return circle;
  }
  hal_circle *circle = make_circle(desc);
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

// ---- Leaving ----

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
  if (HAL_PORT_HAS(emulation, collective_comm_create)) {
    const int32_t status =
        self->next->calls->collective_comm_create(self->next, device, desc, out_comm);
    if (status == HAL_OK) hal_exchange_created(emulation, desc, out_comm);
    if (status != HAL_ERROR_UNSUPPORTED) return status;
  }
  if (hal_group_is_open()) return hal_group_add_rank(emulation, device, desc, out_comm);
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
