// The stream-ordered caching allocator. A range that was freed on a stream serves the same stream
// at once, because work on it runs in order; it serves other streams once that stream was idle.
#include "pool.h"

#include <string.h>

#include "emulate_layer.h"

enum {
  DEFAULT_UNIT_BYTES = 256,
  LEAST_SEGMENT_BYTES = 1 << 16,
  USUAL_SEGMENT_BYTES = 1 << 21,
  SEGMENTS_OF_DEVICE = 64,  // A usual segment is at most this part of the device's memory.
  LARGE_SEGMENT = 10,       // A segment for medium requests, in usual segments.
  OFFSET_BITS = 40,
};

static uint64_t round_up(uint64_t bytes, uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

static int is_power_of_two(uint64_t value) {
  return value != 0 && (value & (value - 1)) == 0;
}

static uint64_t live_key(const hal_pool *pool, const hal_segment *segment, uint64_t offset) {
  return segment->number << OFFSET_BITS | offset / pool->unit_bytes;
}

// Units and segments follow the device: its offset alignment and the size of its memory.
static void choose_sizes(hal_pool *pool, const hal_pool_desc *desc) {
  int64_t value = 0;
  pool->unit_bytes = DEFAULT_UNIT_BYTES;
  if (desc->alignment_bytes > pool->unit_bytes) pool->unit_bytes = desc->alignment_bytes;
  if (hal_device_get_i64(pool->port, pool->device, "device.offset_alignment_bytes", &value) ==
          HAL_OK &&
      value > 0 && is_power_of_two((uint64_t)value) && (uint64_t)value > pool->unit_bytes) {
    pool->unit_bytes = (uint64_t)value;
  }
  pool->segment_bytes = USUAL_SEGMENT_BYTES;
  if (hal_device_get_i64(pool->port, pool->device, "device.memory_bytes", &value) == HAL_OK &&
      value > 0) {
    while (pool->segment_bytes > LEAST_SEGMENT_BYTES &&
           pool->segment_bytes > (uint64_t)value / SEGMENTS_OF_DEVICE) {
      pool->segment_bytes /= 2;
    }
  }
  pool->segment_bytes = round_up(pool->segment_bytes, pool->unit_bytes);
  pool->limit_bytes = desc->limit_bytes == 0 ? UINT64_MAX : desc->limit_bytes;
}

int32_t hal_pool_create(hal_port *port, hal_device device, const hal_pool_desc *given,
                        hal_pool **out_pool) {
  if (port == NULL) return HAL_ERROR_INVALID_HANDLE;
  hal_pool_desc desc = {.size = sizeof(desc)};
  if (given != NULL) {
    if (given->size < sizeof(given->size)) {
      return hal_record(port, HAL_ERROR_INVALID_VALUE, "the descriptor's size is %llu bytes",
                        (unsigned long long)given->size);
    }
    memcpy(&desc, given, given->size < sizeof(desc) ? given->size : sizeof(desc));
  }
  if (out_pool == NULL || (desc.alignment_bytes != 0 && !is_power_of_two(desc.alignment_bytes))) {
    return hal_record(port, HAL_ERROR_INVALID_VALUE,
                      "out_pool is NULL or the alignment %llu is no power of two",
                      (unsigned long long)desc.alignment_bytes);
  }
  int64_t total = 0;
  const int32_t known = hal_device_get_i64(port, device, "device.memory_bytes", &total);
  if (known != HAL_OK && known != HAL_ERROR_NOT_FOUND) return known;
  hal_pool *pool = calloc(1, sizeof(*pool));
  if (pool == NULL) return hal_record(port, HAL_ERROR_OUT_OF_MEMORY, "no host memory");
  pthread_mutex_init(&pool->lock, NULL);
  pool->port = port;
  pool->device = device;
  pool->idle[1].is_large = 1;
  choose_sizes(pool, &desc);
  *out_pool = pool;
  return HAL_OK;
}

static void drop_segment(hal_pool *pool, hal_segment *segment) {
  for (hal_block *block = segment->first; block != NULL;) {
    hal_block *behind = block->behind;
    if (block->arena != NULL) hal_arena_remove(pool, block);
    hal_block_drop(pool, block);
    block = behind;
  }
  hal_map_remove(&pool->by_memory, segment->memory);
  if (segment->next != NULL) segment->next->previous = segment->previous;
  if (segment->previous != NULL) {
    segment->previous->next = segment->next;
  } else {
    pool->segments = segment->next;
  }
  pool->stats.reserved_bytes -= segment->bytes;
  // The device keeps the memory until work enqueued before has finished.
  hal_memory_free(pool->port, segment->memory);
  free(segment);
}

static void drop_arena(hal_pool *pool, hal_arena *arena) {
  if (arena->passed != 0) {
    hal_event_destroy(pool->port, arena->passed);
  } else {
    hal_map_remove(&pool->streams[arena->is_large], arena->stream);
  }
  if (arena->next != NULL) arena->next->previous = arena->previous;
  if (arena->previous != NULL) {
    arena->previous->next = arena->next;
  } else {
    pool->arenas = arena->next;
  }
  free(arena);
}

int32_t hal_pool_destroy(hal_pool *pool) {
  if (pool == NULL) return HAL_OK;
  while (pool->segments != NULL) drop_segment(pool, pool->segments);
  while (pool->arenas != NULL) drop_arena(pool, pool->arenas);
  while (pool->spare != NULL) {
    hal_block *block = pool->spare;
    pool->spare = block->next;
    free(block);
  }
  hal_map_free(&pool->by_memory);
  hal_map_free(&pool->live);
  hal_map_free(&pool->streams[0]);
  hal_map_free(&pool->streams[1]);
  pthread_mutex_destroy(&pool->lock);
  free(pool);
  return HAL_OK;
}

// Gives back segments of which nothing is given out, until `keep_bytes` are reserved.
static uint64_t trim(hal_pool *pool, uint64_t keep_bytes) {
  uint64_t released = 0;
  for (hal_segment *segment = pool->segments; segment != NULL;) {
    hal_segment *next = segment->next;
    if (segment->live_count == 0 && pool->stats.reserved_bytes > keep_bytes) {
      released += segment->bytes;
      drop_segment(pool, segment);
    }
    segment = next;
  }
  return released;
}

// Whether all work of an arena's stream has finished.
static int has_finished(hal_pool *pool, const hal_arena *arena) {
  if (arena->passed != 0) return hal_event_query(pool->port, arena->passed) != HAL_NOT_READY;
  if (hal_emulation_is_capturing(pool->port->emulation, arena->stream)) return 0;
  const int32_t status = hal_stream_query(pool->port, arena->stream);
  if (status != HAL_ERROR_INVALID_HANDLE) return status != HAL_NOT_READY;
  // The stream was destroyed without a word; its work may still run.
  return hal_device_synchronize(pool->port, pool->device, 0) != HAL_ERROR_TIMEOUT;
}

// Makes the free blocks of idle streams free for all streams.
static void collect(hal_pool *pool) {
  for (hal_arena *arena = pool->arenas; arena != NULL;) {
    hal_arena *next = arena->next;
    if (arena->block_count != 0 && has_finished(pool, arena)) {
      hal_arena_move(pool, arena, &pool->idle[arena->is_large]);
    }
    if (arena->passed != 0 && arena->block_count == 0) drop_arena(pool, arena);
    arena = next;
  }
}

static hal_arena *arena_of(hal_pool *pool, hal_stream stream, uint32_t is_large) {
  if (stream == 0) return &pool->idle[is_large];
  hal_arena *arena = hal_map_get(&pool->streams[is_large], stream);
  if (arena != NULL) return arena;
  arena = calloc(1, sizeof(*arena));
  if (arena == NULL) return NULL;
  arena->stream = stream;
  arena->is_large = is_large;
  if (!hal_map_add(&pool->streams[is_large], stream, arena)) {
    free(arena);
    return NULL;
  }
  arena->next = pool->arenas;
  if (pool->arenas != NULL) pool->arenas->previous = arena;
  pool->arenas = arena;
  return arena;
}

static int32_t add_segment(hal_pool *pool, uint64_t bytes, uint32_t is_large) {
  if (bytes > pool->limit_bytes || pool->stats.reserved_bytes > pool->limit_bytes - bytes) {
    return HAL_ERROR_OUT_OF_MEMORY;
  }
  hal_segment *segment = calloc(1, sizeof(*segment));
  hal_block *block = hal_block_make(pool);
  const hal_memory_desc desc = {
      .size = sizeof(desc), .bytes = bytes, .alignment_bytes = pool->unit_bytes};
  hal_memory memory = 0;
  int32_t status = HAL_ERROR_OUT_OF_MEMORY;
  if (segment != NULL && block != NULL) {
    status = hal_memory_alloc(pool->port, pool->device, &desc, &memory);
    if (status == HAL_OK && !hal_map_add(&pool->by_memory, memory, segment)) {
      hal_memory_free(pool->port, memory);
      status = HAL_ERROR_OUT_OF_MEMORY;
    }
  }
  if (status != HAL_OK) {
    free(segment);
    if (block != NULL) hal_block_drop(pool, block);
    return status;
  }
  *block = (hal_block){.bytes = bytes, .segment = segment};
  *segment = (hal_segment){.memory = memory,
                           .bytes = bytes,
                           .number = ++pool->segment_count,
                           .is_large = is_large,
                           .first = block,
                           .next = pool->segments};
  if (pool->segments != NULL) pool->segments->previous = segment;
  pool->segments = segment;
  pool->stats.reserved_bytes += bytes;
  hal_arena_put(pool, &pool->idle[is_large], block);
  return HAL_OK;
}

// Takes memory from the device for a request, with room for more where that succeeds.
static int32_t grow(hal_pool *pool, uint64_t bytes, uint32_t is_large) {
  uint64_t wanted = pool->segment_bytes;
  if (is_large) {
    wanted = bytes < pool->segment_bytes * LARGE_SEGMENT / 2 ? pool->segment_bytes * LARGE_SEGMENT
                                                             : round_up(bytes, pool->segment_bytes);
  }
  int32_t status = add_segment(pool, wanted, is_large);
  if (status == HAL_ERROR_OUT_OF_MEMORY) status = add_segment(pool, bytes, is_large);
  if (status == HAL_ERROR_OUT_OF_MEMORY && trim(pool, 0) != 0) {
    status = add_segment(pool, bytes, is_large);
  }
  return status;
}

static uint64_t largest_free(const hal_pool *pool) {
  uint64_t largest = 0;
  for (const hal_segment *segment = pool->segments; segment != NULL; segment = segment->next) {
    for (const hal_block *block = segment->first; block != NULL; block = block->behind) {
      if (block->arena != NULL && block->bytes > largest) largest = block->bytes;
    }
  }
  return largest;
}

static hal_block *take(hal_pool *pool, hal_stream stream, uint64_t bytes, int32_t *out_status) {
  const uint32_t is_large = bytes > pool->segment_bytes / 2;
  hal_arena *arena = arena_of(pool, stream, is_large);
  *out_status = HAL_ERROR_OUT_OF_MEMORY;
  if (arena == NULL) return NULL;
  hal_arena *idle = &pool->idle[is_large];
  hal_block *block = hal_arena_take(pool, arena, bytes);
  if (block == NULL && arena != idle) block = hal_arena_take(pool, idle, bytes);
  if (block == NULL) {
    collect(pool);
    block = hal_arena_take(pool, idle, bytes);
  }
  if (block != NULL) {
    pool->stats.hit_count += 1;
    return block;
  }
  pool->stats.miss_count += 1;
  *out_status = grow(pool, bytes, is_large);
  return *out_status == HAL_OK ? hal_arena_take(pool, idle, bytes) : NULL;
}

static int32_t refuse_memory(hal_pool *pool, hal_stream stream, uint64_t bytes, int32_t status) {
  if (status != HAL_ERROR_OUT_OF_MEMORY) return status;
  hal_memory_figures figures = {.size = sizeof(figures)};
  const int32_t known = hal_memory_stats(pool->port, pool->device, &figures);
  return hal_record(pool->port, status,
                    "no room for %llu bytes: the pool holds %llu bytes, %llu of them given out, "
                    "its largest free block has %llu%s, and the device has %llu of %llu in use",
                    (unsigned long long)bytes, (unsigned long long)pool->stats.reserved_bytes,
                    (unsigned long long)pool->stats.allocated_bytes,
                    (unsigned long long)largest_free(pool),
                    stream == 0 ? "" : " (perhaps waiting for another stream)",
                    (unsigned long long)(known == HAL_OK ? figures.in_use_bytes : 0),
                    (unsigned long long)(known == HAL_OK ? figures.total_bytes : 0));
}

int32_t hal_pool_alloc(hal_pool *pool, hal_stream stream, uint64_t bytes, hal_memory_ref *out_ref) {
  if (pool == NULL) return HAL_ERROR_INVALID_HANDLE;
  if (hal_port_ended(pool->port)) return hal_layer_absent(&pool->port->ended, "");
  if (bytes == 0 || out_ref == NULL) {
    return hal_record(pool->port, HAL_ERROR_INVALID_VALUE, "a range of %llu bytes%s",
                      (unsigned long long)bytes, out_ref == NULL ? ", and no output" : "");
  }
  int32_t status = HAL_ERROR_OUT_OF_MEMORY;
  pthread_mutex_lock(&pool->lock);
  hal_block *block = NULL;
  if (bytes <= UINT64_MAX / 2) {
    block = take(pool, stream, round_up(bytes, pool->unit_bytes), &status);
  }
  if (block != NULL) {
    const hal_segment *segment = block->segment;
    if (!hal_map_add(&pool->live, live_key(pool, segment, block->offset), block)) {
      hal_arena_put(pool, &pool->idle[segment->is_large], block);
      block = NULL;
    }
  }
  if (block == NULL) {
    status = refuse_memory(pool, stream, bytes, status);
  } else {
    status = HAL_OK;
    block->segment->live_count += 1;
    pool->stats.live_count += 1;
    pool->stats.allocated_bytes += block->bytes;
    if (pool->stats.allocated_bytes > pool->stats.peak_bytes) {
      pool->stats.peak_bytes = pool->stats.allocated_bytes;
    }
    *out_ref = (hal_memory_ref){
        .memory = block->segment->memory, .offset_bytes = block->offset, .bytes = bytes};
  }
  pthread_mutex_unlock(&pool->lock);
  return status;
}

int32_t hal_pool_free(hal_pool *pool, hal_stream stream, const hal_memory_ref *ref) {
  if (pool == NULL) return HAL_ERROR_INVALID_HANDLE;
  if (hal_port_ended(pool->port)) return hal_layer_absent(&pool->port->ended, "");
  if (ref == NULL) return hal_record(pool->port, HAL_ERROR_INVALID_VALUE, "the range is NULL");
  int32_t status = HAL_OK;
  pthread_mutex_lock(&pool->lock);
  hal_segment *segment = ref->memory == 0 ? NULL : hal_map_get(&pool->by_memory, ref->memory);
  hal_block *block = NULL;
  if (segment != NULL && ref->offset_bytes < segment->bytes &&
      ref->offset_bytes % pool->unit_bytes == 0) {
    block = hal_map_remove(&pool->live, live_key(pool, segment, ref->offset_bytes));
  }
  if (block == NULL) {
    status = hal_record(pool->port, HAL_ERROR_INVALID_HANDLE,
                        "the range 0x%llx + %llu is not one that this pool gave out, or it was "
                        "freed before",
                        (unsigned long long)ref->memory, (unsigned long long)ref->offset_bytes);
  } else {
    segment->live_count -= 1;
    pool->stats.live_count -= 1;
    pool->stats.allocated_bytes -= block->bytes;
    hal_arena *arena = arena_of(pool, stream, segment->is_large);
    // Without host memory for an arena the block waits until the pool ends.
    if (arena != NULL) hal_arena_put(pool, arena, block);
  }
  pthread_mutex_unlock(&pool->lock);
  return status;
}

int32_t hal_pool_forget_stream(hal_pool *pool, hal_stream stream) {
  if (pool == NULL) return HAL_ERROR_INVALID_HANDLE;
  pthread_mutex_lock(&pool->lock);
  for (uint32_t is_large = 0; is_large < 2; ++is_large) {
    hal_arena *arena = stream == 0 ? NULL : hal_map_get(&pool->streams[is_large], stream);
    if (arena == NULL) continue;
    hal_event passed = 0;
    if (hal_event_create(pool->port, pool->device, 0, &passed) == HAL_OK) {
      // A stream that refuses the record has failed: nothing of it runs any more.
      hal_event_record(pool->port, passed, stream);
      hal_map_remove(&pool->streams[is_large], stream);
      arena->passed = passed;
    }
  }
  pthread_mutex_unlock(&pool->lock);
  return HAL_OK;
}

int32_t hal_pool_trim(hal_pool *pool, uint64_t keep_bytes, uint64_t *out_released_bytes) {
  if (pool == NULL) return HAL_ERROR_INVALID_HANDLE;
  pthread_mutex_lock(&pool->lock);
  const uint64_t released = trim(pool, keep_bytes);
  pthread_mutex_unlock(&pool->lock);
  if (out_released_bytes != NULL) *out_released_bytes = released;
  return HAL_OK;
}

int32_t hal_pool_stats_read(hal_pool *pool, hal_pool_stats *out_stats) {
  if (pool == NULL) return HAL_ERROR_INVALID_HANDLE;
  if (out_stats == NULL || out_stats->size < sizeof(out_stats->size)) {
    return hal_record(pool->port, HAL_ERROR_INVALID_VALUE, "out_stats is NULL or its size is 0");
  }
  pthread_mutex_lock(&pool->lock);
  hal_pool_stats stats = pool->stats;
  stats.size = out_stats->size;
  stats.largest_free_bytes = largest_free(pool);
  pthread_mutex_unlock(&pool->lock);
  memcpy(out_stats, &stats, stats.size < sizeof(stats) ? stats.size : sizeof(stats));
  return HAL_OK;
}
