// What a running program has under its instructions: working memory, views of tiles, faults.
#include <stdlib.h>

#include "vil_launch.h"

// ---- Working memory ----

vil_arena *vil_arena_create(void) {
  return calloc(1, sizeof(vil_arena));
}

void vil_arena_free(vil_arena *arena) {
  if (!arena) return;
  free(arena->tiles);
  free(arena->stages);
  free(arena->sregs);
  free(arena->scratch);
  free(arena);
}

// Makes *block at least `bytes` long; what it held is lost. 1 done, 0 no memory.
static int grow(void **block, uint64_t *have, uint64_t bytes) {
  if (bytes <= *have) return 1;
  uint64_t want = (bytes + 4095) & ~(uint64_t)4095;
  free(*block);
  *block = aligned_alloc(64, want);
  *have = *block ? want : 0;
  return *block != NULL;
}

int vil_arena_hold(vil_arena *arena, const vil_program *program) {
  return grow((void **)&arena->tiles, &arena->tiles_bytes, program->arena_bytes + 64) &&
         grow((void **)&arena->stages, &arena->stages_bytes,
              sizeof(vil_stage) * (program->stage_count + 1ull)) &&
         grow((void **)&arena->sregs, &arena->sregs_bytes, 8ull * program->sreg_count);
}

void *vil_scratch(vil_arena *arena, uint64_t bytes) {
  return grow((void **)&arena->scratch, &arena->scratch_bytes, bytes ? bytes : 1) ? arena->scratch
                                                                                  : NULL;
}

int32_t vil_fault(vil_run *run, const char *format, ...) {
  char what[400];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(what, sizeof(what), format, arguments);
  va_end(arguments);
  const vil_instruction *at = &run->program->code[run->at];
  return vil_refuse(run->reason, HAL_ERROR_EXECUTION_FAILED, "program %s: instruction %u (%s): %s",
                    run->program->name, run->at, vil_op_name(at->op), what);
}

// ---- Operands ----

static uint32_t stage_of(const vil_run *run, const vil_r_tile *tile, uint16_t value) {
  if (tile->stages == 1 || value == VIL_NONE) return 0;
  int64_t stage = vil_value(run, value, 0) % tile->stages;
  return (uint32_t)(stage < 0 ? stage + tile->stages : stage);
}

uint32_t vil_operand_stage(const vil_run *run, const vil_instruction *at, int operand) {
  uint16_t index = at->operands[operand].tile;
  if (index == VIL_NONE) return VIL_NONE32;
  const vil_r_tile *tile = &run->program->tiles[index];
  return run->program->stage_first[index] + stage_of(run, tile, at->operands[operand].stage);
}

void vil_operand_roles(const vil_instruction *at, uint32_t *reads, uint32_t *writes) {
  *writes = 1u << VIL_D;
  *reads = 1u << VIL_A | 1u << VIL_B | 1u << VIL_C;
  if (at->op == VIL_STORE || at->op == VIL_SCATTER) {
    *writes = at->operands[VIL_D].tile == VIL_NONE ? 0 : 1u << VIL_D;  // A near target.
  } else if (at->op == VIL_TOPK) {
    *writes |= 1u << VIL_C;
    if (at->flags & VIL_FLAG_INIT) *reads = 1u << VIL_A;
  }
}

static vil_stage *stage_at(const vil_run *run, const vil_instruction *at, int operand) {
  uint16_t index = at->operands[operand].tile;
  uint32_t stage = stage_of(run, &run->program->tiles[index], at->operands[operand].stage);
  return &run->arena->stages[run->program->stage_first[index] + stage];
}

vil_tile_view vil_view_target(const vil_run *run, const vil_instruction *at, int operand) {
  vil_tile_view view = {0};
  uint16_t index = at->operands[operand].tile;
  if (index == VIL_NONE) return view;
  const vil_program *program = run->program;
  const vil_r_tile *tile = &program->tiles[index];
  uint32_t stage = stage_of(run, tile, at->operands[operand].stage);
  const vil_stage *is = &run->arena->stages[program->stage_first[index] + stage];
  view.dtype = tile->dtype;
  view.rows = tile->rows;
  view.columns = tile->columns;
  view.valid_rows = is->rows;
  view.valid_columns = is->columns;
  view.pitch = tile->columns;
  view.data = run->arena->tiles + program->tile_at[index];
  if (stage) {
    uint64_t bytes = (uint64_t)tile->rows * tile->columns * vil_dtype_bytes(tile->dtype);
    view.data = (uint8_t *)view.data + stage * ((bytes + 63) & ~UINT64_C(63));
  }
  return view;
}

vil_tile_view vil_view_shared(const vil_run *run, const vil_instruction *at, int operand) {
  vil_tile_view view = vil_view_target(run, at, operand);
  if (!view.data) return view;
  const vil_stage *stage = stage_at(run, at, operand);
  if (stage->shared) {
    view.data = (void *)(uintptr_t)stage->shared;
    view.pitch = stage->pitch;
    view.turned = stage->turned;
    if (view.turned && (at->op != VIL_MMA || operand != VIL_B))
      vil_view_settle(run, at, operand, &view);
  }
  return view;
}

void vil_view_settle(const vil_run *run, const vil_instruction *at, int operand,
                     vil_tile_view *view) {
  vil_tile_view own = vil_view_target(run, at, operand);
  if (own.data == view->data) return;
  int64_t bytes = vil_dtype_bytes(own.dtype), pitch = (int64_t)view->pitch * bytes;
  vil_copy_area(own.data, own.columns * bytes, bytes, view->data, view->turned ? bytes : pitch,
                view->turned ? pitch : bytes, view->valid_rows, view->valid_columns,
                (uint32_t)bytes);
  view->data = own.data;
  view->pitch = own.pitch;
  view->turned = 0;
  stage_at(run, at, operand)->shared = NULL;
}

vil_tile_view vil_view(const vil_run *run, const vil_instruction *at, int operand) {
  vil_tile_view view = vil_view_shared(run, at, operand);
  if (view.data) vil_view_settle(run, at, operand, &view);
  return view;
}

void vil_share(const vil_run *run, const vil_instruction *at, const uint8_t *data, uint64_t pitch,
               int turned) {
  vil_stage *stage = stage_at(run, at, VIL_D);
  stage->shared = data;
  stage->pitch = pitch;
  stage->turned = turned;
}

void vil_set_valid(const vil_run *run, const vil_instruction *at, int operand, uint32_t rows,
                   uint32_t columns) {
  *stage_at(run, at, operand) = (vil_stage){.rows = rows, .columns = columns};
}
