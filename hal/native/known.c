// What the emulate layer knows of the handles that pass through it.
#include "emulation.h"

hal_device hal_stream_device(hal_emulation *emulation, hal_stream stream) {
  pthread_mutex_lock(&emulation->lock);
  const void *device = stream == 0 ? NULL : hal_map_get(&emulation->streams, stream);
  pthread_mutex_unlock(&emulation->lock);
  return (hal_device)(uintptr_t)device;
}

int32_t hal_refuse_handle(hal_emulation *emulation, const char *what, uint64_t handle) {
  return hal_record(emulation->port, HAL_ERROR_INVALID_HANDLE, "0x%llx is no %s of this port",
                    (unsigned long long)handle, what);
}
