// transfer.copy_2d for ports that lack it: one copy a row, or one in all when rows lie side by
// side.
#include "emulation.h"

static int32_t refuse_rows(hal_emulation *emulation, const char *side, uint64_t rows,
                           uint64_t pitch_bytes, uint64_t row_bytes, uint64_t bytes) {
  return hal_record(emulation->port, HAL_ERROR_OUT_OF_RANGE,
                    "%llu rows of %llu bytes at a pitch of %llu do not fit the %s's %llu bytes",
                    (unsigned long long)rows, (unsigned long long)row_bytes,
                    (unsigned long long)pitch_bytes, side, (unsigned long long)bytes);
}

// Rows of one side lie within its range, and the range within its buffer.
static int32_t check_side(hal_emulation *emulation, const hal_copy_2d_desc *desc,
                          const hal_memory_ref *ref, uint64_t pitch_bytes, const char *side) {
  const int32_t status = hal_check_range(emulation, ref, side, NULL);
  if (status != HAL_OK || desc->rows == 0) return status;
  uint64_t last = 0;
  if (__builtin_mul_overflow(desc->rows - 1, pitch_bytes, &last) ||
      __builtin_add_overflow(last, desc->row_bytes, &last) || last > ref->bytes) {
    return refuse_rows(emulation, side, desc->rows, pitch_bytes, desc->row_bytes, ref->bytes);
  }
  return HAL_OK;
}

static int32_t copy_rows(hal_layer *self, hal_stream stream, const hal_copy_2d_desc *desc,
                         uint64_t rows, uint64_t row_bytes) {
  hal_copy_desc row = {.size = sizeof(row),
                       .kind = desc->kind,
                       .flags = desc->flags,
                       .source = desc->source,
                       .target = desc->target,
                       .host_source = desc->host_source,
                       .host_target = desc->host_target};
  row.source.bytes = row_bytes;
  row.target.bytes = row_bytes;
  for (uint64_t i = 0; i < rows; ++i) {
    const int32_t status = self->next->calls->transfer_copy(self->next, stream, &row);
    if (status != HAL_OK) return status;
    if (desc->kind == HAL_COPY_HOST_TO_DEVICE) {
      row.host_source = (const char *)row.host_source + desc->source_pitch_bytes;
    } else {
      row.source.offset_bytes += desc->source_pitch_bytes;
    }
    if (desc->kind == HAL_COPY_DEVICE_TO_HOST) {
      row.host_target = (char *)row.host_target + desc->target_pitch_bytes;
    } else {
      row.target.offset_bytes += desc->target_pitch_bytes;
    }
  }
  return HAL_OK;
}

static int32_t emulate(hal_layer *self, hal_stream stream, const hal_copy_2d_desc *desc) {
  hal_emulation *emulation = self->state;
  int32_t status = HAL_OK;
  if (desc->kind != HAL_COPY_HOST_TO_DEVICE) {
    status = check_side(emulation, desc, &desc->source, desc->source_pitch_bytes, "source");
  }
  if (status == HAL_OK && desc->kind != HAL_COPY_DEVICE_TO_HOST) {
    status = check_side(emulation, desc, &desc->target, desc->target_pitch_bytes, "target");
  }
  if (status != HAL_OK) return status;
  if (desc->rows == 0 || desc->row_bytes == 0) {
    // Nothing moves; a copy of no bytes still says whether the handles are good.
    return copy_rows(self, stream, desc, 1, 0);
  }
  if (desc->source_pitch_bytes == desc->row_bytes && desc->target_pitch_bytes == desc->row_bytes) {
    return copy_rows(self, stream, desc, 1, desc->rows * desc->row_bytes);
  }
  return copy_rows(self, stream, desc, desc->rows, desc->row_bytes);
}

static int32_t take_copy_2d(hal_layer *self, hal_stream stream, const hal_copy_2d_desc *desc) {
  hal_emulation *emulation = self->state;
  int32_t status = hal_capture_refuse(emulation, stream, "transfer.copy_2d");
  if (status == HAL_OK) status = hal_check_dead(emulation, desc->source.memory);
  if (status == HAL_OK) status = hal_check_dead(emulation, desc->target.memory);
  if (status != HAL_OK) return status;
  if (HAL_PORT_HAS(emulation, transfer_copy_2d)) {
    status = self->next->calls->transfer_copy_2d(self->next, stream, desc);
    if (status != HAL_ERROR_UNSUPPORTED) return status;
  }
  return emulate(self, stream, desc);
}

void hal_emulate_copy_2d(hal_emulation *emulation) {
  HAL_TAKE_OVER(emulation, transfer_copy_2d, TRANSFER_COPY_2D, take_copy_2d);
}
