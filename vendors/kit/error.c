#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "kit_state.h"

static _Thread_local hal_error record;

// Gives an empty text a meaning, and takes off a character that the end of the room has cut.
static void tidy(void) {
  size_t length = strlen(record.text);
  if (length == 0) {
    snprintf(record.text, sizeof(record.text), "failed with status %d and no reason",
             (int)record.status);
  } else if (length == sizeof(record.text) - 1) {
    size_t start = length;
    while (start > 0 && ((unsigned char)record.text[start - 1] & 0xC0) == 0x80) {
      --start;
    }
    if (start > 0 && ((unsigned char)record.text[start - 1] & 0x80) != 0) {
      record.text[start - 1] = '\0';
    }
  }
}

int32_t kit_fail(int32_t status, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(record.text, sizeof(record.text), format, arguments);
  va_end(arguments);
  record.status = status;
  record.operation_id = 0;
  tidy();
  return status;
}

int32_t kit_fail_operation(int32_t status, uint64_t operation_id, const char *text) {
  snprintf(record.text, sizeof(record.text), "%s", text);
  record.status = status;
  record.operation_id = operation_id;
  tidy();
  return status;
}

int32_t kit_error_status(void) {
  return record.status;
}

const char *kit_error_text(void) {
  return record.text;
}

void kit_error_save(hal_error *out_saved) {
  *out_saved = record;
}

void kit_error_restore(const hal_error *saved) {
  record = *saved;
}

void kit_error_read(hal_error *out_error) {
  kit_write_out(out_error, &record, sizeof(record));
}

void kit_write_out(void *out, const void *ours, uint64_t bytes) {
  uint64_t room;
  memcpy(&room, out, sizeof(room));
  bytes = room < bytes ? room : bytes;
  if (bytes > sizeof(room)) {
    memcpy((char *)out + sizeof(room), (const char *)ours + sizeof(room), bytes - sizeof(room));
  }
}

int32_t kit_write_text(const char *text, uint64_t capacity, char *out_text, uint64_t *out_bytes) {
  uint64_t length = strlen(text);
  if (capacity != 0) {
    uint64_t copied = length < capacity ? length : capacity - 1;
    memcpy(out_text, text, copied);
    out_text[copied] = '\0';
  }
  *out_bytes = length + 1;
  return HAL_OK;
}
