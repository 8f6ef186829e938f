// A port that this build has left out, because something that it is built from was missing. It
// takes the name of the port, so that all who ask for it learn why it is not there.
#include "kit_tables.h"

static int32_t start(void) {
  return kit_fail(HAL_ERROR_NOT_FOUND, "the port was left out of this build: %s",
                  HAL_ABSENT_REASON);
}

static uint32_t device_count(void) {
  return 0;
}

static int32_t device_facts(uint32_t index, kit_device_facts *out_facts) {
  (void)out_facts;
  return kit_fail(HAL_ERROR_OUT_OF_RANGE, "device %u of 0", index);
}

static const kit_port port = {
    .runtime = "",
    .runs_on = "device",
    .format = "vil.v1",
    .hooks = {.start = start, .device_count = device_count, .device_facts = device_facts},
};

KIT_ENTRY(port, .name = HAL_ABSENT_NAME, .vendor = "hal", .version = "1.0.0", .build_id = "1.0.0");
