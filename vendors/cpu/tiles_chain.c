// Chains (vil.h) on rows of f32. A chain is cut into phases: a phase goes over a row once, a block
// of it in registers at a time; where an operation needs what a reduction of the same row gives, or
// numbers of one a row are computed, the next phase begins. As many rows are taken at a time as
// stay in the first cache, so that every phase but the first finds its rows there, and while one
// phase computes it fetches the rows that come next.

// ---- Optional ----
#include "tiles.h"
#include "vil_launch.h"

enum {
  MOST_STEPS = 3 * VIL_CHAIN_LINKS,
  MOST_TEMPS = 8,
  CACHED = 6144,  // Elements of a tile's rows that are taken at once: 24 KiB.
  NO_TILE = 0xFFFF
};

// Where the rows of a tile stand. Rows of a temp are numbered from the first that is taken.
typedef struct place {
  float *data;
  uint64_t pitch;  // Elements from row to row; 0: all rows are one.
  bool is_temp;
} place;

typedef struct step_source {
  place row;            // Of TAKE, ROW, PUT, STREAM, FETCH.
  const float *scalar;  // Of SCALAR: a number a row.
  uint64_t scalar_pitch;
  float *result;  // Of FOLD: a number a row.
} step_source;

// Steps [first, end), or the link of a column operation.
typedef struct phase {
  uint32_t first, end;
  const vil_link *column;
} phase;

typedef struct chain {
  const cpu_rows *set;
  const vil_link *links;
  uint32_t count, rows, columns, taken;  // `taken` rows at a time.
  uint32_t step_count, phase_count;
  uint16_t running;  // The tile that the block holds; NO_TILE: none.
  uint32_t maker;    // The link that made the block's value; count: none.
  uint32_t folded;   // Links of this phase whose result is complete at a row's end.
  uint32_t needed;   // Links whose result is read from memory.
  float *temps;      // `taken` rows for each tile that is not kept.
  uint16_t temp_tiles[MOST_TEMPS];
  uint32_t temp_count;
  cpu_step steps[MOST_STEPS];
  step_source sources[MOST_STEPS];
  phase phases[VIL_CHAIN_LINKS + 1];
} chain;

// ---- Optional: what the set can do ----

static bool does_whole(const cpu_rows *set, const vil_operation *o) {
  cpu_step step = {.kind = o->op == VIL_UN ? CPU_STEP_UNARY : CPU_STEP_SCALAR,
                   .function = o->function};
  if (o->op == VIL_UN)
    return o->function == VIL_MOV ||
           (o->function != VIL_SIN && o->function != VIL_COS && set->find_step(&step));
  return o->op != VIL_BIN || set->find_step(&step);
}

static bool does_column(const vil_operation *o) {
  switch (o->op) {
    case VIL_UN:
      return o->a.dtype == HAL_DTYPE_F32 && o->function < VIL_NOT;
    case VIL_BIN:
      return o->a.dtype == HAL_DTYPE_F32 &&
             ((o->function >= VIL_ADD && o->function <= VIL_MIN) || o->function >= VIL_LT);
    default:
      return true;
  }
}

static bool does_all(const chain *c) {
  for (uint32_t i = 0; i < c->count; ++i) {
    const vil_operation *o = &c->links[i].o;
    bool fits = c->links[i].is_column ? does_column(o) : o->op == VIL_LOAD || does_whole(c->set, o);
    if (!fits) return false;
  }
  return true;
}

// ---- Optional: building ----

static cpu_step *add(chain *c, cpu_step_kind kind, uint8_t function, place row) {
  cpu_step *step = &c->steps[c->step_count];
  step->kind = kind;
  step->function = function;
  c->sources[c->step_count++] = (step_source){.row = row};
  return step;
}

static void end_phase(chain *c) {
  phase *now = &c->phases[c->phase_count];
  if (c->step_count > now->first) {
    add(c, CPU_STEP_END, 0, (place){0});
    now->end = c->step_count;
    now->column = NULL;
    c->phases[++c->phase_count].first = c->step_count;
  }
  c->running = NO_TILE;
  c->folded = 0;
}

static void add_column(chain *c, const vil_link *link) {
  end_phase(c);
  c->phases[c->phase_count].column = link;
  c->phases[++c->phase_count].first = c->step_count;
}

// The link before `end` that wrote a tile last; count: none did.
static uint32_t maker_of(const chain *c, uint16_t tile, uint32_t end) {
  for (uint32_t i = end; i-- > 0;) {
    const vil_link *link = &c->links[i];
    if (link->o.op != VIL_STORE && link->tiles[VIL_D] == tile) return i;
  }
  return c->count;
}

// A tile that some link of the chain leaves behind it stands in its own memory all the time.
static bool is_kept(const chain *c, uint16_t tile) {
  for (uint32_t i = 0; i < c->count; ++i) {
    if (c->links[i].tiles[VIL_D] == tile && c->links[i].is_kept) return true;
  }
  return false;
}

static place place_of_result(chain *c, const vil_link *link) {
  uint16_t tile = link->tiles[VIL_D];
  if (is_kept(c, tile)) return (place){link->o.d.data, link->o.d.pitch, false};
  uint32_t number = 0;
  while (number < c->temp_count && c->temp_tiles[number] != tile) ++number;
  if (number == c->temp_count && number < MOST_TEMPS) c->temp_tiles[c->temp_count++] = tile;
  uint64_t pitch = (c->columns + 15) & ~UINT64_C(15);
  return (place){c->temps ? c->temps + number * pitch * c->taken : NULL, pitch, true};
}

// Where an operand of link i is read.
static place place_of(chain *c, uint32_t i, int operand) {
  const vil_link *link = &c->links[i];
  uint16_t tile = link->tiles[operand];
  const vil_tile_view *view = operand == VIL_A ? &link->o.a : &link->o.b;
  uint32_t maker = maker_of(c, tile, i);
  if (maker < c->count && c->links[maker].o.op != VIL_LOAD) {
    c->needed |= UINT32_C(1) << maker;
    return place_of_result(c, &c->links[maker]);
  }
  return (place){view->data, view->rows == 1 ? 0 : view->pitch, false};
}

static void take(chain *c, uint32_t i, int operand) {
  uint16_t tile = c->links[i].tiles[operand];
  if (c->running == tile) return;
  place from = place_of(c, i, operand);
  add(c, CPU_STEP_TAKE, 0, from);
  c->running = tile;
}

static bool is_single(const vil_tile_view *view) {
  return view->columns == 1;
}

static void add_binary(chain *c, uint32_t i) {
  const vil_link *link = &c->links[i];
  const vil_operation *o = &link->o;
  uint16_t a = link->tiles[VIL_A], b = link->tiles[VIL_B];
  bool reversed = is_single(&o->a) || (c->running != a && c->running == b) ||
                  (!is_single(&o->b) && o->a.rows < o->d.rows);
  take(c, i, reversed ? VIL_B : VIL_A);
  if (a == b) {
    add(c, CPU_STEP_TWICE, o->function, (place){0});
    return;
  }
  const vil_tile_view *other = reversed ? &o->a : &o->b;
  if (is_single(other)) {
    add(c, reversed ? CPU_STEP_REVERSED : CPU_STEP_SCALAR, o->function, (place){0});
    step_source *source = &c->sources[c->step_count - 1];
    source->scalar = other->data;
    source->scalar_pitch = other->rows == 1 ? 0 : other->pitch;
  } else {
    place row = place_of(c, i, reversed ? VIL_A : VIL_B);
    add(c, reversed ? CPU_STEP_ROW_REVERSED : CPU_STEP_ROW, o->function, row);
  }
}

static void add_store(chain *c, const vil_operation *o) {
  bool aligned = ((uintptr_t)o->d.data | o->d.pitch * 4) % 64 == 0;
  bool streams = o->flags & VIL_FLAG_STREAM && aligned;
  add(c, streams ? CPU_STEP_STREAM : CPU_STEP_PUT, 0, (place){o->d.data, o->d.pitch, false});
}

// The link reads what a reduction of this phase gives.
static bool waits(const chain *c, const vil_link *link, uint32_t i) {
  for (int k = VIL_A; k <= VIL_B; ++k) {
    uint32_t maker = link->tiles[k] == NO_TILE ? c->count : maker_of(c, link->tiles[k], i);
    if (maker < c->count && c->folded >> maker & 1) return true;
  }
  return false;
}

static void add_link(chain *c, uint32_t i) {
  const vil_link *link = &c->links[i];
  const vil_operation *o = &link->o;
  if (link->is_column) {
    add_column(c, link);
    return;
  }
  if (o->op == VIL_LOAD) return;
  if (waits(c, link, i)) end_phase(c);
  if (o->op == VIL_BIN) {
    add_binary(c, i);
  } else {
    take(c, i, VIL_A);
    if (o->op == VIL_STORE) {
      add_store(c, o);
    } else if (o->op == VIL_RED) {
      add(c, CPU_STEP_FOLD, o->function, (place){0});
      c->sources[c->step_count - 1].result = o->d.data;
      c->folded |= UINT32_C(1) << i;
    } else if (o->function != VIL_MOV) {
      add(c, CPU_STEP_UNARY, o->function, (place){0});
    }
  }
  if (o->op == VIL_STORE || o->op == VIL_RED) return;
  c->running = link->tiles[VIL_D];
  if (link->is_kept || c->needed >> i & 1) add(c, CPU_STEP_PUT, 0, place_of_result(c, link));
}

static void build(chain *c) {
  c->step_count = c->phase_count = 0;
  c->phases[0].first = 0;
  c->running = NO_TILE;
  c->folded = 0;
  for (uint32_t i = 0; i < c->count; ++i) add_link(c, i);
  end_phase(c);
}

// Puts a step that fetches the rows which come next before the end of the phase that computes most.
static void add_fetch(chain *c) {
  const step_source *first = &c->sources[0];
  uint32_t best = 0, most = 0;
  if (c->phase_count < 2 || c->steps[0].kind != CPU_STEP_TAKE || first->row.is_temp ||
      first->row.pitch == 0)
    return;
  for (uint32_t p = 1; p < c->phase_count; ++p) {
    uint32_t weight = 0;
    if (c->phases[p].column) continue;
    for (uint32_t s = c->phases[p].first; s < c->phases[p].end; ++s)
      weight += c->steps[s].kind == CPU_STEP_UNARY ? 4 : 1;
    if (weight > most) {
      most = weight;
      best = p;
    }
  }
  if (most == 0) return;
  uint32_t at = c->phases[best].end - 1;
  for (uint32_t s = c->step_count; s > at; --s) {
    c->steps[s] = c->steps[s - 1];
    c->sources[s] = c->sources[s - 1];
  }
  c->steps[at].kind = CPU_STEP_FETCH;
  c->sources[at] = (step_source){
      .row = {first->row.data + c->taken * first->row.pitch, first->row.pitch, false}};
  ++c->step_count;
  ++c->phases[best].end;
  for (uint32_t p = best + 1; p <= c->phase_count; ++p) {
    ++c->phases[p].first;
    ++c->phases[p].end;
  }
}

// ---- Optional: running ----

// The last elements of a row, fewer than a block.
static void run_tail(const chain *c, const phase *now, size_t at, size_t n) {
  float block[CPU_CHAIN_BLOCK];
  for (uint32_t s = now->first; s < now->end; ++s) {
    const cpu_step *step = &c->steps[s];
    float fold, *row = step->row ? step->row + at : NULL;
    switch (step->kind) {
      case CPU_STEP_TAKE:
        memcpy(block, row, n * 4);
        break;
      case CPU_STEP_UNARY:
        c->set->unary_f32(step->function, block, block, n);
        break;
      case CPU_STEP_SCALAR:
        c->set->binary_f32(step->function, block, block, &step->scalar, n, 2);
        break;
      case CPU_STEP_REVERSED:
        c->set->binary_f32(step->function, block, &step->scalar, block, n, 1);
        break;
      case CPU_STEP_ROW:
        c->set->binary_f32(step->function, block, block, row, n, 0);
        break;
      case CPU_STEP_ROW_REVERSED:
        c->set->binary_f32(step->function, block, row, block, n, 0);
        break;
      case CPU_STEP_TWICE:
        c->set->binary_f32(step->function, block, block, block, n, 0);
        break;
      case CPU_STEP_FOLD:
        c->set->fold_f32(step->function, block, n, &fold);
        c->set->binary_f32(step->function, (float *)step->folds, step->folds, &fold, 1, 0);
        break;
      case CPU_STEP_PUT:
      case CPU_STEP_STREAM:
        memcpy(row, block, n * 4);
        break;
      case CPU_STEP_FETCH:
      case CPU_STEP_END:
        break;
    }
  }
}

// Points the steps of a phase at a row: number `row` of the tiles, `row` − `first` of the temps.
static void point(chain *c, const phase *now, uint32_t row, uint32_t first) {
  for (uint32_t s = now->first; s < now->end; ++s) {
    cpu_step *step = &c->steps[s];
    const step_source *source = &c->sources[s];
    if (source->row.data)
      step->row = source->row.data + (row - (source->row.is_temp ? first : 0)) * source->row.pitch;
    if (source->scalar) step->scalar = source->scalar[row * source->scalar_pitch];
  }
}

static void run_row(chain *c, const phase *now, uint32_t row) {
  cpu_step *steps = &c->steps[now->first];
  step_source *sources = &c->sources[now->first];
  if (now->end - now->first == 3 && steps[1].kind == CPU_STEP_FOLD) {  // A reduction alone.
    c->set->fold_f32(steps[1].function, steps->row, c->columns, sources[1].result + row);
    return;
  }
  size_t whole = c->columns / c->set->block * c->set->block;
  c->set->run_steps(steps, whole);
  if (whole < c->columns) run_tail(c, now, whole, c->columns - whole);
  for (uint32_t s = 0; s < now->end - now->first; ++s) {
    if (steps[s].kind == CPU_STEP_FOLD)
      c->set->fold_f32(steps[s].function, steps[s].folds, c->set->block, sources[s].result + row);
  }
}

static void shift(vil_tile_view *view, uint32_t first, uint32_t rows) {
  if (!view->data || view->rows == 1) return;
  view->data = (uint8_t *)view->data + first * view->pitch * vil_dtype_bytes(view->dtype);
  view->rows = view->valid_rows = rows;
}

static void run_column(const chain *c, const vil_link *link, uint32_t first, uint32_t rows) {
  vil_operation o = link->o;
  shift(&o.d, first, rows);
  shift(&o.a, first, rows);
  shift(&o.b, first, rows);
  shift(&o.c, first, rows);
  cpu_elements(c->set, &o);
}

static void run(chain *c) {
  for (uint32_t first = 0; first < c->rows; first += c->taken) {
    uint32_t rows = c->rows - first < c->taken ? c->rows - first : c->taken;
    for (uint32_t p = 0; p < c->phase_count; ++p) {
      const phase *now = &c->phases[p];
      if (now->column) run_column(c, now->column, first, rows);
      for (uint32_t row = first; row < first + rows && !now->column; ++row) {
        point(c, now, row, first);
        run_row(c, now, row);
      }
    }
  }
}

int cpu_chain(const cpu_rows *set, const vil_link *links, uint32_t count, uint32_t rows,
              uint32_t columns) {
  chain c;
  memset(&c, 0, offsetof(chain, steps));
  c.set = set;
  c.links = links;
  c.count = count;
  c.rows = rows;
  c.columns = columns;
  if (columns < set->block || !does_all(&c)) return 0;
  c.taken = columns < CACHED ? CACHED / columns : 1;
  if (c.taken > rows) c.taken = rows;
  build(&c);  // Finds what must stand in memory.
  if (c.temp_count == MOST_TEMPS) return 0;
  uint64_t pitch = (columns + 15) & ~UINT64_C(15);
  c.temps = c.temp_count ? vil_scratch(links->o.arena, c.temp_count * c.taken * pitch * 4) : NULL;
  if (c.temp_count && !c.temps) return 0;
  build(&c);
  add_fetch(&c);
  for (uint32_t s = 0; s < c.step_count; ++s) {
    if (!set->find_step(&c.steps[s])) return 0;
  }
  run(&c);
  return 1;
}
