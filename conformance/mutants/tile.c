// Numbers of operations with one or two operands, and of casts.
//
// Most faults let the kit compute and then change its result, or change an operand before.
#include <math.h>
#include <string.h>

#include "mutant.h"

enum { TOP = 1 << 17 };  // Elements of a tile that a fault looks at.

static _Thread_local double left[TOP], right[TOP], result[TOP];
static _Thread_local int64_t whole_left[TOP], whole_right[TOP];

static uint64_t count_of(const vil_tile_view *tile) {
  return (uint64_t)tile->rows * tile->columns;
}

// Operand elements in the order of the result's, repeated where the operand is smaller.
static void spread(double *out, const vil_tile_view *from, const vil_tile_view *like) {
  static _Thread_local double plain[TOP];
  vil_to_f64(plain, from->data, from->dtype, count_of(from));
  for (uint64_t i = 0; i < count_of(like); ++i) {
    uint64_t row = from->rows == 1 ? 0 : i / like->columns;
    uint64_t column = from->columns == 1 ? 0 : i % like->columns;
    out[i] = plain[row * from->columns + column];
  }
}

static void spread_whole(int64_t *out, const vil_tile_view *from, const vil_tile_view *like) {
  static _Thread_local int64_t plain[TOP];
  vil_to_i64(plain, from->data, from->dtype, count_of(from));
  for (uint64_t i = 0; i < count_of(like); ++i) {
    uint64_t row = from->rows == 1 ? 0 : i / like->columns;
    uint64_t column = from->columns == 1 ? 0 : i % like->columns;
    out[i] = plain[row * from->columns + column];
  }
}

// The kit's result in float64, to be changed; 0 when the operation is not of the kind wanted.
static int compute(const vil_operation *operation) {
  return vil_is_float(operation->d.dtype) && count_of(&operation->d) <= TOP &&
         mutant_run_honestly(operation) == HAL_OK &&
         (vil_to_f64(result, operation->d.data, operation->d.dtype, count_of(&operation->d)), 1);
}

static int write_back(const vil_operation *operation) {
  vil_from_f64(operation->d.data, operation->d.dtype, result, count_of(&operation->d), 0);
  return 1;
}

// ---- floats ----

// M47: max and min of NaN and something is 0.
static int lose_nan(const vil_operation *o) {
  if (o->op != VIL_BIN || (o->function != VIL_MAX && o->function != VIL_MIN) || !compute(o)) {
    return 0;
  }
  for (uint64_t i = 0; i < count_of(&o->d); ++i) {
    result[i] = isnan(result[i]) ? 0 : result[i];
  }
  return write_back(o);
}

// M48: −0 becomes +0. M49: subnormals become 0.
static int clean_small(const vil_operation *o) {
  double least = o->d.dtype == HAL_DTYPE_F16 ? 0x1p-14 : 0x1p-126;
  least = o->d.dtype == HAL_DTYPE_F64 ? 0x1p-1022 : least;
  if (!compute(o)) {
    return 0;
  }
  for (uint64_t i = 0; i < count_of(&o->d); ++i) {
    if (is_fault(48) ? result[i] == 0 : fabs(result[i]) < least) {
      result[i] = 0;
    }
  }
  return write_back(o);
}

// M102: rounds towards zero.
static int round_down(const vil_operation *o) {
  if (o->op != VIL_BIN || o->d.dtype != HAL_DTYPE_F32 || count_of(&o->d) > TOP ||
      o->function < VIL_ADD || o->function > VIL_MUL) {
    return 0;
  }
  spread(left, &o->a, &o->d);
  spread(right, &o->b, &o->d);
  float *out = o->d.data;
  for (uint64_t i = 0; i < count_of(&o->d); ++i) {
    double exact = o->function == VIL_MUL   ? left[i] * right[i]
                   : o->function == VIL_ADD ? left[i] + right[i]
                                            : left[i] - right[i];
    out[i] = (float)exact;
    if (fabs((double)out[i]) > fabs(exact)) {
      out[i] = nextafterf(out[i], 0);
    }
  }
  return 1;
}

// M103: elementary functions lose three digits.
static int lose_digits(const vil_operation *o) {
  if (o->op != VIL_UN || o->function < VIL_EXP || o->function > VIL_ERF || !compute(o)) {
    return 0;
  }
  for (uint64_t i = 0; i < count_of(&o->d); ++i) {
    result[i] *= 1 + 0x1p-6;
  }
  return write_back(o);
}

// M99: a product that is added to is not rounded before.
static int fuse(const vil_operation *o) {
  static _Thread_local double products[TOP];
  static _Thread_local const void *place;
  if (o->op != VIL_BIN || o->d.dtype != HAL_DTYPE_F32 || count_of(&o->d) > TOP) {
    place = NULL;
    return 0;
  }
  if (o->function == VIL_MUL) {
    spread(left, &o->a, &o->d);
    spread(right, &o->b, &o->d);
    for (uint64_t i = 0; i < count_of(&o->d); ++i) {
      products[i] = left[i] * right[i];
    }
    mutant_run_honestly(o);
    place = o->d.data;
    return 1;
  }
  int first = o->a.data == place, second = o->b.data == place;
  if (o->function != VIL_ADD || place == NULL || first == second) {
    return 0;
  }
  spread(left, first ? &o->b : &o->a, &o->d);
  float *out = o->d.data;
  for (uint64_t i = 0; i < count_of(&o->d); ++i) {
    out[i] = (float)(products[i] + left[i]);
  }
  place = NULL;
  return 1;
}

// M84: a comparison with NaN is true.
static int compare_nan(const vil_operation *o) {
  if (o->op != VIL_BIN || (o->function != VIL_LT && o->function != VIL_LE) ||
      !vil_is_float(o->a.dtype) || count_of(&o->d) > TOP) {
    return 0;
  }
  mutant_run_honestly(o);
  spread(left, &o->a, &o->d);
  spread(right, &o->b, &o->d);
  uint8_t *out = o->d.data;
  for (uint64_t i = 0; i < count_of(&o->d); ++i) {
    out[i] = isnan(left[i]) || isnan(right[i]) ? 1 : out[i];
  }
  return 1;
}

// ---- integers ----

static int64_t limit(int64_t value, uint32_t dtype) {
  int64_t low = dtype == HAL_DTYPE_U8 ? 0 : dtype == HAL_DTYPE_I8 ? INT8_MIN : INT32_MIN;
  int64_t high = dtype == HAL_DTYPE_U8 ? UINT8_MAX : dtype == HAL_DTYPE_I8 ? INT8_MAX : INT32_MAX;
  return value < low ? low : value > high ? high : value;
}

// M50: divides towards zero. M83: a shift by the width or more gives 0. M104: sums are cut.
static int64_t wrong_integer(const vil_operation *o, int64_t a, int64_t b, int64_t right_answer) {
  int64_t width = 8 * (int64_t)vil_dtype_bytes(o->d.dtype);
  int can_divide = b != 0 && !(a == INT64_MIN && b == -1);
  if (is_fault(50) && can_divide && o->function == VIL_IDIV) {
    return a / b;
  }
  if (is_fault(50) && can_divide && o->function == VIL_IMOD) {
    return a % b;
  }
  if (is_fault(83) && o->function >= VIL_SHL && o->function <= VIL_SHRU && (b < 0 || b >= width)) {
    return 0;
  }
  if (is_fault(104) && o->d.dtype != HAL_DTYPE_I64 && o->function == VIL_ADD) {
    return limit(a + b, o->d.dtype);
  }
  if (is_fault(104) && o->d.dtype != HAL_DTYPE_I64 && o->function == VIL_MUL) {
    return limit(a * b, o->d.dtype);
  }
  return right_answer;
}

static int change_integers(const vil_operation *o) {
  static _Thread_local int64_t answer[TOP];
  if (o->op != VIL_BIN || !vil_is_int(o->d.dtype) || count_of(&o->d) > TOP) {
    return 0;
  }
  spread_whole(whole_left, &o->a, &o->d);
  spread_whole(whole_right, &o->b, &o->d);
  mutant_run_honestly(o);
  vil_to_i64(answer, o->d.data, o->d.dtype, count_of(&o->d));
  for (uint64_t i = 0; i < count_of(&o->d); ++i) {
    answer[i] = wrong_integer(o, whole_left[i], whole_right[i], answer[i]);
  }
  vil_from_i64(o->d.data, o->d.dtype, answer, count_of(&o->d));
  return 1;
}

// M101: an operand that is repeated is repeated from its first element alone.
static int repeat_first(const vil_operation *o) {
  vil_operation mine = *o;
  if (o->op != VIL_BIN || (o->b.rows == o->d.rows && o->b.columns == o->d.columns)) {
    return 0;
  }
  mine.b.rows = mine.b.columns = mine.b.valid_rows = mine.b.valid_columns = 1;
  return mutant_run_honestly(&mine) == HAL_OK;
}

// ---- casts ----

static int cast_of(const vil_operation *o, const double *values) {
  vil_operation mine = *o;
  mine.a.dtype = HAL_DTYPE_F64;
  mine.a.data = (void *)(uintptr_t)values;
  return mutant_run_honestly(&mine) == HAL_OK;
}

// M45: cuts digits off instead of rounding. M85: rounds to integers instead of cutting.
static int cast_differently(const vil_operation *o) {
  static const int digits[] = {[HAL_DTYPE_F32] = 24,
                               [HAL_DTYPE_F16] = 11,
                               [HAL_DTYPE_BF16] = 8,
                               [HAL_DTYPE_F8E4M3] = 4,
                               [HAL_DTYPE_F8E5M2] = 3};
  uint32_t to = o->d.dtype;
  int narrows = is_fault(45) && (vil_is_float(to) || vil_is_float8(to)) && to != HAL_DTYPE_F64;
  int counts = is_fault(85) && vil_is_int(to);
  if (o->op != VIL_CAST || !vil_is_float(o->a.dtype) || !(narrows || counts) ||
      count_of(&o->a) > TOP) {
    return 0;
  }
  vil_to_f64(left, o->a.data, o->a.dtype, count_of(&o->a));
  for (uint64_t i = 0; i < count_of(&o->a); ++i) {
    uint64_t bits;
    memcpy(&bits, &left[i], sizeof(bits));
    if (counts) {
      left[i] = rint(left[i]);
    } else if (isfinite(left[i])) {
      bits &= ~((UINT64_C(1) << (53 - digits[to])) - 1);
      memcpy(&left[i], &bits, sizeof(bits));
    }
  }
  return cast_of(o, left);
}

// M46: too large a float becomes the largest, and with saturate infinity. M86: integers likewise.
static int cast_the_other_way(const vil_operation *o) {
  int to_float = vil_is_float(o->d.dtype) || vil_is_float8(o->d.dtype);
  int both_whole = vil_is_int(o->d.dtype) && vil_is_int(o->a.dtype);
  if (o->op != VIL_CAST || !((is_fault(46) && to_float) || (is_fault(86) && both_whole))) {
    return 0;
  }
  vil_operation mine = *o;
  mine.flags ^= VIL_FLAG_SATURATE;
  return mutant_run_honestly(&mine) == HAL_OK;
}

int mutant_tile(void *context, const vil_operation *operation) {
  (void)context;
  switch (mutant_fault) {
    case 45:
    case 85:
      return cast_differently(operation);
    case 46:
    case 86:
      return cast_the_other_way(operation);
    case 47:
      return lose_nan(operation);
    case 48:
    case 49:
      return operation->op == VIL_UN || operation->op == VIL_BIN ? clean_small(operation) : 0;
    case 50:
    case 83:
    case 104:
      return change_integers(operation);
    case 84:
      return compare_nan(operation);
    case 99:
      return fuse(operation);
    case 101:
      return repeat_first(operation);
    case 102:
      return round_down(operation);
    case 103:
      return lose_digits(operation);
    default:
      return mutant_matrix(operation);
  }
}
