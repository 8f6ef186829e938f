// Collectives of a driver's library: what the kit makes of a library whose groups start after their
// end, beside queues that run when they are asked.
#include <stdbool.h>

#include "kit_collective.h"
#include "kit_fixture.h"

enum { DEVICES = 3, COMMANDS = 64, COUNT = 5, WORLD = 4 };
static const uint64_t LONG_NS = UINT64_C(60000000000);

// ---- The driver ----

typedef struct rank {
  int number, count, device;
  hal_unique_id id;
  bool is_stopped;
  int64_t failure;  // What `state` answers when it is not 0.
  int waits;        // How often `state` says NOT_READY before a group's work is on the queues.
} rank;

typedef struct command {
  rank *of;  // NULL: an event.
  kit_share share;
} command;

typedef struct queue {
  command commands[COMMANDS];
  int put, done;
} queue;

static queue queues[16];
static int queue_count;
static rank ranks[32];
static int rank_count;

// What the library was told in the group that is open, or not on the queues yet.
static struct {
  rank *of;
  queue *on;
  kit_share share;
} told[COMMANDS];
static int told_count, group_depth, groups, drops, stops, leaves, finishes;
static bool is_absent, refuses_shares, refuses_marks;

static int32_t reserve(void *device, uint64_t bytes, kit_allocation *out) {
  (void)device;
  out->pointer = aligned_alloc(64, (bytes + 63) / 64 * 64);
  out->native = (uint64_t)(uintptr_t)out->pointer;
  return HAL_OK;
}
static void release(void *device, kit_allocation *allocation) {
  (void)device;
  free(allocation->pointer);
}
static int32_t queue_open(kit_queue *made) {
  made->native = &queues[queue_count++];
  memset(made->native, 0, sizeof(queue));
  return HAL_OK;
}
static void queue_close(kit_queue *gone) {
  (void)gone;
}

static bool is_same(const rank *one, const rank *other) {
  return memcmp(&one->id, &other->id, sizeof(one->id)) == 0;
}

static command *head_of(queue *of) {
  return of->done < of->put ? &of->commands[of->done] : NULL;
}

// Adds up what all ranks of a communicator have at the heads of their queues; false when one is not
// there.
static bool meet(const rank *of) {
  queue *found[WORLD] = {NULL};
  int here = 0;
  for (int i = 0; i < queue_count; ++i) {
    command *head = head_of(&queues[i]);
    if (head != NULL && head->of != NULL && is_same(head->of, of) &&
        found[head->of->number] == NULL) {
      found[head->of->number] = &queues[i];
      ++here;
    }
  }
  if (here != of->count) {
    return false;
  }
  int32_t sums[COUNT] = {0};
  for (int r = 0; r < of->count; ++r) {
    const int32_t *source = head_of(found[r])->share.source;
    for (int i = 0; i < COUNT; ++i) sums[i] += source[i];
  }
  for (int r = 0; r < of->count; ++r) {
    memcpy(head_of(found[r])->share.target, sums, sizeof(sums));
    ++found[r]->done;
  }
  return true;
}

// Runs all queues as far as they go.
static void run(void) {
  for (bool moved = true; moved;) {
    moved = false;
    for (int i = 0; i < queue_count; ++i) {
      command *head = head_of(&queues[i]);
      if (head == NULL) continue;
      if (head->of == NULL || head->of->is_stopped) {
        ++queues[i].done;
        moved = true;
      } else {
        moved |= meet(head->of);
      }
    }
  }
}

static int32_t queue_finish(kit_queue *of) {
  (void)of;
  ++finishes;
  run();
  return HAL_OK;
}
static unsigned char *bytes_of(const kit_span *span) {
  return (unsigned char *)(uintptr_t)(span->native + span->offset_bytes);
}
// Copies run at once: the tests make them on idle queues alone.
static int32_t write_bytes(kit_queue *of, const kit_span *to, const void *from) {
  (void)of;
  memcpy(bytes_of(to), from, to->bytes);
  return HAL_OK;
}
static int32_t read_bytes(kit_queue *of, const kit_span *from, void *to) {
  (void)of;
  memcpy(to, bytes_of(from), from->bytes);
  return HAL_OK;
}
static int32_t copy(kit_queue *of, const kit_span *from, const kit_span *to) {
  (void)of;
  memcpy(bytes_of(to), bytes_of(from), to->bytes);
  return HAL_OK;
}
static int32_t fill(kit_queue *of, const kit_span *to, const void *pattern, uint32_t bytes) {
  (void)of, (void)pattern, (void)bytes;
  memset(bytes_of(to), 0, to->bytes);
  return HAL_OK;
}
static int32_t launch(kit_queue *of, const kit_call *call) {
  (void)of, (void)call;
  return HAL_OK;
}

typedef struct event {
  queue *on;
  int place;
} event;

static int32_t mark(kit_queue *of, void **made) {
  queue *on = of->native;
  if (refuses_marks) return kit_fail(HAL_ERROR_DEVICE_LOST, "no event is taken");
  if (*made == NULL) *made = malloc(sizeof(event));
  on->commands[on->put++].of = NULL;
  *(event *)*made = (event){on, on->put};
  TRUE(on->put < COMMANDS);
  return HAL_OK;
}
static int32_t ask(kit_queue *of, void *asked) {
  const event *one = asked;
  (void)of;
  run();
  return one->on->done >= one->place ? HAL_OK : HAL_NOT_READY;
}
static void drop_event(void *gone) {
  free(gone);
}
static int32_t compile(const kit_source *source, kit_program *program) {
  (void)source, (void)program;
  return HAL_OK;
}
static int32_t find(const kit_program *program, kit_function *function) {
  (void)program, (void)function;
  return HAL_OK;
}
static void program_drop(kit_program *program) {
  (void)program;
}

// ---- The library ----

static int32_t check(void) {
  return is_absent ? kit_fail(HAL_ERROR_UNSUPPORTED, "there is no library") : HAL_OK;
}
static int32_t can_reduce(uint32_t dtype) {
  return dtype == HAL_DTYPE_I32 ? HAL_OK : kit_fail(HAL_ERROR_UNSUPPORTED, "i32 alone");
}
static int32_t unique_id(hal_unique_id *out) {
  static unsigned char count;
  memset(out, ++count, sizeof(*out));
  return HAL_OK;
}
static int32_t group_begin(void) {
  EQUAL(group_depth++, 0);
  return HAL_OK;
}
// The group's work is not on the queues when it returns.
static int32_t group_end(void) {
  EQUAL(--group_depth, 0);
  ++groups;
  return HAL_OK;
}
static int32_t join(const hal_comm_desc *desc, void **out_comm) {
  rank *made = &ranks[rank_count++];
  *made = (rank){.number = (int)desc->rank, .count = (int)desc->rank_count, .id = desc->id};
  *out_comm = made;
  return HAL_OK;
}
static int32_t share(void *comm, kit_queue *on, const kit_share *part) {
  EQUAL(group_depth, 1);
  if (refuses_shares) return kit_fail(HAL_ERROR_EXECUTION_FAILED, "no part is taken");
  rank *of = comm;
  of->waits = 2;
  told[told_count].of = of;
  told[told_count].on = on->native;
  told[told_count++].share = *part;
  return HAL_OK;
}
static int32_t state(void *comm) {
  rank *of = comm;
  if (of->failure != 0) return kit_fail((int32_t)of->failure, "a wire is cut");
  int joined = 0;
  for (int i = 0; i < rank_count; ++i) joined += is_same(&ranks[i], of);
  if (joined < of->count) return HAL_NOT_READY;
  if (of->waits != 0 && --of->waits != 0) return HAL_NOT_READY;
  for (int i = 0; i < told_count; ++i) {
    if (told[i].of != of) continue;
    told[i].on->commands[told[i].on->put++] = (command){of, told[i].share};
    told[i].of = NULL;
  }
  return HAL_OK;
}
static int32_t leave(void *comm) {
  (void)comm;
  ++leaves;
  return HAL_NOT_READY;
}
static void drop(void *comm, int stop) {
  rank *of = comm;
  of->is_stopped = true;
  for (int i = 0; i < told_count; ++i) told[i].of = told[i].of == of ? NULL : told[i].of;
  ++*(stop ? &stops : &drops);
  run();
}

// ---- The port ----

static const kit_collectives library = {.check = check,
                                        .can_reduce = can_reduce,
                                        .unique_id = unique_id,
                                        .group_begin = group_begin,
                                        .group_end = group_end,
                                        .join = join,
                                        .share = share,
                                        .state = state,
                                        .leave = leave,
                                        .drop = drop};
static const kit_driver driver = {.reserve = reserve,
                                  .release = release,
                                  .queue_open = queue_open,
                                  .queue_close = queue_close,
                                  .queue_finish = queue_finish,
                                  .write = write_bytes,
                                  .read = read_bytes,
                                  .copy = copy,
                                  .fill = fill,
                                  .launch = launch,
                                  .mark = mark,
                                  .ask = ask,
                                  .drop = drop_event,
                                  .compile = compile,
                                  .find = find,
                                  .program_drop = program_drop,
                                  .collectives = &library};

static int32_t start(void) {
  for (int i = 0; i < DEVICES; ++i) EQUAL(kit_device_offer("one", &i, sizeof(i)), HAL_OK);
  return HAL_OK;
}
static int32_t describe(void *data, kit_device_facts *facts) {
  (void)data;
  facts->hcd_ref = "test/chip";
  facts->memory_bytes = TOTAL_BYTES;
  facts->alignment_bytes = 64;
  return HAL_OK;
}
static const kit_port port = {PLAIN_TEXTS, .hcd_default = "features.timing\ttrue\n",
                              .driver = &driver,
                              .hooks = {.start = start, .device_describe = describe}};

// ---- Ranks ----

static hal_device devices[DEVICES];
static struct {
  hal_stream stream;
  hal_memory memory;
  hal_comm comm;
} members[DEVICES];
static hal_unique_id id;

static void begin(void) {
  EQUAL(kit_collective_group_begin(), HAL_OK);
}

static hal_comm_desc desc_of(uint32_t number, uint32_t count, uint64_t timeout_ns) {
  return (hal_comm_desc){sizeof(hal_comm_desc), count, number, id, timeout_ns};
}

static void come(uint32_t count, uint64_t timeout_ns) {
  EQUAL(kit_collective_unique_id(&id), HAL_OK);
  queue_count = rank_count = told_count = 0;
  begin();
  for (uint32_t i = 0; i < count; ++i) {
    int32_t numbers[COUNT];
    for (int k = 0; k < COUNT; ++k) numbers[k] = (int32_t)(100 * (i + 1)) + k;
    EQUAL(kit_stream_create(devices[i], 0, &members[i].stream), HAL_OK);
    members[i].memory = allocate(devices[i], sizeof(numbers), 0);
    EQUAL(copy_to_device(members[i].stream, members[i].memory, 0, numbers, sizeof(numbers), 0),
          HAL_OK);
    hal_comm_desc desc = desc_of(i, count, timeout_ns);
    members[i].comm = 0;
    EQUAL(kit_collective_comm_create(devices[i], &desc, &members[i].comm), HAL_OK);
    EQUAL(members[i].comm, 0);  // It is given at the end.
  }
  EQUAL(kit_collective_group_end(), HAL_OK);
}

static void go(uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    EQUAL(kit_collective_comm_destroy(members[i].comm), HAL_OK);
    EQUAL(kit_collective_comm_destroy(members[i].comm), HAL_ERROR_INVALID_HANDLE);
    EQUAL(kit_stream_destroy(members[i].stream), HAL_OK);
    EQUAL(kit_memory_free(members[i].memory), HAL_OK);
  }
}

static int32_t sum(uint32_t number) {
  hal_memory_ref all = {members[number].memory, 0, COUNT * 4};
  hal_collective_desc desc = {.size = sizeof(desc),
                              .dtype = HAL_DTYPE_I32,
                              .reduce = HAL_REDUCE_SUM,
                              .count = COUNT,
                              .source = all,
                              .target = all};
  return kit_collective_all_reduce(members[number].comm, members[number].stream, &desc);
}

static int32_t value(uint32_t number) {
  int32_t numbers[COUNT];
  EQUAL(copy_to_host(members[number].stream, members[number].memory, 0, numbers, sizeof(numbers)),
        HAL_OK);
  EQUAL(kit_stream_synchronize(members[number].stream, LONG_NS), HAL_OK);
  return numbers[0];
}

// The mark of an operation that stood on the queue before the collective would be done at once.
static void an_operation_ends_with_its_collective(void) {
  come(3, LONG_NS);
  begin();
  EQUAL(sum(0), HAL_OK);
  EQUAL(sum(1), HAL_OK);
  EQUAL(kit_stream_query(members[0].stream), HAL_OK);  // Nothing has been enqueued.
  EQUAL(kit_collective_group_end(), HAL_OK);
  for (int turn = 0; turn < 5; ++turn) {
    EQUAL(kit_stream_query(members[0].stream), HAL_NOT_READY);  // The third rank is missing.
    EQUAL(kit_stream_query(members[1].stream), HAL_NOT_READY);
  }
  EQUAL(sum(2), HAL_OK);
  for (uint32_t i = 0; i < 3; ++i) {
    EQUAL(kit_stream_synchronize(members[i].stream, LONG_NS), HAL_OK);
    EQUAL(value(i), 600);
  }
  go(3);
}

static void a_group_starts_when_its_last_stream_has_come(void) {
  come(2, LONG_NS);
  hal_event gate = 0;
  EQUAL(kit_event_create(devices[1], HAL_EVENT_FLAG_HOST, &gate), HAL_OK);
  EQUAL(kit_stream_wait_event(members[1].stream, gate), HAL_OK);
  int before = groups;
  begin();
  EQUAL(sum(0), HAL_OK);
  EQUAL(sum(1), HAL_OK);
  EQUAL(sum(0), HAL_OK);  // Several of one rank are in order.
  EQUAL(sum(1), HAL_OK);
  EQUAL(kit_collective_group_end(), HAL_OK);
  EQUAL(kit_stream_query(members[0].stream), HAL_NOT_READY);
  EQUAL(groups, before);
  EQUAL(kit_event_signal(gate, HAL_OK), HAL_OK);
  EQUAL(kit_stream_synchronize(members[0].stream, LONG_NS), HAL_OK);
  EQUAL(groups, before + 1);
  EQUAL(value(1), 600);
  EQUAL(kit_event_destroy(gate), HAL_OK);
  go(2);
}

static void a_failed_stream_fails_the_others_of_its_group(void) {
  come(2, LONG_NS);
  hal_event gate = 0;
  EQUAL(kit_event_create(devices[1], HAL_EVENT_FLAG_HOST, &gate), HAL_OK);
  EQUAL(kit_stream_wait_event(members[1].stream, gate), HAL_OK);
  begin();
  EQUAL(sum(0), HAL_OK);
  EQUAL(sum(1), HAL_OK);
  EQUAL(kit_collective_group_end(), HAL_OK);
  EQUAL(kit_event_signal(gate, HAL_ERROR_EXECUTION_FAILED), HAL_OK);
  EQUAL(kit_stream_synchronize(members[1].stream, LONG_NS), HAL_ERROR_EXECUTION_FAILED);
  EQUAL(kit_stream_synchronize(members[0].stream, LONG_NS), HAL_ERROR_PEER_FAILED);
  EQUAL(kit_event_destroy(gate), HAL_OK);
  go(2);
}

static void a_failure_of_the_library_fails_the_operation(void) {
  come(2, LONG_NS);
  EQUAL(sum(0), HAL_OK);
  EQUAL(kit_stream_query(members[0].stream), HAL_NOT_READY);
  ranks[0].failure = HAL_ERROR_PEER_FAILED;
  int before = stops;
  EQUAL(kit_stream_synchronize(members[0].stream, LONG_NS), HAL_ERROR_PEER_FAILED);
  CONTAINS(last_error().text, "a wire is cut");
  EQUAL(stops, before + 1);
  int32_t status = HAL_OK;
  EQUAL(kit_collective_async_error(members[1].comm, &status), HAL_OK);
  EQUAL(status, HAL_ERROR_PEER_FAILED);
  EQUAL(sum(1), HAL_ERROR_PEER_FAILED);
  CONTAINS(last_error().text, "failed before: a wire is cut");
  EQUAL(kit_stream_synchronize(members[1].stream, LONG_NS), HAL_OK);  // The refused call is not in.
  go(2);
}

static void a_part_whose_end_cannot_be_marked_fails_the_others(void) {
  come(2, LONG_NS);
  EQUAL(sum(1), HAL_OK);
  for (int i = 0; i < 3; ++i) EQUAL(kit_stream_query(members[1].stream), HAL_NOT_READY);
  refuses_marks = true;
  EQUAL(sum(0), HAL_OK);
  EQUAL(kit_stream_synchronize(members[0].stream, LONG_NS), HAL_ERROR_DEVICE_LOST);
  refuses_marks = false;
  int32_t status = HAL_OK;
  EQUAL(kit_collective_async_error(members[1].comm, &status), HAL_OK);
  EQUAL(status, HAL_ERROR_PEER_FAILED);
}

// The library fails when it has been told, before the part is known to be on the queue.
static void work_without_a_mark_has_ended_when_its_operation_fails(void) {
  come(1, LONG_NS);
  EQUAL(sum(0), HAL_OK);
  ranks[0].failure = HAL_ERROR_EXECUTION_FAILED;
  int before = finishes;
  EQUAL(kit_stream_synchronize(members[0].stream, LONG_NS), HAL_ERROR_EXECUTION_FAILED);
  EQUAL(finishes, before + 1);
  go(1);
}

static void a_library_that_takes_no_part_fails_the_stream(void) {
  come(1, LONG_NS);
  refuses_shares = true;
  EQUAL(sum(0), HAL_OK);
  EQUAL(kit_stream_synchronize(members[0].stream, LONG_NS), HAL_ERROR_EXECUTION_FAILED);
  CONTAINS(last_error().text, "no part is taken");
  refuses_shares = false;
  go(1);
}

static void a_rank_that_stays_away_times_out(void) {
  come(2, 1000000);
  EQUAL(sum(0), HAL_OK);
  EQUAL(kit_stream_synchronize(members[0].stream, LONG_NS), HAL_ERROR_TIMEOUT);
  CONTAINS(last_error().text, "rank 0 waited 1000000 ns");
  go(2);
  EQUAL(kit_collective_unique_id(&id), HAL_OK);
  hal_comm_desc desc = desc_of(0, 2, 1000000);
  hal_comm comm = 77;
  EQUAL(kit_collective_comm_create(devices[0], &desc, &comm), HAL_ERROR_TIMEOUT);
  EQUAL(comm, 77);
}

static void an_abort_ends_ranks_that_wait(void) {
  come(3, LONG_NS);
  EQUAL(sum(0), HAL_OK);
  EQUAL(kit_collective_abort(members[2].comm), HAL_OK);
  EQUAL(kit_stream_synchronize(members[0].stream, LONG_NS), HAL_ERROR_PEER_FAILED);
  CONTAINS(last_error().text, "aborted");
  EQUAL(sum(1), HAL_ERROR_PEER_FAILED);
  go(3);
}

static void two_ranks_of_one_device_are_not_the_librarys(void) {
  EQUAL(kit_collective_unique_id(&id), HAL_OK);
  hal_comm comms[2] = {0, 0};
  begin();
  for (uint32_t i = 0; i < 2; ++i) {
    hal_comm_desc desc = desc_of(i, 2, LONG_NS);
    EQUAL(kit_collective_comm_create(devices[0], &desc, &comms[i]), HAL_OK);
  }
  EQUAL(kit_collective_group_end(), HAL_ERROR_UNSUPPORTED);
  CONTAINS(last_error().text, "one device");
  EQUAL(comms[0] + comms[1], 0);
}

static void wrong_parts_are_refused(void) {
  come(2, LONG_NS);
  hal_memory_ref all = {members[0].memory, 0, COUNT * 4};
  hal_collective_desc desc = {
      .size = sizeof(desc), .dtype = HAL_DTYPE_I32, .count = COUNT, .source = all, .target = all};
  hal_comm comm = members[0].comm;
  EQUAL(kit_collective_all_gather(comm, members[0].stream, &desc), HAL_ERROR_OUT_OF_RANGE);
  EQUAL(kit_collective_all_reduce(comm, members[1].stream, &desc), HAL_ERROR_INVALID_HANDLE);
  EQUAL(kit_collective_all_reduce(4711, members[0].stream, &desc), HAL_ERROR_INVALID_HANDLE);
  desc.peer = 2;
  EQUAL(kit_collective_send(comm, members[0].stream, &desc), HAL_ERROR_OUT_OF_RANGE);
  desc.dtype = HAL_DTYPE_F32;
  EQUAL(kit_collective_reduce_scatter(comm, members[0].stream, &desc), HAL_ERROR_UNSUPPORTED);
  desc.count = UINT64_MAX / 2;
  EQUAL(kit_collective_broadcast(comm, members[0].stream, &desc), HAL_ERROR_OUT_OF_RANGE);
  EQUAL(kit_collective_group_end(), HAL_ERROR_INVALID_STATE);
  go(2);
}

static void without_the_library_all_is_the_loaders(void) {
  is_absent = true;
  hal_comm_desc desc = desc_of(0, 1, LONG_NS);
  hal_comm comm = 0;
  EQUAL(kit_collective_unique_id(&id), HAL_ERROR_UNSUPPORTED);
  EQUAL(kit_collective_comm_create(devices[0], &desc, &comm), HAL_ERROR_UNSUPPORTED);
  EQUAL(kit_collective_group_begin(), HAL_ERROR_UNSUPPORTED);
  EQUAL(kit_collective_group_end(), HAL_ERROR_UNSUPPORTED);
  is_absent = false;
}

int main(void) {
  devices[0] = open_port(&port);
  EQUAL(kit_device_open(1, &devices[1]), HAL_OK);
  EQUAL(kit_device_open(2, &devices[2]), HAL_OK);
  an_operation_ends_with_its_collective();
  a_group_starts_when_its_last_stream_has_come();
  a_failed_stream_fails_the_others_of_its_group();
  a_failure_of_the_library_fails_the_operation();
  work_without_a_mark_has_ended_when_its_operation_fails();
  a_library_that_takes_no_part_fails_the_stream();
  a_rank_that_stays_away_times_out();
  an_abort_ends_ranks_that_wait();
  two_ranks_of_one_device_are_not_the_librarys();
  wrong_parts_are_refused();
  without_the_library_all_is_the_loaders();
  a_part_whose_end_cannot_be_marked_fails_the_others();  // It loses the first device.
  int handles = rank_count;
  for (int i = 0; i < DEVICES; ++i) EQUAL(kit_device_close(devices[i], LONG_NS), HAL_OK);
  EQUAL(kit_port_shutdown(LONG_NS), HAL_OK);
  TRUE(handles != 0 && leaves != 0);
  EQUAL(leaves, drops);  // Who left was freed; who failed was stopped.
  return 0;
}
