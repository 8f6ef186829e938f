// Builds trace lines in a buffer on the caller's stack; nothing is allocated.
#define _POSIX_C_SOURCE 200809L
#include "trace_line.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

// Room kept back for status, time and the closing brackets.
enum { RESERVED_BYTES = 160, LONGEST_TEXT = 256 };

static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

// Appends a formatted piece as a whole, or nothing when it does not fit into the text less `kept`.
HAL_PRINTF(3, 4)
static int append(hal_trace_line *line, uint32_t kept, const char *format, ...) {
  const uint32_t room = HAL_TRACE_LINE_BYTES - line->length;
  char *end = line->text + line->length;
  va_list values;
  va_start(values, format);
  const int length = vsnprintf(end, room, format, values);
  va_end(values);
  if (length < 0 || (uint32_t)length + kept >= room) {
    *end = '\0';
    line->cut = 1;
    return 0;
  }
  line->length += (uint32_t)length;
  return 1;
}

static const char *comma(const hal_trace_line *line) {
  return line->length > 0 && line->text[line->length - 1] == '{' ? "" : ",";
}

void hal_trace_open(hal_trace_line *line, const char *call) {
  line->length = 0;
  line->cut = 0;
  line->text[0] = '\0';
  append(line, 0, "{\"call\":\"%s\",\"in\":{", call);
}

void hal_trace_unsigned(hal_trace_line *line, const char *name, uint64_t value) {
  append(line, RESERVED_BYTES, "%s\"%s\":%" PRIu64, comma(line), name, value);
}

void hal_trace_signed(hal_trace_line *line, const char *name, int64_t value) {
  append(line, RESERVED_BYTES, "%s\"%s\":%" PRId64, comma(line), name, value);
}

void hal_trace_real(hal_trace_line *line, const char *name, double value) {
  // JSON has no NaN and no infinities: a real number is text.
  append(line, RESERVED_BYTES, "%s\"%s\":\"%.17g\"", comma(line), name, value);
}

void hal_trace_handle(hal_trace_line *line, const char *name, uint64_t value) {
  append(line, RESERVED_BYTES, "%s\"%s\":\"0x%" PRIx64 "\"", comma(line), name, value);
}

void hal_trace_pointer(hal_trace_line *line, const char *name, uint64_t address) {
  if (address == 0) {
    append(line, RESERVED_BYTES, "%s\"%s\":null", comma(line), name);
  } else {
    hal_trace_handle(line, name, address);
  }
}

void hal_trace_text(hal_trace_line *line, const char *name, const char *value) {
  if (value == NULL) {
    hal_trace_pointer(line, name, 0);
    return;
  }
  char quoted[LONGEST_TEXT];
  uint32_t length = 0;
  for (; *value != '\0' && length + 7 < LONGEST_TEXT; value++) {
    const unsigned char byte = (unsigned char)*value;
    if (byte == '"' || byte == '\\' || byte < 0x20 || byte == 0x7f) {
      length += (uint32_t)snprintf(quoted + length, 7, "\\u%04x", byte);
    } else {
      quoted[length++] = (char)byte;
    }
  }
  // A character of several bytes is not cut in two.
  if (*value != '\0') {
    line->cut = 1;
    while (length > 0 && ((unsigned char)*value & 0xc0) == 0x80) {
      length--;
      value--;
    }
  }
  quoted[length] = '\0';
  append(line, RESERVED_BYTES, "%s\"%s\":\"%s\"", comma(line), name, quoted);
}

void hal_trace_u32s(hal_trace_line *line, const char *name, const uint32_t *values,
                    uint32_t count) {
  char list[LONGEST_TEXT] = "";
  uint32_t length = 0;
  for (uint32_t i = 0; i < count && length + 12 < LONGEST_TEXT; i++) {
    length += (uint32_t)snprintf(list + length, 12, i == 0 ? "%" PRIu32 : ",%" PRIu32, values[i]);
  }
  append(line, RESERVED_BYTES, "%s\"%s\":[%s]", comma(line), name, list);
}

void hal_trace_begin(hal_trace_line *line, const char *name) {
  // The object's own end fits into what is kept back, however deep it lies.
  append(line, 0, "%s\"%s\":{", comma(line), name);
}

void hal_trace_end(hal_trace_line *line) {
  append(line, 0, "}");
}

void hal_trace_start(hal_trace_line *line) {
  append(line, 0, "}");
  line->begin_ns = now_ns();
}

void hal_trace_stop(hal_trace_line *line, int32_t status) {
  const uint64_t ns = now_ns() - line->begin_ns;
  append(line, 0, ",\"status\":\"%s\",\"ns\":%" PRIu64 ",\"out\":{", hal_status_name(status), ns);
}

void hal_trace_close(hal_trace_line *line, const hal_trace_sink *sink) {
  append(line, 0, line->cut ? "},\"cut\":true}" : "}}");
  sink->write(sink->user, line->text);
}
