// Collectives between ranks of one process. A rank's thread waits until the others have come, and
// the last one does the work when all their streams are idle.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ranks.h"

enum { CIRCLES = 64, RANKS = 1024, JOINS = 64 };

typedef struct member {
  circle *circle;  // NULL: the place is free.
  uint32_t rank;
  uint32_t generation;
} member;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static circle circles[CIRCLES];
static member members[RANKS];

// What this thread's group holds.
static _Thread_local struct {
  int depth;
  part *parts, **end;
  uint32_t join_count;
  struct {
    circle *circle;
    hal_comm comm, *out_comm;
  } joins[JOINS];
} group;

int32_t mutant_unique_id(hal_unique_id *out_id) {
  static atomic_ullong count;
  uint64_t words[2] = {atomic_fetch_add(&count, 1) + 1, kit_monotonic_ns()};
  memset(out_id, 0, sizeof(*out_id));
  memcpy(out_id->data, words, sizeof(words));
  return HAL_OK;
}

// ---- members ----

// Calls with the lock held; NULL, and the error record, for a stale handle.
static member *find(hal_comm comm) {
  uint64_t index = (comm & 0xFFFFu) - 1;
  member *found = comm != 0 && index < RANKS ? &members[index] : NULL;
  if (found == NULL || found->circle == NULL || found->generation != comm >> 16) {
    kit_fail(HAL_ERROR_INVALID_HANDLE, "no communicator has the handle %llx",
             (unsigned long long)comm);
    return NULL;
  }
  return found;
}

static circle *find_circle(const hal_comm_desc *desc) {
  circle *empty = NULL;
  for (int i = 0; i < CIRCLES; ++i) {
    if (circles[i].is_used && memcmp(&circles[i].id, &desc->id, sizeof(desc->id)) == 0) {
      return &circles[i];
    }
    empty = circles[i].is_used ? empty : &circles[i];
  }
  if (empty != NULL) {
    *empty = (circle){.id = desc->id,
                      .is_used = 1,
                      .rank_count = desc->rank_count,
                      .timeout_ns = desc->timeout_ns};
  }
  return empty;
}

static hal_comm add_member(circle *to, uint32_t rank) {
  static uint32_t generation = 1;
  for (uint32_t i = 0; i < RANKS; ++i) {
    if (members[i].circle == NULL) {
      members[i] = (member){to, rank, ++generation};
      ++to->joined;
      return (uint64_t)generation << 16 | (i + 1);
    }
  }
  return 0;
}

// ---- waiting ----

// Waits with the lock held until `ready` holds; false when the circle's time is over.
static int wait_until(const int *ready, const uint32_t *joined, const circle *of) {
  struct timespec end;
  clock_gettime(CLOCK_REALTIME, &end);
  uint64_t limit = of->timeout_ns < 60000000000u ? of->timeout_ns : 60000000000u;
  uint64_t nanoseconds = (uint64_t)end.tv_nsec + limit % 1000000000u;
  end.tv_sec += (time_t)(limit / 1000000000u + nanoseconds / 1000000000u);
  end.tv_nsec = (long)(nanoseconds % 1000000000u);
  if (is_fault(68) && ready != NULL) {
    end.tv_sec += 3600;  // M68: the end never comes.
  }
  int problem = 0;
  while (problem == 0 && !(ready != NULL ? *ready : *joined >= of->rank_count)) {
    problem = pthread_cond_timedwait(&changed, &lock, &end);
  }
  return problem == 0;
}

static void finish(part *one, int32_t status) {
  one->status = status;
  one->is_done = 1;
}

// Ends everything of a circle with a status.
static void fail_circle(circle *of, int32_t status) {
  of->status = of->status == HAL_OK ? status : of->status;
  for (uint32_t rank = 0; rank < of->rank_count; ++rank) {
    for (part *one = of->first[rank]; one != NULL; one = one->next) {
      finish(one, status);
    }
    of->first[rank] = NULL;
  }
  pthread_cond_broadcast(&changed);
}

// ---- doing the work ----

static void take_off(circle *of, part *one) {
  for (part **at = &of->first[one->rank]; *at != NULL; at = &(*at)->next) {
    if (*at == one) {
      *at = one->next;
      return;
    }
  }
}

static int32_t make_idle(const part *one) {
  return kit_stream_synchronize(one->stream, one->circle->timeout_ns);
}

static int do_message(circle *of, part *from) {
  for (part *to = of->first[from->desc.peer]; to != NULL; to = to->next) {
    if (to->verb == RECV && to->desc.peer == from->rank) {
      int32_t status = make_idle(from);
      status = status != HAL_OK ? status : make_idle(to);
      if (status == HAL_OK) {
        mutant_message(from, to);
      }
      take_off(of, from);
      take_off(of, to);
      finish(from, status);
      finish(to, status);
      return 1;
    }
  }
  return 0;
}

static int do_round(circle *of) {
  part *parts[RANKS_MOST];
  int32_t status = HAL_OK;
  for (uint32_t rank = 0; rank < of->rank_count; ++rank) {
    parts[rank] = of->first[rank];
    if (parts[rank] == NULL || parts[rank]->verb >= SEND) {
      return 0;
    }
  }
  for (uint32_t rank = 0; rank < of->rank_count && status == HAL_OK; ++rank) {
    status = make_idle(parts[rank]);
  }
  status = status == HAL_OK ? mutant_compute(parts, of->rank_count) : status;
  for (uint32_t rank = 0; rank < of->rank_count; ++rank) {
    take_off(of, parts[rank]);
    finish(parts[rank], status);
  }
  return 1;
}

static void progress(circle *of) {
  int moved = 1;
  while (moved) {
    moved = do_round(of);
    for (uint32_t rank = 0; rank < of->rank_count && !moved; ++rank) {
      part *head = of->first[rank];
      for (part *one = head; one != NULL && one->verb >= SEND && !moved; one = one->next) {
        moved = one->verb == SEND && do_message(of, one);
      }
    }
  }
  pthread_cond_broadcast(&changed);
}

static void give(part *one) {
  part **at = &one->circle->first[one->rank];
  while (*at != NULL) {
    at = &(*at)->next;
  }
  if (one->circle->status == HAL_OK) {
    *at = one;
    progress(one->circle);
  } else {
    finish(one, one->circle->status);
  }
}

// Gives parts to their circles, does what can be done, and waits for the rest.
static int32_t run(part *parts) {
  int32_t status = HAL_OK;
  pthread_mutex_lock(&lock);
  for (part *one = parts; one != NULL; one = one->following) {
    give(one);
  }
  for (part *one = parts; one != NULL; one = one->following) {
    if (!one->is_done && !wait_until(&one->is_done, NULL, one->circle)) {
      fail_circle(one->circle, HAL_ERROR_TIMEOUT);
    }
    status = status == HAL_OK ? one->status : status;
  }
  pthread_mutex_unlock(&lock);
  return status == HAL_OK ? status : kit_fail(status, "a collective ended with %d", status);
}

// ---- calls ----

static unsigned char *place_of(const hal_memory_ref *ref, uint64_t bytes, int32_t *status) {
  hal_memory_facts facts = {.size = sizeof(facts)};
  uint64_t native = 0;
  if (*status != HAL_OK) {
    return NULL;
  }
  *status = kit_memory_info(ref->memory, &facts);
  if (*status == HAL_OK && (ref->bytes < bytes || ref->offset_bytes > facts.bytes ||
                            ref->bytes > facts.bytes - ref->offset_bytes)) {
    *status = kit_fail(HAL_ERROR_OUT_OF_RANGE, "a range of %llu bytes for %llu",
                       (unsigned long long)ref->bytes, (unsigned long long)bytes);
  }
  if (*status == HAL_OK) {
    *status = kit_memory_native_handle(ref->memory, &native);
  }
  return (unsigned char *)(uintptr_t)native + ref->offset_bytes;
}

// Checks a call and finds its memory.
static int32_t prepare(hal_comm comm, part *one) {
  pthread_mutex_lock(&lock);
  member *mine = find(comm);
  if (mine != NULL) {
    one->circle = mine->circle;
    one->rank = mine->rank;
  }
  pthread_mutex_unlock(&lock);
  if (mine == NULL || kit_stream_query(one->stream) == HAL_ERROR_INVALID_HANDLE) {
    return HAL_ERROR_INVALID_HANDLE;
  }
  uint64_t bytes = one->desc.count * vil_dtype_bytes(one->desc.dtype);
  uint64_t whole = bytes * one->circle->rank_count;
  int names_peer = one->verb == BROADCAST || one->verb >= SEND;
  if (names_peer && one->desc.peer >= one->circle->rank_count) {
    return kit_fail(HAL_ERROR_OUT_OF_RANGE, "peer %u of %u ranks", one->desc.peer,
                    one->circle->rank_count);
  }
  int32_t status = HAL_OK;
  if (one->verb != RECV && !(one->verb == BROADCAST && one->desc.peer != one->rank)) {
    int is_whole = one->verb == REDUCE_SCATTER || one->verb == ALL_TO_ALL;
    one->source = place_of(&one->desc.source, is_whole ? whole : bytes, &status);
  }
  if (one->verb != SEND) {
    int is_whole = one->verb == ALL_GATHER || one->verb == ALL_TO_ALL;
    one->target = place_of(&one->desc.target, is_whole ? whole : bytes, &status);
  }
  return status;
}

static void free_parts(part *parts) {
  for (part *next; parts != NULL; parts = next) {
    next = parts->following;
    free(parts);
  }
}

static int32_t enqueue(int verb, hal_comm comm, hal_stream stream,
                       const hal_collective_desc *desc) {
  part *one = calloc(1, sizeof(*one));
  if (one == NULL) {
    return kit_fail(HAL_ERROR_OUT_OF_MEMORY, "no host memory");
  }
  one->verb = verb;
  one->stream = stream;
  one->desc = *desc;
  int32_t status = prepare(comm, one);
  if (status == HAL_OK && group.depth > 0) {
    group.end = group.parts == NULL ? &group.parts : group.end;
    *group.end = one;
    group.end = &one->following;
    return HAL_OK;
  }
  status = status == HAL_OK ? run(one) : status;
  free(one);
  return mutant_note(status);
}

#define COLLECTIVE(name, verb)                                                               \
  int32_t mutant_##name(hal_comm comm, hal_stream stream, const hal_collective_desc *desc) { \
    return enqueue(verb, comm, stream, desc);                                                \
  }
COLLECTIVE(all_reduce, ALL_REDUCE)
COLLECTIVE(all_gather, ALL_GATHER)
COLLECTIVE(reduce_scatter, REDUCE_SCATTER)
COLLECTIVE(broadcast, BROADCAST)
COLLECTIVE(all_to_all, ALL_TO_ALL)
COLLECTIVE(send, SEND)
COLLECTIVE(recv, RECV)

// ---- communicators and groups ----

// Waits for the ranks that are still missing, with the lock held.
static int32_t join(circle *to, hal_comm comm, hal_comm *out_comm) {
  pthread_cond_broadcast(&changed);
  if (!wait_until(NULL, &to->joined, to)) {
    members[(comm & 0xFFFFu) - 1].circle = NULL;
    --to->joined;
    to->is_used = to->joined != 0;
    return kit_fail(HAL_ERROR_TIMEOUT, "a rank stays away");
  }
  *out_comm = comm;
  return HAL_OK;
}

int32_t mutant_comm_create(hal_device device, const hal_comm_desc *desc, hal_comm *out_comm) {
  int64_t bytes = 0;
  if (kit_device_get_i64(device, "device.memory_bytes", &bytes) != HAL_OK) {
    return HAL_ERROR_INVALID_HANDLE;
  }
  pthread_mutex_lock(&lock);
  circle *to = desc->rank_count <= RANKS_MOST ? find_circle(desc) : NULL;
  hal_comm comm = to == NULL ? 0 : add_member(to, desc->rank);
  int32_t status = HAL_OK;
  if (comm == 0) {
    status = kit_fail(HAL_ERROR_OUT_OF_MEMORY, "no room for a rank");
  } else if (group.depth > 0 && group.join_count < JOINS) {
    group.joins[group.join_count].circle = to;
    group.joins[group.join_count].comm = comm;
    group.joins[group.join_count++].out_comm = out_comm;
  } else {
    status = join(to, comm, out_comm);
  }
  pthread_mutex_unlock(&lock);
  return status;
}

int32_t mutant_comm_destroy(hal_comm comm) {
  pthread_mutex_lock(&lock);
  member *mine = find(comm);
  if (mine != NULL) {
    circle *of = mine->circle;
    mine->circle = NULL;
    of->is_used = ++of->left < of->joined;
  }
  pthread_mutex_unlock(&lock);
  return mine == NULL ? HAL_ERROR_INVALID_HANDLE : HAL_OK;
}

int32_t mutant_group_begin(void) {
  ++group.depth;
  return HAL_OK;
}

int32_t mutant_group_end(void) {
  if (group.depth == 0) {
    return kit_fail(HAL_ERROR_INVALID_STATE, "no group is open");
  }
  if (--group.depth > 0) {
    return HAL_OK;
  }
  int32_t status = HAL_OK;
  pthread_mutex_lock(&lock);
  for (uint32_t i = 0; i < group.join_count && status == HAL_OK; ++i) {
    status = join(group.joins[i].circle, group.joins[i].comm, group.joins[i].out_comm);
  }
  group.join_count = 0;
  pthread_mutex_unlock(&lock);
  part *parts = group.parts;
  group.parts = NULL;
  if (status == HAL_OK && parts != NULL) {
    status = run(parts);
  }
  free_parts(parts);
  return mutant_note(status);
}

int32_t mutant_abort(hal_comm comm) {
  pthread_mutex_lock(&lock);
  member *mine = find(comm);
  if (mine != NULL) {
    fail_circle(mine->circle, HAL_ERROR_PEER_FAILED);
  }
  pthread_mutex_unlock(&lock);
  return mine == NULL ? HAL_ERROR_INVALID_HANDLE : HAL_OK;
}

int32_t mutant_async_error(hal_comm comm, int32_t *out_status) {
  pthread_mutex_lock(&lock);
  member *mine = find(comm);
  if (mine != NULL) {
    *out_status = mine->circle->status;
  }
  pthread_mutex_unlock(&lock);
  return mine == NULL ? HAL_ERROR_INVALID_HANDLE : HAL_OK;
}
