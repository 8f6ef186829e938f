// What the judge's parts share: their words for a refusal, and the features of a program.
#include "vil_check.h"

static int32_t refuse_with(vil_judged *judged, int with_instruction, const char *format,
                           va_list arguments) {
  char what[384];
  vsnprintf(what, sizeof(what), format, arguments);
  if (!with_instruction)
    return vil_refuse(judged->reason, HAL_ERROR_INVALID_MODULE, "program %s: %s",
                      judged->program->name, what);
  const vil_instruction *at = &judged->program->code[judged->at];
  return vil_refuse(judged->reason, HAL_ERROR_INVALID_MODULE,
                    "program %s: instruction %u (%s%s%s): %s", judged->program->name, judged->at,
                    vil_op_name(at->op), at->function ? "." : "", vil_function_name(at->function),
                    what);
}

int32_t vil_bad_program(vil_judged *judged, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int32_t status = refuse_with(judged, 0, format, arguments);
  va_end(arguments);
  return status;
}

int32_t vil_bad_instruction(vil_judged *judged, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int32_t status = refuse_with(judged, 1, format, arguments);
  va_end(arguments);
  return status;
}

// ---- Features ----

static uint64_t dtype_feature(uint32_t dtype) {
  switch (dtype) {
    case HAL_DTYPE_F16:
      return 1u << 7;
    case HAL_DTYPE_BF16:
      return 1u << 8;
    case HAL_DTYPE_F64:
      return 1u << 9;
    case HAL_DTYPE_F8E4M3:
    case HAL_DTYPE_F8E5M2:
      return 1u << 10;
    case HAL_DTYPE_I8:
    case HAL_DTYPE_U8:
      return 1u << 11;
    case HAL_DTYPE_I64:
      return 1u << 12;
    default:
      return 0;
  }
}

uint64_t vil_program_features(const vil_program *program) {
  uint64_t features = program->profile == 1;
  if (program->flags & VIL_PROGRAM_CONTRACT) features |= 1u << 15;
  if (program->flags & VIL_PROGRAM_DETERMINISTIC) features |= 1u << 16;
  for (uint32_t i = 0; i < program->tile_count; i++)
    features |= dtype_feature(program->tiles[i].dtype);
  for (uint32_t i = 0; i < program->instruction_count; i++) {
    const vil_instruction *at = &program->code[i];
    switch (at->op) {
      case VIL_GATHER:
      case VIL_SCATTER:
        features |= 1u << 1;
        break;
      case VIL_COPY:
        features |= 1u << 2;
        break;
      case VIL_SCAN:
        features |= 1u << 3;
        break;
      case VIL_TOPK:
        features |= 1u << 4;
        break;
      case VIL_RNG:
        features |= 1u << 5;
        break;
      case VIL_LOAD:
      case VIL_STORE:
        if (program->descriptors[at->x].param == VIL_NONE) features |= 1u << 6;
        break;
      case VIL_MMA:
        if (vil_is_float8(program->tiles[at->operands[VIL_A].tile].dtype)) features |= 1u << 13;
        break;
      case VIL_SREG:
        if (at->function == VIL_TILE) features |= 1u << 14;
        break;
      default:
        break;
    }
  }
  return features;
}
