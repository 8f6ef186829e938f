// Any bytes as a VIL image: the reader and the judge must answer, and what they pass must bind and
// run without touching memory outside of its buffers.
#include <stdlib.h>
#include <string.h>

#include "hal/hal.h"
#include "vil.h"

#define INSTRUCTION_LIMIT 4000
#define BUFFER_BYTES 4096

// Fills the arguments: buffers of their own, symbols and scalars small.
static void fill(const vil_kernel *kernel, vil_argument *arguments, uint32_t count,
                 uint8_t *memory) {
  for (uint32_t i = 0; i < count; i++) {
    arguments[i].kind = vil_kernel_argument_kind(kernel, i);
    arguments[i].scalar = 5 + i;
    arguments[i].data = memory + (size_t)i * BUFFER_BYTES;
    arguments[i].bytes = BUFFER_BYTES;
  }
}

static void try_kernel(const vil_kernel *kernel, vil_arena *arena) {
  uint32_t count = vil_kernel_argument_count(kernel);
  if (count > 64) return;
  const uint32_t grid[3] = {2, 1, 1};
  char reason[256];
  vil_argument arguments[64];
  uint8_t *memory = aligned_alloc(64, (size_t)(count + 1) * BUFFER_BYTES);
  void *storage = malloc(vil_launch_bytes(kernel));
  if (memory && storage) {
    memset(memory, 1, (size_t)(count + 1) * BUFFER_BYTES);
    fill(kernel, arguments, count, memory);
    vil_work work;
    if (vil_launch_bind(kernel, grid, arguments, count, NULL, storage, reason, sizeof(reason)) ==
        HAL_OK) {
      vil_launch_work(storage, &work);
      if (work.open_loops == 0 && work.instructions < INSTRUCTION_LIMIT && work.programs < 1000)
        vil_launch_run(storage, arena, NULL, reason, sizeof(reason));
    }
  }
  free(storage);
  free(memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char reason[256];
  vil_module *module = NULL;
  if (vil_module_read(data, size, &module, reason, sizeof(reason)) != HAL_OK) return 0;
  vil_arena *arena = vil_arena_create();
  if (arena && vil_module_validate(module, NULL, reason, sizeof(reason)) == HAL_OK) {
    for (uint32_t i = 0; i < vil_module_kernel_count(module) && i < 8; i++)
      try_kernel(vil_module_kernel(module, i), arena);
  }
  vil_arena_free(arena);
  vil_module_free(module);
  return 0;
}
