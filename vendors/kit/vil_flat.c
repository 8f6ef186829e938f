// A bound launch as bytes that an interpreter on a device reads: the tables of each step's program
// as they lie in the image, with its values and parameters, and with what the device need not
// compute.
#include "vil_flat.h"

#include <string.h>

#include "vil_launch.h"

enum { HEADER_BYTES = 96, TILE_BYTES = 32, PARAM_BYTES = 16 };
enum {  // Words of the header: vil_flat.h.
  H_CODE,
  H_EXTRA,
  H_TILES,
  H_DESCRIPTORS,
  H_TERMS,
  H_VALUES,
  H_PARAMS,
  H_STATUS,
  H_INSTRUCTIONS,
  H_SREGS,
  H_STAGES,
  H_GRID,
  H_SLICE = H_GRID + 3,
  H_STATE_AT = H_SLICE + 2,
  H_GROUPS,
  H_DONE,
  H_PREVIOUS,
};

static uint64_t step_bytes(const vil_program *program, uint32_t groups) {
  return HEADER_BYTES + ((4ull * groups + 7) & ~UINT64_C(7)) +
         (sizeof(vil_instruction) + 8) * (uint64_t)program->instruction_count +
         TILE_BYTES * (uint64_t)program->tile_count +
         sizeof(vil_r_descriptor) * (uint64_t)program->descriptor_count +
         sizeof(vil_r_term) * (uint64_t)program->term_count +
         8 * (uint64_t)program->expressions.count + PARAM_BYTES * (uint64_t)program->param_count;
}

uint64_t vil_flat_bytes(const void *storage, const vil_flat_shape *shape) {
  const vil_launch *launch = storage;
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < launch->step_count; ++i) {
    bytes += step_bytes(launch->steps[i].program, shape->groups);
  }
  return bytes;
}

// The bits of a constant or scalar as an element of a type.
static uint64_t element_bits(uint64_t bits, uint32_t from, uint32_t to) {
  uint64_t out = 0, room[2];
  vil_cast_row(&out, to, &bits, from, 1, 0, room);
  return out;
}

static uint64_t constant_bits(uint64_t bits, uint32_t dtype) {
  int is_float = vil_is_float(dtype) || vil_is_float8(dtype);
  return element_bits(bits, is_float ? HAL_DTYPE_F64 : HAL_DTYPE_I64, dtype);
}

// What an instruction needs beside its record: the other end of a block, or a value.
static uint64_t extra_of(const vil_step *step, uint32_t n) {
  const vil_program *program = step->program;
  const vil_instruction *at = &program->code[n];
  if (at->op == VIL_FILL) {
    uint32_t dtype = program->tiles[at->operands[VIL_D].tile].dtype;
    return at->flags & VIL_FLAG_SCALAR
               ? element_bits(step->params[at->x].scalar, program->params[at->x].dtype, dtype)
               : constant_bits(program->constants[at->x], dtype);
  }
  if (at->op == VIL_SREG && at->function == VIL_ARG) {
    return element_bits(step->params[at->values[0]].scalar, program->params[at->values[0]].dtype,
                        HAL_DTYPE_I64);
  }
  return program->matches[n];
}

static void write_tiles(const vil_program *program, uint64_t tiles_at, uint8_t *out) {
  for (uint32_t i = 0; i < program->tile_count; ++i) {
    const vil_r_tile *tile = &program->tiles[i];
    uint64_t bytes = (uint64_t)tile->rows * tile->columns * vil_dtype_bytes(tile->dtype);
    uint32_t record[8] = {tile->dtype,
                          tile->rows,
                          tile->columns,
                          tile->stages,
                          program->stage_first[i],
                          (uint32_t)(tiles_at + program->tile_at[i]),
                          (uint32_t)((bytes + 63) & ~UINT64_C(63)),
                          0};
    memcpy(out + TILE_BYTES * (uint64_t)i, record, sizeof(record));
  }
}

static void write_masks(const vil_program *program, uint32_t masks[4]) {
  memset(masks, 0, 4 * sizeof(*masks));
  for (uint32_t i = 0; i < program->instruction_count; ++i) {
    const vil_instruction *at = &program->code[i];
    masks[0] |= UINT32_C(1) << at->op;
    if (at->op != VIL_SREG) {
      masks[1 + at->function / 32] |= UINT32_C(1) << at->function % 32;
    }
  }
  for (uint32_t i = 0; i < program->tile_count; ++i) {
    masks[3] |= UINT32_C(1) << program->tiles[i].dtype;
  }
}

// Appends a table at `*at` and gives its offset.
static uint32_t append(uint8_t *block, uint64_t *at, const void *table, uint64_t bytes) {
  uint64_t offset = *at;
  if (table != NULL && bytes != 0) {
    memcpy(block + offset, table, bytes);
  }
  *at += bytes;
  return (uint32_t)offset;
}

static void write_step(const vil_flat_shape *shape, const vil_step *step, uint8_t *block,
                       vil_flat_step *out) {
  const vil_program *program = step->program;
  uint32_t header[HEADER_BYTES / 4] = {0};
  uint64_t at = HEADER_BYTES;
  uint64_t state_at = (8ull * shape->lanes * program->stage_count + 63) & ~UINT64_C(63);
  uint64_t slice = state_at + VIL_FLAT_STATE + program->arena_bytes;
  header[H_CODE] =
      append(block, &at, program->code, sizeof(vil_instruction) * program->instruction_count);
  header[H_EXTRA] = append(block, &at, NULL, 8ull * program->instruction_count);
  for (uint32_t i = 0; i < program->instruction_count; ++i) {
    uint64_t extra = extra_of(step, i);
    memcpy(block + header[H_EXTRA] + 8ull * i, &extra, 8);
  }
  header[H_TILES] = append(block, &at, NULL, TILE_BYTES * (uint64_t)program->tile_count);
  write_tiles(program, state_at + VIL_FLAT_STATE, block + header[H_TILES]);
  header[H_DESCRIPTORS] = append(block, &at, program->descriptors,
                                 sizeof(vil_r_descriptor) * program->descriptor_count);
  for (uint32_t i = 0; i < program->descriptor_count; ++i) {
    const vil_r_descriptor *descriptor = &program->descriptors[i];
    uint64_t fill = constant_bits(descriptor->fill, descriptor->dtype);
    memcpy(block + header[H_DESCRIPTORS] + sizeof(*descriptor) * (uint64_t)i +
               offsetof(vil_r_descriptor, fill),
           &fill, 8);
  }
  header[H_TERMS] = append(block, &at, program->terms, sizeof(vil_r_term) * program->term_count);
  header[H_VALUES] = append(block, &at, step->values, 8ull * program->expressions.count);
  header[H_PARAMS] = append(block, &at, NULL, PARAM_BYTES * (uint64_t)program->param_count);
  for (uint32_t i = 0; i < program->param_count; ++i) {
    uint64_t param[2] = {(uint64_t)(uintptr_t)step->params[i].data,
                         step->params[i].bytes / vil_dtype_bytes(program->params[i].dtype)};
    memcpy(block + header[H_PARAMS] + PARAM_BYTES * (uint64_t)i, param, sizeof(param));
  }
  header[H_INSTRUCTIONS] = program->instruction_count;
  header[H_SREGS] = program->sreg_count;
  header[H_STAGES] = program->stage_count;
  for (int axis = 0; axis < 3; ++axis) {
    header[H_GRID + axis] = (uint32_t)step->grid[axis];
  }
  header[H_STATUS] = append(block, &at, NULL, 4ull * shape->groups);
  memset(block + header[H_STATUS], 0, 4ull * shape->groups);
  header[H_SLICE] = (uint32_t)slice;
  header[H_SLICE + 1] = (uint32_t)(slice >> 32);
  header[H_STATE_AT] = (uint32_t)state_at;
  out->groups = step->programs < shape->groups ? (uint32_t)step->programs : shape->groups;
  header[H_GROUPS] = out->groups;
  header[H_PREVIOUS] = out->back_bytes;
  memcpy(block, header, sizeof(header));
  out->slice_bytes = slice;
  write_masks(program, out->masks);
}

void vil_flat_write(const void *storage, const vil_flat_shape *shape, uint8_t *block,
                    vil_flat_step *steps) {
  const vil_launch *launch = storage;
  uint64_t offset = 0, latest = UINT64_MAX;  // Of the latest step that runs something.
  for (uint32_t i = 0; i < launch->step_count; ++i) {
    steps[i].offset = offset;
    steps[i].back_bytes = latest == UINT64_MAX ? 0 : (uint32_t)(offset - latest);
    write_step(shape, &launch->steps[i], block + offset, &steps[i]);
    latest = steps[i].groups == 0 ? latest : offset;
    offset += step_bytes(launch->steps[i].program, shape->groups);
  }
}

int vil_flat_is_done(const void *storage, const vil_flat_shape *shape, const uint8_t *block) {
  const vil_launch *launch = storage;
  for (uint32_t i = 0; i < launch->step_count; ++i) {
    const uint32_t *header = (const uint32_t *)block;
    if (header[H_DONE] != header[H_GROUPS]) {
      return 0;
    }
    block += step_bytes(launch->steps[i].program, shape->groups);
  }
  return 1;
}

void vil_flat_fault(const void *storage, const uint32_t words[6], char *text, size_t capacity) {
  const vil_launch *launch = storage;
  const vil_program *program = launch->steps[words[5]].program;
  const vil_instruction *at = &program->code[words[2]];
  vil_reason reason = {text, capacity};
  if (words[1] == VIL_FAULT_ELEMENT) {
    vil_refuse(&reason, 0,
               "program %s, instruction %u (%s): element (%u, %u) of descriptor %s lies outside of "
               "its buffer",
               program->name, words[2], vil_op_name(at->op), words[3], words[4],
               program->strings + program->descriptors[at->x].name);
  } else {
    vil_refuse(&reason, 0, "program %s, instruction %u (%s): %s over nothing", program->name,
               words[2], vil_op_name(at->op), vil_function_name(at->function));
  }
}
