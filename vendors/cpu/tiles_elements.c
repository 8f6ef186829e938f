// UN, BIN, SEL, CAST and RED by rows of a set: broadcasting, chunks, conversions (docs/vil.md,
// sections 1.5, 5.3 to 5.5). What no row function does is left to the kit.

// ---- Optional ----
#include <math.h>

#include "tiles.h"
#include "vil_launch.h"

enum { CHUNK = 512 };  // Elements that are converted at once; f64 fills 4 KiB.

// Trigonometric arguments beyond it need more digits of π than the vector code has.
#define TRIG_LIMIT 0x1p20f

static const uint8_t *row_of(const vil_tile_view *tile, uint32_t i) {
  uint32_t bytes = vil_dtype_bytes(tile->dtype);
  return (const uint8_t *)tile->data + (tile->rows == 1 ? 0 : i) * tile->pitch * bytes;
}

static uint8_t *target_of(const vil_operation *o, uint32_t i) {
  return (uint8_t *)o->d.data + (uint64_t)i * o->d.columns * vil_dtype_bytes(o->d.dtype);
}

// One value serves a row, or all rows of a column.
static bool is_single(const vil_operation *o, const vil_tile_view *tile) {
  return tile->columns == 1 && (o->d.columns > 1 || (tile->rows == 1 && o->d.rows > 1));
}

static bool is_whole(const vil_operation *o, const vil_tile_view *tile) {
  return !tile->data ||
         (tile->rows == o->d.rows && tile->columns == o->d.columns &&
          tile->pitch == o->d.columns) ||
         (tile->rows == 1 && is_single(o, tile));
}

// Rows and columns to go through: one long row where all tiles lie without gaps.
static void extent_of(const vil_operation *o, uint32_t *out_rows, size_t *out_columns) {
  *out_rows = o->d.valid_rows;
  *out_columns = o->d.valid_columns;
  if (o->d.valid_columns == o->d.columns && is_whole(o, &o->a) && is_whole(o, &o->b) &&
      is_whole(o, &o->c)) {
    *out_columns *= *out_rows;
    *out_rows = 1;
  }
}

// Repeats the first of `count` values.
static void spread(void *room, uint32_t bytes, size_t count) {
  uint8_t *at = room;
  for (size_t done = 1; done < count; done *= 2)
    memcpy(at + done * bytes, at, (count - done < done ? count - done : done) * bytes);
}

static bool is_half(uint32_t dtype) {
  return dtype == HAL_DTYPE_F16 || dtype == HAL_DTYPE_BF16;
}

// ---- Optional: UN ----

static void mend_trigonometry(uint8_t function, float *out, const float *x, size_t n) {
  for (size_t j = 0; j < n; ++j) {
    if (!(fabsf(x[j]) < TRIG_LIMIT)) out[j] = function == VIL_SIN ? sinf(x[j]) : cosf(x[j]);
  }
}

static bool has_large(const float *x, size_t n) {
  int found = 0;
  for (size_t j = 0; j < n; ++j) found |= !(fabsf(x[j]) < TRIG_LIMIT);
  return found;
}

// One row; `room` holds a chunk.
static bool unary_row(const cpu_rows *rows, const vil_operation *o, uint8_t *out, const uint8_t *in,
                      size_t n, float *room) {
  uint32_t dtype = o->a.dtype, bytes = vil_dtype_bytes(dtype);
  bool trig = o->function == VIL_SIN || o->function == VIL_COS;
  if (dtype == HAL_DTYPE_F32 && !trig)
    return rows->unary_f32(o->function, (float *)(void *)out, (const float *)(const void *)in, n);
  for (size_t at = 0; at < n; at += CHUNK) {
    size_t count = n - at < CHUNK ? n - at : CHUNK;
    float result[CHUNK];
    if (!rows->widen(room, in + at * bytes, dtype, count) ||
        !rows->unary_f32(o->function, result, room, count))
      return false;
    if (trig && has_large(room, count)) mend_trigonometry(o->function, result, room, count);
    rows->narrow(out + at * bytes, dtype, result, count);
  }
  return true;
}

static void move_row(uint8_t *out, const uint8_t *in, uint32_t bytes, size_t n, bool single) {
  memmove(out, in, single ? bytes : n * bytes);
  if (single) spread(out, bytes, n);
}

static int run_unary(const cpu_rows *rows, const vil_operation *o) {
  uint32_t dtype = o->a.dtype, height, bytes = vil_dtype_bytes(dtype);
  bool single = is_single(o, &o->a), moves = o->function == VIL_MOV;
  bool sign = o->function == VIL_NEG || o->function == VIL_ABS;
  if (!moves && dtype != HAL_DTYPE_F32 && (!is_half(dtype) || sign)) return 0;
  size_t n;
  float room[CHUNK];
  extent_of(o, &height, &n);
  for (uint32_t i = 0; i < height && n; ++i) {
    uint8_t *out = target_of(o, i);
    if (moves) {
      move_row(out, row_of(&o->a, i), bytes, n, single);
    } else {
      if (!unary_row(rows, o, out, row_of(&o->a, i), single ? 1 : n, room)) return 0;
      if (single) spread(out, bytes, n);
    }
  }
  return 1;
}

// ---- Optional: BIN ----

// A product of bf16 that f32 holds as a subnormal number was rounded there already.
static void mend_products(uint16_t *out, const float *result, const float *x, const float *y,
                          size_t n, int one) {
  for (size_t j = 0; j < n; ++j) {
    if (fabsf(result[j]) < 0x1p-100f) {
      double exact = (double)x[one == 1 ? 0 : j] * (double)y[one == 2 ? 0 : j];
      vil_from_f64(out + j, HAL_DTYPE_BF16, &exact, 1, 0);
    }
  }
}

// 16-bit floats by f32, whose result rounds to the right one: 24 ≥ 2 · 11 + 2 bits (Figueroa, "When
// is double rounding innocuous?", SIGNUM 30(3), 1995), but for bf16's smallest products.
static bool binary_halves(const cpu_rows *rows, const vil_operation *o, uint8_t *out,
                          const uint8_t *x, const uint8_t *y, size_t n, int one) {
  uint32_t dtype = o->a.dtype;
  bool compares = o->function >= VIL_LT;
  float left[CHUNK], right[CHUNK], result[CHUNK];
  if (one == 1) rows->widen(left, x, dtype, 1);
  if (one == 2) rows->widen(right, y, dtype, 1);
  for (size_t at = 0; at < n; at += CHUNK) {
    size_t count = n - at < CHUNK ? n - at : CHUNK;
    if (one != 1) rows->widen(left, x + at * 2, dtype, count);
    if (one != 2) rows->widen(right, y + at * 2, dtype, count);
    if (compares) {
      if (!rows->compare_f32(o->function, out + at, left, right, count, one)) return false;
      continue;
    }
    if (!rows->binary_f32(o->function, result, left, right, count, one)) return false;
    rows->narrow(out + at * 2, dtype, result, count);
    if (dtype == HAL_DTYPE_BF16 && o->function == VIL_MUL)
      mend_products((uint16_t *)(void *)(out + at * 2), result, left, right, count, one);
  }
  return true;
}

static bool binary_row(const cpu_rows *rows, const vil_operation *o, void *out, const void *x,
                       const void *y, size_t n, int one) {
  bool compares = o->function >= VIL_LT;
  switch (o->a.dtype) {
    case HAL_DTYPE_F32:
      return compares ? rows->compare_f32(o->function, out, x, y, n, one)
                      : rows->binary_f32(o->function, out, x, y, n, one);
    case HAL_DTYPE_F64:
      return compares ? rows->compare_f64(o->function, out, x, y, n, one)
                      : rows->binary_f64(o->function, out, x, y, n, one);
    case HAL_DTYPE_I32:
      return compares ? rows->compare_i32(o->function, out, x, y, n, one)
                      : rows->binary_i32(o->function, out, x, y, n, one);
    case HAL_DTYPE_F16:
    case HAL_DTYPE_BF16:
      return binary_halves(rows, o, out, x, y, n, one);
    case HAL_DTYPE_BOOL:
    case HAL_DTYPE_I8:
    case HAL_DTYPE_U8:
      return rows->binary_u8(o->function, out, x, y, n, one);
    default:
      return false;
  }
}

static int run_binary(const cpu_rows *rows, const vil_operation *o) {
  uint32_t height;
  size_t n;
  bool left = is_single(o, &o->a), right = is_single(o, &o->b), both = left && right;
  extent_of(o, &height, &n);
  uint32_t bytes = vil_dtype_bytes(o->d.dtype);
  for (uint32_t i = 0; i < height && n; ++i) {
    uint8_t *out = target_of(o, i);
    int one = both ? 0 : left ? 1 : right ? 2 : 0;
    if (!binary_row(rows, o, out, row_of(&o->a, i), row_of(&o->b, i), both ? 1 : n, one)) return 0;
    if (both) spread(out, bytes, n);
  }
  return 1;
}

// ---- Optional: SEL ----

// A chunk of an operand's row: where it stands, or a repeated single value in `room`.
static const void *chunk_of(const vil_operation *o, const vil_tile_view *tile, const uint8_t *row,
                            size_t at, size_t count, uint32_t bytes, void *room) {
  if (!is_single(o, tile)) return row + at * bytes;
  if (at == 0) {
    memcpy(room, row, bytes);
    spread(room, bytes, count);
  }
  return room;
}

static int run_select(const cpu_rows *rows, const vil_operation *o) {
  uint32_t height, bytes = vil_dtype_bytes(o->d.dtype);
  size_t n;
  extent_of(o, &height, &n);
  uint64_t yes[CHUNK], no[CHUNK];
  uint8_t mask[CHUNK];
  for (uint32_t i = 0; i < height; ++i) {
    uint8_t *out = target_of(o, i);
    const uint8_t *a = row_of(&o->a, i), *b = row_of(&o->b, i), *c = row_of(&o->c, i);
    for (size_t at = 0; at < n; at += CHUNK) {
      size_t count = n - at < CHUNK ? n - at : CHUNK;
      rows->select(bytes, out + at * bytes, chunk_of(o, &o->a, a, at, count, 1, mask),
                   chunk_of(o, &o->b, b, at, count, bytes, yes),
                   chunk_of(o, &o->c, c, at, count, bytes, no), count);
    }
  }
  return 1;
}

// ---- Optional: CAST ----

// By way of f32 where that rounds once: from what f32 holds exactly, and from i32 to f32 itself.
static bool casts(uint32_t from, uint32_t to, bool saturate) {
  bool exact = from == HAL_DTYPE_F32 || is_half(from) || from == HAL_DTYPE_I8 ||
               from == HAL_DTYPE_U8 || from == HAL_DTYPE_BOOL;
  bool to_float = to == HAL_DTYPE_F32 || is_half(to);
  bool from_float = from == HAL_DTYPE_F32 || is_half(from);
  if (to_float) return !saturate && (exact || (from == HAL_DTYPE_I32 && to == HAL_DTYPE_F32));
  return from_float && (to == HAL_DTYPE_I32 || to == HAL_DTYPE_BOOL);
}

static int run_cast(const cpu_rows *rows, const vil_operation *o) {
  uint32_t height, from = o->a.dtype, to = o->d.dtype;
  size_t n;
  if (!casts(from, to, o->flags & VIL_FLAG_SATURATE)) return 0;
  extent_of(o, &height, &n);
  bool single = is_single(o, &o->a);
  uint32_t in_bytes = vil_dtype_bytes(from), out_bytes = vil_dtype_bytes(to);
  float room[CHUNK];
  for (uint32_t i = 0; i < height && n; ++i) {
    uint8_t *out = target_of(o, i);
    const uint8_t *in = row_of(&o->a, i);
    size_t length = single ? 1 : n;
    if (to == HAL_DTYPE_F32) {
      if (!rows->widen((float *)(void *)out, in, from, length)) return 0;
    } else {
      for (size_t at = 0; at < length; at += CHUNK) {
        size_t count = length - at < CHUNK ? length - at : CHUNK;
        if (!rows->widen(room, in + at * in_bytes, from, count) ||
            !rows->narrow(out + at * out_bytes, to, room, count))
          return 0;
      }
    }
    if (single) spread(out, out_bytes, n);
  }
  return 1;
}

// ---- Optional: RED ----

// Along the columns: a number for each row.
static int reduce_rows(const cpu_rows *rows, const vil_operation *o) {
  uint32_t n = o->a.valid_columns, bytes = vil_dtype_bytes(o->a.dtype);
  float room[CHUNK];
  for (uint32_t i = 0; i < o->a.valid_rows; ++i) {
    const uint8_t *row = row_of(&o->a, i);
    float total = 0, part;
    if (o->a.dtype == HAL_DTYPE_F32) {
      if (!rows->fold_f32(o->function, (const float *)(const void *)row, n, &total)) return 0;
    }
    for (uint32_t at = 0; at < n && o->a.dtype != HAL_DTYPE_F32; at += CHUNK) {
      uint32_t count = n - at < CHUNK ? n - at : CHUNK;
      rows->widen(room, row + (uint64_t)at * bytes, o->a.dtype, count);
      if (!rows->fold_f32(o->function, room, count, &part)) return 0;
      if (at == 0)
        total = part;
      else
        rows->binary_f32(o->function, &total, &total, &part, 1, 0);
    }
    rows->narrow(target_of(o, i), o->d.dtype, &total, 1);
  }
  return 1;
}

// Along the rows: a number for each column, f32 only.
static int reduce_columns(const cpu_rows *rows, const vil_operation *o) {
  float *sums = o->d.data;
  uint32_t n = o->a.valid_columns;
  if (o->a.dtype != HAL_DTYPE_F32) return 0;
  if (o->function != VIL_ADD && o->function != VIL_MAX && o->function != VIL_MIN) return 0;
  memcpy(sums, row_of(&o->a, 0), (size_t)n * 4);
  if (o->function == VIL_ADD) {  // 0 + -0 is 0.
    for (uint32_t j = 0; j < n; ++j) sums[j] += 0.0f;
  }
  for (uint32_t i = 1; i < o->a.valid_rows; ++i)
    rows->binary_f32(o->function, sums, sums, (const float *)(const void *)row_of(&o->a, i), n, 0);
  return 1;
}

static int run_reduce(const cpu_rows *rows, const vil_operation *o) {
  if (o->a.valid_rows == 0 || o->a.valid_columns == 0) return 0;
  if (o->axis == 0 && o->a.rows > 1) return reduce_columns(rows, o);
  if (o->axis == 0 || (o->a.dtype != HAL_DTYPE_F32 && !is_half(o->a.dtype))) return 0;
  return reduce_rows(rows, o);
}

int cpu_elements(const cpu_rows *rows, const vil_operation *o) {
  switch (o->op) {
    case VIL_UN:
      return run_unary(rows, o);
    case VIL_BIN:
      return run_binary(rows, o);
    case VIL_SEL:
      return run_select(rows, o);
    case VIL_CAST:
      return run_cast(rows, o);
    case VIL_RED:
      return run_reduce(rows, o);
    default:
      return 0;
  }
}
