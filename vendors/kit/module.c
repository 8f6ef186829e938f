// Interface 7: modules and their kernels. VIL does the reading and judging.
#include <stdlib.h>
#include <string.h>

#include "kit_state.h"

const vil_kernel *kit_kernel_vil(const kit_kernel *kernel) {
  return kernel->vil;
}

static void close_data(void *data) {
  if (data != NULL) {
    kit_the_port()->hooks.module_close(data);
  }
}

static void finish_module(kit_object *object) {
  kit_module *module = (kit_module *)object;
  vil_module_free(module->vil);
  close_data(module->port_data);
  free(module->kernels);
  free(module);
}

static void finish_kernel(kit_object *object) {
  kit_kernel *kernel = (kit_kernel *)object;
  kit_release(kernel->module);
  free(kernel);
}

static void retire_kernels(kit_module *module) {
  for (uint32_t i = 0; i < module->kernel_count; ++i) {
    kit_kernel *kernel = kit_acquire(module->kernels[i], KIT_KIND_KERNEL);
    if (kernel != NULL) {
      kit_retire(kernel);
      kit_release(kernel);
    }
  }
}

// Gives each kernel of the image its handle, so that a kernel has one handle however often asked.
static bool create_kernels(kit_module *module, kit_device *device) {
  uint32_t count = vil_module_kernel_count(module->vil);
  module->kernels = calloc(count == 0 ? 1 : count, sizeof(*module->kernels));
  for (uint32_t i = 0; module->kernels != NULL && i < count; ++i) {
    kit_kernel *kernel = calloc(1, sizeof(*kernel));
    if (kernel == NULL) {
      return false;
    }
    kernel->object.finish = finish_kernel;
    kernel->module = module;
    kernel->vil = vil_module_kernel(module->vil, i);
    module->kernels[i] = kit_handle_create(&kernel->object, KIT_KIND_KERNEL, device);
    if (module->kernels[i] == 0) {
      free(kernel);
      return false;
    }
    kit_retain(module);
    ++module->kernel_count;
  }
  return module->kernels != NULL;
}

int32_t kit_module_read(const kit_device *device, const void *image, uint64_t bytes,
                        vil_module **out_module) {
  char reason[400] = "";
  vil_module *vil = NULL;
  int32_t status = vil_module_read(image, bytes, &vil, reason, sizeof(reason));
  if (status == HAL_OK) {
    status = vil_module_validate(vil, device->chip->limits, reason, sizeof(reason));
  }
  if (status != HAL_OK) {
    vil_module_free(vil);
    return kit_fail(status, "%s", reason);
  }
  *out_module = vil;
  return HAL_OK;
}

static int32_t read_image(kit_device *device, const hal_module_desc *desc, vil_module **out_vil,
                          void **out_data) {
  const kit_port *port = kit_the_port();
  bool is_named = strcmp(desc->format, port->format) == 0;
  bool takes_source = strncmp(port->format, "source.", 7) == 0;
  if (is_named && !takes_source) {
    return kit_module_read(device, desc->image, desc->image_bytes, out_vil);
  }
  if (port->hooks.module_open != NULL && (is_named || !takes_source)) {
    return port->hooks.module_open(device, desc, out_vil, out_data);
  }
  return kit_fail(HAL_ERROR_UNSUPPORTED, "format '%.100s' is not loaded here; '%s' is",
                  desc->format, port->format);
}

static int32_t load(kit_device *device, const hal_module_desc *desc, hal_module *out_module) {
  vil_module *vil = NULL;
  void *data = NULL;
  int32_t status = kit_device_check(device);
  if (status == HAL_OK) {
    status = kit_device_answer(device, read_image(device, desc, &vil, &data));
  }
  if (status != HAL_OK) {
    return status;
  }
  kit_module *module = calloc(1, sizeof(*module));
  uint64_t handle = 0;
  if (module == NULL) {
    vil_module_free(vil);
    close_data(data);
  } else {
    module->vil = vil;
    module->port_data = data;
    module->object.finish = finish_module;
    handle = kit_handle_create(&module->object, KIT_KIND_MODULE, device);
    if (handle == 0) {
      finish_module(&module->object);
    } else if (!create_kernels(module, device)) {
      retire_kernels(module);
      kit_retire(module);
      handle = 0;
    }
  }
  if (handle == 0) {
    return kit_fail(HAL_ERROR_OUT_OF_MEMORY, "no host memory or handle is left for a module");
  }
  *out_module = handle;
  return HAL_OK;
}

int32_t kit_module_load(hal_device handle, const hal_module_desc *desc, hal_module *out_module) {
  kit_device *device = kit_acquire(handle, KIT_KIND_DEVICE);
  if (device == NULL) {
    return HAL_ERROR_INVALID_HANDLE;
  }
  int32_t status = load(device, desc, out_module);
  kit_release(device);
  return status;
}

int32_t kit_module_unload(hal_module handle) {
  kit_module *module = kit_acquire(handle, KIT_KIND_MODULE);
  if (module == NULL) {
    return HAL_ERROR_INVALID_HANDLE;
  }
  int32_t status = HAL_OK;
  if (kit_retire(module)) {
    retire_kernels(module);
  } else {
    status = kit_fail(HAL_ERROR_INVALID_HANDLE, "another thread unloads the module");
  }
  kit_release(module);
  return status;
}

int32_t kit_module_get_kernel(hal_module handle, const char *name, hal_kernel *out_kernel) {
  kit_module *module = kit_acquire(handle, KIT_KIND_MODULE);
  if (module == NULL) {
    return HAL_ERROR_INVALID_HANDLE;
  }
  int32_t status = HAL_ERROR_NOT_FOUND;
  for (uint32_t i = 0; i < module->kernel_count && status != HAL_OK; ++i) {
    if (strcmp(vil_kernel_name(vil_module_kernel(module->vil, i)), name) == 0) {
      *out_kernel = module->kernels[i];
      status = HAL_OK;
    }
  }
  if (status != HAL_OK) {
    kit_fail(status, "the module has no kernel '%.100s'", name);
  }
  kit_release(module);
  return status;
}

int32_t kit_module_kernel_info(hal_kernel handle, uint32_t key, int64_t *out_value) {
  kit_kernel *kernel = kit_acquire(handle, KIT_KIND_KERNEL);
  if (kernel == NULL) {
    return HAL_ERROR_INVALID_HANDLE;
  }
  int32_t status = HAL_OK;
  if (key == HAL_KERNEL_INFO_ARGUMENT_COUNT) {
    *out_value = vil_kernel_argument_count(kernel->vil);
  } else if (key == HAL_KERNEL_INFO_SCRATCH_BYTES) {
    *out_value = 0;
  } else if (key == HAL_KERNEL_INFO_RUNS_ON_HOST) {
    *out_value = strcmp(kit_the_port()->runs_on, "host") == 0;
  } else {
    status = kit_fail(HAL_ERROR_NOT_FOUND, "module.kernel_info knows no key %u", key);
  }
  kit_release(kernel);
  return status;
}
