// Programs that a port has as machine code: the plan stays the kit's, only the loop over instances
// is the code's own.
#include "vil_launch.h"

uint32_t vil_module_program_count(const vil_module *module) {
  return module->program_count;
}

const char *vil_module_program_name(const vil_module *module, uint32_t index) {
  return index < module->program_count ? module->programs[index].name : NULL;
}

void vil_module_set_entry(vil_module *module, uint32_t index, vil_entry entry,
                          uint64_t tile_bytes) {
  module->programs[index].entry = entry;
  module->programs[index].entry_bytes = tile_bytes;
}

int32_t vil_explain_fault(const vil_program *program, uint64_t code, vil_reason *reason) {
  uint64_t at = code / 256;
  const char *op =
      at < program->instruction_count ? vil_op_name(program->code[at].op) : "no instruction";
  const char *what = code % 256 == VIL_FAULT_NOTHING ? "argmax or argmin over no element"
                                                     : "an element lies outside of its buffer";
  return vil_refuse(reason, HAL_ERROR_EXECUTION_FAILED, "program %s: instruction %llu (%s): %s",
                    program->name, (unsigned long long)at, op, what);
}

int32_t vil_run_entry(const vil_step *step, uint64_t first, uint64_t count, vil_arena *arena,
                      vil_reason *reason) {
  const vil_program *program = step->program;
  void *tiles = vil_scratch(arena, program->entry_bytes);
  if (!tiles) {
    return vil_refuse(reason, HAL_ERROR_OUT_OF_MEMORY,
                      "program %s: no memory for %llu bytes of tiles", program->name,
                      (unsigned long long)program->entry_bytes);
  }
  int64_t code = program->entry(step->params, step->grid, first, count, tiles);
  return code == 0 ? HAL_OK : vil_explain_fault(program, (uint64_t)code - 1, reason);
}
