// libnccl.so.2 of the fake: communicators of one process that do not block. What NCCL does is done:
// a group's kernels come to their streams after its end, when the communicator's state has been
// asked for (here: for the second time); two ranks of one device are refused; an abort ends the
// kernels of its own rank alone; a failure shows in the state, and its kernels run on.
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"

enum { SUCCESS, CUDA_ERROR, INVALID_ARGUMENT = 4, INVALID_USAGE, IN_PROGRESS = 7 };
enum { MOST_RANKS = 16, MOST_CALLS = 256 };
enum { ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, BROADCAST, SEND, RECV };
enum { INT8, UINT8, INT32, UINT32, INT64, UINT64, FLOAT16, FLOAT32, FLOAT64, BFLOAT16 };

typedef struct unique_id {
  char bytes[128];
} unique_id;
typedef struct config {
  size_t size;
  unsigned magic, version;
  int blocking;
} config;

typedef struct call {
  struct comm *comm;
  void *stream;
  int what, dtype, reduce, peer;
  size_t count;
  uint64_t source, target;
  uint64_t number;  // Of the collectives of its rank.
  bool is_done;     // A message.
} call;

typedef struct world {  // One communicator.
  struct world *next;
  unique_id id;
  int count, joined, left, gone;
  struct comm *ranks[MOST_RANKS];
  bool has_twins;
} world;

typedef struct comm {
  world *world;
  int rank, device;
  int error;  // What the state is when something failed.
  bool is_aborted, leaves;
  int running;              // Kernels on its streams.
  call *calls[MOST_CALLS];  // Of groups that have ended, not on their streams yet.
  int call_count, asked;
  uint64_t collectives;        // Ever called.
  call *now;                   // Its collective that runs.
  call *messages[MOST_CALLS];  // Of its kernel that runs.
  int message_count;
} comm;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static world *worlds;
static __thread int depth;
static __thread call *grouped[MOST_CALLS];
static __thread int grouped_count;

FAKE_API int ncclGetVersion(int *version) {
  *version = 22703;
  return fake_fault(__func__);
}

FAKE_API int ncclGetUniqueId(unique_id *out) {
  static uint64_t count;
  uint64_t number = __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED);
  memset(out, 0x5A, sizeof(*out));
  memcpy(out, &number, sizeof(number));
  return fake_fault(__func__);
}

// ---- Communicators ----

FAKE_API int ncclCommInitRankConfig(comm **out, int count, unique_id id, int rank,
                                    const config *wanted) {
  int code = fake_fault(__func__), device = fake_device();
  if (code != 0) return code;
  if (wanted->magic != 0xcafebeef || wanted->size < sizeof(*wanted) || wanted->version < 21400 ||
      wanted->blocking != 0 || device < 0 || count > MOST_RANKS || rank < 0 || rank >= count) {
    return INVALID_ARGUMENT;
  }
  comm *made = calloc(1, sizeof(*made));
  pthread_mutex_lock(&lock);
  world *of = worlds;
  while (of != NULL && memcmp(&of->id, &id, sizeof(id)) != 0) of = of->next;
  if (of == NULL) {
    of = calloc(1, sizeof(*of));
    of->id = id;
    of->count = count;
    of->next = worlds;
    worlds = of;
  }
  for (int i = 0; i < count; ++i) {
    of->has_twins |= of->ranks[i] != NULL && of->ranks[i]->device == device;
  }
  made->world = of;
  made->rank = rank;
  made->device = device;
  of->ranks[rank] = made;
  ++of->joined;
  pthread_mutex_unlock(&lock);
  *out = made;
  return depth > 0 ? SUCCESS : IN_PROGRESS;
}

// With the lock: no kernel of the rank runs, and nobody reads it any more.
static void free_comm(comm *gone) {
  world *of = gone->world;
  if (fake_lost() != 0) return;  // Its kernels may never run: it is left.
  while (gone->running != 0) pthread_cond_wait(&changed, &lock);
  of->ranks[gone->rank] = NULL;
  if (++of->gone == of->joined) {
    world **at = &worlds;
    while (*at != of) at = &(*at)->next;
    *at = of->next;
    free(of);
  }
  for (int i = 0; i < gone->call_count; ++i) free(gone->calls[i]);
  free(gone);
}

FAKE_API int ncclCommAbort(comm *gone) {
  pthread_mutex_lock(&lock);
  gone->is_aborted = true;
  pthread_cond_broadcast(&changed);
  free_comm(gone);
  pthread_mutex_unlock(&lock);
  return SUCCESS;
}

FAKE_API int ncclCommFinalize(comm *of) {
  int code = fake_fault(__func__);
  if (code != 0) return code;
  pthread_mutex_lock(&lock);
  of->leaves = true;
  ++of->world->left;
  pthread_mutex_unlock(&lock);
  return IN_PROGRESS;
}

FAKE_API int ncclCommDestroy(comm *gone) {
  pthread_mutex_lock(&lock);
  if (!gone->leaves || (gone->running != 0 && fake_lost() == 0))
    abort();  // It would wait for other ranks.
  free_comm(gone);
  pthread_mutex_unlock(&lock);
  return SUCCESS;
}

// ---- Kernels; all with the lock ----

static size_t bytes_of(int dtype) {
  static const size_t bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return bytes[dtype];
}

static float half_value(uint16_t bits) {
  int exponent = bits >> 10 & 31, fraction = bits & 1023;
  float size = exponent == 0    ? (float)fraction / 16777216.0f
               : exponent == 31 ? (fraction ? __builtin_nanf("") : __builtin_inff())
                                : __builtin_ldexpf((float)(1024 + fraction), exponent - 25);
  return bits >> 15 ? -size : size;
}

static uint16_t half_bits(float value) {
  float size = __builtin_fabsf(value);
  int exponent = 0;
  uint16_t sign = value < 0 ? 0x8000 : 0;
  if (size != size) return 0x7e00;
  while (size >= __builtin_ldexpf(2048, exponent - 24) && exponent < 30) ++exponent;
  float unit = __builtin_ldexpf(1, exponent - 24);
  if (size >= 65520) return sign | 0x7c00;
  return (uint16_t)(sign |
                    (uint16_t)(__builtin_nearbyintf(size / unit) + 1024.0f * (float)exponent));
}

static double number_at(int dtype, const char *at) {
  if (dtype == FLOAT64) return *(const double *)at;
  if (dtype == FLOAT32) return *(const float *)at;
  if (dtype == FLOAT16) return half_value(*(const uint16_t *)at);
  uint32_t bits = (uint32_t)(*(const uint16_t *)at) << 16;
  float value;
  memcpy(&value, &bits, 4);
  return value;
}

static void put_number(int dtype, char *at, double value) {
  float narrow = (float)value;
  uint32_t bits;
  switch (dtype) {
    case FLOAT64:
      *(double *)at = value;
      return;
    case FLOAT32:
      *(float *)at = narrow;
      return;
    case FLOAT16:
      *(uint16_t *)at = half_bits(narrow);
      return;
    default:
      memcpy(&bits, &narrow, 4);
      *(uint16_t *)at = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  }
}

static int64_t whole_at(int dtype, const char *at) {
  return dtype == INT8    ? *(const int8_t *)at
         : dtype == UINT8 ? *(const uint8_t *)at
         : dtype == INT32 ? *(const int32_t *)at
                          : *(const int64_t *)at;
}

static double merge(int reduce, double one, double other) {
  return reduce == 0   ? one + other
         : reduce == 1 ? one * other
         : reduce == 2 ? (one > other ? one : other)
                       : (one < other ? one : other);
}

static int64_t merge_whole(int reduce, int64_t one, int64_t other) {
  return reduce == 0   ? (int64_t)((uint64_t)one + (uint64_t)other)
         : reduce == 1 ? (int64_t)((uint64_t)one * (uint64_t)other)
         : reduce == 2 ? (one > other ? one : other)
                       : (one < other ? one : other);
}

// Reduces over the ranks, from an element of their sources on.
static void reduce(const world *of, const call *like, size_t first, char *to) {
  size_t size = bytes_of(like->dtype);
  for (size_t i = 0; i < like->count; ++i) {
    double sum = 0;
    int64_t whole = 0;
    for (int r = 0; r < of->count; ++r) {
      const char *at = (char *)fake_host(of->ranks[r]->now->source, 0) + (first + i) * size;
      if (like->dtype >= FLOAT16) {
        double value = number_at(like->dtype, at);
        sum = r == 0 ? value : merge(like->reduce, sum, value);
      } else {
        int64_t value = whole_at(like->dtype, at);
        whole = r == 0 ? value : merge_whole(like->reduce, whole, value);
      }
    }
    if (like->dtype >= FLOAT16) {
      put_number(like->dtype, to + i * size, sum);
    } else {
      memcpy(to + i * size, &whole, size);
    }
  }
}

static bool all_have_come(const world *of, const call *like) {
  for (int r = 0; r < of->count; ++r) {
    const comm *other = of->ranks[r];
    if (other == NULL || other->now == NULL || other->now->number != like->number) return false;
  }
  return true;
}

// The last rank to come does it for all, in memory beside their targets.
static void compute(const world *of, const call *like) {
  size_t part = like->count * bytes_of(like->dtype);
  size_t bytes = like->what == ALL_GATHER ? part * (size_t)of->count : part;
  char *results[MOST_RANKS];
  for (int r = 0; r < of->count; ++r) {
    results[r] = malloc(bytes + 1);
    for (int q = 0; like->what == ALL_GATHER && q < of->count; ++q) {
      memcpy(results[r] + (size_t)q * part, fake_host(of->ranks[q]->now->source, part), part);
    }
    if (like->what == BROADCAST) {
      memcpy(results[r], fake_host(of->ranks[like->peer]->now->source, part), part);
    } else if (like->what != ALL_GATHER) {
      reduce(of, like, like->what == REDUCE_SCATTER ? (size_t)r * like->count : 0, results[r]);
    }
  }
  for (int r = 0; r < of->count; ++r) {
    memcpy(fake_host(of->ranks[r]->now->target, bytes), results[r], bytes);
    free(results[r]);
    of->ranks[r]->now = NULL;
  }
  pthread_cond_broadcast(&changed);
}

// A failed rank's kernels wait for their end from outside.
static bool has_failed(comm *of) {
  if (of->error == 0) of->error = fake_fault("ncclKernel");
  return of->error != 0;
}

static void run_collective(call *work) {
  comm *of = work->comm;
  of->now = work;
  if (!has_failed(of) && all_have_come(of->world, work)) compute(of->world, work);
  while (of->now == work && !of->is_aborted) pthread_cond_wait(&changed, &lock);
  of->now = NULL;
}

static call *partner(const call *of) {
  comm *other = of->comm->world->ranks[of->peer];
  for (int i = 0; other != NULL && i < other->message_count; ++i) {
    call *found = other->messages[i];
    if (!found->is_done && found->peer == of->comm->rank && found->what != of->what) return found;
  }
  return NULL;
}

static void run_messages(comm *of) {
  bool is_done = has_failed(of);
  while (!is_done && !of->is_aborted) {
    is_done = true;
    for (int i = 0; i < of->message_count; ++i) {
      call *one = of->messages[i], *other = one->is_done ? NULL : partner(one);
      if (other != NULL) {
        const call *from = one->what == SEND ? one : other, *to = one->what == SEND ? other : one;
        memcpy(fake_host(to->target, to->count), fake_host(from->source, from->count), to->count);
        one->is_done = other->is_done = true;
        pthread_cond_broadcast(&changed);
      }
      is_done &= one->is_done;
    }
    if (!is_done) pthread_cond_wait(&changed, &lock);
  }
  while (of->error != 0 && !of->is_aborted) pthread_cond_wait(&changed, &lock);
  of->message_count = 0;
}

typedef struct kernel {
  int count;
  call *calls[];  // One collective, or messages that go together.
} kernel;

static int do_kernel(void *data) {
  const kernel *work = data;
  comm *of = work->calls[0]->comm;
  pthread_mutex_lock(&lock);
  if (work->calls[0]->what < SEND) {
    run_collective(work->calls[0]);
  } else {
    memcpy(of->messages, work->calls, (size_t)work->count * sizeof(call *));
    of->message_count = work->count;
    pthread_cond_broadcast(&changed);
    run_messages(of);
  }
  for (int i = 0; i < work->count; ++i) free(work->calls[i]);
  --of->running;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
  return 0;
}

// Puts what the rank has called on its streams.
static void launch(comm *of) {
  for (int first = 0, end; first < of->call_count; first = end) {
    call *head = of->calls[first];
    for (end = first + 1; end < of->call_count && head->what >= SEND; ++end) {
      if (of->calls[end]->what < SEND || of->calls[end]->stream != head->stream) break;
    }
    size_t bytes = sizeof(kernel) + (size_t)(end - first) * sizeof(call *);
    kernel *work = malloc(bytes);
    work->count = end - first;
    memcpy(work->calls, &of->calls[first], (size_t)work->count * sizeof(call *));
    ++of->running;
    if (fake_enqueue_there(head->stream, do_kernel, work, bytes) != 0) of->error = CUDA_ERROR;
    free(work);
  }
  of->call_count = 0;
}

FAKE_API int ncclCommGetAsyncError(comm *of, int *out) {
  pthread_mutex_lock(&lock);
  world *all = of->world;
  if (all->has_twins) {
    *out = INVALID_USAGE;
  } else if (of->error != 0) {
    *out = of->error;
  } else if (all->joined < all->count || (of->leaves && all->left < all->count)) {
    *out = IN_PROGRESS;
  } else if (of->call_count != 0 && ++of->asked < 2) {
    *out = IN_PROGRESS;
  } else {
    of->asked = 0;
    launch(of);
    *out = SUCCESS;
  }
  pthread_mutex_unlock(&lock);
  return SUCCESS;
}

// ---- Calls and groups ----

FAKE_API int ncclGroupStart(void) {
  ++depth;
  return fake_fault(__func__);
}

FAKE_API int ncclGroupEnd(void) {
  if (depth == 0) return INVALID_USAGE;
  if (--depth != 0) return SUCCESS;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < grouped_count; ++i) {
    comm *of = grouped[i]->comm;
    if (grouped[i]->what < SEND) grouped[i]->number = ++of->collectives;
    of->calls[of->call_count++] = grouped[i];
  }
  grouped_count = 0;
  pthread_mutex_unlock(&lock);
  int code = fake_fault(__func__);
  return code != 0 ? code : IN_PROGRESS;
}

static int add(const char *name, call made) {
  int code = fake_fault(name);
  size_t part = made.count * (made.dtype <= BFLOAT16 ? bytes_of(made.dtype) : 0);
  size_t all = part * (size_t)made.comm->world->count;
  size_t from = made.what == REDUCE_SCATTER ? all : part, to = made.what == ALL_GATHER ? all : part;
  bool gives = made.what != RECV && (made.what != BROADCAST || made.peer == made.comm->rank);
  if (code != 0) return code;
  if (depth == 0 || made.dtype > BFLOAT16 || fake_device() != made.comm->device ||
      fake_stream_device(made.stream) != made.comm->device || made.reduce < 0 || made.reduce > 3 ||
      (part != 0 && gives && fake_host(made.source, from) == NULL) ||
      (part != 0 && made.what != SEND && fake_host(made.target, to) == NULL)) {
    return INVALID_ARGUMENT;
  }
  grouped[grouped_count] = malloc(sizeof(made));
  *grouped[grouped_count++] = made;
  return SUCCESS;
}

FAKE_API int ncclAllReduce(uint64_t from, uint64_t to, size_t count, int dtype, int op, comm *of,
                           void *stream) {
  return add(__func__, (call){of, stream, ALL_REDUCE, dtype, op, 0, count, from, to, 0, false});
}

FAKE_API int ncclReduceScatter(uint64_t from, uint64_t to, size_t count, int dtype, int op,
                               comm *of, void *stream) {
  return add(__func__, (call){of, stream, REDUCE_SCATTER, dtype, op, 0, count, from, to, 0, false});
}

FAKE_API int ncclAllGather(uint64_t from, uint64_t to, size_t count, int dtype, comm *of,
                           void *stream) {
  return add(__func__, (call){of, stream, ALL_GATHER, dtype, 0, 0, count, from, to, 0, false});
}

FAKE_API int ncclBroadcast(uint64_t from, uint64_t to, size_t count, int dtype, int root, comm *of,
                           void *stream) {
  return add(__func__, (call){of, stream, BROADCAST, dtype, 0, root, count, from, to, 0, false});
}

FAKE_API int ncclSend(uint64_t from, size_t count, int dtype, int peer, comm *of, void *stream) {
  return add(__func__, (call){of, stream, SEND, dtype, 0, peer, count, from, 0, 0, false});
}

FAKE_API int ncclRecv(uint64_t to, size_t count, int dtype, int peer, comm *of, void *stream) {
  return add(__func__, (call){of, stream, RECV, dtype, 0, peer, count, 0, to, 0, false});
}
