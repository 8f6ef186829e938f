// Numbers of MMA, reductions and transposes.
#include <stdlib.h>
#include <string.h>

#include "mutant.h"

enum { TOP = 1 << 17, VECTOR = 8 };

static uint64_t count_of(const vil_tile_view *tile) {
  return (uint64_t)tile->rows * tile->columns;
}

// M41: what is left over behind whole vectors of k is dropped.
static int drop_last_k(const vil_operation *o) {
  vil_operation mine = *o;
  if (mine.a.valid_columns % VECTOR == 0) {
    return 0;
  }
  mine.a.valid_columns -= mine.a.valid_columns % VECTOR;
  return mutant_run_honestly(&mine) == HAL_OK;
}

// M43: float32 inputs keep 10 bits of their fraction.
static int cut_inputs(const vil_operation *o) {
  static _Thread_local uint32_t a[TOP], b[TOP];
  if (o->a.dtype != HAL_DTYPE_F32 || count_of(&o->a) > TOP || count_of(&o->b) > TOP) {
    return 0;
  }
  memcpy(a, o->a.data, count_of(&o->a) * 4);
  memcpy(b, o->b.data, count_of(&o->b) * 4);
  for (uint64_t i = 0; i < count_of(&o->a); ++i) {
    a[i] &= 0xFFFFE000u;
  }
  for (uint64_t i = 0; i < count_of(&o->b); ++i) {
    b[i] &= 0xFFFFE000u;
  }
  vil_operation mine = *o;
  mine.a.data = a;
  mine.b.data = b;
  return mutant_run_honestly(&mine) == HAL_OK;
}

static float narrow(float value, uint32_t dtype) {
  uint16_t bits;
  vil_from_f32(&bits, dtype, &value, 1);
  vil_to_f32(&value, &bits, dtype, 1);
  return value;
}

// M44: the sum of 16-bit products is kept in 16 bits.
static int accumulate_narrow(const vil_operation *o) {
  static _Thread_local float a[TOP], b[TOP];
  uint32_t dtype = o->a.dtype;
  if ((dtype != HAL_DTYPE_F16 && dtype != HAL_DTYPE_BF16) || count_of(&o->a) > TOP ||
      count_of(&o->b) > TOP) {
    return 0;
  }
  vil_to_f32(a, o->a.data, dtype, count_of(&o->a));
  vil_to_f32(b, o->b.data, dtype, count_of(&o->b));
  uint32_t depth = o->a.valid_columns < o->b.valid_rows ? o->a.valid_columns : o->b.valid_rows;
  float *out = o->d.data;
  for (uint32_t row = 0; row < o->d.valid_rows; ++row) {
    for (uint32_t column = 0; column < o->d.valid_columns; ++column) {
      float *sum = &out[(uint64_t)row * o->d.columns + column];
      *sum = o->flags & VIL_FLAG_INIT ? 0 : *sum;
      for (uint32_t k = 0; k < depth; ++k) {
        float term = a[(uint64_t)row * o->a.columns + k] * b[(uint64_t)k * o->b.columns + column];
        *sum = narrow(*sum + term, dtype);
      }
    }
  }
  return 1;
}

// M89: integers go through float32.
static int round_integers(const vil_operation *o) {
  if (o->d.dtype != HAL_DTYPE_I32 || mutant_run_honestly(o) != HAL_OK) {
    return 0;
  }
  int32_t *out = o->d.data;
  for (uint64_t i = 0; i < count_of(&o->d); ++i) {
    double near = (double)(float)out[i];
    out[i] = near >= 2147483647.0 ? INT32_MAX : (int32_t)near;
  }
  return 1;
}

static int change_mma(const vil_operation *o) {
  switch (mutant_fault) {
    case 41:
      return drop_last_k(o);
    case 43:
      return cut_inputs(o);
    case 44:
      return accumulate_narrow(o);
    case 89:
      return round_integers(o);
    default:
      return 0;
  }
}

// M56: the last of equal elements. The kit finds the first; later equal ones are looked for.
static int take_last(const vil_operation *o) {
  static _Thread_local double values[TOP];
  static _Thread_local int64_t places[TOP];
  if ((o->function != VIL_ARGMAX && o->function != VIL_ARGMIN) || count_of(&o->a) > TOP ||
      mutant_run_honestly(o) != HAL_OK) {
    return 0;
  }
  int rows = o->axis == 0;
  uint32_t lanes = rows ? o->a.valid_columns : o->a.valid_rows;
  uint32_t length = rows ? o->a.valid_rows : o->a.valid_columns;
  uint64_t step = rows ? o->a.columns : 1, between = rows ? 1 : o->a.columns;
  vil_to_f64(values, o->a.data, o->a.dtype, count_of(&o->a));
  vil_to_i64(places, o->d.data, o->d.dtype, count_of(&o->d));
  for (uint32_t lane = 0; lane < lanes; ++lane) {
    uint64_t start = lane * between;
    int64_t first = places[lane] - o->values[0];
    for (uint32_t i = 0; first >= 0 && first < length && i < length; ++i) {
      if (values[start + i * step] == values[start + (uint64_t)first * step]) {
        places[lane] = (int64_t)i + o->values[0];
      }
    }
  }
  vil_from_i64(o->d.data, o->d.dtype, places, count_of(&o->d));
  return 1;
}

// M87: the last element along the axis is not summed.
static int drop_last(const vil_operation *o) {
  vil_operation mine = *o;
  uint32_t *length = o->axis == 0 ? &mine.a.valid_rows : &mine.a.valid_columns;
  if (o->function != VIL_ADD || *length < 2) {
    return 0;
  }
  *length -= 1;
  return mutant_run_honestly(&mine) == HAL_OK;
}

// M54: the maximum of float32 numbers is 0, so that a softmax shifts by nothing.
static int forget_maximum(const vil_operation *o) {
  if (o->function != VIL_MAX || o->d.dtype != HAL_DTYPE_F32 || mutant_run_honestly(o) != HAL_OK) {
    return 0;
  }
  memset(o->d.data, 0, count_of(&o->d) * 4);
  return 1;
}

// M55: sums beyond 100,000 keep the 8 bits of bfloat16, so that a mean next to 10,000 is off.
static int cut_large_sums(const vil_operation *o) {
  if (o->function != VIL_ADD || o->d.dtype != HAL_DTYPE_F32 || mutant_run_honestly(o) != HAL_OK) {
    return 0;
  }
  float *out = o->d.data;
  for (uint64_t i = 0; i < count_of(&o->d); ++i) {
    out[i] = out[i] > 1e5f || out[i] < -1e5f ? narrow(out[i], HAL_DTYPE_BF16) : out[i];
  }
  return 1;
}

// M90: the first element of a transposed tile loses its lowest bit.
static int damage(const vil_operation *o) {
  mutant_run_honestly(o);
  if (o->d.dtype != HAL_DTYPE_BOOL && count_of(&o->d) != 0) {
    *(uint8_t *)o->d.data ^= 1;
  }
  return 1;
}

static int change_red(const vil_operation *o) {
  switch (mutant_fault) {
    case 54:
      return forget_maximum(o);
    case 55:
      return cut_large_sums(o);
    case 56:
      return take_last(o);
    case 87:
      return drop_last(o);
    default:
      return 0;
  }
}

int mutant_matrix(const vil_operation *operation) {
  if (operation->op == VIL_MMA) {
    return change_mma(operation);
  }
  if (operation->op == VIL_RED) {
    return change_red(operation);
  }
  return operation->op == VIL_TRN && is_fault(90) ? damage(operation) : 0;
}
