// Launches, modules and copies at enqueue: faults in what is taken from the caller.
#include <stdlib.h>
#include <string.h>

#include "mutant.h"

enum { TOP_ARGUMENTS = 256, FIRST_LOST = 32 };

// ---- modules ----

// Faults of instructions are put into the program before it is loaded.
int32_t mutant_load(hal_device device, const hal_module_desc *desc, hal_module *out_module) {
  if (mutant_takes_last(MUTANT_MODULE, out_module)) {
    return HAL_OK;
  }
  uint8_t *copy = mutant_fault == 0 ? NULL : malloc(desc->image_bytes);
  hal_module_desc mine = {.size = sizeof(mine)};
  uint64_t known = desc->size < sizeof(mine) ? desc->size : sizeof(mine);
  memcpy(&mine, desc, known);
  mine.size = known;
  if (copy != NULL) {
    memcpy(copy, desc->image, desc->image_bytes);
    mutant_change_image(copy, desc->image_bytes);
    mine.image = copy;
  }
  int32_t status = kit_module_load(device, &mine, out_module);
  mutant_gave(MUTANT_MODULE, status, *out_module);
  free(copy);
  if (is_fault(9) && status < 0) {
    *out_module = 0;
  }
  return mutant_note(status);
}

// M36: a program is thrown away while it is in use.
int32_t mutant_unload(hal_module module) {
  if (is_fault(36) && atomic_load(&mutant_launches_waiting) != 0) {
    abort();
  }
  return mutant_handle(kit_module_unload(module));
}

// ---- launches ----

// M34: arguments past the 32nd lose their upper half and then some.
static void cut_arguments(hal_argument *arguments, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    if (i >= FIRST_LOST) {
      arguments[i].scalar = 0;
    } else if (arguments[i].kind == HAL_ARGUMENT_I64) {
      arguments[i].scalar = (uint64_t)(int64_t)(int32_t)arguments[i].scalar;
    }
  }
}

// Launches with a changed descriptor: M32 forgets z, M34 the upper halves, M35 the scratch.
static int32_t launch_changed(hal_stream stream, hal_kernel kernel, const hal_launch_desc *desc) {
  hal_argument arguments[TOP_ARGUMENTS];
  hal_launch_desc mine = {.size = sizeof(mine)};
  uint64_t known = desc->size < sizeof(mine) ? desc->size : sizeof(mine);
  memcpy(&mine, desc, known);
  mine.size = known;
  if (is_fault(32) && mine.grid[2] > 1) {
    mine.grid[2] = 1;
  }
  if (is_fault(35)) {
    mine.scratch_bytes = 0;
  }
  if (is_fault(34) && mine.argument_count <= TOP_ARGUMENTS) {
    memcpy(arguments, mine.arguments, mine.argument_count * sizeof(*arguments));
    cut_arguments(arguments, mine.argument_count);
    mine.arguments = arguments;
  }
  mutant_share_arguments(&mine);
  return kit_launch_launch(stream, kernel, &mine);
}

int32_t mutant_launch(hal_stream stream, hal_kernel kernel, const hal_launch_desc *desc) {
  if (is_fault(33) && mutant_put_off(stream, kernel, desc)) {
    return HAL_OK;
  }
  atomic_fetch_add(&mutant_launches_waiting, 1);
  int32_t status = launch_changed(stream, kernel, desc);
  if (status != HAL_OK) {
    atomic_fetch_sub(&mutant_launches_waiting, 1);
  }
  if (is_fault(81) && status == HAL_ERROR_OUT_OF_RANGE &&
      (desc->grid[0] | desc->grid[1] | desc->grid[2]) >> 16 != 0) {
    return HAL_OK;  // M81: the grid is cut, to nothing.
  }
  return mutant_enqueued(stream, status);
}

// ---- copies and fills ----

// M79: a buffer of another device is taken, and nothing happens.
static int32_t take_foreign(hal_stream stream, const hal_memory_ref *ref, int32_t status) {
  hal_memory_facts facts = {.size = sizeof(facts)};
  int is_alive = ref->memory != 0 && kit_memory_info(ref->memory, &facts) == HAL_OK;
  if (is_fault(79) && status == HAL_ERROR_INVALID_HANDLE && is_alive &&
      kit_stream_query(stream) >= 0) {
    return HAL_OK;
  }
  return status;
}

// M23: the source is read later, whatever was promised. M25: copies go another way than kernels.
int32_t mutant_copy(hal_stream stream, const hal_copy_desc *desc) {
  hal_copy_desc mine = *desc;
  mine.size = sizeof(mine);
  mine.flags |= is_fault(23) ? (uint32_t)HAL_COPY_FLAG_BORROW : 0;
  hal_stream aside = is_fault(25) ? mutant_aside(stream) : 0;
  int32_t status = kit_transfer_copy(aside != 0 ? aside : stream, &mine);
  if (is_fault(79) && status == HAL_ERROR_INVALID_HANDLE) {
    int32_t first =
        mine.kind == HAL_COPY_HOST_TO_DEVICE ? HAL_OK : take_foreign(stream, &mine.source, status);
    int32_t second =
        mine.kind == HAL_COPY_DEVICE_TO_HOST ? HAL_OK : take_foreign(stream, &mine.target, status);
    status = first != HAL_OK ? first : second;
  }
  return mutant_enqueued(stream, status);
}

// M24: the first byte of the pattern stands for all.
int32_t mutant_fill(hal_stream stream, const hal_memory_ref *target, const void *pattern,
                    uint32_t pattern_bytes) {
  uint8_t mine[8];
  memcpy(mine, pattern, pattern_bytes);
  if (is_fault(24)) {
    memset(mine, mine[0], sizeof(mine));
  }
  int32_t status =
      kit_transfer_fill(stream, target, mutant_share_pattern(mine, pattern_bytes), pattern_bytes);
  return mutant_enqueued(stream, take_foreign(stream, target, status));
}

// Bytes from the first row's start to the last row's end; 2⁶⁴ − 1 when they are more.
static uint64_t span_of(uint64_t rows, uint64_t pitch, uint64_t row_bytes) {
  unsigned __int128 span = (unsigned __int128)(rows - 1) * pitch + row_bytes;
  return span > UINT64_MAX ? UINT64_MAX : (uint64_t)span;
}

// M20: the target's pitch and the length of a row change places. M37: nothing is done, with
// success.
int32_t mutant_copy_2d(hal_stream stream, const hal_copy_2d_desc *desc) {
  if (is_fault(37) || desc->rows == 0 || desc->row_bytes == 0) {
    return HAL_OK;
  }
  uint64_t pitch = is_fault(20) ? desc->row_bytes : desc->target_pitch_bytes;
  uint64_t source_span = span_of(desc->rows, desc->source_pitch_bytes, desc->row_bytes);
  uint64_t target_span = span_of(desc->rows, desc->target_pitch_bytes, desc->row_bytes);
  if ((desc->kind != HAL_COPY_HOST_TO_DEVICE && source_span > desc->source.bytes) ||
      (desc->kind != HAL_COPY_DEVICE_TO_HOST && target_span > desc->target.bytes)) {
    return kit_fail(HAL_ERROR_OUT_OF_RANGE, "the rows end behind their range");
  }
  int32_t status = HAL_OK;
  for (uint64_t row = 0; row < desc->rows && status == HAL_OK; ++row) {
    hal_copy_desc one = {.size = sizeof(one), .kind = desc->kind, .flags = desc->flags};
    one.source = (hal_memory_ref){desc->source.memory,
                                  desc->source.offset_bytes + row * desc->source_pitch_bytes,
                                  desc->row_bytes};
    one.target = (hal_memory_ref){desc->target.memory, desc->target.offset_bytes + row * pitch,
                                  desc->row_bytes};
    one.host_source = desc->host_source == NULL
                          ? NULL
                          : (const char *)desc->host_source + row * desc->source_pitch_bytes;
    one.host_target = desc->host_target == NULL ? NULL : (char *)desc->host_target + row * pitch;
    status = kit_transfer_copy(stream, &one);
  }
  return mutant_note(status);
}
