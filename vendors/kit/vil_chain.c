// Chains: straight runs of operations on whole tiles of one shape, elementwise ones and reductions
// along the columns, with what little stands between them. A port may take a chain at once, row by
// row, so that values pass from operation to operation in registers. Chains are found when a module
// is read; what reads a tile behind its chain is found then, too.
#include <stdlib.h>
#include <string.h>

#include "vil_launch.h"

enum { LEAST_COLUMNS = 64, LEAST_ELEMENTS = 2048, MOST_STAGES = 64 };

enum { NONE, READ, SET };  // The first thing that happens to a tile.

// ---- What is read behind a chain ----

// The instruction gives the whole tile new values and does not read it.
static int sets(const vil_instruction *at, uint32_t tile) {
  if (at->operands[VIL_D].tile != tile || at->operands[VIL_D].stage != VIL_NONE) return 0;
  for (int k = VIL_A; k <= VIL_C; ++k) {
    if (at->operands[k].tile == tile) return 0;
  }
  int init = at->flags & VIL_FLAG_INIT;
  return at->op != VIL_STORE && at->op != VIL_SCATTER && at->op != VIL_TOPK &&
         (at->op != VIL_MMA || init);
}

static int mentions(const vil_instruction *at, uint32_t tile) {
  for (int k = VIL_D; k <= VIL_C; ++k) {
    if (at->operands[k].tile == tile) return 1;
  }
  return 0;
}

// What happens first to the tile in [from, to); blocks may run or not.
static int first_of(const vil_program *program, uint32_t from, uint32_t to, uint32_t tile) {
  for (uint32_t i = from; i < to; ++i) {
    const vil_instruction *at = &program->code[i];
    if (at->op == VIL_LOOP || at->op == VIL_IF) {
      uint32_t end = program->matches[i];
      if (first_of(program, i + 1, end, tile) == READ) return READ;
      i = end;
    } else if (mentions(at, tile)) {
      return sets(at, tile) ? SET : READ;
    }
  }
  return NONE;
}

static int is_read_behind(const vil_program *program, const vil_chain *chain, uint32_t tile) {
  uint32_t end = chain->first + chain->count;
  if (first_of(program, end, program->instruction_count, tile) == READ) return 1;
  for (uint32_t i = 0; i < chain->first; ++i) {  // Loops that hold the chain go round.
    if (program->code[i].op != VIL_LOOP || program->matches[i] < end) continue;
    if (first_of(program, end, program->matches[i], tile) != SET &&
        first_of(program, i + 1, program->matches[i], tile) == READ)
      return 1;
  }
  return 0;
}

// ---- What a chain takes ----

static const vil_r_tile *tile_of(const vil_program *program, const vil_instruction *at, int k) {
  uint16_t index = at->operands[k].tile;
  return index == VIL_NONE ? NULL : &program->tiles[index];
}

// The tile is one stage of rows × columns.
static int has_shape(const vil_r_tile *tile, uint32_t rows, uint32_t columns) {
  return tile && tile->stages == 1 && tile->rows == rows && tile->columns == columns;
}

static int is_operand(const vil_r_tile *tile, uint32_t rows, uint32_t columns) {
  return !tile || (tile->stages == 1 && (tile->rows == rows || tile->rows == 1) &&
                   (tile->columns == columns || tile->columns == 1));
}

static int is_f32(const vil_r_tile *tile) {
  return !tile || tile->dtype == HAL_DTYPE_F32;
}

// An operation on whole rows: UN, BIN or RED of f32.
static int is_whole(const vil_program *program, const vil_instruction *at, uint32_t rows,
                    uint32_t columns) {
  const vil_r_tile *d = tile_of(program, at, VIL_D), *a = tile_of(program, at, VIL_A),
                   *b = tile_of(program, at, VIL_B);
  if (!is_f32(d) || !is_f32(a) || !is_f32(b)) return 0;
  if (at->op == VIL_RED)
    return at->axis == 1 && has_shape(a, rows, columns) && has_shape(d, rows, 1) &&
           (at->function == VIL_ADD || at->function == VIL_MAX || at->function == VIL_MIN);
  if (!has_shape(d, rows, columns)) return 0;
  if (at->op == VIL_UN) return has_shape(a, rows, columns);
  return at->op == VIL_BIN && at->function >= VIL_ADD && at->function <= VIL_MIN &&
         is_operand(a, rows, columns) && is_operand(b, rows, columns) &&
         (has_shape(a, rows, columns) || has_shape(b, rows, columns));
}

// An elementwise operation on a number a row.
static int is_column(const vil_program *program, const vil_instruction *at, uint32_t rows) {
  return (at->op == VIL_UN || at->op == VIL_BIN || at->op == VIL_SEL) &&
         has_shape(tile_of(program, at, VIL_D), rows, 1) &&
         is_operand(tile_of(program, at, VIL_A), rows, 1) &&
         is_operand(tile_of(program, at, VIL_B), rows, 1) &&
         is_operand(tile_of(program, at, VIL_C), rows, 1);
}

static int is_mentioned(const vil_program *program, uint32_t from, uint32_t to, uint32_t tile) {
  for (uint32_t i = from; i < to; ++i) {
    if (mentions(&program->code[i], tile)) return 1;
  }
  return 0;
}

// A LOAD that may run before all of the chain.
static int is_early(const vil_program *program, uint32_t first, uint32_t i) {
  const vil_instruction *at = &program->code[i];
  const vil_r_tile *d = tile_of(program, at, VIL_D);
  for (uint32_t n = first; n < i; ++n) {
    if (program->code[n].op == VIL_STORE) return 0;
  }
  return program->descriptors[at->x].param != VIL_NONE && d->stages == 1 &&
         !is_mentioned(program, first, i, at->operands[VIL_D].tile);
}

static int is_store(const vil_program *program, const vil_instruction *at, uint32_t rows,
                    uint32_t columns) {
  const vil_r_tile *a = tile_of(program, at, VIL_A);
  return at->op == VIL_STORE && program->descriptors[at->x].param != VIL_NONE && is_f32(a) &&
         has_shape(a, rows, columns);
}

// The chain that starts with instruction `first`; a length of 0 is none.
static vil_chain chain_from(const vil_program *program, uint32_t first) {
  vil_chain chain = {first, 0, 0};
  const vil_instruction *start = &program->code[first];
  const vil_r_tile *lead = tile_of(program, start, start->op == VIL_RED ? VIL_A : VIL_D);
  if (!lead || lead->columns < LEAST_COLUMNS ||
      !is_whole(program, start, lead->rows, lead->columns))
    return chain;
  uint32_t wholes = 0, stores = 0;
  for (uint32_t i = first; i < program->instruction_count && i - first < VIL_CHAIN_LINKS; ++i) {
    const vil_instruction *at = &program->code[i];
    int stored = is_store(program, at, lead->rows, lead->columns);
    stores += (uint32_t)stored;
    if (stores > 1) break;  // The order of two stores to one place would change.
    if (stored || is_whole(program, at, lead->rows, lead->columns)) {
      chain.count = i - first + 1;
      ++wholes;
    } else if (!(at->op == VIL_LOAD && is_early(program, first, i)) &&
               !is_column(program, at, lead->rows)) {
      break;
    }
  }
  if (wholes < 2) chain.count = 0;
  return chain;
}

static void mark_kept(const vil_program *program, vil_chain *chain) {
  uint32_t end = chain->first + chain->count;
  for (uint32_t i = chain->first; i < end; ++i) {
    const vil_instruction *at = &program->code[i];
    uint16_t tile = at->operands[VIL_D].tile;
    if (at->op == VIL_STORE || tile == VIL_NONE) continue;
    int again = 0;
    for (uint32_t n = i + 1; n < end; ++n)
      again |= program->code[n].op != VIL_STORE && program->code[n].operands[VIL_D].tile == tile;
    if (!again && is_read_behind(program, chain, tile))
      chain->kept |= UINT32_C(1) << (i - chain->first);
  }
}

int vil_find_chains(vil_program *program) {
  program->chains = calloc(program->instruction_count + 1u, sizeof(vil_chain));
  if (!program->chains) return 0;
  if (program->profile || program->stage_count > MOST_STAGES) return 1;
  for (uint32_t i = 0; i < program->instruction_count; ++i) {
    vil_chain chain = chain_from(program, i);
    if (chain.count == 0) continue;
    mark_kept(program, &chain);
    program->chains[i] = chain;
    i += chain.count - 1;
  }
  return 1;
}

// ---- Running one ----

// The link of an instruction, and its result's valid region; 0: not as the chain wants it.
static int link_up(vil_run *run, const vil_instruction *at, vil_link *link, uint32_t rows,
                   uint32_t columns) {
  vil_operation *o = &link->o;
  *o = (vil_operation){.op = at->op,
                       .function = at->function,
                       .axis = at->axis,
                       .flags = at->flags,
                       .arena = run->arena};
  for (int k = 0; k < 4; ++k) link->tiles[k] = at->operands[k].tile;
  if (at->op == VIL_LOAD) return vil_run_block(run, at) || vil_run_move(run, at) == HAL_OK;
  o->a = vil_view_shared(run, at, VIL_A);
  if (at->op == VIL_STORE)
    return o->a.valid_rows == rows && o->a.valid_columns == columns &&
           vil_store_place(run, at, &o->a, &o->d);
  o->d = vil_view_target(run, at, VIL_D);
  o->b = vil_view_shared(run, at, VIL_B);
  o->c = vil_view_shared(run, at, VIL_C);
  vil_result_valid(run, at, o);
  link->is_column = o->d.columns == 1 && at->op != VIL_RED;
  if (at->op == VIL_RED && o->a.valid_columns != columns) return 0;
  return o->d.valid_rows == rows && o->d.valid_columns == (o->d.columns == 1 ? 1 : columns);
}

int vil_run_chain(vil_run *run, const vil_chain *chain) {
  const vil_hooks *hooks = run->hooks;
  if (!hooks || !hooks->chain || hooks->watch || run->race) return 0;
  vil_link links[VIL_CHAIN_LINKS];
  vil_stage before[MOST_STAGES];
  const vil_program *program = run->program;
  const vil_instruction *code = &program->code[chain->first];
  vil_tile_view lead = vil_view_shared(run, code, VIL_A);
  if (code->op == VIL_BIN && (lead.rows < program->tiles[code->operands[VIL_D].tile].rows ||
                              lead.columns < program->tiles[code->operands[VIL_D].tile].columns))
    lead = vil_view_shared(run, code, VIL_B);
  uint32_t rows = lead.valid_rows, columns = lead.valid_columns;
  if (columns < LEAST_COLUMNS || (uint64_t)rows * columns < LEAST_ELEMENTS) return 0;
  memcpy(before, run->arena->stages, sizeof(vil_stage) * program->stage_count);
  int done = 1, streams = 0;
  for (uint32_t i = 0; i < chain->count && done; ++i) {
    run->at = chain->first + i;
    links[i].is_kept = chain->kept >> i & 1;
    links[i].is_column = 0;
    done = link_up(run, &code[i], &links[i], rows, columns);
    streams |= code[i].op == VIL_STORE && code[i].flags & VIL_FLAG_STREAM;
  }
  done = done && hooks->chain(hooks->context, links, chain->count, rows, columns);
  if (done)
    run->streams |= streams;
  else
    memcpy(run->arena->stages, before, sizeof(vil_stage) * program->stage_count);
  return done;
}
