// Programs that are changed before they are loaded: faults of instructions that no hook sees.
//
// An image that is cut or damaged is left alone as far as it does not hold together; the kit then
// refuses it as it would have done.
#include <string.h>

#include "mutant.h"

typedef struct view {
  uint8_t *bytes;
  uint64_t count;
} view;

static uint32_t read_u32(view from, uint64_t at) {
  uint32_t value = 0;
  if (at + 4 <= from.count) {
    memcpy(&value, from.bytes + at, 4);
  }
  return value;
}

static view part(view from, uint64_t offset, uint64_t count) {
  if (offset > from.count || count > from.count - offset) {
    return (view){0};
  }
  return (view){from.bytes + offset, count};
}

// The records of a table {offset, count} whose pair lies at `at`; fewer when they do not fit.
static view table(view section, uint64_t at, uint64_t record_bytes) {
  uint64_t offset = read_u32(section, at), count = read_u32(section, at + 4);
  return part(section, offset, count * record_bytes);
}

// The index of the expression that is the constant 1, or none.
static uint16_t index_of_one(view section) {
  static const uint8_t one[] = {1, 1, 0, 0, 0, 0, 0, 0, 0};
  view items = table(section, 64, sizeof(vil_r_expression)), code = table(section, 72, 1);
  for (uint64_t i = 0; i * sizeof(vil_r_expression) < items.count; ++i) {
    view found = part(code, read_u32(items, i * 8), read_u32(items, i * 8 + 4));
    if (found.count == sizeof(one) && memcmp(found.bytes, one, sizeof(one)) == 0) {
      return (uint16_t)i;
    }
  }
  return VIL_NONE;
}

static int is_float_type(uint8_t dtype) {
  return vil_is_float(dtype) || vil_is_float8(dtype);
}

// What lies outside is 1 where it was 0, and 0 where it was anything else.
static void turn_fill(vil_r_descriptor *descriptor) {
  uint64_t one = is_float_type(descriptor->dtype) ? 0x3FF0000000000000u : 1;
  descriptor->fill = descriptor->fill == 0 ? one : 0;
}

static void swap_values(vil_instruction *at, int left, int right) {
  uint16_t kept = at->values[left];
  at->values[left] = at->values[right];
  at->values[right] = kept;
}

static void change_sreg(vil_instruction *at) {
  if (at->function == VIL_SUB) {
    at->function = VIL_ADD;
  } else if (at->function == VIL_MIN) {
    at->function = VIL_MAX;
  } else if (at->function == VIL_IMOD) {
    at->function = VIL_IDIV;
  }
}

static void change_instruction(vil_instruction *at, vil_r_descriptor *descriptors, uint64_t count) {
  if (is_fault(61) && at->op == VIL_GATHER && at->x < count) {
    turn_fill(&descriptors[at->x]);
  } else if (is_fault(88) && at->op == VIL_SCAN) {
    at->flags = at->flags == 0 ? VIL_FLAG_EXCLUSIVE : 0;
  } else if (is_fault(91) && at->op == VIL_SCATTER) {
    at->function = VIL_SET;
  } else if (is_fault(92) && at->op == VIL_TOPK) {
    at->flags ^= VIL_FLAG_SMALLEST;
  } else if (is_fault(93) && at->op == VIL_RNG) {
    swap_values(at, 2, 3);
  } else if (is_fault(94) && at->op == VIL_SREG) {
    change_sreg(at);
  } else if (is_fault(100) && at->op == VIL_IOTA) {
    swap_values(at, 1, 2);
  }
}

// M51: rows lie side by side. M52: what is outside is not the fill. M96: the same for near tiles.
static void change_descriptor(vil_r_descriptor *descriptor, uint16_t one) {
  if (is_fault(51) && one != VIL_NONE && descriptor->rank >= 1 && descriptor->rank <= 5) {
    descriptor->dimensions[descriptor->rank - 1].stride = one;
  }
  if (is_fault(52) || (is_fault(96) && descriptor->param == VIL_NONE)) {
    turn_fill(descriptor);
  }
}

static int is_control(const vil_instruction *at) {
  return at->op >= VIL_LOOP && at->op <= VIL_SREG;
}

// M95: what a token holds back comes before what it waits for.
static void forget_tokens(vil_instruction *code, uint64_t count) {
  for (uint64_t signal = 1; signal < count; ++signal) {
    uint64_t wait = signal + 1;
    while (wait + 1 < count && (code[wait].op != VIL_WAIT || code[wait].x != code[signal].x)) {
      ++wait;
    }
    if (code[signal].op == VIL_SIGNAL && wait + 1 < count && !is_control(&code[signal - 1]) &&
        !is_control(&code[wait + 1])) {
      vil_instruction kept = code[signal - 1];
      code[signal - 1] = code[wait + 1];
      code[wait + 1] = kept;
      return;
    }
  }
}

static void change_program(view section) {
  view maps = table(section, 32, sizeof(vil_r_descriptor));
  view code = table(section, 88, sizeof(vil_instruction));
  vil_r_descriptor *descriptors = (vil_r_descriptor *)(void *)maps.bytes;
  vil_instruction *instructions = (vil_instruction *)(void *)code.bytes;
  uint64_t count = maps.count / sizeof(vil_r_descriptor);
  uint16_t one = index_of_one(section);
  if (is_fault(95)) {
    forget_tokens(instructions, code.count / sizeof(vil_instruction));
  }
  for (uint64_t i = 0; i < count; ++i) {
    change_descriptor(&descriptors[i], one);
  }
  for (uint64_t i = 0; i < code.count / sizeof(vil_instruction); ++i) {
    change_instruction(&instructions[i], descriptors, count);
  }
}

// M97: the second launch of a plan comes before the first.
static void change_plans(view signature) {
  view kernels = table(signature, 16, sizeof(vil_r_kernel));
  view launches = table(signature, 40, sizeof(vil_r_launch));
  for (uint64_t i = 0; (i + 1) * sizeof(vil_r_kernel) <= kernels.count; ++i) {
    vil_r_kernel kernel;
    memcpy(&kernel, kernels.bytes + i * sizeof(kernel), sizeof(kernel));
    view pair = part(launches, (uint64_t)kernel.first_launch * sizeof(vil_r_launch),
                     2 * sizeof(vil_r_launch));
    if (kernel.launch_count >= 2 && pair.bytes != NULL) {
      uint8_t first[sizeof(vil_r_launch)];
      memcpy(first, pair.bytes, sizeof(first));
      memcpy(pair.bytes, pair.bytes + sizeof(first), sizeof(first));
      memcpy(pair.bytes + sizeof(first), first, sizeof(first));
    }
  }
}

void mutant_change_image(uint8_t *image, uint64_t bytes) {
  view whole = {image, bytes};
  if (bytes < 48 || memcmp(image, "HVIL", 4) != 0) {
    return;
  }
  uint64_t programs = read_u32(whole, 32), count = read_u32(whole, 36);
  for (uint64_t i = 0; i < count && programs + i * 8 + 8 <= bytes; ++i) {
    uint64_t at = programs + i * 8;
    view section = part(whole, read_u32(whole, at), read_u32(whole, at + 4));
    if (section.count >= 96 && ((uintptr_t)section.bytes & 7) == 0) {
      change_program(section);
    }
  }
  if (is_fault(97)) {
    change_plans(part(whole, read_u32(whole, 16), read_u32(whole, 20)));
  }
}
