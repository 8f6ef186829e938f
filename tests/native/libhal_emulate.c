// What libhal does for a port that has only tier 1: host calls, rows, peers, registration, graphs.
#include <stdatomic.h>
#include <stddef.h>
#include <unistd.h>

#include "expect.h"
#include "hal/loader.h"
#include "ports/fake.c"
#include "ports/stubs.h"

static const uint64_t LONG_NS = 10000000000;

static hal_port *port;
static hal_port_entry_fn entry = hal_port_entry;
static hal_device devices[2];
static hal_stream streams[2];
static char reason[512];

static void set_up(void) {
  EQUAL(hal_port_open_entry(entry, NULL, &port, reason, sizeof(reason)), HAL_OK);
  for (uint32_t i = 0; i < 2; ++i) {
    EQUAL(hal_device_open(port, i, &devices[i]), HAL_OK);
    EQUAL(hal_stream_create(port, devices[i], 0, &streams[i]), HAL_OK);
  }
}

static void tear_down(void) {
  EQUAL(hal_port_close(port, LONG_NS), HAL_OK);
}

static hal_memory new_buffer(uint32_t device, uint64_t bytes) {
  const hal_memory_desc desc = {.size = sizeof(desc), .bytes = bytes};
  hal_memory memory = 0;
  EQUAL(hal_memory_alloc(port, devices[device], &desc, &memory), HAL_OK);
  return memory;
}

static hal_memory_ref all_of(hal_memory memory, uint64_t bytes) {
  return (hal_memory_ref){.memory = memory, .bytes = bytes};
}

static void put(uint32_t device, hal_memory memory, const void *data, uint64_t bytes) {
  const hal_copy_desc copy = {.size = sizeof(copy),
                              .kind = HAL_COPY_HOST_TO_DEVICE,
                              .target = all_of(memory, bytes),
                              .host_source = data};
  EQUAL(hal_transfer_copy(port, streams[device], &copy), HAL_OK);
}

static void get(uint32_t device, hal_memory memory, void *data, uint64_t bytes) {
  const hal_copy_desc copy = {.size = sizeof(copy),
                              .kind = HAL_COPY_DEVICE_TO_HOST,
                              .source = all_of(memory, bytes),
                              .host_target = data};
  EQUAL(hal_transfer_copy(port, streams[device], &copy), HAL_OK);
  EQUAL(hal_stream_synchronize(port, streams[device], LONG_NS), HAL_OK);
}

static const char *error_text(void) {
  static hal_error error;
  error.size = sizeof(error);
  EQUAL(hal_port_last_error(port, &error), HAL_OK);
  return error.text;
}

static hal_event hold(uint32_t device) {
  hal_event gate = 0;
  EQUAL(hal_event_create(port, devices[device], HAL_EVENT_FLAG_HOST, &gate), HAL_OK);
  EQUAL(hal_stream_wait_event(port, streams[device], gate), HAL_OK);
  return gate;
}

static int32_t capability_of(const char *call) {
  int32_t capability = -1;
  EQUAL(hal_port_capability(port, call, &capability), HAL_OK);
  return capability;
}

static void what_the_port_lacks_is_said_to_be_emulated(void) {
  set_up();
  EQUAL(capability_of("stream.host_call"), HAL_CAPABILITY_EMULATED);
  EQUAL(capability_of("transfer.copy_2d"), HAL_CAPABILITY_EMULATED);
  EQUAL(capability_of("graph.launch"), HAL_CAPABILITY_EMULATED);
  EQUAL(capability_of("collective.all_to_all"), HAL_CAPABILITY_EMULATED);
  EQUAL(capability_of("transfer.copy"), HAL_CAPABILITY_NATIVE);
  EQUAL(capability_of("profile.clock"), HAL_CAPABILITY_NONE);
  tear_down();
}

// ---- Host calls ----

static atomic_int calls;

static void note_call(void *user) {
  atomic_store((atomic_int *)user, atomic_fetch_add(&calls, 1) + 1);
}

static void a_host_call_runs_once_in_the_order_of_its_stream(void) {
  set_up();
  atomic_store(&calls, 0);
  atomic_int first = 0, second = 0;
  const hal_event gate = hold(0);
  EQUAL(hal_stream_host_call(port, streams[0], note_call, &first), HAL_OK);
  EQUAL(hal_stream_host_call(port, streams[0], note_call, &second), HAL_OK);
  EQUAL(atomic_load(&calls), 0);
  EQUAL(hal_stream_query(port, streams[0]), HAL_NOT_READY);
  EQUAL(hal_event_signal(port, gate, HAL_OK), HAL_OK);
  EQUAL(hal_stream_synchronize(port, streams[0], LONG_NS), HAL_OK);
  EQUAL(atomic_load(&first), 1);
  EQUAL(atomic_load(&second), 2);
  EQUAL(hal_stream_host_call(port, streams[0], NULL, NULL), HAL_ERROR_INVALID_VALUE);
  EQUAL(hal_stream_host_call(port, 77, note_call, &first), HAL_ERROR_INVALID_HANDLE);
  tear_down();
}

static void a_host_call_behind_a_failure_does_not_run(void) {
  set_up();
  atomic_store(&calls, 0);
  atomic_int done = 0;
  const hal_event gate = hold(0);
  EQUAL(hal_stream_host_call(port, streams[0], note_call, &done), HAL_OK);
  EQUAL(hal_event_signal(port, gate, HAL_ERROR_EXECUTION_FAILED), HAL_OK);
  EQUAL(hal_stream_synchronize(port, streams[0], LONG_NS), HAL_ERROR_EXECUTION_FAILED);
  EQUAL(hal_stream_host_call(port, streams[0], note_call, &done), HAL_ERROR_EXECUTION_FAILED);
  tear_down();
  EQUAL(atomic_load(&calls), 0);
}

static void a_slow_host_call_holds_up_only_its_stream(void) {
  set_up();
  atomic_int other = 0;
  const hal_event gate = hold(0);
  atomic_int waiting = 0;
  EQUAL(hal_stream_host_call(port, streams[0], note_call, &waiting), HAL_OK);
  EQUAL(hal_stream_host_call(port, streams[1], note_call, &other), HAL_OK);
  EQUAL(hal_stream_synchronize(port, streams[1], LONG_NS), HAL_OK);
  TRUE(atomic_load(&other) != 0);
  EQUAL(hal_port_close(port, 1000), HAL_ERROR_TIMEOUT);
  EQUAL(hal_event_signal(port, gate, HAL_OK), HAL_OK);
  tear_down();
  TRUE(atomic_load(&waiting) != 0);
}

static void a_destroyed_stream_still_makes_its_host_calls(void) {
  set_up();
  atomic_int done = 0;
  const hal_event gate = hold(0);
  EQUAL(hal_stream_host_call(port, streams[0], note_call, &done), HAL_OK);
  EQUAL(hal_stream_destroy(port, streams[0]), HAL_OK);
  EQUAL(hal_stream_host_call(port, streams[0], note_call, &done), HAL_ERROR_INVALID_HANDLE);
  EQUAL(hal_event_signal(port, gate, HAL_OK), HAL_OK);
  tear_down();
  TRUE(atomic_load(&done) != 0);
}

// ---- Rows ----

static void rows_land_at_their_pitch(void) {
  set_up();
  unsigned char source[4 * 8], back[4 * 10];
  for (uint32_t i = 0; i < sizeof(source); ++i) source[i] = (unsigned char)(i + 1);
  memset(back, 0xEE, sizeof(back));
  const hal_memory memory = new_buffer(0, 4 * 16);
  const uint8_t zero = 0;
  const hal_memory_ref whole = all_of(memory, 4 * 16);
  EQUAL(hal_transfer_fill(port, streams[0], &whole, &zero, 1), HAL_OK);
  hal_copy_2d_desc desc = {.size = sizeof(desc),
                           .kind = HAL_COPY_HOST_TO_DEVICE,
                           .target = whole,
                           .host_source = source,
                           .source_pitch_bytes = 8,
                           .target_pitch_bytes = 16,
                           .row_bytes = 5,
                           .rows = 4};
  EQUAL(hal_transfer_copy_2d(port, streams[0], &desc), HAL_OK);
  desc = (hal_copy_2d_desc){.size = sizeof(desc),
                            .kind = HAL_COPY_DEVICE_TO_HOST,
                            .source = whole,
                            .host_target = back,
                            .source_pitch_bytes = 16,
                            .target_pitch_bytes = 10,
                            .row_bytes = 6,
                            .rows = 4};
  EQUAL(hal_transfer_copy_2d(port, streams[0], &desc), HAL_OK);
  EQUAL(hal_stream_synchronize(port, streams[0], LONG_NS), HAL_OK);
  for (uint32_t row = 0; row < 4; ++row) {
    EQUAL(memcmp(back + row * 10, source + row * 8, 5), 0);
    EQUAL(back[row * 10 + 5], 0);
    for (uint32_t i = 6; i < 10; ++i) EQUAL(back[row * 10 + i], 0xEE);
  }
  tear_down();
}

static void rows_beyond_their_range_are_refused(void) {
  set_up();
  unsigned char host[64] = {1, 2, 3}, back[64];
  const hal_memory memory = new_buffer(0, 64);
  put(0, memory, host, sizeof(host));
  hal_copy_2d_desc desc = {.size = sizeof(desc),
                           .kind = HAL_COPY_HOST_TO_DEVICE,
                           .target = all_of(memory, 64),
                           .host_source = back,
                           .source_pitch_bytes = 16,
                           .target_pitch_bytes = 16,
                           .row_bytes = 16,
                           .rows = 5};
  EQUAL(hal_transfer_copy_2d(port, streams[0], &desc), HAL_ERROR_OUT_OF_RANGE);
  CONTAINS(error_text(), "5 rows of 16 bytes");
  desc.rows = UINT64_MAX / 8;
  EQUAL(hal_transfer_copy_2d(port, streams[0], &desc), HAL_ERROR_OUT_OF_RANGE);
  desc.rows = 4;
  desc.target.bytes = 65;
  EQUAL(hal_transfer_copy_2d(port, streams[0], &desc), HAL_ERROR_OUT_OF_RANGE);
  desc.target = all_of(memory + 1, 64);
  EQUAL(hal_transfer_copy_2d(port, streams[0], &desc), HAL_ERROR_INVALID_HANDLE);
  desc.target = all_of(memory, 64);
  desc.rows = 0;
  EQUAL(hal_transfer_copy_2d(port, streams[0], &desc), HAL_OK);
  get(0, memory, back, sizeof(back));
  EQUAL(memcmp(host, back, sizeof(host)), 0);
  tear_down();
}

// ---- Peers ----

static void a_copy_between_devices_keeps_the_order_of_its_stream(void) {
  for (uint32_t side = 0; side < 2; ++side) {
    set_up();
    const hal_memory from = new_buffer(0, 32), to = new_buffer(1, 32);
    char text[32] = "from the other device", later[32] = "later", back[32] = "";
    put(0, from, text, sizeof(text));
    EQUAL(hal_stream_synchronize(port, streams[0], LONG_NS), HAL_OK);
    const hal_event gate = hold(side);
    const hal_memory_ref source = all_of(from, 32), target = all_of(to, 32);
    EQUAL(hal_transfer_copy_peer(port, streams[side], &source, &target), HAL_OK);
    // Freed at once: the copy still sees both.
    if (side == 0) put(0, from, later, sizeof(later));
    EQUAL(hal_memory_free(port, from), HAL_OK);
    EQUAL(hal_memory_free(port, from), HAL_ERROR_INVALID_HANDLE);
    EQUAL(hal_event_signal(port, gate, HAL_OK), HAL_OK);
    EQUAL(hal_stream_synchronize(port, streams[side], LONG_NS), HAL_OK);
    get(1, to, back, sizeof(back));
    CONTAINS(back, "from the other device");
    tear_down();
  }
}

static void wrong_peer_copies_are_refused(void) {
  set_up();
  const hal_memory from = new_buffer(0, 32), to = new_buffer(1, 32);
  hal_memory_ref source = all_of(from, 32), target = all_of(to, 32);
  EQUAL(hal_transfer_copy_peer(port, 99, &source, &target), HAL_ERROR_INVALID_HANDLE);
  source.bytes = target.bytes = 33;
  EQUAL(hal_transfer_copy_peer(port, streams[0], &source, &target), HAL_ERROR_OUT_OF_RANGE);
  source = all_of(to + 9, 32);
  target.bytes = 32;
  EQUAL(hal_transfer_copy_peer(port, streams[0], &source, &target), HAL_ERROR_INVALID_HANDLE);
  int64_t value = -1;
  EQUAL(hal_device_peer_info(port, devices[0], devices[1], HAL_PEER_ACCESS, &value), HAL_OK);
  EQUAL(value, 0);
  EQUAL(hal_device_peer_info(port, devices[0], 5555, HAL_PEER_ACCESS, &value),
        HAL_ERROR_INVALID_HANDLE);
  EQUAL(hal_device_peer_info(port, devices[0], devices[1], 9, &value), HAL_ERROR_NOT_FOUND);
  tear_down();
}

static void a_bridge_copies_between_ports(void) {
  set_up();
  hal_port *other = NULL;
  char path[1024];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 64);
  TRUE(length > 0);
  path[length] = '\0';
  snprintf(strrchr(path, '/') + 1, 64, "hal_port_test_fake.so");
  EQUAL(hal_port_open(path, NULL, &other, reason, sizeof(reason)), HAL_OK);
  hal_device device = 0;
  hal_stream stream = 0;
  hal_memory to = 0;
  EQUAL(hal_device_open(other, 2, &device), HAL_OK);
  EQUAL(hal_stream_create(other, device, 0, &stream), HAL_OK);
  const hal_memory_desc desc = {.size = sizeof(desc), .bytes = 16};
  EQUAL(hal_memory_alloc(other, device, &desc, &to), HAL_OK);
  const hal_memory from = new_buffer(0, 16);
  char text[16] = "across", back[16] = "";
  const hal_event gate = hold(0);
  put(0, from, text, sizeof(text));
  hal_memory_ref source = all_of(from, 16), target = all_of(to, 16);
  EQUAL(hal_bridge_copy(port, streams[0], &source, other, stream, &target), HAL_OK);
  const hal_copy_desc copy = {
      .size = sizeof(copy), .kind = HAL_COPY_DEVICE_TO_HOST, .source = target, .host_target = back};
  EQUAL(hal_transfer_copy(other, stream, &copy), HAL_OK);
  EQUAL(hal_stream_query(other, stream), HAL_NOT_READY);
  EQUAL(hal_event_signal(port, gate, HAL_OK), HAL_OK);
  EQUAL(hal_stream_synchronize(other, stream, LONG_NS), HAL_OK);
  CONTAINS(back, "across");
  target.bytes = 15;
  EQUAL(hal_bridge_copy(port, streams[0], &source, other, stream, &target),
        HAL_ERROR_INVALID_VALUE);
  source.bytes = target.bytes = 17;
  EQUAL(hal_bridge_copy(port, streams[0], &source, other, stream, &target), HAL_ERROR_OUT_OF_RANGE);
  EQUAL(hal_port_close(other, LONG_NS), HAL_OK);
  EQUAL(hal_bridge_copy(port, streams[0], &source, other, stream, &target),
        HAL_ERROR_INVALID_STATE);
  tear_down();
}

// ---- Registration ----

static void registered_memory_is_remembered(void) {
  set_up();
  char memory[256];
  EQUAL(hal_memory_host_register(port, devices[0], memory, 128), HAL_OK);
  EQUAL(hal_memory_host_register(port, devices[0], memory + 127, 8), HAL_ERROR_INVALID_STATE);
  EQUAL(hal_memory_host_register(port, devices[0], memory + 128, 8), HAL_OK);
  EQUAL(hal_memory_host_register(port, devices[1], memory, 128), HAL_OK);
  EQUAL(hal_memory_host_register(port, 4242, memory, 128), HAL_ERROR_INVALID_HANDLE);
  EQUAL(hal_memory_host_unregister(port, devices[0], memory + 1), HAL_ERROR_INVALID_VALUE);
  EQUAL(hal_memory_host_unregister(port, devices[0], memory), HAL_OK);
  EQUAL(hal_memory_host_unregister(port, devices[0], memory), HAL_ERROR_INVALID_VALUE);
  EQUAL(hal_memory_host_register(port, devices[0], memory, 64), HAL_OK);
  tear_down();
}

// ---- Graphs ----

static hal_kernel kernel_of(const char *name) {
  const hal_module_desc desc = {
      .size = sizeof(desc), .format = "vil.v1", .image = "x", .image_bytes = 1};
  hal_module module = 0;
  hal_kernel kernel = 0;
  EQUAL(hal_module_load(port, devices[0], &desc, &module), HAL_OK);
  EQUAL(hal_module_get_kernel(port, module, name, &kernel), HAL_OK);
  return kernel;
}

static int32_t launch_add(hal_memory memory, int32_t value) {
  hal_argument arguments[3] = {
      {.kind = HAL_ARGUMENT_BUFFER, .buffer = all_of(memory, 16)},
      {.kind = HAL_ARGUMENT_I32, .scalar = 4},
      {.kind = HAL_ARGUMENT_I32, .scalar = (uint32_t)value},
  };
  const hal_launch_desc desc = {.size = offsetof(hal_launch_desc, scratch_bytes),
                                .grid = {1, 1, 1},
                                .argument_count = 3,
                                .arguments = arguments};
  const int32_t status = hal_launch_launch(port, streams[0], kernel_of("add"), &desc);
  memset(arguments, 0xFF, sizeof(arguments));  // They were copied.
  return status;
}

static hal_graph record_graph(hal_memory a, hal_memory b) {
  hal_graph graph = 0;
  EQUAL(hal_graph_begin(port, streams[0]), HAL_OK);
  const int32_t one = 1;
  const hal_memory_ref whole = all_of(a, 16);
  EQUAL(hal_transfer_fill(port, streams[0], &whole, &one, 4), HAL_OK);
  EQUAL(launch_add(a, 10), HAL_OK);
  const hal_copy_desc copy = {.size = sizeof(copy),
                              .kind = HAL_COPY_DEVICE_TO_DEVICE,
                              .source = whole,
                              .target = all_of(b, 16)};
  EQUAL(hal_transfer_copy(port, streams[0], &copy), HAL_OK);
  EQUAL(hal_graph_end(port, streams[0], &graph), HAL_OK);
  return graph;
}

static int32_t first_of(hal_memory memory) {
  int32_t values[4] = {0};
  get(0, memory, values, sizeof(values));
  EQUAL(values[3], values[0]);
  return values[0];
}

static void a_graph_replays_what_was_recorded(void) {
  set_up();
  const hal_memory a = new_buffer(0, 16), b = new_buffer(0, 16);
  const hal_graph graph = record_graph(a, b);
  EQUAL(first_of(b), 0);  // Recording runs nothing.
  EQUAL(hal_graph_launch(port, graph, streams[0]), HAL_OK);
  EQUAL(first_of(b), 11);
  hal_argument arguments[3] = {{.kind = HAL_ARGUMENT_BUFFER, .buffer = all_of(a, 16)},
                               {.kind = HAL_ARGUMENT_I32, .scalar = 4},
                               {.kind = HAL_ARGUMENT_I32, .scalar = 31}};
  EQUAL(hal_graph_update_arguments(port, graph, 1, arguments, 3), HAL_OK);
  arguments[2].scalar = 0;
  EQUAL(hal_graph_launch(port, graph, streams[0]), HAL_OK);
  EQUAL(first_of(b), 32);
  EQUAL(hal_graph_update_arguments(port, graph, 3, arguments, 3), HAL_ERROR_OUT_OF_RANGE);
  EQUAL(hal_graph_update_arguments(port, graph, 0, arguments, 3), HAL_ERROR_INVALID_VALUE);
  EQUAL(hal_graph_update_arguments(port, graph, 1, arguments, 2), HAL_ERROR_INVALID_VALUE);
  arguments[1].kind = HAL_ARGUMENT_F32;
  EQUAL(hal_graph_update_arguments(port, graph, 1, arguments, 3), HAL_ERROR_INVALID_VALUE);
  EQUAL(hal_graph_launch(port, graph, streams[1]), HAL_ERROR_INVALID_HANDLE);
  EQUAL(hal_graph_destroy(port, graph), HAL_OK);
  EQUAL(hal_graph_destroy(port, graph), HAL_ERROR_INVALID_HANDLE);
  EQUAL(hal_graph_launch(port, graph, streams[0]), HAL_ERROR_INVALID_HANDLE);
  EQUAL(hal_graph_launch(port, 0, streams[0]), HAL_ERROR_INVALID_HANDLE);
  tear_down();
}

static void a_graph_keeps_its_memory(void) {
  set_up();
  const hal_memory a = new_buffer(0, 16), b = new_buffer(0, 16), c = new_buffer(0, 16);
  const hal_graph graph = record_graph(a, b);
  EQUAL(hal_memory_free(port, a), HAL_OK);
  EQUAL(hal_memory_free(port, a), HAL_ERROR_INVALID_HANDLE);
  hal_memory_facts facts = {.size = sizeof(facts)};
  EQUAL(hal_memory_info(port, a, &facts), HAL_ERROR_INVALID_HANDLE);
  EQUAL(launch_add(a, 1), HAL_ERROR_INVALID_HANDLE);
  const hal_memory_ref dead = all_of(a, 16);
  const uint8_t byte = 0;
  EQUAL(hal_transfer_fill(port, streams[0], &dead, &byte, 1), HAL_ERROR_INVALID_HANDLE);
  EQUAL(launch_add(c, 1), HAL_OK);
  EQUAL(hal_graph_launch(port, graph, streams[0]), HAL_OK);
  EQUAL(first_of(b), 11);
  EQUAL(hal_graph_destroy(port, graph), HAL_OK);
  hal_memory_figures figures = {.size = sizeof(figures)};
  EQUAL(hal_memory_stats(port, devices[0], &figures), HAL_OK);
  EQUAL(figures.in_use_bytes, 32);
  tear_down();
}

static void any_other_call_voids_a_capture(void) {
  set_up();
  hal_graph graph = 0;
  hal_event event = 0;
  EQUAL(hal_event_create(port, devices[0], 0, &event), HAL_OK);
  EQUAL(hal_graph_begin(port, streams[0]), HAL_OK);
  EQUAL(hal_event_record(port, event, streams[0]), HAL_ERROR_INVALID_STATE);
  CONTAINS(error_text(), "event.record voids it");
  const hal_memory a = new_buffer(0, 16);
  EQUAL(launch_add(a, 1), HAL_ERROR_INVALID_STATE);
  EQUAL(hal_graph_end(port, streams[0], &graph), HAL_ERROR_INVALID_STATE);
  CONTAINS(error_text(), "void since event.record");
  EQUAL(graph, 0);
  EQUAL(hal_graph_end(port, streams[0], &graph), HAL_ERROR_INVALID_STATE);
  EQUAL(hal_graph_end(port, 99, &graph), HAL_ERROR_INVALID_HANDLE);
  EQUAL(hal_graph_begin(port, 99), HAL_ERROR_INVALID_HANDLE);
  EQUAL(hal_graph_begin(port, streams[0]), HAL_OK);
  EQUAL(hal_graph_begin(port, streams[0]), HAL_ERROR_INVALID_STATE);
  EQUAL(hal_stream_destroy(port, streams[0]), HAL_OK);
  EQUAL(hal_graph_begin(port, streams[1]), HAL_OK);
  EQUAL(hal_stream_synchronize(port, streams[1], 0), HAL_ERROR_INVALID_STATE);
  EQUAL(hal_device_close(port, devices[1], 0), HAL_OK);
  tear_down();
}

static void a_capture_refuses_what_can_never_run(void) {
  set_up();
  const hal_memory a = new_buffer(0, 16), elsewhere = new_buffer(1, 16);
  hal_graph graph = 0;
  EQUAL(hal_graph_begin(port, streams[0]), HAL_OK);
  EQUAL(launch_add(elsewhere, 1), HAL_ERROR_INVALID_HANDLE);
  const uint8_t byte = 0;
  hal_memory_ref ref = all_of(a, 17);
  EQUAL(hal_transfer_fill(port, streams[0], &ref, &byte, 1), HAL_ERROR_OUT_OF_RANGE);
  EQUAL(hal_graph_end(port, streams[0], &graph), HAL_OK);
  EQUAL(hal_graph_launch(port, graph, streams[0]), HAL_OK);
  EQUAL(hal_memory_free(port, a), HAL_OK);
  EQUAL(hal_memory_free(port, elsewhere), HAL_OK);
  EQUAL(hal_graph_destroy(port, graph), HAL_OK);
  hal_memory_figures figures = {.size = sizeof(figures)};
  EQUAL(hal_memory_stats(port, devices[0], &figures), HAL_OK);
  EQUAL(figures.in_use_bytes, 0);
  tear_down();
}

static void run_all(void) {
  a_host_call_runs_once_in_the_order_of_its_stream();
  a_host_call_behind_a_failure_does_not_run();
  a_slow_host_call_holds_up_only_its_stream();
  a_destroyed_stream_still_makes_its_host_calls();
  rows_land_at_their_pitch();
  rows_beyond_their_range_are_refused();
  a_copy_between_devices_keeps_the_order_of_its_stream();
  wrong_peer_copies_are_refused();
  a_bridge_copies_between_ports();
  registered_memory_is_remembered();
  a_graph_replays_what_was_recorded();
  a_graph_keeps_its_memory();
  any_other_call_voids_a_capture();
  a_capture_refuses_what_can_never_run();
}

int main(void) {
  what_the_port_lacks_is_said_to_be_emulated();
  run_all();
  entry = stub_entry;  // The same where the port has functions that answer UNSUPPORTED.
  run_all();
  return 0;
}
