// Copies of rectangles whose rows and columns may lie any number of bytes apart.
#include <string.h>

#include "vil_launch.h"

typedef struct area {
  uint8_t *data;
  int64_t row, column;  // Bytes from one row and one column to the next.
} area;

static void copy_bytes(area to, area from, int64_t rows, int64_t columns, uint32_t bytes) {
  for (int64_t i = 0; i < rows; ++i) {
    uint8_t *out = to.data + i * to.row;
    const uint8_t *in = from.data + i * from.row;
    switch (bytes) {
      case 1:
        for (int64_t j = 0; j < columns; ++j) out[j * to.column] = in[j * from.column];
        break;
      case 2:
        for (int64_t j = 0; j < columns; ++j) memcpy(out + j * to.column, in + j * from.column, 2);
        break;
      case 4:
        for (int64_t j = 0; j < columns; ++j) memcpy(out + j * to.column, in + j * from.column, 4);
        break;
      default:
        for (int64_t j = 0; j < columns; ++j) memcpy(out + j * to.column, in + j * from.column, 8);
    }
  }
}

typedef uint32_t quad __attribute__((vector_size(16)));

// Four elements of two vectors by number. Clang and new GCCs know the first form, old GCCs the
// second.
#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define PICK(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#endif
#endif
#ifndef PICK
#define PICK(a, b, ...) __builtin_shuffle(a, b, (quad){__VA_ARGS__})
#endif

// 4 × 4 elements of 4 bytes: rows of `from` become columns of `to`.
static void turn_quads(uint8_t *to, int64_t to_row, const uint8_t *from, int64_t from_row) {
  quad r[4], s[4], t[4];
  for (int i = 0; i < 4; ++i) memcpy(&r[i], from + i * from_row, 16);
  s[0] = PICK(r[0], r[1], 0, 4, 1, 5);
  s[1] = PICK(r[0], r[1], 2, 6, 3, 7);
  s[2] = PICK(r[2], r[3], 0, 4, 1, 5);
  s[3] = PICK(r[2], r[3], 2, 6, 3, 7);
  t[0] = PICK(s[0], s[2], 0, 1, 4, 5);
  t[1] = PICK(s[0], s[2], 2, 3, 6, 7);
  t[2] = PICK(s[1], s[3], 0, 1, 4, 5);
  t[3] = PICK(s[1], s[3], 2, 3, 6, 7);
  for (int i = 0; i < 4; ++i) memcpy(to + i * to_row, &t[i], 16);
}

// `to` has rows of neighbours, `from` columns of neighbours: squares keep both in the cache.
static void turn(area to, area from, int64_t rows, int64_t columns, uint32_t bytes) {
  enum { SIDE = 16 };
  for (int64_t i = 0; i < rows; i += SIDE) {
    int64_t height = rows - i < SIDE ? rows - i : SIDE;
    for (int64_t j = 0; j < columns; j += SIDE) {
      int64_t width = columns - j < SIDE ? columns - j : SIDE;
      area out = {to.data + i * to.row + j * to.column, to.row, to.column};
      area in = {from.data + i * from.row + j * from.column, from.row, from.column};
      if (bytes != 4 || height != SIDE || width != SIDE) {
        copy_bytes(out, in, height, width, bytes);
        continue;
      }
      for (int64_t x = 0; x < SIDE; x += 4) {
        for (int64_t y = 0; y < SIDE; y += 4)
          turn_quads(out.data + x * out.row + y * 4, out.row, in.data + x * 4 + y * in.column,
                     in.column);
      }
    }
  }
}

void vil_copy_area(void *to, int64_t to_row, int64_t to_column, const void *from, int64_t from_row,
                   int64_t from_column, int64_t rows, int64_t columns, uint32_t bytes) {
  area out = {to, to_row, to_column}, in = {(uint8_t *)(uintptr_t)from, from_row, from_column};
  if (to_column == bytes && from_column == bytes) {
    uint64_t length = (uint64_t)columns * bytes;
    if (to_row == from_row && to_row == (int64_t)length) {
      memcpy(to, from, length * (uint64_t)rows);
      return;
    }
    for (int64_t i = 0; i < rows; ++i)
      memcpy(out.data + i * to_row, in.data + i * from_row, length);
  } else if (to_column == bytes && from_row == bytes) {
    turn(out, in, rows, columns, bytes);
  } else if (to_row == bytes && from_column == bytes) {
    area out_turned = {to, to_column, to_row}, in_turned = {in.data, from_column, from_row};
    copy_bytes(out_turned, in_turned, columns, rows, bytes);
  } else {
    copy_bytes(out, in, rows, columns, bytes);
  }
}
