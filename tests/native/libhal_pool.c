// The caching allocator: reuse in stream order, splitting and joining, figures, limits.
#include "expect.h"
#include "hal/loader.h"
#include "ports/fake.c"

static hal_port *port;
static hal_device device;
static hal_pool *pool;
static char reason[512];

static void set_up(uint64_t limit_bytes) {
  const hal_pool_desc desc = {.size = sizeof(desc), .limit_bytes = limit_bytes};
  EQUAL(hal_port_open_entry(hal_port_entry, NULL, &port, reason, sizeof(reason)), HAL_OK);
  EQUAL(hal_device_open(port, 0, &device), HAL_OK);
  EQUAL(hal_pool_create(port, device, &desc, &pool), HAL_OK);
}

static void tear_down(void) {
  EQUAL(hal_pool_destroy(pool), HAL_OK);
  hal_memory_figures figures = {.size = sizeof(figures)};
  EQUAL(hal_memory_stats(port, device, &figures), HAL_OK);
  EQUAL(figures.in_use_bytes, 0);
  EQUAL(hal_port_close(port, 0), HAL_OK);
}

static hal_stream new_stream(void) {
  hal_stream stream = 0;
  EQUAL(hal_stream_create(port, device, 0, &stream), HAL_OK);
  return stream;
}

static hal_memory_ref take(hal_stream stream, uint64_t bytes) {
  hal_memory_ref ref = {0};
  EQUAL(hal_pool_alloc(pool, stream, bytes, &ref), HAL_OK);
  EQUAL(ref.bytes, bytes);
  return ref;
}

static void give(hal_stream stream, hal_memory_ref ref) {
  EQUAL(hal_pool_free(pool, stream, &ref), HAL_OK);
}

static hal_pool_stats figures(void) {
  hal_pool_stats stats = {.size = sizeof(stats)};
  EQUAL(hal_pool_stats_read(pool, &stats), HAL_OK);
  return stats;
}

static int is_same(hal_memory_ref a, hal_memory_ref b) {
  return a.memory == b.memory && a.offset_bytes == b.offset_bytes;
}

// Holds a stream back until the event is signalled.
static hal_event hold(hal_stream stream) {
  hal_event gate = 0;
  EQUAL(hal_event_create(port, device, HAL_EVENT_FLAG_HOST, &gate), HAL_OK);
  EQUAL(hal_stream_wait_event(port, stream, gate), HAL_OK);
  return gate;
}

static void a_stream_gets_its_own_range_back_at_once(void) {
  set_up(0);
  const hal_stream stream = new_stream();
  const hal_event gate = hold(stream);
  const hal_memory_ref first = take(stream, 1000);
  give(stream, first);
  const hal_memory_ref second = take(stream, 900);
  TRUE(is_same(first, second));
  EQUAL(figures().hit_count, 1);
  EQUAL(figures().miss_count, 1);
  EQUAL(figures().allocated_bytes, 1024);
  EQUAL(hal_event_signal(port, gate, HAL_OK), HAL_OK);
  tear_down();
}

static void another_stream_waits_until_the_work_has_finished(void) {
  set_up(0);
  const hal_stream one = new_stream(), two = new_stream();
  const hal_event gate = hold(one);
  const hal_memory_ref all = take(one, 384 * 1024);
  give(one, all);
  const hal_memory_ref elsewhere = take(two, 384 * 1024);
  TRUE(!is_same(all, elsewhere));
  EQUAL(hal_event_signal(port, gate, HAL_OK), HAL_OK);
  const hal_memory_ref again = take(two, 384 * 1024);
  TRUE(is_same(all, again));
  tear_down();
}

static void a_forgotten_stream_serves_others_after_its_work(void) {
  set_up(0);
  const hal_stream one = new_stream(), two = new_stream();
  const hal_event gate = hold(one);
  const hal_memory_ref all = take(one, 384 * 1024);
  give(one, all);
  EQUAL(hal_pool_forget_stream(pool, one), HAL_OK);
  EQUAL(hal_stream_destroy(port, one), HAL_OK);
  TRUE(!is_same(all, take(two, 384 * 1024)));
  EQUAL(hal_event_signal(port, gate, HAL_OK), HAL_OK);
  TRUE(is_same(all, take(two, 384 * 1024)));
  tear_down();
}

static void freed_neighbours_join(void) {
  set_up(0);
  const hal_stream stream = new_stream();
  hal_memory_ref parts[4];
  for (int i = 0; i < 4; ++i) parts[i] = take(stream, 2048);
  for (int i = 1; i < 4; ++i) {
    EQUAL(parts[i].memory, parts[0].memory);
    EQUAL(parts[i].offset_bytes, parts[i - 1].offset_bytes + 2048);
  }
  give(stream, parts[1]);
  give(stream, parts[3]);
  give(stream, parts[2]);
  give(stream, parts[0]);
  TRUE(is_same(take(stream, 8192), parts[0]));
  EQUAL(figures().reserved_bytes, 1 << 16);
  tear_down();
}

static void wrong_frees_are_refused(void) {
  set_up(0);
  const hal_stream stream = new_stream();
  hal_memory_ref ref = take(stream, 512);
  hal_memory_ref inside = ref;
  inside.offset_bytes += 256;
  EQUAL(hal_pool_free(pool, stream, &inside), HAL_ERROR_INVALID_HANDLE);
  give(stream, ref);
  EQUAL(hal_pool_free(pool, stream, &ref), HAL_ERROR_INVALID_HANDLE);
  ref.memory = 12345;
  EQUAL(hal_pool_free(pool, stream, &ref), HAL_ERROR_INVALID_HANDLE);
  EQUAL(hal_pool_alloc(pool, stream, 0, &ref), HAL_ERROR_INVALID_VALUE);
  EQUAL(hal_pool_alloc(pool, stream, UINT64_MAX, &ref), HAL_ERROR_OUT_OF_MEMORY);
  EQUAL(ref.memory, 12345);
  tear_down();
}

static void an_empty_device_is_trimmed_then_refused_with_the_largest_block(void) {
  set_up(0);
  const hal_stream stream = new_stream();
  const hal_memory_ref kept = take(stream, 4096);
  give(stream, take(stream, 900 * 1024));
  // The large range does not fit beside the cached one; that goes back to the device.
  const hal_memory_ref large = take(stream, 950 * 1024);
  hal_memory_ref none = {0};
  EQUAL(hal_pool_alloc(pool, stream, 200 * 1024, &none), HAL_ERROR_OUT_OF_MEMORY);
  hal_error error = {.size = sizeof(error)};
  EQUAL(hal_port_last_error(port, &error), HAL_OK);
  CONTAINS(error.text, "no room for 204800 bytes");
  CONTAINS(error.text, "largest free block has 61440");
  EQUAL(none.memory, 0);
  give(stream, large);
  give(stream, kept);
  uint64_t released = 0;
  EQUAL(hal_pool_trim(pool, 0, &released), HAL_OK);
  EQUAL(released, 960 * 1024 + (1 << 16));
  EQUAL(figures().reserved_bytes, 0);
  tear_down();
}

static void a_limit_holds(void) {
  set_up(1 << 17);
  const hal_stream stream = new_stream();
  hal_memory_ref none = {0};
  EQUAL(hal_pool_alloc(pool, stream, (1 << 17) + 1, &none), HAL_ERROR_OUT_OF_MEMORY);
  take(stream, 1 << 17);
  EQUAL(hal_pool_alloc(pool, stream, 256, &none), HAL_ERROR_OUT_OF_MEMORY);
  tear_down();
}

// A thousand random steps, against a plain list of what is out: ranges never overlap, and all
// memory comes back.
static void random_steps_never_overlap(void) {
  set_up(0);
  enum { SLOTS = 64 };
  hal_memory_ref out[SLOTS] = {{0}};
  hal_stream streams[3] = {new_stream(), new_stream(), 0};
  uint64_t state = 88172645463325252u;
  for (int step = 0; step < 20000; ++step) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    const uint32_t slot = (uint32_t)(state >> 8) % SLOTS;
    const hal_stream stream = streams[(state >> 20) % 3];
    if (out[slot].bytes != 0) {
      give(stream, out[slot]);
      out[slot].bytes = 0;
      continue;
    }
    const uint64_t bytes = 1 + (state >> 24) % (slot % 4 == 0 ? 60000 : 900);
    if (hal_pool_alloc(pool, stream, bytes, &out[slot]) != HAL_OK) {
      out[slot].bytes = 0;
      continue;
    }
    for (uint32_t i = 0; i < SLOTS; ++i) {
      if (i == slot || out[i].bytes == 0 || out[i].memory != out[slot].memory) continue;
      TRUE(out[i].offset_bytes + out[i].bytes <= out[slot].offset_bytes ||
           out[slot].offset_bytes + out[slot].bytes <= out[i].offset_bytes);
    }
  }
  TRUE(figures().peak_bytes > 0);
  for (uint32_t i = 0; i < SLOTS; ++i) {
    if (out[i].bytes != 0) give(0, out[i]);
  }
  EQUAL(figures().live_count, 0);
  EQUAL(figures().allocated_bytes, 0);
  EQUAL(hal_pool_trim(pool, 0, NULL), HAL_OK);
  EQUAL(figures().reserved_bytes, 0);
  tear_down();
}

static void *take_and_give(void *argument) {
  (void)argument;
  const hal_stream stream = new_stream();
  for (int i = 0; i < 2000; ++i) give(stream, take(stream, 100 + (uint64_t)i));
  return NULL;
}

static void threads_share_a_pool(void) {
  set_up(0);
  pthread_t threads[4];
  for (int i = 0; i < 4; ++i) {
    EQUAL(pthread_create(&threads[i], NULL, take_and_give, NULL), 0);
  }
  for (int i = 0; i < 4; ++i) EQUAL(pthread_join(threads[i], NULL), 0);
  EQUAL(figures().live_count, 0);
  EQUAL(figures().hit_count + figures().miss_count, 8000);
  tear_down();
}

static void wrong_descriptors_are_refused(void) {
  set_up(0);
  hal_pool *other = NULL;
  const hal_pool_desc odd = {.size = sizeof(odd), .alignment_bytes = 384};
  EQUAL(hal_pool_create(port, device, &odd, &other), HAL_ERROR_INVALID_VALUE);
  EQUAL(hal_pool_create(port, device + 99, NULL, &other), HAL_ERROR_INVALID_HANDLE);
  EQUAL(hal_pool_create(NULL, device, NULL, &other), HAL_ERROR_INVALID_HANDLE);
  const hal_pool_desc wide = {.size = sizeof(wide), .alignment_bytes = 4096};
  EQUAL(hal_pool_create(port, device, &wide, &other), HAL_OK);
  hal_memory_ref ref;
  EQUAL(hal_pool_alloc(other, 0, 1, &ref), HAL_OK);
  EQUAL(hal_pool_alloc(other, 0, 1, &ref), HAL_OK);
  EQUAL(ref.offset_bytes % 4096, 0);
  EQUAL(hal_pool_destroy(other), HAL_OK);
  EQUAL(hal_pool_destroy(NULL), HAL_OK);
  tear_down();
}

int main(void) {
  a_stream_gets_its_own_range_back_at_once();
  another_stream_waits_until_the_work_has_finished();
  a_forgotten_stream_serves_others_after_its_work();
  freed_neighbours_join();
  wrong_frees_are_refused();
  an_empty_device_is_trimmed_then_refused_with_the_largest_block();
  a_limit_holds();
  random_steps_never_overlap();
  threads_share_a_pool();
  wrong_descriptors_are_refused();
  return 0;
}
