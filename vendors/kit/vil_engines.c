// The list schedule of one program instance: its control flow is followed without data, and each
// tile instruction is put on its engine as early as issue, engine, unit and operands allow.
//
// All times and sums of the schedule stand in one array (`now`). A loop is followed until the array
// grows by the same amounts from turn to turn, entry by entry; then all turns but the last are
// added at once. Because each entry grows at its own rate, an engine that falls behind later still
// decides the end.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "vil_cost.h"
#include "vil_launch.h"

enum { TOKEN_ROOM = 16, MOST_STAGES = 8, HISTORY = 2 * MOST_STAGES + 1, MOST_TURNS = 64 };
enum { DEPTH = 4, FULL_EFFORT = 20000 };

// Places in `now`.
enum {
  AT_ISSUE = 0,
  AT_FREE = 1,                      // When an engine has taken its last instruction; by engine.
  AT_DONE = AT_FREE + VIL_ENGINES,  // When all results of an engine are there.
  AT_UNIT = AT_DONE + VIL_ENGINES,  // When a unit is free.
  AT_STAGES = AT_UNIT + VIL_ENGINES
};

// How a descriptor lies in memory.
typedef struct shape {
  double unit[2];  // Elements from one row (column) to the next.
  double run[2];   // Rows (columns) that keep this distance; 0: all.
} shape;

struct vil_scheduler {
  const vil_cost *cost;
  const vil_step *step;
  const vil_program *program;
  vil_assumptions *assumed;
  uint32_t stages, works, length, sregs;  // Lengths; `length` is that of `now`.
  uint32_t first_token, first_work;       // Places in `now`.
  uint32_t period;                        // Turns after which stages come round again.
  uint32_t effort;                        // Instructions followed for this instance.
  uint32_t depth;
  double *now;
  double *history[DEPTH];  // HISTORY copies of `now` a loop depth.
  int64_t *values;         // SREGs.
  int64_t *past[DEPTH];
  uint8_t *known;     // Of an SREG: its value does not depend on data.
  uint32_t *valid;    // Pairs rows, columns, one per stage.
  uint8_t *writer;    // Engine that wrote a stage last.
  uint16_t *pending;  // Signals of a token that no WAIT took.
  shape *shapes;      // Of the descriptors.
};

// ---- Values ----

static int64_t value_of(const vil_scheduler *s, uint16_t value, int64_t absent, int *known) {
  if (value == VIL_NONE) return absent;
  if (!(value & VIL_SREG_BIT)) return s->step->values[value];
  uint16_t number = value & 0x7FFFu;
  if (!s->known[number]) *known = 0;
  return s->values[number];
}

static void run_sreg(vil_scheduler *s, const vil_instruction *at) {
  int known = 1;
  int64_t left = value_of(s, at->values[0], 0, &known);
  int64_t result = 0;
  switch (at->function) {
    case VIL_MOV:
      result = left;
      break;
    case VIL_ARG: {
      known = 1;
      uint64_t bits = s->step->params[at->values[0]].scalar;
      result =
          s->program->params[at->values[0]].dtype == HAL_DTYPE_I32 ? (int32_t)bits : (int64_t)bits;
      break;
    }
    case VIL_TILE:
      known = 0;
      break;
    case VIL_GRID:
      known = 1;
      result = (int64_t)s->step->grid[at->axis];
      break;
    case VIL_CHOOSE:
      result =
          left != 0 ? value_of(s, at->values[1], 0, &known) : value_of(s, at->values[2], 0, &known);
      break;
    default:
      result = vil_compute_i64(at->function, left, value_of(s, at->values[1], 0, &known));
  }
  s->values[at->x] = known ? result : 0;
  s->known[at->x] = (uint8_t)known;
}

// ---- Tiles ----

static uint32_t stage_at(vil_scheduler *s, const vil_instruction *at, int operand) {
  uint16_t index = at->operands[operand].tile;
  if (index == VIL_NONE) return VIL_NONE32;
  int known = 1;
  uint32_t count = s->program->tiles[index].stages;
  int64_t stage = count == 1 ? 0 : value_of(s, at->operands[operand].stage, 0, &known) % count;
  return s->program->stage_first[index] + (uint32_t)(stage < 0 ? stage + count : stage);
}

static const vil_r_tile *tile_at(const vil_scheduler *s, const vil_instruction *at, int operand) {
  uint16_t index = at->operands[operand].tile;
  return index == VIL_NONE ? NULL : &s->program->tiles[index];
}

static uint32_t axis_count(vil_scheduler *s, const vil_r_axis *axis, uint32_t whole) {
  int known = 1;
  if (axis->limit == VIL_NONE) return whole;
  __int128 count =
      (__int128)value_of(s, axis->limit, 0, &known) - value_of(s, axis->origin, 0, &known);
  return !known || count > whole ? whole : count < 0 ? 0 : (uint32_t)count;
}

static void elementwise_valid(vil_scheduler *s, const vil_instruction *at, const uint32_t stages[4],
                              uint32_t out[2]) {
  const vil_r_tile *d = tile_at(s, at, VIL_D);
  out[0] = d->rows;
  out[1] = d->columns;
  for (int k = VIL_A; k <= VIL_C; ++k) {
    const vil_r_tile *tile = tile_at(s, at, k);
    if (tile == NULL) continue;
    out[0] = vil_broadcast_valid(d->rows, out[0], tile->rows, s->valid[2 * stages[k]]);
    out[1] = vil_broadcast_valid(d->columns, out[1], tile->columns, s->valid[2 * stages[k] + 1]);
  }
}

// The valid region of an operation's result (docs/vil.md, sections 1.5 and 1.6).
static void result_valid(vil_scheduler *s, const vil_instruction *at, const uint32_t stages[4],
                         uint32_t out[2]) {
  int known = 1;
  const vil_r_tile *d = tile_at(s, at, VIL_D);
  const uint32_t *a = at->operands[VIL_A].tile == VIL_NONE ? NULL : s->valid + 2 * stages[VIL_A];
  const uint32_t *old = s->valid + 2 * stages[VIL_D];
  out[0] = d->rows;
  out[1] = d->columns;
  switch (at->op) {
    case VIL_FILL:
      out[0] = at->values[0] == VIL_NONE
                   ? d->rows
                   : vil_clamp(value_of(s, at->values[0], 0, &known), d->rows);
      out[1] = at->values[1] == VIL_NONE
                   ? d->columns
                   : vil_clamp(value_of(s, at->values[1], 0, &known), d->columns);
      if (!known) out[0] = d->rows, out[1] = d->columns;
      break;
    case VIL_IOTA:
    case VIL_RNG:
      break;
    case VIL_RED:
      out[0] = at->axis == 0 ? 1 : a[0];
      out[1] = at->axis == 0 ? a[1] : 1;
      break;
    case VIL_MMA: {
      uint32_t columns = s->valid[2 * stages[VIL_B] + 1];
      out[0] = at->flags & VIL_FLAG_INIT ? a[0] : vil_smaller(old[0], a[0]);
      out[1] = at->flags & VIL_FLAG_INIT ? columns : vil_smaller(old[1], columns);
      break;
    }
    case VIL_TRN:
      out[0] = a[1];
      out[1] = a[0];
      break;
    case VIL_COPY:
    case VIL_SCAN:
      out[0] = a[0];
      out[1] = a[1];
      break;
    case VIL_TOPK: {
      int init = at->flags & VIL_FLAG_INIT;
      out[0] = init ? a[0] : vil_smaller(old[0], a[0]);
      out[1] = vil_smaller(d->columns, (init ? 0 : old[1]) + a[1]);
      break;
    }
    default:
      elementwise_valid(s, at, stages, out);
  }
}

// ---- Descriptors ----

static void measure_descriptor(vil_scheduler *s, uint32_t index) {
  const vil_r_descriptor *descriptor = &s->program->descriptors[index];
  const vil_r_term *terms = s->program->terms + descriptor->first_term;
  shape *out = &s->shapes[index];
  *out = (shape){{0, 0}, {0, 0}};
  int known = 1;
  for (uint32_t t = 0; t < descriptor->term_count; ++t) {
    if (terms[t].kind == VIL_TERM_SREG) continue;
    int axis = terms[t].kind - VIL_TERM_ROW;
    uint16_t size = descriptor->axes[axis].digits[terms[t].index].size;
    if (value_of(s, descriptor->axes[axis].digits[terms[t].index].divisor, 1, &known) != 1)
      continue;
    out->unit[axis] +=
        (double)value_of(s, terms[t].coefficient, 0, &known) *
        (double)value_of(s, descriptor->dimensions[terms[t].dimension].stride, 0, &known);
    if (size != VIL_NONE) out->run[axis] = (double)value_of(s, size, 0, &known);
  }
}

// Contiguous runs of a region: how many, and the elements of each.
static void count_runs(const shape *lies, double rows, double columns, double *runs,
                       double *elements) {
  double lengths[2] = {rows, columns};
  for (int pass = 1; pass >= 0; --pass) {  // Along the columns first.
    double length = lengths[pass];
    double run = lies->run[pass] > 0 ? fmin(lies->run[pass], length) : length;
    if (fabs(lies->unit[pass]) != 1 || (length <= 1 && lengths[!pass] > 1)) continue;
    *elements = run;
    *runs = rows * columns / fmax(run, 1);
    if (run == length && fabs(lies->unit[!pass]) == length) {  // Row joins row.
      *elements = rows * columns;
      *runs = 1;
    }
    return;
  }
  *elements = 1;
  *runs = rows * columns;
  if (lies->unit[1] == 0) *runs = rows;  // One element for all columns.
  if (lies->unit[0] == 0 && lies->unit[1] == 0) *runs = 1;
}

// ---- One instruction ----

static vil_duration measure_move(vil_scheduler *s, const vil_instruction *at,
                                 const uint32_t stages[4], const vil_r_tile *tile, uint32_t operand,
                                 uint32_t region[2]) {
  const vil_r_descriptor *descriptor = &s->program->descriptors[at->x];
  region[0] = axis_count(s, &descriptor->axes[0], tile->rows);
  region[1] = axis_count(s, &descriptor->axes[1], tile->columns);
  int loads = at->op == VIL_LOAD || at->op == VIL_GATHER;
  if (!loads) {
    region[0] = vil_smaller(region[0], s->valid[2 * stages[operand]]);
    region[1] = vil_smaller(region[1], s->valid[2 * stages[operand] + 1]);
  }
  if (at->op == VIL_GATHER) region[0] = vil_smaller(region[0], s->valid[2 * stages[VIL_A]]);
  if (at->op == VIL_SCATTER) region[0] = vil_smaller(region[0], s->valid[2 * stages[VIL_B]]);
  double elements = (double)region[0] * region[1];
  double *work = s->now + s->first_work;
  if (descriptor->param == VIL_NONE) {
    work[VIL_WORK_ELEMENTS] += elements;
    return vil_vector_duration(s->cost, VIL_CLASS_GATHER, tile->dtype, elements);
  }
  double runs = 0, run_elements = 0, bytes = 0;
  count_runs(&s->shapes[at->x], region[0], region[1], &runs, &run_elements);
  if (elements == 0) runs = 0;
  if (at->op == VIL_GATHER || at->op == VIL_SCATTER) runs = fmax(runs, region[1] ? region[0] : 0);
  run_elements = runs > 0 ? fmin(run_elements, elements / runs) : 0;
  if (at->op == VIL_SCATTER && at->function != VIL_SET) runs *= 2;  // Read, combined, written.
  uint32_t bytes_each = vil_dtype_bytes(tile->dtype);
  vil_duration duration =
      vil_path_duration(s->cost, loads ? 0 : tile->space, loads ? tile->space : 0, runs,
                        fmax(run_elements, 1) * bytes_each, &bytes);
  work[loads ? VIL_WORK_LOADED : VIL_WORK_STORED] += bytes;
  work[VIL_WORK_PARAMS + descriptor->param] += bytes;
  return duration;
}

static vil_duration measure_tile(vil_scheduler *s, const vil_instruction *at,
                                 const uint32_t stages[4], uint32_t region[2]) {
  const vil_r_tile *d = tile_at(s, at, VIL_D), *a = tile_at(s, at, VIL_A);
  double *work = s->now + s->first_work;
  result_valid(s, at, stages, region);
  double elements = (double)region[0] * region[1];
  if (at->op == VIL_MMA) {
    const uint32_t *left = s->valid + 2 * stages[VIL_A], *right = s->valid + 2 * stages[VIL_B];
    double depth = vil_smaller(left[1], right[0]);
    work[VIL_WORK_MACS] += elements * depth;
    return vil_product_duration(s->cost, a->dtype, tile_at(s, at, VIL_B)->dtype, region[0],
                                region[1], depth);
  }
  if ((at->op == VIL_COPY || at->op == VIL_TRN) && a->space != d->space) {
    double bytes = 0;
    return vil_path_duration(s->cost, a->space, d->space, 1, elements * vil_dtype_bytes(d->dtype),
                             &bytes);
  }
  uint32_t dtype = d->dtype;
  if (at->op == VIL_RED || at->op == VIL_TOPK || at->op == VIL_BIN) {
    dtype = a->dtype;  // Of comparisons and reductions the operand's type decides.
  }
  if (at->op == VIL_RED || at->op == VIL_TOPK) {
    elements = (double)s->valid[2 * stages[VIL_A]] * s->valid[2 * stages[VIL_A] + 1];
  }
  if (at->op == VIL_TOPK) elements *= ceil(log2(1.0 + d->columns));
  if (at->op == VIL_SCAN) elements *= 2;  // Up and down the tree (Blelloch, 1990).
  work[VIL_WORK_ELEMENTS] += elements;
  return vil_vector_duration(s->cost, vil_class_of(at->op, at->function), dtype, elements);
}

// The earliest start by the operands. In the explicit profile engines meet at tokens only.
static double operands_ready(const vil_scheduler *s, const vil_instruction *at,
                             const uint32_t stages[4], uint32_t reads, uint32_t writes) {
  double start = 0;
  for (int k = VIL_D; k <= VIL_C; ++k) {
    if (stages[k] == VIL_NONE32) continue;
    const double *stage = s->now + AT_STAGES + 2 * stages[k];  // Result there, last read.
    int same = s->writer[stages[k]] == at->engine;
    if (!same && s->program->profile) continue;
    if (reads >> k & 1) start = fmax(start, stage[0]);
    if ((writes >> k & 1) && !same) start = fmax(start, fmax(stage[0], stage[1]));
    if ((writes >> k & 1) && same && !s->program->profile) start = fmax(start, stage[1]);
  }
  return start;
}

static void place(vil_scheduler *s, const vil_instruction *at) {
  double *now = s->now;
  uint32_t stages[4], region[2] = {0, 0}, reads = 0, writes = 0;
  for (int k = VIL_D; k <= VIL_C; ++k) stages[k] = stage_at(s, at, k);
  vil_duration takes;
  if (at->op == VIL_LOAD || at->op == VIL_GATHER) {
    takes = measure_move(s, at, stages, tile_at(s, at, VIL_D), VIL_D, region);
  } else if (at->op == VIL_STORE || at->op == VIL_SCATTER) {
    takes = measure_move(s, at, stages, tile_at(s, at, VIL_A), VIL_A, region);
  } else {
    takes = measure_tile(s, at, stages, region);
  }
  vil_operand_roles(at, &reads, &writes);
  double *unit = now + AT_UNIT + s->cost->unit[at->engine];
  double start = fmax(fmax(now[AT_ISSUE], now[AT_FREE + at->engine]), *unit);
  start = fmax(start, operands_ready(s, at, stages, reads, writes));
  double free = start + takes.occupied_ns, done = free + takes.latency_ns;
  now[AT_FREE + at->engine] = *unit = free;
  now[AT_DONE + at->engine] = fmax(now[AT_DONE + at->engine], done);
  now[s->first_work + VIL_WORK_BUSY + at->engine] += takes.occupied_ns;
  now[s->first_work + VIL_WORK_INSTRUCTIONS] += 1;
  for (int k = VIL_D; k <= VIL_C; ++k) {
    if (stages[k] == VIL_NONE32) continue;
    double *stage = now + AT_STAGES + 2 * stages[k];
    if (reads >> k & 1) stage[1] = fmax(stage[1], free);
    if (!(writes >> k & 1)) continue;
    stage[0] = done;
    s->writer[stages[k]] = at->engine;
  }
  if (at->op == VIL_STORE || at->op == VIL_SCATTER) return;
  s->valid[2 * stages[VIL_D]] = region[0];
  s->valid[2 * stages[VIL_D] + 1] = region[1];
  if (at->op == VIL_TOPK) {
    s->valid[2 * stages[VIL_C]] = region[0];
    s->valid[2 * stages[VIL_C] + 1] = region[1];
  }
}

static void signal(vil_scheduler *s, const vil_instruction *at) {
  double *engine = s->now + AT_FREE + at->engine;
  double *times = s->now + s->first_token + (size_t)at->x * TOKEN_ROOM;
  *engine = fmax(*engine, s->now[AT_ISSUE]) + s->cost->token_ns;
  double when = fmax(*engine, s->now[AT_DONE + at->engine]);
  if (s->pending[at->x] < TOKEN_ROOM) times[s->pending[at->x]] = when;
  ++s->pending[at->x];
}

static void wait(vil_scheduler *s, const vil_instruction *at) {
  double *engine = s->now + AT_FREE + at->engine;
  double *times = s->now + s->first_token + (size_t)at->x * TOKEN_ROOM;
  *engine = fmax(fmax(*engine, s->now[AT_ISSUE]), s->pending[at->x] ? times[0] : 0);
  *engine += s->cost->token_ns;
  if (s->pending[at->x] == 0) return;
  --s->pending[at->x];
  memmove(times, times + 1, (TOKEN_ROOM - 1) * sizeof(*times));
  times[TOKEN_ROOM - 1] = 0;
}

// ---- Control ----

static void follow(vil_scheduler *s, uint32_t first, uint32_t last);

static void keep(vil_scheduler *s, uint32_t depth, uint32_t turn) {
  size_t slot = turn % HISTORY;
  memcpy(s->history[depth] + slot * s->length, s->now, s->length * sizeof(double));
  memcpy(s->past[depth] + slot * s->sregs, s->values, s->sregs * sizeof(int64_t));
}

// Whether the last `period` turns grew as the `period` before.
static int is_steady(const vil_scheduler *s, uint32_t depth, uint32_t turn, uint32_t period) {
  if (turn < 2 * period) return 0;
  const double *last = s->history[depth] + (size_t)((turn - period) % HISTORY) * s->length;
  const double *first = s->history[depth] + (size_t)((turn - 2 * period) % HISTORY) * s->length;
  for (uint32_t i = 0; i < s->length; ++i) {
    double grown = s->now[i] - last[i];
    if (fabs(grown - (last[i] - first[i])) > 1e-6 * (1e-3 + fabs(grown))) return 0;
  }
  return 1;
}

// Adds `turns` (a multiple of `period`) turns like the last ones.
static void leap(vil_scheduler *s, uint32_t depth, uint32_t turn, uint32_t period, int64_t turns) {
  size_t slot = (turn - period) % HISTORY;
  const double *last = s->history[depth] + slot * s->length;
  const int64_t *past = s->past[depth] + slot * s->sregs;
  double times = (double)(turns / period);
  for (uint32_t i = 0; i < s->length; ++i) s->now[i] += (s->now[i] - last[i]) * times;
  for (uint32_t i = 0; i < s->sregs; ++i) {
    uint64_t grown = (uint64_t)s->values[i] - (uint64_t)past[i];
    s->values[i] = (int64_t)((uint64_t)s->values[i] + grown * (uint64_t)(turns / period));
  }
}

// The turns between the followed ones and the last take the mean of the two ends.
static void bridge(vil_scheduler *s, uint32_t depth, uint32_t turn, const double *before,
                   int64_t turns) {
  const double *last = s->history[depth] + (size_t)((turn - 1) % HISTORY) * s->length;
  const double *here = s->history[depth] + (size_t)(turn % HISTORY) * s->length;
  for (uint32_t i = 0; i < s->length; ++i) {
    double ends = (here[i] - last[i]) + (s->now[i] - before[i]);
    s->now[i] += ends / 2 * (double)turns;
  }
  ++s->assumed->mean_loops;
}

static void run_loop(vil_scheduler *s, uint32_t at) {
  const vil_instruction *loop = &s->program->code[at];
  uint32_t end = s->program->matches[at], depth = s->depth++;
  int known = 1;
  int64_t count = value_of(s, loop->values[0], 0, &known);
  if (!known) {
    count = VIL_ASSUMED_COUNT;
    ++s->assumed->open_counts;
  }
  count = count < 0 ? 0 : count;
  for (int64_t turn = 0; turn < count; ++turn) {
    s->values[loop->x] = turn;
    s->known[loop->x] = 1;
    int64_t rest = count - 2 - turn;  // Turns between this one and the last.
    follow(s, at + 1, end);
    if (rest < 1 || turn >= MOST_TURNS) continue;
    uint32_t here = (uint32_t)turn;
    keep(s, depth, here);
    uint32_t period = is_steady(s, depth, here, 1)                            ? 1
                      : s->period > 1 && is_steady(s, depth, here, s->period) ? s->period
                                                                              : 0;
    if (period != 0 && rest >= period) {
      leap(s, depth, here, period, rest / period * period);
      turn += rest / period * period;
    } else if (here + 1 == MOST_TURNS || (s->effort > FULL_EFFORT && here >= 2)) {
      const double *before = s->history[depth] + (size_t)(here % HISTORY) * s->length;
      s->values[loop->x] = count - 1;
      follow(s, at + 1, end);
      bridge(s, depth, here, before, rest);
      break;
    }
  }
  s->values[loop->x] = count;
  s->known[loop->x] = 1;
  --s->depth;
}

// Issues one instruction: the scalar engine decodes in program order and runs ahead of the others
// unless they share its unit.
static void issue(vil_scheduler *s) {
  if (s->cost->issue_ns == 0) return;
  double *unit = s->now + AT_UNIT + s->cost->unit[VIL_ENGINE_SCALAR];
  s->now[AT_ISSUE] = fmax(s->now[AT_ISSUE], *unit) + s->cost->issue_ns;
  *unit = s->now[AT_ISSUE];
  s->now[s->first_work + VIL_WORK_BUSY + VIL_ENGINE_SCALAR] += s->cost->issue_ns;
}

static void follow(vil_scheduler *s, uint32_t first, uint32_t last) {
  for (uint32_t at = first; at < last; ++at) {
    const vil_instruction *instruction = &s->program->code[at];
    ++s->effort;
    issue(s);
    switch (instruction->op) {
      case VIL_LOOP:
        run_loop(s, at);
        at = s->program->matches[at];
        break;
      case VIL_IF: {
        int known = 1;
        int64_t condition = value_of(s, instruction->values[0], 0, &known);
        s->assumed->open_branches += (uint32_t)!known;
        if (known && condition == 0) at = s->program->matches[at];
        break;
      }
      case VIL_END:
        break;
      case VIL_SREG:
        if (instruction->function == VIL_TILE) {  // The issue waits for the tile.
          uint32_t stage = stage_at(s, instruction, VIL_A);
          s->now[AT_ISSUE] = fmax(s->now[AT_ISSUE], s->now[AT_STAGES + 2 * stage]);
        }
        run_sreg(s, instruction);
        break;
      case VIL_SIGNAL:
        signal(s, instruction);
        break;
      case VIL_WAIT:
        wait(s, instruction);
        break;
      default:
        place(s, instruction);
    }
  }
}

// ---- The scheduler ----

static int reserve(vil_scheduler *s) {
  uint32_t depth = 0, deepest = 0;
  const vil_program *program = s->program;
  for (uint32_t i = 0, level[9] = {0}, open = 0; i < program->instruction_count; ++i) {
    uint8_t op = program->code[i].op;
    if (op == VIL_LOOP || op == VIL_IF) {
      level[open++] = op == VIL_LOOP;
      depth += op == VIL_LOOP;
      deepest = depth > deepest ? depth : deepest;
    } else if (op == VIL_END) {
      depth -= level[--open];
    }
  }
  s->now = calloc(s->length, sizeof(double));
  s->values = calloc(s->sregs, sizeof(int64_t));
  s->known = calloc(s->sregs, 1);
  s->valid = calloc(2 * (size_t)s->stages + 2, sizeof(uint32_t));
  s->writer = calloc(s->stages + 1, 1);
  s->pending = calloc(program->token_count + 1, sizeof(uint16_t));
  s->shapes = calloc(program->descriptor_count + 1, sizeof(shape));
  int there = s->now && s->values && s->known && s->valid && s->writer && s->pending && s->shapes;
  for (uint32_t k = 0; k < deepest && there; ++k) {
    s->history[k] = malloc((size_t)HISTORY * s->length * sizeof(double));
    s->past[k] = malloc((size_t)HISTORY * s->sregs * sizeof(int64_t));
    there = s->history[k] != NULL && s->past[k] != NULL;
  }
  return there;
}

vil_scheduler *vil_scheduler_create(const vil_cost *cost, const vil_step *step,
                                    vil_assumptions *assumed) {
  vil_scheduler *s = calloc(1, sizeof(*s));
  if (s == NULL) return NULL;
  const vil_program *program = step->program;
  s->cost = cost;
  s->step = step;
  s->program = program;
  s->assumed = assumed;
  s->stages = program->stage_count;
  s->sregs = program->sreg_count;
  s->works = VIL_WORK_PARAMS + program->param_count;
  s->first_token = AT_STAGES + 2 * s->stages;
  s->first_work = s->first_token + program->token_count * TOKEN_ROOM;
  s->length = s->first_work + s->works;
  s->period = 1;
  for (uint32_t i = 0; i < program->tile_count; ++i) {
    uint32_t stages = program->tiles[i].stages;
    if (stages > s->period && stages <= MOST_STAGES) s->period = stages;
  }
  if (!reserve(s)) {
    vil_scheduler_free(s);
    return NULL;
  }
  memset(s->known, 1, s->sregs);
  for (uint32_t i = 0; i < program->descriptor_count; ++i) measure_descriptor(s, i);
  return s;
}

void vil_scheduler_free(vil_scheduler *s) {
  if (s == NULL) return;
  for (uint32_t k = 0; k < DEPTH; ++k) {
    free(s->history[k]);
    free(s->past[k]);
  }
  free(s->now);
  free(s->values);
  free(s->known);
  free(s->valid);
  free(s->writer);
  free(s->pending);
  free(s->shapes);
  free(s);
}

uint32_t vil_scheduler_works(const vil_scheduler *s) {
  return s->works;
}

vil_class_cost vil_scheduler_run(vil_scheduler *s, const uint64_t ids[3]) {
  memset(s->now, 0, s->length * sizeof(double));
  memset(s->values, 0, s->sregs * sizeof(int64_t));
  memset(s->known, 1, s->sregs);
  memset(s->valid, 0, 2 * (size_t)s->stages * sizeof(uint32_t));
  memset(s->writer, 0, s->stages);
  for (uint32_t t = 0; t < s->program->token_count; ++t) {
    uint16_t credits = s->program->tokens[t].credits;
    s->pending[t] = credits < TOKEN_ROOM ? credits : TOKEN_ROOM;
  }
  for (int axis = 0; axis < 3; ++axis) s->values[axis] = (int64_t)ids[axis];
  s->effort = 0;
  s->depth = 0;
  follow(s, 0, s->program->instruction_count);
  vil_class_cost cost = {.time_ns = s->now[AT_ISSUE], .work = s->now + s->first_work};
  double units[VIL_ENGINES] = {0};
  for (uint32_t engine = 1; engine < VIL_ENGINES; ++engine) {
    cost.time_ns = fmax(cost.time_ns, fmax(s->now[AT_FREE + engine], s->now[AT_DONE + engine]));
    double *unit = &units[s->cost->unit[engine]];
    *unit += cost.work[VIL_WORK_BUSY + engine];
    cost.unit_ns = fmax(cost.unit_ns, *unit);
  }
  return cost;
}
