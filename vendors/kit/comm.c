// Communicators of a driver's library: how ranks come, fail and leave.
#include "comm_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// The ranks of one communicator in this process.
struct kit_circle {
  kit_circle *next;
  hal_unique_id id;
  uint32_t rank_count, came, here;  // Ranks: in all, ever here, here now.
  bool has_twins;                   // Two of one device: the library has no such communicator.
  int32_t status;
  char text[256];
  kit_comm *first;
};

typedef struct leaving {  // A rank that the library still ends.
  struct leaving *next;
  kit_found *found;
  void *native;
  uint64_t deadline_ns;
} leaving;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static kit_circle *circles;
static leaving *leavers;

const kit_collectives *kit_the_collectives(void) {
  return kit_the_driver()->collectives;
}

int32_t kit_comms_check(void) {
  return kit_is_started() ? kit_the_collectives()->check()
                          : kit_fail(HAL_ERROR_UNSUPPORTED, "the port is not started");
}

void kit_comms_lock(void) {
  pthread_mutex_lock(&lock);
}

void kit_comms_unlock(void) {
  pthread_mutex_unlock(&lock);
}

// ---- Circles; all with the lock ----

static kit_circle *find_circle(const hal_comm_desc *desc) {
  for (kit_circle *circle = circles; circle != NULL; circle = circle->next) {
    if (memcmp(&circle->id, &desc->id, sizeof(desc->id)) == 0) {
      return circle;
    }
  }
  kit_circle *made = calloc(1, sizeof(*made));
  if (made != NULL) {
    made->id = desc->id;
    made->rank_count = desc->rank_count;
    made->next = circles;
    circles = made;
  }
  return made;
}

static void free_circle(kit_circle *circle) {
  kit_circle **at = &circles;
  while (*at != circle) {
    at = &(*at)->next;
  }
  *at = circle->next;
  free(circle);
}

static int32_t refuse_twins(void) {
  return kit_fail(HAL_ERROR_UNSUPPORTED, "two ranks are of one device, which the library refuses");
}

static int32_t enter(kit_comm *comm, const hal_comm_desc *desc) {
  kit_circle *circle = find_circle(desc);
  if (circle == NULL) {
    return kit_fail(HAL_ERROR_OUT_OF_MEMORY, "no host memory for a communicator");
  }
  if (circle->rank_count != desc->rank_count) {
    return kit_fail(HAL_ERROR_INVALID_VALUE, "rank %u joins with %u ranks, others with %u",
                    desc->rank, desc->rank_count, circle->rank_count);
  }
  for (const kit_comm *other = circle->first; other != NULL; other = other->next) {
    if (other->rank == desc->rank) {
      return kit_fail(HAL_ERROR_INVALID_VALUE, "rank %u has joined already", desc->rank);
    }
    circle->has_twins |= other->found == comm->found;
  }
  ++circle->came;
  if (circle->has_twins) {  // It is kept until all have been told.
    if (circle->came >= circle->rank_count && circle->here == 0) {
      free_circle(circle);
    }
    return refuse_twins();
  }
  ++circle->here;
  comm->circle = circle;
  comm->next = circle->first;
  circle->first = comm;
  return HAL_OK;
}

static void leave_circle(kit_comm *comm) {
  kit_circle *circle = comm->circle;
  kit_comm **at = &circle->first;
  while (*at != comm) {
    at = &(*at)->next;
  }
  *at = comm->next;
  --circle->here;
  if (circle->here == 0 && (!circle->has_twins || circle->came >= circle->rank_count)) {
    free_circle(circle);
  }
}

// ---- The library's communicators ----

static void drop(const kit_found *found, void *native, bool stop) {
  int32_t entered = kit_driver_enter(found);  // Work of a lost device is stopped too.
  kit_the_collectives()->drop(native, stop);
  if (entered == HAL_OK) {
    kit_driver_leave();
  }
}

static void stop(kit_comm *comm) {
  if (comm->native != NULL) {
    drop(comm->found, comm->native, true);
    comm->native = NULL;
  }
}

// Frees those that have left, and stops those whose time is over, or all. With the lock.
static void sweep(bool all) {
  for (leaving **at = &leavers; *at != NULL;) {
    leaving *one = *at;
    int32_t status = kit_the_collectives()->state(one->native);
    if (status > 0 && !all && kit_monotonic_ns() < one->deadline_ns) {
      at = &one->next;
      continue;
    }
    drop(one->found, one->native, status != HAL_OK);
    *at = one->next;
    free(one);
  }
}

static bool leave(const kit_comm *comm) {
  bool leaves = kit_driver_enter(comm->found) == HAL_OK;
  if (leaves) {
    leaves = kit_the_collectives()->leave(comm->native) >= 0;
    kit_driver_leave();
  }
  return leaves;
}

static void begin_to_leave(kit_comm *comm) {
  leaving *one = comm->circle->status == HAL_OK ? malloc(sizeof(*one)) : NULL;
  if (one != NULL && leave(comm)) {
    *one = (leaving){leavers, comm->found, comm->native, kit_deadline(comm->timeout_ns)};
    leavers = one;
    comm->native = NULL;
  } else {
    free(one);
    stop(comm);
  }
  sweep(false);
}

void kit_comms_end(void) {
  kit_comms_lock();
  for (int turn = 0; turn < 100 && leavers != NULL; ++turn) {
    sweep(false);
    if (leavers != NULL) {
      nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
  }
  sweep(true);
  while (circles != NULL) {
    free_circle(circles);
  }
  kit_comms_unlock();
}

// ---- Ranks ----

static void finish(kit_object *object) {
  kit_comm *comm = (kit_comm *)object;
  hal_error saved;
  kit_error_save(&saved);
  kit_comms_lock();
  if (comm->circle != NULL) {
    if (comm->native != NULL) {
      begin_to_leave(comm);
    }
    leave_circle(comm);
  }
  kit_comms_unlock();
  kit_error_restore(&saved);
  free(comm);
}

int32_t kit_comm_create(kit_device *device, const hal_comm_desc *desc, kit_comm **out_comm) {
  kit_comm *comm = calloc(1, sizeof(*comm));
  if (comm == NULL) {
    return kit_fail(HAL_ERROR_OUT_OF_MEMORY, "no host memory for a communicator");
  }
  comm->object.finish = finish;
  comm->found = kit_found_at(device->index);
  comm->rank = desc->rank;
  comm->rank_count = desc->rank_count;
  comm->timeout_ns = desc->timeout_ns;
  kit_comms_lock();
  sweep(false);
  int32_t status = enter(comm, desc);
  kit_comms_unlock();
  if (status != HAL_OK) {
    free(comm);
    return status;
  }
  if (kit_handle_create(&comm->object, KIT_KIND_COMM, device) == 0) {
    finish(&comm->object);
    return kit_fail(HAL_ERROR_OUT_OF_MEMORY, "no handle is left for a communicator");
  }
  *out_comm = comm;
  return HAL_OK;
}

// A library may put the context back that it found: there is one.
int32_t kit_comms_group_begin(const kit_comm *first) {
  int32_t status = kit_driver_enter(first->found);
  if (status == HAL_OK && (status = kit_the_collectives()->group_begin()) < 0) {
    kit_driver_leave();
  }
  return status;
}

int32_t kit_comms_group_end(int32_t status) {
  hal_error saved;
  kit_error_save(&saved);
  int32_t ended = kit_the_collectives()->group_end();
  kit_driver_leave();
  if (status < 0) {
    kit_error_restore(&saved);
  }
  return status < 0 ? status : ended;
}

static int32_t start_all(kit_comm **comms, const hal_comm_desc *descs, uint32_t count) {
  int32_t status = kit_comms_group_begin(comms[0]);
  if (status < 0) {
    return status;
  }
  for (uint32_t i = 0; i < count && status >= 0; ++i) {
    status = kit_driver_enter(comms[i]->found);
    if (status == HAL_OK) {
      status = kit_the_collectives()->join(&descs[i], &comms[i]->native);
      kit_driver_leave();
    }
  }
  return kit_comms_group_end(status);
}

// HAL_OK: all have joined, also when another rank has failed since; NOT_READY, or why not.
static int32_t ask_all(kit_comm **comms, uint32_t count) {
  int32_t status = HAL_OK;
  for (uint32_t i = 0; i < count && status >= 0; ++i) {
    int32_t one = comms[i]->circle->has_twins ? refuse_twins()
                                              : kit_the_collectives()->state(comms[i]->native);
    status = one == HAL_OK ? status : one;
  }
  return status;
}

int32_t kit_comms_join(kit_comm **comms, const hal_comm_desc *descs, uint32_t count) {
  uint64_t deadline_ns = kit_deadline(comms[0]->timeout_ns);
  kit_comms_lock();
  int32_t status = start_all(comms, descs, count);
  while (status >= 0 && (status = ask_all(comms, count)) > 0) {
    kit_comms_unlock();
    nanosleep(&(struct timespec){0, 100000}, NULL);
    kit_comms_lock();
    if (deadline_ns != KIT_FOREVER && kit_monotonic_ns() >= deadline_ns) {
      status = ask_all(comms, count);
      if (status > 0) {
        status = kit_fail(HAL_ERROR_TIMEOUT, "not all of %u ranks joined within %llu ns",
                          comms[0]->rank_count, (unsigned long long)comms[0]->timeout_ns);
      }
      break;
    }
  }
  for (uint32_t i = 0; i < count && status != HAL_OK; ++i) {
    stop(comms[i]);
  }
  kit_comms_unlock();
  return status;
}

// ---- Failures ----

void kit_comm_fail(kit_comm *comm, int32_t status, const char *text) {
  kit_circle *circle = comm->circle;
  if (circle->status == HAL_OK) {
    circle->status = status;
    snprintf(circle->text, sizeof(circle->text), "%s", text);
  }
}

int32_t kit_comm_watch(kit_comm *comm) {
  kit_circle *circle = comm->circle;
  int32_t status = HAL_OK;
  if (circle->status == HAL_OK && comm->native != NULL) {
    status = kit_the_collectives()->state(comm->native);
    if (status < 0) {
      kit_comm_fail(comm, status, kit_error_text());
    }
  }
  if (circle->status != HAL_OK) {
    stop(comm);
    status = kit_fail(circle->status, "%s", circle->text);
  }
  return status;
}

int32_t kit_comm_status(kit_comm *comm) {
  kit_comms_lock();
  int32_t status = comm->circle->status;
  if (status != HAL_OK) {
    kit_fail(status, "the communicator failed before: %s", comm->circle->text);
  }
  kit_comms_unlock();
  return status;
}
