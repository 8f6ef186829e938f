// The port of the chip Acme One: hooks of the kit over the vendor's own runtime.
//
// Memory and copies are the chip's. Kernels are interpreted on the host, through its window into
// the chip's memory, and the port says so (runs_on).
#include "kit_tables.h"
#include "runtime/acme_runtime.h"

static int32_t start(void) {
  if (acme_open() != ACME_OK) {
    return kit_fail(HAL_ERROR_NOT_FOUND, "the Acme runtime finds no chip; ACME_CHIPS=0 hides it");
  }
  return HAL_OK;
}

static uint32_t device_count(void) {
  return 1;
}

static int32_t device_facts(uint32_t index, kit_device_facts *out_facts) {
  (void)index;
  *out_facts = (kit_device_facts){
      .name = acme_name(),
      .hcd_ref = "acme.hcd.yaml",
      .hcd_overlay = "",
      .hcd = kit_host_hcd(),
      .memory_bytes = acme_memory_bytes(),
      .alignment_bytes = 64,
  };
  return HAL_OK;
}

static int32_t reserve(kit_device *device, uint64_t bytes, uint64_t alignment, int zero,
                       kit_allocation *out_allocation) {
  (void)device;
  acme_address address = 0;
  if (acme_take(bytes, alignment < 64 ? 64 : alignment, &address) != ACME_OK) {
    return kit_fail(HAL_ERROR_OUT_OF_MEMORY, "the chip has no room for %llu bytes",
                    (unsigned long long)bytes);
  }
  if (zero) {
    acme_fill(address, "", 1, bytes);
  }
  out_allocation->native = address;
  out_allocation->pointer = acme_window(address);
  return HAL_OK;
}

static void release(kit_device *device, kit_allocation *allocation) {
  (void)device;
  acme_give(allocation->native);
}

static acme_address address_of(const kit_range *range) {
  return kit_memory_allocation(range->memory)->native + range->offset_bytes;
}

// Does one operation to its end, on the stream's thread.
static int32_t run(kit_device *device, kit_operation *operation) {
  const kit_range *target = &operation->target, *source = &operation->source;
  switch (operation->kind) {
    case KIT_COPY_TO_DEVICE:
      acme_write(address_of(target), operation->host_source, target->bytes);
      return HAL_OK;
    case KIT_COPY_TO_HOST:
      acme_read(operation->host_target, address_of(source), source->bytes);
      return HAL_OK;
    case KIT_COPY_ON_DEVICE:
      acme_move(address_of(target), address_of(source), target->bytes);
      return HAL_OK;
    case KIT_FILL:
      acme_fill(address_of(target), operation->pattern, operation->pattern_bytes, target->bytes);
      return HAL_OK;
    default:
      return kit_host_run(device, operation);
  }
}

static const kit_port port = {
    .runtime = "Acme runtime 1.0",
    .runs_on = "host",
    .format = "vil.v1",
    .hooks =
        {
            .start = start,
            .stop = acme_close,
            .device_count = device_count,
            .device_facts = device_facts,
            .reserve = reserve,
            .release = release,
            .run = run,
        },
};

KIT_ENTRY(port, .name = "acme", .vendor = "Acme Chips", .version = "0.1.0", .build_id = "");
