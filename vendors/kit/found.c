// The devices that a port's `start` finds in its runtime, and which of them the options ask for.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit_runtime.h"
#include "kit_state.h"

static struct {
  kit_found **devices;
  uint32_t count;
  char reasons[400];  // Why devices were left out.
} state;

int kit_option_picks(const char *key, const char *environment, const char *name, uint32_t number) {
  char wanted[128], *end;
  if (kit_option(key, environment, wanted, sizeof(wanted)) == NULL) {
    return 1;
  }
  unsigned long asked = strtoul(wanted, &end, 10);
  return wanted[0] != '\0' && *end == '\0' ? asked == number : strstr(name, wanted) != NULL;
}

uint64_t kit_option_number(const char *key, const char *environment, uint64_t otherwise) {
  char text[32], *end;
  if (kit_option(key, environment, text, sizeof(text)) == NULL) {
    return otherwise;
  }
  uint64_t value = strtoull(text, &end, 10);
  return end == text || *end != '\0' ? otherwise : value;
}

void kit_found_free(kit_found *found) {
  if (found != NULL) {
    pthread_mutex_destroy(&found->lock);
    free(found->name);
    free(found->data);
    free(found);
  }
}

static kit_found *create(const char *name, const void *data, size_t bytes) {
  kit_found *made = calloc(1, sizeof(*made));
  if (made == NULL) {
    return NULL;
  }
  pthread_mutex_init(&made->lock, NULL);
  made->name = strdup(name);
  made->data = malloc(bytes + 1);
  if (made->name == NULL || made->data == NULL) {
    kit_found_free(made);
    return NULL;
  }
  memcpy(made->data, data, bytes);
  return made;
}

int32_t kit_device_offer(const char *name, const void *data, size_t bytes) {
  kit_found *made = create(name, data, bytes);
  kit_found **more = realloc(state.devices, (state.count + 1) * sizeof(*more));
  state.devices = more == NULL ? state.devices : more;
  if (more == NULL || made == NULL) {
    kit_found_free(made);
    return kit_fail(HAL_ERROR_OUT_OF_MEMORY, "no host memory for the device %.100s", name);
  }
  state.devices[state.count++] = made;
  return HAL_OK;
}

void kit_device_refuse(const char *name) {
  size_t used = strlen(state.reasons);
  kit_log(HAL_LOG_WARNING, "%.100s is left out: %.400s", name, kit_error_text());
  snprintf(state.reasons + used, sizeof(state.reasons) - used, "%s%.100s: %s",
           used == 0 ? "" : "; ", name, kit_error_text());
}

void *kit_device_data_at(uint32_t index) {
  kit_found *found = kit_found_at(index);
  return found == NULL ? NULL : found->data;
}

void *kit_device_data(const kit_device *device) {
  return kit_device_data_at(kit_device_index(device));
}

uint32_t kit_found_count(void) {
  return state.count;
}

kit_found *kit_found_at(uint32_t index) {
  return index < state.count ? state.devices[index] : NULL;
}

int32_t kit_found_check(void) {
  if (state.count != 0) {
    return HAL_OK;
  }
  return kit_fail(
      HAL_ERROR_NOT_FOUND, "no %s device: %s", kit_the_root()->name,
      state.reasons[0] == '\0' ? "the runtime lists none that the options ask for" : state.reasons);
}

kit_found *kit_found_take(uint32_t index) {
  kit_found *taken = state.devices[index];
  --state.count;
  memmove(&state.devices[index], &state.devices[index + 1],
          (state.count - index) * sizeof(*state.devices));
  return taken;
}

void kit_found_reset(void) {
  free(state.devices);
  memset(&state, 0, sizeof(state));
}
