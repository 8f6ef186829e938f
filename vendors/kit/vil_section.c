// Tables, padding and names of one section (docs/vil.md, section 4).
#include "vil_section.h"

#include <stdlib.h>

int32_t vil_refuse(vil_reason *reason, int32_t status, const char *format, ...) {
  if (reason->text && reason->capacity) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason->text, reason->capacity, format, arguments);
    va_end(arguments);
  }
  return status;
}

int vil_all_zero(const uint8_t *at, uint64_t count) {
  for (uint64_t i = 0; i < count; i++) {
    if (at[i]) return 0;
  }
  return 1;
}

void vil_cover(vil_section *part, uint32_t offset, uint32_t bytes) {
  part->covered[part->covered_count++] = (vil_table){offset, bytes};
}

int32_t vil_take(vil_section *part, uint32_t at, uint32_t record_bytes, const void **out_items,
                 uint32_t *out_count, const char *name) {
  vil_reason *reason = part->reason;
  uint32_t offset = vil_read32(part->base + at), count = vil_read32(part->base + at + 4);
  *out_items = NULL;
  *out_count = count;
  if (count == 0) {
    if (offset != 0)
      return BAD("%s: offset %u: an empty table of %s has offset %u, not 0", part->what, at, name,
                 offset);
    return HAL_OK;
  }
  uint64_t bytes = (uint64_t)count * record_bytes;
  if (offset % 8 != 0 || offset < part->header_bytes || offset > part->bytes ||
      bytes > part->bytes - offset) {
    return BAD("%s: offset %u: %u %s at %u do not fit the section of %u bytes", part->what, at,
               count, name, offset, part->bytes);
  }
  vil_cover(part, offset, (uint32_t)bytes);
  *out_items = part->base + offset;
  return HAL_OK;
}

int vil_by_offset(const void *left, const void *right) {
  const vil_table *a = left, *b = right;
  return a->offset < b->offset ? -1 : a->offset > b->offset;
}

int32_t vil_check_cover(const char *what, const uint8_t *base, uint32_t header_bytes,
                        uint32_t bytes, vil_table *covered, uint32_t count, vil_reason *reason) {
  qsort(covered, count, sizeof(vil_table), vil_by_offset);
  uint32_t end = header_bytes;
  for (uint32_t i = 0; i <= count; i++) {
    uint32_t next = i < count ? covered[i].offset : bytes;
    if (next < end) return BAD("%s: offset %u: its parts overlap", what, next);
    if (!vil_all_zero(base + end, next - end))
      return BAD("%s: offset %u: padding is not zero", what, end);
    if (i < count) end = next + covered[i].count;
  }
  return HAL_OK;
}

static int is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

const char *vil_name_at(const char *strings, uint32_t bytes, uint32_t reference) {
  if (!strings || reference >= bytes || !is_letter(strings[reference])) return NULL;
  for (uint32_t i = 0; i < 64 && reference + i < bytes; i++) {
    char c = strings[reference + i];
    if (c == 0) return strings + reference;
    if (!is_letter(c) && !(c >= '0' && c <= '9')) return NULL;
  }
  return NULL;
}
