// Waiting without a lock on the fast path: a thread that waits spins shortly, then sleeps on one of
// a few condition variables, chosen by the address of what it waits for.
#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

#include "kit_state.h"

enum { BUCKETS = 64, SPINS = 2000, TRIES = 50 };  // TRIES: who spins may be about to end.

typedef struct bucket {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  _Atomic uint32_t waiters;
  char pad[64];
} bucket;

static bucket buckets[BUCKETS];
static pthread_once_t once = PTHREAD_ONCE_INIT;
static long processors = 1;
static _Atomic long spinning;

static void start(void) {
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  for (int i = 0; i < BUCKETS; ++i) {
    pthread_mutex_init(&buckets[i].lock, NULL);
    pthread_cond_init(&buckets[i].changed, &attributes);
  }
  pthread_condattr_destroy(&attributes);
  processors = sysconf(_SC_NPROCESSORS_ONLN);
}

static bucket *bucket_of(const void *key) {
  uint64_t mixed = (uint64_t)(uintptr_t)key * UINT64_C(0x9E3779B97F4A7C15);
  return &buckets[mixed >> 58];
}

uint64_t kit_monotonic_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t kit_deadline(uint64_t timeout_ns) {
  uint64_t now = timeout_ns == 0 ? 0 : kit_monotonic_ns();
  return timeout_ns >= INT64_MAX - now ? KIT_FOREVER : now + timeout_ns;
}

static void pause_shortly(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#else
  sched_yield();
#endif
}

long kit_processors(void) {
  pthread_once(&once, start);
  return processors;
}

bool kit_spin(bool (*ready)(void *context), void *context) {
  pthread_once(&once, start);
  if (ready(context)) {
    return true;
  }
  bool found = false, counted = false;
  for (int i = 0; i < SPINS && !found && (counted || i < TRIES); ++i) {
    if (!counted && !(counted = atomic_fetch_add(&spinning, 1) < processors - 1)) {
      atomic_fetch_sub(&spinning, 1);  // One processor stays for the work.
    }
    pause_shortly();
    found = ready(context);
  }
  if (counted) {
    atomic_fetch_sub(&spinning, 1);
  }
  return found;
}

bool kit_sleep(bool (*ready)(void *context), void *context, const void *key, uint64_t deadline_ns) {
  pthread_once(&once, start);
  bucket *mine = bucket_of(key);
  struct timespec until = {(time_t)(deadline_ns / 1000000000u), (long)(deadline_ns % 1000000000u)};
  pthread_mutex_lock(&mine->lock);
  atomic_fetch_add(&mine->waiters, 1);
  bool found = false;
  int slept = 0;
  while (!(found = ready(context)) && slept != ETIMEDOUT) {
    slept = deadline_ns == KIT_FOREVER
                ? pthread_cond_wait(&mine->changed, &mine->lock)
                : pthread_cond_timedwait(&mine->changed, &mine->lock, &until);
  }
  atomic_fetch_sub(&mine->waiters, 1);
  pthread_mutex_unlock(&mine->lock);
  return found;
}

bool kit_wait(bool (*ready)(void *context), void *context, const void *key, uint64_t deadline_ns) {
  if (deadline_ns == 0) {
    return ready(context);
  }
  return kit_spin(ready, context) || kit_sleep(ready, context, key, deadline_ns);
}

void kit_wake(const void *key) {
  bucket *mine = bucket_of(key);
  if (atomic_load(&mine->waiters) != 0) {
    pthread_mutex_lock(&mine->lock);
    pthread_cond_broadcast(&mine->changed);
    pthread_mutex_unlock(&mine->lock);
  }
}
