// Streams, events, errors and lifetimes of the kit on its thread executor.
#include <pthread.h>

#include "kit_fixture.h"

// A fill with the pattern 0xEE fails, one with 0xDD loses the device; the rest is the kit's own.
static int32_t run(kit_device *device, kit_operation *operation) {
  if (operation->kind == KIT_FILL && operation->pattern[0] == 0xDD) {
    return kit_fail(HAL_ERROR_DEVICE_LOST, "it fell off the bus");
  }
  if (operation->kind == KIT_FILL && operation->pattern[0] == 0xEE) {
    return kit_fail(HAL_ERROR_EXECUTION_FAILED, "fill %llu broke",
                    (unsigned long long)operation->id);
  }
  return kit_host_run(device, operation);
}

static const kit_port port = {
    PLAIN_TEXTS,
    .hcd_default = "features.timing\ttrue\ndtypes.f32.compute\tnative\nlist\t[1, 2]\n",
    .hooks = {.device_count = two_devices, .device_facts = plain_facts, .run = run},
};

static hal_device device;

static hal_stream new_stream(void) {
  hal_stream stream = 0;
  EQUAL(kit_stream_create(device, 0, &stream), HAL_OK);
  return stream;
}

static hal_event new_event(uint32_t flags) {
  hal_event event = 0;
  EQUAL(kit_event_create(device, flags, &event), HAL_OK);
  return event;
}

static void test_port_answers(void) {
  const hal_port_root *out = NULL;
  EQUAL(kit_entry(&port, &plain_root, HAL_ABI_MAJOR + 1, 0, &out), HAL_ERROR_VERSION);
  TRUE(out == NULL);
  hal_host host = {.size = sizeof(host), .abi_major = HAL_ABI_MAJOR};
  EQUAL(kit_port_init(&host), HAL_ERROR_INVALID_STATE);
  char text[4] = "xxx";
  uint64_t bytes = 0;
  EQUAL(kit_device_get_str(device, "device.name", 3, text, &bytes), HAL_OK);
  TRUE(strcmp(text, "ze") == 0);
  EQUAL(bytes, 5);
  int64_t value = -1;
  EQUAL(kit_device_get_i64(device, "features.peer", &value), HAL_OK);
  EQUAL(value, 1);
  EQUAL(kit_device_get_i64(device, "features.graph", &value), HAL_OK);
  EQUAL(value, 0);
  EQUAL(kit_device_get_i64(device, "dtypes.f32.compute", &value), HAL_OK);
  EQUAL(value, 2);
  EQUAL(kit_device_get_i64(device, "features.warp", &value), HAL_ERROR_NOT_FOUND);
  EQUAL(value, 2);
  EQUAL(kit_device_open(2, &device), HAL_ERROR_OUT_OF_RANGE);
}

static void test_copies_and_fills(void) {
  hal_stream stream = new_stream();
  hal_memory memory = allocate(device, 1000, HAL_MEMORY_FLAG_ZERO);
  unsigned char host[1000];
  for (int i = 0; i < 1000; ++i) {
    host[i] = (unsigned char)i;
  }
  EQUAL(copy_to_device(stream, memory, 0, host, 1000, 0), HAL_OK);
  hal_copy_desc shift = {.size = sizeof(shift),
                         .kind = HAL_COPY_DEVICE_TO_DEVICE,
                         .source = {memory, 0, 900},
                         .target = {memory, 100, 900}};
  EQUAL(kit_transfer_copy(stream, &shift), HAL_OK);
  EQUAL(fill_with(stream, memory, 0, 8, 0x04030201, 4), HAL_OK);
  unsigned char back[1000] = {0};
  EQUAL(copy_to_host(stream, memory, 0, back, 1000), HAL_OK);
  EQUAL(kit_stream_synchronize(stream, SECOND), HAL_OK);
  TRUE(memcmp(back, "\1\2\3\4\1\2\3\4\10", 9) == 0);
  TRUE(memcmp(back + 100, host, 900) == 0);
  EQUAL(copy_to_host(stream, memory, 1, back, 1000), HAL_ERROR_OUT_OF_RANGE);
  EQUAL(copy_to_host(stream, memory, UINT64_MAX, back, 2), HAL_ERROR_OUT_OF_RANGE);
  EQUAL(kit_memory_free(memory), HAL_OK);
  EQUAL(kit_memory_free(memory), HAL_ERROR_INVALID_HANDLE);
  EQUAL(copy_to_host(stream, memory, 0, back, 1), HAL_ERROR_INVALID_HANDLE);
  EQUAL(kit_stream_destroy(stream), HAL_OK);
  EQUAL(kit_stream_destroy(stream), HAL_ERROR_INVALID_HANDLE);
}

static void test_host_events_hold_streams(void) {
  hal_stream stream = new_stream();
  hal_event gate = new_event(HAL_EVENT_FLAG_HOST);
  hal_event after = new_event(0);
  hal_memory memory = allocate(device, 64, HAL_MEMORY_FLAG_ZERO);
  unsigned char source[64];
  unsigned char back[64] = {0};
  memset(source, 7, sizeof(source));
  EQUAL(kit_event_query(gate), HAL_NOT_READY);
  EQUAL(kit_stream_wait_event(stream, gate), HAL_OK);
  EQUAL(copy_to_device(stream, memory, 0, source, 64, 0), HAL_OK);
  memset(source, 9, sizeof(source));  // Without BORROW the source is finished with.
  EQUAL(kit_event_record(after, stream), HAL_OK);
  EQUAL(kit_stream_query(stream), HAL_NOT_READY);
  EQUAL(kit_event_query(after), HAL_NOT_READY);
  EQUAL(kit_stream_synchronize(stream, 1000), HAL_ERROR_TIMEOUT);
  EQUAL(kit_event_synchronize(after, 1000), HAL_ERROR_TIMEOUT);
  EQUAL(kit_device_synchronize(device, 1000), HAL_ERROR_TIMEOUT);
  EQUAL(kit_device_close(device, 1000), HAL_ERROR_TIMEOUT);
  EQUAL(kit_port_shutdown(1000), HAL_ERROR_TIMEOUT);
  EQUAL(kit_event_signal(gate, HAL_OK), HAL_OK);
  EQUAL(kit_event_signal(gate, HAL_OK), HAL_ERROR_INVALID_STATE);
  EQUAL(kit_event_synchronize(after, SECOND), HAL_OK);
  EQUAL(kit_stream_query(stream), HAL_OK);
  EQUAL(copy_to_host(stream, memory, 0, back, 64), HAL_OK);
  EQUAL(kit_stream_synchronize(stream, SECOND), HAL_OK);
  EQUAL(back[63], 7);
  EQUAL(kit_event_record(gate, stream), HAL_ERROR_INVALID_STATE);
  EQUAL(kit_event_signal(after, HAL_OK), HAL_ERROR_INVALID_STATE);
}

static void test_waits_bind_to_the_latest_record(void) {
  hal_stream first = new_stream();
  hal_stream second = new_stream();
  hal_event gate = new_event(HAL_EVENT_FLAG_HOST);
  hal_event event = new_event(0);
  EQUAL(kit_stream_wait_event(second, event), HAL_OK);  // Never recorded: no block.
  EQUAL(kit_stream_synchronize(second, SECOND), HAL_OK);
  EQUAL(kit_event_record(event, second), HAL_OK);
  EQUAL(kit_stream_wait_event(first, event), HAL_OK);
  EQUAL(kit_stream_wait_event(second, gate), HAL_OK);
  EQUAL(kit_event_record(event, second), HAL_OK);  // Later than the wait of `first`.
  EQUAL(kit_stream_synchronize(first, SECOND), HAL_OK);
  EQUAL(kit_event_query(event), HAL_NOT_READY);
  EQUAL(kit_event_destroy(event), HAL_OK);
  EQUAL(kit_event_signal(gate, HAL_OK), HAL_OK);
  EQUAL(kit_device_synchronize(device, SECOND), HAL_OK);
}

static void test_failures_stick(void) {
  hal_stream broken = new_stream();
  hal_stream waiting = new_stream();
  hal_stream other = new_stream();
  hal_event event = new_event(0);
  hal_event late = new_event(0);
  hal_memory memory = allocate(device, 64, 0);
  EQUAL(fill_with(broken, memory, 0, 64, 1, 1), HAL_OK);
  EQUAL(fill_with(broken, memory, 0, 65, 1, 1), HAL_ERROR_OUT_OF_RANGE);  // Not counted.
  EQUAL(fill_with(broken, memory, 0, 64, 0xEE, 1), HAL_OK);
  kit_event_record(event, broken);
  EQUAL(kit_stream_synchronize(broken, SECOND), HAL_ERROR_EXECUTION_FAILED);
  EQUAL(last_error().operation_id, 2);
  TRUE(strcmp(last_error().text, "fill 2 broke") == 0);
  kit_memory_free(1);
  EQUAL(last_error().status, HAL_ERROR_INVALID_HANDLE);
  EQUAL(fill_with(broken, memory, 0, 64, 1, 1), HAL_ERROR_EXECUTION_FAILED);
  EQUAL(last_error().operation_id, 2);
  EQUAL(kit_stream_query(broken), HAL_ERROR_EXECUTION_FAILED);
  EQUAL(kit_event_query(event), HAL_ERROR_EXECUTION_FAILED);
  EQUAL(kit_event_record(late, broken), HAL_ERROR_EXECUTION_FAILED);
  EQUAL(kit_event_query(late), HAL_ERROR_EXECUTION_FAILED);
  EQUAL(kit_stream_wait_event(waiting, event), HAL_OK);
  EQUAL(kit_stream_synchronize(waiting, SECOND), HAL_ERROR_EXECUTION_FAILED);
  EQUAL(last_error().operation_id, 2);
  EQUAL(fill_with(other, memory, 0, 64, 1, 1), HAL_OK);
  EQUAL(kit_stream_synchronize(other, SECOND), HAL_OK);
  EQUAL(kit_stream_destroy(broken), HAL_OK);
  EQUAL(kit_device_synchronize(device, SECOND), HAL_OK);
}

static void test_a_destroyed_host_event_fails_its_waiters(void) {
  hal_stream stream = new_stream();
  hal_event gate = new_event(HAL_EVENT_FLAG_HOST);
  EQUAL(kit_stream_wait_event(stream, gate), HAL_OK);
  EQUAL(kit_event_destroy(gate), HAL_OK);
  EQUAL(kit_stream_synchronize(stream, SECOND), HAL_ERROR_EXECUTION_FAILED);
  EQUAL(kit_event_query(gate), HAL_ERROR_INVALID_HANDLE);
}

static void test_destroyed_streams_finish_and_buffers_live_on(void) {
  hal_stream stream = new_stream();
  hal_event gate = new_event(HAL_EVENT_FLAG_HOST);
  hal_memory memory = allocate(device, TOTAL_BYTES / 2, 0);
  unsigned char back[16] = {0};
  EQUAL(kit_stream_wait_event(stream, gate), HAL_OK);
  EQUAL(fill_with(stream, memory, 0, TOTAL_BYTES / 2, 5, 1), HAL_OK);
  EQUAL(copy_to_host(stream, memory, TOTAL_BYTES / 2 - 16, back, 16), HAL_OK);
  EQUAL(kit_memory_free(memory), HAL_OK);
  EQUAL(kit_stream_destroy(stream), HAL_OK);
  hal_memory_figures stats = {.size = sizeof(stats)};
  EQUAL(kit_memory_stats(device, &stats), HAL_OK);
  TRUE(stats.in_use_bytes < TOTAL_BYTES / 2);
  TRUE(stats.peak_bytes >= TOTAL_BYTES / 2);
  EQUAL(kit_event_signal(gate, HAL_OK), HAL_OK);
  EQUAL(kit_device_synchronize(device, SECOND), HAL_OK);
  EQUAL(back[15], 5);
  hal_memory again = allocate(device, TOTAL_BYTES / 2, 0);  // The room has come back.
  EQUAL(kit_memory_free(again), HAL_OK);
}

static void test_out_of_memory_heals(void) {
  hal_memory_desc desc = {.size = sizeof(desc), .bytes = TOTAL_BYTES + 1};
  hal_memory memory = 42;
  EQUAL(kit_memory_alloc(device, &desc, &memory), HAL_ERROR_OUT_OF_MEMORY);
  EQUAL(memory, 42);
  desc.bytes = 100;
  desc.alignment_bytes = 4096;
  EQUAL(kit_memory_alloc(device, &desc, &memory), HAL_OK);
  uint64_t native = 0;
  EQUAL(kit_memory_native_handle(memory, &native), HAL_OK);
  EQUAL(native % 4096, 0);
  EQUAL(kit_memory_free(memory), HAL_OK);
  void *pinned = NULL;
  EQUAL(kit_memory_host_alloc(device, UINT64_MAX - 5, &pinned), HAL_ERROR_OUT_OF_MEMORY);
  EQUAL(kit_memory_host_alloc(device, 100, &pinned), HAL_OK);
  EQUAL((uintptr_t)pinned % 64, 0);
  EQUAL(kit_memory_host_free(device, pinned), HAL_OK);
  EQUAL(kit_memory_host_free(device, pinned), HAL_ERROR_INVALID_VALUE);
}

static void add_one(void *user) {
  ++*(int *)user;
}

static void test_many_operations_run_in_order(void) {
  hal_stream stream = new_stream();
  hal_event gate = new_event(HAL_EVENT_FLAG_HOST);
  int calls = 0;
  EQUAL(kit_stream_wait_event(stream, gate), HAL_OK);
  for (int i = 0; i < 20000; ++i) {
    EQUAL(kit_stream_host_call(stream, add_one, &calls), HAL_OK);
  }
  EQUAL(calls, 0);
  EQUAL(kit_event_signal(gate, HAL_OK), HAL_OK);
  EQUAL(kit_stream_synchronize(stream, 20ull * SECOND), HAL_OK);
  EQUAL(calls, 20000);
}

static void test_times_and_records(void) {
  hal_stream stream = new_stream();
  hal_event start = new_event(HAL_EVENT_FLAG_TIMING);
  hal_event end = new_event(HAL_EVENT_FLAG_TIMING);
  hal_event plain = new_event(0);
  hal_memory memory = allocate(device, 1 << 20, 0);
  int64_t elapsed = -1;
  EQUAL(kit_event_elapsed_ns(start, end, &elapsed), HAL_ERROR_INVALID_STATE);
  EQUAL(kit_profile_stop(device), HAL_ERROR_INVALID_STATE);
  EQUAL(kit_profile_start(device, 1u << (HAL_PROFILE_FILL - 1)), HAL_OK);
  EQUAL(kit_profile_start(device, 1), HAL_ERROR_INVALID_STATE);
  EQUAL(kit_event_record(start, stream), HAL_OK);
  EQUAL(fill_with(stream, memory, 0, 1 << 20, 3, 1), HAL_OK);
  EQUAL(kit_event_record(end, stream), HAL_OK);
  EQUAL(kit_event_record(plain, stream), HAL_OK);
  EQUAL(kit_profile_stop(device), HAL_OK);
  EQUAL(fill_with(stream, memory, 0, 8, 3, 1), HAL_OK);
  EQUAL(kit_stream_synchronize(stream, SECOND), HAL_OK);
  EQUAL(kit_event_elapsed_ns(start, end, &elapsed), HAL_OK);
  TRUE(elapsed >= 0);
  EQUAL(kit_event_elapsed_ns(start, plain, &elapsed), HAL_ERROR_INVALID_STATE);
  hal_profile_record records[4];
  uint64_t count = 9;
  uint64_t dropped = 9;
  EQUAL(kit_profile_drain(device, 4, records, &count, &dropped), HAL_OK);
  EQUAL(count, 1);
  EQUAL(dropped, 0);
  TRUE(records[0].stream == stream);
  EQUAL(records[0].operation_id, 2);
  EQUAL(records[0].kind, HAL_PROFILE_FILL);
  TRUE(records[0].begin_ns <= records[0].end_ns);
  hal_clock clock = {.size = sizeof(clock)};
  EQUAL(kit_profile_clock(device, &clock), HAL_OK);
  EQUAL(clock.domain, HAL_CLOCK_REAL);
  TRUE(clock.device_ns >= records[0].end_ns);
}

static void test_handles_of_other_kinds_and_devices_are_refused(void) {
  hal_device other = 0;
  EQUAL(kit_device_open(1, &other), HAL_OK);
  hal_stream stream = 0;
  EQUAL(kit_stream_create(other, 0, &stream), HAL_OK);
  hal_memory memory = allocate(device, 64, 0);
  EQUAL(fill_with(stream, memory, 0, 64, 0, 1), HAL_ERROR_INVALID_HANDLE);
  EQUAL(kit_stream_query(memory), HAL_ERROR_INVALID_HANDLE);
  EQUAL(kit_stream_query(0), HAL_ERROR_INVALID_HANDLE);
  EQUAL(kit_stream_query(UINT64_MAX), HAL_ERROR_INVALID_HANDLE);
  for (uint64_t bit = 24; bit < 64; ++bit) {  // Generation, salt and kind; the index is below.
    EQUAL(kit_stream_query(stream ^ UINT64_C(1) << bit), HAL_ERROR_INVALID_HANDLE);
  }
  hal_memory theirs = allocate(other, 64, 0);
  hal_memory_ref source = {memory, 0, 64};
  hal_memory_ref target = {theirs, 0, 64};
  EQUAL(kit_transfer_copy_peer(stream, &source, &target), HAL_OK);
  EQUAL(kit_stream_synchronize(stream, SECOND), HAL_OK);
  EQUAL(kit_device_close(other, SECOND), HAL_OK);
  EQUAL(kit_stream_query(stream), HAL_ERROR_INVALID_HANDLE);
  EQUAL(kit_memory_free(theirs), HAL_ERROR_INVALID_HANDLE);
  EQUAL(kit_device_close(other, SECOND), HAL_ERROR_INVALID_HANDLE);
}

static void test_a_lost_device_refuses_all_but_its_end(void) {
  hal_device lost = 0;
  hal_stream stream = 0;
  hal_stream other = 0;
  hal_event event = 0;
  EQUAL(kit_device_open(1, &lost), HAL_OK);
  EQUAL(kit_stream_create(lost, 0, &stream), HAL_OK);
  EQUAL(kit_stream_create(lost, 0, &other), HAL_OK);
  hal_memory memory = allocate(lost, 64, 0);
  EQUAL(fill_with(stream, memory, 0, 64, 0xDD, 1), HAL_OK);
  EQUAL(kit_stream_synchronize(stream, SECOND), HAL_ERROR_DEVICE_LOST);
  EQUAL(kit_stream_query(other), HAL_ERROR_DEVICE_LOST);
  EQUAL(fill_with(other, memory, 0, 64, 1, 1), HAL_ERROR_DEVICE_LOST);
  EQUAL(kit_event_create(lost, 0, &event), HAL_ERROR_DEVICE_LOST);
  EQUAL(kit_device_synchronize(lost, SECOND), HAL_ERROR_DEVICE_LOST);
  EQUAL(kit_device_synchronize(device, SECOND), HAL_OK);
  EQUAL(kit_memory_free(memory), HAL_OK);
  EQUAL(kit_device_close(lost, SECOND), HAL_OK);
}

static void test_long_texts_are_cut_between_characters(void) {
  char key[1000];
  for (size_t i = 0; i < sizeof(key) - 1; ++i) {
    key[i] = "\xC3\xA4"[i % 2];
  }
  key[sizeof(key) - 1] = '\0';
  EQUAL(kit_fail(HAL_ERROR_NOT_FOUND, "%s", key), HAL_ERROR_NOT_FOUND);
  EQUAL(strlen(last_error().text), 510);
  EQUAL(kit_fail(HAL_ERROR_NOT_FOUND, "%s", ""), HAL_ERROR_NOT_FOUND);
  TRUE(last_error().text[0] != '\0');
}

static void *churn(void *unused) {
  (void)unused;
  for (int i = 0; i < 200; ++i) {
    hal_stream stream = new_stream();
    hal_event event = new_event(0);
    hal_memory memory = allocate(device, 4096, 0);
    EQUAL(fill_with(stream, memory, 0, 4096, 1, 1), HAL_OK);
    EQUAL(kit_event_record(event, stream), HAL_OK);
    EQUAL(kit_memory_free(memory), HAL_OK);
    EQUAL(kit_stream_destroy(stream), HAL_OK);
    EQUAL(kit_event_synchronize(event, SECOND), HAL_OK);
    EQUAL(kit_event_destroy(event), HAL_OK);
  }
  return NULL;
}

static void test_threads_churn_objects(void) {
  pthread_t threads[4];
  for (int i = 0; i < 4; ++i) {
    pthread_create(&threads[i], NULL, churn, NULL);
  }
  for (int i = 0; i < 4; ++i) {
    pthread_join(threads[i], NULL);
  }
}

static void test_shutdown_starts_again(void) {
  hal_device old = device;
  EQUAL(kit_port_shutdown(SECOND), HAL_OK);
  EQUAL(kit_port_shutdown(SECOND), HAL_ERROR_INVALID_STATE);
  EQUAL(kit_device_open(0, &device), HAL_ERROR_INVALID_STATE);
  device = open_port(&port);
  EQUAL(kit_device_synchronize(old, 0), HAL_ERROR_INVALID_HANDLE);
  EQUAL(kit_device_synchronize(device, 0), HAL_OK);
  EQUAL(kit_port_shutdown(SECOND), HAL_OK);
}

int main(void) {
  device = open_port(&port);
  test_port_answers();
  test_copies_and_fills();
  test_host_events_hold_streams();
  test_waits_bind_to_the_latest_record();
  test_failures_stick();
  test_a_destroyed_host_event_fails_its_waiters();
  test_destroyed_streams_finish_and_buffers_live_on();
  test_out_of_memory_heals();
  test_many_operations_run_in_order();
  test_times_and_records();
  test_handles_of_other_kinds_and_devices_are_refused();
  test_a_lost_device_refuses_all_but_its_end();
  test_long_texts_are_cut_between_characters();
  test_threads_churn_objects();
  test_shutdown_starts_again();
  return 0;
}
