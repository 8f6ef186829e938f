// One section of an image while it is read, and the checks that all sections share.
#ifndef KIT_VIL_SECTION_H_
#define KIT_VIL_SECTION_H_

#include <string.h>

#include "vil_launch.h"

#define VIL_TABLE_LIMIT 16

// One section while it is read: its tables are noted so that overlaps and dirty padding are found.
typedef struct vil_section {
  const char *what;
  const uint8_t *base;
  uint32_t bytes, header_bytes, covered_count;
  vil_table covered[VIL_TABLE_LIMIT];
  vil_reason *reason;
} vil_section;

// Refuses the image; a vil_reason named `reason` is in scope.
#define BAD(...) vil_refuse(reason, HAL_ERROR_INVALID_MODULE, __VA_ARGS__)

static inline uint32_t vil_read32(const uint8_t *at) {
  uint32_t value;
  memcpy(&value, at, 4);
  return value;
}

int vil_all_zero(const uint8_t *at, uint64_t count);
// Notes that a range of the section holds a table or a section.
void vil_cover(vil_section *part, uint32_t offset, uint32_t bytes);
// Takes the table {offset, count} at `at`; NULL with a count of 0 is fine.
int32_t vil_take(vil_section *part, uint32_t at, uint32_t record_bytes, const void **out_items,
                 uint32_t *out_count, const char *name);
int vil_by_offset(const void *left, const void *right);  // Of two vil_table, for qsort.
// Covered ranges, sorted here, do not overlap and what lies between them is zero.
int32_t vil_check_cover(const char *what, const uint8_t *base, uint32_t header_bytes,
                        uint32_t bytes, vil_table *covered, uint32_t count, vil_reason *reason);
// The string at a reference, or NULL when it is no proper name.
const char *vil_name_at(const char *strings, uint32_t bytes, uint32_t reference);

int32_t vil_read_signature(vil_module *module, vil_section *part);  // vil_read_signature.c
int32_t vil_read_program(vil_program *program, vil_section *part);  // vil_read_program.c

#endif  // KIT_VIL_SECTION_H_
