// LOAD and STORE of blocks: descriptors whose element places grow by a constant step along rows and
// columns of the tile, which is what nearly every program has. What does not fit (digits that wrap
// inside the tile, numbers near an overflow, faults) is left to vil_move.c, which knows every case.
#include <string.h>

#include "vil_launch.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

// Values, sums and steps below this size cannot overflow on the way.
#define TAME 1e15

// What one LOAD or STORE moves: rows [low[0], high[0]) × columns [low[1], high[1]) of the tile's
// counts[0] × counts[1]; the element of (low[0], low[1]) lies at `offset`, in elements.
typedef struct block {
  uint32_t counts[2];
  int64_t low[2], high[2];
  int64_t offset, step[2];
} block;

static double size_of(int64_t value) {
  return value < 0 ? -(double)value : (double)value;
}

static uint32_t count_of(const vil_run *run, const vil_r_axis *axis, uint32_t whole,
                         int64_t origin) {
  if (axis->limit == VIL_NONE) return whole;
  __int128 count = (__int128)vil_value(run, axis->limit, 0) - origin;
  return count <= 0 ? 0 : count > whole ? whole : (uint32_t)count;
}

static int64_t divide(int64_t left, int64_t right) {  // right > 0
  int64_t quotient = left / right;
  return quotient - (left % right < 0);
}

// The digit at `origin` and its growth from one place to the next; 0 when it is not constant over
// `count` places.
static int digit_line(const vil_run *run, const vil_r_axis *axis, uint16_t index, int64_t origin,
                      uint32_t count, int64_t *out_first, int64_t *out_step) {
  int64_t divisor = vil_value(run, axis->digits[index].divisor, 0), first = origin;
  int has_size = axis->digits[index].size != VIL_NONE;
  int64_t size = has_size ? vil_value(run, axis->digits[index].size, 0) : 0;
  if (divisor < 1 || (has_size && size < 1)) return 0;
  *out_step = divisor == 1 || count < 2;
  if (divisor > 1) {
    first = divide(origin, divisor);
    if (divide(origin + count - 1, divisor) != first) return 0;
    *out_step = 0;
  }
  if (has_size) {
    first -= divide(first, size) * size;
    if (*out_step && first + count > size) return 0;
  }
  *out_first = first;
  return 1;
}

// Narrows [*low, *high) to the n with 0 <= start + n · step < extent; step is not 0.
static void narrow(int64_t start, int64_t step, int64_t extent, int64_t *low, int64_t *high) {
  int64_t first, last;
  if (step > 0) {
    first = -divide(start, step);
    last = -divide(start - extent, step);
  } else {
    first = divide(start - extent, -step) + 1;
    last = divide(start, -step) + 1;
  }
  if (first > *low) *low = first;
  if (last < *high) *high = last;
}

// One dimension: where it starts, and how it grows. 0: not constant, or too large.
typedef struct line {
  int64_t start, step[2];
} line;

static int find_line(const vil_run *run, const vil_r_descriptor *d, uint32_t k,
                     const int64_t origin[2], const uint32_t counts[2], uint32_t *term, line *out) {
  const vil_r_term *terms = run->program->terms + d->first_term;
  *out = (line){vil_value(run, d->dimensions[k].base, 0), {0, 0}};
  double size = size_of(out->start);
  for (; *term < d->term_count && terms[*term].dimension == k; ++*term) {
    const vil_r_term *at = &terms[*term];
    int64_t coefficient = vil_value(run, at->coefficient, 0), first, step;
    if (at->kind == VIL_TERM_SREG) {
      first = run->arena->sregs[at->index];
      size += size_of(first) * size_of(coefficient);
      if (size > TAME) return 0;
      out->start += first * coefficient;
      continue;
    }
    int axis = at->kind - VIL_TERM_ROW;
    if (!digit_line(run, &d->axes[axis], at->index, origin[axis], counts[axis], &first, &step))
      return 0;
    size += (size_of(first) + counts[axis]) * size_of(coefficient);
    if (size > TAME) return 0;
    out->start += first * coefficient;
    out->step[axis] += step * coefficient;
  }
  return 1;
}

// Cuts the block to what is inside the dimension; 0 when that is no rectangle.
static int cut(const line *l, int64_t extent, block *b) {
  if (l->step[0] && l->step[1]) {
    int64_t least = l->start, most = l->start;
    for (int axis = 0; axis < 2; ++axis) {
      int64_t grown = l->step[axis] * ((int64_t)b->counts[axis] - 1);
      *(grown < 0 ? &least : &most) += grown;
    }
    return least >= 0 && most < extent;
  }
  if (l->step[0]) {
    narrow(l->start, l->step[0], extent, &b->low[0], &b->high[0]);
  } else if (l->step[1]) {
    narrow(l->start, l->step[1], extent, &b->low[1], &b->high[1]);
  } else if (l->start < 0 || l->start >= extent) {
    b->high[0] = b->low[0];
  }
  return 1;
}

// The offset of a corner is in range; everything between corners then is.
static int corners_fit(const block *b, uint64_t elements) {
  int64_t rows = (b->high[0] - b->low[0] - 1) * b->step[0],
          columns = (b->high[1] - b->low[1] - 1) * b->step[1];
  int64_t least = b->offset + (rows < 0 ? rows : 0) + (columns < 0 ? columns : 0);
  int64_t most = b->offset + (rows > 0 ? rows : 0) + (columns > 0 ? columns : 0);
  return least >= 0 && (uint64_t)most < elements;
}

// Finds the block; 0 when vil_move.c must do the operation.
static int find_block(const vil_run *run, const vil_r_descriptor *d, uint32_t rows,
                      uint32_t columns, const uint32_t valid[2], uint64_t elements, block *b) {
  int64_t origin[2];
  uint32_t whole[2] = {rows, columns}, term = 0;
  for (int axis = 0; axis < 2; ++axis) {
    origin[axis] = vil_value(run, d->axes[axis].origin, 0);
    if (size_of(origin[axis]) > TAME) return 0;
    b->counts[axis] = count_of(run, &d->axes[axis], whole[axis], origin[axis]);
    if (b->counts[axis] > valid[axis]) b->counts[axis] = valid[axis];
    b->low[axis] = 0;
    b->high[axis] = b->counts[axis];
    b->step[axis] = 0;
  }
  b->offset = 0;
  if (b->counts[0] == 0 || b->counts[1] == 0) return 1;
  line lines[5];
  double reach = 0;
  for (uint32_t k = 0; k < d->rank; ++k) {
    int64_t extent = vil_value(run, d->dimensions[k].extent, 0),
            stride = vil_value(run, d->dimensions[k].stride, 0);
    if (!find_line(run, d, k, origin, b->counts, &term, &lines[k]) || size_of(extent) > TAME ||
        !cut(&lines[k], extent, b))
      return 0;
    double longest = size_of(lines[k].step[0]) * b->counts[0] +
                     size_of(lines[k].step[1]) * b->counts[1] + size_of(lines[k].start);
    reach += longest * size_of(stride);
  }
  if (reach > TAME) return 0;
  if (b->low[0] >= b->high[0] || b->low[1] >= b->high[1]) {
    b->low[0] = b->high[0] = b->low[1] = b->high[1] = 0;
    return 1;
  }
  for (uint32_t k = 0; k < d->rank; ++k) {
    int64_t stride = vil_value(run, d->dimensions[k].stride, 0);
    b->step[0] += lines[k].step[0] * stride;
    b->step[1] += lines[k].step[1] * stride;
    b->offset +=
        (lines[k].start + b->low[0] * lines[k].step[0] + b->low[1] * lines[k].step[1]) * stride;
  }
  return corners_fit(b, elements);
}

// ---- Copies ----

// Copies a row past the caches.
static void stream_row(uint8_t *to, const uint8_t *from, uint64_t bytes) {
#ifdef __SSE2__
  uint64_t head = (0 - (uintptr_t)to) & 15;
  if (bytes >= 64 + head) {
    memcpy(to, from, head);
    uint64_t at = head;
    for (; at + 64 <= bytes; at += 64) {
      for (int k = 0; k < 64; k += 16)
        _mm_stream_si128((__m128i *)(void *)(to + at + k),
                         _mm_loadu_si128((const __m128i *)(const void *)(from + at + k)));
    }
    memcpy(to + at, from + at, bytes - at);
    return;
  }
#endif
  memcpy(to, from, bytes);
}

void vil_stream_fence(void) {
#ifdef __SSE2__
  _mm_sfence();
#endif
}

// ---- The two operations ----

static void fill_bits(const vil_r_descriptor *d, uint8_t bits[8]) {
  double value;
  memcpy(&value, &d->fill, 8);
  memcpy(bits, &d->fill, 8);
  if (vil_is_float(d->dtype) || vil_is_float8(d->dtype)) vil_from_f64(bits, d->dtype, &value, 1, 0);
}

static void fill_span(uint8_t *row, int64_t low, int64_t high, uint32_t bytes,
                      const uint8_t bits[8]) {
  for (int64_t j = low; j < high; ++j) memcpy(row + j * bytes, bits, bytes);
}

// Fills what is outside of the inner rectangle.
static void fill_outside(const vil_r_descriptor *d, const vil_tile_view *tile, const block *b,
                         uint32_t bytes) {
  uint8_t bits[8];
  if (b->low[0] == 0 && b->low[1] == 0 && b->high[0] == b->counts[0] && b->high[1] == b->counts[1])
    return;
  fill_bits(d, bits);
  for (int64_t i = 0; i < b->counts[0]; ++i) {
    uint8_t *row = (uint8_t *)tile->data + i * tile->columns * bytes;
    int inside = i >= b->low[0] && i < b->high[0];
    fill_span(row, 0, inside ? b->low[1] : b->counts[1], bytes, bits);
    if (inside) fill_span(row, b->high[1], b->counts[1], bytes, bits);
  }
}

static void clean_bools(const vil_tile_view *tile, const block *b) {
  for (int64_t i = b->low[0]; i < b->high[0]; ++i) {
    uint8_t *row = (uint8_t *)tile->data + i * tile->columns;
    for (int64_t j = b->low[1]; j < b->high[1]; ++j) row[j] = row[j] != 0;
  }
}

static void load_block(vil_run *run, const vil_instruction *at, const vil_tile_view *tile,
                       const uint8_t *data, const block *b, uint32_t bytes) {
  const vil_r_descriptor *d = &run->program->descriptors[at->x];
  int64_t rows = b->high[0] - b->low[0], columns = b->high[1] - b->low[1];
  const uint8_t *from = data + b->offset * bytes;
  vil_set_valid(run, at, VIL_D, b->counts[0], b->counts[1]);
  if (rows == b->counts[0] && columns == b->counts[1] && rows > 0 && d->param < 64 &&
      run->may_share >> d->param & 1 && d->dtype != HAL_DTYPE_BOOL) {
    if ((b->step[1] == 1 || columns == 1) && (b->step[0] >= 0 || rows == 1)) {
      vil_share(run, at, from, rows == 1 ? tile->columns : (uint64_t)b->step[0], 0);
      return;
    }
    if (run->hooks->takes_turned && b->step[0] == 1 && b->step[1] > 1) {
      vil_share(run, at, from, (uint64_t)b->step[1], 1);
      return;
    }
  }
  fill_outside(d, tile, b, bytes);
  if (rows == 0 || columns == 0) return;
  uint8_t *to = (uint8_t *)tile->data + (b->low[0] * tile->columns + b->low[1]) * bytes;
  vil_copy_area(to, (int64_t)tile->columns * bytes, bytes, from, b->step[0] * bytes,
                b->step[1] * bytes, rows, columns, bytes);
  if (d->dtype == HAL_DTYPE_BOOL) clean_bools(tile, b);
}

static void store_block(vil_run *run, const vil_instruction *at, const vil_tile_view *tile,
                        uint8_t *data, const block *b, uint32_t bytes) {
  int64_t rows = b->high[0] - b->low[0], columns = b->high[1] - b->low[1];
  int64_t pitch = (int64_t)tile->pitch * bytes;
  const uint8_t *from = (const uint8_t *)tile->data + b->low[0] * pitch + b->low[1] * bytes;
  uint8_t *to = data + b->offset * bytes;
  if (at->flags & VIL_FLAG_STREAM && b->step[1] == 1) {
    for (int64_t i = 0; i < rows; ++i)
      stream_row(to + i * b->step[0] * bytes, from + i * pitch, (uint64_t)columns * bytes);
    run->streams = 1;
    return;
  }
  vil_copy_area(to, b->step[0] * bytes, b->step[1] * bytes, from, pitch, bytes, rows, columns,
                bytes);
}

int vil_store_place(const vil_run *run, const vil_instruction *at, const vil_tile_view *tile,
                    vil_tile_view *out_place) {
  const vil_r_descriptor *d = &run->program->descriptors[at->x];
  const vil_bound *bound = &run->step->params[d->param];
  uint32_t bytes = vil_dtype_bytes(d->dtype), valid[2] = {tile->valid_rows, tile->valid_columns};
  block b;
  if (!find_block(run, d, tile->rows, tile->columns, valid, bound->bytes / bytes, &b)) return 0;
  for (int axis = 0; axis < 2; ++axis) {
    if (b.low[axis] != 0 || b.high[axis] != valid[axis]) return 0;
  }
  if (b.step[1] != 1 || b.step[0] < 0) return 0;
  *out_place = *tile;
  out_place->data = bound->data + b.offset * bytes;
  out_place->pitch = (uint64_t)b.step[0];
  return 1;
}

int vil_run_block(vil_run *run, const vil_instruction *at) {
  const vil_r_descriptor *d = &run->program->descriptors[at->x];
  if (d->param == VIL_NONE) return 0;
  const vil_bound *bound = &run->step->params[d->param];
  uint32_t bytes = vil_dtype_bytes(d->dtype);
  int loads = at->op == VIL_LOAD;
  vil_tile_view tile = loads ? vil_view_target(run, at, VIL_D) : vil_view_shared(run, at, VIL_A);
  uint32_t whole[2] = {tile.rows, tile.columns}, valid[2] = {tile.valid_rows, tile.valid_columns};
  block b;
  if (!find_block(run, d, tile.rows, tile.columns, loads ? whole : valid, bound->bytes / bytes, &b))
    return 0;
  if (loads) {
    load_block(run, at, &tile, bound->data, &b, bytes);
  } else if (b.high[0] > b.low[0] && b.high[1] > b.low[1]) {
    store_block(run, at, &tile, bound->data, &b, bytes);
  }
  return 1;
}
