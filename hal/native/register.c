// memory.host_register for ports that lack it: the memory is remembered and copies stay staged.
#include <string.h>

#include "emulation.h"

struct hal_registration {
  hal_registration *next;
  hal_device device;
  uintptr_t start;
  uint64_t bytes;
};

static int32_t check_device(hal_emulation *emulation, hal_device device) {
  hal_layer *next = emulation->next;
  int64_t bytes = 0;
  const int32_t status = next->calls->device_get_i64(next, device, "device.memory_bytes", &bytes);
  return status == HAL_ERROR_NOT_FOUND ? HAL_OK : status;
}

static int32_t add(hal_emulation *emulation, hal_device device, uintptr_t start, uint64_t bytes) {
  hal_registration *made = malloc(sizeof(*made));
  if (made == NULL) return hal_record(emulation->port, HAL_ERROR_OUT_OF_MEMORY, "no host memory");
  int32_t status = HAL_OK;
  pthread_mutex_lock(&emulation->lock);
  for (const hal_registration *one = emulation->registrations; one != NULL; one = one->next) {
    if (one->device == device && start < one->start + one->bytes && one->start < start + bytes) {
      status = hal_record(emulation->port, HAL_ERROR_INVALID_STATE,
                          "the memory at 0x%llx is registered already, as %llu bytes at 0x%llx",
                          (unsigned long long)start, (unsigned long long)one->bytes,
                          (unsigned long long)one->start);
      break;
    }
  }
  if (status == HAL_OK) {
    *made = (hal_registration){
        .next = emulation->registrations, .device = device, .start = start, .bytes = bytes};
    emulation->registrations = made;
  }
  pthread_mutex_unlock(&emulation->lock);
  if (status != HAL_OK) free(made);
  return status;
}

static int32_t take_register(hal_layer *self, hal_device device, void *pointer, uint64_t bytes) {
  hal_emulation *emulation = self->state;
  if (HAL_PORT_HAS(emulation, memory_host_register)) {
    const int32_t status =
        self->next->calls->memory_host_register(self->next, device, pointer, bytes);
    if (status != HAL_ERROR_UNSUPPORTED) return status;
  }
  const int32_t status = check_device(emulation, device);
  if (status != HAL_OK) return status;
  if (bytes > UINTPTR_MAX - (uintptr_t)pointer) {
    return hal_record(emulation->port, HAL_ERROR_INVALID_VALUE, "%llu bytes wrap around",
                      (unsigned long long)bytes);
  }
  return add(emulation, device, (uintptr_t)pointer, bytes);
}

static int32_t take_unregister(hal_layer *self, hal_device device, void *pointer) {
  hal_emulation *emulation = self->state;
  if (HAL_PORT_HAS(emulation, memory_host_unregister)) {
    const int32_t status = self->next->calls->memory_host_unregister(self->next, device, pointer);
    if (status != HAL_ERROR_UNSUPPORTED) return status;
  }
  int32_t status = check_device(emulation, device);
  if (status != HAL_OK) return status;
  hal_registration *found = NULL;
  pthread_mutex_lock(&emulation->lock);
  for (hal_registration **at = &emulation->registrations; *at != NULL; at = &(*at)->next) {
    if ((*at)->device != device || (*at)->start != (uintptr_t)pointer) continue;
    found = *at;
    *at = found->next;
    break;
  }
  pthread_mutex_unlock(&emulation->lock);
  if (found == NULL) {
    return hal_record(emulation->port, HAL_ERROR_INVALID_VALUE,
                      "no registered memory starts at 0x%llx",
                      (unsigned long long)(uintptr_t)pointer);
  }
  free(found);
  return HAL_OK;
}

void hal_registrations_drop(hal_emulation *emulation, hal_device device) {
  pthread_mutex_lock(&emulation->lock);
  for (hal_registration **at = &emulation->registrations; *at != NULL;) {
    hal_registration *one = *at;
    if (device != 0 && one->device != device) {
      at = &one->next;
      continue;
    }
    *at = one->next;
    free(one);
  }
  pthread_mutex_unlock(&emulation->lock);
}

void hal_emulate_register(hal_emulation *emulation) {
  HAL_TAKE_OVER(emulation, memory_host_register, MEMORY_HOST_REGISTER, take_register);
  HAL_TAKE_OVER(emulation, memory_host_unregister, MEMORY_HOST_UNREGISTER, take_unregister);
}
