// libcuda.so.1 of the fake: see fake.h.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fake.h"

enum { INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, NO_DEVICE = 100 };
enum { INVALID_DEVICE = 101, INVALID_CONTEXT = 201, INVALID_HANDLE = 400, NOT_FOUND = 500 };
enum {
  NOT_READY = 600,
  ILLEGAL_ADDRESS = 700,
  MOST_DEVICES = 8,
  MOST_ARGUMENTS = 1024,
  DEPTH = 16
};

typedef struct block {
  struct block *next;
  char *host;
  size_t bytes;
  int device;
} block;
typedef struct task {
  struct task *next;
  fake_work function;
  char data[];
} task;
typedef struct stream {
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  task *first, **last;
  bool busy, closing;
  int device;
} stream;
typedef struct event {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  uint64_t wanted, done, at_ns;
} event;
typedef struct context {
  int device;
  int references;
} context;
typedef struct function {
  const fake_kernel *kernel;
  int near_max;
} function;
typedef struct module {
  void *library;
  function functions[256];
  const fake_kernel *kernels;
  char *code;  // A real compiler's, kept to be looked at.
  uint64_t code_bytes;
} module;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static block *blocks;
static size_t used[MOST_DEVICES];
static context contexts[MOST_DEVICES];
static bool started;
static int lost;  // The error that ended the device; every call answers it.
static __thread context *stack[DEPTH];
static __thread int depth;

static uint64_t number(const char *name, uint64_t absent) {
  const char *text = getenv(name);
  return text == NULL || *text == '\0' ? absent : strtoull(text, NULL, 10);
}

static int device_count(void) {
  uint64_t count = number("FAKE_CUDA_DEVICES", 1);
  return count > MOST_DEVICES ? MOST_DEVICES : (int)count;
}

int fake_fault(const char *name) {
  static int calls;
  const char *plan = getenv("FAKE_CUDA_FAIL");
  size_t length = strlen(name);
  if (plan == NULL || strncmp(plan, name, length) != 0 || plan[length] != ':') return 0;
  char *end;
  int code = (int)strtol(plan + length + 1, &end, 10);
  int first = *end == ':' ? atoi(end + 1) : 1;
  return __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED) >= first ? code : 0;
}

// What every entry point begins with: injected faults, a lost device, no context.
static int enter(const char *name, bool needs_context) {
  int code = fake_fault(name);
  if (code != 0) return code;
  if (!started) return NOT_INITIALIZED;
  code = __atomic_load_n(&lost, __ATOMIC_ACQUIRE);
  if (code != 0) return code;
  return needs_context && depth == 0 ? INVALID_CONTEXT : 0;
}
#define ENTER(needs_context)                        \
  do {                                              \
    int entered = enter(__func__, (needs_context)); \
    if (entered != 0) return entered;               \
  } while (0)

static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

// ---- Devices ----

FAKE_API int cuInit(unsigned flags) {
  int code = fake_fault(__func__);
  if (code != 0) return code;
  if (device_count() == 0) return NO_DEVICE;
  started = true;
  return flags == 0 ? 0 : INVALID_VALUE;
}

FAKE_API int cuDriverGetVersion(int *version) {
  *version = 13000;
  return 0;
}

FAKE_API int cuGetErrorName(int code, const char **out) {
  *out = code == OUT_OF_MEMORY     ? "CUDA_ERROR_OUT_OF_MEMORY"
         : code == NO_DEVICE       ? "CUDA_ERROR_NO_DEVICE"
         : code == 700             ? "CUDA_ERROR_ILLEGAL_ADDRESS"
         : code == 719             ? "CUDA_ERROR_LAUNCH_FAILED"
         : code == 803             ? "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"
         : code == 34              ? "CUDA_ERROR_STUB_LIBRARY"
         : code == INVALID_CONTEXT ? "CUDA_ERROR_INVALID_CONTEXT"
                                   : "CUDA_ERROR_UNKNOWN";
  return 0;
}

FAKE_API int cuDeviceGetCount(int *count) {
  ENTER(false);
  *count = device_count();
  return 0;
}

FAKE_API int cuDeviceGet(int *device, int ordinal) {
  ENTER(false);
  *device = ordinal;
  return ordinal >= 0 && ordinal < device_count() ? 0 : INVALID_DEVICE;
}

FAKE_API int cuDeviceGetName(char *name, int capacity, int device) {
  ENTER(false);
  snprintf(name, (size_t)capacity, "Fake GPU %d", device);
  return 0;
}

FAKE_API int cuDeviceGetAttribute(int *value, int attribute, int device) {
  ENTER(false);
  (void)device;
  int capability = (int)number("FAKE_CUDA_CAPABILITY", 90);
  switch (attribute) {
    case 13:
      *value = 1500000;
      return 0;
    case 16:
      *value = 4;
      return 0;
    case 32:
      *value = 1;
      return 0;
    case 36:
      *value = 1000000;
      return 0;
    case 37:
      *value = 512;
      return 0;
    case 38:
      *value = 8 << 20;
      return 0;
    case 75:
      *value = capability / 10;
      return 0;
    case 76:
      *value = capability % 10;
      return 0;
    case 97:
      *value = (int)number("FAKE_CUDA_NEAR", 232448);
      return 0;
    default:
      return INVALID_VALUE;
  }
}

FAKE_API int cuDeviceTotalMem_v2(size_t *bytes, int device) {
  ENTER(false);
  (void)device;
  *bytes = number("FAKE_CUDA_MEMORY", UINT64_C(1) << 30);
  return 0;
}

FAKE_API int cuDeviceCanAccessPeer(int *can, int device, int peer) {
  ENTER(false);
  *can = device != peer;
  return 0;
}

FAKE_API int cuDevicePrimaryCtxRetain(context **out, int device) {
  ENTER(false);
  pthread_mutex_lock(&lock);
  contexts[device].device = device;
  ++contexts[device].references;
  pthread_mutex_unlock(&lock);
  *out = &contexts[device];
  return 0;
}

FAKE_API int cuDevicePrimaryCtxRelease_v2(int device) {
  pthread_mutex_lock(&lock);
  int left = --contexts[device].references;
  pthread_mutex_unlock(&lock);
  return left >= 0 ? 0 : INVALID_CONTEXT;
}

FAKE_API int cuCtxPushCurrent_v2(context *pushed) {
  int code = fake_fault(__func__);
  if (code != 0 || pushed == NULL || depth == DEPTH) return code != 0 ? code : INVALID_CONTEXT;
  stack[depth++] = pushed;
  return 0;
}

FAKE_API int cuCtxPopCurrent_v2(context **popped) {
  if (depth == 0) return INVALID_CONTEXT;
  *popped = stack[--depth];
  return 0;
}

// ---- Memory ----

void *fake_host(uint64_t address, size_t bytes) {
  char *host = (char *)(uintptr_t)(address & ~FAKE_TAG);
  void *found = NULL;
  if ((address & FAKE_TAG) == 0) return NULL;
  pthread_mutex_lock(&lock);
  for (block *at = blocks; at != NULL && found == NULL; at = at->next) {
    bool begins = host >= at->host && host <= at->host + at->bytes;
    if (begins && bytes <= (size_t)(at->host + at->bytes - host)) found = host;
  }
  pthread_mutex_unlock(&lock);
  return found;
}

FAKE_API int cuMemAlloc_v2(uint64_t *address, size_t bytes) {
  ENTER(true);
  int device = stack[depth - 1]->device;
  if (bytes == 0) return INVALID_VALUE;
  block *made = malloc(sizeof(*made));
  pthread_mutex_lock(&lock);
  bool fits = bytes <= number("FAKE_CUDA_MEMORY", UINT64_C(1) << 30) - used[device];
  made->host = fits ? aligned_alloc(256, (bytes + 255) & ~(size_t)255) : NULL;
  if (made->host == NULL) {
    pthread_mutex_unlock(&lock);
    free(made);
    return OUT_OF_MEMORY;
  }
  made->bytes = bytes;
  made->device = device;
  made->next = blocks;
  blocks = made;
  used[device] += bytes;
  pthread_mutex_unlock(&lock);
  memset(made->host, 0xCD, bytes < 65536 ? bytes : 65536);  // Fresh memory holds anything.
  *address = (uint64_t)(uintptr_t)made->host | FAKE_TAG;
  return 0;
}

static void wait_idle(stream *queue) {
  pthread_mutex_lock(&queue->lock);
  while (queue->first != NULL || queue->busy) pthread_cond_wait(&queue->changed, &queue->lock);
  pthread_mutex_unlock(&queue->lock);
}

FAKE_API int cuMemFree_v2(uint64_t address) {
  ENTER(true);
  pthread_mutex_lock(&lock);
  block **at = &blocks;
  while (*at != NULL && (uint64_t)(uintptr_t)(*at)->host != (address & ~FAKE_TAG)) {
    at = &(*at)->next;
  }
  block *found = *at;
  if (found != NULL) {
    *at = found->next;
    used[found->device] -= found->bytes;
  }
  pthread_mutex_unlock(&lock);
  if (found == NULL || (address & FAKE_TAG) == 0) return INVALID_VALUE;
  free(found->host);
  free(found);
  return 0;
}

FAKE_API int cuMemHostAlloc(void **pointer, size_t bytes, unsigned flags) {
  ENTER(true);
  (void)flags;
  *pointer = aligned_alloc(4096, (bytes + 4095) & ~(size_t)4095);
  return *pointer == NULL ? OUT_OF_MEMORY : 0;
}

FAKE_API int cuMemFreeHost(void *pointer) {
  free(pointer);  // Also when the device is lost: the process goes on.
  return 0;
}

// ---- Streams and events ----

static void *serve(void *argument) {
  stream *queue = argument;
  pthread_mutex_lock(&queue->lock);
  while (!queue->closing || queue->first != NULL) {
    task *next = queue->first;
    if (next == NULL) {
      pthread_cond_wait(&queue->changed, &queue->lock);
      continue;
    }
    queue->first = next->next;
    if (queue->first == NULL) queue->last = &queue->first;
    queue->busy = true;
    pthread_mutex_unlock(&queue->lock);
    int code = __atomic_load_n(&lost, __ATOMIC_ACQUIRE) != 0 ? 0 : next->function(next->data);
    if (code != 0) __atomic_store_n(&lost, code, __ATOMIC_RELEASE);
    free(next);
    pthread_mutex_lock(&queue->lock);
    queue->busy = false;
    pthread_cond_broadcast(&queue->changed);
  }
  pthread_mutex_unlock(&queue->lock);
  return NULL;
}

FAKE_API int cuStreamCreate(stream **out, unsigned flags) {
  ENTER(true);
  (void)flags;
  stream *made = calloc(1, sizeof(*made));
  pthread_mutex_init(&made->lock, NULL);
  pthread_cond_init(&made->changed, NULL);
  made->last = &made->first;
  made->device = stack[depth - 1]->device;
  pthread_create(&made->thread, NULL, serve, made);
  *out = made;
  return 0;
}

FAKE_API int cuStreamDestroy_v2(stream *queue) {
  pthread_mutex_lock(&queue->lock);
  queue->closing = true;
  pthread_cond_broadcast(&queue->changed);
  pthread_mutex_unlock(&queue->lock);
  pthread_join(queue->thread, NULL);
  pthread_mutex_destroy(&queue->lock);
  pthread_cond_destroy(&queue->changed);
  free(queue);
  return 0;
}

FAKE_API int cuStreamSynchronize(stream *queue) {
  ENTER(true);
  wait_idle(queue);
  return __atomic_load_n(&lost, __ATOMIC_ACQUIRE);
}

int fake_lost(void) {
  return __atomic_load_n(&lost, __ATOMIC_ACQUIRE);
}

int fake_device(void) {
  return depth == 0 ? -1 : stack[depth - 1]->device;
}

int fake_stream_device(const void *handle) {
  return ((const stream *)handle)->device;
}

int fake_enqueue(void *handle, fake_work function, const void *data, size_t bytes) {
  if (handle == NULL || fake_stream_device(handle) != fake_device()) return INVALID_HANDLE;
  return fake_enqueue_there(handle, function, data, bytes);
}

int fake_enqueue_there(void *handle, fake_work function, const void *data, size_t bytes) {
  stream *queue = handle;
  task *made = malloc(sizeof(*made) + bytes);
  made->next = NULL;
  made->function = function;
  memcpy(made->data, data, bytes);
  pthread_mutex_lock(&queue->lock);
  *queue->last = made;
  queue->last = &made->next;
  pthread_cond_broadcast(&queue->changed);
  pthread_mutex_unlock(&queue->lock);
  return 0;
}

FAKE_API int cuEventCreate(event **out, unsigned flags) {
  ENTER(true);
  (void)flags;
  *out = calloc(1, sizeof(**out));
  pthread_mutex_init(&(*out)->lock, NULL);
  pthread_cond_init(&(*out)->changed, NULL);
  return 0;
}

FAKE_API int cuEventDestroy_v2(event *gone) {
  pthread_mutex_destroy(&gone->lock);
  pthread_cond_destroy(&gone->changed);
  free(gone);
  return 0;
}

typedef struct record {
  event *event;
  uint64_t number;
} record;

static int do_record(void *data) {
  const record *work = data;
  pthread_mutex_lock(&work->event->lock);
  work->event->done = work->number;
  work->event->at_ns = now_ns();
  pthread_cond_broadcast(&work->event->changed);
  pthread_mutex_unlock(&work->event->lock);
  return 0;
}

FAKE_API int cuEventRecord(event *recorded, stream *queue) {
  ENTER(true);
  pthread_mutex_lock(&recorded->lock);
  record work = {recorded, ++recorded->wanted};
  pthread_mutex_unlock(&recorded->lock);
  return fake_enqueue(queue, do_record, &work, sizeof(work));
}

FAKE_API int cuEventQuery(event *asked) {
  ENTER(true);
  pthread_mutex_lock(&asked->lock);
  bool is_done = asked->done == asked->wanted;
  pthread_mutex_unlock(&asked->lock);
  return is_done ? 0 : NOT_READY;
}

FAKE_API int cuEventElapsedTime(float *ms, event *from, event *to) {
  ENTER(true);
  if (from->done == 0 || to->done == 0) return INVALID_HANDLE;
  *ms = (float)((double)((int64_t)to->at_ns - (int64_t)from->at_ns) / 1e6);
  return 0;
}

// ---- Copies and fills ----

typedef struct transfer {
  uint64_t to, from;  // Device addresses have the tag.
  size_t bytes, pitch, height;
  uint32_t value, size;
} transfer;

static int do_copy(void *data) {
  const transfer *work = data;
  void *to =
      (work->to & FAKE_TAG) != 0 ? fake_host(work->to, work->bytes) : (void *)(uintptr_t)work->to;
  void *from = (work->from & FAKE_TAG) != 0 ? fake_host(work->from, work->bytes)
                                            : (void *)(uintptr_t)work->from;
  if (to == NULL || from == NULL) return ILLEGAL_ADDRESS;
  memcpy(to, from, work->bytes);
  return 0;
}

static int copy(uint64_t to, uint64_t from, size_t bytes, stream *queue) {
  transfer work = {.to = to, .from = from, .bytes = bytes};
  return fake_enqueue(queue, do_copy, &work, sizeof(work));
}

FAKE_API int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, stream *queue) {
  ENTER(true);
  return (to & FAKE_TAG) == 0 ? INVALID_VALUE : copy(to, (uint64_t)(uintptr_t)from, bytes, queue);
}

FAKE_API int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, stream *queue) {
  ENTER(true);
  return (from & FAKE_TAG) == 0 ? INVALID_VALUE : copy((uint64_t)(uintptr_t)to, from, bytes, queue);
}

FAKE_API int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, stream *queue) {
  ENTER(true);
  if ((to & FAKE_TAG) == 0 || (from & FAKE_TAG) == 0) return INVALID_VALUE;
  uint64_t apart = to > from ? to - from : from - to;
  return apart < bytes ? INVALID_VALUE : copy(to, from, bytes, queue);  // Overlap is undefined.
}

FAKE_API int cuMemcpyPeerAsync(uint64_t to, context *target, uint64_t from, context *source,
                               size_t bytes, stream *queue) {
  ENTER(true);
  if (target == NULL || source == NULL) return INVALID_CONTEXT;
  return copy(to, from, bytes, queue);
}

static int do_fill(void *data) {
  const transfer *work = data;
  size_t last = work->pitch * (work->height - 1) + work->bytes;
  char *to = fake_host(work->to, last);
  if (to == NULL) return ILLEGAL_ADDRESS;
  if ((uint64_t)(uintptr_t)to % work->size != 0) return 716;  // Misaligned.
  for (size_t row = 0; row < work->height; ++row) {
    for (size_t i = 0; i < work->bytes; i += work->size) {
      memcpy(to + row * work->pitch + i, &work->value, work->size);
    }
  }
  return 0;
}

static int fill(uint64_t to, uint32_t value, uint32_t size, size_t width, size_t pitch,
                size_t height, stream *queue) {
  transfer work = {.to = to,
                   .value = value,
                   .size = size,
                   .bytes = width * size,
                   .pitch = pitch,
                   .height = height};
  if (width == 0 || height == 0) return 0;
  if (height > 1 && pitch < work.bytes) return INVALID_VALUE;
  return fake_enqueue(queue, do_fill, &work, sizeof(work));
}

FAKE_API int cuMemsetD8Async(uint64_t to, unsigned char value, size_t count, stream *queue) {
  ENTER(true);
  return fill(to, value, 1, count, 0, 1, queue);
}

FAKE_API int cuMemsetD16Async(uint64_t to, unsigned short value, size_t count, stream *queue) {
  ENTER(true);
  return fill(to, value, 2, count, 0, 1, queue);
}

FAKE_API int cuMemsetD32Async(uint64_t to, unsigned value, size_t count, stream *queue) {
  ENTER(true);
  return fill(to, value, 4, count, 0, 1, queue);
}

FAKE_API int cuMemsetD2D32Async(uint64_t to, size_t pitch, unsigned value, size_t width,
                                size_t height, stream *queue) {
  ENTER(true);
  return fill(to, value, 4, width, pitch, height, queue);
}

// ---- Modules ----

FAKE_API int cuModuleLoadData(module **out, const void *image) {
  ENTER(true);
  char path[1024];
  if (memcmp(image, "\177ELF", 4) == 0) {  // Code of a real compiler: looked at, never run.
    *out = calloc(1, sizeof(**out));
    uint64_t sections;  // e_shoff: the table of sections ends the file.
    uint16_t entry_bytes, entries;
    memcpy(&sections, (const char *)image + 40, sizeof(sections));
    memcpy(&entry_bytes, (const char *)image + 58, sizeof(entry_bytes));
    memcpy(&entries, (const char *)image + 60, sizeof(entries));
    (*out)->code_bytes = sections + (uint64_t)entry_bytes * entries;
    (*out)->code = malloc((*out)->code_bytes);
    memcpy((*out)->code, image, (*out)->code_bytes);
    return 0;
  }
  if (sscanf(image, "FAKE CUBIN %1000s", path) != 1) return 200;  // Invalid image.
  module *made = calloc(1, sizeof(*made));
  made->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  made->kernels = made->library == NULL ? NULL : dlsym(made->library, "fake_kernels");
  if (made->kernels == NULL) {
    free(made);
    return 200;
  }
  *out = made;
  return 0;
}

FAKE_API int cuModuleUnload(module *gone) {
  if (gone->library != NULL) dlclose(gone->library);
  free(gone->code);
  free(gone);
  return 0;
}

FAKE_API int cuModuleGetFunction(function **out, module *from, const char *name) {
  ENTER(true);
  if (from->code != NULL) {
    *out = &from->functions[0];
    return memmem(from->code, from->code_bytes, name, strlen(name)) != NULL ? 0 : NOT_FOUND;
  }
  for (int i = 0; i < 256 && from->kernels[i].name != NULL; ++i) {
    if (strcmp(from->kernels[i].name, name) == 0) {
      from->functions[i].kernel = &from->kernels[i];
      if (from->functions[i].near_max == 0) from->functions[i].near_max = 49152;
      *out = &from->functions[i];
      return 0;
    }
  }
  return NOT_FOUND;
}

FAKE_API int cuFuncGetAttribute(int *value, int attribute, function *asked) {
  ENTER(true);
  (void)asked;
  *value = 1024;
  return attribute == 0 ? 0 : INVALID_VALUE;
}

FAKE_API int cuFuncSetAttribute(function *changed, int attribute, int value) {
  ENTER(true);
  if (attribute != 8 || value > (int)number("FAKE_CUDA_NEAR", 232448)) return INVALID_VALUE;
  changed->near_max = value;
  return 0;
}

typedef struct launch {
  const fake_kernel *kernel;
  unsigned grid[3], near_bytes, count;
  uint64_t values[];
} launch;

static int do_launch(void *data) {
  launch *work = data;
  void *arguments[MOST_ARGUMENTS];
  int code = fake_fault("kernel");
  if (code != 0) return code;
  for (unsigned i = 0; i < work->count; ++i) arguments[i] = &work->values[i];
  work->kernel->run(arguments, work->grid, work->near_bytes);
  return 0;
}

FAKE_API int cuLaunchKernel(function *called, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                            unsigned block_x, unsigned block_y, unsigned block_z,
                            unsigned near_bytes, stream *queue, void **arguments, void **extra) {
  ENTER(true);
  const unsigned grid[] = {grid_x, grid_y, grid_z};
  if (grid_x == 0 || grid_y == 0 || grid_z == 0 || grid_y > 65535 || grid_z > 65535 ||
      block_x * block_y * block_z == 0 || block_x * block_y * block_z > 1024 || extra != NULL ||
      near_bytes > (unsigned)called->near_max || called->kernel == NULL) {
    return INVALID_VALUE;
  }
  launch *work = calloc(1, sizeof(*work) + MOST_ARGUMENTS * 8);
  work->kernel = called->kernel;
  work->near_bytes = near_bytes;
  memcpy(work->grid, grid, sizeof(grid));
  for (; called->kernel->sizes[work->count] != 0; ++work->count) {
    memcpy(&work->values[work->count], arguments[work->count], called->kernel->sizes[work->count]);
  }
  int code = fake_enqueue(queue, do_launch, work, sizeof(*work) + work->count * 8);
  free(work);
  return code;
}
