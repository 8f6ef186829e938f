// Free blocks in bins of like size: a row for each power of two, eight columns within it. The bit
// maps find a bin that is not empty in a few steps, whatever the count of blocks.
#include "pool.h"

static uint32_t log2_floor(uint64_t value) {
  return 63 - (uint32_t)__builtin_clzll(value);
}

// The bin that holds blocks of this length.
static void bin_of(const hal_pool *pool, uint64_t bytes, uint32_t *out_row, uint32_t *out_column) {
  const uint64_t units = bytes / pool->unit_bytes;
  const uint32_t row = log2_floor(units);
  *out_row = row < HAL_BIN_ROWS ? row : HAL_BIN_ROWS - 1;
  if (row >= HAL_BIN_ROWS) {
    *out_column = HAL_BIN_COLUMNS - 1;
  } else {
    *out_column =
        row >= 3 ? (uint32_t)(units >> (row - 3)) & 7 : (uint32_t)(units << (3 - row)) & 7;
  }
}

hal_block *hal_block_make(hal_pool *pool) {
  hal_block *block = pool->spare;
  if (block == NULL) return malloc(sizeof(*block));
  pool->spare = block->next;
  return block;
}

void hal_block_drop(hal_pool *pool, hal_block *block) {
  block->next = pool->spare;
  pool->spare = block;
}

static void link_block(hal_pool *pool, hal_arena *arena, hal_block *block) {
  uint32_t row, column;
  bin_of(pool, block->bytes, &row, &column);
  hal_block **head = &arena->bins[row][column];
  block->arena = arena;
  block->previous = NULL;
  block->next = *head;
  if (*head != NULL) (*head)->previous = block;
  *head = block;
  arena->rows |= (uint64_t)1 << row;
  arena->columns[row] |= 1u << column;
  arena->block_count += 1;
}

void hal_arena_remove(hal_pool *pool, hal_block *block) {
  hal_arena *arena = block->arena;
  uint32_t row, column;
  bin_of(pool, block->bytes, &row, &column);
  if (block->next != NULL) block->next->previous = block->previous;
  if (block->previous != NULL) {
    block->previous->next = block->next;
  } else {
    arena->bins[row][column] = block->next;
    if (block->next == NULL) {
      arena->columns[row] &= ~(1u << column);
      if (arena->columns[row] == 0) arena->rows &= ~((uint64_t)1 << row);
    }
  }
  block->arena = NULL;
  arena->block_count -= 1;
}

void hal_arena_put(hal_pool *pool, hal_arena *arena, hal_block *block) {
  hal_block *before = block->before;
  if (before != NULL && before->arena == arena) {
    hal_arena_remove(pool, before);
    before->bytes += block->bytes;
    before->behind = block->behind;
    if (block->behind != NULL) block->behind->before = before;
    hal_block_drop(pool, block);
    block = before;
  }
  hal_block *behind = block->behind;
  if (behind != NULL && behind->arena == arena) {
    hal_arena_remove(pool, behind);
    block->bytes += behind->bytes;
    block->behind = behind->behind;
    if (behind->behind != NULL) behind->behind->before = block;
    hal_block_drop(pool, behind);
  }
  link_block(pool, arena, block);
}

// The first block of a bin with at least `bytes`, among its first `limit` ones.
static hal_block *search_bin(hal_block *block, uint64_t bytes, uint32_t limit) {
  for (; block != NULL && limit > 0; block = block->next, --limit) {
    if (block->bytes >= bytes) return block;
  }
  return NULL;
}

// Finds a block of at least `bytes`: a few of its own bin, then any of a larger one, then all of
// its own bin.
static hal_block *find_block(const hal_pool *pool, const hal_arena *arena, uint64_t bytes) {
  uint32_t row, column;
  bin_of(pool, bytes, &row, &column);
  hal_block *own = search_bin(arena->bins[row][column], bytes, 4);
  if (own != NULL) return own;
  const uint32_t larger = arena->columns[row] >> column >> 1;
  if (larger != 0) return arena->bins[row][column + 1 + (uint32_t)__builtin_ctz(larger)];
  const uint64_t rows = arena->rows >> row >> 1;
  if (rows == 0) return search_bin(arena->bins[row][column], bytes, UINT32_MAX);
  row += 1 + (uint32_t)__builtin_ctzll(rows);
  return arena->bins[row][__builtin_ctz(arena->columns[row])];
}

hal_block *hal_arena_take(hal_pool *pool, hal_arena *arena, uint64_t bytes) {
  if (arena->block_count == 0) return NULL;
  hal_block *block = find_block(pool, arena, bytes);
  if (block == NULL) return NULL;
  hal_arena_remove(pool, block);
  if (block->bytes == bytes) return block;
  hal_block *rest = hal_block_make(pool);
  if (rest == NULL) return block;  // The caller gets more than it asked for.
  *rest = (hal_block){.offset = block->offset + bytes,
                      .bytes = block->bytes - bytes,
                      .segment = block->segment,
                      .before = block,
                      .behind = block->behind};
  if (block->behind != NULL) block->behind->before = rest;
  block->behind = rest;
  block->bytes = bytes;
  link_block(pool, arena, rest);
  return block;
}

void hal_arena_move(hal_pool *pool, hal_arena *from, hal_arena *to) {
  while (from->rows != 0) {
    const uint32_t row = (uint32_t)__builtin_ctzll(from->rows);
    hal_block *block = from->bins[row][__builtin_ctz(from->columns[row])];
    hal_arena_remove(pool, block);
    hal_arena_put(pool, to, block);
  }
}
