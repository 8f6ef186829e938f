// Reductions over ranks, in rank order, so that every rank gets the same bits.
#include "reduce.h"

#include <math.h>
#include <string.h>

#include "hal/hal.h"

enum { BLOCK = 512 };  // Elements that are computed at a time.

uint32_t hal_dtype_bytes(uint32_t dtype) {
  static const uint8_t sizes[] = {0, 4, 2, 2, 8, 1, 1, 4, 8, 1, 1, 1};
  return dtype < sizeof(sizes) ? sizes[dtype] : 0;
}

int hal_reduce_can(uint32_t dtype) {
  return dtype >= HAL_DTYPE_F32 && dtype <= HAL_DTYPE_I64;
}

// ---- 16-bit floats ----

static float float_of_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

static uint32_t bits_of_float(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}

static float from_f16(uint16_t half) {
  const uint32_t sign = (uint32_t)(half & 0x8000) << 16;
  const uint32_t exponent = half >> 10 & 31, fraction = half & 1023;
  if (exponent == 31) return float_of_bits(sign | 0x7F800000 | fraction << 13);
  if (exponent == 0) {
    const float value = (float)fraction * 0x1p-24f;
    return sign != 0 ? -value : value;
  }
  return float_of_bits(sign | (exponent + 112) << 23 | fraction << 13);
}

// Rounds to nearest, ties to even; `shift` bits go.
static uint32_t round_off(uint32_t value, uint32_t shift) {
  const uint32_t half = 1u << (shift - 1), odd = value >> shift & 1;
  return (value + half - 1 + odd) >> shift;
}

static uint16_t to_f16(float value) {
  const uint32_t bits = bits_of_float(value), sign = bits >> 16 & 0x8000;
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  if (magnitude > 0x7F800000) return (uint16_t)(sign | 0x7E00);
  if (magnitude >= 0x477FF000) return (uint16_t)(sign | 0x7C00);  // 65520 and more round to inf.
  if (magnitude >= 0x38800000) return (uint16_t)(sign | round_off(magnitude - 0x38000000, 13));
  if (magnitude < 0x33000000) return (uint16_t)sign;  // Less than half of the least subnormal.
  const uint32_t exponent = magnitude >> 23, fraction = (magnitude & 0x7FFFFF) | 0x800000;
  return (uint16_t)(sign | round_off(fraction, 126 - exponent));
}

static float from_bf16(uint16_t bits) {
  return float_of_bits((uint32_t)bits << 16);
}

static uint16_t to_bf16(float value) {
  const uint32_t bits = bits_of_float(value);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return (uint16_t)(bits >> 16 | 0x40);
  return (uint16_t)round_off(bits, 16);
}

// ---- Loops ----

#define MAX_FLOAT(a, b) (isnan(a) ? (a) : isnan(b) ? (b) : (a) > (b) ? (a) : (b))
#define MIN_FLOAT(a, b) (isnan(a) ? (a) : isnan(b) ? (b) : (a) < (b) ? (a) : (b))
#define MAX_INTEGER(a, b) ((a) > (b) ? (a) : (b))
#define MIN_INTEGER(a, b) ((a) < (b) ? (a) : (b))

// Defines NAME: sum[i] = sum[i] op more[i]. WIDE is the type in which sums and products are made.
#define DEFINE_COMBINE(NAME, TYPE, WIDE, MAX, MIN)                                          \
  static void NAME(TYPE *sum, const TYPE *more, uint64_t count, uint32_t operation) {       \
    switch (operation) {                                                                    \
      case HAL_REDUCE_SUM:                                                                  \
        for (uint64_t i = 0; i < count; ++i) sum[i] = (TYPE)((WIDE)sum[i] + (WIDE)more[i]); \
        break;                                                                              \
      case HAL_REDUCE_PRODUCT:                                                              \
        for (uint64_t i = 0; i < count; ++i) sum[i] = (TYPE)((WIDE)sum[i] * (WIDE)more[i]); \
        break;                                                                              \
      case HAL_REDUCE_MAX:                                                                  \
        for (uint64_t i = 0; i < count; ++i) sum[i] = MAX(sum[i], more[i]);                 \
        break;                                                                              \
      default:                                                                              \
        for (uint64_t i = 0; i < count; ++i) sum[i] = MIN(sum[i], more[i]);                 \
        break;                                                                              \
    }                                                                                       \
  }

DEFINE_COMBINE(combine_f32, float, float, MAX_FLOAT, MIN_FLOAT)
DEFINE_COMBINE(combine_f64, double, double, MAX_FLOAT, MIN_FLOAT)
DEFINE_COMBINE(combine_i8, int8_t, uint32_t, MAX_INTEGER, MIN_INTEGER)
DEFINE_COMBINE(combine_u8, uint8_t, uint32_t, MAX_INTEGER, MIN_INTEGER)
DEFINE_COMBINE(combine_i32, int32_t, uint32_t, MAX_INTEGER, MIN_INTEGER)
DEFINE_COMBINE(combine_i64, int64_t, uint64_t, MAX_INTEGER, MIN_INTEGER)

static void load_halves(uint32_t dtype, const unsigned char *from, uint64_t count, float *to) {
  for (uint64_t i = 0; i < count; ++i) {
    uint16_t bits;
    memcpy(&bits, from + 2 * i, sizeof(bits));
    to[i] = dtype == HAL_DTYPE_F16 ? from_f16(bits) : from_bf16(bits);
  }
}

static void store_halves(uint32_t dtype, const float *from, uint64_t count, unsigned char *to) {
  for (uint64_t i = 0; i < count; ++i) {
    const uint16_t bits = dtype == HAL_DTYPE_F16 ? to_f16(from[i]) : to_bf16(from[i]);
    memcpy(to + 2 * i, &bits, sizeof(bits));
  }
}

static void combine(uint32_t dtype, void *sum, const void *more, uint64_t count,
                    uint32_t operation) {
  switch (dtype) {
    case HAL_DTYPE_F64:
      combine_f64(sum, more, count, operation);
      break;
    case HAL_DTYPE_I8:
      combine_i8(sum, more, count, operation);
      break;
    case HAL_DTYPE_U8:
      combine_u8(sum, more, count, operation);
      break;
    case HAL_DTYPE_I32:
      combine_i32(sum, more, count, operation);
      break;
    case HAL_DTYPE_I64:
      combine_i64(sum, more, count, operation);
      break;
    default:
      combine_f32(sum, more, count, operation);
      break;
  }
}

void hal_reduce(uint32_t dtype, uint32_t operation, const void *const *sources,
                uint32_t source_count, uint64_t first, uint64_t count, void *target) {
  const uint64_t bytes = hal_dtype_bytes(dtype);
  const int is_half = dtype == HAL_DTYPE_F16 || dtype == HAL_DTYPE_BF16;
  float halves[BLOCK];
  union {
    double align;
    float floats[BLOCK];
    unsigned char bytes[BLOCK * 8];
  } sum;
  for (uint64_t done = 0; done < count; done += BLOCK) {
    const uint64_t part = count - done < BLOCK ? count - done : BLOCK;
    for (uint32_t r = 0; r < source_count; ++r) {
      const unsigned char *from = (const unsigned char *)sources[r] + (first + done) * bytes;
      if (is_half) {
        load_halves(dtype, from, part, r == 0 ? sum.floats : halves);
        if (r != 0) combine_f32(sum.floats, halves, part, operation);
      } else if (r == 0) {
        memcpy(sum.bytes, from, part * bytes);
      } else {
        combine(dtype, sum.bytes, from, part, operation);
      }
    }
    unsigned char *to = (unsigned char *)target + done * bytes;
    if (is_half) {
      store_halves(dtype, sum.floats, part, to);
    } else {
      memcpy(to, sum.bytes, part * bytes);
    }
  }
}
