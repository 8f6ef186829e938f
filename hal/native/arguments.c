// Checks the arguments of a launch against the kernel's signature (docs/vil.md, section 4.2).
#include "signature_form.h"

static const char *kind_name(uint32_t kind) {
  switch (kind) {
    case HAL_ARGUMENT_BUFFER:
      return "a buffer";
    case HAL_ARGUMENT_I32:
      return "an i32";
    case HAL_ARGUMENT_I64:
      return "an i64";
    case HAL_ARGUMENT_F32:
      return "an f32";
    case HAL_ARGUMENT_F64:
      return "an f64";
    default:
      return "of an unknown kind";
  }
}

static int32_t check_kinds(const hal_kernel_signature *kernel, const hal_parameter *parameters,
                           const hal_argument *arguments, uint32_t count, hal_problem *problem) {
  if (count != kernel->parameter_count) {
    return hal_problem_set(problem, HAL_ERROR_INVALID_VALUE, "%s takes %u arguments, %u are given",
                           kernel->name, kernel->parameter_count, count);
  }
  for (uint32_t i = 0; i < count; ++i) {
    if (arguments[i].kind == parameters[i].argument_kind) continue;
    return hal_problem_set(problem, HAL_ERROR_INVALID_VALUE,
                           "argument %u of %s, %s, is %s, given is %s", i, kernel->name,
                           parameters[i].name, kind_name(parameters[i].argument_kind),
                           kind_name(arguments[i].kind));
  }
  return HAL_OK;
}

static const char *value_of(const hal_image *image, uint32_t index, const hal_argument *arguments,
                            int64_t *out_value) {
  const hal_expression *expression = &image->expressions[index];
  return hal_expression_value(image->code + expression->offset, expression->bytes, arguments,
                              out_value);
}

static int32_t check_buffer(const hal_image *image, const hal_kernel_signature *kernel,
                            const hal_parameter *parameter, const hal_argument *arguments,
                            const hal_argument *argument, int64_t *out_required,
                            hal_problem *problem) {
  const char *wrong = value_of(image, parameter->required_bytes, arguments, out_required);
  if (wrong != NULL || *out_required < 0) {
    return hal_problem_set(problem, HAL_ERROR_INVALID_VALUE, "%s: the size of %s %s", kernel->name,
                           parameter->name, wrong != NULL ? wrong : "is negative");
  }
  const hal_memory_ref *buffer = &argument->buffer;
  if (buffer->bytes < (uint64_t)*out_required) {
    return hal_problem_set(
        problem, HAL_ERROR_OUT_OF_RANGE, "%s needs %lld bytes in %s, given are %llu", kernel->name,
        (long long)*out_required, parameter->name, (unsigned long long)buffer->bytes);
  }
  if (buffer->offset_bytes % parameter->element_bytes != 0) {
    return hal_problem_set(problem, HAL_ERROR_INVALID_VALUE,
                           "%s: the offset of %s is %llu, not a multiple of its %u-byte elements",
                           kernel->name, parameter->name, (unsigned long long)buffer->offset_bytes,
                           parameter->element_bytes);
  }
  return HAL_OK;
}

// Two ranges meet when either has a byte of the other.
static int meets(const hal_memory_ref *a, const hal_memory_ref *b) {
  if (a->memory != b->memory || a->bytes == 0 || b->bytes == 0) return 0;
  return a->offset_bytes < b->offset_bytes ? b->offset_bytes - a->offset_bytes < a->bytes
                                           : a->offset_bytes - b->offset_bytes < b->bytes;
}

static int is_same(const hal_memory_ref *a, const hal_memory_ref *b) {
  return a->memory == b->memory && a->offset_bytes == b->offset_bytes && a->bytes == b->bytes;
}

static int32_t check_overlap(const hal_kernel_signature *kernel, const hal_parameter *parameters,
                             const hal_argument *arguments, uint32_t index, hal_problem *problem) {
  const hal_parameter *later = &parameters[index];
  for (uint32_t i = 0; i < index; ++i) {
    const hal_parameter *earlier = &parameters[i];
    if (earlier->kind != HAL_SIGNATURE_BUFFER) continue;
    if (earlier->access == HAL_ACCESS_READ && later->access == HAL_ACCESS_READ) continue;
    const hal_memory_ref *a = &arguments[i].buffer, *b = &arguments[index].buffer;
    if (!meets(a, b) || (later->alias == i && is_same(a, b))) continue;
    return hal_problem_set(problem, HAL_ERROR_INVALID_VALUE,
                           "%s: %s (bytes %llu + %llu) and %s (bytes %llu + %llu) overlap",
                           kernel->name, earlier->name, (unsigned long long)a->offset_bytes,
                           (unsigned long long)a->bytes, later->name,
                           (unsigned long long)b->offset_bytes, (unsigned long long)b->bytes);
  }
  return HAL_OK;
}

static int32_t workspace_bytes(const hal_image *image, const hal_kernel_signature *kernel,
                               const hal_argument *arguments, uint64_t *out_bytes,
                               hal_problem *problem) {
  const int64_t step = HAL_WORKSPACE_ALIGNMENT;
  int64_t sum = 0;
  for (uint32_t i = 0; i < kernel->workspace_count; ++i) {
    int64_t bytes = 0;
    const char *wrong =
        value_of(image, image->workspaces[kernel->first_workspace + i], arguments, &bytes);
    if (wrong == NULL && bytes < 0) wrong = "is negative";
    if (wrong == NULL && (bytes > INT64_MAX - step ||
                          __builtin_add_overflow(sum, (bytes + step - 1) / step * step, &sum))) {
      wrong = "overflows 64 bits";
    }
    if (wrong != NULL) {
      return hal_problem_set(problem, HAL_ERROR_INVALID_VALUE, "%s: the size of workspace %u %s",
                             kernel->name, i, wrong);
    }
  }
  *out_bytes = (uint64_t)sum;
  return HAL_OK;
}

int32_t hal_signature_check(const hal_image *image, const hal_kernel_signature *kernel,
                            const hal_argument *arguments, uint32_t argument_count,
                            uint64_t *out_required_bytes, uint64_t *out_workspace_bytes,
                            hal_problem *problem) {
  const hal_parameter *parameters = image->parameters + kernel->first_parameter;
  int32_t status = check_kinds(kernel, parameters, arguments, argument_count, problem);
  if (status != HAL_OK) return status;
  for (uint32_t i = 0; i < argument_count; ++i) {
    int64_t required = 0;
    if (parameters[i].kind == HAL_SIGNATURE_BUFFER) {
      status =
          check_buffer(image, kernel, &parameters[i], arguments, &arguments[i], &required, problem);
      if (status == HAL_OK) status = check_overlap(kernel, parameters, arguments, i, problem);
      if (status != HAL_OK) return status;
    }
    if (out_required_bytes != NULL) out_required_bytes[i] = (uint64_t)required;
  }
  if (out_workspace_bytes == NULL) return HAL_OK;
  return workspace_bytes(image, kernel, arguments, out_workspace_bytes, problem);
}
