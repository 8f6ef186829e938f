// Any bytes are a description or are refused; every question about them is answered.
#include "kit_hcd.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char reason[64];
  kit_hcd *hcd = kit_hcd_parse((const char *)data, size, reason, sizeof(reason));
  if (hcd == NULL) {
    return memchr(reason, '\0', sizeof(reason)) == NULL ? abort(), 0 : 0;
  }
  int64_t whole;
  double real;
  char text[8];
  for (size_t i = 0; i < kit_hcd_count(hcd); ++i) {
    const char *path = kit_hcd_path(hcd, i);
    if (kit_hcd_text(hcd, path) != kit_hcd_value(hcd, i)) {
      abort();
    }
    kit_hcd_i64(hcd, path, &whole);
    kit_hcd_f64(hcd, path, &real);
    int64_t count = kit_hcd_list_count(hcd, path);
    for (int64_t item = 0; item < count; ++item) {
      kit_hcd_list_item(hcd, path, (size_t)item, text, sizeof(text));
      kit_hcd_list_i64(hcd, path, (size_t)item, &whole);
    }
    size_t ids = 0;
    for (size_t cursor = 0; kit_hcd_next_id(hcd, path, &cursor, text, sizeof(text)); ++ids) {
      if (ids > kit_hcd_count(hcd)) {
        abort();
      }
    }
  }
  kit_hcd *merged = kit_hcd_merge(hcd, hcd);
  if (kit_hcd_count(merged) != kit_hcd_count(hcd)) {
    abort();
  }
  kit_hcd_free(merged);
  kit_hcd_free(hcd);
  return 0;
}
