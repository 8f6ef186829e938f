// The loader's collectives inside one process: every collective, any count of ranks, one thread or
// many, failures, timeouts.
#include <math.h>
#include <pthread.h>

#include "expect.h"
#include "hal/loader.h"
#include "ports/fake.c"
#include "ports/own_collectives.h"
#include "ports/stubs.h"
#include "reduce.h"

enum { RANKS = 64, ELEMENTS = 7 };
static const uint64_t LONG_NS = 20000000000;

static hal_port *port;
static hal_port_entry_fn entry = hal_port_entry;
static char reason[512];

typedef struct member {
  hal_device device;
  hal_stream stream;
  hal_comm comm;
  hal_memory source, target;
} member;

static member members[RANKS];
static uint32_t rank_count;

static void set_up(void) {
  EQUAL(hal_port_open_entry(entry, NULL, &port, reason, sizeof(reason)), HAL_OK);
}

static void tear_down(void) {
  EQUAL(hal_port_close(port, LONG_NS), HAL_OK);
}

static hal_unique_id id;

static void new_id(void) {
  EQUAL(hal_collective_unique_id(port, &id), HAL_OK);
}

static hal_comm_desc comm_desc(uint32_t rank, uint64_t timeout_ns) {
  return (hal_comm_desc){.size = sizeof(hal_comm_desc),
                         .rank_count = rank_count,
                         .rank = rank,
                         .id = id,
                         .timeout_ns = timeout_ns};
}

// Joins all ranks from this thread. Each has buffers for one part of every rank.
static void join(uint32_t count, uint64_t timeout_ns) {
  rank_count = count;
  new_id();
  EQUAL(hal_collective_group_begin(port), HAL_OK);
  for (uint32_t i = 0; i < count; ++i) {
    member *one = &members[i];
    *one = (member){0};
    EQUAL(hal_device_open(port, i % DEVICES, &one->device), HAL_OK);
    EQUAL(hal_stream_create(port, one->device, 0, &one->stream), HAL_OK);
    const hal_memory_desc desc = {.size = sizeof(desc), .bytes = 8 * ELEMENTS * (uint64_t)count};
    EQUAL(hal_memory_alloc(port, one->device, &desc, &one->source), HAL_OK);
    EQUAL(hal_memory_alloc(port, one->device, &desc, &one->target), HAL_OK);
    const hal_comm_desc comm = comm_desc(i, timeout_ns);
    EQUAL(hal_collective_comm_create(port, one->device, &comm, &one->comm), HAL_OK);
    EQUAL(one->comm, 0);
  }
  EQUAL(hal_collective_group_end(port), HAL_OK);
  for (uint32_t i = 0; i < count; ++i) TRUE(members[i].comm != 0);
}

static void leave(void) {
  for (uint32_t i = 0; i < rank_count; ++i) {
    EQUAL(hal_collective_comm_destroy(port, members[i].comm), HAL_OK);
    EQUAL(hal_collective_comm_destroy(port, members[i].comm), HAL_ERROR_INVALID_HANDLE);
    EQUAL(hal_stream_destroy(port, members[i].stream), HAL_OK);
    EQUAL(hal_memory_free(port, members[i].source), HAL_OK);
    EQUAL(hal_memory_free(port, members[i].target), HAL_OK);
  }
}

static void put(uint32_t rank, hal_memory memory, const void *data, uint64_t bytes) {
  const hal_copy_desc copy = {.size = sizeof(copy),
                              .kind = HAL_COPY_HOST_TO_DEVICE,
                              .target = {.memory = memory, .bytes = bytes},
                              .host_source = data};
  EQUAL(hal_transfer_copy(port, members[rank].stream, &copy), HAL_OK);
}

static void get(uint32_t rank, hal_memory memory, void *data, uint64_t bytes) {
  const hal_copy_desc copy = {.size = sizeof(copy),
                              .kind = HAL_COPY_DEVICE_TO_HOST,
                              .source = {.memory = memory, .bytes = bytes},
                              .host_target = data};
  EQUAL(hal_transfer_copy(port, members[rank].stream, &copy), HAL_OK);
  EQUAL(hal_stream_synchronize(port, members[rank].stream, LONG_NS), HAL_OK);
}

static int32_t value_of(uint32_t rank, uint64_t index) {
  return (int32_t)(rank * 1000 + index);
}

// Gives each rank's source `parts` parts of its own numbers.
static void number_sources(uint64_t parts) {
  static int32_t numbers[ELEMENTS * RANKS];
  for (uint32_t rank = 0; rank < rank_count; ++rank) {
    for (uint64_t i = 0; i < parts * ELEMENTS; ++i) numbers[i] = value_of(rank, i);
    put(rank, members[rank].source, numbers, parts * ELEMENTS * sizeof(numbers[0]));
  }
}

static hal_collective_desc desc_of(uint32_t rank, uint64_t in_parts, uint64_t out_parts) {
  return (hal_collective_desc){
      .size = sizeof(hal_collective_desc),
      .dtype = HAL_DTYPE_I32,
      .reduce = HAL_REDUCE_SUM,
      .count = ELEMENTS,
      .source = {.memory = members[rank].source, .bytes = in_parts * ELEMENTS * 4},
      .target = {.memory = members[rank].target, .bytes = out_parts * ELEMENTS * 4}};
}

typedef int32_t (*collective)(hal_port *port, hal_comm comm, hal_stream stream,
                              const hal_collective_desc *desc);

static void call_all(collective call, uint64_t in_parts, uint64_t out_parts, uint32_t peer) {
  for (uint32_t rank = 0; rank < rank_count; ++rank) {
    hal_collective_desc desc = desc_of(rank, in_parts, out_parts);
    desc.peer = peer;
    EQUAL(call(port, members[rank].comm, members[rank].stream, &desc), HAL_OK);
  }
}

static const int32_t *result_of(uint32_t rank, uint64_t parts) {
  static int32_t numbers[ELEMENTS * RANKS];
  get(rank, members[rank].target, numbers, parts * ELEMENTS * sizeof(numbers[0]));
  return numbers;
}

static int32_t sum_at(uint64_t index) {
  int32_t sum = 0;
  for (uint32_t rank = 0; rank < rank_count; ++rank) sum += value_of(rank, index);
  return sum;
}

static void every_collective_at(uint32_t count) {
  join(count, LONG_NS);
  number_sources(1);
  call_all(hal_collective_all_reduce, 1, 1, 0);
  for (uint32_t rank = 0; rank < count; ++rank) {
    const int32_t *got = result_of(rank, 1);
    for (uint64_t i = 0; i < ELEMENTS; ++i) EQUAL(got[i], sum_at(i));
  }
  call_all(hal_collective_all_gather, 1, count, 0);
  for (uint32_t rank = 0; rank < count; ++rank) {
    const int32_t *got = result_of(rank, count);
    for (uint64_t i = 0; i < ELEMENTS * count; ++i) {
      EQUAL(got[i], value_of((uint32_t)(i / ELEMENTS), i % ELEMENTS));
    }
  }
  call_all(hal_collective_broadcast, 1, 1, count - 1);
  for (uint32_t rank = 0; rank < count; ++rank) {
    const int32_t *got = result_of(rank, 1);
    for (uint64_t i = 0; i < ELEMENTS; ++i) EQUAL(got[i], value_of(count - 1, i));
  }
  number_sources(count);
  call_all(hal_collective_reduce_scatter, count, 1, 0);
  for (uint32_t rank = 0; rank < count; ++rank) {
    const int32_t *got = result_of(rank, 1);
    for (uint64_t i = 0; i < ELEMENTS; ++i) EQUAL(got[i], sum_at(rank * ELEMENTS + i));
  }
  call_all(hal_collective_all_to_all, count, count, 0);
  for (uint32_t rank = 0; rank < count; ++rank) {
    const int32_t *got = result_of(rank, count);
    for (uint64_t i = 0; i < ELEMENTS * count; ++i) {
      EQUAL(got[i], value_of((uint32_t)(i / ELEMENTS), rank * ELEMENTS + i % ELEMENTS));
    }
  }
  leave();
}

static void all_collectives_work_at_any_count_of_ranks(void) {
  const uint32_t counts[] = {1, 2, 3, 4, 5, 7, 8, 33, 64};
  for (uint32_t i = 0; i < sizeof(counts) / sizeof(counts[0]); ++i) {
    set_up();
    every_collective_at(counts[i]);
    tear_down();
  }
}

static void results_in_place_are_right(void) {
  set_up();
  join(3, LONG_NS);
  number_sources(3);
  for (uint32_t rank = 0; rank < 3; ++rank) {
    hal_collective_desc desc = desc_of(rank, 1, 3);
    desc.target.memory = members[rank].source;
    desc.source.offset_bytes = rank * ELEMENTS * 4;
    EQUAL(hal_collective_all_gather(port, members[rank].comm, members[rank].stream, &desc), HAL_OK);
  }
  for (uint32_t rank = 0; rank < 3; ++rank) {
    int32_t got[3 * ELEMENTS];
    get(rank, members[rank].source, got, sizeof(got));
    for (uint64_t i = 0; i < 3 * ELEMENTS; ++i)
      EQUAL(got[i], value_of((uint32_t)(i / ELEMENTS), i));
  }
  leave();
  tear_down();
}

// A group may hold several collectives of a rank; each sees the result of the one before, although
// all ranks share one stream.
static void a_group_holds_several_collectives_on_one_stream(void) {
  set_up();
  rank_count = 2;
  new_id();
  hal_device device = 0;
  hal_stream stream = 0;
  EQUAL(hal_device_open(port, 0, &device), HAL_OK);
  EQUAL(hal_stream_create(port, device, 0, &stream), HAL_OK);
  EQUAL(hal_collective_group_begin(port), HAL_OK);
  EQUAL(hal_collective_group_begin(port), HAL_OK);
  for (uint32_t i = 0; i < 2; ++i) {
    const hal_comm_desc comm = comm_desc(i, LONG_NS);
    const hal_memory_desc memory = {.size = sizeof(memory), .bytes = 64};
    members[i] = (member){.device = device, .stream = stream};
    EQUAL(hal_memory_alloc(port, device, &memory, &members[i].source), HAL_OK);
    EQUAL(hal_memory_alloc(port, device, &memory, &members[i].target), HAL_OK);
    EQUAL(hal_collective_comm_create(port, device, &comm, &members[i].comm), HAL_OK);
  }
  EQUAL(hal_collective_group_end(port), HAL_OK);
  EQUAL(members[0].comm, 0);
  EQUAL(hal_collective_group_end(port), HAL_OK);
  EQUAL(hal_collective_group_end(port), HAL_ERROR_INVALID_STATE);
  number_sources(1);
  EQUAL(hal_collective_group_begin(port), HAL_OK);
  for (int turn = 0; turn < 2; ++turn) {
    for (uint32_t i = 0; i < 2; ++i) {
      hal_collective_desc desc = desc_of(i, 1, 1);
      desc.target = desc.source;
      EQUAL(hal_collective_all_reduce(port, members[i].comm, stream, &desc), HAL_OK);
    }
  }
  EQUAL(hal_collective_group_end(port), HAL_OK);
  int32_t got[ELEMENTS];
  get(1, members[1].source, got, sizeof(got));
  for (uint64_t i = 0; i < ELEMENTS; ++i) EQUAL(got[i], 2 * sum_at(i));
  tear_down();
}

static void ranks_exchange_messages_inside_a_group(void) {
  set_up();
  join(3, LONG_NS);
  number_sources(1);
  EQUAL(hal_collective_group_begin(port), HAL_OK);
  for (uint32_t rank = 0; rank < 3; ++rank) {
    hal_collective_desc desc = desc_of(rank, 1, 1);
    desc.peer = (rank + 2) % 3;
    EQUAL(hal_collective_recv(port, members[rank].comm, members[rank].stream, &desc), HAL_OK);
    desc.peer = (rank + 1) % 3;
    EQUAL(hal_collective_send(port, members[rank].comm, members[rank].stream, &desc), HAL_OK);
  }
  EQUAL(hal_collective_group_end(port), HAL_OK);
  for (uint32_t rank = 0; rank < 3; ++rank) {
    const int32_t *got = result_of(rank, 1);
    for (uint64_t i = 0; i < ELEMENTS; ++i) EQUAL(got[i], value_of((rank + 2) % 3, i));
  }
  // Two sends arrive in their order, without a group.
  hal_collective_desc desc = desc_of(0, 1, 1);
  desc.peer = 1;
  EQUAL(hal_collective_send(port, members[0].comm, members[0].stream, &desc), HAL_OK);
  const int32_t changed[ELEMENTS] = {-1};
  put(0, members[0].source, changed, sizeof(changed));
  EQUAL(hal_collective_send(port, members[0].comm, members[0].stream, &desc), HAL_OK);
  for (int turn = 0; turn < 2; ++turn) {
    desc = desc_of(1, 1, 1);
    desc.peer = 0;
    EQUAL(hal_collective_recv(port, members[1].comm, members[1].stream, &desc), HAL_OK);
    EQUAL(result_of(1, 1)[0], turn == 0 ? value_of(0, 0) : -1);
  }
  leave();
  tear_down();
}

static void *one_rank(void *argument) {
  const uint32_t rank = (uint32_t)(uintptr_t)argument;
  member *one = &members[rank];
  const hal_comm_desc comm = comm_desc(rank, LONG_NS);
  EQUAL(hal_collective_comm_create(port, one->device, &comm, &one->comm), HAL_OK);
  for (int turn = 0; turn < 20; ++turn) {
    const hal_collective_desc desc = desc_of(rank, 1, 1);
    EQUAL(hal_collective_all_reduce(port, one->comm, one->stream, &desc), HAL_OK);
  }
  int32_t got[ELEMENTS];
  get(rank, one->target, got, sizeof(got));
  for (uint64_t i = 0; i < ELEMENTS; ++i) EQUAL(got[i], sum_at(i));
  return NULL;
}

static void ranks_of_different_threads_meet(void) {
  set_up();
  rank_count = 4;
  for (uint32_t i = 0; i < 4; ++i) {
    member *one = &members[i];
    *one = (member){0};
    EQUAL(hal_device_open(port, i, &one->device), HAL_OK);
    EQUAL(hal_stream_create(port, one->device, 0, &one->stream), HAL_OK);
    const hal_memory_desc desc = {.size = sizeof(desc), .bytes = 256};
    EQUAL(hal_memory_alloc(port, one->device, &desc, &one->source), HAL_OK);
    EQUAL(hal_memory_alloc(port, one->device, &desc, &one->target), HAL_OK);
  }
  number_sources(1);
  new_id();
  pthread_t threads[4];
  for (uintptr_t i = 0; i < 4; ++i) {
    EQUAL(pthread_create(&threads[i], NULL, one_rank, (void *)i), 0);
  }
  for (int i = 0; i < 4; ++i) EQUAL(pthread_join(threads[i], NULL), 0);
  leave();
  tear_down();
}

// ---- Failures ----

static void a_rank_that_stays_away_times_out(void) {
  set_up();
  rank_count = 2;
  new_id();
  hal_device device = 0;
  EQUAL(hal_device_open(port, 0, &device), HAL_OK);
  const hal_comm_desc desc = comm_desc(0, 2000000);
  hal_comm comm = 77;
  EQUAL(hal_collective_comm_create(port, device, &desc, &comm), HAL_ERROR_TIMEOUT);
  EQUAL(comm, 77);
  hal_error error = {.size = sizeof(error)};
  EQUAL(hal_port_last_error(port, &error), HAL_OK);
  CONTAINS(error.text, "1 of 2 ranks joined");
  EQUAL(hal_device_close(port, device, 0), HAL_OK);
  EQUAL(hal_collective_comm_create(port, device, &desc, &comm), HAL_ERROR_INVALID_HANDLE);
  tear_down();
}

static void a_collective_without_a_rank_fails_its_stream(void) {
  set_up();
  join(2, 5000000);
  number_sources(1);
  const hal_collective_desc desc = desc_of(0, 1, 1);
  EQUAL(hal_collective_all_reduce(port, members[0].comm, members[0].stream, &desc), HAL_OK);
  EQUAL(hal_stream_synchronize(port, members[0].stream, LONG_NS), HAL_ERROR_TIMEOUT);
  int32_t status = HAL_OK;
  EQUAL(hal_collective_async_error(port, members[1].comm, &status), HAL_OK);
  EQUAL(status, HAL_ERROR_TIMEOUT);
  EQUAL(hal_collective_all_reduce(port, members[1].comm, members[1].stream, &desc),
        HAL_ERROR_TIMEOUT);
  EQUAL(hal_stream_synchronize(port, members[1].stream, LONG_NS), HAL_OK);
  leave();
  tear_down();
}

static void an_abort_frees_the_ranks_that_wait(void) {
  set_up();
  join(3, LONG_NS);
  number_sources(1);
  const hal_collective_desc desc = desc_of(0, 1, 1);
  EQUAL(hal_collective_all_reduce(port, members[0].comm, members[0].stream, &desc), HAL_OK);
  EQUAL(hal_collective_abort(port, members[2].comm), HAL_OK);
  EQUAL(hal_stream_synchronize(port, members[0].stream, LONG_NS), HAL_ERROR_PEER_FAILED);
  EQUAL(hal_collective_all_reduce(port, members[1].comm, members[1].stream, &desc),
        HAL_ERROR_PEER_FAILED);
  EQUAL(hal_collective_abort(port, 4711), HAL_ERROR_INVALID_HANDLE);
  leave();
  tear_down();
}

static void a_rank_that_leaves_fails_the_others(void) {
  set_up();
  join(2, LONG_NS);
  number_sources(1);
  const hal_collective_desc desc = desc_of(0, 1, 1);
  EQUAL(hal_collective_all_reduce(port, members[0].comm, members[0].stream, &desc), HAL_OK);
  EQUAL(hal_collective_comm_destroy(port, members[1].comm), HAL_OK);
  EQUAL(hal_stream_synchronize(port, members[0].stream, LONG_NS), HAL_ERROR_PEER_FAILED);
  tear_down();
}

static void a_failed_stream_fails_the_others(void) {
  set_up();
  join(2, LONG_NS);
  number_sources(1);
  hal_event gate = 0;
  EQUAL(hal_event_create(port, members[1].device, HAL_EVENT_FLAG_HOST, &gate), HAL_OK);
  EQUAL(hal_stream_wait_event(port, members[1].stream, gate), HAL_OK);
  call_all(hal_collective_all_reduce, 1, 1, 0);
  EQUAL(hal_event_signal(port, gate, HAL_ERROR_EXECUTION_FAILED), HAL_OK);
  EQUAL(hal_stream_synchronize(port, members[0].stream, LONG_NS), HAL_ERROR_PEER_FAILED);
  EQUAL(hal_stream_synchronize(port, members[1].stream, LONG_NS), HAL_ERROR_EXECUTION_FAILED);
  leave();
  tear_down();
}

static void wrong_parts_are_refused(void) {
  set_up();
  join(2, LONG_NS);
  const member *one = &members[0];
  hal_collective_desc desc = desc_of(0, 1, 1);
  desc.target.bytes -= 1;
  EQUAL(hal_collective_all_reduce(port, one->comm, one->stream, &desc), HAL_ERROR_OUT_OF_RANGE);
  desc = desc_of(0, 1, 1);
  EQUAL(hal_collective_all_gather(port, one->comm, one->stream, &desc), HAL_ERROR_OUT_OF_RANGE);
  desc.count = UINT64_MAX / 2;
  EQUAL(hal_collective_all_reduce(port, one->comm, one->stream, &desc), HAL_ERROR_OUT_OF_RANGE);
  desc = desc_of(0, 1, 1);
  desc.peer = 2;
  EQUAL(hal_collective_broadcast(port, one->comm, one->stream, &desc), HAL_ERROR_OUT_OF_RANGE);
  EQUAL(hal_collective_send(port, one->comm, one->stream, &desc), HAL_ERROR_OUT_OF_RANGE);
  desc.dtype = HAL_DTYPE_F8E4M3;
  EQUAL(hal_collective_all_reduce(port, one->comm, one->stream, &desc), HAL_ERROR_UNSUPPORTED);
  desc = desc_of(0, 1, 1);
  EQUAL(hal_collective_all_reduce(port, one->comm, members[1].stream, &desc),
        HAL_ERROR_INVALID_HANDLE);
  desc.source.memory = members[1].source;
  EQUAL(hal_collective_all_reduce(port, one->comm, one->stream, &desc), HAL_ERROR_INVALID_HANDLE);
  EQUAL(hal_collective_all_reduce(port, 12, one->stream, &desc), HAL_ERROR_INVALID_HANDLE);
  // After all that the communicator works.
  number_sources(1);
  call_all(hal_collective_all_reduce, 1, 1, 0);
  EQUAL(result_of(1, 1)[0], sum_at(0));
  // Ranks that disagree learn it.
  desc = desc_of(0, 1, 1);
  EQUAL(hal_collective_all_reduce(port, one->comm, one->stream, &desc), HAL_OK);
  desc = desc_of(1, 1, 1);
  desc.reduce = HAL_REDUCE_MAX;
  EQUAL(hal_collective_all_reduce(port, members[1].comm, members[1].stream, &desc),
        HAL_ERROR_INVALID_VALUE);
  EQUAL(hal_stream_synchronize(port, one->stream, LONG_NS), HAL_ERROR_PEER_FAILED);
  leave();
  tear_down();
}

static void a_second_rank_of_one_number_is_refused(void) {
  set_up();
  rank_count = 2;
  new_id();
  hal_device device = 0;
  EQUAL(hal_device_open(port, 0, &device), HAL_OK);
  const hal_comm_desc desc = comm_desc(0, LONG_NS);
  hal_comm_desc other = desc;
  hal_comm comms[3] = {0};
  other.rank_count = 3;
  other.rank = 1;
  EQUAL(hal_collective_group_begin(port), HAL_OK);
  EQUAL(hal_collective_comm_create(port, device, &desc, &comms[0]), HAL_OK);
  EQUAL(hal_collective_comm_create(port, device, &desc, &comms[1]), HAL_OK);
  EQUAL(hal_collective_comm_create(port, device, &other, &comms[2]), HAL_OK);
  other.rank_count = 2;
  EQUAL(hal_collective_comm_create(port, device, &other, &comms[2]), HAL_OK);
  EQUAL(hal_collective_group_end(port), HAL_ERROR_INVALID_VALUE);
  TRUE(comms[0] != 0);
  EQUAL(comms[1], 0);
  TRUE(comms[2] != 0);
  tear_down();
}

static void a_port_without_all_to_all_sends_and_receives(void) {
  entry = own_entry;
  set_up();
  int32_t capability = -1;
  EQUAL(hal_port_capability(port, "collective.all_to_all", &capability), HAL_OK);
  EQUAL(capability, HAL_CAPABILITY_EMULATED);
  rank_count = 3;
  member *one = &members[1];
  EQUAL(hal_device_open(port, 0, &one->device), HAL_OK);
  EQUAL(hal_stream_create(port, one->device, 0, &one->stream), HAL_OK);
  const hal_memory_desc memory = {.size = sizeof(memory), .bytes = 3 * ELEMENTS * 4};
  EQUAL(hal_memory_alloc(port, one->device, &memory, &one->source), HAL_OK);
  EQUAL(hal_memory_alloc(port, one->device, &memory, &one->target), HAL_OK);
  const hal_comm_desc comm = {.size = sizeof(comm), .rank_count = 3, .rank = 1};
  EQUAL(hal_collective_group_begin(port), HAL_OK);
  EQUAL(hal_collective_comm_create(port, one->device, &comm, &one->comm), HAL_OK);
  EQUAL(hal_collective_group_end(port), HAL_OK);
  told[0] = '\0';
  int32_t numbers[3 * ELEMENTS];
  for (int i = 0; i < 3 * ELEMENTS; ++i) numbers[i] = i;
  put(1, one->source, numbers, sizeof(numbers));
  hal_collective_desc desc = desc_of(1, 3, 3);
  EQUAL(hal_collective_all_to_all(port, one->comm, one->stream, &desc), HAL_OK);
  EQUAL(strcmp(told, "( s0+0 r0+0 s2+56 r2+56 )"), 0);
  get(1, one->target, numbers, sizeof(numbers));
  EQUAL(numbers[0], 0);
  EQUAL(numbers[ELEMENTS], ELEMENTS);
  EQUAL(numbers[2 * ELEMENTS], 0);
  desc.target.bytes -= 1;
  EQUAL(hal_collective_all_to_all(port, one->comm, one->stream, &desc), HAL_ERROR_OUT_OF_RANGE);
  EQUAL(hal_collective_comm_destroy(port, one->comm), HAL_OK);
  EQUAL(hal_collective_all_to_all(port, one->comm, one->stream, &desc), HAL_ERROR_INVALID_HANDLE);
  tear_down();
}

// ---- Reductions ----

static uint16_t reduce_half(uint32_t dtype, uint32_t operation, uint16_t a, uint16_t b) {
  const void *sources[2] = {&a, &b};
  uint16_t result = 0;
  hal_reduce(dtype, operation, sources, 2, 0, 1, &result);
  return result;
}

static void halves_round_once_to_nearest_even(void) {
  EQUAL(reduce_half(HAL_DTYPE_F16, HAL_REDUCE_SUM, 0x3C00, 0x3C00), 0x4000);
  EQUAL(reduce_half(HAL_DTYPE_F16, HAL_REDUCE_SUM, 0x6800, 0x3C00), 0x6800);  // 2048 + 1: tie.
  EQUAL(reduce_half(HAL_DTYPE_F16, HAL_REDUCE_SUM, 0x6801, 0x3C00), 0x6802);  // 2050 + 1: tie.
  EQUAL(reduce_half(HAL_DTYPE_F16, HAL_REDUCE_SUM, 0x7BFF, 0x7BFF), 0x7C00);
  EQUAL(reduce_half(HAL_DTYPE_F16, HAL_REDUCE_SUM, 0x7BFF, 0x4BFF), 0x7BFF);
  EQUAL(reduce_half(HAL_DTYPE_F16, HAL_REDUCE_SUM, 0x7BFF, 0x4C00), 0x7C00);
  EQUAL(reduce_half(HAL_DTYPE_F16, HAL_REDUCE_SUM, 0x0001, 0x0001), 0x0002);
  EQUAL(reduce_half(HAL_DTYPE_F16, HAL_REDUCE_PRODUCT, 0x0001, 0x3800), 0x0000);  // Half: tie.
  EQUAL(reduce_half(HAL_DTYPE_F16, HAL_REDUCE_PRODUCT, 0x0003, 0x3800), 0x0002);  // 1.5: tie.
  EQUAL(reduce_half(HAL_DTYPE_F16, HAL_REDUCE_PRODUCT, 0x8400, 0x3800), 0x8200);
  EQUAL(reduce_half(HAL_DTYPE_F16, HAL_REDUCE_MAX, 0x7E00, 0x3C00) & 0x7C00, 0x7C00);
  EQUAL(reduce_half(HAL_DTYPE_F16, HAL_REDUCE_MIN, 0x3C00, 0xFC00), 0xFC00);
  EQUAL(reduce_half(HAL_DTYPE_BF16, HAL_REDUCE_SUM, 0x3F80, 0x3F80), 0x4000);
  EQUAL(reduce_half(HAL_DTYPE_BF16, HAL_REDUCE_SUM, 0x4380, 0x3F80), 0x4380);  // 256 + 1: tie.
  EQUAL(reduce_half(HAL_DTYPE_BF16, HAL_REDUCE_SUM, 0x7F7F, 0x7F7F), 0x7F80);
  EQUAL(reduce_half(HAL_DTYPE_BF16, HAL_REDUCE_MAX, 0x7FC0, 0x3F80) > 0x7F80, 1);
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {  // Each value keeps its bits.
    const void *source = &bits;
    uint16_t result = 0;
    hal_reduce(HAL_DTYPE_F16, HAL_REDUCE_SUM, &source, 1, 0, 1, &result);
    if ((bits & 0x7FFF) <= 0x7C00) EQUAL(result, bits);
    hal_reduce(HAL_DTYPE_BF16, HAL_REDUCE_SUM, &source, 1, 0, 1, &result);
    if ((bits & 0x7FFF) <= 0x7F80) EQUAL(result, bits);
  }
}

static void integers_wrap_and_floats_pass_on_nan(void) {
  const int8_t bytes[2][2] = {{127, -128}, {1, -1}};
  const void *byte_sources[2] = {bytes[0], bytes[1]};
  int8_t byte_result[2];
  hal_reduce(HAL_DTYPE_I8, HAL_REDUCE_SUM, byte_sources, 2, 0, 2, byte_result);
  EQUAL(byte_result[0], -128);
  EQUAL(byte_result[1], 127);
  const int32_t words[2][1] = {{INT32_MIN}, {-1}};
  const void *word_sources[2] = {words[0], words[1]};
  int32_t word_result;
  hal_reduce(HAL_DTYPE_I32, HAL_REDUCE_PRODUCT, word_sources, 2, 0, 1, &word_result);
  EQUAL(word_result, INT32_MIN);
  const uint8_t small[2][1] = {{200}, {100}};
  const void *small_sources[2] = {small[0], small[1]};
  uint8_t small_result;
  hal_reduce(HAL_DTYPE_U8, HAL_REDUCE_MAX, small_sources, 2, 0, 1, &small_result);
  EQUAL(small_result, 200);
  const double reals[3][1] = {{1}, {NAN}, {2}};
  const void *real_sources[3] = {reals[0], reals[1], reals[2]};
  double real_result;
  hal_reduce(HAL_DTYPE_F64, HAL_REDUCE_MAX, real_sources, 3, 0, 1, &real_result);
  TRUE(isnan(real_result));
  hal_reduce(HAL_DTYPE_F64, HAL_REDUCE_MIN, real_sources + 2, 1, 0, 1, &real_result);
  TRUE(real_result == 2);
}

static void long_reductions_cover_each_element(void) {
  enum { LONG = 2000 };
  static float sources[3][LONG], result[LONG];
  for (uint32_t i = 0; i < LONG; ++i) {
    for (uint32_t r = 0; r < 3; ++r) sources[r][i] = (float)(i * (r + 1));
  }
  const void *pointers[3] = {sources[0], sources[1], sources[2]};
  hal_reduce(HAL_DTYPE_F32, HAL_REDUCE_SUM, pointers, 3, 1, LONG - 1, result);
  for (uint32_t i = 0; i + 1 < LONG; ++i) TRUE(result[i] == (float)((i + 1) * 6));
}

static void run_all(void) {
  all_collectives_work_at_any_count_of_ranks();
  results_in_place_are_right();
  a_group_holds_several_collectives_on_one_stream();
  ranks_exchange_messages_inside_a_group();
  ranks_of_different_threads_meet();
  a_rank_that_stays_away_times_out();
  a_collective_without_a_rank_fails_its_stream();
  an_abort_frees_the_ranks_that_wait();
  a_rank_that_leaves_fails_the_others();
  a_failed_stream_fails_the_others();
  wrong_parts_are_refused();
  a_second_rank_of_one_number_is_refused();
}

// The port opens the group, and refuses a rank when others are with it already.
static void ranks_that_the_port_has_no_communicator_for_are_joined_by_the_loader(void) {
  entry = own_entry;
  ranks_refused_from = 2;
  set_up();
  every_collective_at(3);
  tear_down();
  ranks_refused_from = UINT32_MAX;
  entry = hal_port_entry;
}

// What the port's own communicator cannot do is UNSUPPORTED, not an unknown communicator.
static void what_the_ports_communicator_cannot_do_is_unsupported(void) {
  entry = own_entry;
  set_up();
  join(1, LONG_NS);
  const hal_collective_desc desc = desc_of(0, 1, 1);
  EQUAL(hal_collective_all_reduce(port, members[0].comm, members[0].stream, &desc),
        HAL_ERROR_UNSUPPORTED);
  EQUAL(hal_collective_all_reduce(port, 4711, members[0].stream, &desc), HAL_ERROR_INVALID_HANDLE);
  EQUAL(hal_collective_comm_destroy(port, members[0].comm), HAL_OK);
  tear_down();
  entry = hal_port_entry;
}

int main(void) {
  run_all();
  entry = stub_entry;  // The same where the port has functions that answer UNSUPPORTED.
  run_all();
  a_port_without_all_to_all_sends_and_receives();
  ranks_that_the_port_has_no_communicator_for_are_joined_by_the_loader();
  what_the_ports_communicator_cannot_do_is_unsupported();
  halves_round_once_to_nearest_even();
  integers_wrap_and_floats_pass_on_nan();
  long_reductions_cover_each_element();
  return 0;
}
