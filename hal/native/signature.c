// Reads the signature section HSIG (docs/vil.md, section 4.2). It trusts no byte.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "signature_form.h"

enum {
  KERNELS,
  ARGUMENTS,
  WORKSPACES,
  LAUNCHES,
  BINDINGS,
  EXPRESSIONS,
  CODE,
  STRINGS,
  TABLES,
  HEADER_BYTES = 80,
  FIRST_TABLE = 16,
  KERNEL_LIMIT = 4096,
};

static const char *const table_names[TABLES] = {"kernels",  "arguments",   "workspaces", "launches",
                                                "bindings", "expressions", "code",       "strings"};
static const uint32_t record_bytes[TABLES] = {32, 24, 8, 48, 8, 8, 1, 1};

typedef struct reader {
  const unsigned char *section;
  uint64_t base;  // Where the section starts in the image, for messages.
  uint32_t offset[TABLES];
  uint32_t count[TABLES];
  uint64_t taken[TABLES];  // Records that the kernels so far refer to.
  hal_image *image;
  hal_problem *problem;
} reader;

int32_t hal_problem_set(hal_problem *problem, int32_t status, const char *format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(problem->text, sizeof(problem->text), format, list);
  va_end(list);
  return status;
}

// Refuses the image because of the field at `at` in the section.
static int32_t refuse(const reader *in, uint32_t at, const char *what) {
  return hal_problem_set(in->problem, HAL_ERROR_INVALID_MODULE, "byte %llu of the image: %s",
                         (unsigned long long)(in->base + at), what);
}

static int32_t read_tables(reader *in, uint32_t bytes) {
  for (uint32_t i = 0; i < TABLES; ++i) {
    const uint32_t at = FIRST_TABLE + 8 * i;
    const uint64_t offset = hal_read_u32(in->section + at);
    const uint64_t length = (uint64_t)hal_read_u32(in->section + at + 4) * record_bytes[i];
    in->offset[i] = (uint32_t)offset;
    in->count[i] = hal_read_u32(in->section + at + 4);
    const int is_in_place = length == 0 ? offset == 0
                                        : offset >= HEADER_BYTES && offset % 8 == 0 &&
                                              offset <= bytes && length <= bytes - offset;
    if (!is_in_place) {
      return hal_problem_set(in->problem, HAL_ERROR_INVALID_MODULE,
                             "byte %llu of the image: the table %s (offset %llu, %llu bytes) does "
                             "not lie in its section of %u bytes",
                             (unsigned long long)(in->base + at), table_names[i],
                             (unsigned long long)offset, (unsigned long long)length, bytes);
    }
    for (uint32_t k = 0; k < i; ++k) {
      const uint64_t other = in->offset[k];
      const uint64_t other_end = other + (uint64_t)in->count[k] * record_bytes[k];
      if (length != 0 && other_end != other && offset < other_end && other < offset + length) {
        return hal_problem_set(in->problem, HAL_ERROR_INVALID_MODULE,
                               "byte %llu of the image: the tables %s and %s overlap",
                               (unsigned long long)(in->base + at), table_names[k], table_names[i]);
      }
    }
  }
  if (in->count[KERNELS] > KERNEL_LIMIT) {
    return refuse(in, FIRST_TABLE + 4, "there are more than 4096 kernels");
  }
  return HAL_OK;
}

static int is_name_byte(unsigned char byte, int is_first) {
  const int is_letter = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || byte == '_';
  return is_letter || (!is_first && byte >= '0' && byte <= '9');
}

// Reads a reference to a name; NULL when it is none.
static const char *name_at(const reader *in, uint32_t at) {
  const uint32_t reference = hal_read_u32(in->section + at);
  if (reference >= in->count[STRINGS]) return NULL;
  const unsigned char *text = in->section + in->offset[STRINGS] + reference;
  const uint32_t room = in->count[STRINGS] - reference;
  uint32_t length = 0;
  while (length < room && length < 64 && is_name_byte(text[length], length == 0)) ++length;
  if (length == 0 || length >= room || length >= 64 || text[length] != '\0') return NULL;
  return in->image->section == NULL
             ? NULL
             : (const char *)in->image->section + in->offset[STRINGS] + reference;
}

static uint32_t element_bytes(uint32_t dtype) {
  static const uint8_t sizes[] = {0, 4, 2, 2, 8, 1, 1, 4, 8, 1, 1, 1};
  return dtype < sizeof(sizes) ? sizes[dtype] : 0;
}

static uint32_t scalar_kind(uint32_t dtype) {
  switch (dtype) {
    case HAL_DTYPE_F32:
      return HAL_ARGUMENT_F32;
    case HAL_DTYPE_F64:
      return HAL_ARGUMENT_F64;
    case HAL_DTYPE_I32:
      return HAL_ARGUMENT_I32;
    case HAL_DTYPE_I64:
      return HAL_ARGUMENT_I64;
    default:
      return 0;
  }
}

static int32_t read_parameter(const reader *in, uint32_t index, hal_parameter *out) {
  const uint32_t at = in->offset[ARGUMENTS] + index * record_bytes[ARGUMENTS];
  const unsigned char *record = in->section + at;
  out->name = name_at(in, at);
  out->kind = record[4];
  out->dtype = record[5];
  out->access = record[6];
  out->element_bytes = (uint8_t)element_bytes(out->dtype);
  out->required_bytes = hal_read_u32(record + 8);
  out->alias = hal_read_u32(record + 12);
  if (out->name == NULL) return refuse(in, at, "an argument has no name");
  if (record[7] != 0 || hal_read_u64(record + 16) != 0) {
    return refuse(in, at, "a reserved field of an argument is not zero");
  }
  const int is_buffer = out->kind == HAL_SIGNATURE_BUFFER;
  if (out->element_bytes == 0) return refuse(in, at + 5, "an argument's dtype is unknown");
  if (is_buffer ? out->access < HAL_ACCESS_READ || out->access > HAL_ACCESS_INOUT
                : out->access != 0) {
    return refuse(in, at + 6, "an argument's access is wrong");
  }
  if (is_buffer ? out->required_bytes >= in->count[EXPRESSIONS]
                : out->required_bytes != HAL_INDEX_NONE || out->alias != HAL_INDEX_NONE) {
    return refuse(in, at + 8, "an argument's required_bytes or alias is wrong");
  }
  if (is_buffer) {
    out->argument_kind = HAL_ARGUMENT_BUFFER;
  } else if (out->kind == HAL_SIGNATURE_SCALAR) {
    out->argument_kind = scalar_kind(out->dtype);
  } else {
    out->argument_kind =
        out->kind == HAL_SIGNATURE_SYMBOL && out->dtype == HAL_DTYPE_I64 ? HAL_ARGUMENT_I64 : 0;
  }
  if (out->argument_kind == 0) return refuse(in, at + 4, "an argument's kind or dtype is wrong");
  return HAL_OK;
}

static int32_t check_expression(const reader *in, const hal_kernel_signature *kernel,
                                uint32_t index, uint32_t at) {
  if (index >= in->count[EXPRESSIONS]) return refuse(in, at, "no such expression");
  const hal_expression *expression = &in->image->expressions[index];
  const char *wrong = hal_expression_check(
      in->section + in->offset[CODE] + expression->offset, expression->bytes,
      in->image->parameters + kernel->first_parameter, kernel->parameter_count);
  if (wrong == NULL) return HAL_OK;
  return hal_problem_set(in->problem, HAL_ERROR_INVALID_MODULE,
                         "byte %llu of the image: expression %u: %s",
                         (unsigned long long)(in->base + at), index, wrong);
}

static int32_t check_arguments(const reader *in, const hal_kernel_signature *kernel) {
  const hal_parameter *parameters = in->image->parameters + kernel->first_parameter;
  for (uint32_t i = 0; i < kernel->parameter_count; ++i) {
    const uint32_t at =
        in->offset[ARGUMENTS] + (kernel->first_parameter + i) * record_bytes[ARGUMENTS];
    if (parameters[i].kind != HAL_SIGNATURE_BUFFER) continue;
    const uint32_t alias = parameters[i].alias;
    if (alias != HAL_INDEX_NONE && (alias >= i || parameters[alias].kind != HAL_SIGNATURE_BUFFER)) {
      return refuse(in, at + 12, "an alias is not an earlier buffer of the kernel");
    }
    const int32_t status = check_expression(in, kernel, parameters[i].required_bytes, at + 8);
    if (status != HAL_OK) return status;
  }
  return HAL_OK;
}

static int32_t check_workspaces(const reader *in, const hal_kernel_signature *kernel) {
  for (uint32_t i = 0; i < kernel->workspace_count; ++i) {
    const uint32_t at =
        in->offset[WORKSPACES] + (kernel->first_workspace + i) * record_bytes[WORKSPACES];
    const int32_t status =
        check_expression(in, kernel, in->image->workspaces[kernel->first_workspace + i], at + 4);
    if (status != HAL_OK) return status;
  }
  return HAL_OK;
}

// Grids and scratch of the plan; the port computes them, so only their form is checked here.
static int32_t check_launches(const reader *in, hal_kernel_signature *kernel, uint32_t first) {
  for (uint32_t i = 0; i < kernel->launch_count; ++i) {
    const uint32_t at = in->offset[LAUNCHES] + (first + i) * record_bytes[LAUNCHES];
    uint32_t axes = 0;
    for (uint32_t field = 8; field < 20; field += 4) {
      const uint32_t index = hal_read_u32(in->section + at + field);
      if (index == HAL_INDEX_NONE) continue;
      if (field != 8 + 4 * axes) return refuse(in, at + field, "a grid axis follows a missing one");
      axes += 1;
      const int32_t status = check_expression(in, kernel, index, at + field);
      if (status != HAL_OK) return status;
    }
    kernel->takes_grid |= axes == 0;
    const uint64_t first_binding = hal_read_u32(in->section + at + 20);
    if (first_binding + hal_read_u32(in->section + at + 24) > in->count[BINDINGS]) {
      return refuse(in, at + 20, "a launch's bindings lie outside their table");
    }
  }
  return HAL_OK;
}

// A kernel's records lie behind those of the kernels before it.
static int take_records(reader *in, uint32_t table, uint32_t first, uint32_t count) {
  if (count == 0) return 1;
  if (first < in->taken[table] || (uint64_t)first + count > in->count[table]) return 0;
  in->taken[table] = (uint64_t)first + count;
  return 1;
}

static int32_t read_kernel(reader *in, uint32_t index) {
  const uint32_t at = in->offset[KERNELS] + index * record_bytes[KERNELS];
  const unsigned char *record = in->section + at;
  hal_kernel_signature *kernel = &in->image->kernels[index];
  *kernel = (hal_kernel_signature){.name = name_at(in, at),
                                   .first_parameter = hal_read_u32(record + 4),
                                   .parameter_count = hal_read_u32(record + 8),
                                   .first_workspace = hal_read_u32(record + 12),
                                   .workspace_count = hal_read_u32(record + 16),
                                   .launch_count = hal_read_u32(record + 24)};
  const uint32_t first_launch = hal_read_u32(record + 20);
  if (kernel->name == NULL) return refuse(in, at, "a kernel has no name");
  for (uint32_t i = 0; i < index; ++i) {
    if (strcmp(in->image->kernels[i].name, kernel->name) == 0) {
      return refuse(in, at, "two kernels have one name");
    }
  }
  if (hal_read_u32(record + 28) != 0) return refuse(in, at + 28, "a reserved field is not zero");
  if (!take_records(in, ARGUMENTS, kernel->first_parameter, kernel->parameter_count) ||
      !take_records(in, WORKSPACES, kernel->first_workspace, kernel->workspace_count) ||
      !take_records(in, LAUNCHES, first_launch, kernel->launch_count)) {
    return refuse(in, at + 4, "a kernel's records lie outside their tables or are another one's");
  }
  int32_t status = check_arguments(in, kernel);
  if (status == HAL_OK) status = check_workspaces(in, kernel);
  if (status == HAL_OK) status = check_launches(in, kernel, first_launch);
  return status;
}

static int32_t read_expressions(const reader *in) {
  for (uint32_t i = 0; i < in->count[EXPRESSIONS]; ++i) {
    const uint32_t at = in->offset[EXPRESSIONS] + i * record_bytes[EXPRESSIONS];
    const uint64_t offset = hal_read_u32(in->section + at);
    const uint64_t bytes = hal_read_u32(in->section + at + 4);
    if (bytes > HAL_EXPRESSION_BYTES || offset + bytes > in->count[CODE]) {
      return refuse(in, at, "an expression's code lies outside the code or is too long");
    }
    in->image->expressions[i] = (hal_expression){(uint32_t)offset, (uint32_t)bytes};
  }
  return HAL_OK;
}

// Room for a table's records; one more, so that an empty table is no special case.
static void *room(uint32_t count, size_t bytes) {
  return calloc((size_t)count + 1, bytes);
}

static int32_t read_all(reader *in, uint32_t bytes) {
  hal_image *image = in->image;
  image->section = malloc(bytes);
  image->expressions = room(in->count[EXPRESSIONS], sizeof(*image->expressions));
  image->workspaces = room(in->count[WORKSPACES], sizeof(*image->workspaces));
  image->parameters = room(in->count[ARGUMENTS], sizeof(*image->parameters));
  image->kernels = room(in->count[KERNELS], sizeof(*image->kernels));
  if (image->section == NULL || image->expressions == NULL || image->workspaces == NULL ||
      image->parameters == NULL || image->kernels == NULL) {
    return hal_problem_set(in->problem, HAL_ERROR_OUT_OF_MEMORY, "no host memory");
  }
  memcpy(image->section, in->section, bytes);
  image->code = image->section + in->offset[CODE];
  image->kernel_count = in->count[KERNELS];
  int32_t status = read_expressions(in);
  for (uint32_t i = 0; status == HAL_OK && i < in->count[ARGUMENTS]; ++i) {
    status = read_parameter(in, i, &image->parameters[i]);
  }
  for (uint32_t i = 0; i < in->count[WORKSPACES]; ++i) {
    image->workspaces[i] = hal_read_u32(in->section + in->offset[WORKSPACES] + i * 8 + 4);
  }
  for (uint32_t i = 0; status == HAL_OK && i < in->count[KERNELS]; ++i) {
    status = read_kernel(in, i);
  }
  return status;
}

int32_t hal_signature_read(hal_image *image, const unsigned char *section, uint32_t bytes,
                           uint64_t section_offset, hal_problem *problem) {
  reader in = {.section = section, .base = section_offset, .image = image, .problem = problem};
  if (bytes < HEADER_BYTES || memcmp(section, "HSIG", 4) != 0) {
    return refuse(&in, 0, "no signature section stands here");
  }
  if (hal_read_u32(section + 4) != bytes) return refuse(&in, 4, "the section's length is wrong");
  if (hal_read_u16(section + 8) != 1) return refuse(&in, 8, "the signature's version is not 1");
  if (hal_read_u32(section + 12) != 0) return refuse(&in, 12, "a reserved field is not zero");
  const int32_t status = read_tables(&in, bytes);
  return status == HAL_OK ? read_all(&in, bytes) : status;
}

void hal_signature_free(hal_image *image) {
  free(image->section);
  free(image->expressions);
  free(image->workspaces);
  free(image->parameters);
  free(image->kernels);
}
