// The port of Vulkan devices. A compute shader interprets VIL on the device; nothing runs on the
// host.
//
// Option (hal_host.options, else the environment):
//   device=TEXT  HAL_VULKAN_DEVICE=TEXT  only the device with this number, or with this text in
//                                        its name
#include "kit_tables.h"
#include "vk.h"

// What the port is without a description from the host.
static const char default_hcd[] =
    "identity.product\tvulkan\n"
    "identity.vendor\thal\n"
    "dtypes.bool.compute\tnative\n"
    "dtypes.f32.compute\tnative\n"
    "dtypes.i32.compute\tnative\n"
    "features.async_copy\ttrue\n"
    "features.concurrent_kernels\ttrue\n"
    "features.deterministic\ttrue\n"
    "features.host_call\ttrue\n"
    "features.host_signal_events\ttrue\n"
    "features.pinned_host\ttrue\n"
    "features.timing\ttrue\n";

static const kit_port port = {
    .runtime = "Vulkan 1.2",
    .runs_on = "device",
    .format = "vil.v1",
    .hcd_default = default_hcd,
    .hooks = {.start = vulkan_start,
              .stop = vulkan_stop,
              .device_describe = vulkan_describe,
              .device_drop = vulkan_drop,
              .reserve = vulkan_reserve,
              .release = vulkan_release,
              .queue_open = vulkan_queue_open,
              .queue_close = vulkan_queue_close,
              .submit = vulkan_submit,
              .poll = vulkan_poll},
};

KIT_ENTRY(port, .name = "vulkan", .vendor = "hal", .version = "1.0.0", .build_id = "1.0.0",
          .stream = KIT_STREAM_TABLE(.host_call = kit_stream_host_call));
