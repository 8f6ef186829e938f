// Judges tiles that share bytes, and tokens (docs/vil.md, sections 5.11 and 6).
#include <stdlib.h>
#include <string.h>

#include "vil_check.h"

typedef struct span {
  uint32_t first, last;
  int used;
} span;

static int mentions(const vil_instruction *at, uint32_t tile) {
  for (int k = 0; k < 4; k++) {
    if (at->operands[k].tile == tile) return 1;
  }
  return 0;
}

// The first mention gives the whole tile a new value and does not read it. A stage of several is
// not the whole.
static int is_plain_write(const vil_program *program, const vil_instruction *at, uint32_t tile) {
  int init = at->flags & VIL_FLAG_INIT, result = VIL_D;
  if (at->op == VIL_STORE || ((at->op == VIL_MMA || at->op == VIL_TOPK) && !init)) return 0;
  for (int k = VIL_D; k <= VIL_C; k++) {
    if (at->operands[k].tile != tile) continue;
    if (k != VIL_D && !(k == VIL_C && at->op == VIL_TOPK)) return 0;
    result = k;
  }
  return program->tiles[tile].stages == 1 || at->operands[result].stage == VIL_NONE;
}

static int grow_to(span *s, uint32_t first, uint32_t last) {
  int grew = first < s->first || last > s->last;
  if (first < s->first) s->first = first;
  if (last > s->last) s->last = last;
  return grew;
}

// The outermost loop that holds instruction `at`; 0 when none does.
static int outermost_loop(const vil_program *program, uint32_t at, uint32_t *first,
                          uint32_t *last) {
  for (uint32_t i = 0; i < at; i++) {
    if (program->code[i].op == VIL_LOOP && program->matches[i] > at) {
      *first = i;
      *last = program->matches[i];
      return 1;
    }
  }
  return 0;
}

static span lifetime(const vil_program *program, uint32_t tile) {
  span s = {0, 0, 0};
  for (uint32_t i = 0; i < program->instruction_count; i++) {
    if (!mentions(&program->code[i], tile)) continue;
    if (!s.used) s.first = i;
    s.last = i;
    s.used = 1;
  }
  if (!s.used) return s;
  uint32_t mention = s.first, first, last;
  int plain = is_plain_write(program, &program->code[mention], tile), grew = 1;
  while (grew) {
    grew = 0;
    int lasting = !plain;
    for (uint32_t i = 0; i < program->instruction_count; i++) {
      uint8_t op = program->code[i].op;
      if (op != VIL_LOOP && op != VIL_IF) continue;
      uint32_t end = program->matches[i];
      if (op == VIL_IF) {
        if (i < mention && end > mention && !(i <= s.first && end >= s.last)) lasting = 1;
        continue;
      }
      int apart = s.last < i || s.first > end, inside = s.first > i && s.last < end,
          around = s.first <= i && s.last >= end;
      if (!apart && !inside && !around) grew |= grow_to(&s, i, end);
    }
    if (lasting && outermost_loop(program, mention, &first, &last))
      grew |= grow_to(&s, first, last);
  }
  return s;
}

int32_t vil_check_lifetimes(vil_judged *judged) {
  const vil_program *program = judged->program;
  span *spans = NULL;
  int32_t status = HAL_OK;
  for (uint32_t i = 0; i < program->tile_count && !status; i++) {
    const vil_r_tile *x = &program->tiles[i];
    uint64_t x_stage = (vil_tile_bytes(x) + 63) & ~(uint64_t)63,
             x_end = x->offset + (x->stages - 1) * x_stage + vil_tile_bytes(x);
    for (uint32_t j = 0; j < i && !status; j++) {
      const vil_r_tile *y = &program->tiles[j];
      uint64_t y_stage = (vil_tile_bytes(y) + 63) & ~(uint64_t)63,
               y_end = y->offset + (y->stages - 1) * y_stage + vil_tile_bytes(y);
      if (x->space != y->space || x_end <= y->offset || y_end <= x->offset) continue;
      if (!spans) {
        spans = calloc(program->tile_count, sizeof(span));
        if (!spans) return HAL_ERROR_OUT_OF_MEMORY;
        for (uint32_t k = 0; k < program->tile_count; k++) spans[k] = lifetime(program, k);
      }
      if (!spans[i].used || !spans[j].used || spans[i].last < spans[j].first ||
          spans[j].last < spans[i].first)
        continue;
      status = vil_bad_program(judged, "tiles %s and %s share bytes while both are alive",
                               program->strings + y->name, program->strings + x->name);
    }
  }
  free(spans);
  return status;
}

// ---- Tokens ----

// The change of each token between two instructions of one body; inner bodies must be balanced
// themselves.
static int32_t check_balance(vil_judged *judged, uint32_t first, uint32_t last, int64_t *changes) {
  const vil_program *program = judged->program;
  memset(changes, 0, program->token_count * sizeof(int64_t));
  for (uint32_t i = first; i < last; i++) {
    const vil_instruction *at = &program->code[i];
    if (at->op == VIL_LOOP || at->op == VIL_IF)
      i = program->matches[i];
    else if (at->op == VIL_SIGNAL)
      changes[at->x]++;
    else if (at->op == VIL_WAIT)
      changes[at->x]--;
  }
  for (uint32_t t = 0; t < program->token_count; t++) {
    if (changes[t] == 0) continue;
    judged->at = first - 1;
    return vil_bad_instruction(judged, "its body changes token %s by %lld",
                               program->strings + program->tokens[t].name, (long long)changes[t]);
  }
  return HAL_OK;
}

int32_t vil_check_tokens(vil_judged *judged) {
  const vil_program *program = judged->program;
  if (program->profile == 0) {
    for (judged->at = 0; judged->at < program->instruction_count; judged->at++) {
      uint8_t op = program->code[judged->at].op;
      if (op == VIL_SIGNAL || op == VIL_WAIT)
        return vil_bad_instruction(judged, "a flat program has no tokens");
    }
    return program->token_count ? vil_bad_program(judged, "a flat program has no tokens") : HAL_OK;
  }
  if (program->token_count == 0) return HAL_OK;
  int64_t *counts = calloc(program->token_count, sizeof(int64_t));
  if (!counts) return HAL_ERROR_OUT_OF_MEMORY;
  int32_t status = HAL_OK;
  for (uint32_t i = 0; i < program->instruction_count && !status; i++) {
    uint8_t op = program->code[i].op;
    if (op == VIL_LOOP || op == VIL_IF)
      status = check_balance(judged, i + 1, program->matches[i], counts);
  }
  for (uint32_t t = 0; t < program->token_count; t++) counts[t] = program->tokens[t].credits;
  for (judged->at = 0; judged->at < program->instruction_count && !status; judged->at++) {
    const vil_instruction *at = &program->code[judged->at];
    if (at->op == VIL_SIGNAL) counts[at->x]++;
    if (at->op == VIL_WAIT && --counts[at->x] < 0)
      status = vil_bad_instruction(judged, "token %s has no credit here, so it waits for ever",
                                   program->strings + program->tokens[at->x].name);
  }
  free(counts);
  return status;
}
