// Stands in for the judge of VIL modules until it is built: accepts what the reader accepted.
#include <stdlib.h>
#include <string.h>

#include "kit_state.h"
#include "vil_launch.h"

__attribute__((weak)) vil_limits *vil_limits_create(const kit_hcd *hcd) {
  (void)hcd;
  vil_limits *limits = calloc(1, sizeof(*limits));
  if (limits != NULL) {
    limits->grid_bits = 31;
  }
  return limits;
}

__attribute__((weak)) void vil_limits_free(vil_limits *limits) {
  free(limits);
}

__attribute__((weak)) int32_t vil_module_validate(const vil_module *module,
                                                  const vil_limits *limits, char *reason,
                                                  size_t capacity) {
  (void)module, (void)limits, (void)reason, (void)capacity;
  return HAL_OK;
}

__attribute__((weak)) void vil_launch_work(const void *storage, vil_work *out_work) {
  memset(out_work, 0, sizeof(*out_work));
  out_work->programs = vil_launch_programs(storage, 0);
  out_work->macs = out_work->programs * 65536;
}
