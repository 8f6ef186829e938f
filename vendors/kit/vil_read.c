// Reads a VIL image: every offset, count, index and string is checked here, so that the judge and
// the interpreter need not. Meaning (types, shapes, tokens) is the judge's: vil_check.c.
#include <stdlib.h>
#include <string.h>

#include "vil_launch.h"

#define HEADER_BYTES 48u
#define TABLE_LIMIT 16

// One section while it is read: its tables are noted so that overlaps and dirty padding are found.
typedef struct section {
  const char *what;
  const uint8_t *base;
  uint32_t bytes, header_bytes, covered_count;
  vil_table covered[TABLE_LIMIT];
  vil_reason *reason;
} section;

int32_t vil_refuse(vil_reason *reason, int32_t status, const char *format, ...) {
  if (reason->text && reason->capacity) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason->text, reason->capacity, format, arguments);
    va_end(arguments);
  }
  return status;
}

#define BAD(...) vil_refuse(reason, HAL_ERROR_INVALID_MODULE, __VA_ARGS__)

static uint32_t read32(const uint8_t *at) {
  uint32_t value;
  memcpy(&value, at, 4);
  return value;
}

static int all_zero(const uint8_t *at, uint64_t count) {
  for (uint64_t i = 0; i < count; i++) {
    if (at[i]) return 0;
  }
  return 1;
}

static int cover(section *part, uint32_t offset, uint32_t bytes) {
  part->covered[part->covered_count++] = (vil_table){offset, bytes};
  return 1;
}

// Takes the table {offset, count} at `at`; NULL with a count of 0 is fine.
static int32_t take(section *part, uint32_t at, uint32_t record_bytes, const void **out_items,
                    uint32_t *out_count, const char *name) {
  vil_reason *reason = part->reason;
  uint32_t offset = read32(part->base + at), count = read32(part->base + at + 4);
  *out_items = NULL;
  *out_count = count;
  if (count == 0) {
    if (offset != 0)
      return BAD("%s: offset %u: an empty table of %s has offset %u, not 0", part->what, at, name,
                 offset);
    return HAL_OK;
  }
  uint64_t bytes = (uint64_t)count * record_bytes;
  if (offset % 8 != 0 || offset < part->header_bytes || offset > part->bytes ||
      bytes > part->bytes - offset) {
    return BAD("%s: offset %u: %u %s at %u do not fit the section of %u bytes", part->what, at,
               count, name, offset, part->bytes);
  }
  cover(part, offset, (uint32_t)bytes);
  *out_items = part->base + offset;
  return HAL_OK;
}

static int by_offset(const void *left, const void *right) {
  const vil_table *a = left, *b = right;
  return a->offset < b->offset ? -1 : a->offset > b->offset;
}

// Tables do not overlap and what lies between them is zero.
static int32_t check_cover(section *part) {
  vil_reason *reason = part->reason;
  qsort(part->covered, part->covered_count, sizeof(vil_table), by_offset);
  uint32_t end = part->header_bytes;
  for (uint32_t i = 0; i <= part->covered_count; i++) {
    uint32_t next = i < part->covered_count ? part->covered[i].offset : part->bytes;
    if (next < end) return BAD("%s: offset %u: tables overlap", part->what, next);
    if (!all_zero(part->base + end, next - end))
      return BAD("%s: offset %u: padding is not zero", part->what, end);
    if (i < part->covered_count) end = next + part->covered[i].count;
  }
  return HAL_OK;
}

static int is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

// The string at a reference, or NULL.
static const char *name_at(const char *strings, uint32_t bytes, uint32_t reference) {
  if (!strings || reference >= bytes || !is_letter(strings[reference])) return NULL;
  for (uint32_t i = 0; i < 64 && reference + i < bytes; i++) {
    char c = strings[reference + i];
    if (c == 0) return strings + reference;
    if (!is_letter(c) && !(c >= '0' && c <= '9')) return NULL;
  }
  return NULL;
}

// ---- The signature section ----

static int32_t check_range(vil_reason *reason, const char *what, uint32_t first, uint32_t count,
                           uint32_t all) {
  if (count > all || first > all - count)
    return BAD("signature: %s %u to %u, but there are %u", what, first, first + count, all);
  return HAL_OK;
}

// Checks one expression reference of a kernel; VIL_NONE32 passes when it may be absent.
static int32_t check_expression(const vil_module *module, const vil_kernel *kernel,
                                const uint8_t *is_symbol, uint32_t index, int optional,
                                const char *what, vil_reason *reason) {
  if (index == VIL_NONE32) {
    if (optional) return HAL_OK;
    return BAD("kernel %s: %s has no expression", kernel->name, what);
  }
  if (!vil_expression_is_sound(&module->expressions, index, is_symbol, kernel->argument_count)) {
    return BAD("kernel %s: %s: expression %u is malformed", kernel->name, what, index);
  }
  return HAL_OK;
}

static int32_t check_arguments(const vil_module *module, const vil_kernel *kernel,
                               uint32_t string_bytes, const uint8_t *is_symbol,
                               vil_reason *reason) {
  for (uint32_t i = 0; i < kernel->argument_count; i++) {
    const vil_r_argument *argument = &kernel->arguments[i];
    if (!name_at(module->strings, string_bytes, argument->name))
      return BAD("kernel %s: argument %u has no proper name", kernel->name, i);
    int buffer = argument->kind == VIL_BUFFER;
    if (argument->kind < VIL_BUFFER || argument->kind > VIL_SYMBOL ||
        vil_dtype_bytes(argument->dtype) == 0 || argument->reserved0 || argument->reserved ||
        (buffer ? argument->access < VIL_READ || argument->access > VIL_INOUT
                : argument->access != 0)) {
      return BAD("kernel %s: argument %u: kind %u, dtype %u, access %u do not go together",
                 kernel->name, i, argument->kind, argument->dtype, argument->access);
    }
    if (argument->kind == VIL_SYMBOL && argument->dtype != HAL_DTYPE_I64)
      return BAD("kernel %s: argument %u: a symbol is i64", kernel->name, i);
    if (argument->kind == VIL_SCALAR && argument->dtype != HAL_DTYPE_F32 &&
        argument->dtype != HAL_DTYPE_F64 && argument->dtype != HAL_DTYPE_I32 &&
        argument->dtype != HAL_DTYPE_I64) {
      return BAD("kernel %s: argument %u: a scalar is f32, f64, i32 or i64", kernel->name, i);
    }
    if (!buffer && (argument->required_bytes != VIL_NONE32 || argument->alias != VIL_NONE32))
      return BAD("kernel %s: argument %u: only buffers have bytes and aliases", kernel->name, i);
    if (buffer) {
      int32_t status = check_expression(module, kernel, is_symbol, argument->required_bytes, 0,
                                        "required bytes", reason);
      if (status) return status;
      if (argument->alias != VIL_NONE32 &&
          (argument->alias >= i || kernel->arguments[argument->alias].kind != VIL_BUFFER)) {
        return BAD("kernel %s: argument %u: alias %u is no earlier buffer", kernel->name, i,
                   argument->alias);
      }
    }
  }
  return HAL_OK;
}

static int32_t check_launch(const vil_module *module, const vil_kernel *kernel,
                            const vil_r_launch *launch, uint32_t string_bytes,
                            const uint8_t *is_symbol, vil_reason *reason) {
  if (!name_at(module->strings, string_bytes, launch->name) || launch->reserved ||
      launch->program >= module->program_count) {
    return BAD("kernel %s: a launch of program %u of %u is malformed", kernel->name,
               launch->program, module->program_count);
  }
  int32_t status = check_range(reason, "bindings", launch->first_binding, launch->binding_count,
                               module->binding_count);
  int ended = 0;
  for (int axis = 0; axis < 3 && !status; axis++) {
    if (ended && launch->grid[axis] != VIL_NONE32)
      return BAD("kernel %s: a grid has a gap before axis %d", kernel->name, axis);
    ended |= launch->grid[axis] == VIL_NONE32;
    status = check_expression(module, kernel, is_symbol, launch->grid[axis], 1, "grid", reason);
    if (!status)
      status = check_expression(module, kernel, is_symbol, launch->block[axis], 1, "block", reason);
  }
  if (!status)
    status = check_expression(module, kernel, is_symbol, launch->scratch, 1, "scratch", reason);
  for (uint32_t i = 0; i < launch->binding_count && !status; i++) {
    const vil_r_binding *binding = &module->bindings[launch->first_binding + i];
    if (!all_zero(binding->reserved, 3))
      return BAD("kernel %s: binding %u: reserved bytes are not zero", kernel->name, i);
    if (binding->kind == VIL_BIND_EXPRESSION) {
      status = check_expression(module, kernel, is_symbol, binding->index, 0, "binding", reason);
    } else if (binding->kind < VIL_BIND_ARGUMENT || binding->kind > VIL_BIND_EXPRESSION ||
               binding->index >= (binding->kind == VIL_BIND_ARGUMENT ? kernel->argument_count
                                                                     : kernel->workspace_count)) {
      return BAD("kernel %s: binding %u: kind %u, index %u is out of range", kernel->name, i,
                 binding->kind, binding->index);
    }
  }
  return status;
}

static int32_t check_kernel(const vil_module *module, vil_kernel *kernel, uint32_t string_bytes,
                            vil_reason *reason) {
  uint8_t *is_symbol = calloc(kernel->argument_count + 1u, 1);
  if (!is_symbol) return HAL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < kernel->argument_count; i++)
    is_symbol[i] = kernel->arguments[i].kind == VIL_SYMBOL;
  int32_t status = check_arguments(module, kernel, string_bytes, is_symbol, reason);
  for (uint32_t i = 0; i < kernel->workspace_count && !status; i++) {
    if (!name_at(module->strings, string_bytes, kernel->workspaces[i].name)) {
      status = BAD("kernel %s: workspace %u has no proper name", kernel->name, i);
    } else {
      status = check_expression(module, kernel, is_symbol, kernel->workspaces[i].bytes, 0,
                                "workspace bytes", reason);
    }
  }
  for (uint32_t i = 0; i < kernel->launch_count && !status; i++) {
    status = check_launch(module, kernel, &kernel->launches[i], string_bytes, is_symbol, reason);
  }
  free(is_symbol);
  return status;
}

static int32_t read_signature(vil_module *module, section *part) {
  vil_reason *reason = part->reason;
  if (part->bytes < 80 || memcmp(part->base, "HSIG", 4) != 0 ||
      read32(part->base + 4) != part->bytes || read32(part->base + 8) != 1 ||
      read32(part->base + 12) != 0) {
    return BAD("signature: no proper HSIG header of version 1.0");
  }
  part->header_bytes = 80;
  const void *kernels, *arguments, *workspaces, *launches, *bindings, *expressions, *code, *strings;
  uint32_t argument_count, workspace_count, launch_count, string_bytes;
  int32_t status;
  if ((status = take(part, 16, sizeof(vil_r_kernel), &kernels, &module->kernel_count, "kernels")) ||
      (status = take(part, 24, sizeof(vil_r_argument), &arguments, &argument_count, "arguments")) ||
      (status =
           take(part, 32, sizeof(vil_r_workspace), &workspaces, &workspace_count, "workspaces")) ||
      (status = take(part, 40, sizeof(vil_r_launch), &launches, &launch_count, "launches")) ||
      (status =
           take(part, 48, sizeof(vil_r_binding), &bindings, &module->binding_count, "bindings")) ||
      (status = take(part, 56, sizeof(vil_r_expression), &expressions, &module->expressions.count,
                     "expressions")) ||
      (status = take(part, 64, 1, &code, &module->expressions.code_bytes, "code")) ||
      (status = take(part, 72, 1, &strings, &string_bytes, "strings")) ||
      (status = check_cover(part))) {
    return status;
  }
  module->bindings = bindings;
  module->expressions.items = expressions;
  module->expressions.code = code;
  module->strings = strings;
  module->kernels = calloc(module->kernel_count + 1u, sizeof(vil_kernel));
  if (!module->kernels) return HAL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < module->kernel_count && !status; i++) {
    const vil_r_kernel *record = (const vil_r_kernel *)kernels + i;
    vil_kernel *kernel = &module->kernels[i];
    kernel->module = module;
    kernel->name = name_at(module->strings, string_bytes, record->name);
    if (!kernel->name || record->reserved) return BAD("signature: kernel %u has no proper name", i);
    if ((status = check_range(reason, "arguments", record->first_argument, record->argument_count,
                              argument_count)) ||
        (status = check_range(reason, "workspaces", record->first_workspace,
                              record->workspace_count, workspace_count)) ||
        (status = check_range(reason, "launches", record->first_launch, record->launch_count,
                              launch_count))) {
      return status;
    }
    kernel->arguments =
        (const vil_r_argument *)arguments + (arguments ? record->first_argument : 0);
    kernel->workspaces =
        (const vil_r_workspace *)workspaces + (workspaces ? record->first_workspace : 0);
    kernel->launches = (const vil_r_launch *)launches + (launches ? record->first_launch : 0);
    kernel->argument_count = record->argument_count;
    kernel->workspace_count = record->workspace_count;
    kernel->launch_count = record->launch_count;
    status = check_kernel(module, kernel, string_bytes, reason);
    if (!status) kernel->launch_bytes = vil_launch_size(kernel);
  }
  return status;
}

// ---- Program sections ----

static int value_is_sound(const vil_program *program, const uint8_t *is_symbol, uint16_t value,
                          int optional) {
  if (value == VIL_NONE) return optional;
  if (value & VIL_SREG_BIT) return (value & 0x7FFFu) < program->sreg_count;
  return vil_expression_is_sound(&program->expressions, value, is_symbol, program->param_count);
}

static int32_t check_descriptor(const vil_program *program, const uint8_t *is_symbol,
                                uint32_t string_bytes, uint32_t index, vil_reason *reason) {
  const vil_r_descriptor *d = &program->descriptors[index];
  const char *name = name_at(program->strings, string_bytes, d->name);
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
    if (!name_at(program->strings, string_bytes, tile->name) || vil_dtype_bytes(tile->dtype) == 0 ||
        tile->space < 1 || tile->space > 6 || tile->layout < 1 || tile->layout > 6 ||
        tile->reserved0 || tile->reserved || tile->rows < 1 || tile->rows > 1u << 20 ||
        tile->columns < 1 || tile->columns > 1u << 20 || tile->stages < 1 || tile->stages > 64 ||
        (tile->layout == 3) != (tile->panel != 0) || tile->panel > 1024 || !fits_32_bits(tile)) {
      return BAD("program %s: tile %u is malformed", program->name, i);
    }
  }
  for (uint32_t i = 0; i < program->token_count; i++) {
    const vil_r_token *token = &program->tokens[i];
    if (!name_at(program->strings, string_bytes, token->name) || token->producer < 1 ||
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

static int32_t read_program(vil_module *module, vil_program *program, section *part) {
  vil_reason *reason = part->reason;
  (void)module;
  if (part->bytes < 96 || memcmp(part->base, "HPRG", 4) != 0 ||
      read32(part->base + 4) != part->bytes)
    return BAD("%s: no proper HPRG header", part->what);
  part->header_bytes = 96;
  program->profile = part->base[12];
  program->flags = part->base[13];
  memcpy(&program->sreg_count, part->base + 14, 2);
  const void *params, *tiles, *descriptors, *terms, *tokens, *constants, *expressions, *code,
      *strings, *instructions;
  uint32_t string_bytes;
  int32_t status;
  if ((status = take(part, 16, sizeof(vil_r_param), &params, &program->param_count, "params")) ||
      (status = take(part, 24, sizeof(vil_r_tile), &tiles, &program->tile_count, "tiles")) ||
      (status = take(part, 32, sizeof(vil_r_descriptor), &descriptors, &program->descriptor_count,
                     "descriptors")) ||
      (status = take(part, 40, sizeof(vil_r_term), &terms, &program->term_count, "terms")) ||
      (status = take(part, 48, sizeof(vil_r_token), &tokens, &program->token_count, "tokens")) ||
      (status = take(part, 56, 8, &constants, &program->constant_count, "constants")) ||
      (status = take(part, 64, sizeof(vil_r_expression), &expressions, &program->expressions.count,
                     "expressions")) ||
      (status = take(part, 72, 1, &code, &program->expressions.code_bytes, "code")) ||
      (status = take(part, 80, 1, &strings, &string_bytes, "strings")) ||
      (status = take(part, 88, sizeof(vil_instruction), &instructions, &program->instruction_count,
                     "instructions")) ||
      (status = check_cover(part))) {
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
  program->name = name_at(strings, string_bytes, read32(part->base + 8));
  if (!program->name) return BAD("%s: no proper name", part->what);
  if (program->profile > 1 || program->flags > 3 || program->sreg_count < 3 ||
      program->sreg_count > 4096 || program->expressions.count > 0x7FFF) {
    return BAD("program %s: profile %u, flags %u, %u SREGs", program->name, program->profile,
               program->flags, program->sreg_count);
  }
  program->matches = calloc(program->instruction_count + 1u, sizeof(uint32_t));
  program->tile_at = calloc(program->tile_count + 1u, sizeof(uint64_t));
  program->stage_first = calloc(program->tile_count + 1u, sizeof(uint32_t));
  uint8_t *is_symbol = calloc(program->param_count + 1u, 1);
  if (!program->matches || !program->tile_at || !program->stage_first || !is_symbol) {
    free(is_symbol);
    return HAL_ERROR_OUT_OF_MEMORY;
  }
  for (uint32_t i = 0; i < program->param_count && !status; i++) {
    const vil_r_param *param = &program->params[i];
    is_symbol[i] = param->kind == VIL_SYMBOL;
    int buffer = param->kind == VIL_BUFFER;
    if (!name_at(strings, string_bytes, param->name) || param->kind < VIL_BUFFER ||
        param->kind > VIL_SYMBOL || vil_dtype_bytes(param->dtype) == 0 || param->reserved ||
        (buffer ? param->access < VIL_READ || param->access > VIL_INOUT : param->access != 0) ||
        (param->kind == VIL_SYMBOL && param->dtype != HAL_DTYPE_I64)) {
      status = BAD("program %s: parameter %u is malformed", program->name, i);
    }
  }
  if (!status) status = check_tables(program, is_symbol, string_bytes, reason);
  for (uint32_t i = 0; i < program->expressions.count && !status; i++) {
    if (!vil_expression_is_sound(&program->expressions, i, is_symbol, program->param_count))
      status = BAD("program %s: expression %u is malformed", program->name, i);
  }
  if (!status) status = check_instructions(program, is_symbol, reason);
  free(is_symbol);
  if (!status) status = match_blocks(program, reason);
  if (!status) status = lay_out(program, reason);
  return status;
}

// ---- The image ----

static int32_t read_image(vil_module *module, vil_reason *reason) {
  const uint8_t *image = module->image;
  if (module->bytes < HEADER_BYTES)
    return BAD("image: %llu bytes are less than a header", (unsigned long long)module->bytes);
  if (memcmp(image, "HVIL", 4) != 0) return BAD("image: offset 0: the magic is not HVIL");
  uint16_t major, minor;
  memcpy(&major, image + 4, 2);
  memcpy(&minor, image + 6, 2);
  memcpy(&module->features, image + 24, 8);
  if (major != 1) return BAD("image: offset 4: version %u.%u; this reader knows 1.0", major, minor);
  if (module->features & ~(uint64_t)VIL_KNOWN_FEATURES)
    return BAD("image: offset 24: unknown feature bits 0x%llx",
               (unsigned long long)module->features);
  section whole = {.what = "image",
                   .base = image,
                   .bytes = (uint32_t)module->bytes,
                   .header_bytes = HEADER_BYTES,
                   .reason = reason};
  if (read32(image + 8) != module->bytes || read32(image + 12) != HEADER_BYTES ||
      !all_zero(image + 40, 8)) {
    return BAD("image: offset 8: it says %u bytes and has %llu", read32(image + 8),
               (unsigned long long)module->bytes);
  }
  uint32_t signature = read32(image + 16), signature_bytes = read32(image + 20);
  uint32_t table = read32(image + 32), count = read32(image + 36);
  if (signature % 8 || signature < HEADER_BYTES || signature > whole.bytes ||
      signature_bytes > whole.bytes - signature)
    return BAD("image: offset 16: the signature does not fit");
  if (count == 0 ? table != 0
                 : table % 8 || table < HEADER_BYTES || table > whole.bytes ||
                       (uint64_t)count * 8 > whole.bytes - table) {
    return BAD("image: offset 32: the program table does not fit");
  }
  module->program_count = count;
  module->programs = calloc(count + 1u, sizeof(vil_program));
  vil_table *covered = calloc(count + 2u, sizeof(vil_table));
  if (!module->programs || !covered) {
    free(covered);
    return HAL_ERROR_OUT_OF_MEMORY;
  }
  uint32_t covered_count = 0;
  covered[covered_count++] = (vil_table){signature, signature_bytes};
  if (count) covered[covered_count++] = (vil_table){table, count * 8};
  int32_t status = HAL_OK;
  for (uint32_t i = 0; i < count && !status; i++) {
    uint32_t offset = read32(image + table + 8 * (uint64_t)i),
             bytes = read32(image + table + 8 * (uint64_t)i + 4);
    char what[32];
    snprintf(what, sizeof(what), "program %u", i);
    if (offset % 8 || offset < HEADER_BYTES || offset > whole.bytes ||
        bytes > whole.bytes - offset) {
      status = BAD("image: offset %u: program %u does not fit", table + 8 * i, i);
      break;
    }
    covered[covered_count++] = (vil_table){offset, bytes};
    section part = {.what = what, .base = image + offset, .bytes = bytes, .reason = reason};
    status = read_program(module, &module->programs[i], &part);
  }
  if (!status) {
    section part = {
        .what = "signature", .base = image + signature, .bytes = signature_bytes, .reason = reason};
    status = read_signature(module, &part);
  }
  qsort(covered, covered_count, sizeof(vil_table), by_offset);
  uint32_t end = HEADER_BYTES;
  for (uint32_t i = 0; i <= covered_count && !status; i++) {
    uint32_t next = i < covered_count ? covered[i].offset : whole.bytes;
    if (next < end)
      status = BAD("image: offset %u: sections overlap", next);
    else if (!all_zero(image + end, next - end))
      status = BAD("image: offset %u: padding is not zero", end);
    if (i < covered_count) end = next + covered[i].count;
  }
  free(covered);
  return status;
}

int32_t vil_module_read(const void *image, uint64_t bytes, vil_module **out_module, char *text,
                        size_t capacity) {
  vil_reason holder = {text, capacity}, *reason = &holder;
  if (bytes > 0xFFFFFFF0u)
    return BAD("image: %llu bytes; an image is below 4 GiB", (unsigned long long)bytes);
  vil_module *module = calloc(1, sizeof(*module));
  if (!module) return HAL_ERROR_OUT_OF_MEMORY;
  module->bytes = bytes;
  module->image = malloc(bytes + 8);
  int32_t status = HAL_ERROR_OUT_OF_MEMORY;
  if (module->image) {
    memcpy(module->image, image, bytes);
    status = read_image(module, reason);
  }
  if (status) {
    vil_module_free(module);
    return status;
  }
  *out_module = module;
  return HAL_OK;
}

void vil_module_free(vil_module *module) {
  if (!module) return;
  for (uint32_t i = 0; module->programs && i < module->program_count; i++) {
    free(module->programs[i].matches);
    free(module->programs[i].tile_at);
    free(module->programs[i].stage_first);
  }
  free(module->programs);
  free(module->kernels);
  free(module->image);
  free(module);
}
