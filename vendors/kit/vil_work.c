// Counts what a bound launch does, for timing models.
#include "vil_launch.h"

// Iterations of all loops around each instruction, as far as expressions tell.
static void count_program(const vil_step *step, vil_work *work) {
  const vil_program *program = step->program;
  uint64_t times[9] = {step->programs};
  int depth = 0;
  for (uint32_t i = 0; i < program->instruction_count; i++) {
    const vil_instruction *at = &program->code[i];
    uint64_t now = times[depth];
    work->instructions += now;
    const vil_r_tile *d =
        at->operands[VIL_D].tile == VIL_NONE ? NULL : &program->tiles[at->operands[VIL_D].tile];
    const vil_r_tile *a =
        at->operands[VIL_A].tile == VIL_NONE ? NULL : &program->tiles[at->operands[VIL_A].tile];
    switch (at->op) {
      case VIL_LOOP: {
        int open = (at->values[0] & VIL_SREG_BIT) != 0;
        int64_t count = open ? 1 : step->values[at->values[0]];
        work->open_loops += (uint64_t)open;
        if (__builtin_mul_overflow(now, (uint64_t)(count < 0 ? 0 : count), &times[++depth]))
          times[depth] = UINT64_MAX / 2;
        break;
      }
      case VIL_IF:
        times[++depth] = now;
        break;
      case VIL_END:
        depth--;
        break;
      case VIL_LOAD:
      case VIL_GATHER:
        work->bytes_loaded += now * d->rows * d->columns * vil_dtype_bytes(d->dtype);
        break;
      case VIL_STORE:
      case VIL_SCATTER:
        work->bytes_stored += now * a->rows * a->columns * vil_dtype_bytes(a->dtype);
        break;
      case VIL_MMA:
        work->macs += now * d->rows * d->columns * a->columns;
        break;
      case VIL_SREG:
      case VIL_SIGNAL:
      case VIL_WAIT:
        break;
      default:
        work->vector_elements +=
            now * (at->op == VIL_RED || at->op == VIL_TOPK ? (uint64_t)a->rows * a->columns
                                                           : (uint64_t)d->rows * d->columns);
        break;
    }
  }
}

void vil_launch_work(const void *storage, vil_work *out_work) {
  const vil_launch *launch = storage;
  *out_work = (vil_work){0};
  for (uint32_t i = 0; i < launch->step_count; i++) {
    out_work->programs += launch->steps[i].programs;
    count_program(&launch->steps[i], out_work);
  }
}
