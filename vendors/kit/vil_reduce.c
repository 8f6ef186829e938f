// RED, SCAN, TOPK (docs/vil.md, sections 5.5 and 5.7). Floats accumulate in f64, one rounding at
// the end.
#include <math.h>
#include <string.h>

#include "vil_launch.h"

static const uint8_t *row_of(const vil_tile_view *tile, uint32_t i) {
  return (const uint8_t *)tile->data + (uint64_t)i * tile->columns * vil_dtype_bytes(tile->dtype);
}

static double identity_f64(uint8_t function) {
  return function == VIL_ADD   ? 0.0
         : function == VIL_MUL ? 1.0
         : function == VIL_MAX ? -INFINITY
                               : INFINITY;
}

static int64_t identity_i64(uint8_t function, uint32_t dtype) {
  switch (function) {
    case VIL_ADD:
    case VIL_OR:
      return 0;
    case VIL_MUL:
      return 1;
    case VIL_AND:
      return dtype == HAL_DTYPE_BOOL ? 1 : -1;
    case VIL_MAX:
      return dtype == HAL_DTYPE_I8    ? INT8_MIN
             : dtype == HAL_DTYPE_U8  ? 0
             : dtype == HAL_DTYPE_I32 ? INT32_MIN
                                      : INT64_MIN;
    default:
      return dtype == HAL_DTYPE_I8    ? INT8_MAX
             : dtype == HAL_DTYPE_U8  ? UINT8_MAX
             : dtype == HAL_DTYPE_I32 ? INT32_MAX
                                      : INT64_MAX;
  }
}

static double join_f64(uint8_t function, double sum, double x) {
  switch (function) {
    case VIL_ADD:
      return sum + x;
    case VIL_MUL:
      return sum * x;
    case VIL_MAX:
      return sum != sum || x != x ? sum + x : x > sum ? x : sum;
    default:
      return sum != sum || x != x ? sum + x : x < sum ? x : sum;
  }
}

static int64_t join_i64(uint8_t function, int64_t sum, int64_t x) {
  switch (function) {
    case VIL_ADD:
      return (int64_t)((uint64_t)sum + (uint64_t)x);
    case VIL_MUL:
      return (int64_t)((uint64_t)sum * (uint64_t)x);
    case VIL_MAX:
      return x > sum ? x : sum;
    case VIL_MIN:
      return x < sum ? x : sum;
    case VIL_AND:
      return sum & x;
    default:
      return sum | x;
  }
}

// x takes the place of the best so far: larger (smaller), or the first NaN.
static int wins_f64(uint8_t function, double best, double x) {
  if (best != best) return 0;
  if (x != x) return 1;
  return function == VIL_ARGMAX ? x > best : x < best;
}

static int wins_i64(uint8_t function, int64_t best, int64_t x) {
  return function == VIL_ARGMAX ? x > best : x < best;
}

// Reads a row of `a` into the type of arithmetic.
static void read_row(const vil_tile_view *a, uint32_t i, void *room) {
  if (vil_is_float(a->dtype))
    vil_to_f64(room, row_of(a, i), a->dtype, a->valid_columns);
  else
    vil_to_i64(room, row_of(a, i), a->dtype, a->valid_columns);
}

static void write_element(const vil_tile_view *d, uint32_t i, uint32_t j, const void *value,
                          int is_float) {
  uint8_t *at = (uint8_t *)d->data + ((uint64_t)i * d->columns + j) * vil_dtype_bytes(d->dtype);
  if (is_float)
    vil_from_f64(at, d->dtype, value, 1, 0);
  else
    vil_from_i64(at, d->dtype, value, 1);
}

typedef union cell {
  double f;
  int64_t i;
} cell;

// Each lane is one result; the row axis has a lane per column, the column axis one lane at a time.
static void join_row(const vil_operation *o, cell *lanes, int64_t *places, const cell *row,
                     uint32_t i) {
  int is_float = vil_is_float(o->a.dtype), by_rows = o->axis == 0,
      arg = o->function == VIL_ARGMAX || o->function == VIL_ARGMIN;
  for (uint32_t j = 0; j < o->a.valid_columns; j++) {
    cell *lane = by_rows ? &lanes[j] : &lanes[0];
    int64_t *place = by_rows ? &places[j] : &places[0];
    uint32_t index = by_rows ? i : j;
    if (arg) {
      int first = *place < 0;
      if (first || (is_float ? wins_f64(o->function, lane->f, row[j].f)
                             : wins_i64(o->function, lane->i, row[j].i))) {
        *lane = row[j];
        *place = index;
      }
    } else if (is_float) {
      lane->f = join_f64(o->function, lane->f, row[j].f);
    } else {
      lane->i = join_i64(o->function, lane->i, row[j].i);
    }
  }
}

static void start_lanes(const vil_operation *o, cell *lanes, int64_t *places, uint32_t count) {
  int is_float = vil_is_float(o->a.dtype);
  for (uint32_t n = 0; n < count; n++) {
    if (is_float)
      lanes[n].f = identity_f64(o->function);
    else
      lanes[n].i = identity_i64(o->function, o->d.dtype);
    places[n] = -1;
  }
}

static void finish_lane(const vil_operation *o, uint32_t i, uint32_t j, const cell *lane,
                        int64_t place) {
  if (o->function == VIL_ARGMAX || o->function == VIL_ARGMIN) {
    int64_t index = (int64_t)((uint64_t)place + (uint64_t)o->values[0]);
    write_element(&o->d, i, j, &index, 0);
  } else {
    write_element(&o->d, i, j, lane, vil_is_float(o->a.dtype));
  }
}

int32_t vil_run_reduce(vil_arena *arena, const vil_operation *o) {
  uint64_t columns = (uint64_t)o->a.valid_columns + 1;
  cell *row = vil_scratch(arena, 24 * columns);
  if (!row) return HAL_ERROR_OUT_OF_MEMORY;
  cell *lanes = row + columns;
  int64_t *places = (int64_t *)(lanes + columns);
  if (o->axis == 0) start_lanes(o, lanes, places, o->a.valid_columns);
  for (uint32_t i = 0; i < o->a.valid_rows; i++) {
    read_row(&o->a, i, row);
    if (o->axis == 1) start_lanes(o, lanes, places, 1);
    join_row(o, lanes, places, row, i);
    if (o->axis == 1) finish_lane(o, i, 0, lanes, places[0]);
  }
  for (uint32_t j = 0; o->axis == 0 && j < o->a.valid_columns; j++)
    finish_lane(o, 0, j, &lanes[j], places[j]);
  return HAL_OK;
}

int32_t vil_run_scan(vil_arena *arena, const vil_operation *o) {
  uint64_t columns = (uint64_t)o->a.valid_columns + 1;
  cell *row = vil_scratch(arena, 24 * columns);
  if (!row) return HAL_ERROR_OUT_OF_MEMORY;
  cell *lanes = row + columns;
  int64_t *places = (int64_t *)(lanes + columns);
  int is_float = vil_is_float(o->a.dtype), exclusive = o->flags & VIL_FLAG_EXCLUSIVE,
      reverse = (o->flags & VIL_FLAG_REVERSE) != 0;
  start_lanes(o, lanes, places, o->axis == 0 ? o->a.valid_columns : 1);
  for (uint32_t n = 0; n < o->a.valid_rows; n++) {
    uint32_t i = reverse && o->axis == 0 ? o->a.valid_rows - 1 - n : n;
    read_row(&o->a, i, row);
    if (o->axis == 1) start_lanes(o, lanes, places, 1);
    for (uint32_t m = 0; m < o->a.valid_columns; m++) {
      uint32_t j = reverse && o->axis == 1 ? o->a.valid_columns - 1 - m : m;
      cell *lane = o->axis == 0 ? &lanes[j] : &lanes[0], before = *lane;
      if (is_float)
        lane->f = join_f64(o->function, lane->f, row[j].f);
      else
        lane->i = join_i64(o->function, lane->i, row[j].i);
      write_element(&o->d, i, j, exclusive ? &before : lane, is_float);
    }
  }
  return HAL_OK;
}

// ---- TOPK ----

// The value x comes before y in the list's order; equal values keep the order of their indices.
static int before_f64(int smallest, double x, double y) {
  int x_nan = x != x, y_nan = y != y;
  if (x_nan || y_nan) return smallest ? !x_nan && y_nan : x_nan && !y_nan;
  return smallest ? x < y : x > y;
}

typedef struct entry {
  cell value;
  int64_t index;
  uint8_t bits[8];
} entry;

static int comes_before(const vil_operation *o, const entry *x, const entry *y) {
  int smallest = (o->flags & VIL_FLAG_SMALLEST) != 0;
  int is_float = vil_is_float(o->a.dtype);
  int first = is_float   ? before_f64(smallest, x->value.f, y->value.f)
              : smallest ? x->value.i < y->value.i
                         : x->value.i > y->value.i;
  int second = is_float   ? before_f64(smallest, y->value.f, x->value.f)
               : smallest ? y->value.i < x->value.i
                          : y->value.i > x->value.i;
  if (first || second) return first;
  return x->index < y->index;
}

// Puts an entry into a sorted list of at most `limit`.
static void insert(const vil_operation *o, entry *list, uint32_t *length, uint32_t limit,
                   const entry *item) {
  uint32_t at = *length;
  while (at > 0 && comes_before(o, item, &list[at - 1])) at--;
  if (at >= limit) return;
  uint32_t kept = *length < limit ? *length : limit - 1;
  memmove(list + at + 1, list + at, (kept - at) * sizeof(entry));
  list[at] = *item;
  *length = kept + 1;
}

static void read_entry(entry *out, const uint8_t *at, uint32_t dtype) {
  memcpy(out->bits, at, vil_dtype_bytes(dtype));
  if (vil_is_float(dtype))
    vil_to_f64(&out->value.f, at, dtype, 1);
  else
    vil_to_i64(&out->value.i, at, dtype, 1);
}

int32_t vil_run_topk(vil_arena *arena, const vil_operation *o, uint32_t old_length) {
  uint32_t limit = o->d.columns, bytes = vil_dtype_bytes(o->a.dtype),
           index_bytes = vil_dtype_bytes(o->c.dtype);
  entry *list = vil_scratch(arena, ((uint64_t)limit + 1) * sizeof(entry)), item;
  if (!list) return HAL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < o->d.valid_rows; i++) {
    uint8_t *values = (uint8_t *)o->d.data + (uint64_t)i * limit * bytes;
    uint8_t *indices = (uint8_t *)o->c.data + (uint64_t)i * o->c.columns * index_bytes;
    uint32_t length = 0;
    for (uint32_t j = 0; j < old_length; j++) {
      read_entry(&item, values + j * bytes, o->a.dtype);
      item.index = vil_read_int(indices + j * index_bytes, o->c.dtype);
      insert(o, list, &length, limit, &item);
    }
    for (uint32_t j = 0; j < o->a.valid_columns; j++) {
      int64_t index = (int64_t)((uint64_t)o->values[0] + j), narrow = 0;
      read_entry(&item, row_of(&o->a, i) + (uint64_t)j * bytes, o->a.dtype);
      vil_from_i64(&narrow, o->c.dtype, &index, 1);
      item.index = vil_read_int(&narrow, o->c.dtype);
      insert(o, list, &length, limit, &item);
    }
    for (uint32_t j = 0; j < length; j++) {
      memcpy(values + j * bytes, list[j].bits, bytes);
      vil_from_i64(indices + j * index_bytes, o->c.dtype, &list[j].index, 1);
    }
  }
  return HAL_OK;
}
