// libhal on a real port with threads of its own: what it emulates meets work that is truly
// asynchronous. Sanitizer builds look for races here.
#include <pthread.h>
#include <stdatomic.h>

#include "files.h"
#include "hal/loader.h"

enum { RANKS = 4, COUNT = 1000, TURNS = 30 };
static const uint64_t LONG_NS = 60000000000;

static hal_port *port;
static hal_image *image;
static unsigned char *module_bytes;
static uint64_t module_length;
static hal_unique_id id;

// One user of the port: a device handle with objects of its own.
typedef struct user {
  hal_device device;
  hal_stream stream;
  hal_module module;
  hal_pool *pool;
  hal_plan *add, *mark;
} user;

static void check(int32_t status, const char *what, int line) {
  if (status == HAL_OK) return;
  hal_error error = {.size = sizeof(error)};
  hal_port_last_error(port, &error);
  fprintf(stderr, "%s:%d: %s: %s: %s\n", __FILE__, line, what, hal_status_text(status), error.text);
  exit(1);
}
#define GOOD(call) check(call, #call, __LINE__)

static hal_plan *plan_of(user *one, const char *name) {
  hal_kernel kernel = 0;
  uint32_t index = 0;
  hal_plan *plan = NULL;
  GOOD(hal_module_get_kernel(port, one->module, name, &kernel));
  GOOD(hal_image_find(image, name, &index));
  GOOD(hal_plan_create(port, kernel, image, index, one->pool, &plan));
  return plan;
}

static user begin(void) {
  user one = {0};
  GOOD(hal_device_open(port, 0, &one.device));
  GOOD(hal_stream_create(port, one.device, 0, &one.stream));
  GOOD(hal_pool_create(port, one.device, NULL, &one.pool));
  const hal_module_desc desc = {.size = sizeof(desc),
                                .format = "vil.v1",
                                .image = module_bytes,
                                .image_bytes = module_length};
  GOOD(hal_module_load(port, one.device, &desc, &one.module));
  one.add = plan_of(&one, "add");
  one.mark = plan_of(&one, "mark");
  return one;
}

static void end(user *one) {
  GOOD(hal_stream_synchronize(port, one->stream, LONG_NS));
  hal_plan_free(one->add);
  hal_plan_free(one->mark);
  GOOD(hal_pool_forget_stream(one->pool, one->stream));
  GOOD(hal_stream_destroy(port, one->stream));
  GOOD(hal_pool_destroy(one->pool));
  GOOD(hal_module_unload(port, one->module));
  GOOD(hal_device_close(port, one->device, LONG_NS));
}

static hal_memory_ref numbers(user *one, int32_t value) {
  hal_memory_ref ref;
  GOOD(hal_pool_alloc(one->pool, one->stream, COUNT * sizeof(int32_t), &ref));
  GOOD(hal_transfer_fill(port, one->stream, &ref, &value, sizeof(value)));
  return ref;
}

static void add(user *one, hal_memory_ref ref, int32_t value) {
  const hal_argument arguments[3] = {{.kind = HAL_ARGUMENT_BUFFER, .buffer = ref},
                                     {.kind = HAL_ARGUMENT_I64, .scalar = COUNT},
                                     {.kind = HAL_ARGUMENT_I32, .scalar = (uint32_t)value}};
  GOOD(hal_plan_launch(one->add, one->stream, arguments, 3, NULL));
}

static void expect_all(user *one, hal_memory_ref ref, int32_t value) {
  int32_t got[COUNT];
  const hal_copy_desc copy = {
      .size = sizeof(copy), .kind = HAL_COPY_DEVICE_TO_HOST, .source = ref, .host_target = got};
  GOOD(hal_transfer_copy(port, one->stream, &copy));
  GOOD(hal_stream_synchronize(port, one->stream, LONG_NS));
  for (int i = 0; i < COUNT; ++i) EQUAL(got[i], value);
}

static void count_call(void *argument) {
  *(int *)argument += 1;  // The stream's order is all that protects it.
}

// Launches, host calls, graphs and workspaces, in order on one stream.
static void *work_alone(void *argument) {
  (void)argument;
  user one = begin();
  int called = 0;
  const hal_memory_ref ref = numbers(&one, 0);
  GOOD(hal_graph_begin(port, one.stream));
  add(&one, ref, 1);
  add(&one, ref, 2);
  const hal_memory_ref marked = {
      .memory = ref.memory, .offset_bytes = ref.offset_bytes, .bytes = 4};
  const hal_argument mark[2] = {{.kind = HAL_ARGUMENT_BUFFER, .buffer = marked},
                                {.kind = HAL_ARGUMENT_I32, .scalar = 0}};
  hal_graph graph = 0;
  GOOD(hal_graph_end(port, one.stream, &graph));
  for (int turn = 0; turn < TURNS; ++turn) {
    add(&one, ref, 4);
    GOOD(hal_stream_host_call(port, one.stream, count_call, &called));
    GOOD(hal_graph_launch(port, graph, one.stream));
    hal_memory_ref scratch = numbers(&one, turn);
    GOOD(hal_pool_free(one.pool, one.stream, &scratch));
  }
  expect_all(&one, ref, 7 * TURNS);
  EQUAL(called, TURNS);
  GOOD(hal_graph_begin(port, one.stream));
  GOOD(hal_plan_launch(one.mark, one.stream, mark, 2, NULL));
  hal_graph with_workspace = 0;
  GOOD(hal_graph_end(port, one.stream, &with_workspace));
  for (int turn = 0; turn < TURNS; ++turn) {
    GOOD(hal_graph_launch(port, with_workspace, one.stream));
    GOOD(hal_plan_launch(one.mark, one.stream, mark, 2, NULL));
  }
  GOOD(hal_graph_destroy(port, with_workspace));
  GOOD(hal_graph_destroy(port, graph));
  end(&one);
  return NULL;
}

// Sums over all ranks again and again, and passes numbers round.
static void *work_as_rank(void *argument) {
  const uint32_t rank = (uint32_t)(uintptr_t)argument;
  user one = begin();
  const hal_comm_desc desc = {
      .size = sizeof(desc), .rank_count = RANKS, .rank = rank, .id = id, .timeout_ns = LONG_NS};
  hal_comm comm = 0;
  GOOD(hal_collective_comm_create(port, one.device, &desc, &comm));
  const hal_memory_ref ref = numbers(&one, 1), other = numbers(&one, 0);
  hal_collective_desc part = {.size = sizeof(part),
                              .dtype = HAL_DTYPE_I32,
                              .reduce = HAL_REDUCE_SUM,
                              .count = COUNT,
                              .source = ref,
                              .target = ref};
  int32_t expected = 1;
  for (int turn = 0; turn < 5; ++turn) {
    GOOD(hal_collective_all_reduce(port, comm, one.stream, &part));
    add(&one, ref, 1);
    expected = expected * RANKS + 1;
  }
  expect_all(&one, ref, expected);
  part.source = ref;
  part.target = other;
  for (int turn = 0; turn < 5; ++turn) {
    part.peer = (rank + 1) % RANKS;
    GOOD(hal_collective_send(port, comm, one.stream, &part));
    part.peer = (rank + RANKS - 1) % RANKS;
    GOOD(hal_collective_recv(port, comm, one.stream, &part));
  }
  expect_all(&one, other, expected);
  GOOD(hal_collective_comm_destroy(port, comm));
  end(&one);
  return NULL;
}

// Copies between two device handles, which libhal does through host memory.
static void *work_in_pairs(void *argument) {
  (void)argument;
  user one = begin(), two = begin();
  for (int turn = 0; turn < TURNS; ++turn) {
    hal_memory_ref from = numbers(&one, turn), to = numbers(&two, -1);
    hal_event filled = 0;
    GOOD(hal_event_create(port, two.device, 0, &filled));
    GOOD(hal_event_record(port, filled, two.stream));
    GOOD(hal_stream_wait_event(port, one.stream, filled));
    GOOD(hal_transfer_copy_peer(port, one.stream, &from, &to));
    GOOD(hal_pool_free(one.pool, one.stream, &from));
    GOOD(hal_stream_synchronize(port, one.stream, LONG_NS));
    GOOD(hal_event_destroy(port, filled));
    add(&two, to, 5);
    expect_all(&two, to, turn + 5);
    GOOD(hal_pool_free(two.pool, two.stream, &to));
  }
  end(&one);
  end(&two);
  return NULL;
}

int main(void) {
  char path[1024], reason[512] = "";
  const char *folder = getenv("HAL_LIB_DIR");
  snprintf(path, sizeof(path), "%s/hal_port_cpu.so", folder == NULL ? "hal/_lib" : folder);
  const int32_t status = hal_port_open(path, NULL, &port, reason, sizeof(reason));
  if (status != HAL_OK) expect_fail(path, 0, reason);
  module_bytes = read_file("tests/fuzz/corpus/libhal_image/small.hvil", &module_length);
  EQUAL(hal_image_read(module_bytes, module_length, &image, reason, sizeof(reason)), HAL_OK);
  GOOD(hal_collective_unique_id(port, &id));
  pthread_t threads[RANKS + 4];
  uint32_t count = 0;
  for (uintptr_t i = 0; i < RANKS; ++i) {
    EQUAL(pthread_create(&threads[count++], NULL, work_as_rank, (void *)i), 0);
  }
  for (int i = 0; i < 2; ++i) {
    EQUAL(pthread_create(&threads[count++], NULL, work_alone, NULL), 0);
    EQUAL(pthread_create(&threads[count++], NULL, work_in_pairs, NULL), 0);
  }
  for (uint32_t i = 0; i < count; ++i) EQUAL(pthread_join(threads[i], NULL), 0);
  hal_image_free(image);
  free(module_bytes);
  GOOD(hal_port_close(port, LONG_NS));
  return 0;
}
