// MMA: chooses a product for the types, packs, and walks over blocks (docs/vil.md, section 5.6).
//
// The order of loops keeps a block of the left matrix in the second-level cache and a panel of the
// right one between the first and the second: Goto and van de Geijn, "Anatomy of high-performance
// matrix multiplication", ACM TOMS 34(3), 2008.

// ---- Optional ----
#include "tiles.h"
#include "vil_launch.h"

enum {
  LEFT_ROWS = 128,     // Rows of the left matrix that are packed at once, at most: 264 KiB.
  RIGHT_COLUMNS = 512  // Columns of the right one: 1 MiB.
};

typedef struct view {
  const uint8_t *data;
  uint64_t pitch_bytes;
  uint32_t dtype, bytes;
} view;

// Of a turned tile, the rows are its columns.
static view view_of(const vil_tile_view *tile) {
  uint32_t bytes = vil_dtype_bytes(tile->dtype);
  return (view){tile->data, tile->pitch * bytes, tile->dtype, bytes};
}

static const uint8_t *element(const view *v, uint32_t row, uint32_t column) {
  return v->data + row * v->pitch_bytes + (uint64_t)column * v->bytes;
}

static uint32_t smaller(uint32_t a, uint32_t b) {
  return a < b ? a : b;
}

static uint32_t round_up(uint32_t value, uint32_t unit) {
  return (value + unit - 1) / unit * unit;
}

// One product while it runs.
typedef struct job {
  const cpu_product *product, *careful;  // The second does what the first does not.
  const vil_operation *o;
  view left, right;
  uint8_t *packed_left, *packed_right;
  uint32_t depth, padded;  // Of the present step.
  uint32_t left_rows;      // Packed at once.
  size_t panel_bytes, left_bytes, room_bytes;
  bool in_place;       // The right matrix is read where it lies.
  bool left_in_place;  // The left one is.
  bool add;
} job;

static void multiply_block(const job *j, uint32_t at, uint32_t first_row, uint32_t rows,
                           uint32_t column, uint32_t columns, const void *right, int64_t line) {
  const cpu_product *p = j->product;
  const uint8_t *left = j->left_in_place ? element(&j->left, first_row, at) : j->packed_left;
  uint64_t left_bytes = j->left_in_place ? j->left.pitch_bytes : CPU_ROW_BYTES;
  uint32_t bytes = vil_dtype_bytes(j->o->d.dtype);
  for (uint32_t i = 0; i < rows; i += p->rows) {
    uint8_t *target =
        (uint8_t *)j->o->d.data + ((uint64_t)(first_row + i) * j->o->d.columns + column) * bytes;
    p->multiply(left + i * left_bytes, (int64_t)(left_bytes / p->value_bytes), right, line,
                j->padded, target, j->o->d.columns, smaller(p->rows, rows - i), columns, j->add);
  }
}

// Packs `rows` rows of the left matrix; false when the product does not do their values.
static bool pack_rows(const job *j, uint32_t at, uint32_t first_row, uint32_t rows) {
  const cpu_product *p = j->product;
  bool is_done = true;
  for (uint32_t i = 0; i < rows && !j->left_in_place; ++i) {
    uint8_t *out = j->packed_left + (size_t)i * CPU_ROW_BYTES;
    is_done &= p->pack_left(out, element(&j->left, first_row + i, at), j->left.dtype, j->depth);
    memset(out + (size_t)j->depth * p->value_bytes, 0,
           (size_t)(j->padded - j->depth) * p->value_bytes);
  }
  return is_done;
}

// Multiplies the packed rows by `columns` packed columns.
static void multiply_rows(const job *j, uint32_t at, uint32_t first_row, uint32_t rows,
                          uint32_t first_column, uint32_t columns) {
  const cpu_product *p = j->product;
  for (uint32_t n = 0, panel = 0; n < columns; n += p->columns, ++panel) {
    uint32_t width = smaller(p->columns, columns - n);
    if (j->in_place && width == p->columns) {
      multiply_block(j, at, first_row, rows, first_column + n, width,
                     element(&j->right, at, first_column + n),
                     (int64_t)(j->right.pitch_bytes / j->right.bytes));
    } else {
      multiply_block(j, at, first_row, rows, first_column + n, width,
                     j->packed_right + panel * j->panel_bytes, p->columns);
    }
  }
}

// The panels of a turned right matrix of single values, which need no conversion. A few columns at
// a time, which lie one after another in memory; the next ones are fetched meanwhile.
static void turn_columns(const job *j, uint32_t at, uint32_t first, uint32_t columns) {
  enum { FEW = 16, LINE_BYTES = 64 };
  const cpu_product *p = j->product;
  uint32_t bytes = p->value_bytes, line = p->columns * bytes, width;
  uint32_t last = columns % p->columns;
  if (last) {
    memset(j->packed_right + columns / p->columns * j->panel_bytes, 0, (size_t)line * j->depth);
  }
  for (uint32_t n = 0; n < columns; n += width) {
    uint32_t inside = n % p->columns;
    width = smaller(smaller(FEW, p->columns - inside), columns - n);
    const uint8_t *from = element(&j->right, first + n, at);
    for (uint32_t i = 0; i < smaller(width, columns - n - width); ++i) {
      const uint8_t *next = element(&j->right, first + n + width + i, at);
      for (uint32_t k = 0; k < j->depth * bytes; k += LINE_BYTES) __builtin_prefetch(next + k);
    }
    vil_copy_area(j->packed_right + n / p->columns * j->panel_bytes + (size_t)inside * bytes, line,
                  bytes, from, bytes, (int64_t)j->right.pitch_bytes, j->depth, width, bytes);
  }
}

static bool pack_columns(const job *j, uint32_t at, uint32_t first, uint32_t columns) {
  const cpu_product *p = j->product;
  if (j->o->b.turned) {
    turn_columns(j, at, first, columns);
    return true;
  }
  uint32_t whole = j->in_place ? columns / p->columns * p->columns : 0;
  if (whole == columns) return true;
  bool is_done = p->pack_right(j->packed_right + whole / p->columns * j->panel_bytes,
                               j->panel_bytes, element(&j->right, at, first + whole),
                               (int64_t)(j->right.pitch_bytes / j->right.bytes), j->right.dtype,
                               j->depth, columns - whole);
  uint32_t lines = round_up(j->depth, p->group) / p->group;
  size_t used = (size_t)lines * p->group * p->value_bytes * p->columns;
  for (uint32_t panel = whole / p->columns; panel * p->columns < columns && used < j->panel_bytes;
       ++panel)
    memset(j->packed_right + panel * j->panel_bytes + used, 0, j->panel_bytes - used);
  return is_done;
}

// Rows that are packed at once: whole blocks.
static uint32_t most_rows(const cpu_product *p) {
  return LEFT_ROWS / p->rows * p->rows;
}

static size_t bytes_of_left(const cpu_product *p, uint32_t rows) {
  return (size_t)smaller(round_up(rows, p->rows), most_rows(p)) * CPU_ROW_BYTES;
}

static size_t bytes_of_room(const cpu_product *p, uint32_t rows, uint32_t columns) {
  size_t right = round_up(smaller(columns, RIGHT_COLUMNS), p->columns);
  return bytes_of_left(p, rows) + right * CPU_DEPTH_BYTES + 64;
}

// Takes the room for packed values; false without memory.
static bool take_room(job *j) {
  uint8_t *room = vil_scratch(j->o->arena, j->room_bytes);
  if (!room) return false;
  if (j->product->needs_rows) memset(room, 0, j->left_bytes);
  j->packed_left = room;
  j->packed_right = room + round_up((uint32_t)j->left_bytes, 64);
  return true;
}

static bool multiply(const cpu_product *p, const cpu_product *careful, const vil_operation *o,
                     uint32_t depth);

// The part of a step whose values the product does not do; it takes the room of this job.
static bool multiply_carefully(const job *j, uint32_t at, uint32_t first_row, uint32_t rows,
                               uint32_t first_column, uint32_t columns) {
  vil_operation part = *j->o;
  part.a.data = (uint8_t *)element(&j->left, first_row, at);
  part.b.data = (uint8_t *)element(&j->right, at, first_column);
  part.d.data = (uint8_t *)j->o->d.data + ((uint64_t)first_row * j->o->d.columns + first_column) *
                                              vil_dtype_bytes(j->o->d.dtype);
  part.d.valid_rows = rows;
  part.d.valid_columns = columns;
  if (j->add) part.flags &= (uint8_t)~VIL_FLAG_INIT;
  return multiply(j->careful, NULL, &part, j->depth);
}

// Rows by packed columns.
static bool multiply_panels(job *j, uint32_t at, uint32_t first_column, uint32_t columns) {
  uint32_t rows = j->o->d.valid_rows;
  for (uint32_t m = 0; m < rows; m += j->left_rows) {
    uint32_t count = smaller(j->left_rows, rows - m);
    if (pack_rows(j, at, m, count)) {
      multiply_rows(j, at, m, count, first_column, columns);
      continue;
    }
    if (!multiply_carefully(j, at, m, count, first_column, columns) || !take_room(j)) return false;
    pack_columns(j, at, first_column, columns);
  }
  return true;
}

// False without memory; the target is then as it was.
static bool multiply(const cpu_product *p, const cpu_product *careful, const vil_operation *o,
                     uint32_t depth) {
  uint32_t rows = o->d.valid_rows, columns = o->d.valid_columns,
           most = CPU_DEPTH_BYTES / p->value_bytes;
  job j = {
      .product = p, .careful = careful, .o = o, .left = view_of(&o->a), .right = view_of(&o->b)};
  j.left_rows = most_rows(p);
  j.left_bytes = bytes_of_left(p, rows);
  j.room_bytes = bytes_of_room(p, rows, columns);
  // Taken at once, so that nothing fails midway.
  if (careful && bytes_of_room(careful, rows, columns) > j.room_bytes)
    j.room_bytes = bytes_of_room(careful, rows, columns);
  // One block of rows uses each packed value once, so packing would not pay. Where rows are short,
  // panels lie as near to each other as packed ones.
  bool near = j.right.pitch_bytes <= 4ull * p->columns * p->value_bytes;
  j.in_place =
      p->group == 1 && o->b.dtype == o->d.dtype && !o->b.turned && (rows <= p->rows || near);
  // Few panels use each left value a few times only. Rows whole pages apart would meet in one set
  // of the first-level cache.
  j.left_in_place = p->group == 1 && o->a.dtype == o->d.dtype && columns <= 4 * p->columns &&
                    j.left.pitch_bytes % 4096 != 0;
  if (!take_room(&j)) return false;
  if (p->begin) p->begin();
  bool is_done = true;
  for (uint32_t at = 0; at < depth && is_done; at += most) {
    j.depth = smaller(most, depth - at);
    j.padded = round_up(j.depth, p->depth_multiple);
    j.panel_bytes = (size_t)j.padded * p->value_bytes * p->columns;
    j.add = at > 0 || !(o->flags & VIL_FLAG_INIT);
    for (uint32_t n = 0; n < columns && is_done; n += RIGHT_COLUMNS) {
      uint32_t width = smaller(RIGHT_COLUMNS, columns - n);
      is_done = pack_columns(&j, at, n, width)
                    ? multiply_panels(&j, at, n, width)
                    : multiply_carefully(&j, at, 0, rows, n, width) && take_room(&j);
    }
  }
  if (p->end) p->end();
  return is_done;
}

// ---- Optional: 8-bit integers whose kernels want u8 · i8 ----

static int32_t integer_at(const view *v, uint32_t row, uint32_t column) {
  const uint8_t *at = element(v, row, column);
  return v->dtype == HAL_DTYPE_I8 ? *(const int8_t *)at : *at;
}

// The packed left is a + p and the packed right b − q, where p and q are 128 or 0, so
//   Σ a·b = Σ (a + p)·(b − q) − p · Σ (b − q) + q · Σ a
// and this adds the last two terms. Everything wraps.
static void add_shifts(const vil_operation *o, uint32_t depth) {
  view a = view_of(&o->a), b = view_of(&o->b);
  uint32_t p = a.dtype == HAL_DTYPE_I8 ? 128 : 0, q = b.dtype == HAL_DTYPE_U8 ? 128 : 0;
  enum { CHUNK = 256 };
  for (uint32_t first = 0; first < o->d.valid_columns && (p || q); first += CHUNK) {
    uint32_t sums[CHUNK] = {0}, count = smaller(CHUNK, o->d.valid_columns - first);
    for (uint32_t l = 0; l < depth && p; ++l) {
      for (uint32_t n = 0; n < count; ++n) sums[n] += (uint32_t)integer_at(&b, l, first + n) - q;
    }
    for (uint32_t m = 0; m < o->d.valid_rows; ++m) {
      uint32_t *row = (uint32_t *)o->d.data + (uint64_t)m * o->d.columns + first, sum = 0;
      for (uint32_t l = 0; l < depth && q; ++l) sum += (uint32_t)integer_at(&a, m, l);
      for (uint32_t n = 0; n < count; ++n) row[n] += q * sum - p * sums[n];
    }
  }
}

// ---- Optional: the choice ----

static const cpu_product *choose(const cpu_set *set, const vil_operation *o) {
  uint32_t dtype = o->a.dtype;
  if (dtype == HAL_DTYPE_BF16 && set->bf16) return set->bf16;
  if (o->d.dtype == HAL_DTYPE_F32) return set->f32;
  if (o->d.dtype == HAL_DTYPE_F64) return set->f64;
  if (dtype == HAL_DTYPE_I32) return set->i32;
  if (o->d.dtype == HAL_DTYPE_I32) return set->i8 ? set->i8 : set->i32;
  return NULL;  // i64
}

static void clear(const vil_operation *o) {
  uint64_t bytes = vil_dtype_bytes(o->d.dtype);
  for (uint32_t i = 0; i < o->d.valid_rows; ++i)
    memset((uint8_t *)o->d.data + i * o->d.columns * bytes, 0, o->d.valid_columns * bytes);
}

int cpu_matrix(const cpu_set *set, const vil_operation *o) {
  uint32_t depth = smaller(o->a.valid_columns, o->b.valid_rows);
  if (o->d.valid_rows == 0 || o->d.valid_columns == 0) return 1;
  if (depth == 0) {
    if (o->flags & VIL_FLAG_INIT) clear(o);
    return 1;
  }
  if (o->b.turned && o->b.dtype != o->d.dtype) return 0;
  const cpu_product *product = choose(set, o);
  if (!product || !multiply(product, set->f32, o, depth)) return 0;
  if (product->shifts) add_shifts(o, depth);
  return 1;
}
