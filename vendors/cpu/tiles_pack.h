// Packing for products; included by each instruction set's file, so that the compiler makes vectors
// of its loops.

// ---- Optional ----
#ifndef CPU_TILES_PACK_H_
#define CPU_TILES_PACK_H_

#include "tiles.h"
#include "vil_launch.h"

// Packs rows into panels of single values: `copy(out, row, dtype, count)` converts a row.
static inline __attribute__((always_inline)) void pack_lines(
    uint8_t *out, size_t panel_bytes, const uint8_t *row, size_t row_bytes,
    uint32_t row_value_bytes, uint32_t dtype, uint32_t depth, uint32_t columns, uint32_t width,
    uint32_t value_bytes,
    void (*copy)(void *out, const void *row, uint32_t dtype, uint32_t count)) {
  size_t line_bytes = (size_t)width * value_bytes;
  for (uint32_t l = 0; l < depth; ++l, row += row_bytes, out += line_bytes) {
    uint8_t *line = out;
    uint32_t n = 0;
    for (; n + width <= columns; n += width, line += panel_bytes)
      copy(line, row + (size_t)n * row_value_bytes, dtype, width);
    if (n == columns) continue;
    copy(line, row + (size_t)n * row_value_bytes, dtype, columns - n);
    memset(line + (size_t)(columns - n) * value_bytes, 0,
           (size_t)(width - columns + n) * value_bytes);
  }
}

static inline void copy_f64(void *out, const void *row, uint32_t dtype, uint32_t count) {
  (void)dtype;
  memcpy(out, row, (size_t)count * 8);
}

// i8, u8, i32.
static inline void copy_i32(void *out, const void *row, uint32_t dtype, uint32_t count) {
  int32_t *to = out;
  if (dtype == HAL_DTYPE_I32) {
    memcpy(out, row, (size_t)count * 4);
  } else if (dtype == HAL_DTYPE_I8) {
    for (uint32_t i = 0; i < count; ++i) to[i] = ((const int8_t *)row)[i];
  } else {
    for (uint32_t i = 0; i < count; ++i) to[i] = ((const uint8_t *)row)[i];
  }
}

// The pack_left and pack_right of a product whose rows `copy` converts to values of `size` bytes in
// panels of `width`.
#define DEFINE_PACKING(name, copy, width, size)                                              \
  static bool name##_left(void *out, const void *row, uint32_t dtype, uint32_t count) {      \
    copy(out, row, dtype, count);                                                            \
    return true;                                                                             \
  }                                                                                          \
  static bool name##_right(void *out, size_t panel_bytes, const void *first, int64_t pitch,  \
                           uint32_t dtype, uint32_t depth, uint32_t columns) {               \
    uint32_t bytes = vil_dtype_bytes(dtype);                                                 \
    pack_lines(out, panel_bytes, first, (size_t)pitch * bytes, bytes, dtype, depth, columns, \
               width, size, copy);                                                           \
    return true;                                                                             \
  }

// The product `type` of multiply_`type` and copy_`type`: values of `size` bytes, a group each, in
// blocks of BLOCK_ROWS × `width`.
#define DEFINE_PRODUCT(type, width, size)                             \
  DEFINE_PACKING(pack_##type, copy_##type, width, size)               \
  static const cpu_product type = {.value_bytes = size,               \
                                   .group = 1,                        \
                                   .depth_multiple = 1,               \
                                   .rows = BLOCK_ROWS,                \
                                   .columns = width,                  \
                                   .pack_left = pack_##type##_left,   \
                                   .pack_right = pack_##type##_right, \
                                   .multiply = multiply_##type};

#endif  // CPU_TILES_PACK_H_