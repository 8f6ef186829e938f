// Buffers as the port describes them, and ranges inside them.
#include "emulation.h"

int32_t hal_buffer_facts(hal_emulation *emulation, hal_memory memory, uint64_t *out_bytes,
                         hal_device *out_device) {
  hal_memory_facts facts = {.size = sizeof(facts)};
  int32_t status = hal_check_dead(emulation, memory);
  if (status == HAL_OK) {
    status = emulation->next->calls->memory_info(emulation->next, memory, &facts);
  }
  if (status != HAL_OK) return status;
  *out_bytes = facts.bytes;
  if (out_device != NULL) *out_device = facts.device;
  return HAL_OK;
}

int32_t hal_check_range(hal_emulation *emulation, const hal_memory_ref *ref, const char *what,
                        hal_device *out_device) {
  uint64_t bytes = 0;
  const int32_t status = hal_buffer_facts(emulation, ref->memory, &bytes, out_device);
  if (status != HAL_OK) return status;
  if (ref->offset_bytes <= bytes && ref->bytes <= bytes - ref->offset_bytes) return HAL_OK;
  return hal_record(emulation->port, HAL_ERROR_OUT_OF_RANGE,
                    "the %s's range %llu + %llu lies beyond its buffer of %llu bytes", what,
                    (unsigned long long)ref->offset_bytes, (unsigned long long)ref->bytes,
                    (unsigned long long)bytes);
}
