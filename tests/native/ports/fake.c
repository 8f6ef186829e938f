// A small port for the tests of libhal. It has what tier 1 requires and nothing else, so that
// libhal has all to emulate. It has no threads: work runs at once on the caller's thread, unless it
// waits for an event; then it runs on the thread that completes the event. All is under one lock.
//
// Four devices of 1 MiB. Kernels (by name, whatever the image): `add` buffer i32[], i32 count, i32
// value; `fail`; `mark` buffer i32[1], i32 value, workspace buffer: writes value to both.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "hal/hal.h"

enum {
  DEVICES = 4,
  OBJECTS = 4096,
  DEVICE_BYTES = 1 << 20,
};
enum { FREE, DEVICE, MEMORY, STREAM, EVENT, MODULE };

typedef struct operation {
  struct operation *next;
  enum { COPY, FILL, LAUNCH, RECORD, WAIT } kind;
  hal_copy_desc copy;
  unsigned char *staged;  // Bytes of a host source that the caller may change.
  hal_memory_ref target;
  unsigned char pattern[8];
  uint32_t pattern_bytes;
  uint32_t kernel;
  uint32_t argument_count;
  hal_argument arguments[8];
  uint32_t event;
  uint64_t ticket;
} operation;

typedef struct object {
  int kind;
  uint32_t generation;
  uint32_t device;
  hal_device owner;  // Of a buffer: the device handle that made it.
  unsigned char *bytes;
  uint64_t length;
  operation *first, *last;
  uint64_t enqueued, done;  // Of a stream: operations. Of an event: records made and passed.
  int32_t status;
  uint64_t failed_id;
  uint32_t flags;
  uint32_t mentions;  // Of an event or a buffer: queued operations that name it.
  int is_signalled;
} object;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static object objects[OBJECTS];
static uint32_t object_limit = 1;
static int is_started;
static uint64_t in_use[DEVICES], peak[DEVICES];
static hal_host host;
static _Thread_local hal_error last;

static int32_t answer(int32_t status, const char *text) {
  last.status = status;
  last.operation_id = 0;
  snprintf(last.text, sizeof(last.text), "fake: %s", text);
  return status;
}

// Whether the caller's struct, which may be older, reaches to the end of a field.
#define HAS(given, field) \
  ((given)->size >= (uint64_t)((const char *)(&(given)->field + 1) - (const char *)(given)))

// Takes over a caller's struct as far as it goes; what an older caller lacks is zero.
static void read_struct(void *own, uint64_t own_bytes, const void *given) {
  uint64_t size;
  memcpy(&size, given, sizeof(size));
  memset(own, 0, own_bytes);
  memcpy(own, given, size < own_bytes ? size : own_bytes);
}

// Every refusal of a handle, for short.
static int32_t stale(void) {
  return answer(HAL_ERROR_INVALID_HANDLE, "stale handle");
}

static uint64_t handle_of(const object *one) {
  return (uint64_t)one->generation << 32 | (uint64_t)(one - objects);
}

static object *find(uint64_t handle, int kind) {
  const uint32_t index = (uint32_t)handle;
  if (index == 0 || index >= object_limit) return NULL;
  object *one = &objects[index];
  return one->kind == kind && one->generation == handle >> 32 ? one : NULL;
}

static int is_known(uint64_t handle, int kind) {
  pthread_mutex_lock(&lock);
  const int known = find(handle, kind) != NULL;
  pthread_mutex_unlock(&lock);
  return known;
}

static object *make(int kind, uint32_t device) {
  for (uint32_t i = 1; i < OBJECTS; ++i) {
    if (objects[i].kind != FREE) continue;
    const uint32_t generation = objects[i].generation + 1;
    objects[i] = (object){.kind = kind, .generation = generation, .device = device};
    if (i >= object_limit) object_limit = i + 1;
    return &objects[i];
  }
  return NULL;
}

// A buffer that was freed still serves the operations that were enqueued before.
static unsigned char *range(const hal_memory_ref *ref) {
  object *memory = find(ref->memory, MEMORY);
  if (memory == NULL) memory = find(ref->memory, -MEMORY);
  return memory == NULL ? NULL : memory->bytes + ref->offset_bytes;
}

static int32_t check_range(const hal_memory_ref *ref, uint32_t device) {
  const object *memory = find(ref->memory, MEMORY);
  if (memory == NULL || memory->device != device) return stale();
  if (ref->offset_bytes > memory->length || ref->bytes > memory->length - ref->offset_bytes) {
    return answer(HAL_ERROR_OUT_OF_RANGE, "range beyond the buffer");
  }
  return HAL_OK;
}

static int32_t run_kernel(const operation *op) {
  if (op->kernel == 2) return HAL_ERROR_EXECUTION_FAILED;
  int32_t *data = (int32_t *)(void *)range(&op->arguments[0].buffer);
  const int32_t first = (int32_t)op->arguments[1].scalar;
  if (data == NULL) return HAL_ERROR_EXECUTION_FAILED;
  if (op->kernel == 1) {
    for (int32_t i = 0; i < first; ++i) data[i] += (int32_t)op->arguments[2].scalar;
  } else {
    data[0] = first;
    int32_t *workspace = (int32_t *)(void *)range(&op->arguments[2].buffer);
    if (workspace == NULL) return HAL_ERROR_EXECUTION_FAILED;
    workspace[0] = first;
  }
  return HAL_OK;
}

static int32_t run_copy(const operation *op) {
  const hal_copy_desc *copy = &op->copy;
  if (copy->kind == HAL_COPY_HOST_TO_DEVICE) {
    memcpy(range(&copy->target), op->staged != NULL ? op->staged : copy->host_source,
           copy->target.bytes);
  } else if (copy->kind == HAL_COPY_DEVICE_TO_HOST) {
    memcpy(copy->host_target, range(&copy->source), copy->source.bytes);
  } else {
    memmove(range(&copy->target), range(&copy->source), copy->target.bytes);
  }
  return HAL_OK;
}

static void drop(object *one) {
  if (one->kind == MEMORY || one->kind == -MEMORY) in_use[one->device] -= one->length;
  free(one->bytes);
  one->bytes = NULL;
  while (one->first != NULL) {
    operation *op = one->first;
    one->first = op->next;
    free(op->staged);
    free(op);
  }
  one->kind = FREE;
}

static void mention(uint64_t handle, int step) {
  object *one = &objects[(uint32_t)handle % OBJECTS];
  one->mentions += (uint32_t)step;
  if (one->mentions == 0 && (one->kind == -MEMORY || one->kind == -EVENT)) drop(one);
}

// Counts (step 1) or forgets (step −1) what an operation names.
static void mention_all(const operation *op, int step) {
  if (op->kind == WAIT || op->kind == RECORD) mention(op->event, step);
  if (op->kind == FILL) mention(op->target.memory, step);
  if (op->kind == COPY && op->copy.kind != HAL_COPY_HOST_TO_DEVICE) {
    mention(op->copy.source.memory, step);
  }
  if (op->kind == COPY && op->copy.kind != HAL_COPY_DEVICE_TO_HOST) {
    mention(op->copy.target.memory, step);
  }
  for (uint32_t i = 0; op->kind == LAUNCH && i < op->argument_count; ++i) {
    if (op->arguments[i].kind == HAL_ARGUMENT_BUFFER) {
      mention(op->arguments[i].buffer.memory, step);
    }
  }
}

// Runs the first operation of a stream; 0 when it must wait.
static int run_first(object *stream) {
  operation *op = stream->first;
  int32_t status = HAL_OK;
  if (op->kind == WAIT) {
    const object *event = &objects[op->event];
    if ((event->flags & HAL_EVENT_FLAG_HOST) != 0 ? !event->is_signalled
                                                  : event->done < op->ticket) {
      return 0;
    }
    status = event->status;
  } else if (op->kind == RECORD) {
    objects[op->event].done = op->ticket;
    objects[op->event].status = stream->status;
  } else if (stream->status == HAL_OK) {
    if (op->kind == COPY) status = run_copy(op);
    if (op->kind == LAUNCH) status = run_kernel(op);
    if (op->kind == FILL) {
      unsigned char *bytes = range(&op->target);
      for (uint64_t i = 0; i < op->target.bytes; ++i) bytes[i] = op->pattern[i % op->pattern_bytes];
    }
  }
  mention_all(op, -1);
  stream->done += 1;
  if (status != HAL_OK && stream->status == HAL_OK) {
    stream->status = status;
    stream->failed_id = stream->done;
  }
  stream->first = op->next;
  if (stream->first == NULL) stream->last = NULL;
  free(op->staged);
  free(op);
  return 1;
}

static void progress(void) {
  for (int moved = 1; moved;) {
    moved = 0;
    for (uint32_t i = 1; i < object_limit; ++i) {
      object *one = &objects[i];
      while ((one->kind == STREAM || one->kind == -STREAM) && one->first != NULL &&
             run_first(one)) {
        moved = 1;
      }
      if (one->kind == -STREAM && one->first == NULL) one->kind = FREE;
    }
  }
  pthread_cond_broadcast(&changed);
}

static int32_t failure(const object *stream) {
  answer(stream->status, "an operation failed");
  last.operation_id = stream->failed_id;
  return stream->status;
}

static int32_t enqueue(object *stream, const operation *work) {
  if (stream->status != HAL_OK) return failure(stream);
  operation *op = malloc(sizeof(*op));
  if (op == NULL) return answer(HAL_ERROR_OUT_OF_MEMORY, "host memory");
  *op = *work;
  op->next = NULL;
  if (stream->last != NULL) stream->last->next = op;
  if (stream->first == NULL) stream->first = op;
  stream->last = op;
  stream->enqueued += 1;
  mention_all(op, 1);
  progress();
  return HAL_OK;
}

static int32_t port_init(const hal_host *given) {
  if (is_started) return answer(HAL_ERROR_INVALID_STATE, "started already");
  if (given->options != NULL && strstr(given->options, "refuse=1") != NULL) {
    return answer(HAL_ERROR_NOT_FOUND, "no chip here");
  }
  read_struct(&host, sizeof(host), given);
  is_started = 1;
  if (host.log != NULL) host.log(host.user, HAL_LOG_INFO, "fake port started");
  return HAL_OK;
}

static int32_t port_shutdown(uint64_t timeout_ns) {
  (void)timeout_ns;
  if (!is_started) return answer(HAL_ERROR_INVALID_STATE, "not started");
  pthread_mutex_lock(&lock);
  for (uint32_t i = 1; i < object_limit; ++i) {
    if (objects[i].kind != FREE) drop(&objects[i]);
  }
  is_started = 0;
  pthread_mutex_unlock(&lock);
  return HAL_OK;
}

static int32_t port_get_info(uint32_t key, uint64_t capacity, char *out_text, uint64_t *out_bytes) {
  if (key != HAL_PORT_INFO_NAME) return answer(HAL_ERROR_NOT_FOUND, "unknown key");
  if (capacity != 0) snprintf(out_text, capacity, "fake");
  *out_bytes = 5;
  return HAL_OK;
}

static int32_t port_device_count(uint32_t *out_count) {
  *out_count = DEVICES;
  return HAL_OK;
}

static int32_t port_last_error(hal_error *out_error) {
  const uint64_t size = out_error->size;
  memcpy(out_error, &last, size < sizeof(last) ? size : sizeof(last));
  out_error->size = size;
  return HAL_OK;
}

static int32_t device_open(uint32_t index, hal_device *out_device) {
  if (index >= DEVICES) return answer(HAL_ERROR_OUT_OF_RANGE, "device index");
  pthread_mutex_lock(&lock);
  object *device = make(DEVICE, index);
  if (device != NULL) *out_device = handle_of(device);
  pthread_mutex_unlock(&lock);
  return device == NULL ? answer(HAL_ERROR_OUT_OF_MEMORY, "objects") : HAL_OK;
}

static int32_t device_close(hal_device device, uint64_t timeout_ns) {
  (void)timeout_ns;
  pthread_mutex_lock(&lock);
  object *one = find(device, DEVICE);
  if (one != NULL) one->kind = FREE;
  pthread_mutex_unlock(&lock);
  return one == NULL ? stale() : HAL_OK;
}

static int32_t device_get_i64(hal_device device, const char *key, int64_t *out_value) {
  if (!is_known(device, DEVICE)) return stale();
  if (strcmp(key, "device.memory_bytes") == 0) {
    *out_value = DEVICE_BYTES;
  } else if (strcmp(key, "device.offset_alignment_bytes") == 0) {
    *out_value = 4;
  } else {
    return answer(HAL_ERROR_NOT_FOUND, "unknown key");
  }
  return HAL_OK;
}

static int32_t memory_alloc(hal_device device, const hal_memory_desc *desc,
                            hal_memory *out_memory) {
  pthread_mutex_lock(&lock);
  int32_t status = HAL_OK;
  object *owner = find(device, DEVICE), *one = NULL;
  if (owner == NULL) {
    status = stale();
  } else if (desc->bytes > DEVICE_BYTES - in_use[owner->device] ||
             (one = make(MEMORY, owner->device)) == NULL) {
    status = answer(HAL_ERROR_OUT_OF_MEMORY, "device memory");
  } else {
    one->bytes = calloc(1, desc->bytes);
    one->length = desc->bytes;
    one->owner = device;
    in_use[one->device] += desc->bytes;
    if (in_use[one->device] > peak[one->device]) peak[one->device] = in_use[one->device];
    *out_memory = handle_of(one);
  }
  pthread_mutex_unlock(&lock);
  return status;
}

static int32_t memory_free(hal_memory memory) {
  pthread_mutex_lock(&lock);
  object *one = find(memory, MEMORY);
  if (one != NULL) {
    one->kind = -MEMORY;
    if (one->mentions == 0) drop(one);
  }
  pthread_mutex_unlock(&lock);
  return one == NULL ? stale() : HAL_OK;
}

static int32_t memory_info(hal_memory memory, hal_memory_facts *out_info) {
  pthread_mutex_lock(&lock);
  const object *one = find(memory, MEMORY);
  if (one != NULL) {
    out_info->bytes = one->length;
    if (HAS(out_info, alignment_bytes)) out_info->alignment_bytes = 16;
    if (HAS(out_info, device)) out_info->device = one->owner;
  }
  pthread_mutex_unlock(&lock);
  return one == NULL ? stale() : HAL_OK;
}

static int32_t memory_stats(hal_device device, hal_memory_figures *out_stats) {
  pthread_mutex_lock(&lock);
  const object *one = find(device, DEVICE);
  if (one != NULL) {
    out_stats->total_bytes = DEVICE_BYTES;
    out_stats->in_use_bytes = in_use[one->device];
    out_stats->peak_bytes = peak[one->device];
  }
  pthread_mutex_unlock(&lock);
  return one == NULL ? stale() : HAL_OK;
}

static int32_t memory_host_alloc(hal_device device, uint64_t bytes, void **out_pointer) {
  if (!is_known(device, DEVICE)) return stale();
  void *pointer = aligned_alloc(64, (bytes + 63) / 64 * 64);
  if (pointer == NULL) return answer(HAL_ERROR_OUT_OF_MEMORY, "host memory");
  *out_pointer = pointer;
  return HAL_OK;
}

static int32_t memory_host_free(hal_device device, void *pointer) {
  if (!is_known(device, DEVICE)) return stale();
  free(pointer);
  return HAL_OK;
}

static int32_t enqueue_copy(object *stream, const hal_copy_desc *desc) {
  operation op = {.kind = COPY};
  read_struct(&op.copy, sizeof(op.copy), desc);
  int32_t status = HAL_OK;
  if (desc->kind != HAL_COPY_HOST_TO_DEVICE) status = check_range(&desc->source, stream->device);
  if (status == HAL_OK && desc->kind != HAL_COPY_DEVICE_TO_HOST) {
    status = check_range(&desc->target, stream->device);
  }
  if (status != HAL_OK) return status;
  if (desc->kind == HAL_COPY_HOST_TO_DEVICE && (desc->flags & HAL_COPY_FLAG_BORROW) == 0) {
    op.staged = malloc(desc->target.bytes + 1);
    if (op.staged == NULL) return answer(HAL_ERROR_OUT_OF_MEMORY, "host memory");
    memcpy(op.staged, desc->host_source, desc->target.bytes);
  }
  status = enqueue(stream, &op);
  if (status != HAL_OK) free(op.staged);
  return status;
}

static int32_t transfer_copy(hal_stream handle, const hal_copy_desc *desc) {
  pthread_mutex_lock(&lock);
  object *stream = find(handle, STREAM);
  const int32_t status = stream == NULL ? stale() : enqueue_copy(stream, desc);
  pthread_mutex_unlock(&lock);
  return status;
}

static int32_t transfer_fill(hal_stream handle, const hal_memory_ref *target, const void *pattern,
                             uint32_t pattern_bytes) {
  pthread_mutex_lock(&lock);
  object *stream = find(handle, STREAM);
  int32_t status = stream == NULL ? stale() : check_range(target, stream->device);
  if (status == HAL_OK) {
    operation op = {.kind = FILL, .target = *target, .pattern_bytes = pattern_bytes};
    memcpy(op.pattern, pattern, pattern_bytes);
    status = enqueue(stream, &op);
  }
  pthread_mutex_unlock(&lock);
  return status;
}

static int32_t stream_create(hal_device device, uint32_t flags, hal_stream *out_stream) {
  (void)flags;
  pthread_mutex_lock(&lock);
  const object *owner = find(device, DEVICE);
  object *one = owner == NULL ? NULL : make(STREAM, owner->device);
  if (one != NULL) *out_stream = handle_of(one);
  pthread_mutex_unlock(&lock);
  return one == NULL ? stale() : HAL_OK;
}

static int32_t stream_destroy(hal_stream handle) {
  pthread_mutex_lock(&lock);
  object *stream = find(handle, STREAM);
  if (stream != NULL) stream->kind = stream->first == NULL ? FREE : -STREAM;
  pthread_mutex_unlock(&lock);
  return stream == NULL ? stale() : HAL_OK;
}

static int32_t stream_query(hal_stream handle) {
  pthread_mutex_lock(&lock);
  const object *stream = find(handle, STREAM);
  int32_t status = HAL_OK;
  if (stream == NULL) {
    status = stale();
  } else if (stream->first != NULL) {
    status = HAL_NOT_READY;
  } else if (stream->status != HAL_OK) {
    status = failure(stream);
  }
  pthread_mutex_unlock(&lock);
  return status;
}

static int wait_change(uint64_t *left_ns) {
  if (*left_ns == 0) return 0;
  struct timespec before, until, after;
  clock_gettime(CLOCK_REALTIME, &before);
  const uint64_t step = *left_ns < 1000000000u ? *left_ns : 1000000000u;
  const uint64_t sum = (uint64_t)before.tv_nsec + step;
  until.tv_sec = before.tv_sec + (time_t)(sum / 1000000000u);
  until.tv_nsec = (long)(sum % 1000000000u);
  pthread_cond_timedwait(&changed, &lock, &until);
  clock_gettime(CLOCK_REALTIME, &after);
  const int64_t spent =
      (after.tv_sec - before.tv_sec) * 1000000000ll + (after.tv_nsec - before.tv_nsec);
  *left_ns -= spent > 0 && (uint64_t)spent < *left_ns ? (uint64_t)spent : spent > 0 ? *left_ns : 0;
  return 1;
}

static int32_t stream_synchronize(hal_stream handle, uint64_t timeout_ns) {
  pthread_mutex_lock(&lock);
  int32_t status;
  for (;;) {
    const object *stream = find(handle, STREAM);
    if (stream == NULL) {
      status = stale();
    } else if (stream->first != NULL) {
      if (wait_change(&timeout_ns)) continue;
      status = answer(HAL_ERROR_TIMEOUT, "the stream is busy");
    } else {
      status = stream->status == HAL_OK ? HAL_OK : failure(stream);
    }
    break;
  }
  pthread_mutex_unlock(&lock);
  return status;
}

static int32_t device_synchronize(hal_device device, uint64_t timeout_ns) {
  pthread_mutex_lock(&lock);
  const object *owner = find(device, DEVICE);
  int32_t status = owner == NULL ? stale() : HAL_OK;
  for (uint32_t i = 1; status == HAL_OK && i < object_limit; ++i) {
    while (objects[i].kind == STREAM && objects[i].device == owner->device &&
           objects[i].first != NULL && status == HAL_OK) {
      if (!wait_change(&timeout_ns)) status = answer(HAL_ERROR_TIMEOUT, "the device is busy");
    }
  }
  pthread_mutex_unlock(&lock);
  return status;
}

static int32_t event_create(hal_device device, uint32_t flags, hal_event *out_event) {
  pthread_mutex_lock(&lock);
  const object *owner = find(device, DEVICE);
  object *one = owner == NULL ? NULL : make(EVENT, owner->device);
  if (one != NULL) {
    one->flags = flags;
    *out_event = handle_of(one);
  }
  pthread_mutex_unlock(&lock);
  return one == NULL ? stale() : HAL_OK;
}

static int is_complete(const object *event) {
  if ((event->flags & HAL_EVENT_FLAG_HOST) != 0) return event->is_signalled;
  return event->done == event->enqueued;
}

// The object stays as long as a queued operation names it.
static int32_t event_destroy(hal_event handle) {
  pthread_mutex_lock(&lock);
  object *event = find(handle, EVENT);
  if (event != NULL) {
    event->kind = event->mentions == 0 ? FREE : -EVENT;
    if ((event->flags & HAL_EVENT_FLAG_HOST) != 0 && !event->is_signalled) {
      event->is_signalled = 1;
      event->status = HAL_ERROR_EXECUTION_FAILED;
      progress();
    }
  }
  pthread_mutex_unlock(&lock);
  return event == NULL ? stale() : HAL_OK;
}

static int32_t event_record(hal_event event_handle, hal_stream handle) {
  pthread_mutex_lock(&lock);
  object *event = find(event_handle, EVENT), *stream = find(handle, STREAM);
  int32_t status;
  if (event == NULL || stream == NULL) {
    status = stale();
  } else if ((event->flags & HAL_EVENT_FLAG_HOST) != 0) {
    status = answer(HAL_ERROR_INVALID_STATE, "a HOST event is not recorded");
  } else {
    event->enqueued += 1;
    const operation op = {
        .kind = RECORD, .event = (uint32_t)(event - objects), .ticket = event->enqueued};
    status = enqueue(stream, &op);
    if (status != HAL_OK) event->enqueued -= 1;
  }
  pthread_mutex_unlock(&lock);
  return status;
}

static int32_t event_query(hal_event handle) {
  pthread_mutex_lock(&lock);
  const object *event = find(handle, EVENT);
  int32_t status = event == NULL ? stale() : is_complete(event) ? event->status : HAL_NOT_READY;
  if (event != NULL && status < 0) answer(status, "the event failed");
  pthread_mutex_unlock(&lock);
  return status;
}

static int32_t event_synchronize(hal_event handle, uint64_t timeout_ns) {
  pthread_mutex_lock(&lock);
  int32_t status;
  for (;;) {
    const object *event = find(handle, EVENT);
    if (event == NULL) {
      status = stale();
    } else if (!is_complete(event)) {
      if (wait_change(&timeout_ns)) continue;
      status = answer(HAL_ERROR_TIMEOUT, "the event is not complete");
    } else {
      status = event->status;
      if (status < 0) answer(status, "the event failed");
    }
    break;
  }
  pthread_mutex_unlock(&lock);
  return status;
}

static int32_t event_signal(hal_event handle, int32_t status) {
  pthread_mutex_lock(&lock);
  object *event = find(handle, EVENT);
  int32_t result = HAL_OK;
  if (event == NULL) {
    result = stale();
  } else if ((event->flags & HAL_EVENT_FLAG_HOST) == 0 || event->is_signalled) {
    result = answer(HAL_ERROR_INVALID_STATE, "not a HOST event or signalled already");
  } else {
    event->is_signalled = 1;
    event->status = status;
    progress();
  }
  pthread_mutex_unlock(&lock);
  return result;
}

static int32_t stream_wait_event(hal_stream handle, hal_event event_handle) {
  pthread_mutex_lock(&lock);
  object *event = find(event_handle, EVENT), *stream = find(handle, STREAM);
  int32_t status;
  if (event == NULL || stream == NULL) {
    status = stale();
  } else {
    const operation op = {
        .kind = WAIT, .event = (uint32_t)(event - objects), .ticket = event->enqueued};
    status = enqueue(stream, &op);
  }
  pthread_mutex_unlock(&lock);
  return status;
}

static int32_t module_load(hal_device device, const hal_module_desc *desc, hal_module *out_module) {
  (void)desc;
  pthread_mutex_lock(&lock);
  const object *owner = find(device, DEVICE);
  object *one = owner == NULL ? NULL : make(MODULE, owner->device);
  if (one != NULL) *out_module = handle_of(one);
  pthread_mutex_unlock(&lock);
  return one == NULL ? stale() : HAL_OK;
}

static int32_t module_unload(hal_module module) {
  pthread_mutex_lock(&lock);
  object *one = find(module, MODULE);
  if (one != NULL) one->kind = FREE;
  pthread_mutex_unlock(&lock);
  return one == NULL ? stale() : HAL_OK;
}

static int32_t module_get_kernel(hal_module module, const char *name, hal_kernel *out_kernel) {
  if (!is_known(module, MODULE)) return stale();
  static const char *names[] = {"add", "fail", "mark"};
  for (uint32_t i = 0; i < 3; ++i) {
    if (strcmp(name, names[i]) != 0) continue;
    *out_kernel = i + 1;
    return HAL_OK;
  }
  return answer(HAL_ERROR_NOT_FOUND, "no such kernel");
}

static int32_t launch_launch(hal_stream handle, hal_kernel kernel, const hal_launch_desc *desc) {
  if (desc->argument_count > 8) return answer(HAL_ERROR_INVALID_VALUE, "too many arguments");
  operation op = {
      .kind = LAUNCH, .kernel = (uint32_t)kernel, .argument_count = desc->argument_count};
  for (uint32_t i = 0; i < desc->argument_count; ++i) op.arguments[i] = desc->arguments[i];
  pthread_mutex_lock(&lock);
  object *stream = find(handle, STREAM);
  int32_t status = stream == NULL || kernel == 0 || kernel > 3 ? stale() : HAL_OK;
  for (uint32_t i = 0; status == HAL_OK && i < desc->argument_count; ++i) {
    if (op.arguments[i].kind == HAL_ARGUMENT_BUFFER) {
      status = check_range(&op.arguments[i].buffer, stream->device);
    }
  }
  if (status == HAL_OK) status = enqueue(stream, &op);
  pthread_mutex_unlock(&lock);
  return status;
}

static const hal_port_table port_table = {
    .size = sizeof(port_table),
    .init = port_init,
    .shutdown = port_shutdown,
    .get_info = port_get_info,
    .device_count = port_device_count,
    .last_error = port_last_error,
};
static const hal_device_table device_table = {
    .size = sizeof(device_table),
    .open = device_open,
    .close = device_close,
    .get_i64 = device_get_i64,
    .synchronize = device_synchronize,
};
static const hal_memory_table memory_table = {
    .size = sizeof(memory_table),
    .alloc = memory_alloc,
    .free = memory_free,
    .info = memory_info,
    .stats = memory_stats,
    .host_alloc = memory_host_alloc,
    .host_free = memory_host_free,
};
static const hal_transfer_table transfer_table = {
    .size = sizeof(transfer_table),
    .copy = transfer_copy,
    .fill = transfer_fill,
};
static const hal_stream_table stream_table = {
    .size = sizeof(stream_table),
    .create = stream_create,
    .destroy = stream_destroy,
    .query = stream_query,
    .synchronize = stream_synchronize,
    .wait_event = stream_wait_event,
};
static const hal_event_table event_table = {
    .size = sizeof(event_table),
    .create = event_create,
    .destroy = event_destroy,
    .record = event_record,
    .query = event_query,
    .synchronize = event_synchronize,
    .signal = event_signal,
};
static const hal_module_table module_table = {
    .size = sizeof(module_table),
    .load = module_load,
    .unload = module_unload,
    .get_kernel = module_get_kernel,
};
static const hal_launch_table launch_table = {
    .size = sizeof(launch_table),
    .launch = launch_launch,
};
static const hal_port_root root = {
    .size = sizeof(root),
    .abi_major = HAL_ABI_MAJOR,
    .abi_minor = HAL_ABI_MINOR,
    .name = "fake",
    .vendor = "tests",
    .version = "1.0",
    .build_id = "",
    .port = &port_table,
    .device = &device_table,
    .memory = &memory_table,
    .transfer = &transfer_table,
    .stream = &stream_table,
    .event = &event_table,
    .module = &module_table,
    .launch = &launch_table,
};

HAL_PORT_EXPORT int32_t hal_port_entry(uint32_t host_major, uint32_t host_minor,
                                       const hal_port_root **out_root) {
  (void)host_minor;
  if (host_major != HAL_ABI_MAJOR) return HAL_ERROR_VERSION;
  *out_root = &root;
  return HAL_OK;
}
