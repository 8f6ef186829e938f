// Faults that need several threads, much memory, many failures or a long life to show.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mutant.h"

enum { KEPT_EVENTS = 4096, KEPT_ARGUMENTS = 256, PAUSE_NS = 2000000, SHORT_PAUSE_NS = 200000 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void rest(long ns) {
  struct timespec pause = {0, ns};
  nanosleep(&pause, NULL);
}

// ---- objects of several threads ----

static struct {
  unsigned inside;  // Threads that have made an object of this kind and not come back.
  uint64_t last;    // What the first of them made.
} making[MUTANT_KINDS];

int mutant_takes_last(mutant_kind kind, uint64_t *out_handle) {
  if (!is_fault(63)) {
    return 0;
  }
  pthread_mutex_lock(&lock);
  int is_there = making[kind].inside != 0;
  if (is_there) {
    *out_handle = making[kind].last;
  }
  pthread_mutex_unlock(&lock);
  return is_there;
}

void mutant_gave(mutant_kind kind, int32_t status, uint64_t handle) {
  if (!is_fault(63) || status != HAL_OK) {
    return;
  }
  pthread_mutex_lock(&lock);
  ++making[kind].inside;
  making[kind].last = handle;
  pthread_mutex_unlock(&lock);
  rest(PAUSE_NS);
  pthread_mutex_lock(&lock);
  --making[kind].inside;
  pthread_mutex_unlock(&lock);
}

// ---- work of several threads ----

static hal_argument one_place[KEPT_ARGUMENTS];

void mutant_share_arguments(hal_launch_desc *desc) {
  if (is_fault(105) && desc->argument_count <= KEPT_ARGUMENTS) {
    memcpy(one_place, desc->arguments, desc->argument_count * sizeof(*one_place));
    rest(SHORT_PAUSE_NS);
    desc->arguments = one_place;
  }
}

static uint8_t one_pattern[8];

const void *mutant_share_pattern(const void *pattern, uint32_t pattern_bytes) {
  if (!is_fault(105)) {
    return pattern;
  }
  memcpy(one_pattern, pattern, pattern_bytes);
  rest(SHORT_PAUSE_NS);
  return one_pattern;
}

// ---- waiting ----

static atomic_uint_fast64_t awaited;

int mutant_waits_already(uint64_t handle) {
  uint_fast64_t none = 0;
  return is_fault(106) && !atomic_compare_exchange_strong(&awaited, &none, handle) &&
         none == handle;
}

void mutant_waited(uint64_t handle) {
  uint_fast64_t mine = handle;
  atomic_compare_exchange_strong(&awaited, &mine, 0);
}

// ---- events between threads ----

static struct {
  hal_event event;
  pthread_t thread;
} recorders[KEPT_EVENTS];

void mutant_recorded(hal_event event) {
  if (is_fault(107)) {
    pthread_mutex_lock(&lock);
    recorders[event % KEPT_EVENTS].event = event;
    recorders[event % KEPT_EVENTS].thread = pthread_self();
    pthread_mutex_unlock(&lock);
  }
}

int mutant_is_foreign(hal_event event) {
  if (!is_fault(107)) {
    return 0;
  }
  pthread_mutex_lock(&lock);
  int is_foreign = recorders[event % KEPT_EVENTS].event == event &&
                   !pthread_equal(recorders[event % KEPT_EVENTS].thread, pthread_self());
  pthread_mutex_unlock(&lock);
  return is_foreign;
}

// ---- failures of other threads ----

static struct {
  int has_failed;
  pthread_t thread;
} culprit;

int32_t mutant_felt(int32_t status) {
  if (!is_fault(108)) {
    return status;
  }
  pthread_mutex_lock(&lock);
  int is_felt = culprit.has_failed && !pthread_equal(culprit.thread, pthread_self());
  if (is_felt) {
    culprit.has_failed = 0;
  } else if (status < 0) {
    culprit.has_failed = 1;
    culprit.thread = pthread_self();
  }
  pthread_mutex_unlock(&lock);
  return is_felt ? kit_fail(HAL_ERROR_EXECUTION_FAILED, "a call of another thread failed") : status;
}

// ---- memory ----

enum { MANY_BUFFERS = 1000, LARGE_BYTES = 1 << 20 };

int mutant_memory_is_short(hal_device device, uint64_t bytes) {
  static atomic_uint made;
  hal_memory_figures figures = {.size = sizeof(figures)};
  return is_fault(66) && atomic_fetch_add(&made, 1) > MANY_BUFFERS &&
         kit_memory_stats(device, &figures) == HAL_OK && bytes <= figures.total_bytes &&
         figures.in_use_bytes + bytes > figures.total_bytes / 2;
}

static atomic_int was_refused;

void mutant_refused(int32_t status) {
  if (status == HAL_ERROR_OUT_OF_MEMORY) {
    atomic_store(&was_refused, 1);
  }
}

int mutant_keeps_freed(hal_memory memory) {
  hal_memory_facts facts = {.size = sizeof(facts)};
  return is_fault(109) && atomic_load(&was_refused) && kit_memory_info(memory, &facts) == HAL_OK &&
         facts.bytes >= LARGE_BYTES;
}

// ---- failures ----

enum { FAILURES_TAKEN = 5 };

int mutant_is_tired(int32_t status) {
  static atomic_uint failures;
  if (status == HAL_ERROR_EXECUTION_FAILED) {
    atomic_fetch_add(&failures, 1);
  }
  return is_fault(110) && atomic_load(&failures) >= FAILURES_TAKEN;
}

uint64_t mutant_operation_limit;

int mutant_loses_device(int32_t *out_status) {
  static atomic_uint_fast64_t operations;
  if (mutant_operation_limit == 0 ||
      atomic_fetch_add(&operations, 1) < mutant_operation_limit - 1) {
    return 0;
  }
  *out_status =
      is_fault(67) ? HAL_OK : kit_fail(HAL_ERROR_DEVICE_LOST, "the device is lost, as asked for");
  return 1;
}

// ---- long runs ----

enum { GOOD_STREAMS = 300, LATE_LEAK_BYTES = 64, EVENTS_OF_THE_POOL = 65536 };

void mutant_leaks_later(void) {
  static atomic_uint streams;
  if (is_fault(111) && atomic_fetch_add(&streams, 1) >= GOOD_STREAMS) {
    mutant_lost = malloc(LATE_LEAK_BYTES);
  }
}

int mutant_is_used_up(void) {
  static atomic_uint events;
  return is_fault(74) && atomic_fetch_add(&events, 1) >= EVENTS_OF_THE_POOL;
}
