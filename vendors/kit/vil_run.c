// Runs a bound launch: control flow, SREGs, and the dispatch of tile operations.
#include <string.h>

#include "vil_launch.h"

// ---- Tile operations ----

static void run_copy(const vil_operation *o) {
  uint32_t bytes = vil_dtype_bytes(o->d.dtype);
  uint64_t pitch = (uint64_t)o->d.columns * bytes;
  for (uint32_t i = 0; i < o->d.valid_rows; i++)
    memcpy((uint8_t *)o->d.data + i * pitch, (const uint8_t *)o->a.data + i * pitch,
           (uint64_t)o->d.valid_columns * bytes);
}

static void run_fill(const vil_run *run, const vil_instruction *at, const vil_operation *o) {
  uint64_t bits;
  uint32_t source;
  if (at->flags & VIL_FLAG_SCALAR) {
    bits = run->step->params[at->x].scalar;
    source = run->program->params[at->x].dtype;
  } else {
    bits = run->program->constants[at->x];
    source = vil_is_float(o->d.dtype) ? HAL_DTYPE_F64 : HAL_DTYPE_I64;
  }
  vil_run_fill(o, bits, source);
}

static int32_t run_topk(vil_run *run, const vil_instruction *at, vil_operation *o) {
  int init = at->flags & VIL_FLAG_INIT;
  uint32_t length = init ? 0 : vil_smaller(o->d.valid_columns, o->c.valid_columns);
  uint32_t rows = init
                      ? o->a.valid_rows
                      : vil_smaller(vil_smaller(o->d.valid_rows, o->c.valid_rows), o->a.valid_rows);
  uint32_t after =
      length + o->a.valid_columns < o->d.columns ? length + o->a.valid_columns : o->d.columns;
  o->d.valid_rows = o->c.valid_rows = rows;
  o->d.valid_columns = o->c.valid_columns = after;
  vil_set_valid(run, at, VIL_D, rows, after);
  vil_set_valid(run, at, VIL_C, rows, after);
  return vil_run_topk(run->arena, o, length);
}

// The kit's own code takes tiles without gaps.
static void settle(const vil_run *run, const vil_instruction *at, vil_operation *o) {
  if (o->a.data) vil_view_settle(run, at, VIL_A, &o->a);
  if (o->b.data) vil_view_settle(run, at, VIL_B, &o->b);
  if (o->c.data) vil_view_settle(run, at, VIL_C, &o->c);
}

// 1: the hook did the operation.
static int asks_hook(const vil_run *run, const vil_instruction *at, vil_operation *o) {
  const vil_hooks *hooks = run->hooks;
  if (!hooks || !hooks->tile) return 0;
  if (hooks->tile(hooks->context, o)) return 1;
  if (!o->b.turned) return 0;
  vil_view_settle(run, at, VIL_B, &o->b);
  return hooks->tile(hooks->context, o);
}

static int32_t run_tile(vil_run *run, const vil_instruction *at) {
  vil_operation o = {.op = at->op,
                     .function = at->function,
                     .axis = at->axis,
                     .flags = at->flags,
                     .arena = run->arena};
  int is_kept = at->op == VIL_TOPK || (at->op == VIL_MMA && !(at->flags & VIL_FLAG_INIT));
  o.d = is_kept ? vil_view(run, at, VIL_D) : vil_view_target(run, at, VIL_D);
  o.a = vil_view_shared(run, at, VIL_A);
  o.b = vil_view_shared(run, at, VIL_B);
  o.c = at->op == VIL_TOPK ? vil_view(run, at, VIL_C) : vil_view_shared(run, at, VIL_C);
  for (int k = 0; k < 4; k++) o.values[k] = vil_value(run, at->values[k], 0);
  if (at->op == VIL_TOPK) {
    vil_view_settle(run, at, VIL_A, &o.a);
    return run_topk(run, at, &o);
  }
  vil_result_valid(run, at, &o);
  if (at->op == VIL_RED && at->function >= VIL_ARGMAX && o.d.valid_rows && o.d.valid_columns &&
      !(at->axis == 0 ? o.a.valid_rows : o.a.valid_columns)) {
    return vil_fault(run, "%s over nothing", vil_function_name(at->function));
  }
  if (asks_hook(run, at, &o)) return HAL_OK;
  if (run->may_share) settle(run, at, &o);
  switch (at->op) {
    case VIL_FILL:
      run_fill(run, at, &o);
      return HAL_OK;
    case VIL_IOTA:
      vil_run_iota(&o);
      return HAL_OK;
    case VIL_UN:
      return vil_run_unary(run->arena, &o);
    case VIL_BIN:
      return vil_run_binary(run->arena, &o);
    case VIL_SEL:
      return vil_run_select(&o);
    case VIL_CAST:
      return vil_run_cast(run->arena, &o);
    case VIL_RED:
      return vil_run_reduce(run->arena, &o);
    case VIL_MMA:
      return vil_run_matrix(run->arena, &o);
    case VIL_TRN:
      vil_run_transpose(&o);
      return HAL_OK;
    case VIL_COPY:
      run_copy(&o);
      return HAL_OK;
    case VIL_SCAN:
      return vil_run_scan(run->arena, &o);
    default:
      vil_run_random(&o);
      return HAL_OK;
  }
}

// ---- Control ----

static void run_sreg(vil_run *run, const vil_instruction *at) {
  int64_t *out = &run->arena->sregs[at->x];
  int64_t left = vil_value(run, at->values[0], 0), right = 0;
  switch (at->function) {
    case VIL_MOV:
      *out = left;
      break;
    case VIL_ARG: {
      uint64_t bits = run->step->params[at->values[0]].scalar;
      *out = run->program->params[at->values[0]].dtype == HAL_DTYPE_I32 ? (int32_t)bits
                                                                        : (int64_t)bits;
      break;
    }
    case VIL_TILE: {
      vil_tile_view tile = vil_view(run, at, VIL_A);
      *out = tile.valid_rows && tile.valid_columns ? vil_read_int(tile.data, tile.dtype) : 0;
      break;
    }
    case VIL_GRID:
      *out = (int64_t)run->step->grid[at->axis];
      break;
    case VIL_CHOOSE:
      *out = left != 0 ? vil_value(run, at->values[1], 0) : vil_value(run, at->values[2], 0);
      break;
    default:
      right = vil_value(run, at->values[1], 0);
      *out = vil_compute_i64(at->function, left, right);
  }
}

typedef struct loop {
  uint32_t start;
  int64_t count;
} loop;

static int32_t run_program(vil_run *run) {
  const vil_program *program = run->program;
  int64_t *sregs = run->arena->sregs;
  loop loops[4];
  int depth = 0;
  int32_t status = HAL_OK;
  int is_watched = run->race || (run->hooks && run->hooks->watch && run->hooks->watch->element);
  for (uint32_t at = 0; at < program->instruction_count && !status; at++) {
    const vil_instruction *instruction = &program->code[at];
    run->at = at;
    if (program->chains[at].count && vil_run_chain(run, &program->chains[at])) {
      at += program->chains[at].count - 1;
      continue;
    }
    if (run->race && (status = vil_race_step(run, instruction))) return status;
    switch (instruction->op) {
      case VIL_LOAD:
      case VIL_STORE:
        if (!is_watched && vil_run_block(run, instruction)) break;
        status = vil_run_move(run, instruction);
        break;
      case VIL_GATHER:
      case VIL_SCATTER:
        status = vil_run_move(run, instruction);
        break;
      case VIL_SREG:
        run_sreg(run, instruction);
        break;
      case VIL_LOOP: {
        int64_t count = vil_value(run, instruction->values[0], 0);
        sregs[instruction->x] = 0;
        if (count <= 0)
          at = program->matches[at];
        else
          loops[depth++] = (loop){at, count};
        break;
      }
      case VIL_IF:
        if (vil_value(run, instruction->values[0], 0) == 0) at = program->matches[at];
        break;
      case VIL_END: {
        uint32_t start = program->matches[at];
        if (program->code[start].op == VIL_IF) break;
        int64_t *counter = &sregs[program->code[start].x];
        if (++*counter < loops[depth - 1].count)
          at = start;
        else
          depth--;
        break;
      }
      case VIL_SIGNAL:
      case VIL_WAIT:
        break;  // One thread runs all engines in program order.
      default:
        status = run_tile(run, instruction);
    }
  }
  return status;
}

// Parameters whose buffers nothing writes while the step runs.
static uint64_t shareable(const vil_step *step) {
  const vil_program *program = step->program;
  uint64_t found = 0;
  for (uint32_t i = 0; i < program->param_count && i < 64; i++) {
    const vil_bound *one = &step->params[i];
    int is_free = program->params[i].kind == VIL_BUFFER && program->params[i].access == VIL_READ;
    for (uint32_t k = 0; k < program->param_count && is_free; k++) {
      const vil_bound *other = &step->params[k];
      is_free = program->params[k].kind != VIL_BUFFER || program->params[k].access == VIL_READ ||
                one->data + one->bytes <= other->data || other->data + other->bytes <= one->data;
    }
    found |= (uint64_t)is_free << i;
  }
  return found;
}

int32_t vil_launch_run_range(const void *storage, uint32_t step_index, uint64_t first,
                             uint64_t count, vil_arena *arena, const vil_hooks *hooks, char *text,
                             size_t capacity) {
  const vil_step *step = &((const vil_launch *)storage)->steps[step_index];
  const vil_program *program = step->program;
  vil_reason reason = {text, capacity};
  if (program->entry && !(hooks && hooks->watch))
    return vil_run_entry(step, first, count, arena, &reason);
  vil_run run = {
      .step = step, .program = program, .arena = arena, .hooks = hooks, .reason = &reason};
  if (!vil_arena_hold(arena, program)) {
    return vil_refuse(&reason, HAL_ERROR_OUT_OF_MEMORY,
                      "program %s: no memory for %llu bytes of tiles", program->name,
                      (unsigned long long)program->arena_bytes);
  }
  const vil_watch *watch = hooks ? hooks->watch : NULL;
  if (watch && watch->engines && program->profile && !(run.race = vil_race_create(program)))
    return vil_refuse(&reason, HAL_ERROR_OUT_OF_MEMORY, "no memory to check the order of engines");
  if (hooks && hooks->takes_pitch && !watch) run.may_share = shareable(step);
  int32_t status = HAL_OK;
  for (uint64_t n = first; n < first + count && !status; n++) {
    if (run.race) vil_race_begin(run.race);
    memset(arena->stages, 0, sizeof(vil_stage) * program->stage_count);
    memset(arena->sregs, 0, 8ull * program->sreg_count);
    arena->sregs[0] = (int64_t)(n % step->grid[0]);
    arena->sregs[1] = (int64_t)(n / step->grid[0] % step->grid[1]);
    arena->sregs[2] = (int64_t)(n / step->grid[0] / step->grid[1]);
    status = run_program(&run);
  }
  vil_race_free(run.race);
  if (run.streams) vil_stream_fence();
  return status;
}

int32_t vil_launch_run(const void *storage, vil_arena *arena, const vil_hooks *hooks, char *reason,
                       size_t capacity) {
  for (uint32_t step = 0; step < vil_launch_steps(storage); step++) {
    int32_t status = vil_launch_run_range(storage, step, 0, vil_launch_programs(storage, step),
                                          arena, hooks, reason, capacity);
    if (status) return status;
  }
  return HAL_OK;
}
