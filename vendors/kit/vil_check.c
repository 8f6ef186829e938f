// The judge of a module: `validate(module, HCD)` of docs/vil.md, section 6.
#include <stdlib.h>
#include <string.h>

#include "vil_check.h"

// ---- Names ----

typedef struct name_list {
  const char **names;
  uint32_t count;
} name_list;

// Adds the names of `count` records, each of which starts with a string reference.
static void add_names(name_list *list, const char *strings, const void *records,
                      size_t record_bytes, uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    list->names[list->count++] =
        strings + *(const uint32_t *)(const void *)((const uint8_t *)records + i * record_bytes);
}

static int by_text(const void *left, const void *right) {
  return strcmp(*(const char *const *)left, *(const char *const *)right);
}

static int32_t check_unique(name_list *list, const char *where, vil_reason *reason) {
  qsort(list->names, list->count, sizeof(char *), by_text);
  int32_t status = HAL_OK;
  for (uint32_t i = 1; i < list->count && !status; i++) {
    if (strcmp(list->names[i - 1], list->names[i]) == 0)
      status = vil_refuse(reason, HAL_ERROR_INVALID_MODULE, "%s: the name %s stands twice", where,
                          list->names[i]);
  }
  free(list->names);
  return status;
}

static int32_t check_program_names(vil_judged *judged) {
  const vil_program *p = judged->program;
  name_list list = {malloc(sizeof(char *) * ((size_t)p->param_count + p->tile_count +
                                             p->token_count + p->descriptor_count + 1)),
                    0};
  if (!list.names) return HAL_ERROR_OUT_OF_MEMORY;
  add_names(&list, p->strings, p->params, sizeof(*p->params), p->param_count);
  add_names(&list, p->strings, p->tiles, sizeof(*p->tiles), p->tile_count);
  add_names(&list, p->strings, p->tokens, sizeof(*p->tokens), p->token_count);
  add_names(&list, p->strings, p->descriptors, sizeof(*p->descriptors), p->descriptor_count);
  return check_unique(&list, p->name, judged->reason);
}

static int32_t check_kernel_names(const vil_kernel *kernel, vil_reason *reason) {
  name_list list = {
      malloc(sizeof(char *) * ((size_t)kernel->argument_count + kernel->workspace_count + 1)), 0};
  if (!list.names) return HAL_ERROR_OUT_OF_MEMORY;
  add_names(&list, kernel->module->strings, kernel->arguments, sizeof(*kernel->arguments),
            kernel->argument_count);
  add_names(&list, kernel->module->strings, kernel->workspaces, sizeof(*kernel->workspaces),
            kernel->workspace_count);
  return check_unique(&list, kernel->name, reason);
}

static int32_t check_module_names(const vil_module *module, vil_reason *reason) {
  name_list list = {malloc(sizeof(char *) * ((size_t)module->program_count + 1)), 0};
  if (!list.names) return HAL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < module->program_count; i++)
    list.names[list.count++] = module->programs[i].name;
  int32_t status = check_unique(&list, "programs", reason);
  if (status) return status;
  list = (name_list){malloc(sizeof(char *) * ((size_t)module->kernel_count + 1)), 0};
  if (!list.names) return HAL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < module->kernel_count; i++)
    list.names[list.count++] = module->kernels[i].name;
  return check_unique(&list, "kernels", reason);
}

// ---- Plans ----

static int32_t check_binding(const vil_kernel *kernel, const vil_program *program,
                             const vil_r_binding *binding, const vil_r_param *param,
                             vil_reason *reason) {
  const char *name = program->strings + param->name;
  if (param->kind == VIL_SYMBOL) {
    return binding->kind == VIL_BIND_EXPRESSION
               ? HAL_OK
               : vil_refuse(reason, HAL_ERROR_INVALID_MODULE,
                            "kernel %s: symbol %s of program %s needs an expression", kernel->name,
                            name, program->name);
  }
  const vil_r_argument *argument =
      binding->kind == VIL_BIND_ARGUMENT ? &kernel->arguments[binding->index] : NULL;
  int sound;
  if (param->kind == VIL_SCALAR) {
    sound = argument && argument->kind == VIL_SCALAR && argument->dtype == param->dtype;
  } else if (binding->kind == VIL_BIND_WORKSPACE) {
    sound = 1;
  } else {
    sound = argument && argument->kind == VIL_BUFFER && argument->dtype == param->dtype &&
            (param->access == VIL_INOUT   ? argument->access == VIL_INOUT
             : param->access == VIL_WRITE ? argument->access != VIL_READ
                                          : argument->access != VIL_WRITE);
  }
  return sound ? HAL_OK
               : vil_refuse(reason, HAL_ERROR_INVALID_MODULE,
                            "kernel %s: parameter %s of program %s is bound to something of "
                            "another kind, type or access",
                            kernel->name, name, program->name);
}

// One launch binds no buffer twice when one of the two is written.
static int32_t check_sharing(const vil_kernel *kernel, const vil_r_launch *launch,
                             const vil_program *program, vil_reason *reason) {
  const vil_r_binding *bindings = kernel->module->bindings + launch->first_binding;
  uint8_t *uses = calloc((size_t)kernel->argument_count + kernel->workspace_count + 1,
                         1);  // 1 read, 2 written.
  if (!uses) return HAL_ERROR_OUT_OF_MEMORY;
  int32_t status = HAL_OK;
  for (uint32_t i = 0; i < launch->binding_count && !status; i++) {
    if (program->params[i].kind != VIL_BUFFER) continue;
    uint8_t *use = &uses[bindings[i].index +
                         (bindings[i].kind == VIL_BIND_WORKSPACE ? kernel->argument_count : 0)];
    uint8_t now = program->params[i].access == VIL_READ ? 1 : 2;
    if (*use && (now == 2 || *use == 2)) {
      status = vil_refuse(reason, HAL_ERROR_INVALID_MODULE,
                          "kernel %s: program %s gets one buffer as %s and as an earlier "
                          "parameter, and one of them is written",
                          kernel->name, program->name, program->strings + program->params[i].name);
    }
    if (now > *use) *use = now;
  }
  free(uses);
  return status;
}

static int32_t check_launch(const vil_kernel *kernel, const vil_r_launch *launch,
                            vil_reason *reason) {
  const vil_module *module = kernel->module;
  const vil_program *program = &module->programs[launch->program];
  const vil_r_binding *bindings = module->bindings + launch->first_binding;
  if (launch->binding_count != program->param_count) {
    return vil_refuse(reason, HAL_ERROR_INVALID_MODULE,
                      "kernel %s: program %s has %u parameters, the launch binds %u", kernel->name,
                      program->name, program->param_count, launch->binding_count);
  }
  if (strcmp(module->strings + launch->name, program->name) != 0) {
    return vil_refuse(reason, HAL_ERROR_INVALID_MODULE,
                      "kernel %s: a launch names %s and points at program %s", kernel->name,
                      module->strings + launch->name, program->name);
  }
  for (uint32_t i = 0; i < launch->binding_count; i++) {
    int32_t status = check_binding(kernel, program, &bindings[i], &program->params[i], reason);
    if (status) return status;
  }
  return check_sharing(kernel, launch, program, reason);
}

static int32_t check_grid(const vil_kernel *kernel, const vil_r_launch *launch,
                          const vil_limits *limits, vil_reason *reason) {
  for (int axis = 0; axis < 3; axis++) {
    int64_t count;
    if (launch->grid[axis] == VIL_NONE32 ||
        !vil_expression_constant(&kernel->module->expressions, launch->grid[axis], &count))
      continue;
    if (count < 0 || (limits->grid_bits < 63 && count >= (int64_t)1 << limits->grid_bits)) {
      return vil_refuse(reason, HAL_ERROR_INVALID_MODULE,
                        "kernel %s: grid axis %d is %lld; the chip takes 0 to 2^%u - 1",
                        kernel->name, axis, (long long)count, limits->grid_bits);
    }
  }
  return HAL_OK;
}

static int32_t check_kernel(const vil_kernel *kernel, const vil_limits *limits,
                            vil_reason *reason) {
  int32_t status = check_kernel_names(kernel, reason);
  for (uint32_t i = 0; i < kernel->launch_count && !status; i++) {
    status = check_launch(kernel, &kernel->launches[i], reason);
    if (!status) status = check_grid(kernel, &kernel->launches[i], limits, reason);
  }
  return status;
}

int32_t vil_module_validate(const vil_module *module, const vil_limits *limits, char *text,
                            size_t capacity) {
  vil_reason holder = {text, capacity};
  const vil_limits core = {NULL, 31, 0, NULL};
  uint64_t features = 0;
  if (!limits) limits = &core;
  int32_t status = check_module_names(module, &holder);
  for (uint32_t i = 0; i < module->program_count && !status; i++) {
    vil_judged judged = {.module = module, .program = &module->programs[i], .reason = &holder};
    status = vil_check_counts(&judged, limits);
    if (!status) status = check_program_names(&judged);
    if (!status) status = vil_check_types(&judged);
    if (!status) status = vil_check_lifetimes(&judged);
    if (!status) status = vil_check_tokens(&judged);
    if (!status) status = vil_check_chip(&judged, limits);
    if (!status) features |= vil_program_features(judged.program);
  }
  for (uint32_t i = 0; i < module->kernel_count && !status; i++)
    status = check_kernel(&module->kernels[i], limits, &holder);
  if (!status && features != module->features) {
    return vil_refuse(&holder, HAL_ERROR_INVALID_MODULE,
                      "image: the features are 0x%llx, the content needs 0x%llx",
                      (unsigned long long)module->features, (unsigned long long)features);
  }
  return status;
}
