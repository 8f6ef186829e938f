// The port of the chip "{{ name }}": hooks over the chip's runtime. The kit does the rest: handles,
// streams, events, order, errors, time-outs. What each hook promises is in kit.h (`hal paths kit`).
//
// As it stands memory is the host's, kernels are interpreted on the host, and the port says so
// (runs_on); that is certified at tier 1. Give it the chip one step after the other, and run
// `hal port build .` and `hal-certify . --tier 1` after each. Hooks need no lock. One that fails
// returns a status with a text for the reader:
//   return kit_fail(HAL_ERROR_OUT_OF_MEMORY, "the chip has no room for %llu bytes", …);
#include "kit_tables.h"

// ---- Step 1: the runtime and its devices ----

// Opens the chip's runtime. HAL_ERROR_NOT_FOUND says that the machine lacks the driver or the chip;
// name what is missing and what to install. kit_runtime.h opens libraries with dlopen.
static int32_t start(void) {
  return HAL_OK;
}

// Ends the runtime. Every device is closed by then.
static void stop(void) {}

static uint32_t device_count(void) {
  return 1;
}

// Says what a device is. Texts live until stop.
static int32_t device_facts(uint32_t index, kit_device_facts *out_facts) {
  (void)index;
  // Of the description, until the runtime tells the chip's own.
  int64_t memory_bytes = 1 << 30, alignment_bytes = 64;
  kit_hcd_i64(kit_host_hcd(), "memory.dram.capacity_bytes", &memory_bytes);
  kit_hcd_i64(kit_host_hcd(), "memory.dram.alignment_bytes", &alignment_bytes);
  *out_facts = (kit_device_facts){
      .name = "{{ name }}",
      .hcd_ref = "{{ name }}.hcd.yaml",
      .hcd_overlay = "",
      .hcd = kit_host_hcd(),
      .memory_bytes = (uint64_t)memory_bytes,
      .alignment_bytes = (uint64_t)alignment_bytes,
  };
  return HAL_OK;
}

// ---- Step 2: memory ----

// Takes device bytes at a multiple of `alignment`, zeroed when `zero` is not 0. Write the runtime's
// handle or address to `native`; `pointer` stays NULL when the host cannot address the bytes, and
// then the copies, fills and launches of step 3 are the chip's too.
static int32_t reserve(kit_device *device, uint64_t bytes, uint64_t alignment, int zero,
                       kit_allocation *out_allocation) {
  return kit_host_reserve(device, bytes, alignment, zero, out_allocation);
}

static void release(kit_device *device, kit_allocation *allocation) {
  kit_host_release(device, allocation);
}

// ---- Step 3: operations ----

// Does one operation to its end, on the stream's own thread. Take the cases out of the kit's hands
// one by one. A range is `bytes` from `offset_bytes` on in kit_memory_allocation(range->memory).
static int32_t run(kit_device *device, kit_operation *operation) {
  switch (operation->kind) {
    case KIT_COPY_TO_DEVICE:  // From operation->host_source to operation->target.
    case KIT_COPY_TO_HOST:    // From operation->source to operation->host_target.
    case KIT_COPY_ON_DEVICE:  // From source to target, which may overlap.
    case KIT_FILL:            // operation->pattern (1, 2, 4 or 8 bytes) over the target.
    case KIT_LAUNCH:          // A kernel: the kit interprets its VIL program.
    default:
      return kit_host_run(device, operation);
  }
}

// Step 4: `queue_open`, `submit`, `poll` and `queue_close` in place of `run` hand operations to the
// chip's own queues. Step 5: kernels that the chip runs; runs_on is "device" then, here and in the
// description.
static const kit_port port = {
    .runtime = "",  // Name and version of the chip's runtime.
    .runs_on = "host",
    .format = "vil.v1",
    .hooks =
        {
            .start = start,
            .stop = stop,
            .device_count = device_count,
            .device_facts = device_facts,
            .reserve = reserve,
            .release = release,
            .run = run,
        },
};

KIT_ENTRY(port, .name = "{{ name }}", .vendor = "{{ vendor }}", .version = "0.1.0", .build_id = "");
