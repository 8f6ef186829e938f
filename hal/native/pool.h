// Inside the caching allocator: segments, blocks and arenas. pool.c serves requests, arena.c keeps
// free blocks. Inside libhal only.
#ifndef HAL_NATIVE_POOL_H_
#define HAL_NATIVE_POOL_H_

#include <pthread.h>

#include "map.h"
#include "port_object.h"

enum {
  HAL_BIN_ROWS = 40,    // Powers of two of a block's units.
  HAL_BIN_COLUMNS = 8,  // Steps within a power of two.
};

typedef struct hal_segment hal_segment;
typedef struct hal_arena hal_arena;

// A range of a segment, given out or free.
typedef struct hal_block {
  uint64_t offset;
  uint64_t bytes;
  hal_segment *segment;
  hal_arena *arena;                   // Where it lies while it is free; NULL while it is given out.
  struct hal_block *before, *behind;  // Neighbours in the segment.
  struct hal_block *next, *previous;  // In the arena's bin, or in the list of spare records.
} hal_block;

// Memory taken from the device as a whole.
struct hal_segment {
  hal_memory memory;
  uint64_t bytes;
  uint64_t number;  // Of this pool; never used twice.
  uint32_t live_count;
  uint32_t is_large;
  hal_block *first;
  hal_segment *next, *previous;
};

// Free blocks that one stream may use at once, in bins of like size.
struct hal_arena {
  hal_stream stream;  // 0: blocks that no work uses.
  hal_event passed;   // Of a forgotten stream: complete when its work has finished; else 0.
  uint64_t block_count;
  uint64_t rows;  // Bit r: some bin of row r has a block.
  uint32_t columns[HAL_BIN_ROWS];
  hal_block *bins[HAL_BIN_ROWS][HAL_BIN_COLUMNS];
  uint32_t is_large;
  hal_arena *next, *previous;
};

struct hal_pool {
  pthread_mutex_t lock;
  hal_port *port;
  hal_device device;
  uint64_t unit_bytes;     // Every offset and length is a multiple.
  uint64_t segment_bytes;  // Usual length of a segment for small requests.
  uint64_t limit_bytes;
  // Small requests and large ones have segments and arenas of their own: [is_large].
  hal_arena idle[2];
  hal_map streams[2];  // From a stream to its arena.
  hal_arena *arenas;   // All but the idle ones.
  hal_segment *segments;
  hal_map by_memory;       // From a buffer to its segment.
  hal_map live;            // From (segment, offset) to the block that is given out.
  uint64_t segment_count;  // Segments made so far.
  hal_block *spare;
  hal_pool_stats stats;
};

// Puts a free block into an arena and joins it with free neighbours of the same arena.
void hal_arena_put(hal_pool *pool, hal_arena *arena, hal_block *block);
// Takes a block of at least `bytes` out of an arena and splits off what is left over; NULL when
// there is none.
hal_block *hal_arena_take(hal_pool *pool, hal_arena *arena, uint64_t bytes);
// Takes a given free block out of its arena.
void hal_arena_remove(hal_pool *pool, hal_block *block);
// Moves all blocks of one arena to another.
void hal_arena_move(hal_pool *pool, hal_arena *from, hal_arena *to);
// A new record of a block; NULL without host memory.
hal_block *hal_block_make(hal_pool *pool);
void hal_block_drop(hal_pool *pool, hal_block *block);

// The device that a pool takes its memory from.
static inline hal_device hal_pool_device(const hal_pool *pool) {
  return pool->device;
}

#endif  // HAL_NATIVE_POOL_H_
