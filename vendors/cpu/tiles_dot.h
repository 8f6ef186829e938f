// Packing for dot products of the hardware: groups of two bf16 or four 8-bit integers fill 32 bits,
// and a panel has 32 columns. Left rows stay as they are.

// ---- Optional ----
#ifndef CPU_TILES_DOT_H_
#define CPU_TILES_DOT_H_

#include "tiles.h"

enum { DOT_COLUMNS = 32 };

// The instructions flush subnormal numbers. Of values that are 0 or at least 2^-50 in size every
// product is a multiple of 2^-114 and so is every partial sum: none is subnormal. Infinities and
// NaN pass.
enum { TAME_BF16 = ((127 - 50) << 7) - 1 };

// The least size of a value, less one: a zero becomes the largest.
static inline uint16_t least_bf16(uint16_t least, const uint16_t *row, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    uint16_t size = (uint16_t)((row[i] & 0x7FFF) - 1);
    least = size < least ? size : least;
  }
  return least;
}

static bool pack_bf16_left(void *out, const void *row, uint32_t dtype, uint32_t count) {
  (void)dtype;
  memcpy(out, row, (size_t)count * 2);
  return least_bf16(UINT16_MAX, row, count) >= TAME_BF16;
}

static inline void pair_lines(uint32_t *to, const uint16_t *above, const uint16_t *below,
                              uint32_t count) {
  for (uint32_t n = 0; n < count; ++n) to[n] = above[n] | (uint32_t)below[n] << 16;
}

static bool pack_bf16_right(void *out, size_t panel_bytes, const void *first, int64_t pitch,
                            uint32_t dtype, uint32_t depth, uint32_t columns) {
  (void)dtype;
  static const uint16_t zeros[DOT_COLUMNS];
  const uint16_t *row = first;
  uint16_t least = UINT16_MAX;
  for (uint32_t l = 0; l < depth; l += 2, row += 2 * pitch) {
    least = least_bf16(least, row, columns);
    if (l + 1 < depth) least = least_bf16(least, row + pitch, columns);
    uint8_t *line = (uint8_t *)out + (size_t)l / 2 * DOT_COLUMNS * 4;
    for (uint32_t n = 0; n < columns; n += DOT_COLUMNS, line += panel_bytes) {
      const uint16_t *below = l + 1 < depth ? row + pitch + n : zeros;
      if (columns - n >= DOT_COLUMNS) {
        pair_lines((uint32_t *)(void *)line, row + n, below, DOT_COLUMNS);
      } else {
        memset(line, 0, (size_t)DOT_COLUMNS * 4);
        pair_lines((uint32_t *)(void *)line, row + n, below, columns - n);
      }
    }
  }
  return least >= TAME_BF16;
}

// One group of four rows; `flip` changes the signedness of each byte.
static inline void quad_lines(uint32_t *to, const uint8_t *const rows[4], uint32_t flip,
                              uint32_t count) {
  for (uint32_t n = 0; n < count; ++n)
    to[n] = (rows[0][n] | (uint32_t)rows[1][n] << 8 | (uint32_t)rows[2][n] << 16 |
             (uint32_t)rows[3][n] << 24) ^
            flip;
}

// Rows past the depth are packed as zeros: `flip` has no bits for them.
static inline __attribute__((always_inline)) void pack_quads(uint8_t *out, size_t panel_bytes,
                                                             const uint8_t *row, int64_t pitch,
                                                             uint32_t depth, uint32_t columns,
                                                             bool flips) {
  static const uint8_t zeros[DOT_COLUMNS];
  for (uint32_t l = 0; l < depth; l += 4, row += 4 * pitch) {
    uint8_t *line = out + (size_t)l / 4 * DOT_COLUMNS * 4;
    uint32_t there = depth - l < 4 ? depth - l : 4;
    uint32_t flip = flips ? 0x80808080u >> (8 * (4 - there)) : 0;
    for (uint32_t n = 0; n < columns; n += DOT_COLUMNS, line += panel_bytes) {
      const uint8_t *rows[4];
      for (uint32_t k = 0; k < 4; ++k) rows[k] = k < there ? row + k * pitch + n : zeros;
      if (columns - n >= DOT_COLUMNS) {
        quad_lines((uint32_t *)(void *)line, rows, flip, DOT_COLUMNS);
      } else {
        memset(line, 0, (size_t)DOT_COLUMNS * 4);
        quad_lines((uint32_t *)(void *)line, rows, flip, columns - n);
      }
    }
  }
}

static bool pack_i8_left(void *out, const void *row, uint32_t dtype, uint32_t count) {
  uint8_t flip = dtype == HAL_DTYPE_I8 ? 0x80 : 0, *to = out;
  for (uint32_t i = 0; i < count; ++i) to[i] = ((const uint8_t *)row)[i] ^ flip;
  return true;
}

static bool pack_i8_right(void *out, size_t panel_bytes, const void *first, int64_t pitch,
                          uint32_t dtype, uint32_t depth, uint32_t columns) {
  pack_quads(out, panel_bytes, first, pitch, depth, columns, dtype == HAL_DTYPE_U8);
  return true;
}

#endif  // CPU_TILES_DOT_H_
