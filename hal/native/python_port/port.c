// The port of Python classes: memory, copies and fills are methods of a class, the rest is the
// kit's. Kernels are interpreted on the host: in the buffer itself where the class shows it, else
// on a copy that is read before a launch and written back after it.
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hooks.h"
#include "kit_tables.h"

static struct {
  // One call into Python at a time. Recursive: within a method Python may collect an object that
  // frees a buffer.
  pthread_mutex_t lock;
  const hal_python_hooks *hooks;
  void *user;  // The object.
  hal_python_facts facts;
  char name[64];
  char devices[HAL_PYTHON_DEVICES_MAX][HAL_PYTHON_NAME_BYTES];
  uint64_t bytes[HAL_PYTHON_DEVICES_MAX];
  char overlays[HAL_PYTHON_DEVICES_MAX][256];
} python = {.lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP};

static int32_t told(int32_t status, const char *reason) {
  return status >= 0 ? HAL_OK : kit_fail(status, "%s", reason);
}

static void *read_address(const char *key) {
  char text[32];
  const char *value = kit_option(key, NULL, text, sizeof(text));
  return value == NULL ? NULL : (void *)(uintptr_t)strtoull(value, NULL, 16);
}

// Bytes of the memory that buffers lie in, as the description says.
static uint64_t described_bytes(const char *memory) {
  char path[160];
  int64_t bytes = 0;
  snprintf(path, sizeof(path), "memory.%.100s.capacity_bytes", memory);
  return kit_hcd_i64(kit_host_hcd(), path, &bytes) && bytes > 0 ? (uint64_t)bytes : 0;
}

static int32_t read_device(uint32_t index) {
  hal_python_device device = {.memory_bytes = 0};
  char reason[HAL_PYTHON_REASON_BYTES] = "";
  int32_t status = python.hooks->device(python.user, index, &device, reason);
  if (status < 0) {
    return kit_fail(status, "%s", reason);
  }
  const char *memory = kit_hcd_text(kit_host_hcd(), "execution.buffers");
  memory = memory == NULL ? "" : memory;
  snprintf(python.devices[index], HAL_PYTHON_NAME_BYTES, "%s", device.name);
  python.bytes[index] = device.memory_bytes;
  python.overlays[index][0] = '\0';
  if (device.memory_bytes == 0) {
    python.bytes[index] = described_bytes(memory);
  } else if (memory[0] != '\0') {
    snprintf(python.overlays[index], sizeof(python.overlays[index]),
             "execution.limits.allocation_bytes_max\t%llu\n"
             "memory.%.64s.capacity_bytes\t%llu\n",
             (unsigned long long)device.memory_bytes, memory,
             (unsigned long long)device.memory_bytes);
  }
  if (python.bytes[index] == 0) {
    return kit_fail(HAL_ERROR_NOT_FOUND,
                    "device %u: neither memory_bytes() nor the description says how large it is",
                    index);
  }
  return HAL_OK;
}

static int32_t start_class(void) {
  char reason[HAL_PYTHON_REASON_BYTES] = "";
  const kit_hcd *hcd = kit_host_hcd();
  const char *vendor = kit_hcd_text(hcd, "identity.vendor");
  const char *product = kit_hcd_text(hcd, "identity.product");
  memset(&python.facts, 0, sizeof(python.facts));
  snprintf(python.name, sizeof(python.name), "%.30s/%.30s", vendor == NULL ? "" : vendor,
           product == NULL ? "" : product);
  int32_t status = python.hooks->start(python.user, &python.facts, reason);
  if (status < 0) {
    return kit_fail(status, "%s", reason);
  }
  python.user = python.facts.object;
  for (uint32_t index = 0; index < python.facts.device_count && status == HAL_OK; ++index) {
    status = read_device(index);
  }
  if (status < 0) {
    python.hooks->stop(python.user);
  }
  return status;
}

static int32_t start(void) {
  python.hooks = read_address("python.hooks");
  python.user = read_address("python.user");
  if (python.hooks == NULL || python.user == NULL) {
    return kit_fail(HAL_ERROR_INVALID_VALUE,
                    "this library serves Python classes: name one as FILE.py:CLASS");
  }
  if (python.hooks->size != sizeof(*python.hooks)) {
    return kit_fail(HAL_ERROR_VERSION, "the table of methods has %llu bytes, this port needs %zu",
                    (unsigned long long)python.hooks->size, sizeof(*python.hooks));
  }
  pthread_mutex_lock(&python.lock);
  int32_t status = start_class();
  pthread_mutex_unlock(&python.lock);
  return status;
}

static void stop(void) {
  pthread_mutex_lock(&python.lock);
  python.hooks->stop(python.user);
  pthread_mutex_unlock(&python.lock);
}

static uint32_t device_count(void) {
  return python.facts.device_count;
}

static int32_t device_facts(uint32_t index, kit_device_facts *out_facts) {
  *out_facts = (kit_device_facts){.name = python.devices[index],
                                  .hcd_ref = python.name,
                                  .hcd_overlay = python.overlays[index],
                                  .hcd = kit_host_hcd(),
                                  .memory_bytes = python.bytes[index],
                                  .alignment_bytes = 64};
  return HAL_OK;
}

// `native` of an allocation is the buffer's number, doubled, plus 1 when the host sees the buffer.
static uint64_t id_of(const kit_range *range) {
  return kit_memory_allocation(range->memory)->native >> 1;
}

static bool is_seen(const kit_range *range) {
  return (kit_memory_allocation(range->memory)->native & 1) != 0;
}

static int32_t take_room(kit_device *device, uint64_t bytes, uint64_t alignment, int zero,
                         void *view, uint64_t id, kit_allocation *out) {
  char reason[HAL_PYTHON_REASON_BYTES] = "";
  int32_t status = HAL_OK;
  if (view == NULL) {
    status = kit_host_reserve(device, bytes, alignment, 0, out);
  } else if ((uintptr_t)view % 16 != 0) {
    status = kit_fail(HAL_ERROR_INTERNAL, "view() shows a buffer at %p: no multiple of 16", view);
  }
  out->pointer = view == NULL ? out->pointer : view;
  out->native = id << 1 | (view != NULL);
  if (status == HAL_OK && zero) {
    status = told(python.hooks->fill(python.user, id, 0, bytes, "", 1, reason), reason);
    if (status != HAL_OK && view == NULL) {
      kit_host_release(device, out);
    }
  }
  return status;
}

static int32_t reserve(kit_device *device, uint64_t bytes, uint64_t alignment, int zero,
                       kit_allocation *out_allocation) {
  char reason[HAL_PYTHON_REASON_BYTES] = "";
  uint64_t id = 0;
  void *view = NULL;
  pthread_mutex_lock(&python.lock);
  int32_t status = told(python.hooks->alloc(python.user, kit_device_index(device), bytes, alignment,
                                            &id, &view, reason),
                        reason);
  if (status == HAL_OK) {
    status = take_room(device, bytes, alignment, zero, view, id, out_allocation);
    if (status != HAL_OK) {
      python.hooks->free(python.user, id, reason);
    }
  }
  pthread_mutex_unlock(&python.lock);
  return status;
}

static void release(kit_device *device, kit_allocation *allocation) {
  char reason[HAL_PYTHON_REASON_BYTES] = "";
  pthread_mutex_lock(&python.lock);
  if (python.hooks->free(python.user, allocation->native >> 1, reason) < 0) {
    kit_log(HAL_LOG_ERROR, "%s", reason);  // memory.free has answered already
  }
  pthread_mutex_unlock(&python.lock);
  if ((allocation->native & 1) == 0) {
    kit_host_release(device, allocation);
  }
}

// Brings what a launch reads to where the host can run it (`back`: what it wrote to the buffers).
static int32_t stage(const kit_operation *operation, bool back, char *reason) {
  const vil_kernel *kernel = kit_kernel_vil(operation->kernel);
  uint32_t count = vil_kernel_argument_count(kernel), use = 0;
  int32_t status = HAL_OK;
  for (uint32_t i = 0; i < count && status >= 0; ++i) {
    if (vil_kernel_argument_kind(kernel, i) != HAL_ARGUMENT_BUFFER) {
      continue;
    }
    const kit_range *range = &operation->uses[use++];
    if (is_seen(range) || range->bytes == 0) {
      continue;
    }
    if (!back) {
      status = python.hooks->read(python.user, id_of(range), range->offset_bytes,
                                  kit_range_pointer(range), range->bytes, reason);
    } else if (vil_kernel_argument_is_written(kernel, i)) {
      status = python.hooks->write(python.user, id_of(range), range->offset_bytes,
                                   kit_range_pointer(range), range->bytes, reason);
    }
  }
  return status;
}

static int32_t launch(kit_device *device, kit_operation *operation) {
  char reason[HAL_PYTHON_REASON_BYTES] = "";
  int32_t status = told(stage(operation, false, reason), reason);
  if (status == HAL_OK) {
    status = kit_host_run(device, operation);
  }
  return status == HAL_OK ? told(stage(operation, true, reason), reason) : status;
}

static int32_t move(const kit_operation *operation) {
  char reason[HAL_PYTHON_REASON_BYTES] = "";
  const kit_range *target = &operation->target, *source = &operation->source;
  const hal_python_hooks *hooks = python.hooks;
  int32_t status = HAL_OK;
  switch (operation->kind) {
    case KIT_COPY_TO_DEVICE:
      status = hooks->write(python.user, id_of(target), target->offset_bytes,
                            operation->host_source, target->bytes, reason);
      break;
    case KIT_COPY_TO_HOST:
      status = hooks->read(python.user, id_of(source), source->offset_bytes, operation->host_target,
                           source->bytes, reason);
      break;
    case KIT_COPY_ON_DEVICE:
      status = hooks->copy(python.user, id_of(target), target->offset_bytes, id_of(source),
                           source->offset_bytes, target->bytes, reason);
      break;
    case KIT_FILL:
      status = hooks->fill(python.user, id_of(target), target->offset_bytes, target->bytes,
                           operation->pattern, operation->pattern_bytes, reason);
      break;
    default:
      return kit_fail(HAL_ERROR_INTERNAL, "an operation of kind %u has no method", operation->kind);
  }
  return told(status, reason);
}

// Does one operation to its end, on the stream's thread or the caller's.
static int32_t run(kit_device *device, kit_operation *operation) {
  bool is_launch = operation->kernel != NULL;
  if (!is_launch && operation->target.bytes == 0 && operation->source.bytes == 0) {
    return HAL_OK;
  }
  pthread_mutex_lock(&python.lock);
  int32_t status = is_launch ? launch(device, operation) : move(operation);
  pthread_mutex_unlock(&python.lock);
  return status;
}

static const kit_port port = {
    .runtime = python.facts.runtime,
    .runs_on = "host",
    .format = "vil.v1",
    .hooks = {.start = start,
              .stop = stop,
              .device_count = device_count,
              .device_facts = device_facts,
              .reserve = reserve,
              .release = release,
              .run = run},
};

KIT_ENTRY(port, .name = "python", .vendor = "hal", .version = "1.0.0", .build_id = "1.0.0",
          .stream = KIT_STREAM_TABLE(.host_call = kit_stream_host_call));
