// Operations on memory that the host can address; large launches spread over helper threads.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit_state.h"

enum { MOST_THREADS = 256, SPREAD_WORK = 100000 };

// Programs of the launch that one worker begins with, and others take when theirs are done. From
// launch to launch a worker has the same part, so that what it works on is in its caches.
typedef struct part {
  _Alignas(64) _Atomic uint64_t next;
  uint64_t end;
} part;

static struct {
  pthread_mutex_t lock;
  vil_arena *arenas[MOST_THREADS];  // Not in use.
  uint32_t arena_count;
  uint32_t wanted;  // Helper threads.
  uint32_t running;
  pthread_t helpers[MOST_THREADS];
  _Atomic bool stopping;
  const vil_hooks *hooks;
  // The launch that the helpers work on; one at a time, others run on their stream's thread alone.
  bool busy;
  const void *launch;
  uint32_t step;
  uint64_t share;
  uint32_t workers;  // The thread that launches, 0, and the helpers.
  part parts[MOST_THREADS + 1];
  _Atomic bool open;      // Helpers may come in.
  _Atomic uint64_t turn;  // Counts launches, so that a helper joins each once.
  _Atomic uint32_t inside;
  _Atomic int32_t status;
  char reason[400];
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER};

void kit_host_threads(uint32_t count) {
  pool.wanted = count < MOST_THREADS ? count : MOST_THREADS;
}

void kit_host_hooks(const vil_hooks *hooks) {
  pool.hooks = hooks;
}

static vil_arena *take_arena(void) {
  pthread_mutex_lock(&pool.lock);
  vil_arena *arena = pool.arena_count == 0 ? NULL : pool.arenas[--pool.arena_count];
  pthread_mutex_unlock(&pool.lock);
  return arena != NULL ? arena : vil_arena_create();
}

static void give_arena(vil_arena *arena) {
  pthread_mutex_lock(&pool.lock);
  bool kept = pool.arena_count < MOST_THREADS;
  if (kept) {
    pool.arenas[pool.arena_count++] = arena;
  }
  pthread_mutex_unlock(&pool.lock);
  if (!kept) {
    vil_arena_free(arena);
  }
}

static void run_share(uint64_t first, uint64_t count, vil_arena *arena) {
  char reason[400];
  int32_t status = arena == NULL ? HAL_ERROR_EXECUTION_FAILED
                                 : vil_launch_run_range(pool.launch, pool.step, first, count, arena,
                                                        pool.hooks, reason, sizeof(reason));
  if (status != HAL_OK) {
    pthread_mutex_lock(&pool.lock);
    if (atomic_exchange(&pool.status, status) == HAL_OK) {
      memcpy(pool.reason, arena == NULL ? "no host memory" : reason,
             arena == NULL ? 15 : sizeof(reason));
    }
    pthread_mutex_unlock(&pool.lock);
  }
}

// Runs shares of the pool's launch until none is left, its own part's first.
static void work(vil_arena *arena, uint32_t worker) {
  for (uint32_t i = 0; i < pool.workers; ++i) {
    part *from = &pool.parts[(worker + i) % pool.workers];
    uint64_t first;
    while ((first = atomic_fetch_add(&from->next, pool.share)) < from->end &&
           atomic_load(&pool.status) == HAL_OK) {
      run_share(first, from->end - first < pool.share ? from->end - first : pool.share, arena);
    }
  }
}

static bool is_called(void *seen) {
  return atomic_load(&pool.stopping) ||
         (atomic_load(&pool.open) && atomic_load(&pool.turn) != *(const uint64_t *)seen);
}

static bool is_empty(void *unused) {
  (void)unused;
  return atomic_load(&pool.inside) == 0;
}

static bool join(uint64_t *seen) {
  pthread_mutex_lock(&pool.lock);
  bool joined = pool.open;
  if (joined) {
    *seen = pool.turn;
    ++pool.inside;
  }
  pthread_mutex_unlock(&pool.lock);
  return joined;
}

// Waking a thread costs more than a small launch: a helper looks for the next one before it sleeps.
static void *help(void *number) {
  vil_arena *arena = vil_arena_create();
  for (uint64_t seen = 0; !atomic_load(&pool.stopping);) {
    kit_wait(is_called, &seen, &pool.turn, KIT_FOREVER);
    if (join(&seen)) {
      work(arena, (uint32_t)(uintptr_t)number);
      atomic_fetch_sub(&pool.inside, 1);
      kit_wake(&pool.inside);
    }
  }
  vil_arena_free(arena);
  return NULL;
}

// Starts helper threads that are missing; with the pool locked.
static void start_helpers(void) {
  while (pool.running < pool.wanted) {
    void *number = (void *)(uintptr_t)(pool.running + 1);
    if (pthread_create(&pool.helpers[pool.running], NULL, help, number) != 0) {
      break;
    }
    ++pool.running;
  }
}

void kit_host_stop(void) {
  atomic_store(&pool.stopping, true);
  kit_wake(&pool.turn);
  while (pool.running != 0) {
    pthread_join(pool.helpers[--pool.running], NULL);
  }
  pool.stopping = false;
  while (pool.arena_count != 0) {
    vil_arena_free(pool.arenas[--pool.arena_count]);
  }
}

// Runs one step with the helpers; false when they are busy with another launch.
static bool run_spread(const void *launch, uint32_t step, uint64_t programs, vil_arena *arena,
                       int32_t *out_status, char *reason, size_t capacity) {
  pthread_mutex_lock(&pool.lock);
  if (pool.busy) {
    pthread_mutex_unlock(&pool.lock);
    return false;
  }
  start_helpers();
  pool.busy = true;
  pool.launch = launch;
  pool.step = step;
  pool.workers = pool.running + 1;
  pool.share = programs / (pool.workers * 8) + 1;
  for (uint32_t i = 0; i < pool.workers; ++i) {
    atomic_store(&pool.parts[i].next, programs * i / pool.workers);
    pool.parts[i].end = programs * (i + 1) / pool.workers;
  }
  atomic_store(&pool.status, HAL_OK);
  ++pool.turn;
  pool.open = true;
  pthread_mutex_unlock(&pool.lock);
  kit_wake(&pool.turn);
  work(arena, 0);
  pthread_mutex_lock(&pool.lock);
  pool.open = false;
  pthread_mutex_unlock(&pool.lock);
  kit_wait(is_empty, NULL, &pool.inside, KIT_FOREVER);
  pthread_mutex_lock(&pool.lock);
  pool.busy = false;  // Not before: the helpers read the launch here.
  *out_status = atomic_load(&pool.status);
  if (*out_status != HAL_OK) {
    snprintf(reason, capacity, "%s", pool.reason);
  }
  pthread_mutex_unlock(&pool.lock);
  return true;
}

static bool is_worth_spreading(const void *launch) {
  if (pool.wanted == 0) {
    return false;
  }
  uint32_t steps = vil_launch_steps(launch);
  bool several = false;
  for (uint32_t step = 0; step < steps && !several; ++step) {
    several = vil_launch_programs(launch, step) > 1;
  }
  if (!several) {
    return false;
  }
  vil_work amount;
  vil_launch_work(launch, &amount);
  return amount.macs / 4 + amount.vector_elements +
             (amount.bytes_loaded + amount.bytes_stored) / 16 >=
         SPREAD_WORK;
}

static int32_t run_launch(const void *launch) {
  char reason[400] = "";
  vil_arena *arena = take_arena();
  if (arena == NULL) {
    return kit_fail(HAL_ERROR_EXECUTION_FAILED, "no host memory to run a kernel");
  }
  int32_t status = HAL_OK;
  if (!is_worth_spreading(launch)) {
    status = vil_launch_run(launch, arena, pool.hooks, reason, sizeof(reason));
  } else {
    uint32_t steps = vil_launch_steps(launch);
    for (uint32_t step = 0; step < steps && status == HAL_OK; ++step) {
      uint64_t programs = vil_launch_programs(launch, step);
      if (programs < 2 ||
          !run_spread(launch, step, programs, arena, &status, reason, sizeof(reason))) {
        status = vil_launch_run_range(launch, step, 0, programs, arena, pool.hooks, reason,
                                      sizeof(reason));
      }
    }
  }
  give_arena(arena);
  return status == HAL_OK ? status : kit_fail(HAL_ERROR_EXECUTION_FAILED, "%s", reason);
}

static int32_t run_alone(const void *launch, const vil_hooks *hooks) {
  char reason[500] = "";
  vil_arena *arena = take_arena();
  if (arena == NULL) {
    return kit_fail(HAL_ERROR_EXECUTION_FAILED, "no host memory to run a kernel");
  }
  int32_t status = vil_launch_run(launch, arena, hooks, reason, sizeof(reason));
  give_arena(arena);
  return status == HAL_OK ? status : kit_fail(HAL_ERROR_EXECUTION_FAILED, "%s", reason);
}

static void fill(unsigned char *target, uint64_t bytes, const uint8_t *pattern, uint32_t length) {
  if (length == 1) {
    memset(target, pattern[0], bytes);
    return;
  }
  uint64_t done = bytes < length ? bytes : length;
  memcpy(target, pattern, done);
  while (done < bytes) {  // Doubles what is there.
    uint64_t more = bytes - done < done ? bytes - done : done;
    memcpy(target + done, target, more);
    done += more;
  }
}

static uint64_t smaller(uint64_t a, uint64_t b) {
  return a < b ? a : b;
}

static int32_t run(kit_device *device, kit_operation *operation, const vil_hooks *hooks) {
  switch (operation->kind) {
    case KIT_COPY_TO_DEVICE:
      if (operation->target.bytes != 0) {
        memcpy(kit_range_pointer(&operation->target), operation->host_source,
               operation->target.bytes);
      }
      return HAL_OK;
    case KIT_COPY_TO_HOST:
      if (operation->source.bytes != 0) {
        memcpy(operation->host_target, kit_range_pointer(&operation->source),
               operation->source.bytes);
      }
      return HAL_OK;
    case KIT_COPY_ON_DEVICE:
    case KIT_COPY_PEER:
      memmove(kit_range_pointer(&operation->target), kit_range_pointer(&operation->source),
              smaller(operation->source.bytes, operation->target.bytes));
      return HAL_OK;
    case KIT_FILL:
      fill(kit_range_pointer(&operation->target), operation->target.bytes, operation->pattern,
           operation->pattern_bytes);
      return HAL_OK;
    case KIT_LAUNCH:
      return hooks == NULL ? run_launch(operation->launch) : run_alone(operation->launch, hooks);
    case KIT_OPERATOR:
      return kit_the_port()->hooks.operator_run(device, operation->launch);
    default:
      return kit_fail(HAL_ERROR_INTERNAL, "the kit gave the port an operation of kind %u",
                      operation->kind);
  }
}

static int32_t run_opened(kit_device *device, kit_operation *operation, const vil_hooks *hooks) {
  kit_host_open(&operation->target, true);
  kit_host_open(&operation->source, true);
  for (uint32_t i = 0; i < operation->use_count; ++i) {
    kit_host_open(&operation->uses[i], true);
  }
  int32_t status = run(device, operation, hooks);
  for (uint32_t i = 0; i < operation->use_count; ++i) {
    kit_host_open(&operation->uses[i], false);
  }
  kit_host_open(&operation->source, false);
  kit_host_open(&operation->target, false);
  return status;
}

int32_t kit_host_run_with(kit_operation *operation, const vil_hooks *hooks) {
  return run_opened(NULL, operation, hooks);
}

int32_t kit_host_run(kit_device *device, kit_operation *operation) {
  return run_opened(device, operation, NULL);
}
