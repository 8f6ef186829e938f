// Integer expressions of a signature: postfix code over the symbols of a launch, with checked
// arithmetic (docs/vil.md, sections 1.2 and 4.2).
#include "signature_form.h"

enum {
  CONSTANT = 1,
  SYMBOL = 2,
  ADD = 3,
  SUB = 4,
  MUL = 5,
  DIV = 6,
  MOD = 7,
  CEILDIV = 8,
  MIN = 9,
  MAX = 10,
};

const char *hal_expression_check(const unsigned char *code, uint32_t bytes,
                                 const hal_parameter *parameters, uint32_t parameter_count) {
  uint32_t depth = 0;
  for (uint32_t at = 0; at < bytes;) {
    const unsigned char operation = code[at++];
    if (operation == CONSTANT || operation == SYMBOL) {
      const uint32_t operand = operation == CONSTANT ? 8 : 2;
      if (bytes - at < operand) return "an operand is cut short";
      if (operation == SYMBOL) {
        const uint32_t index = hal_read_u16(code + at);
        if (index >= parameter_count || parameters[index].kind != HAL_SIGNATURE_SYMBOL) {
          return "a symbol is not a symbol argument of the kernel";
        }
      }
      at += operand;
      if (++depth > HAL_EXPRESSION_STACK) return "the stack is deeper than 16";
    } else if (operation >= ADD && operation <= MAX) {
      if (depth < 2) return "an operator lacks an operand";
      depth -= 1;
    } else {
      return "an unknown operator";
    }
  }
  return depth == 1 ? NULL : "it does not leave one value";
}

static int64_t floor_div(int64_t a, int64_t b) {
  const int64_t quotient = a / b;
  return quotient - (a % b != 0 && (a < 0) != (b < 0));
}

// Applies one operator; NULL or what is wrong.
static const char *apply(unsigned char operation, int64_t a, int64_t b, int64_t *out_value) {
  static const char *overflow = "overflows 64 bits";
  const int divides = operation == DIV || operation == MOD || operation == CEILDIV;
  if (divides && b == 0) return "divides by zero";
  if (divides && b == -1 && a == INT64_MIN) {
    *out_value = 0;
    return operation == MOD ? NULL : overflow;
  }
  switch (operation) {
    case ADD:
      return __builtin_add_overflow(a, b, out_value) ? overflow : NULL;
    case SUB:
      return __builtin_sub_overflow(a, b, out_value) ? overflow : NULL;
    case MUL:
      return __builtin_mul_overflow(a, b, out_value) ? overflow : NULL;
    case DIV:
      *out_value = floor_div(a, b);
      return NULL;
    case MOD:
      *out_value = a - floor_div(a, b) * b;
      return NULL;
    case CEILDIV:
      *out_value = floor_div(a, b) + (a % b != 0);
      return NULL;
    case MIN:
      *out_value = a < b ? a : b;
      return NULL;
    default:
      *out_value = a > b ? a : b;
      return NULL;
  }
}

const char *hal_expression_value(const unsigned char *code, uint32_t bytes,
                                 const hal_argument *arguments, int64_t *out_value) {
  int64_t stack[HAL_EXPRESSION_STACK];
  uint32_t depth = 0;
  for (uint32_t at = 0; at < bytes;) {
    const unsigned char operation = code[at++];
    if (operation == CONSTANT) {
      stack[depth++] = (int64_t)hal_read_u64(code + at);
      at += 8;
    } else if (operation == SYMBOL) {
      stack[depth++] = (int64_t)arguments[hal_read_u16(code + at)].scalar;
      at += 2;
    } else {
      depth -= 1;
      const char *problem = apply(operation, stack[depth - 1], stack[depth], &stack[depth - 1]);
      if (problem != NULL) return problem;
    }
  }
  *out_value = stack[0];
  return NULL;
}
