// Many threads, streams and events at once; what comes out depends on order alone.
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "kit_fixture.h"
#include "kit_image.h"

enum { STREAMS = 6, ROUNDS = 400, WORDS = 64 };

static const kit_port port = {
    PLAIN_TEXTS,
    .hcd_default = "",
    .hooks = {.device_count = two_devices, .device_facts = plain_facts},
};

static hal_device device;
static hal_kernel kernel;

static void launch_mark(hal_stream stream, hal_memory memory, int32_t value) {
  hal_argument arguments[3] = {{.kind = HAL_ARGUMENT_I64, .scalar = WORDS},
                               {.kind = HAL_ARGUMENT_I32, .scalar = (uint32_t)value},
                               {.kind = HAL_ARGUMENT_BUFFER, .buffer = {memory, 0, 4 * WORDS}}};
  hal_launch_desc desc = {
      .size = sizeof(desc), .grid = {4, 4, 4}, .argument_count = 3, .arguments = arguments};
  EQUAL(kit_launch_launch(stream, kernel, &desc), HAL_OK);
}

// A ring of streams hands a buffer's content on: a launch writes the round's number into the first
// buffer, each stream copies its neighbour's, and the last one's content is read back.
static void *pass_round(void *argument) {
  unsigned seed = (unsigned)(uintptr_t)argument;
  hal_stream streams[STREAMS];
  hal_memory buffers[STREAMS];
  hal_event passed[STREAMS];
  for (int i = 0; i < STREAMS; ++i) {
    EQUAL(kit_stream_create(device, 0, &streams[i]), HAL_OK);
    EQUAL(kit_event_create(device, 0, &passed[i]), HAL_OK);
    buffers[i] = allocate(device, 4 * WORDS, 0);
  }
  for (int round = 1; round <= ROUNDS; ++round) {
    int32_t back[WORDS] = {0};
    EQUAL(kit_stream_wait_event(streams[0], passed[STREAMS - 1]), HAL_OK);
    launch_mark(streams[0], buffers[0], round);
    EQUAL(kit_event_record(passed[0], streams[0]), HAL_OK);
    for (int i = 1; i < STREAMS; ++i) {
      hal_copy_desc desc = {.size = sizeof(desc),
                            .kind = HAL_COPY_DEVICE_TO_DEVICE,
                            .source = {buffers[i - 1], 0, 4 * WORDS},
                            .target = {buffers[i], 0, 4 * WORDS}};
      EQUAL(kit_stream_wait_event(streams[i], passed[i - 1]), HAL_OK);
      EQUAL(kit_transfer_copy(streams[i], &desc), HAL_OK);
      EQUAL(kit_event_record(passed[i], streams[i]), HAL_OK);
    }
    if (rand_r(&seed) % 4 != 0) {
      continue;
    }
    EQUAL(copy_to_host(streams[STREAMS - 1], buffers[STREAMS - 1], 0, back, sizeof(back)), HAL_OK);
    uint64_t patience = rand_r(&seed) % 2 == 0 ? UINT64_MAX : 60ull * SECOND;
    if (rand_r(&seed) % 2 == 0) {
      EQUAL(kit_event_record(passed[STREAMS - 1], streams[STREAMS - 1]), HAL_OK);
      EQUAL(kit_event_synchronize(passed[STREAMS - 1], patience), HAL_OK);
      EQUAL(kit_stream_query(streams[STREAMS - 1]), HAL_OK);
    } else {
      EQUAL(kit_stream_synchronize(streams[STREAMS - 1], patience), HAL_OK);
      EQUAL(kit_event_query(passed[STREAMS - 1]), HAL_OK);
    }
    EQUAL(back[0], round);
    EQUAL(back[WORDS - 1], round);
  }
  for (int i = 0; i < STREAMS; ++i) {
    EQUAL(kit_memory_free(buffers[i]), HAL_OK);
    EQUAL(kit_event_destroy(passed[i]), HAL_OK);
    EQUAL(kit_stream_destroy(streams[i]), HAL_OK);
  }
  return NULL;
}

static _Atomic bool over;

// Waits for the whole device again and again, and so helps streams that others use.
static void *wait_for_all(void *unused) {
  (void)unused;
  while (!atomic_load(&over)) {
    EQUAL(kit_device_synchronize(device, UINT64_MAX), HAL_OK);
  }
  return NULL;
}

int main(void) {
  device = open_port(&port);
  hal_module_desc desc = {.size = sizeof(desc),
                          .format = "vil.v1",
                          .image = kit_image,
                          .image_bytes = sizeof(kit_image)};
  hal_module module = 0;
  EQUAL(kit_module_load(device, &desc, &module), HAL_OK);
  EQUAL(kit_module_get_kernel(module, "mark", &kernel), HAL_OK);
  pthread_t passing[3];
  pthread_t waiting;
  EQUAL(pthread_create(&waiting, NULL, wait_for_all, NULL), 0);
  for (uintptr_t i = 0; i < 3; ++i) {
    EQUAL(pthread_create(&passing[i], NULL, pass_round, (void *)(i + 1)), 0);
  }
  for (int i = 0; i < 3; ++i) {
    EQUAL(pthread_join(passing[i], NULL), 0);
  }
  atomic_store(&over, true);
  EQUAL(pthread_join(waiting, NULL), 0);
  hal_memory_figures stats = {.size = sizeof(stats)};
  EQUAL(kit_memory_stats(device, &stats), HAL_OK);
  EQUAL(stats.in_use_bytes, 0);
  EQUAL(kit_port_shutdown(10ull * SECOND), HAL_OK);
  return 0;
}
