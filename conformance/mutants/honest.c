// Which fault is on, and tile operations as the kit does them: most faults change their result
// afterwards.
#include "mutant.h"

int mutant_fault;

int32_t mutant_run_honestly(const vil_operation *operation) {
  static _Thread_local vil_arena *arena;
  if (arena == NULL) {
    arena = vil_arena_create();
  }
  switch (operation->op) {
    case VIL_UN:
      return vil_run_unary(arena, operation);
    case VIL_BIN:
      return vil_run_binary(arena, operation);
    case VIL_CAST:
      return vil_run_cast(arena, operation);
    case VIL_RED:
      return vil_run_reduce(arena, operation);
    case VIL_MMA:
      return vil_run_matrix(arena, operation);
    default:
      vil_run_transpose(operation);
      return HAL_OK;
  }
}
