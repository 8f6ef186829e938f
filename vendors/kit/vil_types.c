// Judges each instruction: fields in use, engines, types, shapes, access (docs/vil.md, sections 2
// and 5).
#include <string.h>

#include "vil_check.h"

#define BIT(n) (1u << (n))
enum { D = 1, A = 2, B = 4, C = 8 };
enum { V0 = 1, V1 = 2, V2 = 4, V3 = 8 };
#define VECTOR BIT(VIL_ENGINE_VECTOR)
#define DMA_IN BIT(VIL_ENGINE_DMA_IN)
#define DMA_OUT BIT(VIL_ENGINE_DMA_OUT)
#define MATRIX BIT(VIL_ENGINE_MATRIX)
#define SCALAR BIT(VIL_ENGINE_SCALAR)

// Which fields an operation has: operands and values that must stand, values that may, flag bits,
// engines, the largest axis, whether x stands, and the first and last function.
typedef struct form {
  uint8_t operands, optional_values, values, flags;
  uint32_t engines;
  uint8_t axis_limit, has_x;
  uint8_t first_function, last_function;
} form;

static const form forms[VIL_OP_COUNT] = {
    [VIL_LOAD] = {D, 0, 0, 0, DMA_IN, 0, 1, 0, 0},
    [VIL_STORE] = {A, 0, 0, 1, DMA_OUT, 0, 1, 0, 0},
    [VIL_FILL] = {D, V0 | V1, 0, 1, VECTOR | DMA_IN, 0, 1, 0, 0},
    [VIL_IOTA] = {D, V0 | V1 | V2, 0, 0, VECTOR, 0, 0, 0, 0},
    [VIL_UN] = {D | A, 0, 0, 0, VECTOR, 0, 0, VIL_MOV, VIL_ISNAN},
    [VIL_BIN] = {D | A | B, 0, 0, 0, VECTOR, 0, 0, VIL_ADD, VIL_NE},
    [VIL_SEL] = {D | A | B | C, 0, 0, 0, VECTOR, 0, 0, 0, 0},
    [VIL_CAST] = {D | A, 0, 0, 1, VECTOR, 0, 0, 0, 0},
    [VIL_RED] = {D | A, V0, 0, 0, VECTOR, 1, 0, VIL_ADD, VIL_ARGMIN},
    [VIL_MMA] = {D | A | B, 0, 0, 1, MATRIX, 0, 0, 0, 0},
    [VIL_TRN] = {D | A, 0, 0, 0, VECTOR | DMA_IN | DMA_OUT, 0, 0, 0, 0},
    [VIL_LOOP] = {0, 0, V0, 0, SCALAR, 0, 1, 0, 0},
    [VIL_END] = {0, 0, 0, 0, SCALAR, 0, 0, 0, 0},
    [VIL_IF] = {0, 0, V0, 0, SCALAR, 0, 0, 0, 0},
    [VIL_SREG] = {0, 0, 0, 0, SCALAR, 2, 1, VIL_MOV, VIL_CHOOSE},
    [VIL_GATHER] = {D | A, 0, 0, 0, DMA_IN, 4, 1, 0, 0},
    [VIL_SCATTER] = {A | B, 0, 0, 0, DMA_OUT, 4, 1, VIL_ADD, VIL_SET},
    [VIL_COPY] = {D | A, 0, 0, 0, VECTOR | DMA_IN | DMA_OUT | MATRIX, 0, 0, 0, 0},
    [VIL_SCAN] = {D | A, 0, 0, 3, VECTOR, 1, 0, VIL_ADD, VIL_MIN},
    [VIL_TOPK] = {D | A | C, V0, 0, 3, VECTOR, 1, 0, 0, 0},
    [VIL_RNG] = {D, V0 | V1 | V2 | V3, 0, 0, VECTOR, 0, 0, VIL_RAW, VIL_UNIFORM},
    [VIL_SIGNAL] = {0, 0, 0, 0, 0x3E, 0, 1, 0, 0},
    [VIL_WAIT] = {0, 0, 0, 0, 0x3E, 0, 1, 0, 0},
};

const vil_r_tile *vil_operand_tile(const vil_program *program, const vil_instruction *at,
                                   int operand) {
  uint16_t tile = at->operands[operand].tile;
  return tile == VIL_NONE ? NULL : &program->tiles[tile];
}

static const char *tile_name(const vil_judged *judged, const vil_r_tile *tile) {
  return judged->program->strings + tile->name;
}

// ---- Fields ----

static int is_near(const vil_program *program, const vil_instruction *at) {
  return (at->op == VIL_LOAD || at->op == VIL_STORE) && at->x < program->descriptor_count &&
         program->descriptors[at->x].param == VIL_NONE;
}

static int32_t check_fields(vil_judged *judged, const vil_instruction *at) {
  const form *f = &forms[at->op];
  uint32_t operands = f->operands, required = f->values, allowed = f->values | f->optional_values;
  if (is_near(judged->program, at)) operands |= at->op == VIL_LOAD ? A : D;
  if (at->op == VIL_SREG) {
    if (at->function == VIL_TILE) operands |= A;
    required = at->function == VIL_TILE || at->function == VIL_GRID ? 0
               : at->function == VIL_MOV || at->function == VIL_ARG ? V0
               : at->function == VIL_CHOOSE                         ? V0 | V1 | V2
                                                                    : V0 | V1;
    allowed = required;
  }
  for (int k = 0; k < 4; k++) {
    int present = at->operands[k].tile != VIL_NONE;
    if (present != (int)(operands >> k & 1))
      return vil_bad_instruction(judged, "operand %c is %s", "dabc"[k],
                                 present ? "not used here" : "missing");
    int value = at->values[k] != VIL_NONE;
    if (value && !(allowed >> k & 1))
      return vil_bad_instruction(judged, "value v%d is not used here", k);
    if (!value && (required >> k & 1))
      return vil_bad_instruction(judged, "value v%d is missing", k);
  }
  if ((at->x != VIL_NONE) != f->has_x)
    return vil_bad_instruction(judged, "field x is %s", f->has_x ? "missing" : "not used here");
  if (at->flags & ~f->flags)
    return vil_bad_instruction(judged, "flags 0x%x; it has 0x%x", at->flags, f->flags);
  uint32_t engines = is_near(judged->program, at) ? VECTOR : f->engines;
  if (!(engines >> at->engine & 1))
    return vil_bad_instruction(judged, "engine %u cannot run it", at->engine);
  uint32_t axis_limit = at->op == VIL_SREG && at->function != VIL_GRID ? 0 : f->axis_limit;
  if (at->axis > axis_limit || (at->op == VIL_TOPK && at->axis != 1))
    return vil_bad_instruction(judged, "axis %u", at->axis);
  if (f->first_function ? at->function < f->first_function || at->function > f->last_function
                        : at->function != 0) {
    return vil_bad_instruction(judged, "function %u is not one of its functions", at->function);
  }
  return HAL_OK;
}

// ---- Shapes ----

static int is_plain(uint32_t dtype) {
  return vil_is_float(dtype) || vil_is_int(dtype) || dtype == HAL_DTYPE_BOOL;
}
static int is_number(uint32_t dtype) {
  return vil_is_float(dtype) || vil_is_int(dtype);
}
static int is_index(uint32_t dtype) {
  return dtype == HAL_DTYPE_I32 || dtype == HAL_DTYPE_I64;
}

static int32_t bad_types(vil_judged *judged, const vil_r_tile *d, const vil_r_tile *a) {
  return vil_bad_instruction(judged, "%s%s%s does not go with %s",
                             d ? vil_dtype_name(d->dtype) : "", d && a ? " from " : "",
                             a ? vil_dtype_name(a->dtype) : "",
                             vil_function_name(judged->program->code[judged->at].function));
}

static int32_t check_broadcast(vil_judged *judged, const vil_r_tile *d, const vil_r_tile *operand) {
  if ((operand->rows == d->rows || operand->rows == 1) &&
      (operand->columns == d->columns || operand->columns == 1))
    return HAL_OK;
  return vil_bad_instruction(judged, "tile %s of %u x %u does not broadcast to %u x %u",
                             tile_name(judged, operand), operand->rows, operand->columns, d->rows,
                             d->columns);
}

static int32_t check_shape(vil_judged *judged, const vil_r_tile *tile, uint32_t rows,
                           uint32_t columns) {
  if (tile->rows == rows && tile->columns == columns) return HAL_OK;
  return vil_bad_instruction(judged, "tile %s is %u x %u, not %u x %u", tile_name(judged, tile),
                             tile->rows, tile->columns, rows, columns);
}

static int32_t check_distinct(vil_judged *judged, const vil_r_tile *x, const vil_r_tile *y) {
  if (x != y) return HAL_OK;
  return vil_bad_instruction(judged, "tile %s is result and operand", tile_name(judged, x));
}

// ---- Moves ----

static int32_t check_constant(vil_judged *judged, uint32_t dtype, uint64_t bits) {
  int64_t value = (int64_t)bits;
  int sound = 1;
  if (dtype == HAL_DTYPE_BOOL)
    sound = bits <= 1;
  else if (dtype == HAL_DTYPE_I8)
    sound = value >= INT8_MIN && value <= INT8_MAX;
  else if (dtype == HAL_DTYPE_U8)
    sound = value >= 0 && value <= UINT8_MAX;
  else if (dtype == HAL_DTYPE_I32)
    sound = value >= INT32_MIN && value <= INT32_MAX;
  if (sound) return HAL_OK;
  return vil_bad_program(judged, "the constant %lld does not fit %s", (long long)value,
                         vil_dtype_name(dtype));
}

// The value is an expression of one constant.
static int is_literal(const vil_program *program, uint16_t value, int64_t *out) {
  if (value & VIL_SREG_BIT) return 0;
  return program->expressions.items[value].bytes == 9 &&
         vil_expression_constant(&program->expressions, value, out);
}

// Elements along the axis have addresses of their own: a term depends on it, or it has one element.
static int uses_axis(const vil_program *program, const vil_r_descriptor *d, int axis) {
  int64_t literal;
  const vil_r_axis *a = &d->axes[axis];
  if (a->origin == VIL_NONE && a->limit != VIL_NONE && is_literal(program, a->limit, &literal) &&
      literal <= 1)
    return 1;
  for (uint32_t t = 0; t < d->term_count; t++) {
    const vil_r_term *term = &program->terms[d->first_term + t];
    if (term->kind == VIL_TERM_ROW + axis &&
        !(is_literal(program, term->coefficient, &literal) && literal == 0))
      return 1;
  }
  return 0;
}

static int32_t check_descriptor(vil_judged *judged, const vil_instruction *at,
                                const vil_r_tile *tile, int writes) {
  const vil_program *program = judged->program;
  if (at->x >= program->descriptor_count)
    return vil_bad_instruction(judged, "descriptor %u of %u", at->x, program->descriptor_count);
  const vil_r_descriptor *d = &program->descriptors[at->x];
  if (d->dtype != tile->dtype)
    return vil_bad_instruction(judged, "tile %s is %s, descriptor %s is %s",
                               tile_name(judged, tile), vil_dtype_name(tile->dtype),
                               program->strings + d->name, vil_dtype_name(d->dtype));
  if (d->param == VIL_NONE) {
    if (at->op != VIL_LOAD && at->op != VIL_STORE)
      return vil_bad_instruction(judged, "it takes no near descriptor");
    const vil_r_tile *near = vil_operand_tile(program, at, at->op == VIL_LOAD ? VIL_A : VIL_D);
    if (near == tile || near->dtype != d->dtype || near->space != 1)
      return vil_bad_instruction(judged, "tile %s cannot be its near tile",
                                 tile_name(judged, near));
  } else {
    uint8_t access = program->params[d->param].access;
    int combines = at->op == VIL_SCATTER && at->function != VIL_SET;
    if (combines ? access != VIL_INOUT : writes ? access == VIL_READ : access == VIL_WRITE) {
      return vil_bad_instruction(judged, "buffer %s cannot be %s",
                                 program->strings + program->params[d->param].name,
                                 combines ? "combined into"
                                 : writes ? "written"
                                          : "read");
    }
  }
  int rows_meet = at->op == VIL_STORE && tile->rows > 1 && !uses_axis(program, d, 0);
  if (rows_meet || (writes && tile->columns > 1 && !uses_axis(program, d, 1))) {
    return vil_bad_instruction(
        judged, "descriptor %s ignores the %s of tile %s, so elements would meet",
        program->strings + d->name, rows_meet ? "rows" : "columns", tile_name(judged, tile));
  }
  if ((at->op == VIL_GATHER || at->op == VIL_SCATTER) && at->axis >= d->rank)
    return vil_bad_instruction(judged, "dimension %u of %u", at->axis, d->rank);
  return HAL_OK;
}

static int32_t check_index(vil_judged *judged, const vil_r_tile *index, uint32_t rows) {
  if (!is_index(index->dtype))
    return vil_bad_instruction(judged, "index tile %s is %s, not i32 or i64",
                               tile_name(judged, index), vil_dtype_name(index->dtype));
  return check_shape(judged, index, rows, 1);
}

static int32_t check_move(vil_judged *judged, const vil_instruction *at, const vil_r_tile *d,
                          const vil_r_tile *a, const vil_r_tile *b) {
  int32_t status = HAL_OK;
  if (at->op == VIL_LOAD) return check_descriptor(judged, at, d, 0);
  if (at->op == VIL_STORE) return check_descriptor(judged, at, a, 1);
  if (at->op == VIL_GATHER) {
    if (!is_plain(d->dtype)) return bad_types(judged, d, NULL);
    if ((status = check_descriptor(judged, at, d, 0)) || (status = check_distinct(judged, d, a)))
      return status;
    return check_index(judged, a, d->rows);
  }
  int combines = at->function != VIL_SET;
  if (combines ? at->function != VIL_ADD && at->function != VIL_MAX && at->function != VIL_MIN : 0)
    return bad_types(judged, NULL, a);
  if (combines ? a->dtype != HAL_DTYPE_F32 && a->dtype != HAL_DTYPE_F64 && !is_index(a->dtype)
               : !is_plain(a->dtype))
    return bad_types(judged, NULL, a);
  if ((status = check_descriptor(judged, at, a, 1))) return status;
  return check_index(judged, b, a->rows);
}

// ---- Arithmetic ----

static int32_t check_unary(vil_judged *judged, const vil_instruction *at, const vil_r_tile *d,
                           const vil_r_tile *a) {
  int sound;
  switch (at->function) {
    case VIL_MOV:
      sound = is_plain(a->dtype);
      break;
    case VIL_NEG:
    case VIL_ABS:
      sound = is_number(a->dtype);
      break;
    case VIL_NOT:
      sound = vil_is_int(a->dtype) || a->dtype == HAL_DTYPE_BOOL;
      break;
    default:
      sound = vil_is_float(a->dtype);
  }
  if (!sound || d->dtype != (at->function == VIL_ISNAN ? HAL_DTYPE_BOOL : a->dtype))
    return bad_types(judged, d, a);
  return check_broadcast(judged, d, a);
}

static int32_t check_binary(vil_judged *judged, const vil_instruction *at, const vil_r_tile *d,
                            const vil_r_tile *a, const vil_r_tile *b) {
  int sound, compares = at->function >= VIL_LT;
  switch (at->function) {
    case VIL_DIV:
    case VIL_POW:
    case VIL_FMOD:
      sound = vil_is_float(a->dtype);
      break;
    case VIL_IDIV:
    case VIL_IMOD:
    case VIL_SHL:
    case VIL_SHR:
    case VIL_SHRU:
    case VIL_MULHI:
      sound = vil_is_int(a->dtype);
      break;
    case VIL_AND:
    case VIL_OR:
    case VIL_XOR:
      sound = vil_is_int(a->dtype) || a->dtype == HAL_DTYPE_BOOL;
      break;
    case VIL_EQ:
    case VIL_NE:
      sound = is_plain(a->dtype);
      break;
    default:
      sound = is_number(a->dtype);
  }
  if (!sound || a->dtype != b->dtype || d->dtype != (compares ? HAL_DTYPE_BOOL : a->dtype))
    return bad_types(judged, d, a);
  int32_t status = check_broadcast(judged, d, a);
  return status ? status : check_broadcast(judged, d, b);
}

static int32_t check_select(vil_judged *judged, const vil_r_tile *d, const vil_r_tile *a,
                            const vil_r_tile *b, const vil_r_tile *c) {
  if (a->dtype != HAL_DTYPE_BOOL || b->dtype != d->dtype || c->dtype != d->dtype ||
      !is_plain(d->dtype))
    return bad_types(judged, d, b);
  int32_t status = check_broadcast(judged, d, a);
  if (!status) status = check_broadcast(judged, d, b);
  return status ? status : check_broadcast(judged, d, c);
}

// add, mul, max, min, and, or, argmax, argmin of RED and SCAN.
static int combines_to(uint8_t function, uint32_t a, uint32_t d) {
  switch (function) {
    case VIL_ADD:
    case VIL_MUL:
      if (a == HAL_DTYPE_F16 || a == HAL_DTYPE_BF16) return d == a || d == HAL_DTYPE_F32;
      if (vil_is_float(a)) return d == a;
      return vil_is_int(a) && (d == HAL_DTYPE_I64 || (d == HAL_DTYPE_I32 && a != HAL_DTYPE_I64));
    case VIL_MAX:
    case VIL_MIN:
      return is_number(a) && d == a;
    case VIL_AND:
    case VIL_OR:
      return (vil_is_int(a) || a == HAL_DTYPE_BOOL) && d == a;
    case VIL_ARGMAX:
    case VIL_ARGMIN:
      return is_number(a) && is_index(d);
    default:
      return 0;
  }
}

static int32_t check_reduce(vil_judged *judged, const vil_instruction *at, const vil_r_tile *d,
                            const vil_r_tile *a) {
  if (!combines_to(at->function, a->dtype, d->dtype)) return bad_types(judged, d, a);
  if (at->op == VIL_RED && at->values[0] != VIL_NONE && at->function < VIL_ARGMAX)
    return vil_bad_instruction(judged, "value v0 is not used here");
  int32_t status = check_distinct(judged, d, a);
  if (status) return status;
  if (at->op == VIL_SCAN) return check_shape(judged, d, a->rows, a->columns);
  return at->axis == 0 ? check_shape(judged, d, 1, a->columns) : check_shape(judged, d, a->rows, 1);
}

static int is_eight_bit_int(uint32_t dtype) {
  return dtype == HAL_DTYPE_I8 || dtype == HAL_DTYPE_U8;
}

static int32_t check_matrix(vil_judged *judged, const vil_r_tile *d, const vil_r_tile *a,
                            const vil_r_tile *b) {
  uint32_t result = 0;
  if (vil_is_float8(a->dtype) && vil_is_float8(b->dtype))
    result = HAL_DTYPE_F32;
  else if (is_eight_bit_int(a->dtype) && is_eight_bit_int(b->dtype))
    result = HAL_DTYPE_I32;
  else if (a->dtype == b->dtype && is_number(a->dtype))
    result = vil_dtype_bytes(a->dtype) == 2 ? HAL_DTYPE_F32 : a->dtype;
  if (!result || d->dtype != result) return bad_types(judged, d, a);
  int32_t status = check_shape(judged, d, a->rows, b->columns);
  if (!status) status = check_shape(judged, b, a->columns, b->columns);
  if (!status) status = check_distinct(judged, d, a);
  return status ? status : check_distinct(judged, d, b);
}

static int32_t check_topk(vil_judged *judged, const vil_r_tile *d, const vil_r_tile *a,
                          const vil_r_tile *c) {
  if (!is_number(a->dtype) || d->dtype != a->dtype || !is_index(c->dtype))
    return bad_types(judged, d, a);
  int32_t status = check_shape(judged, d, a->rows, d->columns);
  if (!status) status = check_shape(judged, c, a->rows, d->columns);
  if (!status) status = check_distinct(judged, d, a);
  if (!status) status = check_distinct(judged, c, a);
  return status ? status : check_distinct(judged, d, c);
}

static int32_t check_fill(vil_judged *judged, const vil_instruction *at, const vil_r_tile *d) {
  const vil_program *program = judged->program;
  if (!is_plain(d->dtype)) return bad_types(judged, d, NULL);
  if (at->flags & VIL_FLAG_SCALAR) {
    if (at->x >= program->param_count || program->params[at->x].kind != VIL_SCALAR)
      return vil_bad_instruction(judged, "parameter %u is no scalar", at->x);
    return d->dtype == HAL_DTYPE_BOOL ? bad_types(judged, d, NULL) : HAL_OK;
  }
  if (at->x >= program->constant_count)
    return vil_bad_instruction(judged, "constant %u of %u", at->x, program->constant_count);
  return check_constant(judged, d->dtype, program->constants[at->x]);
}

// ---- SREG, control, tokens ----

static int32_t check_register(vil_judged *judged, uint16_t x) {
  const vil_program *program = judged->program;
  if (x < 3 || x >= program->sreg_count)
    return vil_bad_instruction(judged, "%%%u cannot be written", x);
  for (int i = 0; i < judged->loop_depth; i++) {
    if (judged->counters[i] == x)
      return vil_bad_instruction(judged, "%%%u counts a loop around it", x);
  }
  return HAL_OK;
}

static int32_t check_sreg(vil_judged *judged, const vil_instruction *at, const vil_r_tile *a) {
  const vil_program *program = judged->program;
  uint8_t f = at->function;
  int known = f == VIL_MOV || f == VIL_ADD || f == VIL_SUB || f == VIL_MUL || f == VIL_MAX ||
              f == VIL_MIN || (f >= VIL_IDIV && f <= VIL_SHRU) || (f >= VIL_LT && f <= VIL_NE) ||
              f >= VIL_ARG;
  if (!known) return vil_bad_instruction(judged, "%s is no function of sreg", vil_function_name(f));
  if (f == VIL_ARG && (program->params[at->values[0]].kind != VIL_SCALAR ||
                       !is_index(program->params[at->values[0]].dtype)))
    return vil_bad_instruction(judged, "parameter %u is no i32 or i64 scalar", at->values[0]);
  if (f == VIL_TILE) {
    if (!is_index(a->dtype)) return bad_types(judged, NULL, a);
    int32_t status = check_shape(judged, a, 1, 1);
    if (status) return status;
  }
  return check_register(judged, at->x);
}

static int32_t check_token(vil_judged *judged, const vil_instruction *at) {
  const vil_program *program = judged->program;
  if (at->x >= program->token_count)
    return vil_bad_instruction(judged, "token %u of %u", at->x, program->token_count);
  uint8_t engine =
      at->op == VIL_SIGNAL ? program->tokens[at->x].producer : program->tokens[at->x].consumer;
  return at->engine == engine
             ? HAL_OK
             : vil_bad_instruction(judged, "engine %u is not the token's engine %u", at->engine,
                                   engine);
}

static int32_t check_instruction(vil_judged *judged) {
  const vil_program *program = judged->program;
  const vil_instruction *at = &program->code[judged->at];
  int32_t status = check_fields(judged, at);
  if (status) return status;
  const vil_r_tile *d = vil_operand_tile(program, at, VIL_D),
                   *a = vil_operand_tile(program, at, VIL_A);
  const vil_r_tile *b = vil_operand_tile(program, at, VIL_B),
                   *c = vil_operand_tile(program, at, VIL_C);
  switch (at->op) {
    case VIL_LOAD:
    case VIL_STORE:
    case VIL_GATHER:
    case VIL_SCATTER:
      return check_move(judged, at, d, a, b);
    case VIL_FILL:
      return check_fill(judged, at, d);
    case VIL_IOTA:
      return is_index(d->dtype) ? HAL_OK : bad_types(judged, d, NULL);
    case VIL_UN:
      return check_unary(judged, at, d, a);
    case VIL_BIN:
      return check_binary(judged, at, d, a, b);
    case VIL_SEL:
      return check_select(judged, d, a, b, c);
    case VIL_CAST:
      status = check_broadcast(judged, d, a);
      return status ? status : check_distinct(judged, d, a);
    case VIL_RED:
    case VIL_SCAN:
      return check_reduce(judged, at, d, a);
    case VIL_MMA:
      return check_matrix(judged, d, a, b);
    case VIL_TRN:
    case VIL_COPY:
      if (!is_plain(a->dtype) || d->dtype != a->dtype) return bad_types(judged, d, a);
      if ((status = check_distinct(judged, d, a))) return status;
      return at->op == VIL_TRN ? check_shape(judged, d, a->columns, a->rows)
                               : check_shape(judged, d, a->rows, a->columns);
    case VIL_TOPK:
      return check_topk(judged, d, a, c);
    case VIL_RNG:
      return d->dtype == (at->function == VIL_RAW ? HAL_DTYPE_I32 : HAL_DTYPE_F32)
                 ? HAL_OK
                 : bad_types(judged, d, NULL);
    case VIL_SREG:
      return check_sreg(judged, at, a);
    case VIL_LOOP:
      return check_register(judged, at->x);
    case VIL_SIGNAL:
    case VIL_WAIT:
      return check_token(judged, at);
    default:
      return HAL_OK;
  }
}

int32_t vil_check_types(vil_judged *judged) {
  const vil_program *program = judged->program;
  for (uint32_t i = 0; i < program->descriptor_count; i++) {
    const vil_r_descriptor *d = &program->descriptors[i];
    if (d->param != VIL_NONE && program->params[d->param].dtype != d->dtype) {
      return vil_bad_program(judged, "descriptor %s is %s, its buffer %s",
                             program->strings + d->name, vil_dtype_name(d->dtype),
                             vil_dtype_name(program->params[d->param].dtype));
    }
    int32_t status = check_constant(judged, d->dtype, d->fill);
    if (status) return status;
  }
  for (judged->at = 0; judged->at < program->instruction_count; judged->at++) {
    const vil_instruction *at = &program->code[judged->at];
    int32_t status = check_instruction(judged);
    if (status) return status;
    if (at->op == VIL_LOOP) judged->counters[judged->loop_depth++] = at->x;
    if (at->op == VIL_END && program->code[program->matches[judged->at]].op == VIL_LOOP)
      judged->loop_depth--;
  }
  return HAL_OK;
}
