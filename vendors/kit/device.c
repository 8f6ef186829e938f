// Interface 2: open a chip, ask it, wait for it.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit_state.h"

struct kit_pinned {
  struct kit_pinned *next;
  void *pointer;
};

static void free_pinned(kit_device *device, struct kit_pinned *pinned) {
  if (kit_the_port()->hooks.unpin != NULL) {
    kit_the_port()->hooks.unpin(device, pinned->pointer);
  } else {
    free(pinned->pointer);
  }
  free(pinned);
}

static void finish_device(kit_object *object) {
  kit_device *device = (kit_device *)object;
  while (device->pinned != NULL) {
    struct kit_pinned *pinned = device->pinned;
    device->pinned = pinned->next;
    free_pinned(device, pinned);
  }
  kit_profile_finish(&device->profile);
  pthread_mutex_destroy(&device->lock);
  free(device);
}

int32_t kit_device_open(uint32_t index, hal_device *out_device) {
  if (!kit_is_started()) {
    return kit_fail(HAL_ERROR_INVALID_STATE, "the port is not started: call init first");
  }
  kit_chip *chip = kit_chip_at(index);
  if (chip == NULL) {
    return kit_fail(HAL_ERROR_OUT_OF_RANGE, "device %u does not exist; the port has %u", index,
                    kit_chip_count());
  }
  kit_device *device = calloc(1, sizeof(*device));
  if (device == NULL) {
    return kit_fail(HAL_ERROR_OUT_OF_MEMORY, "no host memory for a device");
  }
  device->index = index;
  device->chip = chip;
  device->object.finish = finish_device;
  pthread_mutex_init(&device->lock, NULL);
  pthread_mutex_init(&device->profile.lock, NULL);
  uint64_t handle = kit_handle_create(&device->object, KIT_KIND_DEVICE, NULL);
  if (handle == 0) {
    finish_device(&device->object);
    return kit_fail(HAL_ERROR_OUT_OF_MEMORY, "no handle is left for a device");
  }
  *out_device = handle;
  return HAL_OK;
}

int32_t kit_device_drain(kit_device *device, uint64_t deadline_ns) {
  size_t count = 0;
  kit_stream **streams = kit_device_streams(device, &count);
  if (streams == NULL) {
    return HAL_ERROR_TIMEOUT;
  }
  int32_t status = HAL_OK;
  for (size_t i = 0; i < count; ++i) {
    if (status == HAL_OK) {
      status = kit_stream_drain(streams[i], deadline_ns);
    }
    kit_release(streams[i]);
  }
  free(streams);
  return atomic_load(&device->lost) ? HAL_ERROR_DEVICE_LOST : status;
}

int32_t kit_device_synchronize(hal_device handle, uint64_t timeout_ns) {
  kit_device *device = kit_acquire(handle, KIT_KIND_DEVICE);
  if (device == NULL) {
    return HAL_ERROR_INVALID_HANDLE;
  }
  int32_t status = kit_device_drain(device, kit_deadline(timeout_ns));
  kit_release(device);
  if (status == HAL_ERROR_TIMEOUT) {
    return kit_fail(status, "work of the device still runs after %llu ns",
                    (unsigned long long)timeout_ns);
  }
  return status == HAL_OK ? status : kit_fail(status, "the device is lost");
}

static void retire_stream(kit_object *object) {
  if (kit_object_kind(object) == KIT_KIND_STREAM) {
    kit_stream_destroy(object->handle);
  }
}

static void retire_other(kit_object *object) {
  if (kit_object_kind(object) == KIT_KIND_MODULE) {
    kit_module_unload(object->handle);
  } else if (kit_object_kind(object) == KIT_KIND_EVENT) {
    kit_event_destroy(object->handle);
  } else if (kit_object_kind(object) == KIT_KIND_MEMORY) {
    kit_memory_free(object->handle);
  } else if (kit_object_kind(object) == KIT_KIND_COMM) {
    kit_collective_comm_destroy(object->handle);
  }
}

static bool has_no_workers(void *context) {
  return atomic_load(&((kit_device *)context)->workers) == 0;
}

int32_t kit_device_close(hal_device handle, uint64_t timeout_ns) {
  kit_device *device = kit_acquire(handle, KIT_KIND_DEVICE);
  if (device == NULL) {
    return HAL_ERROR_INVALID_HANDLE;
  }
  int32_t status = kit_device_drain(device, kit_deadline(timeout_ns));
  if (status == HAL_ERROR_TIMEOUT) {
    kit_release(device);
    return kit_fail(status, "work of the device still runs after %llu ns; it stays open",
                    (unsigned long long)timeout_ns);
  }
  if (!kit_retire(device)) {
    kit_release(device);
    return kit_fail(HAL_ERROR_INVALID_HANDLE, "another thread closes the device");
  }
  kit_handles_each(device, retire_stream);
  kit_handles_each(device, retire_other);
  // The streams are idle, so that their threads end at once.
  kit_wait(has_no_workers, device, &device->workers, kit_monotonic_ns() + 10000000000u);
  kit_release(device);
  return HAL_OK;
}

// The closed list of the schema: a feature that the chip's description leaves out is false.
static const char *const features[] = {
    "async_copy",
    "concurrent_kernels",
    "graph",
    "peer",
    "pinned_host",
    "host_register",
    "host_call",
    "host_signal_events",
    "copy_2d",
    "ipc",
    "memory_export",
    "native_handles",
    "timing",
    "virtual_clock",
    "fault_injection",
    "counters",
    "preemption",
    "ecc",
    "deterministic",
    "float_atomics",
    "module_serialize",
    "library",
    "collective",
    "device_reset",
    "launch_suggest",
};
static const char *const dtypes[] = {"f32", "f16", "bf16", "f64",    "i8",    "u8",
                                     "i32", "i64", "bool", "f8e4m3", "f8e5m2"};

static bool is_one_of(const char *text, size_t length, const char *const *list, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (strlen(list[i]) == length && strncmp(list[i], text, length) == 0) {
      return true;
    }
  }
  return false;
}

static int compute_level(const char *text, int64_t *out) {
  static const char *const levels[] = {"none", "emulated", "native"};
  for (int i = 0; i < 3; ++i) {
    if (text != NULL && strcmp(text, levels[i]) == 0) {
      *out = i;
      return 1;
    }
  }
  return 0;
}

// A key that the description leaves out but every port answers.
static int absent_value(const char *key, int64_t *out) {
  if (strncmp(key, "features.", 9) == 0 &&
      is_one_of(key + 9, strlen(key + 9), features, sizeof(features) / sizeof(*features))) {
    *out = 0;
    return 1;
  }
  const char *dot = strncmp(key, "dtypes.", 7) == 0 ? strchr(key + 7, '.') : NULL;
  if (dot != NULL && strcmp(dot, ".compute") == 0 &&
      is_one_of(key + 7, (size_t)(dot - key - 7), dtypes, sizeof(dtypes) / sizeof(*dtypes))) {
    *out = 0;
    return 1;
  }
  return 0;
}

static int run_time_value(const kit_chip *chip, const char *key, int64_t *out) {
  if (strcmp(key, "device.memory_bytes") == 0) {
    *out = (int64_t)chip->facts.memory_bytes;
  } else if (strcmp(key, "device.offset_alignment_bytes") == 0) {
    *out = 1;
    kit_hcd_i64(chip->hcd, "execution.limits.offset_alignment_bytes", out);
  } else if (strcmp(key, "device.argument_limit") == 0) {
    *out = 65536;
    kit_hcd_i64(chip->hcd, "execution.limits.argument_count_max", out);
  } else if (strcmp(key, "device.stream_limit") == 0) {
    *out = 0;
    kit_hcd_i64(chip->hcd, "execution.limits.stream_count_max", out);
  } else if (strcmp(key, "device.dlpack_type") == 0 && chip->facts.dlpack_type != 0) {
    *out = chip->facts.dlpack_type;
  } else {
    return 0;
  }
  return 1;
}

int32_t kit_device_get_i64(hal_device handle, const char *key, int64_t *out_value) {
  kit_device *device = kit_acquire(handle, KIT_KIND_DEVICE);
  if (device == NULL) {
    return HAL_ERROR_INVALID_HANDLE;
  }
  const kit_hcd *hcd = device->chip->hcd;
  int64_t value = 0;
  int found = run_time_value(device->chip, key, &value) || kit_hcd_i64(hcd, key, &value) ||
              compute_level(kit_hcd_text(hcd, key), &value) || absent_value(key, &value);
  kit_release(device);
  if (!found) {
    return kit_fail(HAL_ERROR_NOT_FOUND, "no number is known under the key '%.200s'", key);
  }
  *out_value = value;
  return HAL_OK;
}

int32_t kit_device_get_str(hal_device handle, const char *key, uint64_t capacity, char *out_text,
                           uint64_t *out_bytes) {
  kit_device *device = kit_acquire(handle, KIT_KIND_DEVICE);
  if (device == NULL) {
    return HAL_ERROR_INVALID_HANDLE;
  }
  const kit_device_facts *facts = &device->chip->facts;
  const char *text = strcmp(key, "device.name") == 0   ? facts->name
                     : strcmp(key, "hcd.ref") == 0     ? facts->hcd_ref
                     : strcmp(key, "hcd.overlay") == 0 ? facts->hcd_overlay
                                                       : kit_hcd_text(device->chip->hcd, key);
  int32_t status =
      text == NULL ? kit_fail(HAL_ERROR_NOT_FOUND, "no text is known under the key '%.200s'", key)
                   : kit_write_text(text, capacity, out_text, out_bytes);
  kit_release(device);
  return status;
}

int32_t kit_device_peer_info(hal_device handle, hal_device peer_handle, uint32_t key,
                             int64_t *out_value) {
  kit_device *device = kit_acquire(handle, KIT_KIND_DEVICE);
  kit_device *peer = device == NULL ? NULL : kit_acquire(peer_handle, KIT_KIND_DEVICE);
  int32_t status = HAL_ERROR_INVALID_HANDLE;
  if (peer != NULL) {
    int64_t value = 0;
    status = kit_the_port()->hooks.peer_info == NULL
                 ? HAL_ERROR_NOT_FOUND
                 : kit_the_port()->hooks.peer_info(device->index, peer->index, key, &value);
    if (status == HAL_OK) {
      *out_value = value;
    } else if (status == HAL_ERROR_NOT_FOUND) {
      kit_fail(status, "device.peer_info knows no key %u", key);
    }
    kit_release(peer);
  }
  if (device != NULL) {
    kit_release(device);
  }
  return status;
}

static int32_t pin(kit_device *device, uint64_t bytes, void **out_pointer) {
  uint64_t rounded = (bytes + 63) & ~UINT64_C(63);
  *out_pointer = NULL;
  if (rounded >= bytes && rounded <= kit_host_physical_bytes()) {
    if (kit_the_port()->hooks.pin != NULL) {
      return kit_device_answer(device, kit_the_port()->hooks.pin(device, rounded, out_pointer));
    }
    *out_pointer = aligned_alloc(64, rounded);
  }
  return *out_pointer != NULL
             ? HAL_OK
             : kit_fail(HAL_ERROR_OUT_OF_MEMORY, "the host has no room for %llu pinned bytes",
                        (unsigned long long)bytes);
}

int32_t kit_memory_host_alloc(hal_device handle, uint64_t bytes, void **out_pointer) {
  kit_device *device = kit_acquire(handle, KIT_KIND_DEVICE);
  if (device == NULL) {
    return HAL_ERROR_INVALID_HANDLE;
  }
  struct kit_pinned *pinned = malloc(sizeof(*pinned));
  void *pointer = NULL;
  int32_t status = pinned == NULL ? kit_fail(HAL_ERROR_OUT_OF_MEMORY, "no host memory")
                                  : kit_device_check(device);
  if (status == HAL_OK) {
    status = pin(device, bytes, &pointer);
  }
  if (status != HAL_OK) {
    free(pinned);
    kit_release(device);
    return status;
  }
  pinned->pointer = pointer;
  pthread_mutex_lock(&device->lock);
  pinned->next = device->pinned;
  device->pinned = pinned;
  pthread_mutex_unlock(&device->lock);
  *out_pointer = pointer;
  kit_release(device);
  return HAL_OK;
}

int32_t kit_memory_host_free(hal_device handle, void *pointer) {
  kit_device *device = kit_acquire(handle, KIT_KIND_DEVICE);
  if (device == NULL) {
    return HAL_ERROR_INVALID_HANDLE;
  }
  pthread_mutex_lock(&device->lock);
  struct kit_pinned **at = &device->pinned;
  while (*at != NULL && (*at)->pointer != pointer) {
    at = &(*at)->next;
  }
  struct kit_pinned *found = *at;
  if (found != NULL) {
    *at = found->next;
  }
  pthread_mutex_unlock(&device->lock);
  int32_t status = found != NULL ? HAL_OK
                                 : kit_fail(HAL_ERROR_INVALID_VALUE,
                                            "%p is no pinned memory of this device", pointer);
  if (found != NULL) {
    free_pinned(device, found);
  }
  kit_release(device);
  return status;
}
