// Binds a launch: checks the arguments against the signature and computes every expression of the
// plan before anything runs (docs/vil.md, sections 1.2, 4.2 and 7).
#include <string.h>

#include "vil_launch.h"

#define ROUND(bytes, unit) (((bytes) + (unit) - 1) / (unit) * (unit))

uint64_t vil_launch_size(const vil_kernel *kernel) {
  uint64_t bytes =
      sizeof(vil_launch) + 8ull * kernel->argument_count + sizeof(vil_step) * kernel->launch_count;
  for (uint32_t i = 0; i < kernel->launch_count; i++) {
    const vil_program *program = &kernel->module->programs[kernel->launches[i].program];
    bytes += 8ull * program->expressions.count + sizeof(vil_bound) * program->param_count +
             8ull * program->param_count;
  }
  return ROUND(bytes, 16);
}

uint64_t vil_launch_bytes(const vil_kernel *kernel) {
  return kernel->launch_bytes;
}
uint32_t vil_launch_steps(const void *storage) {
  return ((const vil_launch *)storage)->step_count;
}
uint64_t vil_launch_programs(const void *storage, uint32_t step) {
  return ((const vil_launch *)storage)->steps[step].programs;
}

uint32_t vil_module_kernel_count(const vil_module *module) {
  return module->kernel_count;
}
const vil_kernel *vil_module_kernel(const vil_module *module, uint32_t index) {
  return index < module->kernel_count ? &module->kernels[index] : NULL;
}
const char *vil_kernel_name(const vil_kernel *kernel) {
  return kernel->name;
}

const vil_kernel *vil_kernel_find(const vil_module *module, const char *name) {
  for (uint32_t i = 0; i < module->kernel_count; i++) {
    if (strcmp(module->kernels[i].name, name) == 0) return &module->kernels[i];
  }
  return NULL;
}

uint32_t vil_kernel_argument_count(const vil_kernel *kernel) {
  return kernel->argument_count + (kernel->workspace_count != 0);
}

uint32_t vil_kernel_argument_kind(const vil_kernel *kernel, uint32_t index) {
  if (index >= kernel->argument_count) return HAL_ARGUMENT_BUFFER;
  const vil_r_argument *argument = &kernel->arguments[index];
  if (argument->kind == VIL_BUFFER) return HAL_ARGUMENT_BUFFER;
  switch (argument->dtype) {
    case HAL_DTYPE_F32:
      return HAL_ARGUMENT_F32;
    case HAL_DTYPE_F64:
      return HAL_ARGUMENT_F64;
    case HAL_DTYPE_I32:
      return HAL_ARGUMENT_I32;
    default:
      return HAL_ARGUMENT_I64;
  }
}

int vil_kernel_argument_is_written(const vil_kernel *kernel, uint32_t index) {
  return index >= kernel->argument_count || kernel->arguments[index].access >= VIL_WRITE;
}

uint32_t vil_kernel_argument_element_bytes(const vil_kernel *kernel, uint32_t index) {
  return index >= kernel->argument_count ? 1 : vil_dtype_bytes(kernel->arguments[index].dtype);
}

// Count, kinds and alignment; fills `symbols`.
static int32_t check_kinds(const vil_kernel *kernel, const vil_argument *arguments, uint32_t count,
                           int64_t *symbols, vil_reason *reason) {
  uint32_t expected = vil_kernel_argument_count(kernel);
  if (count != expected) {
    return vil_refuse(reason, HAL_ERROR_INVALID_VALUE, "kernel %s takes %u arguments%s, not %u",
                      kernel->name, expected,
                      kernel->workspace_count ? " with its workspace block" : "", count);
  }
  for (uint32_t i = 0; i < count; i++) {
    uint32_t kind = vil_kernel_argument_kind(kernel, i);
    if (arguments[i].kind != kind) {
      return vil_refuse(reason, HAL_ERROR_INVALID_VALUE,
                        "kernel %s: argument %u has kind %u, the signature says %u", kernel->name,
                        i, arguments[i].kind, kind);
    }
    if (kind == HAL_ARGUMENT_BUFFER && arguments[i].bytes &&
        (uintptr_t)arguments[i].data % vil_kernel_argument_element_bytes(kernel, i)) {
      return vil_refuse(
          reason, HAL_ERROR_INVALID_VALUE,
          "kernel %s: argument %u does not start at a multiple of its element of %u bytes",
          kernel->name, i, vil_kernel_argument_element_bytes(kernel, i));
    }
    if (i < kernel->argument_count && kernel->arguments[i].kind == VIL_SYMBOL)
      symbols[i] = (int64_t)arguments[i].scalar;
  }
  return HAL_OK;
}

// An expression that must not be negative.
static int32_t compute_size(const vil_kernel *kernel, uint32_t expression, const int64_t *symbols,
                            const char *what, int64_t *out_value, vil_reason *reason) {
  if (!vil_expression_compute(&kernel->module->expressions, expression, symbols, out_value)) {
    return vil_refuse(reason, HAL_ERROR_INVALID_VALUE, "kernel %s: %s overflows or divides by zero",
                      kernel->name, what);
  }
  if (*out_value < 0) {
    return vil_refuse(reason, HAL_ERROR_INVALID_VALUE, "kernel %s: %s is %lld, below 0",
                      kernel->name, what, (long long)*out_value);
  }
  return HAL_OK;
}

static int32_t check_sizes(const vil_kernel *kernel, const vil_argument *arguments,
                           const int64_t *symbols, vil_reason *reason) {
  int64_t bytes;
  for (uint32_t i = 0; i < kernel->argument_count; i++) {
    if (kernel->arguments[i].kind != VIL_BUFFER) continue;
    int32_t status = compute_size(kernel, kernel->arguments[i].required_bytes, symbols,
                                  "the bytes of a buffer", &bytes, reason);
    if (status) return status;
    if (arguments[i].bytes < (uint64_t)bytes) {
      return vil_refuse(reason, HAL_ERROR_OUT_OF_RANGE,
                        "kernel %s: argument %u has %llu bytes and needs %lld", kernel->name, i,
                        (unsigned long long)arguments[i].bytes, (long long)bytes);
    }
  }
  uint64_t total = 0;
  for (uint32_t i = 0; i < kernel->workspace_count; i++) {
    int32_t status =
        compute_size(kernel, kernel->workspaces[i].bytes, symbols, "a workspace", &bytes, reason);
    if (status) return status;
    if ((uint64_t)bytes > (1ull << 62) || total > (1ull << 62))
      return vil_refuse(reason, HAL_ERROR_INVALID_VALUE, "kernel %s: the workspaces overflow",
                        kernel->name);
    total += ROUND((uint64_t)bytes, 256);
  }
  if (kernel->workspace_count && arguments[kernel->argument_count].bytes < total) {
    return vil_refuse(reason, HAL_ERROR_OUT_OF_RANGE,
                      "kernel %s: the workspace block has %llu bytes and needs %llu", kernel->name,
                      (unsigned long long)arguments[kernel->argument_count].bytes,
                      (unsigned long long)total);
  }
  return HAL_OK;
}

static int32_t bind_grid(const vil_kernel *kernel, const vil_r_launch *launch,
                         const uint32_t caller[3], const int64_t *symbols, const vil_limits *limits,
                         vil_step *step, vil_reason *reason) {
  uint32_t bits = limits ? limits->grid_bits : 31;
  int by_caller = launch->grid[0] == VIL_NONE32;
  step->programs = 1;
  for (int axis = 0; axis < 3; axis++) {
    int64_t count = by_caller ? caller[axis] : 1;
    if (launch->grid[axis] != VIL_NONE32) {
      int32_t status =
          compute_size(kernel, launch->grid[axis], symbols, "a grid axis", &count, reason);
      if (status) return status;
    }
    if (bits < 63 && count >= (int64_t)1 << bits) {
      return vil_refuse(reason, HAL_ERROR_OUT_OF_RANGE,
                        "kernel %s: grid axis %d has %lld programs; the chip takes less than 2^%u",
                        kernel->name, axis, (long long)count, bits);
    }
    step->grid[axis] = (uint64_t)count;
    if (count && step->programs > INT64_MAX / (uint64_t)count)
      return vil_refuse(reason, HAL_ERROR_OUT_OF_RANGE,
                        "kernel %s: the grid has more than 2^63 programs", kernel->name);
    step->programs *= (uint64_t)count;
  }
  int64_t ignored;
  for (int axis = 0; axis < 3; axis++) {
    if (launch->block[axis] == VIL_NONE32) continue;
    int32_t status =
        compute_size(kernel, launch->block[axis], symbols, "a block", &ignored, reason);
    if (status) return status;
  }
  return launch->scratch == VIL_NONE32
             ? HAL_OK
             : compute_size(kernel, launch->scratch, symbols, "the scratch", &ignored, reason);
}

// Binds the parameters of one step; `param_symbols` is room for one i64 per parameter.
static int32_t bind_params(const vil_kernel *kernel, const vil_r_launch *launch,
                           const vil_argument *arguments, const int64_t *symbols, vil_bound *params,
                           int64_t *param_symbols, vil_reason *reason) {
  const vil_module *module = kernel->module;
  for (uint32_t i = 0; i < launch->binding_count; i++) {
    const vil_r_binding *binding = &module->bindings[launch->first_binding + i];
    vil_bound *bound = &params[i];
    memset(bound, 0, sizeof(*bound));
    param_symbols[i] = 0;
    if (binding->kind == VIL_BIND_EXPRESSION) {
      if (!vil_expression_compute(&module->expressions, binding->index, symbols,
                                  &param_symbols[i])) {
        return vil_refuse(reason, HAL_ERROR_INVALID_VALUE,
                          "kernel %s: parameter %u overflows or divides by zero", kernel->name, i);
      }
      bound->scalar = (uint64_t)param_symbols[i];
    } else if (binding->kind == VIL_BIND_ARGUMENT) {
      bound->data = arguments[binding->index].data;
      bound->bytes = arguments[binding->index].bytes;
      bound->scalar = arguments[binding->index].scalar;
    } else {
      uint64_t at = 0;
      int64_t bytes = 0;
      for (uint32_t w = 0; w <= binding->index; w++) {
        if (w) at += ROUND((uint64_t)bytes, 256);
        vil_expression_compute(&module->expressions, kernel->workspaces[w].bytes, symbols, &bytes);
      }
      bound->data = (uint8_t *)((uintptr_t)arguments[kernel->argument_count].data + at);
      bound->bytes = (uint64_t)bytes;
    }
  }
  return HAL_OK;
}

int32_t vil_launch_bind(const vil_kernel *kernel, const uint32_t grid[3],
                        const vil_argument *arguments, uint32_t count, const vil_limits *limits,
                        void *storage, char *text, size_t capacity) {
  vil_reason holder = {text, capacity}, *reason = &holder;
  vil_launch *launch = storage;
  launch->kernel = kernel;
  launch->step_count = kernel->launch_count;
  launch->steps = (vil_step *)(launch + 1);
  int64_t *symbols = (int64_t *)(launch->steps + kernel->launch_count);
  int64_t *next = symbols + kernel->argument_count;
  int32_t status = check_kinds(kernel, arguments, count, symbols, reason);
  if (!status) status = check_sizes(kernel, arguments, symbols, reason);
  for (uint32_t i = 0; i < kernel->launch_count && !status; i++) {
    const vil_r_launch *record = &kernel->launches[i];
    vil_step *step = &launch->steps[i];
    const vil_program *program = &kernel->module->programs[record->program];
    step->program = program;
    vil_bound *params = (vil_bound *)next;
    int64_t *param_symbols = (int64_t *)(params + program->param_count);
    int64_t *values = param_symbols + program->param_count;
    next = values + program->expressions.count;
    step->params = params;
    step->values = values;
    if ((status = bind_grid(kernel, record, grid, symbols, limits, step, reason)) ||
        (status = bind_params(kernel, record, arguments, symbols, params, param_symbols, reason))) {
      break;
    }
    for (uint32_t e = 0; e < program->expressions.count; e++) {
      if (!vil_expression_compute(&program->expressions, e, param_symbols, &values[e])) {
        return vil_refuse(reason, HAL_ERROR_INVALID_VALUE,
                          "kernel %s: program %s: expression %u overflows or divides by zero",
                          kernel->name, program->name, e);
      }
    }
  }
  return status;
}
