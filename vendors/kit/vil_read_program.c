// Reads a program section of an image (docs/vil.md, section 4.3).
#include <stdlib.h>

#include "vil_section.h"

static int value_is_sound(const vil_program *program, const uint8_t *is_symbol, uint16_t value,
                          int optional) {
  if (value == VIL_NONE) return optional;
  if (value & VIL_SREG_BIT) return (value & 0x7FFFu) < program->sreg_count;
  return vil_expression_is_sound(&program->expressions, value, is_symbol, program->param_count);
}

static int32_t check_descriptor(const vil_program *program, const uint8_t *is_symbol,
                                uint32_t string_bytes, uint32_t index, vil_reason *reason) {
  const vil_r_descriptor *d = &program->descriptors[index];
  const char *name = vil_name_at(program->strings, string_bytes, d->name);
  if (!name) return BAD("program %s: descriptor %u has no proper name", program->name, index);
  if (d->rank < 1 || d->rank > 5 || d->reserved || vil_dtype_bytes(d->dtype) == 0 ||
      d->digit_count[0] > 3 || d->digit_count[1] > 3 || d->term_count > program->term_count ||
      d->first_term > program->term_count - d->term_count) {
    return BAD("program %s: descriptor %s: rank %u, dtype %u, %u terms from %u of %u",
               program->name, name, d->rank, d->dtype, d->term_count, d->first_term,
               program->term_count);
  }
  if (d->param != VIL_NONE &&
      (d->param >= program->param_count || program->params[d->param].kind != VIL_BUFFER)) {
    return BAD("program %s: descriptor %s: parameter %u is no buffer", program->name, name,
               d->param);
  }
  for (int k = 0; k < 5; k++) {
    int used = k < d->rank;
    uint16_t values[3] = {d->dimensions[k].extent, d->dimensions[k].stride, d->dimensions[k].base};
    for (int v = 0; v < 3; v++) {
      if (used ? !value_is_sound(program, is_symbol, values[v], 0) : values[v] != VIL_NONE)
        return BAD("program %s: descriptor %s: dimension %d is malformed", program->name, name, k);
    }
  }
  for (int axis = 0; axis < 2; axis++) {
    const vil_r_axis *a = &d->axes[axis];
    int sound = value_is_sound(program, is_symbol, a->origin, 1) &&
                value_is_sound(program, is_symbol, a->limit, 1);
    for (int q = 0; q < 3; q++) {
      int used = q < d->digit_count[axis];
      sound &= used ? value_is_sound(program, is_symbol, a->digits[q].size, 1) &&
                          value_is_sound(program, is_symbol, a->digits[q].divisor, 0)
                    : a->digits[q].size == VIL_NONE && a->digits[q].divisor == VIL_NONE;
    }
    if (!sound)
      return BAD("program %s: descriptor %s: the %s axis is malformed", program->name, name,
                 axis ? "column" : "row");
  }
  uint8_t last = 0;
  for (uint32_t t = 0; t < d->term_count; t++) {
    const vil_r_term *term = &program->terms[d->first_term + t];
    uint32_t limit = term->kind == VIL_TERM_SREG     ? program->sreg_count
                     : term->kind <= VIL_TERM_COLUMN ? d->digit_count[term->kind - 1]
                                                     : 0;
    if (term->reserved || term->dimension >= d->rank || term->dimension < last ||
        term->index >= limit || !value_is_sound(program, is_symbol, term->coefficient, 0)) {
      return BAD("program %s: descriptor %s: term %u is malformed", program->name, name, t);
    }
    last = term->dimension;
  }
  return HAL_OK;
}

static int fits_32_bits(const vil_r_tile *tile) {
  uint64_t stage = (vil_tile_bytes(tile) + 63) & ~(uint64_t)63;
  return tile->offset + (tile->stages - 1) * stage + vil_tile_bytes(tile) <= (uint64_t)1 << 32;
}

static int32_t check_tables(const vil_program *program, const uint8_t *is_symbol,
                            uint32_t string_bytes, vil_reason *reason) {
  for (uint32_t i = 0; i < program->tile_count; i++) {
    const vil_r_tile *tile = &program->tiles[i];
    if (!vil_name_at(program->strings, string_bytes, tile->name) ||
        vil_dtype_bytes(tile->dtype) == 0 || tile->space < 1 || tile->space > 6 ||
        tile->layout < 1 || tile->layout > 6 || tile->reserved0 || tile->reserved ||
        tile->rows < 1 || tile->rows > 1u << 20 || tile->columns < 1 || tile->columns > 1u << 20 ||
        tile->stages < 1 || tile->stages > 64 || (tile->layout == 3) != (tile->panel != 0) ||
        tile->panel > 1024 || !fits_32_bits(tile)) {
      return BAD("program %s: tile %u is malformed", program->name, i);
    }
  }
  for (uint32_t i = 0; i < program->token_count; i++) {
    const vil_r_token *token = &program->tokens[i];
    if (!vil_name_at(program->strings, string_bytes, token->name) || token->producer < 1 ||
        token->producer > 5 || token->consumer < 1 || token->producer == token->consumer ||
        token->consumer > 5) {
      return BAD("program %s: token %u is malformed", program->name, i);
    }
  }
  int32_t status = HAL_OK;
  for (uint32_t i = 0; i < program->descriptor_count && !status; i++)
    status = check_descriptor(program, is_symbol, string_bytes, i, reason);
  return status;
}

static int32_t check_instructions(const vil_program *program, const uint8_t *is_symbol,
                                  vil_reason *reason) {
  for (uint32_t i = 0; i < program->instruction_count; i++) {
    const vil_instruction *at = &program->code[i];
    int sound = at->op >= VIL_LOAD && at->op < VIL_OP_COUNT && at->function < VIL_FUNCTION_COUNT &&
                at->engine >= 1 && at->engine <= 5;
    for (int k = 0; k < 4 && sound; k++) {
      sound = at->operands[k].tile == VIL_NONE
                  ? at->operands[k].stage == VIL_NONE
                  : at->operands[k].tile < program->tile_count &&
                        value_is_sound(program, is_symbol, at->operands[k].stage, 1);
    }
    for (int k = 0; k < 4 && sound; k++) {
      if (at->op == VIL_SREG && at->function == VIL_ARG && k == 0) {
        sound = at->values[0] < program->param_count;
      } else {
        sound = value_is_sound(program, is_symbol, at->values[k], 1);
      }
    }
    if (!sound) return BAD("program %s: instruction %u is malformed", program->name, i);
  }
  return HAL_OK;
}

// Finds the END of each LOOP and IF.
static int32_t match_blocks(vil_program *program, vil_reason *reason) {
  uint32_t stack[8];
  int depth = 0, loops = 0;
  for (uint32_t i = 0; i < program->instruction_count; i++) {
    uint8_t op = program->code[i].op;
    if (op == VIL_LOOP || op == VIL_IF) {
      loops += op == VIL_LOOP;
      if (loops > 4 || depth + 1 - loops > 4)
        return BAD("program %s: instruction %u: nested deeper than 4", program->name, i);
      stack[depth++] = i;
    } else if (op == VIL_END) {
      if (depth == 0)
        return BAD("program %s: instruction %u: end without loop or if", program->name, i);
      uint32_t start = stack[--depth];
      loops -= program->code[start].op == VIL_LOOP;
      program->matches[start] = i;
      program->matches[i] = start;
    }
  }
  if (depth) return BAD("program %s: instruction %u: no end", program->name, stack[depth - 1]);
  return HAL_OK;
}

// Gives each stage of each tile its own place, at a multiple of 64 bytes.
static int32_t lay_out(vil_program *program, vil_reason *reason) {
  uint64_t at = 0;
  for (uint32_t i = 0; i < program->tile_count; i++) {
    const vil_r_tile *tile = &program->tiles[i];
    program->tile_at[i] = at;
    program->stage_first[i] = program->stage_count;
    program->stage_count += tile->stages;
    uint64_t stage =
        ((uint64_t)tile->rows * tile->columns * vil_dtype_bytes(tile->dtype) + 63) & ~(uint64_t)63;
    at += stage * tile->stages;
    if (at > (uint64_t)1 << 32)
      return BAD("program %s: its tiles take more than 4 GiB", program->name);
  }
  program->arena_bytes = at;
  return HAL_OK;
}

static int32_t check_params(const vil_program *program, uint8_t *is_symbol, uint32_t string_bytes,
                            vil_reason *reason) {
  for (uint32_t i = 0; i < program->param_count; i++) {
    const vil_r_param *param = &program->params[i];
    is_symbol[i] = param->kind == VIL_SYMBOL;
    int buffer = param->kind == VIL_BUFFER;
    if (!vil_name_at(program->strings, string_bytes, param->name) || param->kind < VIL_BUFFER ||
        param->kind > VIL_SYMBOL || vil_dtype_bytes(param->dtype) == 0 || param->reserved ||
        (buffer ? param->access < VIL_READ || param->access > VIL_INOUT : param->access != 0) ||
        (param->kind == VIL_SYMBOL && param->dtype != HAL_DTYPE_I64)) {
      return BAD("program %s: parameter %u is malformed", program->name, i);
    }
  }
  return HAL_OK;
}

// Everything inside the tables.
static int32_t check_content(vil_program *program, uint32_t string_bytes, vil_reason *reason) {
  program->matches = calloc(program->instruction_count + 1u, sizeof(uint32_t));
  program->tile_at = calloc(program->tile_count + 1u, sizeof(uint64_t));
  program->stage_first = calloc(program->tile_count + 1u, sizeof(uint32_t));
  uint8_t *is_symbol = calloc(program->param_count + 1u, 1);
  int32_t status = program->matches && program->tile_at && program->stage_first && is_symbol
                       ? HAL_OK
                       : HAL_ERROR_OUT_OF_MEMORY;
  if (!status) status = check_params(program, is_symbol, string_bytes, reason);
  if (!status) status = check_tables(program, is_symbol, string_bytes, reason);
  for (uint32_t i = 0; i < program->expressions.count && !status; i++) {
    if (!vil_expression_is_sound(&program->expressions, i, is_symbol, program->param_count))
      status = BAD("program %s: expression %u is malformed", program->name, i);
  }
  if (!status) status = check_instructions(program, is_symbol, reason);
  free(is_symbol);
  if (!status) status = match_blocks(program, reason);
  if (!status) status = lay_out(program, reason);
  if (!status && !vil_find_chains(program)) status = HAL_ERROR_OUT_OF_MEMORY;
  return status;
}

int32_t vil_read_program(vil_program *program, vil_section *part) {
  vil_reason *reason = part->reason;
  if (part->bytes < 96 || memcmp(part->base, "HPRG", 4) != 0 ||
      vil_read32(part->base + 4) != part->bytes)
    return BAD("%s: no proper HPRG header", part->what);
  part->header_bytes = 96;
  program->profile = part->base[12];
  program->flags = part->base[13];
  memcpy(&program->sreg_count, part->base + 14, 2);
  const void *params, *tiles, *descriptors, *terms, *tokens, *constants, *expressions, *code,
      *strings, *instructions;
  uint32_t string_bytes;
  int32_t status;
  if ((status =
           vil_take(part, 16, sizeof(vil_r_param), &params, &program->param_count, "params")) ||
      (status = vil_take(part, 24, sizeof(vil_r_tile), &tiles, &program->tile_count, "tiles")) ||
      (status = vil_take(part, 32, sizeof(vil_r_descriptor), &descriptors,
                         &program->descriptor_count, "descriptors")) ||
      (status = vil_take(part, 40, sizeof(vil_r_term), &terms, &program->term_count, "terms")) ||
      (status =
           vil_take(part, 48, sizeof(vil_r_token), &tokens, &program->token_count, "tokens")) ||
      (status = vil_take(part, 56, 8, &constants, &program->constant_count, "constants")) ||
      (status = vil_take(part, 64, sizeof(vil_r_expression), &expressions,
                         &program->expressions.count, "expressions")) ||
      (status = vil_take(part, 72, 1, &code, &program->expressions.code_bytes, "code")) ||
      (status = vil_take(part, 80, 1, &strings, &string_bytes, "strings")) ||
      (status = vil_take(part, 88, sizeof(vil_instruction), &instructions,
                         &program->instruction_count, "instructions")) ||
      (status = vil_check_cover(part->what, part->base, part->header_bytes, part->bytes,
                                part->covered, part->covered_count, reason))) {
    return status;
  }
  program->params = params;
  program->tiles = tiles;
  program->descriptors = descriptors;
  program->terms = terms;
  program->tokens = tokens;
  program->constants = constants;
  program->expressions.items = expressions;
  program->expressions.code = code;
  program->strings = strings;
  program->code = instructions;
  program->name = vil_name_at(strings, string_bytes, vil_read32(part->base + 8));
  if (!program->name) return BAD("%s: no proper name", part->what);
  if (program->profile > 1 || program->flags > 3 || program->sreg_count < 3 ||
      program->sreg_count > 4096 || program->expressions.count > 0x7FFF) {
    return BAD("program %s: profile %u, flags %u, %u SREGs", program->name, program->profile,
               program->flags, program->sreg_count);
  }
  return check_content(program, string_bytes, reason);
}
