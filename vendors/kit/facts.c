// What a device says about itself, as lines over its description.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit_runtime.h"

static const kit_hcd *description(const kit_device_facts *facts) {
  return facts->hcd == NULL ? kit_host_hcd() : facts->hcd;
}

// Writes a path with the values of the paths in braces; false when the description has not all.
static int spell(const kit_hcd *hcd, const char *path, char *out, size_t capacity) {
  size_t used = 0;
  while (*path != '\0' && used + 1 < capacity) {
    if (*path != '{') {
      out[used++] = *path++;
      continue;
    }
    char name[128];
    size_t length = strcspn(++path, "}");
    snprintf(name, sizeof(name), "%.*s", (int)length, path);
    const char *value = kit_hcd_text(hcd, name);
    if (value == NULL || path[length] == '\0' || used + strlen(value) + 1 >= capacity) {
      return 0;
    }
    memcpy(out + used, value, strlen(value));
    used += strlen(value);
    path += length + 1;
  }
  out[used] = '\0';
  return *path == '\0' && kit_hcd_text(hcd, out) != NULL;
}

void kit_facts_text(kit_device_facts *facts, const char *path, const char *value) {
  char spelled[256];
  if (!spell(description(facts), path, spelled, sizeof(spelled))) {
    return;
  }
  size_t used = facts->lines == NULL ? 0 : strlen(facts->lines);
  size_t more = strlen(spelled) + strlen(value) + 3;
  char *grown = realloc(facts->lines, used + more);
  if (grown != NULL) {
    snprintf(grown + used, more, "%s\t%s\n", spelled, value);
    facts->hcd_overlay = facts->lines = grown;
  }
}

void kit_facts_number(kit_device_facts *facts, const char *path, uint64_t value) {
  char text[32];
  snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
  if (value != 0) {
    kit_facts_text(facts, path, text);
  }
}

// Takes a type out of a list of a row of the operations.
static void drop_type(kit_device_facts *facts, const char *row, const char *list,
                      const char *type) {
  char path[160], item[32], text[256] = "[";
  snprintf(path, sizeof(path), "kernels.vil.ops.%s.%s", row, list);
  if (!kit_hcd_list_has(description(facts), path, type)) {
    return;
  }
  for (size_t i = 0; kit_hcd_list_item(description(facts), path, i, item, sizeof(item)); ++i) {
    size_t used = strlen(text);
    if (strcmp(item, type) != 0) {
      snprintf(text + used, sizeof(text) - used, "%s\"%s\"", used == 1 ? "" : ",", item);
    }
  }
  strncat(text, "]", sizeof(text) - strlen(text) - 1);
  kit_facts_text(facts, path, text);
}

void kit_facts_dtype(kit_device_facts *facts, const char *dtype, int is_there) {
  char path[64], row[64];
  if (is_there) {
    return;
  }
  snprintf(path, sizeof(path), "dtypes.%.32s.compute", dtype);
  kit_facts_text(facts, path, "none");
  for (size_t at = 0;
       kit_hcd_next_id(description(facts), "kernels.vil.ops", &at, row, sizeof(row));) {
    drop_type(facts, row, "dtypes", dtype);
    drop_type(facts, row, "dtypes_to", dtype);
  }
}
