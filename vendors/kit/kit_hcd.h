// Flat HCD: a chip's description as lines `path<TAB>value`.
//
// Lists of objects are addressed by id (`memory.hbm.capacity_bytes`), lists of scalars are JSON
// (`[128,128,64]`), booleans are true or false, texts stand bare. A parsed description is
// read-only: any number of threads may ask it.
#ifndef KIT_HCD_H_
#define KIT_HCD_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kit_hcd kit_hcd;

// Parses flat text and copies it. NULL on malformed text or without memory; `reason` (may be NULL)
// then gets one NUL-terminated line that names the text's line. Lines may come in any order; a path
// that stands twice is an error.
kit_hcd *kit_hcd_parse(const char *text, size_t bytes, char *reason, size_t capacity);

// A new description with the lines of both; where both have a path, `overlay` wins. Either may be
// NULL. NULL without memory.
kit_hcd *kit_hcd_merge(const kit_hcd *base, const kit_hcd *overlay);

// The lines below `prefix` as a description of their own, without the prefix: with
// "devices.d0.chip." the paths `devices.d0.chip.identity.vendor` … become `identity.vendor` ….
// NULL without memory; a prefix without lines gives an empty description.
kit_hcd *kit_hcd_subtree(const kit_hcd *hcd, const char *prefix);

void kit_hcd_free(kit_hcd *hcd);  // NULL is ignored.

// Lines in bytewise order of their paths. `hcd` may be NULL in every question: it has no lines.
size_t kit_hcd_count(const kit_hcd *hcd);
const char *kit_hcd_path(const kit_hcd *hcd, size_t index);
const char *kit_hcd_value(const kit_hcd *hcd, size_t index);

// The value of a path, NULL when it is absent. It lives as long as the description.
const char *kit_hcd_text(const kit_hcd *hcd, const char *path);

// 1 and the value, or 0 and `out` untouched when the path is absent or its value is of another
// kind. i64 takes whole numbers in any notation (also 2e9) that fit, and true and false as 1 and 0.
int kit_hcd_i64(const kit_hcd *hcd, const char *path, int64_t *out);
int kit_hcd_f64(const kit_hcd *hcd, const char *path, double *out);

// The value of SECTION.ID.KEY as a number, 0 when it is absent or none; as text, "" when absent.
double kit_hcd_number(const kit_hcd *hcd, const char *section, const char *id, const char *key);
const char *kit_hcd_word(const kit_hcd *hcd, const char *section, const char *id, const char *key);

// Items of a list of scalars. The count is −1 when the path is absent or its value is no list. An
// item is copied without quotes and NUL-terminated; 0 when it is absent or longer than the room.
int64_t kit_hcd_list_count(const kit_hcd *hcd, const char *path);
int kit_hcd_list_item(const kit_hcd *hcd, const char *path, size_t index, char *out,
                      size_t capacity);
int kit_hcd_list_i64(const kit_hcd *hcd, const char *path, size_t index, int64_t *out);
int kit_hcd_list_has(const kit_hcd *hcd, const char *path, const char *item);

// Walks the ids below a prefix (without a dot at its end): for "memory" the paths `memory.hbm.kind`
// and `memory.l2.kind` give "hbm", then "l2". Start with *cursor = 0. 1 and the id, or 0 at the end
// or when an id is longer than the room.
int kit_hcd_next_id(const kit_hcd *hcd, const char *prefix, size_t *cursor, char *out,
                    size_t capacity);

#ifdef __cplusplus
}
#endif

#endif  // KIT_HCD_H_
