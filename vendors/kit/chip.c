// The chips that the port finds: facts and description of each, read at start.
#include <stdlib.h>
#include <string.h>

#include "kit_state.h"

static kit_chip *chips;
static uint32_t chip_count;

uint32_t kit_chip_count(void) {
  return chip_count;
}

kit_chip *kit_chip_at(uint32_t index) {
  return kit_is_started() && index < chip_count ? &chips[index] : NULL;
}

void kit_chips_drop(void) {
  for (uint32_t i = 0; i < chip_count; ++i) {
    vil_limits_free(chips[i].limits);
    kit_hcd_free(chips[i].hcd);
    pthread_mutex_destroy(&chips[i].lock);
  }
  free(chips);
  chips = NULL;
  chip_count = 0;
}

static void read_launch_limits(kit_chip *chip) {
  for (size_t axis = 0; axis < 3; ++axis) {
    int64_t most = UINT32_MAX;
    kit_hcd_list_i64(chip->hcd, "execution.limits.grid_max", axis, &most);
    chip->grid_max[axis] = most < UINT32_MAX ? (uint32_t)most : UINT32_MAX;
  }
  int64_t scratch = 0;
  kit_hcd_i64(chip->hcd, "execution.limits.scratch_bytes_max", &scratch);
  chip->scratch_max_bytes = (uint64_t)scratch;
}

static int32_t read_chip(uint32_t index) {
  kit_chip *chip = &chips[index];
  int32_t status = kit_the_port()->hooks.device_facts(index, &chip->facts);
  if (status != HAL_OK) {
    return status;
  }
  const char *text = chip->facts.hcd_overlay;
  char reason[256];
  kit_hcd *overlay = kit_hcd_parse(text, strlen(text), reason, sizeof(reason));
  if (overlay == NULL) {
    return kit_fail(HAL_ERROR_INTERNAL, "device %u, hcd.overlay: %s", index, reason);
  }
  chip->hcd = kit_hcd_merge(chip->facts.hcd, overlay);
  kit_hcd_free(overlay);
  read_launch_limits(chip);
  const kit_hcd *vil = kit_hcd_text(chip->hcd, "kernels.vil.version") != NULL ? chip->hcd : NULL;
  chip->limits = chip->hcd == NULL ? NULL : vil_limits_create(vil);
  return chip->limits == NULL ? kit_fail(HAL_ERROR_INTERNAL, "no memory for device %u", index)
                              : HAL_OK;
}

int32_t kit_chips_read(void) {
  uint32_t count = kit_the_port()->hooks.device_count();
  chips = calloc(count == 0 ? 1 : count, sizeof(*chips));
  if (chips == NULL) {
    return kit_fail(HAL_ERROR_INTERNAL, "no memory for %u devices", count);
  }
  chip_count = count;
  for (uint32_t i = 0; i < count; ++i) {
    pthread_mutex_init(&chips[i].lock, NULL);
  }
  int32_t status = HAL_OK;
  for (uint32_t i = 0; i < count && status == HAL_OK; ++i) {
    status = read_chip(i);
  }
  return status;
}
