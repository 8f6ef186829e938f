// The native executor over a runtime whose queue the test moves by hand.
#include <pthread.h>
#include <stdbool.h>

#include "kit_fixture.h"

enum { QUEUES = 8, LENGTH = 256 };

// The runtime: operations that were submitted run when the test says so.
static struct {
  pthread_mutex_t lock;
  uint32_t count;
  struct {
    kit_operation *waiting[LENGTH];
    uint64_t submitted, finished;
    bool open, automatic;
  } queues[QUEUES + 1];
} runtime = {.lock = PTHREAD_MUTEX_INITIALIZER};

static kit_device *runtime_device;

static int32_t queue_open(kit_device *device, uint64_t *queue) {
  runtime_device = device;
  if (*queue == 0) {
    *queue = ++runtime.count;
  }
  memset(&runtime.queues[*queue], 0, sizeof(runtime.queues[*queue]));
  runtime.queues[*queue].open = true;
  return HAL_OK;
}

static void queue_close(kit_device *device, uint64_t queue) {
  (void)device;
  runtime.queues[queue].open = false;
}

static int32_t submit(kit_device *device, uint64_t queue, kit_operation *operation) {
  (void)device;
  if (operation->kind == KIT_FILL && operation->pattern[0] == 0xDD) {
    return kit_fail(HAL_ERROR_EXECUTION_FAILED, "the runtime takes no such fill");
  }
  uint64_t at = runtime.queues[queue].submitted++;
  runtime.queues[queue].waiting[at % LENGTH] = operation;
  return HAL_OK;
}

// Does one waiting operation; the pattern 0xEE fails.
static int32_t step(uint64_t queue) {
  uint64_t at = runtime.queues[queue].finished;
  if (at == runtime.queues[queue].submitted) {
    return HAL_NOT_READY;
  }
  kit_operation *operation = runtime.queues[queue].waiting[at % LENGTH];
  if (operation->kind == KIT_FILL && operation->pattern[0] == 0xEE) {
    return kit_fail(HAL_ERROR_EXECUTION_FAILED, "fill %llu broke",
                    (unsigned long long)operation->id);
  }
  int32_t status = kit_host_run(runtime_device, operation);
  ++runtime.queues[queue].finished;
  return status;
}

static int32_t poll(kit_device *device, uint64_t queue, uint64_t *out_finished) {
  (void)device;
  int32_t status = HAL_OK;
  while (runtime.queues[queue].automatic && (status = step(queue)) == HAL_OK) {
  }
  *out_finished = runtime.queues[queue].finished;
  return status < 0 ? status : HAL_OK;
}

static const kit_port port = {PLAIN_TEXTS, .hcd_default = "",
                              .hooks = {.device_count = two_devices,
                                        .device_facts = plain_facts,
                                        .queue_open = queue_open,
                                        .queue_close = queue_close,
                                        .submit = submit,
                                        .poll = poll}};

static hal_device device;

// Makes a stream; *out_queue is the runtime's queue behind it.
static hal_stream new_stream(uint64_t *out_queue) {
  hal_stream stream = 0;
  EQUAL(kit_stream_create(device, 0, &stream), HAL_OK);
  *out_queue = runtime.count;
  return stream;
}

static void test_work_is_ready_when_it_has_finished(void) {
  uint64_t queue = 0;
  hal_stream stream = new_stream(&queue);
  hal_memory memory = allocate(device, 64, HAL_MEMORY_FLAG_ZERO);
  hal_event event = 0;
  unsigned char back[64] = {0};
  EQUAL(kit_event_create(device, HAL_EVENT_FLAG_TIMING, &event), HAL_OK);
  EQUAL(kit_stream_query(stream), HAL_OK);
  EQUAL(fill_with(stream, memory, 0, 64, 6, 1), HAL_OK);
  EQUAL(kit_event_record(event, stream), HAL_OK);
  EQUAL(copy_to_host(stream, memory, 0, back, 64), HAL_OK);
  EQUAL(runtime.queues[queue].submitted, 2);  // A record does not hold back later work.
  EQUAL(kit_stream_query(stream), HAL_NOT_READY);
  EQUAL(kit_event_query(event), HAL_NOT_READY);
  EQUAL(kit_stream_synchronize(stream, 1000000), HAL_ERROR_TIMEOUT);
  EQUAL(kit_device_close(device, 1000000), HAL_ERROR_TIMEOUT);
  EQUAL(step(queue), HAL_OK);
  EQUAL(kit_event_query(event), HAL_OK);
  EQUAL(kit_stream_query(stream), HAL_NOT_READY);
  EQUAL(step(queue), HAL_OK);
  EQUAL(kit_stream_query(stream), HAL_OK);
  EQUAL(back[63], 6);
  EQUAL(kit_stream_destroy(stream), HAL_OK);
  EQUAL(runtime.queues[queue].open, false);
}

static void test_waits_hold_work_back(void) {
  uint64_t first_queue = 0;
  uint64_t second_queue = 0;
  hal_stream first = new_stream(&first_queue);
  hal_stream second = new_stream(&second_queue);
  hal_memory memory = allocate(device, 64, 0);
  hal_event event = 0;
  hal_event gate = 0;
  EQUAL(kit_event_create(device, 0, &event), HAL_OK);
  EQUAL(kit_event_create(device, HAL_EVENT_FLAG_HOST, &gate), HAL_OK);
  EQUAL(kit_stream_wait_event(first, gate), HAL_OK);
  EQUAL(fill_with(first, memory, 0, 64, 1, 1), HAL_OK);
  EQUAL(kit_event_record(event, first), HAL_OK);
  EQUAL(kit_stream_wait_event(second, event), HAL_OK);
  EQUAL(fill_with(second, memory, 0, 64, 2, 1), HAL_OK);
  EQUAL(runtime.queues[first_queue].submitted, 0);
  EQUAL(runtime.queues[second_queue].submitted, 0);
  EQUAL(kit_event_signal(gate, HAL_OK), HAL_OK);
  EQUAL(runtime.queues[first_queue].submitted, 1);
  runtime.queues[first_queue].automatic = true;
  runtime.queues[second_queue].automatic = true;
  EQUAL(kit_stream_synchronize(second, SECOND), HAL_OK);  // Moves both streams on.
  EQUAL(kit_stream_query(first), HAL_OK);
}

static void test_failures_stick(uint32_t pattern, const char *text) {
  uint64_t queue = 0;
  hal_stream stream = new_stream(&queue);
  hal_memory memory = allocate(device, 64, 0);
  hal_event event = 0;
  EQUAL(kit_event_create(device, 0, &event), HAL_OK);
  EQUAL(fill_with(stream, memory, 0, 64, 1, 1), HAL_OK);
  EQUAL(fill_with(stream, memory, 0, 64, pattern, 1), HAL_OK);
  EQUAL(fill_with(stream, memory, 0, 64, 1, 1), HAL_OK);
  EQUAL(kit_event_record(event, stream), HAL_OK);
  runtime.queues[queue].automatic = true;
  EQUAL(kit_stream_synchronize(stream, SECOND), HAL_ERROR_EXECUTION_FAILED);
  EQUAL(last_error().operation_id, 2);
  CONTAINS(last_error().text, text);
  EQUAL(kit_event_query(event), HAL_ERROR_EXECUTION_FAILED);
  EQUAL(fill_with(stream, memory, 0, 64, 1, 1), HAL_ERROR_EXECUTION_FAILED);
  EQUAL(kit_stream_destroy(stream), HAL_OK);
}

static void note(void *user) {
  *(int *)user += 1;
}

static void test_host_calls_and_wrapped_queues(void) {
  hal_stream stream = 0;
  int calls = 0;
  EQUAL(kit_stream_wrap(device, QUEUES, &stream), HAL_OK);
  hal_memory memory = allocate(device, 64, 0);
  EQUAL(fill_with(stream, memory, 0, 64, 1, 1), HAL_OK);
  EQUAL(kit_stream_host_call(stream, note, &calls), HAL_OK);
  EQUAL(calls, 0);
  EQUAL(step(QUEUES), HAL_OK);
  EQUAL(kit_stream_synchronize(stream, SECOND), HAL_OK);
  EQUAL(calls, 1);
  for (int i = 0; i < 200; ++i) {  // More than one chunk of the queue.
    EQUAL(fill_with(stream, memory, 0, 64, 1, 1), HAL_OK);
  }
  runtime.queues[QUEUES].automatic = true;
  EQUAL(kit_stream_destroy(stream), HAL_OK);
  EQUAL(kit_device_synchronize(device, SECOND), HAL_OK);
  EQUAL(runtime.queues[QUEUES].finished, 201);
  EQUAL(runtime.queues[QUEUES].open, true);  // The caller's queue stays.
}

// The runtime gives no times: what was handed over early began when the one before it had ended.
static void test_records_of_a_queue_follow_each_other(void) {
  enum { COUNT = 3 };
  uint64_t queue = 0;
  uint64_t count = 0;
  uint64_t dropped = 0;
  hal_profile_record records[COUNT + 1];
  hal_stream stream = new_stream(&queue);
  hal_memory memory = allocate(device, 64, 0);
  EQUAL(kit_profile_start(device, 1u << (HAL_PROFILE_FILL - 1)), HAL_OK);
  for (int i = 0; i < COUNT; ++i) {
    EQUAL(fill_with(stream, memory, 0, 64, 1, 1), HAL_OK);
  }
  EQUAL(runtime.queues[queue].submitted, COUNT);
  for (int i = 0; i < COUNT; ++i) {
    EQUAL(step(queue), HAL_OK);
    EQUAL(kit_stream_query(stream), i + 1 == COUNT ? HAL_OK : HAL_NOT_READY);
  }
  EQUAL(kit_profile_stop(device), HAL_OK);
  EQUAL(kit_profile_drain(device, COUNT + 1, records, &count, &dropped), HAL_OK);
  EQUAL(count, COUNT);
  for (int i = 0; i < COUNT; ++i) {
    EQUAL(records[i].begin_ns <= records[i].end_ns, true);
    EQUAL(i == 0 || records[i - 1].end_ns <= records[i].begin_ns, true);
  }
  EQUAL(kit_stream_destroy(stream), HAL_OK);
}

int main(void) {
  device = open_port(&port);
  test_work_is_ready_when_it_has_finished();
  test_waits_hold_work_back();
  test_failures_stick(0xEE, "fill 2 broke");
  test_failures_stick(0xDD, "no such fill");
  test_records_of_a_queue_follow_each_other();
  test_host_calls_and_wrapped_queues();
  EQUAL(kit_port_shutdown(SECOND), HAL_OK);
  return 0;
}
