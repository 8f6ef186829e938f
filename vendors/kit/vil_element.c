// UN, BIN, SEL, CAST: element by element with broadcasting (docs/vil.md, sections 1.5, 5.3, 5.4).
// 16-bit floats compute in a wider type from which one rounding gives the exact result.
#include <math.h>
#include <string.h>

#include "vil_launch.h"

// Bytes of the widest row type.
#define WIDE 8u

static const uint8_t *row_of(const vil_tile_view *tile, uint32_t i) {
  uint32_t row = tile->rows == 1 ? 0 : i;
  return (const uint8_t *)tile->data + (uint64_t)row * tile->columns * vil_dtype_bytes(tile->dtype);
}

static uint8_t *result_row(const vil_operation *o, uint32_t i) {
  return (uint8_t *)o->d.data + (uint64_t)i * o->d.columns * vil_dtype_bytes(o->d.dtype);
}

// Repeats the first element of a row of `bytes` each when the operand has one column.
static void spread(void *row, uint32_t bytes, uint64_t count) {
  uint8_t *at = row;
  for (uint64_t j = 1; j < count; j++) memcpy(at + j * bytes, at, bytes);
}

static const float *row_f32(const vil_operation *o, const vil_tile_view *tile, uint32_t i,
                            float *room) {
  uint32_t count = o->d.valid_columns;
  int repeat = tile->columns == 1 && o->d.columns > 1;
  if (tile->dtype == HAL_DTYPE_F32 && !repeat) return (const float *)(const void *)row_of(tile, i);
  vil_to_f32(room, row_of(tile, i), tile->dtype, repeat ? 1 : count);
  if (repeat) spread(room, 4, count);
  return room;
}

static const double *row_f64(const vil_operation *o, const vil_tile_view *tile, uint32_t i,
                             double *room) {
  uint32_t count = o->d.valid_columns;
  int repeat = tile->columns == 1 && o->d.columns > 1;
  vil_to_f64(room, row_of(tile, i), tile->dtype, repeat ? 1 : count);
  if (repeat) spread(room, 8, count);
  return room;
}

static const int64_t *row_i64(const vil_operation *o, const vil_tile_view *tile, uint32_t i,
                              int64_t *room) {
  uint32_t count = o->d.valid_columns;
  int repeat = tile->columns == 1 && o->d.columns > 1;
  vil_to_i64(room, row_of(tile, i), tile->dtype, repeat ? 1 : count);
  if (repeat) spread(room, 8, count);
  return room;
}

#define EACH(expression)                                      \
  for (uint64_t j = 0; j < count; j++) out[j] = (expression); \
  break

// ---- UN ----

static void unary_f32(uint8_t function, float *out, const float *x, uint64_t count) {
  switch (function) {
    case VIL_EXP:
      EACH(expf(x[j]));
    case VIL_EXP2:
      EACH(exp2f(x[j]));
    case VIL_LOG:
      EACH(logf(x[j]));
    case VIL_LOG2:
      EACH(log2f(x[j]));
    case VIL_SQRT:
      EACH(sqrtf(x[j]));
    case VIL_RSQRT:
      EACH(x[j] == 0 ? 1.0f / x[j] : (float)(1.0 / sqrt((double)x[j])));
    case VIL_RCP:
      EACH(1.0f / x[j]);
    case VIL_SIN:
      EACH(sinf(x[j]));
    case VIL_COS:
      EACH(cosf(x[j]));
    case VIL_TANH:
      EACH(tanhf(x[j]));
    case VIL_ERF:
      EACH(erff(x[j]));
    case VIL_FLOOR:
      EACH(floorf(x[j]));
    case VIL_CEIL:
      EACH(ceilf(x[j]));
    case VIL_TRUNC:
      EACH(truncf(x[j]));
    default:
      EACH(rintf(x[j]));
  }
}

static void unary_f64(uint8_t function, double *out, const double *x, uint64_t count) {
  switch (function) {
    case VIL_EXP:
      EACH(exp(x[j]));
    case VIL_EXP2:
      EACH(exp2(x[j]));
    case VIL_LOG:
      EACH(log(x[j]));
    case VIL_LOG2:
      EACH(log2(x[j]));
    case VIL_SQRT:
      EACH(sqrt(x[j]));
    case VIL_RSQRT:
      EACH(x[j] == 0 ? 1.0 / x[j] : 1.0 / sqrt(x[j]));
    case VIL_RCP:
      EACH(1.0 / x[j]);
    case VIL_SIN:
      EACH(sin(x[j]));
    case VIL_COS:
      EACH(cos(x[j]));
    case VIL_TANH:
      EACH(tanh(x[j]));
    case VIL_ERF:
      EACH(erf(x[j]));
    case VIL_FLOOR:
      EACH(floor(x[j]));
    case VIL_CEIL:
      EACH(ceil(x[j]));
    case VIL_TRUNC:
      EACH(trunc(x[j]));
    default:
      EACH(rint(x[j]));
  }
}

// neg and abs work on the sign bit, so that NaN payloads and zeros keep theirs.
static void unary_sign(uint8_t function, uint8_t *out, const uint8_t *in, uint32_t bytes,
                       uint64_t count) {
  for (uint64_t j = 0; j < count; j++) {
    memmove(out + j * bytes, in + j * bytes, bytes);
    uint8_t *top = out + j * bytes + bytes - 1;
    *top = function == VIL_NEG ? *top ^ 0x80 : *top & 0x7F;
  }
}

static void unary_i64(uint8_t function, uint32_t dtype, int64_t *out, const int64_t *x,
                      uint64_t count) {
  switch (function) {
    case VIL_NEG:
      EACH((int64_t)(0 - (uint64_t)x[j]));
    case VIL_ABS:
      EACH(x[j] < 0 ? (int64_t)(0 - (uint64_t)x[j]) : x[j]);
    case VIL_NOT:
      EACH(dtype == HAL_DTYPE_BOOL ? !x[j] : ~x[j]);
    default:
      EACH(x[j]);
  }
}

static void is_nan_row(uint8_t *out, const double *x, uint64_t count) {
  for (uint64_t j = 0; j < count; j++) out[j] = x[j] != x[j];
}

int32_t vil_run_unary(vil_arena *arena, const vil_operation *o) {
  uint64_t count = o->d.valid_columns;
  uint8_t *room = vil_scratch(arena, 2 * WIDE * (count + 8));
  if (!room) return HAL_ERROR_OUT_OF_MEMORY;
  uint8_t *other = room + WIDE * (count + 8);
  uint32_t dtype = o->a.dtype, bytes = vil_dtype_bytes(dtype);
  for (uint32_t i = 0; i < o->d.valid_rows; i++) {
    uint8_t *out = result_row(o, i);
    if (o->function == VIL_ISNAN) {
      is_nan_row(out, row_f64(o, &o->a, i, (double *)(void *)room), count);
    } else if (o->function == VIL_MOV ||
               (vil_is_float(dtype) && (o->function == VIL_NEG || o->function == VIL_ABS))) {
      int repeat = o->a.columns == 1 && o->d.columns > 1;
      memcpy(room, row_of(&o->a, i), (repeat ? 1 : count) * bytes);
      if (repeat) spread(room, bytes, count);
      if (o->function == VIL_MOV)
        memcpy(out, room, count * bytes);
      else
        unary_sign(o->function, out, room, bytes, count);
    } else if (dtype == HAL_DTYPE_F64) {
      unary_f64(o->function, (double *)(void *)other, row_f64(o, &o->a, i, (double *)(void *)room),
                count);
      memcpy(out, other, count * 8);
    } else if (vil_is_float(dtype)) {
      unary_f32(o->function, (float *)(void *)other, row_f32(o, &o->a, i, (float *)(void *)room),
                count);
      vil_from_f32(out, dtype, (const float *)(const void *)other, count);
    } else {
      unary_i64(o->function, dtype, (int64_t *)(void *)other,
                row_i64(o, &o->a, i, (int64_t *)(void *)room), count);
      vil_from_i64(out, dtype, (const int64_t *)(const void *)other, count);
    }
  }
  return HAL_OK;
}

// ---- BIN ----

#define BINARY_FLOAT(name, type, power, remainder)                                              \
  static void name(uint8_t function, type *out, const type *x, const type *y, uint64_t count) { \
    switch (function) {                                                                         \
      case VIL_ADD:                                                                             \
        EACH(x[j] + y[j]);                                                                      \
      case VIL_SUB:                                                                             \
        EACH(x[j] - y[j]);                                                                      \
      case VIL_MUL:                                                                             \
        EACH(x[j] * y[j]);                                                                      \
      case VIL_DIV:                                                                             \
        EACH(x[j] / y[j]);                                                                      \
      case VIL_MAX:                                                                             \
        EACH(x[j] != x[j] || y[j] != y[j] ? x[j] + y[j] : x[j] > y[j] ? x[j] : y[j]);           \
      case VIL_MIN:                                                                             \
        EACH(x[j] != x[j] || y[j] != y[j] ? x[j] + y[j] : x[j] < y[j] ? x[j] : y[j]);           \
      case VIL_POW:                                                                             \
        EACH(power(x[j], y[j]));                                                                \
      default:                                                                                  \
        EACH(remainder(x[j], y[j]));                                                            \
    }                                                                                           \
  }
BINARY_FLOAT(binary_f32, float, powf, fmodf)
BINARY_FLOAT(binary_f64, double, pow, fmod)

#define COMPARE(name, type)                                                                        \
  static void name(uint8_t function, uint8_t *out, const type *x, const type *y, uint64_t count) { \
    switch (function) {                                                                            \
      case VIL_LT:                                                                                 \
        EACH(x[j] < y[j]);                                                                         \
      case VIL_LE:                                                                                 \
        EACH(x[j] <= y[j]);                                                                        \
      case VIL_EQ:                                                                                 \
        EACH(x[j] == y[j]);                                                                        \
      default:                                                                                     \
        EACH(x[j] != y[j]);                                                                        \
    }                                                                                              \
  }
COMPARE(compare_f64, double)
COMPARE(compare_i64, int64_t)

// The upper half of a product of `bits` wide integers.
static int64_t multiply_high(int64_t x, int64_t y, uint32_t bits) {
  return (int64_t)(((__int128)x * y) >> bits);
}

// The bits of x as an unsigned number of `bits`.
static uint64_t unsigned_of(int64_t x, uint32_t bits) {
  return bits == 64 ? (uint64_t)x : (uint64_t)x & ((1ull << bits) - 1);
}

static void binary_i64(uint8_t function, uint32_t bits, int64_t *out, const int64_t *x,
                       const int64_t *y, uint64_t count) {
  uint64_t mask = bits - 1;
  switch (function) {
    case VIL_ADD:
      EACH((int64_t)((uint64_t)x[j] + (uint64_t)y[j]));
    case VIL_SUB:
      EACH((int64_t)((uint64_t)x[j] - (uint64_t)y[j]));
    case VIL_MUL:
      EACH((int64_t)((uint64_t)x[j] * (uint64_t)y[j]));
    case VIL_MAX:
      EACH(x[j] > y[j] ? x[j] : y[j]);
    case VIL_MIN:
      EACH(x[j] < y[j] ? x[j] : y[j]);
    case VIL_IDIV:
      EACH(vil_divide(x[j], y[j]));
    case VIL_IMOD:
      EACH(vil_modulo(x[j], y[j]));
    case VIL_AND:
      EACH(x[j] & y[j]);
    case VIL_OR:
      EACH(x[j] | y[j]);
    case VIL_XOR:
      EACH(x[j] ^ y[j]);
    case VIL_SHL:
      EACH((int64_t)((uint64_t)x[j] << ((uint64_t)y[j] & mask)));
    case VIL_SHR:
      EACH(x[j] >> ((uint64_t)y[j] & mask));  // u8 rows hold 0 to 255, so this is logical for them.
    case VIL_SHRU:
      EACH((int64_t)(unsigned_of(x[j], bits) >> ((uint64_t)y[j] & mask)));
    default:
      EACH(multiply_high(x[j], y[j], bits));
  }
}

// What SREG arithmetic shares with BIN on i64.
int64_t vil_compute_i64(uint8_t function, int64_t left, int64_t right) {
  int64_t result = 0;
  if (function >= VIL_LT) {
    uint8_t truth = 0;
    compare_i64(function, &truth, &left, &right, 1);
    return truth;
  }
  binary_i64(function, 64, &result, &left, &right, 1);
  return result;
}

int32_t vil_run_binary(vil_arena *arena, const vil_operation *o) {
  uint64_t count = o->d.valid_columns, stride = WIDE * (count + 8);
  uint8_t *room = vil_scratch(arena, 3 * stride);
  if (!room) return HAL_ERROR_OUT_OF_MEMORY;
  void *x = room, *y = room + stride, *z = room + 2 * stride;
  uint32_t dtype = o->a.dtype, bits = vil_dtype_bytes(dtype) * 8;
  int compares = o->function >= VIL_LT && o->function <= VIL_NE;
  for (uint32_t i = 0; i < o->d.valid_rows; i++) {
    uint8_t *out = result_row(o, i);
    if (!vil_is_float(dtype)) {
      const int64_t *left = row_i64(o, &o->a, i, x), *right = row_i64(o, &o->b, i, y);
      if (compares) {
        compare_i64(o->function, out, left, right, count);
      } else {
        binary_i64(o->function, bits, z, left, right, count);
        vil_from_i64(out, dtype, z, count);
      }
    } else if (compares) {
      compare_f64(o->function, out, row_f64(o, &o->a, i, x), row_f64(o, &o->b, i, y), count);
    } else if (dtype == HAL_DTYPE_F32) {
      const float *left = row_f32(o, &o->a, i, x), *right = row_f32(o, &o->b, i, y);
      binary_f32(o->function, (float *)(void *)out, left, right, count);
    } else {
      binary_f64(o->function, z, row_f64(o, &o->a, i, x), row_f64(o, &o->b, i, y), count);
      vil_from_f64(out, dtype, z, count, 0);
    }
  }
  return HAL_OK;
}

// ---- SEL ----

int32_t vil_run_select(const vil_operation *o) {
  uint32_t bytes = vil_dtype_bytes(o->d.dtype);
  for (uint32_t i = 0; i < o->d.valid_rows; i++) {
    const uint8_t *mask = row_of(&o->a, i), *yes = row_of(&o->b, i), *no = row_of(&o->c, i);
    uint8_t *out = result_row(o, i);
    for (uint32_t j = 0; j < o->d.valid_columns; j++) {
      const uint8_t *source = mask[o->a.columns == 1 ? 0 : j]
                                  ? yes + (o->b.columns == 1 ? 0 : j) * bytes
                                  : no + (o->c.columns == 1 ? 0 : j) * bytes;
      memmove(out + j * bytes, source, bytes);
    }
  }
  return HAL_OK;
}

// ---- CAST ----

static void integer_range(uint32_t dtype, int64_t *low, int64_t *high) {
  switch (dtype) {
    case HAL_DTYPE_I8:
      *low = INT8_MIN;
      *high = INT8_MAX;
      break;
    case HAL_DTYPE_U8:
      *low = 0;
      *high = UINT8_MAX;
      break;
    case HAL_DTYPE_I32:
      *low = INT32_MIN;
      *high = INT32_MAX;
      break;
    default:
      *low = INT64_MIN;
      *high = INT64_MAX;
      break;
  }
}

static int64_t truncate_to(double value, int64_t low, int64_t high) {
  if (value != value) return 0;
  if (value <= (double)low) return low;
  if (value >= (double)high) return high;
  return (int64_t)value;
}

static int is_float_type(uint32_t dtype) {
  return vil_is_float(dtype) || vil_is_float8(dtype);
}

void vil_cast_row(void *out, uint32_t to, const void *in, uint32_t from, uint64_t count,
                  int saturate, void *room) {
  double *wide = room;
  int64_t *whole = room;
  if (is_float_type(to)) {
    if (from == HAL_DTYPE_I64 && to == HAL_DTYPE_F64) {
      for (uint64_t j = 0; j < count; j++) wide[j] = (double)((const int64_t *)in)[j];
    } else {
      vil_to_f64(wide, in, from, count);
    }
    vil_from_f64(out, to, wide, count, saturate);
  } else if (is_float_type(from)) {
    int64_t low, high;
    integer_range(to, &low, &high);
    vil_to_f64(wide, in, from, count);
    for (uint64_t j = 0; j < count; j++) {
      double value = wide[j];
      whole[j] = to == HAL_DTYPE_BOOL ? value != 0 : truncate_to(value, low, high);
    }
    vil_from_i64(out, to, whole, count);
  } else {
    vil_to_i64(whole, in, from, count);
    if (to == HAL_DTYPE_BOOL) {
      for (uint64_t j = 0; j < count; j++) whole[j] = whole[j] != 0;
    } else if (saturate) {
      int64_t low, high;
      integer_range(to, &low, &high);
      for (uint64_t j = 0; j < count; j++)
        whole[j] = whole[j] < low ? low : whole[j] > high ? high : whole[j];
    }
    vil_from_i64(out, to, whole, count);
  }
}

int32_t vil_run_cast(vil_arena *arena, const vil_operation *o) {
  uint64_t count = o->d.valid_columns;
  uint32_t bytes = vil_dtype_bytes(o->a.dtype);
  int repeat = o->a.columns == 1 && o->d.columns > 1;
  uint8_t *room = vil_scratch(arena, 2 * WIDE * (count + 8));
  if (!room) return HAL_ERROR_OUT_OF_MEMORY;
  uint8_t *row = room + WIDE * (count + 8);
  for (uint32_t i = 0; i < o->d.valid_rows; i++) {
    memcpy(row, row_of(&o->a, i), (repeat ? 1 : count) * bytes);
    if (repeat) spread(row, bytes, count);
    vil_cast_row(result_row(o, i), o->d.dtype, row, o->a.dtype, count, o->flags & VIL_FLAG_SATURATE,
                 room);
  }
  return HAL_OK;
}
