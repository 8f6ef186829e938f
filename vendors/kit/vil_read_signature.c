// Reads the signature section of an image: kernels, arguments, plans (docs/vil.md, section 4.2).
#include <stdlib.h>

#include "vil_section.h"

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
    if (!vil_name_at(module->strings, string_bytes, argument->name))
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
  if (!vil_name_at(module->strings, string_bytes, launch->name) || launch->reserved ||
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
    if (!vil_all_zero(binding->reserved, 3))
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
    if (!vil_name_at(module->strings, string_bytes, kernel->workspaces[i].name)) {
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

// Tables that kernels take their parts from.
typedef struct parts {
  const vil_r_argument *arguments;
  const vil_r_workspace *workspaces;
  const vil_r_launch *launches;
  uint32_t argument_count, workspace_count, launch_count, string_bytes;
} parts;

static int32_t read_kernel(const vil_module *module, vil_kernel *kernel, const vil_r_kernel *record,
                           const parts *all, vil_reason *reason) {
  int32_t status;
  kernel->module = module;
  kernel->name = vil_name_at(module->strings, all->string_bytes, record->name);
  if (!kernel->name || record->reserved) return BAD("signature: a kernel has no proper name");
  if ((status = check_range(reason, "arguments", record->first_argument, record->argument_count,
                            all->argument_count)) ||
      (status = check_range(reason, "workspaces", record->first_workspace, record->workspace_count,
                            all->workspace_count)) ||
      (status = check_range(reason, "launches", record->first_launch, record->launch_count,
                            all->launch_count))) {
    return status;
  }
  kernel->arguments = all->arguments + (all->arguments ? record->first_argument : 0);
  kernel->workspaces = all->workspaces + (all->workspaces ? record->first_workspace : 0);
  kernel->launches = all->launches + (all->launches ? record->first_launch : 0);
  kernel->argument_count = record->argument_count;
  kernel->workspace_count = record->workspace_count;
  kernel->launch_count = record->launch_count;
  status = check_kernel(module, kernel, all->string_bytes, reason);
  if (!status) kernel->launch_bytes = vil_launch_size(kernel);
  return status;
}

int32_t vil_read_signature(vil_module *module, vil_section *part) {
  vil_reason *reason = part->reason;
  if (part->bytes < 80 || memcmp(part->base, "HSIG", 4) != 0 ||
      vil_read32(part->base + 4) != part->bytes || vil_read32(part->base + 8) != 1 ||
      vil_read32(part->base + 12) != 0) {
    return BAD("signature: no proper HSIG header of version 1.0");
  }
  part->header_bytes = 80;
  const void *kernels, *arguments, *workspaces, *launches, *bindings, *expressions, *code, *strings;
  parts all;
  int32_t status;
  if ((status =
           vil_take(part, 16, sizeof(vil_r_kernel), &kernels, &module->kernel_count, "kernels")) ||
      (status = vil_take(part, 24, sizeof(vil_r_argument), &arguments, &all.argument_count,
                         "arguments")) ||
      (status = vil_take(part, 32, sizeof(vil_r_workspace), &workspaces, &all.workspace_count,
                         "workspaces")) ||
      (status =
           vil_take(part, 40, sizeof(vil_r_launch), &launches, &all.launch_count, "launches")) ||
      (status = vil_take(part, 48, sizeof(vil_r_binding), &bindings, &module->binding_count,
                         "bindings")) ||
      (status = vil_take(part, 56, sizeof(vil_r_expression), &expressions,
                         &module->expressions.count, "expressions")) ||
      (status = vil_take(part, 64, 1, &code, &module->expressions.code_bytes, "code")) ||
      (status = vil_take(part, 72, 1, &strings, &all.string_bytes, "strings")) ||
      (status = vil_check_cover(part->what, part->base, part->header_bytes, part->bytes,
                                part->covered, part->covered_count, reason))) {
    return status;
  }
  module->bindings = bindings;
  module->expressions.items = expressions;
  module->expressions.code = code;
  module->strings = strings;
  module->kernels = calloc(module->kernel_count + 1u, sizeof(vil_kernel));
  if (!module->kernels) return HAL_ERROR_OUT_OF_MEMORY;
  all.arguments = arguments;
  all.workspaces = workspaces;
  all.launches = launches;
  for (uint32_t i = 0; i < module->kernel_count && !status; i++) {
    status =
        read_kernel(module, &module->kernels[i], (const vil_r_kernel *)kernels + i, &all, reason);
  }
  return status;
}
