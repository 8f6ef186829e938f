#include "kit_hcd.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct line {
  const char *path;
  const char *value;
} line;

struct kit_hcd {
  char *text;  // Copy of the text; tabs and ends of lines are NUL.
  line *lines;
  size_t count;
};

static int compare_lines(const void *a, const void *b) {
  return strcmp(((const line *)a)->path, ((const line *)b)->path);
}

static void say(char *reason, size_t capacity, const char *what, size_t number) {
  if (reason != NULL && capacity != 0) {
    snprintf(reason, capacity, "flat HCD, line %zu: %s", number, what);
  }
}

void kit_hcd_free(kit_hcd *hcd) {
  if (hcd != NULL) {
    free(hcd->text);
    free(hcd->lines);
    free(hcd);
  }
}

// Makes a description with room for `bytes` of text and `count` lines.
static kit_hcd *create(size_t bytes, size_t count) {
  kit_hcd *hcd = calloc(1, sizeof(*hcd));
  if (hcd == NULL) {
    return NULL;
  }
  hcd->text = malloc(bytes + 1);
  hcd->lines = malloc((count + 1) * sizeof(line));
  if (hcd->text == NULL || hcd->lines == NULL) {
    kit_hcd_free(hcd);
    return NULL;
  }
  return hcd;
}

// Splits the copied text in place; NULL when all is well, else what is wrong with line *out_number.
static const char *split(kit_hcd *hcd, size_t bytes, size_t *out_number) {
  char *at = hcd->text;
  char *end = hcd->text + bytes;
  *end = '\0';
  for (*out_number = 1; at < end; ++*out_number) {
    char *stop = memchr(at, '\n', (size_t)(end - at));
    stop = stop == NULL ? end : stop;
    *stop = '\0';
    if (stop > at) {
      if (strlen(at) != (size_t)(stop - at)) {
        return "it holds a NUL byte";
      }
      char *tab = strchr(at, '\t');
      if (tab == NULL) {
        return "no tab between path and value";
      }
      if (tab == at) {
        return "the path is empty";
      }
      *tab = '\0';
      hcd->lines[hcd->count++] = (line){at, tab + 1};
    }
    at = stop + 1;
  }
  return NULL;
}

kit_hcd *kit_hcd_parse(const char *text, size_t bytes, char *reason, size_t capacity) {
  size_t count = 1;
  for (size_t i = 0; i < bytes; ++i) {
    count += text[i] == '\n';
  }
  kit_hcd *hcd = create(bytes, count);
  if (hcd == NULL) {
    say(reason, capacity, "no memory", 0);
    return NULL;
  }
  if (bytes != 0) {
    memcpy(hcd->text, text, bytes);
  }
  size_t number = 0;
  const char *wrong = split(hcd, bytes, &number);
  if (wrong == NULL) {
    qsort(hcd->lines, hcd->count, sizeof(line), compare_lines);
    for (size_t i = 1; i < hcd->count && wrong == NULL; ++i) {
      if (compare_lines(&hcd->lines[i - 1], &hcd->lines[i]) == 0) {
        wrong = "a path stands twice";
        number = i + 1;
      }
    }
  }
  if (wrong != NULL) {
    say(reason, capacity, wrong, number);
    kit_hcd_free(hcd);
    return NULL;
  }
  return hcd;
}

// Appends a copy of one line to the text at *at.
static void append(kit_hcd *hcd, size_t *at, const char *path, const char *value) {
  size_t path_bytes = strlen(path) + 1;
  size_t value_bytes = strlen(value) + 1;
  memcpy(hcd->text + *at, path, path_bytes);
  memcpy(hcd->text + *at + path_bytes, value, value_bytes);
  hcd->lines[hcd->count++] = (line){hcd->text + *at, hcd->text + *at + path_bytes};
  *at += path_bytes + value_bytes;
}

static size_t text_bytes(const kit_hcd *hcd) {
  size_t bytes = 0;
  for (size_t i = 0; i < kit_hcd_count(hcd); ++i) {
    bytes += strlen(hcd->lines[i].path) + strlen(hcd->lines[i].value) + 2;
  }
  return bytes;
}

kit_hcd *kit_hcd_merge(const kit_hcd *base, const kit_hcd *overlay) {
  kit_hcd *hcd =
      create(text_bytes(base) + text_bytes(overlay), kit_hcd_count(base) + kit_hcd_count(overlay));
  if (hcd == NULL) {
    return NULL;
  }
  size_t at = 0;
  for (size_t i = 0; i < kit_hcd_count(base); ++i) {
    if (kit_hcd_text(overlay, base->lines[i].path) == NULL) {
      append(hcd, &at, base->lines[i].path, base->lines[i].value);
    }
  }
  for (size_t i = 0; i < kit_hcd_count(overlay); ++i) {
    append(hcd, &at, overlay->lines[i].path, overlay->lines[i].value);
  }
  qsort(hcd->lines, hcd->count, sizeof(line), compare_lines);
  return hcd;
}

kit_hcd *kit_hcd_subtree(const kit_hcd *hcd, const char *prefix) {
  size_t length = strlen(prefix);
  kit_hcd *below = create(text_bytes(hcd), kit_hcd_count(hcd));
  if (below == NULL) {
    return NULL;
  }
  size_t at = 0;
  for (size_t i = 0; i < kit_hcd_count(hcd); ++i) {
    const char *path = hcd->lines[i].path;
    if (strncmp(path, prefix, length) == 0 && path[length] != '\0') {
      append(below, &at, path + length, hcd->lines[i].value);
    }
  }
  return below;
}

size_t kit_hcd_count(const kit_hcd *hcd) {
  return hcd == NULL ? 0 : hcd->count;
}

const char *kit_hcd_path(const kit_hcd *hcd, size_t index) {
  return index < kit_hcd_count(hcd) ? hcd->lines[index].path : NULL;
}

const char *kit_hcd_value(const kit_hcd *hcd, size_t index) {
  return index < kit_hcd_count(hcd) ? hcd->lines[index].value : NULL;
}

const char *kit_hcd_text(const kit_hcd *hcd, const char *path) {
  if (hcd == NULL) {
    return NULL;
  }
  line key = {path, NULL};
  const line *found = bsearch(&key, hcd->lines, hcd->count, sizeof(line), compare_lines);
  return found == NULL ? NULL : found->value;
}

static int read_f64(const char *text, double *out) {
  if (text == NULL || *text == '\0' || strchr("0123456789+-.", *text) == NULL) {
    return 0;
  }
  char *end = NULL;
  double value = strtod(text, &end);
  if (*end != '\0' || !isfinite(value)) {
    return 0;
  }
  *out = value;
  return 1;
}

static int read_i64(const char *text, int64_t *out) {
  if (text == NULL) {
    return 0;
  }
  if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0) {
    *out = text[0] == 't';
    return 1;
  }
  double real = 0;
  if (!read_f64(text, &real)) {
    return 0;
  }
  char *end = NULL;
  errno = 0;
  long long value = strtoll(text, &end, 10);
  if (*end == '\0' && errno == 0) {
    *out = value;
    return 1;
  }
  if (real != floor(real) || fabs(real) >= 9.2e18) {
    return 0;
  }
  *out = (int64_t)real;
  return 1;
}

int kit_hcd_i64(const kit_hcd *hcd, const char *path, int64_t *out) {
  return read_i64(kit_hcd_text(hcd, path), out);
}

int kit_hcd_f64(const kit_hcd *hcd, const char *path, double *out) {
  return read_f64(kit_hcd_text(hcd, path), out);
}

// Steps over one item of a JSON list of scalars. NULL at the end of the list or on bad text; else
// the place after the item and its comma.
static const char *step(const char *at, const char **out_start, size_t *out_length) {
  at += strspn(at, " ");
  const char *stop;
  if (*at == '"') {
    stop = ++at;
    while (*stop != '\0' && *stop != '"') {
      stop += stop[0] == '\\' && stop[1] != '\0' ? 2 : 1;
    }
    if (*stop == '\0') {
      return NULL;
    }
    *out_length = (size_t)(stop - at);
    *out_start = at;
    ++stop;
  } else {
    *out_start = at;
    *out_length = strcspn(at, ",] ");
    stop = at + *out_length;
    if (*out_length == 0) {
      return NULL;
    }
  }
  stop += strspn(stop, " ");
  if (*stop == ',') {
    return stop + 1;
  }
  return *stop == ']' ? stop : NULL;
}

// Finds item `index`; with `index` beyond the list *out_count gets the number of items.
static int find_item(const char *list, size_t index, const char **out_start, size_t *out_length,
                     int64_t *out_count) {
  *out_count = -1;
  if (list == NULL || list[0] != '[') {
    return 0;
  }
  const char *at = list + 1;
  int64_t count = 0;
  while (at != NULL && at[strspn(at, " ")] != ']') {
    at = step(at, out_start, out_length);
    if (at != NULL && (size_t)count++ == index) {
      return 1;
    }
  }
  *out_count = at == NULL ? -1 : count;
  return 0;
}

double kit_hcd_number(const kit_hcd *hcd, const char *section, const char *id, const char *key) {
  char path[512];
  double value = 0;
  snprintf(path, sizeof(path), "%s.%s.%s", section, id, key);
  kit_hcd_f64(hcd, path, &value);
  return value;
}

const char *kit_hcd_word(const kit_hcd *hcd, const char *section, const char *id, const char *key) {
  char path[512];
  snprintf(path, sizeof(path), "%s.%s.%s", section, id, key);
  const char *value = kit_hcd_text(hcd, path);
  return value == NULL ? "" : value;
}

int64_t kit_hcd_list_count(const kit_hcd *hcd, const char *path) {
  const char *start = NULL;
  size_t length = 0;
  int64_t count = -1;
  find_item(kit_hcd_text(hcd, path), SIZE_MAX, &start, &length, &count);
  return count;
}

int kit_hcd_list_item(const kit_hcd *hcd, const char *path, size_t index, char *out,
                      size_t capacity) {
  const char *start = NULL;
  size_t length = 0;
  int64_t count = 0;
  if (!find_item(kit_hcd_text(hcd, path), index, &start, &length, &count) || length >= capacity) {
    return 0;
  }
  memcpy(out, start, length);
  out[length] = '\0';
  return 1;
}

int kit_hcd_list_i64(const kit_hcd *hcd, const char *path, size_t index, int64_t *out) {
  char item[40];
  return kit_hcd_list_item(hcd, path, index, item, sizeof(item)) && read_i64(item, out);
}

int kit_hcd_list_has(const kit_hcd *hcd, const char *path, const char *item) {
  const char *list = kit_hcd_text(hcd, path);
  const char *start = NULL;
  size_t length = 0;
  int64_t count = 0;
  for (size_t i = 0; find_item(list, i, &start, &length, &count); ++i) {
    if (strlen(item) == length && memcmp(start, item, length) == 0) {
      return 1;
    }
  }
  return 0;
}

int kit_hcd_next_id(const kit_hcd *hcd, const char *prefix, size_t *cursor, char *out,
                    size_t capacity) {
  size_t length = strlen(prefix);
  const char *last = NULL;
  size_t last_length = 0;
  if (*cursor > 0 && *cursor <= kit_hcd_count(hcd)) {
    last = hcd->lines[*cursor - 1].path + length + 1;
    last_length = strcspn(last, ".");
  }
  for (size_t i = *cursor; i < kit_hcd_count(hcd); ++i) {
    const char *path = hcd->lines[i].path;
    if (strncmp(path, prefix, length) != 0 || path[length] != '.') {
      continue;
    }
    const char *id = path + length + 1;
    size_t id_length = strcspn(id, ".");
    if (id[id_length] != '.' ||
        (last != NULL && id_length == last_length && memcmp(id, last, id_length) == 0)) {
      continue;
    }
    *cursor = i + 1;
    if (id_length >= capacity) {
      return 0;
    }
    memcpy(out, id, id_length);
    out[id_length] = '\0';
    return 1;
  }
  return 0;
}
