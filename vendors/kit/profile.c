// Interface 12: the device's clock and records of its work.
#include <stdlib.h>

#include "kit_state.h"

int32_t kit_profile_clock(hal_device handle, hal_clock *out_clock) {
  kit_device *device = kit_acquire(handle, KIT_KIND_DEVICE);
  if (device == NULL) {
    return HAL_ERROR_INVALID_HANDLE;
  }
  hal_clock clock = {.host_ns = kit_monotonic_ns()};
  clock.device_ns = kit_device_now(device);
  clock.uncertainty_ns = kit_monotonic_ns() - clock.host_ns;
  clock.domain = kit_clock_is_virtual() ? HAL_CLOCK_VIRTUAL : HAL_CLOCK_REAL;
  kit_write_out(out_clock, &clock, sizeof(clock));
  kit_release(device);
  return HAL_OK;
}

static int32_t start(kit_profile *profile, uint32_t mask) {
  if (atomic_load(&profile->mask) != 0) {
    return kit_fail(HAL_ERROR_INVALID_STATE, "records are kept already: stop first");
  }
  if (profile->records == NULL) {
    profile->records = malloc(KIT_PROFILE_RECORDS * sizeof(*profile->records));
  }
  if (profile->records == NULL) {
    return kit_fail(HAL_ERROR_INVALID_STATE, "no host memory for %d records",
                    (int)KIT_PROFILE_RECORDS);
  }
  atomic_store(&profile->mask, mask);
  return HAL_OK;
}

int32_t kit_profile_start(hal_device handle, uint32_t mask) {
  kit_device *device = kit_acquire(handle, KIT_KIND_DEVICE);
  if (device == NULL) {
    return HAL_ERROR_INVALID_HANDLE;
  }
  pthread_mutex_lock(&device->profile.lock);
  int32_t status = start(&device->profile, mask);
  pthread_mutex_unlock(&device->profile.lock);
  kit_release(device);
  return status;
}

int32_t kit_profile_stop(hal_device handle) {
  kit_device *device = kit_acquire(handle, KIT_KIND_DEVICE);
  if (device == NULL) {
    return HAL_ERROR_INVALID_HANDLE;
  }
  int32_t status = HAL_OK;
  if (atomic_exchange(&device->profile.mask, 0) == 0) {
    status = kit_fail(HAL_ERROR_INVALID_STATE, "no records are kept: start first");
  }
  kit_release(device);
  return status;
}

int32_t kit_profile_drain(hal_device handle, uint64_t capacity, hal_profile_record *out_records,
                          uint64_t *out_count, uint64_t *out_dropped) {
  kit_device *device = kit_acquire(handle, KIT_KIND_DEVICE);
  if (device == NULL) {
    return HAL_ERROR_INVALID_HANDLE;
  }
  if (kit_is_native()) {
    kit_native_pump_all();
  }
  kit_profile *profile = &device->profile;
  pthread_mutex_lock(&profile->lock);
  uint64_t count = profile->count < capacity ? profile->count : capacity;
  for (uint64_t i = 0; i < count; ++i) {
    out_records[i] = profile->records[(profile->first + i) % KIT_PROFILE_RECORDS];
  }
  profile->first = (profile->first + count) % KIT_PROFILE_RECORDS;
  profile->count -= count;
  *out_count = count;
  *out_dropped = profile->dropped;
  profile->dropped = 0;
  pthread_mutex_unlock(&profile->lock);
  kit_release(device);
  return HAL_OK;
}
