// Loops over rows of elements; included once by each instruction set's file, whose compiler makes
// vectors of them. Defines `rows`, the set's cpu_rows.
//
// The loops may work in place (an output row may be an input row), which `ivdep` tells the
// compiler.

// ---- Optional ----
#include "tiles_math.h"
#include "tiles_pack.h"

#define EACH(expression)                                \
  _Pragma("GCC ivdep") for (size_t j = 0; j < n; ++j) { \
    out[j] = (expression);                              \
  }                                                     \
  return true

static bool unary_f32(uint8_t function, float *out, const float *x, size_t n) {
  switch (function) {
    case VIL_EXP:
      EACH(exp_f32(x[j]));
    case VIL_EXP2:
      EACH(exp2_f32(x[j]));
    case VIL_LOG:
      EACH(log_f32(x[j]));
    case VIL_LOG2:
      EACH(log2_f32(x[j]));
    case VIL_SQRT:
      EACH(sqrtf(x[j]));
    case VIL_RSQRT:
      EACH(1.0f / sqrtf(x[j]));
    case VIL_RCP:
      EACH(1.0f / x[j]);
    case VIL_SIN:
      EACH(sin_f32(x[j]));
    case VIL_COS:
      EACH(cos_f32(x[j]));
    case VIL_TANH:
      EACH(tanh_f32(x[j]));
    case VIL_ERF:
      EACH(erf_f32(x[j]));
    case VIL_FLOOR:
      EACH(floorf(x[j]));
    case VIL_CEIL:
      EACH(ceilf(x[j]));
    case VIL_TRUNC:
      EACH(truncf(x[j]));
    case VIL_ROUND:
      EACH(rintf(x[j]));
    case VIL_NEG:
      EACH(float_of(bits_of(x[j]) ^ 0x80000000u));
    case VIL_ABS:
      EACH(float_of(bits_of(x[j]) & 0x7FFFFFFFu));
    default:
      return false;
  }
}

// x and y are rows, or with `one` 1 (2) x (y) is a single value.
#define FORMS(type, expression)                           \
  if (one == 1) {                                         \
    const type a = x[0];                                  \
    _Pragma("GCC ivdep") for (size_t j = 0; j < n; ++j) { \
      const type b = y[j];                                \
      out[j] = (expression);                              \
    }                                                     \
  } else if (one == 2) {                                  \
    const type b = y[0];                                  \
    _Pragma("GCC ivdep") for (size_t j = 0; j < n; ++j) { \
      const type a = x[j];                                \
      out[j] = (expression);                              \
    }                                                     \
  } else {                                                \
    _Pragma("GCC ivdep") for (size_t j = 0; j < n; ++j) { \
      const type a = x[j], b = y[j];                      \
      out[j] = (expression);                              \
    }                                                     \
  }                                                       \
  return true

#define DEFINE_FLOATS(type, name)                                                                \
  static bool binary_##name(uint8_t function, type *out, const type *x, const type *y, size_t n, \
                            int one) {                                                           \
    switch (function) {                                                                          \
      case VIL_ADD:                                                                              \
        FORMS(type, a + b);                                                                      \
      case VIL_SUB:                                                                              \
        FORMS(type, a - b);                                                                      \
      case VIL_MUL:                                                                              \
        FORMS(type, a * b);                                                                      \
      case VIL_DIV:                                                                              \
        FORMS(type, a / b);                                                                      \
      case VIL_MAX:                                                                              \
        FORMS(type, a > b ? a : b == b && a == a ? b : a + b);                                   \
      case VIL_MIN:                                                                              \
        FORMS(type, a < b ? a : b == b && a == a ? b : a + b);                                   \
      default:                                                                                   \
        return false;                                                                            \
    }                                                                                            \
  }
DEFINE_FLOATS(float, f32)
DEFINE_FLOATS(double, f64)

#define DEFINE_COMPARE(type, name)                                                         \
  static bool compare_##name(uint8_t function, uint8_t *out, const type *x, const type *y, \
                             size_t n, int one) {                                          \
    switch (function) {                                                                    \
      case VIL_LT:                                                                         \
        FORMS(type, a < b);                                                                \
      case VIL_LE:                                                                         \
        FORMS(type, a <= b);                                                               \
      case VIL_EQ:                                                                         \
        FORMS(type, a == b);                                                               \
      case VIL_NE:                                                                         \
        FORMS(type, a != b);                                                               \
      default:                                                                             \
        return false;                                                                      \
    }                                                                                      \
  }
DEFINE_COMPARE(float, f32)
DEFINE_COMPARE(double, f64)
DEFINE_COMPARE(int32_t, i32)

static bool binary_i32(uint8_t function, uint32_t *out, const uint32_t *x, const uint32_t *y,
                       size_t n, int one) {
  switch (function) {
    case VIL_ADD:
      FORMS(uint32_t, a + b);
    case VIL_SUB:
      FORMS(uint32_t, a - b);
    case VIL_MUL:
      FORMS(uint32_t, a *b);
    case VIL_MAX:
      FORMS(uint32_t, (int32_t)a > (int32_t)b ? a : b);
    case VIL_MIN:
      FORMS(uint32_t, (int32_t)a < (int32_t)b ? a : b);
    case VIL_AND:
      FORMS(uint32_t, a &b);
    case VIL_OR:
      FORMS(uint32_t, a | b);
    case VIL_XOR:
      FORMS(uint32_t, a ^ b);
    default:
      return false;
  }
}

// Booleans, and the bits of 8-bit integers.
static bool binary_u8(uint8_t function, uint8_t *out, const uint8_t *x, const uint8_t *y, size_t n,
                      int one) {
  switch (function) {
    case VIL_AND:
      FORMS(uint8_t, a &b);
    case VIL_OR:
      FORMS(uint8_t, a | b);
    case VIL_XOR:
      FORMS(uint8_t, a ^ b);
    default:
      return false;
  }
}

// ---- Optional: SEL ----

#define DEFINE_SELECT(type, name)                                                         \
  static void select_##name(type *out, const uint8_t *mask, const type *x, const type *y, \
                            size_t n) {                                                   \
    _Pragma("GCC ivdep") for (size_t j = 0; j < n; ++j) {                                 \
      const type a = x[j], b = y[j];                                                      \
      out[j] = mask[j] ? a : b;                                                           \
    }                                                                                     \
  }
DEFINE_SELECT(uint8_t, 1)
DEFINE_SELECT(uint16_t, 2)
DEFINE_SELECT(uint32_t, 4)
DEFINE_SELECT(uint64_t, 8)

static void select_rows(uint32_t bytes, void *out, const uint8_t *mask, const void *x,
                        const void *y, size_t n) {
  switch (bytes) {
    case 1:
      select_1(out, mask, x, y, n);
      break;
    case 2:
      select_2(out, mask, x, y, n);
      break;
    case 4:
      select_4(out, mask, x, y, n);
      break;
    default:
      select_8(out, mask, x, y, n);
  }
}

// ---- Optional: conversions ----

// To f32, exactly: f16, bf16, f32, bool, i8, u8, and i32 by rounding.
static bool widen(float *out, const void *in, uint32_t dtype, size_t n) {
  switch (dtype) {
    case HAL_DTYPE_F32:
    case HAL_DTYPE_F16:
    case HAL_DTYPE_BF16:
      copy_f32(out, in, dtype, (uint32_t)n);
      return true;
    case HAL_DTYPE_I32: {
      const int32_t *x = in;
      EACH((float)x[j]);
    }
    case HAL_DTYPE_I8: {
      const int8_t *x = in;
      EACH((float)x[j]);
    }
    case HAL_DTYPE_U8:
    case HAL_DTYPE_BOOL: {
      const uint8_t *x = in;
      EACH((float)x[j]);
    }
    default:
      return false;
  }
}

MATH uint16_t bf16_of(float value) {
  uint32_t bits = bits_of(value);
  uint32_t rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
  return (uint16_t)(value != value ? (bits >> 16 & 0x8000) | 0x7FC0 : rounded);
}

MATH int32_t i32_of(float value) {
  float inside = value < 2147483648.0f && value >= -2147483648.0f ? value : 0.0f;
  int32_t whole = (int32_t)inside;
  whole = value >= 2147483648.0f ? INT32_MAX : whole;
  return value < -2147483648.0f ? INT32_MIN : whole;
}

// From f32, rounded once; to integers by the rules of CAST.
static bool narrow(void *to, uint32_t dtype, const float *x, size_t n) {
  switch (dtype) {
    case HAL_DTYPE_F32:
      if (to != x) memcpy(to, x, n * 4);
      return true;
    case HAL_DTYPE_F16:
      narrow_f16(to, x, n);
      return true;
    case HAL_DTYPE_BF16: {
      uint16_t *out = to;
      EACH(bf16_of(x[j]));
    }
    case HAL_DTYPE_I32: {
      int32_t *out = to;
      EACH(i32_of(x[j]));
    }
    case HAL_DTYPE_BOOL: {
      uint8_t *out = to;
      EACH(x[j] != 0.0f);
    }
    default:
      return false;
  }
}

// ---- Optional: RED ----

typedef float lanes __attribute__((vector_size(VECTOR_BYTES)));
typedef int32_t marks __attribute__((vector_size(VECTOR_BYTES)));
enum { LANES = VECTOR_BYTES / 4 };

MATH lanes load_lanes(const float *x) {
  lanes value;
  memcpy(&value, x, sizeof(value));
  return value;
}

// A set defines what its instructions do better than these:
//   LARGER_LANES, SMALLER_LANES  x > y ? x : y and x < y ? x : y
//   HAVE_NAN                     not 0 when a lane of x or y is NaN
//   SUM_OF_LANES                 the sum, in any order
//   LARGEST_OF_LANES             the largest; there is no NaN
MATH lanes choose_lanes(marks first, lanes x, lanes y) {
  return (lanes)((first & (marks)x) | (~first & (marks)y));
}

#ifndef LARGER_LANES
#define LARGER_LANES(x, y) choose_lanes((marks)((x) > (y)), x, y)
#define SMALLER_LANES(x, y) choose_lanes((marks)((x) < (y)), x, y)
#define HAVE_NAN have_nan
#define SUM_OF_LANES sum_of_lanes
#define LARGEST_OF_LANES largest_of_lanes

MATH int have_nan(lanes x, lanes y) {
  const marks found = (marks)(x != x) | (marks)(y != y);
  int any = 0;
  for (int k = 0; k < LANES; ++k) any |= found[k];
  return any;
}

MATH float sum_of_lanes(lanes x) {
  float sum = 0;
  for (int k = 0; k < LANES; ++k) sum += x[k];
  return sum;
}

MATH float largest_of_lanes(lanes x) {
  float largest = x[0];
  for (int k = 1; k < LANES; ++k) largest = x[k] > largest ? x[k] : largest;
  return largest;
}
#endif

static float fold_sum(const float *x, size_t n) {
  lanes sums[4] = {{0}, {0}, {0}, {0}};
  size_t j = 0;
  for (; j + 4 * LANES <= n; j += 4 * LANES) {
    for (int k = 0; k < 4; ++k) sums[k] += load_lanes(x + j + k * LANES);
  }
  for (; j + LANES <= n; j += LANES) sums[0] += load_lanes(x + j);
  float sum = SUM_OF_LANES((sums[0] + sums[1]) + (sums[2] + sums[3]));
  for (; j < n; ++j) sum += x[j];
  return sum;
}

// The largest of the values times `sign`, times `sign`; NaN when one of them is. n > 0.
static inline __attribute__((always_inline)) float fold_most(const float *x, size_t n,
                                                             const float sign) {
  float best = -INFINITY;
  int found_nan = 0;
  size_t j = 0;
  if (n >= 4 * LANES) {
    lanes most[4];
    most[0] = most[1] = most[2] = most[3] = (lanes){0} - INFINITY;
    for (; j + 4 * LANES <= n; j += 4 * LANES) {
      for (int k = 0; k < 4; k += 2) {
        const lanes one = load_lanes(x + j + k * LANES) * sign;
        const lanes other = load_lanes(x + j + (k + 1) * LANES) * sign;
        found_nan |= HAVE_NAN(one, other);
        most[k] = LARGER_LANES(one, most[k]);
        most[k + 1] = LARGER_LANES(other, most[k + 1]);
      }
    }
    best = LARGEST_OF_LANES(
        LARGER_LANES(LARGER_LANES(most[0], most[1]), LARGER_LANES(most[2], most[3])));
  }
  for (; j < n; ++j) {
    float value = x[j] * sign;
    found_nan |= value != value;
    best = value > best ? value : best;
  }
  return found_nan ? NAN : best * sign;
}

static bool fold_f32(uint8_t function, const float *x, size_t n, float *out) {
  switch (function) {
    case VIL_ADD:
      *out = fold_sum(x, n);
      return true;
    case VIL_MAX:
      *out = fold_most(x, n, 1.0f);
      return true;
    case VIL_MIN:
      *out = fold_most(x, n, -1.0f);
      return true;
    default:
      return false;
  }
}

#include "tiles_chain.h"

static const cpu_rows rows = {.unary_f32 = unary_f32,
                              .binary_f32 = binary_f32,
                              .binary_f64 = binary_f64,
                              .binary_i32 = binary_i32,
                              .binary_u8 = binary_u8,
                              .compare_f32 = compare_f32,
                              .compare_f64 = compare_f64,
                              .compare_i32 = compare_i32,
                              .select = select_rows,
                              .widen = widen,
                              .narrow = narrow,
                              .fold_f32 = fold_f32,
                              .block = STEP_BLOCK,
                              .find_step = find_step,
                              .run_steps = run_steps};
