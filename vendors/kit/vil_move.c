// LOAD, STORE, GATHER, SCATTER: tiles through descriptors (docs/vil.md,
// sections 1.4, 5.2, 5.9, 5.10).
//
// A descriptor's coordinates split into a part of the row and a part of the column. When no sum can
// overflow the parts are computed once per row and column, and a row whose column parts grow by a
// constant step is moved as one strided run. Otherwise each element is computed with checks.
#include <pthread.h>
#include <string.h>

#include "vil_launch.h"

typedef struct digit {
  int64_t size, divisor;
  int has_size;
} digit;
typedef struct term {
  uint8_t dimension, kind;
  uint16_t index;
  int64_t coefficient, sreg;
} term;

typedef struct moving {
  vil_run *run;
  const vil_r_descriptor *descriptor;
  uint32_t rank, term_count, element_bytes;
  int64_t extent[5], stride[5], base[5];
  int64_t origin[2];
  uint32_t counts[2];
  digit digits[2][3];
  const vil_r_term *terms;
  int64_t coefficients[64];
  int64_t sregs[64];
  uint8_t *data;      // Buffer, or the near tile.
  uint64_t elements;  // Elements that the buffer holds.
  int near;
  uint32_t near_columns, near_valid[2];
  // Parts of rows and columns: rank × counts.
  int64_t *part[2];
  uint8_t *row_outside;      // GATHER, SCATTER: the index overflowed.
  int64_t gather_dimension;  // −1: none.
  vil_tile_view index;
} moving;

static int64_t digit_of(const digit *d, int64_t position) {
  if (d->divisor == 0 || (d->has_size && d->size == 0)) return 0;
  int64_t quotient = vil_divide(position, d->divisor);
  return d->has_size ? vil_modulo(quotient, d->size) : quotient;
}

static uint32_t axis_count(const vil_run *run, const vil_r_axis *axis, uint32_t whole,
                           int64_t *out_origin) {
  int64_t origin = vil_value(run, axis->origin, 0);
  *out_origin = origin;
  if (axis->limit == VIL_NONE) return whole;
  __int128 count = (__int128)vil_value(run, axis->limit, 0) - origin;
  return count <= 0 ? 0 : count > whole ? whole : (uint32_t)count;
}

static void prepare(moving *m, vil_run *run, const vil_r_descriptor *d, uint32_t rows,
                    uint32_t columns) {
  m->run = run;
  m->descriptor = d;
  m->rank = d->rank;
  m->element_bytes = vil_dtype_bytes(d->dtype);
  m->terms = run->program->terms + d->first_term;
  m->term_count = d->term_count;
  m->gather_dimension = -1;
  for (uint32_t k = 0; k < m->rank; k++) {
    m->extent[k] = vil_value(run, d->dimensions[k].extent, 0);
    m->stride[k] = vil_value(run, d->dimensions[k].stride, 0);
    m->base[k] = vil_value(run, d->dimensions[k].base, 0);
  }
  for (uint32_t t = 0; t < m->term_count; t++) {
    m->coefficients[t] = vil_value(run, m->terms[t].coefficient, 0);
    m->sregs[t] = m->terms[t].kind == VIL_TERM_SREG ? run->arena->sregs[m->terms[t].index] : 0;
  }
  for (int axis = 0; axis < 2; axis++) {
    m->counts[axis] = axis_count(run, &d->axes[axis], axis ? columns : rows, &m->origin[axis]);
    for (int q = 0; q < d->digit_count[axis]; q++) {
      m->digits[axis][q].has_size = d->axes[axis].digits[q].size != VIL_NONE;
      m->digits[axis][q].size = vil_value(run, d->axes[axis].digits[q].size, 0);
      m->digits[axis][q].divisor = vil_value(run, d->axes[axis].digits[q].divisor, 0);
    }
  }
}

static void use_buffer(moving *m) {
  const vil_bound *bound = &m->run->step->params[m->descriptor->param];
  m->data = bound->data;
  m->elements = bound->bytes / m->element_bytes;
}

static void use_near(moving *m, const vil_tile_view *tile) {
  m->near = 1;
  m->data = tile->data;
  m->elements = (uint64_t)tile->rows * tile->columns;
  m->near_columns = tile->columns;
  m->near_valid[0] = tile->valid_rows;
  m->near_valid[1] = tile->valid_columns;
}

// ---- One element with checks ----

enum { OUTSIDE = 0, INSIDE = 1, FAULT = 2 };

// The element of tile place (i, j): where it lies, that it is outside, or a fault.
static int locate(const moving *m, uint32_t i, uint32_t j, int64_t *out_offset) {
  int64_t position[2], offset = 0;
  if (__builtin_add_overflow(m->origin[0], (int64_t)i, &position[0]) ||
      __builtin_add_overflow(m->origin[1], (int64_t)j, &position[1]))
    return OUTSIDE;
  uint32_t t = 0;
  __int128 far = 0;
  for (uint32_t k = 0; k < m->rank; k++) {
    int64_t coordinate = m->base[k], product;
    for (; t < m->term_count && m->terms[t].dimension == k; t++) {
      int64_t factor = m->sregs[t];
      if (m->terms[t].kind != VIL_TERM_SREG) {
        int axis = m->terms[t].kind - VIL_TERM_ROW;
        factor = digit_of(&m->digits[axis][m->terms[t].index], position[axis]);
      }
      if (__builtin_mul_overflow(factor, m->coefficients[t], &product) ||
          __builtin_add_overflow(coordinate, product, &coordinate))
        return OUTSIDE;
    }
    if ((int64_t)k == m->gather_dimension) {
      int64_t index =
          vil_read_int((const uint8_t *)m->index.data +
                           (uint64_t)i * m->index.columns * vil_dtype_bytes(m->index.dtype),
                       m->index.dtype);
      if (__builtin_add_overflow(coordinate, index, &coordinate)) return OUTSIDE;
    }
    if (coordinate < 0 || coordinate >= m->extent[k]) return OUTSIDE;
    far += (__int128)coordinate * m->stride[k];
  }
  int bad = far < 0 || far >= (__int128)m->elements;
  offset = (int64_t)far;
  if (m->near) {
    if (bad || offset / m->near_columns >= m->near_valid[0] ||
        offset % m->near_columns >= m->near_valid[1])
      return OUTSIDE;
  } else if (bad) {
    return FAULT;
  }
  *out_offset = offset;
  return INSIDE;
}

static int32_t fault(const moving *m, uint32_t i, uint32_t j) {
  return vil_fault(
      m->run, "element (%u, %u) of descriptor %s lies outside of the %llu elements of its buffer",
      i, j, m->run->program->strings + m->descriptor->name, (unsigned long long)m->elements);
}

// ---- Whole rows ----

static __int128 magnitude(int64_t value) {
  return value < 0 ? -(__int128)value : value;
}

// True when no part, sum or offset of the descriptor can come near an overflow.
static int is_tame(const moving *m) {
  const __int128 limit = (__int128)1 << 60;
  if (m->near || magnitude(m->origin[0]) > limit || magnitude(m->origin[1]) > limit) return 0;
  __int128 sums = 0;
  for (uint32_t k = 0; k < m->rank; k++) {
    // A coordinate inside is below its extent, so offsets stay in range when extents times strides
    // do.
    if (magnitude(m->extent[k]) > limit || magnitude(m->stride[k]) > limit ||
        magnitude(m->extent[k]) * magnitude(m->stride[k]) > limit)
      return 0;
    sums += magnitude(m->base[k]);
  }
  for (uint32_t t = 0; t < m->term_count; t++) {
    __int128 factor = magnitude(m->sregs[t]);
    if (m->terms[t].kind != VIL_TERM_SREG) {
      int axis = m->terms[t].kind - VIL_TERM_ROW;
      const digit *d = &m->digits[axis][m->terms[t].index];
      factor =
          magnitude(m->origin[axis]) + m->counts[axis] + 1 + (d->has_size ? magnitude(d->size) : 0);
    }
    if (factor > limit || magnitude(m->coefficients[t]) > limit) return 0;
    sums += factor * magnitude(m->coefficients[t]);
  }
  return sums <= limit;
}

// Fills part[axis][k * counts[axis] + n]; base and SREG terms go to the rows.
static void split(moving *m) {
  for (int axis = 0; axis < 2; axis++) {
    uint32_t count = m->counts[axis];
    for (uint32_t k = 0; k < m->rank; k++) {
      for (uint32_t n = 0; n < count; n++)
        m->part[axis][(uint64_t)k * count + n] = axis == 0 ? m->base[k] : 0;
    }
    for (uint32_t t = 0; t < m->term_count; t++) {
      int64_t *out = m->part[axis] + (uint64_t)m->terms[t].dimension * count;
      if (m->terms[t].kind == VIL_TERM_SREG) {
        if (axis == 0)
          for (uint32_t n = 0; n < count; n++) out[n] += m->sregs[t] * m->coefficients[t];
      } else if (m->terms[t].kind - VIL_TERM_ROW == axis) {
        const digit *d = &m->digits[axis][m->terms[t].index];
        for (uint32_t n = 0; n < count; n++)
          out[n] += digit_of(d, m->origin[axis] + n) * m->coefficients[t];
      }
    }
  }
  if (m->gather_dimension < 0) return;
  uint32_t bytes = vil_dtype_bytes(m->index.dtype);
  for (uint32_t n = 0; n < m->counts[0]; n++) {
    int64_t index = vil_read_int(
        (const uint8_t *)m->index.data + (uint64_t)n * m->index.columns * bytes, m->index.dtype);
    int64_t *at = m->part[0] + (uint64_t)m->gather_dimension * m->counts[0] + n;
    m->row_outside[n] = (uint8_t)__builtin_add_overflow(*at, index, at);
    if (*at > (int64_t)1 << 62 || *at < -((int64_t)1 << 62)) m->row_outside[n] = 1;
  }
}

// The column part of dimension k grows by one step: 1 and the step, or 0.
static int is_linear(const moving *m, uint32_t k, int64_t *out_step) {
  const int64_t *part = m->part[1] + (uint64_t)k * m->counts[1];
  int64_t step = m->counts[1] > 1 ? part[1] - part[0] : 0;
  for (uint32_t j = 1; j < m->counts[1]; j++) {
    if (part[j] - part[j - 1] != step) return 0;
  }
  *out_step = step;
  return 1;
}

// Narrows [*low, *high) to the j with 0 <= start + j · step < extent.
static void narrow(int64_t start, int64_t step, int64_t extent, int64_t *low, int64_t *high) {
  if (step == 0) {
    if (start < 0 || start >= extent) *high = *low;
    return;
  }
  int64_t first, last;  // First j inside and first j past it.
  if (step > 0) {
    first = -vil_divide(start, step);  // ceil(−start / step)
    last = -vil_divide(start - extent, step);
  } else {
    first = vil_divide(start - extent, -step) + 1;
    last = vil_divide(start, -step) + 1;
  }
  if (first > *low) *low = first;
  if (last < *high) *high = last;
}

typedef struct row_plan {
  int linear;
  int64_t step[5], offset_step;
} row_plan;
typedef int32_t (*row_mover)(moving *m, void *tile_row, uint32_t i, int64_t low, int64_t high,
                             int64_t offset, int64_t step);
typedef int32_t (*element_mover)(moving *m, void *tile_row, uint32_t i, uint32_t j, int where,
                                 int64_t offset);

static int32_t move_row_linear(moving *m, const row_plan *plan, void *row, uint32_t i,
                               row_mover mover) {
  int64_t low = 0, high = m->counts[1], offset = 0;
  for (uint32_t k = 0; k < m->rank; k++) {
    int64_t start =
        m->part[0][(uint64_t)k * m->counts[0] + i] + m->part[1][(uint64_t)k * m->counts[1]];
    narrow(start, plan->step[k], m->extent[k], &low, &high);
  }
  if (m->row_outside[i] || low >= high) return mover(m, row, i, 0, 0, 0, 0);
  for (uint32_t k = 0; k < m->rank; k++) {
    int64_t start =
        m->part[0][(uint64_t)k * m->counts[0] + i] + m->part[1][(uint64_t)k * m->counts[1]];
    offset += (start + low * plan->step[k]) * m->stride[k];
  }
  int64_t end = offset + (high - 1 - low) * plan->offset_step;
  if (offset < 0 || end < 0 || (uint64_t)offset >= m->elements || (uint64_t)end >= m->elements) {
    return fault(m, i, (uint32_t)(offset < 0 || (uint64_t)offset >= m->elements ? low : high - 1));
  }
  return mover(m, row, i, low, high, offset, plan->offset_step);
}

// ---- Somebody looks on ----

static int is_watched(const moving *m) {
  const vil_run *run = m->run;
  return !m->near && (run->race || (run->hooks && run->hooks->watch && run->hooks->watch->element));
}

// Shows every element that will be touched to the race checker and to the port.
static int32_t watch_elements(moving *m) {
  vil_run *run = m->run;
  const vil_instruction *at = &run->program->code[run->at];
  const vil_watch *watch = run->hooks ? run->hooks->watch : NULL;
  int is_write = at->op == VIL_STORE || at->op == VIL_SCATTER;
  vil_access access = {
      .program = run->program->name,
      .instruction = run->at,
      .op = vil_op_name(at->op),
      .param = run->program->strings + run->program->params[m->descriptor->param].name,
      .bytes = m->element_bytes,
      .is_write = is_write,
      .is_read = !is_write || (at->op == VIL_SCATTER && at->function != VIL_SET)};
  for (uint32_t i = 0; i < m->counts[0]; i++) {
    for (uint32_t j = 0; j < m->counts[1]; j++) {
      int64_t offset = 0;
      if (locate(m, i, j, &offset) != INSIDE) continue;
      int32_t status = run->race
                           ? vil_race_element(run, m->descriptor->param, (uint64_t)offset, is_write)
                           : HAL_OK;
      if (status) return status;
      if (!watch || !watch->element) continue;
      char text[320] = "";
      access.address = m->data + (uint64_t)offset * m->element_bytes;
      if (watch->element(watch->context, &access, text, sizeof(text)))
        return vil_fault(run, "%s", text);
    }
  }
  return HAL_OK;
}

static int32_t move_all(moving *m, const vil_tile_view *tile, uint32_t rows, uint32_t columns,
                        row_mover by_row, element_mover by_element) {
  vil_arena *arena = m->run->arena;
  uint64_t row_bytes = (uint64_t)tile->columns * vil_dtype_bytes(tile->dtype);
  if (m->counts[0] > rows) m->counts[0] = rows;
  if (m->counts[1] > columns) m->counts[1] = columns;
  if (m->counts[0] == 0 || m->counts[1] == 0) return HAL_OK;
  if (is_watched(m)) {
    int32_t status = watch_elements(m);
    if (status) return status;
  }
  if (is_tame(m)) {
    uint64_t cells = (uint64_t)m->rank * ((uint64_t)m->counts[0] + m->counts[1]);
    m->part[0] = vil_scratch(arena, cells * 8 + m->counts[0]);
    if (!m->part[0]) return HAL_ERROR_OUT_OF_MEMORY;
    m->part[1] = m->part[0] + (uint64_t)m->rank * m->counts[0];
    m->row_outside = (uint8_t *)(m->part[0] + cells);
    memset(m->row_outside, 0, m->counts[0]);
    split(m);
    row_plan plan = {1, {0}, 0};
    for (uint32_t k = 0; k < m->rank && plan.linear; k++) {
      plan.linear = is_linear(m, k, &plan.step[k]);
      plan.offset_step += plan.step[k] * m->stride[k];
    }
    if (plan.linear) {
      for (uint32_t i = 0; i < m->counts[0]; i++) {
        int32_t status =
            move_row_linear(m, &plan, (uint8_t *)tile->data + i * row_bytes, i, by_row);
        if (status) return status;
      }
      return HAL_OK;
    }
  }
  for (uint32_t i = 0; i < m->counts[0]; i++) {
    for (uint32_t j = 0; j < m->counts[1]; j++) {
      int64_t offset = 0;
      int where = locate(m, i, j, &offset);
      if (where == FAULT) return fault(m, i, j);
      int32_t status = by_element(m, (uint8_t *)tile->data + i * row_bytes, i, j, where, offset);
      if (status) return status;
    }
  }
  return HAL_OK;
}

// ---- Loading ----

static void load_fill(const moving *m, uint8_t bits[8]) {
  uint64_t constant = m->descriptor->fill;
  if (vil_is_float(m->descriptor->dtype) || vil_is_float8(m->descriptor->dtype)) {
    double value;
    memcpy(&value, &constant, 8);
    vil_from_f64(bits, m->descriptor->dtype, &value, 1, 0);
  } else {
    memcpy(bits, &constant, 8);
  }
}

static void set_elements(uint8_t *row, int64_t low, int64_t high, uint32_t bytes,
                         const uint8_t *bits) {
  for (int64_t j = low; j < high; j++) memcpy(row + j * bytes, bits, bytes);
}

static void copy_strided(uint8_t *out, int64_t out_step, const uint8_t *in, int64_t in_step,
                         int64_t count, uint32_t bytes) {
  if (out_step == 1 && in_step == 1) {
    memcpy(out, in, (uint64_t)count * bytes);
    return;
  }
  out_step *= bytes;
  in_step *= bytes;
  switch (bytes) {
    case 1:
      for (int64_t n = 0; n < count; n++) out[n * out_step] = in[n * in_step];
      break;
    case 2:
      for (int64_t n = 0; n < count; n++) memcpy(out + n * out_step, in + n * in_step, 2);
      break;
    case 4:
      for (int64_t n = 0; n < count; n++) memcpy(out + n * out_step, in + n * in_step, 4);
      break;
    default:
      for (int64_t n = 0; n < count; n++) memcpy(out + n * out_step, in + n * in_step, 8);
      break;
  }
}

static void clean_bool(const moving *m, uint8_t *row, int64_t low, int64_t high) {
  if (m->descriptor->dtype != HAL_DTYPE_BOOL) return;
  for (int64_t j = low; j < high; j++) row[j] = row[j] != 0;
}

static int32_t load_row(moving *m, void *tile_row, uint32_t i, int64_t low, int64_t high,
                        int64_t offset, int64_t step) {
  (void)i;
  uint8_t bits[8], *row = tile_row;
  load_fill(m, bits);
  set_elements(row, 0, low, m->element_bytes, bits);
  if (high > low)
    copy_strided(row + low * m->element_bytes, 1, m->data + offset * m->element_bytes, step,
                 high - low, m->element_bytes);
  set_elements(row, high, m->counts[1], m->element_bytes, bits);
  clean_bool(m, row, low, high);
  return HAL_OK;
}

static int32_t load_element(moving *m, void *tile_row, uint32_t i, uint32_t j, int where,
                            int64_t offset) {
  (void)i;
  uint8_t bits[8], *at = (uint8_t *)tile_row + (uint64_t)j * m->element_bytes;
  if (where == INSIDE) {
    memcpy(at, m->data + (uint64_t)offset * m->element_bytes, m->element_bytes);
    clean_bool(m, at, 0, 1);
  } else {
    load_fill(m, bits);
    memcpy(at, bits, m->element_bytes);
  }
  return HAL_OK;
}

// ---- Storing ----

static int32_t store_row(moving *m, void *tile_row, uint32_t i, int64_t low, int64_t high,
                         int64_t offset, int64_t step) {
  (void)i;
  if (high > low)
    copy_strided(m->data + offset * m->element_bytes, step,
                 (uint8_t *)tile_row + low * m->element_bytes, 1, high - low, m->element_bytes);
  return HAL_OK;
}

static int32_t store_element(moving *m, void *tile_row, uint32_t i, uint32_t j, int where,
                             int64_t offset) {
  (void)i;
  if (where == INSIDE)
    memcpy(m->data + (uint64_t)offset * m->element_bytes,
           (uint8_t *)tile_row + (uint64_t)j * m->element_bytes, m->element_bytes);
  return HAL_OK;
}

// ---- Combining in memory, atomically among program instances ----

static uint64_t combine_bits(uint32_t dtype, uint8_t function, uint64_t old_bits,
                             uint64_t new_bits) {
  if (dtype == HAL_DTYPE_F32 || dtype == HAL_DTYPE_F64) {
    double old_value, value, result;
    if (dtype == HAL_DTYPE_F32) {
      float narrow[2];
      uint32_t low[2] = {(uint32_t)old_bits, (uint32_t)new_bits};
      memcpy(narrow, low, 8);
      old_value = (double)narrow[0];
      value = (double)narrow[1];
    } else {
      memcpy(&old_value, &old_bits, 8);
      memcpy(&value, &new_bits, 8);
    }
    if (function == VIL_ADD)
      result = old_value + value;
    else if (old_value != old_value || value != value)
      result = old_value + value;
    else
      result = (function == VIL_MAX) == (value > old_value) ? value : old_value;
    uint64_t bits = 0;
    vil_from_f64(&bits, dtype, &result, 1, 0);
    return bits;
  }
  int64_t old_value = dtype == HAL_DTYPE_I32 ? (int32_t)old_bits : (int64_t)old_bits,
          value = dtype == HAL_DTYPE_I32 ? (int32_t)new_bits : (int64_t)new_bits;
  if (function == VIL_ADD) return (uint64_t)old_value + (uint64_t)value;
  return (uint64_t)((function == VIL_MAX) == (value > old_value) ? value : old_value);
}

static int32_t combine_element(moving *m, void *tile_row, uint32_t i, uint32_t j, int where,
                               int64_t offset) {
  (void)i;
  if (where != INSIDE) return HAL_OK;
  uint8_t function = m->run->program->code[m->run->at].function;
  const uint8_t *source = (const uint8_t *)tile_row + (uint64_t)j * m->element_bytes;
  uint8_t *target = m->data + (uint64_t)offset * m->element_bytes;
  if (m->element_bytes == 4) {
    uint32_t value, old_bits = __atomic_load_n((uint32_t *)target, __ATOMIC_RELAXED), next;
    memcpy(&value, source, 4);
    do {
      next = (uint32_t)combine_bits(m->descriptor->dtype, function, old_bits, value);
    } while (!__atomic_compare_exchange_n((uint32_t *)target, &old_bits, next, 0, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
  } else {
    uint64_t value, old_bits = __atomic_load_n((uint64_t *)target, __ATOMIC_RELAXED), next;
    memcpy(&value, source, 8);
    do {
      next = combine_bits(m->descriptor->dtype, function, old_bits, value);
    } while (!__atomic_compare_exchange_n((uint64_t *)target, &old_bits, next, 0, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
  }
  return HAL_OK;
}

static int32_t combine_row(moving *m, void *tile_row, uint32_t i, int64_t low, int64_t high,
                           int64_t offset, int64_t step) {
  for (int64_t j = low; j < high; j++)
    combine_element(m, tile_row, i, (uint32_t)j, INSIDE, offset + (j - low) * step);
  return HAL_OK;
}

// ---- The four operations ----

// SCATTER set keeps one whole row of those that meet in an element, so rows of all programs take
// turns.
static pthread_mutex_t set_turn = PTHREAD_MUTEX_INITIALIZER;

static int32_t run_load(vil_run *run, const vil_instruction *at, moving *m) {
  vil_tile_view tile = vil_view(run, at, VIL_D);
  prepare(m, run, &run->program->descriptors[at->x], tile.rows, tile.columns);
  if (at->op == VIL_GATHER) {
    m->index = vil_view(run, at, VIL_A);
    m->gather_dimension = at->axis;
    m->counts[0] = vil_smaller(m->counts[0], m->index.valid_columns ? m->index.valid_rows : 0);
  }
  if (m->descriptor->param == VIL_NONE) {
    vil_tile_view near = vil_view(run, at, VIL_A);
    use_near(m, &near);
  } else {
    use_buffer(m);
  }
  vil_set_valid(run, at, VIL_D, m->counts[0], m->counts[1]);
  return move_all(m, &tile, m->counts[0], m->counts[1], load_row, load_element);
}

static int32_t run_store(vil_run *run, const vil_instruction *at, moving *m) {
  vil_tile_view tile = vil_view(run, at, VIL_A);
  prepare(m, run, &run->program->descriptors[at->x], tile.rows, tile.columns);
  uint32_t rows = tile.valid_rows;
  if (at->op == VIL_SCATTER) {
    m->index = vil_view(run, at, VIL_B);
    m->gather_dimension = at->axis;
    rows = vil_smaller(rows, m->index.valid_columns ? m->index.valid_rows : 0);
  }
  if (m->descriptor->param == VIL_NONE) {
    vil_tile_view near = vil_view(run, at, VIL_D);
    use_near(m, &near);
  } else {
    use_buffer(m);
  }
  if (at->op == VIL_SCATTER && at->function != VIL_SET)
    return move_all(m, &tile, rows, tile.valid_columns, combine_row, combine_element);
  if (at->op == VIL_STORE)
    return move_all(m, &tile, rows, tile.valid_columns, store_row, store_element);
  pthread_mutex_lock(&set_turn);
  int32_t status = move_all(m, &tile, rows, tile.valid_columns, store_row, store_element);
  pthread_mutex_unlock(&set_turn);
  return status;
}

int32_t vil_run_move(vil_run *run, const vil_instruction *at) {
  moving m;
  memset(&m, 0, offsetof(moving, coefficients));
  m.near = 0;
  m.row_outside = NULL;
  if (run->program->descriptors[at->x].term_count > 64) {
    return vil_fault(run, "descriptor %s has more than 64 terms",
                     run->program->strings + run->program->descriptors[at->x].name);
  }
  return at->op == VIL_LOAD || at->op == VIL_GATHER ? run_load(run, at, &m)
                                                    : run_store(run, at, &m);
}
