// A port of a driver whose queue ends its commands when it is asked: what the kit makes of them.
#include <stdbool.h>

#include "kit_driver.h"
#include "kit_fixture.h"

enum { ALIGNMENT = 64 };

// What the driver holds, and what it was told.
static struct {
  int buffers, queues, events, pinned, inside;
  int copies, fills, narrow_fills, finishes;
  bool refuse_copy, is_lost;
  uint64_t clock_ns;
} driver_state;

static int32_t enter(void *device) {
  (void)device;
  ++driver_state.inside;
  return HAL_OK;
}

static void leave(void) {
  --driver_state.inside;
}

static int32_t lost(void) {
  return kit_fail(HAL_ERROR_DEVICE_LOST, "the driver has given the device up");
}

static int32_t reserve(void *device, uint64_t bytes, kit_allocation *out) {
  (void)device;
  EQUAL(driver_state.inside, 1);
  if (driver_state.is_lost) {
    return lost();
  }
  ++driver_state.buffers;
  out->pointer = aligned_alloc(ALIGNMENT, (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
  memset(out->pointer, 0xA5, bytes);
  out->native = (uint64_t)(uintptr_t)out->pointer;
  return HAL_OK;
}

static void release(void *device, kit_allocation *allocation) {
  (void)device;
  --driver_state.buffers;
  EQUAL(allocation->native, (uintptr_t)allocation->pointer);
  EQUAL(allocation->native % ALIGNMENT, 0);
  free(allocation->pointer);
}

static int32_t pin(void *device, uint64_t bytes, void **out) {
  (void)device;
  if (driver_state.is_lost) {
    return lost();
  }
  ++driver_state.pinned;
  *out = malloc(bytes);
  return HAL_OK;
}

static void unpin(void *device, void *pointer) {
  (void)device;
  --driver_state.pinned;
  free(pointer);
}

static int32_t queue_open(kit_queue *queue) {
  if (driver_state.is_lost) {
    return lost();
  }
  ++driver_state.queues;
  queue->native = queue;
  return HAL_OK;
}

static void queue_close(kit_queue *queue) {
  TRUE(queue->native == queue);
  --driver_state.queues;
}

static int32_t queue_finish(kit_queue *queue) {
  (void)queue;
  ++driver_state.finishes;
  return HAL_OK;
}

static unsigned char *bytes_of(const kit_span *span) {
  return (unsigned char *)(uintptr_t)(span->native + span->offset_bytes);
}

static int32_t write_bytes(kit_queue *queue, const kit_span *to, const void *from) {
  (void)queue;
  memcpy(bytes_of(to), from, to->bytes);
  return HAL_OK;
}

static int32_t read_bytes(kit_queue *queue, const kit_span *from, void *to) {
  (void)queue;
  memcpy(to, bytes_of(from), from->bytes);
  return HAL_OK;
}

static int32_t copy(kit_queue *queue, const kit_span *from, const kit_span *to) {
  (void)queue;
  ++driver_state.copies;
  if (driver_state.refuse_copy) {
    return kit_fail(HAL_ERROR_OUT_OF_MEMORY, "no room for a copy");
  }
  TRUE(bytes_of(from) + from->bytes <= bytes_of(to) || bytes_of(to) + to->bytes <= bytes_of(from));
  memcpy(bytes_of(to), bytes_of(from), to->bytes);
  return HAL_OK;
}

static int32_t fill(kit_queue *queue, const kit_span *to, const void *pattern,
                    uint32_t pattern_bytes) {
  (void)queue;
  ++driver_state.fills;
  driver_state.narrow_fills += pattern_bytes == 1;
  EQUAL((uintptr_t)bytes_of(to) % pattern_bytes, 0);
  EQUAL(to->bytes % pattern_bytes, 0);
  for (uint64_t at = 0; at < to->bytes; at += pattern_bytes) {
    memcpy(bytes_of(to) + at, pattern, pattern_bytes);
  }
  return HAL_OK;
}

static int32_t launch(kit_queue *queue, const kit_call *call) {
  (void)queue, (void)call;
  return HAL_OK;
}

// An event holds the driver's clock, which moves on 1000 ns a mark.
static int32_t mark(kit_queue *queue, void **event) {
  (void)queue;
  if (*event == NULL) {
    ++driver_state.events;
    *event = malloc(sizeof(uint64_t));
  }
  *(uint64_t *)*event = driver_state.clock_ns += 1000;
  return HAL_OK;
}

static int32_t ask(kit_queue *queue, void *event) {
  (void)queue;
  return *(uint64_t *)event <= driver_state.clock_ns ? HAL_OK : HAL_NOT_READY;
}

static void drop(void *event) {
  --driver_state.events;
  free(event);
}

static int32_t elapsed_ns(void *from, void *to, int64_t *out_ns) {
  *out_ns = (int64_t)(*(uint64_t *)to - *(uint64_t *)from);
  return HAL_OK;
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

static int32_t start(void) {
  return kit_device_offer("one", "", 1);
}

static int32_t describe(void *data, kit_device_facts *facts) {
  (void)data;
  facts->hcd_ref = "test/chip";
  facts->memory_bytes = TOTAL_BYTES;
  facts->alignment_bytes = ALIGNMENT;
  return HAL_OK;
}

static const kit_driver driver = {.enter = enter,
                                  .leave = leave,
                                  .reserve = reserve,
                                  .release = release,
                                  .pin = pin,
                                  .unpin = unpin,
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
                                  .drop = drop,
                                  .elapsed_ns = elapsed_ns,
                                  .compile = compile,
                                  .find = find,
                                  .program_drop = program_drop};

static const kit_port port = {PLAIN_TEXTS, .hcd_default = "features.timing\ttrue\n",
                              .driver = &driver,
                              .hooks = {.start = start, .device_describe = describe}};

static hal_device device;
static hal_stream stream;

static int32_t copy_over(hal_memory memory, uint64_t from, uint64_t to, uint64_t bytes) {
  hal_copy_desc desc = {.size = sizeof(desc),
                        .kind = HAL_COPY_DEVICE_TO_DEVICE,
                        .source = {memory, from, bytes},
                        .target = {memory, to, bytes}};
  return kit_transfer_copy(stream, &desc);
}

static void zeroed_buffers_with_large_alignments_are_the_kits_work(void) {
  hal_memory_desc desc = {
      .size = sizeof(desc), .bytes = 100, .alignment_bytes = 4096, .flags = HAL_MEMORY_FLAG_ZERO};
  hal_memory memory = 0;
  uint64_t native = 0;
  EQUAL(kit_memory_alloc(device, &desc, &memory), HAL_OK);
  EQUAL(kit_memory_native_handle(memory, &native), HAL_OK);
  EQUAL(native % 4096, 0);
  for (int i = 0; i < 100; ++i) {
    EQUAL(((unsigned char *)(uintptr_t)native)[i], 0);
  }
  EQUAL(kit_memory_free(memory), HAL_OK);
}

static void a_copy_over_itself_goes_through_a_third_place(hal_memory memory) {
  unsigned char numbers[64], found[64];
  for (int i = 0; i < 64; ++i) {
    numbers[i] = (unsigned char)i;
  }
  EQUAL(copy_to_device(stream, memory, 0, numbers, 64, 0), HAL_OK);
  driver_state.copies = 0;
  int buffers = driver_state.buffers;
  EQUAL(copy_over(memory, 0, 16, 32), HAL_OK);
  EQUAL(copy_over(memory, 8, 8, 32), HAL_OK);  // Nothing to be done.
  EQUAL(copy_to_host(stream, memory, 0, found, 64), HAL_OK);
  EQUAL(kit_stream_synchronize(stream, SECOND), HAL_OK);
  memmove(numbers + 16, numbers, 32);
  TRUE(memcmp(found, numbers, 64) == 0);
  EQUAL(driver_state.copies, 2);
  EQUAL(driver_state.buffers, buffers);
}

static void a_fill_off_its_grid_is_done_in_parts(hal_memory memory) {
  unsigned char found[32], pattern[] = {1, 2, 3, 4};
  uint32_t word;
  memcpy(&word, pattern, sizeof(word));
  driver_state.fills = driver_state.narrow_fills = 0;
  EQUAL(fill_with(stream, memory, 3, 12, word, 4), HAL_OK);
  EQUAL(copy_to_host(stream, memory, 0, found, 32), HAL_OK);
  EQUAL(kit_stream_synchronize(stream, SECOND), HAL_OK);
  for (int i = 0; i < 12; ++i) {
    EQUAL(found[3 + i], pattern[i % 4]);
  }
  EQUAL(driver_state.narrow_fills, 4);
  EQUAL(driver_state.fills, 5);
}

static void marks_are_used_again(hal_memory memory) {
  int events = driver_state.events;
  for (int i = 0; i < 100; ++i) {
    EQUAL(fill_with(stream, memory, 0, 4, 7, 4), HAL_OK);
    EQUAL(kit_stream_synchronize(stream, SECOND), HAL_OK);
  }
  EQUAL(driver_state.events, events);
}

static void times_are_the_drivers_on_the_hosts_clock(hal_memory memory) {
  uint64_t before = kit_monotonic_ns();
  hal_profile_record record = {0};
  uint64_t count = 0, dropped = 0;
  EQUAL(kit_profile_start(device, 0xFFFFFFFF), HAL_OK);
  EQUAL(fill_with(stream, memory, 0, 4, 7, 4), HAL_OK);
  EQUAL(kit_stream_synchronize(stream, SECOND), HAL_OK);
  EQUAL(kit_profile_stop(device), HAL_OK);
  EQUAL(kit_profile_drain(device, 1, &record, &count, &dropped), HAL_OK);
  EQUAL(count, 1);
  EQUAL(record.end_ns - record.begin_ns, 1000);  // One mark in front, one behind.
  TRUE(record.end_ns <= kit_monotonic_ns() && record.begin_ns + SECOND > before);
}

static void a_refused_command_fails_the_stream_and_waits_for_those_before(hal_memory memory) {
  int finishes = driver_state.finishes;
  driver_state.refuse_copy = true;
  EQUAL(copy_over(memory, 0, 16, 32), HAL_OK);
  EQUAL(kit_stream_synchronize(stream, SECOND), HAL_ERROR_OUT_OF_MEMORY);
  CONTAINS(last_error().text, "no room for a copy");
  EQUAL(driver_state.finishes, finishes + 1);
  EQUAL(fill_with(stream, memory, 0, 4, 7, 4), HAL_ERROR_OUT_OF_MEMORY);
  driver_state.refuse_copy = false;
}

static int32_t buffer_of(hal_device on) {
  hal_memory_desc desc = {.size = sizeof(desc), .bytes = 64};
  hal_memory memory;
  return kit_memory_alloc(on, &desc, &memory);
}

static int32_t pinned_of(hal_device on) {
  void *pointer;
  return kit_memory_host_alloc(on, 64, &pointer);
}

static int32_t stream_of(hal_device on) {
  hal_stream made;
  return kit_stream_create(on, 0, &made);
}

// What any hook says loses the device: later calls fail without it.
static void a_device_that_a_hook_finds_lost_is_lost(void) {
  int32_t (*const calls[])(hal_device on) = {buffer_of, pinned_of, stream_of};
  for (int first = 0; first < 3; ++first) {
    hal_device on = 0;
    EQUAL(kit_device_open(0, &on), HAL_OK);
    driver_state.is_lost = true;
    EQUAL(calls[first](on), HAL_ERROR_DEVICE_LOST);
    CONTAINS(last_error().text, "given the device up");
    driver_state.is_lost = false;
    for (int i = 0; i < 3; ++i) {
      EQUAL(calls[i](on), HAL_ERROR_DEVICE_LOST);
      CONTAINS(last_error().text, "the device is lost");
    }
    EQUAL(kit_device_synchronize(on, 0), HAL_ERROR_DEVICE_LOST);
    EQUAL(kit_device_close(on, SECOND), HAL_OK);
  }
}

int main(void) {
  device = open_port(&port);
  EQUAL(kit_stream_create(device, 0, &stream), HAL_OK);
  hal_memory memory = allocate(device, 4096, 0);
  zeroed_buffers_with_large_alignments_are_the_kits_work();
  a_copy_over_itself_goes_through_a_third_place(memory);
  a_fill_off_its_grid_is_done_in_parts(memory);
  times_are_the_drivers_on_the_hosts_clock(memory);
  marks_are_used_again(memory);
  a_refused_command_fails_the_stream_and_waits_for_those_before(memory);
  a_device_that_a_hook_finds_lost_is_lost();
  EQUAL(kit_device_close(device, SECOND), HAL_OK);
  EQUAL(kit_port_shutdown(SECOND), HAL_OK);
  EQUAL(driver_state.buffers, 0);
  EQUAL(driver_state.queues, 0);
  EQUAL(driver_state.events, 0);
  EQUAL(driver_state.pinned, 0);
  EQUAL(driver_state.inside, 0);
  return 0;
}
