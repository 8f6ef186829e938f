// What is asked of an open device from everywhere: who it is, and whether it is lost.
#include "kit_state.h"

uint32_t kit_device_index(const kit_device *device) {
  return device->index;
}

uint64_t kit_device_handle(const kit_device *device) {
  return device->object.handle;
}

const kit_hcd *kit_device_hcd(const kit_device *device) {
  return device->chip->hcd;
}

int32_t kit_device_answer(kit_device *device, int32_t status) {
  if (status == HAL_ERROR_DEVICE_LOST) {
    atomic_store(&device->lost, true);
  }
  return status;
}

int32_t kit_device_check(const kit_device *device) {
  return atomic_load(&device->lost) ? kit_fail(HAL_ERROR_DEVICE_LOST, "the device is lost")
                                    : HAL_OK;
}
