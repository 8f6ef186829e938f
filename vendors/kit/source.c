// Images whose programs are text: their parts, the calls of a launch, what faults and compilers
// say.
#include "kit_source.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "kit_state.h"
#include "vil_launch.h"

static uint32_t read32(const uint8_t *at) {
  return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static bool part_fits(uint64_t offset, uint64_t bytes, uint64_t all) {
  return offset <= all && bytes <= all - offset;
}

// The first place of `what` in a text without a NUL; NULL when there is none.
static const char *find(const char *text, uint64_t bytes, const char *what) {
  return bytes == 0 ? NULL : memmem(text, bytes, what, strlen(what));
}

// ---- The image ----

// Finds the two parts of the payload (docs/vil.md, section 4.5).
static int32_t read_parts(const hal_module_desc *desc, const uint8_t **out_vil,
                          uint64_t *out_vil_bytes, kit_source *out) {
  const uint8_t *bytes = desc->image;
  uint64_t all = desc->image_bytes;
  if (all < 48 || memcmp(bytes, "HIMG", 4) != 0) {
    return kit_fail(HAL_ERROR_INVALID_MODULE, "image: offset 0: the magic is not HIMG");
  }
  uint64_t name = read32(bytes + 24), name_bytes = read32(bytes + 28);
  uint64_t at = read32(bytes + 32), size = read32(bytes + 36);
  if (!part_fits(name, name_bytes, all) || name_bytes != strlen(desc->format) ||
      memcmp(bytes + name, desc->format, name_bytes) != 0) {
    return kit_fail(HAL_ERROR_INVALID_MODULE, "image: offset 24: the format is not %.100s",
                    desc->format);
  }
  if (!part_fits(at, size, all) || size < 32 || memcmp(bytes + at, "HSRC", 4) != 0 ||
      read32(bytes + at + 4) != 1) {
    return kit_fail(HAL_ERROR_INVALID_MODULE,
                    "image: offset 32: the payload is no HSRC of version 1");
  }
  const uint8_t *payload = bytes + at;
  uint64_t vil = read32(payload + 8), text = read32(payload + 16);
  *out_vil_bytes = read32(payload + 12);
  out->text_bytes = read32(payload + 20);
  if (!part_fits(vil, *out_vil_bytes, size) || !part_fits(text, out->text_bytes, size)) {
    return kit_fail(HAL_ERROR_INVALID_MODULE, "payload: offset 8: a part does not fit");
  }
  *out_vil = payload + vil;
  out->text = (const char *)payload + text;
  return HAL_OK;
}

// Finds each program's function in the text and notes whether it can fault.
static int32_t read_functions(kit_source *source) {
  const char *end = source->text + source->text_bytes;
  for (uint32_t i = 0; i < source->module->program_count; ++i) {
    vil_program *program = &source->module->programs[i];
    uint64_t arguments = 3;
    for (uint32_t p = 0; p < program->param_count; ++p) {
      arguments += program->params[p].kind == VIL_BUFFER ? 3 : 1;
    }
    if (arguments > KIT_SOURCE_ARGUMENTS) {
      return kit_fail(HAL_ERROR_INVALID_MODULE, "program %.100s has %llu arguments, %u are taken",
                      program->name, (unsigned long long)arguments, (unsigned)KIT_SOURCE_ARGUMENTS);
    }
    char name[160];
    snprintf(name, sizeof(name), " hal_program_%.120s(", program->name);
    const char *start = find(source->text, source->text_bytes, name);
    if (start == NULL) {
      return kit_fail(HAL_ERROR_INVALID_MODULE, "the source has no function%.120s)", name);
    }
    ++start;
    const char *next = find(start, (uint64_t)(end - start), " hal_program_");
    uint64_t length = (uint64_t)((next == NULL ? end : next) - start);
    program->can_fault = find(start, length, "hal_state[0] =") != NULL;
  }
  return HAL_OK;
}

int32_t kit_source_plan(kit_device *device, const hal_module_desc *desc, kit_source *out_source) {
  const uint8_t *vil = NULL;
  uint64_t vil_bytes = 0;
  out_source->module = NULL;
  int32_t status = read_parts(desc, &vil, &vil_bytes, out_source);
  return status != HAL_OK ? status : kit_module_read(device, vil, vil_bytes, &out_source->module);
}

int32_t kit_source_read(kit_device *device, const hal_module_desc *desc, kit_source *out_source) {
  int32_t status = kit_source_plan(device, desc, out_source);
  if (status == HAL_OK) {
    status = read_functions(out_source);
  }
  if (status != HAL_OK) {
    vil_module_free(out_source->module);
    out_source->module = NULL;
  }
  return status;
}

void kit_source_function(const vil_module *module, uint32_t program, char *out, size_t capacity) {
  snprintf(out, capacity, "hal_program_%s", vil_module_program_name(module, program));
}

// ---- A launch ----

uint32_t kit_source_steps(const kit_operation *operation) {
  return vil_launch_steps(operation->launch);
}

// The use of an operation that holds the buffer of an argument; the workspace is the last one.
static const kit_range *use_of(const kit_operation *operation, const vil_r_binding *binding) {
  if (binding->kind == VIL_BIND_WORKSPACE) {
    return &operation->uses[operation->use_count - 1];
  }
  uint32_t index = 0;
  const vil_kernel *kernel = operation->kernel->vil;
  for (uint32_t i = 0; i < binding->index; ++i) {
    index += kernel->arguments[i].kind == VIL_BUFFER;
  }
  return &operation->uses[index];
}

static void add(kit_source_call *call, uint64_t value, uint32_t bytes) {
  call->arguments[call->argument_count++] = (kit_source_argument){NULL, value, bytes};
}

static uint32_t largest_tile(const vil_program *program) {
  uint32_t most = 1;
  for (uint32_t i = 0; i < program->tile_count; ++i) {
    uint32_t elements = program->tiles[i].rows * program->tiles[i].columns;
    most = elements > most ? elements : most;
  }
  return most;
}

void kit_source_bind(const kit_operation *operation, uint32_t step, kit_source_call *out_call) {
  const vil_launch *launch = operation->launch;
  const vil_step *bound = &launch->steps[step];
  const vil_program *program = bound->program;
  const vil_module *module = launch->kernel->module;
  const vil_r_binding *bindings = &module->bindings[launch->kernel->launches[step].first_binding];
  out_call->data = operation->kernel->module->port_data;
  out_call->program = (uint32_t)(program - module->programs);
  out_call->groups = bound->programs;
  out_call->can_fault = program->can_fault;
  out_call->lanes_worth = largest_tile(program);
  out_call->argument_count = 0;
  for (uint32_t i = 0; i < program->param_count; ++i) {
    const vil_r_param *param = &program->params[i];
    const vil_bound *value = &bound->params[i];
    if (param->kind != VIL_BUFFER) {
      bool is_short = param->kind == VIL_SCALAR && vil_dtype_bytes(param->dtype) <= 4;
      add(out_call, value->scalar, is_short ? 4 : 8);
      continue;
    }
    const kit_range *use = use_of(operation, &bindings[i]);
    uintptr_t first = (uintptr_t)use->memory->allocation.pointer;
    add(out_call, 0, 0);
    out_call->arguments[out_call->argument_count - 1].memory = use->memory;
    add(out_call, (uintptr_t)value->data - first, 8);
    add(out_call, value->bytes / vil_dtype_bytes(param->dtype), 8);
  }
  for (int axis = 0; axis < 3; ++axis) {
    out_call->grid[axis] = bound->grid[axis];
    add(out_call, bound->grid[axis], 8);
  }
}

bool kit_source_can_fault(const kit_operation *operation) {
  const vil_launch *launch = operation->launch;
  for (uint32_t step = 0; step < launch->step_count; ++step) {
    if (launch->steps[step].program->can_fault) {
      return true;
    }
  }
  return false;
}

int32_t kit_source_fault(const kit_operation *operation, uint32_t step, int32_t state) {
  char text[400];
  vil_reason reason = {text, sizeof(text)};
  const vil_launch *launch = operation->launch;
  vil_explain_fault(launch->steps[step].program, (uint64_t)(uint32_t)state - 1, &reason);
  return kit_fail(HAL_ERROR_EXECUTION_FAILED, "%s", text);
}

// ---- What a compiler says ----

void kit_source_instruction(const kit_source *source, long line, char *out, size_t capacity) {
  const char *at = source->text, *end = at + source->text_bytes;
  snprintf(out, capacity, "no instruction");
  for (long number = 1; at < end && number <= line; number++) {
    const char *stop = memchr(at, '\n', (size_t)(end - at));
    stop = stop == NULL ? end : stop;
    const char *text = at;
    while (text < stop && *text == ' ') {
      ++text;
    }
    if (text > at && stop - text > 3 && memcmp(text, "// ", 3) == 0) {
      snprintf(out, capacity, "%.*s", (int)(stop - text - 3), text + 3);
    }
    at = stop + 1;
  }
}

// The line that a message names: FILE:12:5: error, error: FILE:12:5:, FILE(12): error, 12:5: error.
static long line_of(const char *message) {
  const char *end = message + strcspn(message, "\n");
  for (const char *at = message; at < end; ++at) {
    if ((at == message || at[-1] == ':' || at[-1] == '(') && isdigit((unsigned char)*at)) {
      return strtol(at, NULL, 10);
    }
  }
  return 0;
}

int32_t kit_source_refuse(const kit_source *source, const char *compiler, const char *log) {
  const char *error = strstr(log, "error");
  error = error == NULL ? log : error;
  const char *message = error;
  while (message > log && message[-1] != '\n') {
    --message;
  }
  long line = line_of(message);
  if (line <= 0) {
    const char *said = error[0] == '\0' ? "it is silent" : error;
    return kit_fail(HAL_ERROR_INVALID_MODULE, "%.80s refuses the source and names no line: %.*s",
                    compiler, (int)strcspn(said, "\n"), said);
  }
  char instruction[160];
  kit_source_instruction(source, line, instruction, sizeof(instruction));
  return kit_fail(HAL_ERROR_INVALID_MODULE,
                  "%.80s refuses the source at line %ld, from VIL `%s`: %.*s", compiler, line,
                  instruction, (int)strcspn(error, "\n"), error);
}
