// MMA, TRN (docs/vil.md, sections 5.6 and 5.7).
#include <string.h>

#include "vil_launch.h"

typedef struct shape {
  uint32_t m, n, k;
  int init;
} shape;

// Clears the part of the result that holds no sum yet.
static void clear(const vil_operation *o, const shape *s) {
  uint32_t bytes = vil_dtype_bytes(o->d.dtype);
  for (uint32_t i = 0; s->init && i < s->m; i++)
    memset((uint8_t *)o->d.data + (uint64_t)i * o->d.columns * bytes, 0, (uint64_t)s->n * bytes);
}

static const void *row_at(const vil_tile_view *tile, uint32_t i) {
  return (const uint8_t *)tile->data + (uint64_t)i * tile->columns * vil_dtype_bytes(tile->dtype);
}

// d[i, :] += Σ a[i, k] · b[k, :], rows of b in the accumulator's type at `b`.
#define MULTIPLY(name, type)                                                            \
  static void name(type *restrict d, const type *a, const type *restrict b, uint32_t n, \
                   uint32_t k) {                                                        \
    for (uint32_t l = 0; l < k; l++) {                                                  \
      type factor = a[l];                                                               \
      const type *row = b + (uint64_t)l * n;                                            \
      for (uint32_t j = 0; j < n; j++) d[j] += factor * row[j];                         \
    }                                                                                   \
  }
MULTIPLY(multiply_f32, float)
MULTIPLY(multiply_f64, double)
MULTIPLY(multiply_u64, uint64_t)

static int32_t multiply_floats(vil_arena *arena, const vil_operation *o, const shape *s) {
  uint64_t n = s->n, k = s->k;
  float *b = vil_scratch(arena, 4 * (n * k + k + 16));
  if (!b) return HAL_ERROR_OUT_OF_MEMORY;
  float *a = b + n * k;
  for (uint32_t l = 0; l < s->k; l++) vil_to_f32(b + l * n, row_at(&o->b, l), o->b.dtype, n);
  for (uint32_t i = 0; i < s->m; i++) {
    vil_to_f32(a, row_at(&o->a, i), o->a.dtype, k);
    multiply_f32((float *)o->d.data + (uint64_t)i * o->d.columns, a, b, s->n, s->k);
  }
  return HAL_OK;
}

static int32_t multiply_doubles(vil_arena *arena, const vil_operation *o, const shape *s) {
  uint64_t n = s->n;
  double *b = vil_scratch(arena, 8 * (n * s->k + 16));
  if (!b) return HAL_ERROR_OUT_OF_MEMORY;
  for (uint32_t l = 0; l < s->k; l++) memcpy(b + l * n, row_at(&o->b, l), n * 8);
  for (uint32_t i = 0; i < s->m; i++)
    multiply_f64((double *)o->d.data + (uint64_t)i * o->d.columns, row_at(&o->a, i), b, s->n, s->k);
  return HAL_OK;
}

static int32_t multiply_integers(vil_arena *arena, const vil_operation *o, const shape *s) {
  uint64_t n = s->n, k = s->k;
  uint64_t *b = vil_scratch(arena, 8 * (n * k + k + n + 16));
  if (!b) return HAL_ERROR_OUT_OF_MEMORY;
  uint64_t *a = b + n * k, *d = a + k;
  for (uint32_t l = 0; l < s->k; l++)
    vil_to_i64((int64_t *)b + l * n, row_at(&o->b, l), o->b.dtype, n);
  for (uint32_t i = 0; i < s->m; i++) {
    void *row = (uint8_t *)o->d.data + (uint64_t)i * o->d.columns * vil_dtype_bytes(o->d.dtype);
    vil_to_i64((int64_t *)a, row_at(&o->a, i), o->a.dtype, k);
    vil_to_i64((int64_t *)d, row, o->d.dtype, n);
    multiply_u64(d, a, b, s->n, s->k);
    vil_from_i64(row, o->d.dtype, (const int64_t *)d, n);
  }
  return HAL_OK;
}

int32_t vil_run_matrix(vil_arena *arena, const vil_operation *o) {
  uint32_t k = o->a.valid_columns < o->b.valid_rows ? o->a.valid_columns : o->b.valid_rows;
  shape s = {o->d.valid_rows, o->d.valid_columns, k, o->flags & VIL_FLAG_INIT};
  clear(o, &s);
  if (o->d.dtype == HAL_DTYPE_F32) return multiply_floats(arena, o, &s);
  if (o->d.dtype == HAL_DTYPE_F64) return multiply_doubles(arena, o, &s);
  return multiply_integers(arena, o, &s);
}

void vil_run_transpose(const vil_operation *o) {
  int64_t bytes = vil_dtype_bytes(o->a.dtype);
  vil_copy_area(o->d.data, o->d.columns * bytes, bytes, o->a.data, bytes, o->a.columns * bytes,
                o->a.valid_columns, o->a.valid_rows, (uint32_t)bytes);
}
