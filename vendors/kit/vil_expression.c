// Checked i64 expressions in postfix code (docs/vil.md, sections 1.2 and 4.2).
#include <string.h>

#include "vil_image.h"

enum {
  CODE_CONST = 1,
  CODE_SYMBOL,
  CODE_ADD,
  CODE_SUB,
  CODE_MUL,
  CODE_DIV,
  CODE_MOD,
  CODE_CEILDIV,
  CODE_MIN,
  CODE_MAX
};
#define STACK_LIMIT 16
#define CODE_LIMIT 512

int vil_expression_is_sound(const vil_expressions *all, uint32_t index, const uint8_t *is_symbol,
                            uint32_t symbol_count) {
  if (index >= all->count) return 0;
  const vil_r_expression *item = &all->items[index];
  if (item->bytes == 0 || item->bytes > CODE_LIMIT || item->offset > all->code_bytes ||
      item->bytes > all->code_bytes - item->offset) {
    return 0;
  }
  const uint8_t *at = all->code + item->offset, *end = at + item->bytes;
  int depth = 0;
  while (at < end) {
    uint8_t code = *at++;
    if (code == CODE_CONST) {
      if (end - at < 8) return 0;
      at += 8;
      depth++;
    } else if (code == CODE_SYMBOL) {
      uint16_t symbol;
      if (end - at < 2) return 0;
      memcpy(&symbol, at, 2);
      at += 2;
      if (symbol >= symbol_count || !is_symbol[symbol]) return 0;
      depth++;
    } else if (code >= CODE_ADD && code <= CODE_MAX) {
      if (depth < 2) return 0;
      depth--;
    } else {
      return 0;
    }
    if (depth > STACK_LIMIT) return 0;
  }
  return depth == 1;
}

static int floor_divide(int64_t left, int64_t right, int64_t *out) {
  if (right == 0 || (left == INT64_MIN && right == -1)) return 0;
  int64_t quotient = left / right;
  if (left % right != 0 && ((left < 0) != (right < 0))) quotient--;
  *out = quotient;
  return 1;
}

static int compute(uint8_t code, int64_t left, int64_t right, int64_t *out) {
  int64_t quotient;
  switch (code) {
    case CODE_ADD:
      return !__builtin_add_overflow(left, right, out);
    case CODE_SUB:
      return !__builtin_sub_overflow(left, right, out);
    case CODE_MUL:
      return !__builtin_mul_overflow(left, right, out);
    case CODE_DIV:
      return floor_divide(left, right, out);
    case CODE_MOD:
      if (right == 0) return 0;
      if (right == -1) {
        *out = 0;
        return 1;
      }
      if (!floor_divide(left, right, &quotient)) return 0;
      *out = left - quotient * right;
      return 1;
    case CODE_CEILDIV:
      // −floordiv(−left, right) = floordiv(left, right) + 1 unless it divides evenly.
      if (!floor_divide(left, right, &quotient)) return 0;
      *out = quotient + (left % right != 0);
      return 1;
    case CODE_MIN:
      *out = left < right ? left : right;
      return 1;
    default:
      *out = left > right ? left : right;
      return 1;
  }
}

int vil_expression_compute(const vil_expressions *all, uint32_t index, const int64_t *symbols,
                           int64_t *out_value) {
  const vil_r_expression *item = &all->items[index];
  const uint8_t *at = all->code + item->offset, *end = at + item->bytes;
  int64_t stack[STACK_LIMIT];
  int depth = 0;
  while (at < end) {
    uint8_t code = *at++;
    if (code == CODE_CONST) {
      memcpy(&stack[depth++], at, 8);
      at += 8;
    } else if (code == CODE_SYMBOL) {
      uint16_t symbol;
      memcpy(&symbol, at, 2);
      at += 2;
      stack[depth++] = symbols[symbol];
    } else {
      depth--;
      if (!compute(code, stack[depth - 1], stack[depth], &stack[depth - 1])) return 0;
    }
  }
  *out_value = stack[0];
  return 1;
}

int vil_expression_constant(const vil_expressions *all, uint32_t index, int64_t *out_value) {
  const vil_r_expression *item = &all->items[index];
  const uint8_t *at = all->code + item->offset, *end = at + item->bytes;
  while (at < end) {
    uint8_t code = *at++;
    if (code == CODE_SYMBOL) return 0;
    if (code == CODE_CONST) at += 8;
  }
  return vil_expression_compute(all, index, NULL, out_value);
}
