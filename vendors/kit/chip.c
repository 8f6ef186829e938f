// The chips that the port finds: facts and description of each, read at start.
#include <stdlib.h>
#include <string.h>

#include "kit_runtime.h"
#include "kit_state.h"

static kit_chip *chips;
static uint32_t chip_count;

uint32_t kit_chip_count(void) {
  return chip_count;
}

kit_chip *kit_chip_at(uint32_t index) {
  return kit_is_started() && index < chip_count ? &chips[index] : NULL;
}

// Forgets what a chip has said.
static void forget(kit_chip *chip) {
  vil_limits_free(chip->limits);
  kit_hcd_free(chip->hcd);
  free(chip->facts.lines);
  chip->limits = NULL;
  chip->hcd = NULL;
  chip->facts.lines = NULL;
}

void kit_chips_drop(void) {
  for (uint32_t i = 0; i < chip_count; ++i) {
    forget(&chips[i]);
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

static int32_t ask(uint32_t index, kit_device_facts *out_facts) {
  const kit_hooks *hooks = &kit_the_port()->hooks;
  if (hooks->device_facts != NULL) {
    return hooks->device_facts(index, out_facts);
  }
  *out_facts = (kit_device_facts){.name = kit_found_at(index)->name, .hcd = kit_host_hcd()};
  int32_t status = hooks->device_describe(kit_device_data_at(index), out_facts);
  kit_found_at(index)->alignment_bytes = out_facts->alignment_bytes;
  return status;
}

static int32_t read_chip(uint32_t index) {
  kit_chip *chip = &chips[index];
  int32_t status = ask(index, &chip->facts);
  if (status != HAL_OK) {
    return status;
  }
  kit_device_facts *facts = &chip->facts;
  facts->hcd = facts->hcd == NULL ? kit_host_hcd() : facts->hcd;
  facts->hcd_overlay = facts->hcd_overlay == NULL ? "" : facts->hcd_overlay;
  char reason[256];
  kit_hcd *overlay =
      kit_hcd_parse(facts->hcd_overlay, strlen(facts->hcd_overlay), reason, sizeof(reason));
  if (overlay == NULL) {
    return kit_fail(HAL_ERROR_INTERNAL, "device %u, hcd.overlay: %s", index, reason);
  }
  chip->hcd = kit_hcd_merge(facts->hcd, overlay);
  kit_hcd_free(overlay);
  read_launch_limits(chip);
  const kit_hcd *vil = kit_hcd_text(chip->hcd, "kernels.vil.version") != NULL ? chip->hcd : NULL;
  chip->limits = chip->hcd == NULL ? NULL : vil_limits_create(vil);
  return chip->limits == NULL ? kit_fail(HAL_ERROR_INTERNAL, "no memory for device %u", index)
                              : HAL_OK;
}

static void end_offer(uint32_t index) {
  void (*drop)(void *data) = kit_the_port()->hooks.device_drop;
  kit_found *ended = kit_found_take(index);
  kit_driver_forget(ended);
  if (drop != NULL) {
    drop(ended->data);
  }
  kit_found_free(ended);
}

void kit_chips_end_offers(void) {
  while (kit_found_count() != 0) {
    end_offer(kit_found_count() - 1);
  }
  kit_found_reset();
}

// Reads the devices that `start` has offered; one that cannot be used is left out.
static int32_t read_found(void) {
  for (uint32_t i = 0; i < kit_found_count();) {
    if (read_chip(i) == HAL_OK) {
      ++i;
    } else {
      kit_device_refuse(kit_found_at(i)->name);
      end_offer(i);
      forget(&chips[i]);
    }
  }
  chip_count = kit_found_count();
  return kit_found_check();
}

int32_t kit_chips_read(void) {
  uint32_t (*count_devices)(void) = kit_the_port()->hooks.device_count;
  uint32_t count = count_devices == NULL ? kit_found_count() : count_devices();
  chips = calloc(count == 0 ? 1 : count, sizeof(*chips));
  if (chips == NULL) {
    return kit_fail(HAL_ERROR_INTERNAL, "no memory for %u devices", count);
  }
  chip_count = count;
  for (uint32_t i = 0; i < count; ++i) {
    pthread_mutex_init(&chips[i].lock, NULL);
  }
  if (count_devices == NULL) {
    return read_found();
  }
  int32_t status = HAL_OK;
  for (uint32_t i = 0; i < count && status == HAL_OK; ++i) {
    status = read_chip(i);
  }
  return status;
}
