// The thread's record of errors that libhal itself answers, and texts for callers.
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "port_object.h"

// Newest error of the calling thread that no port made. `port` is NULL when there is none.
static _Thread_local struct {
  const hal_port *port;
  int32_t status;
  uint64_t operation_id;
  char text[sizeof(((hal_error *)0)->text)];
} record;

int32_t hal_reason(char *reason, uint64_t capacity, int32_t status, const char *format, ...) {
  if (reason == NULL || capacity == 0) return status;
  va_list list;
  va_start(list, format);
  vsnprintf(reason, capacity, format, list);
  va_end(list);
  return status;
}

static void keep(const hal_port *port, int32_t status, uint64_t operation_id, const char *format,
                 va_list list) {
  record.port = port;
  record.status = status;
  record.operation_id = operation_id;
  vsnprintf(record.text, sizeof(record.text), format, list);
}

int32_t hal_record(hal_port *port, int32_t status, const char *format, ...) {
  va_list list;
  va_start(list, format);
  keep(port, status, 0, format, list);
  va_end(list);
  return status;
}

int32_t hal_record_operation(hal_port *port, int32_t status, uint64_t operation_id,
                             const char *format, ...) {
  va_list list;
  va_start(list, format);
  keep(port, status, operation_id, format, list);
  va_end(list);
  return status;
}

void hal_record_drop(void) {
  record.port = NULL;
}

int32_t hal_record_read(hal_layer *lowest, hal_error *out_error) {
  const hal_entries *entries = lowest->state;
  if (record.port != lowest->port) {
    if (entries->port_last_error == NULL) return HAL_ERROR_UNSUPPORTED;
    return entries->port_last_error(out_error);
  }
  if (out_error == NULL || out_error->size < HAL_ERROR_MINIMUM) return HAL_ERROR_INVALID_VALUE;
  out_error->status = record.status;
  out_error->reserved = 0;
  out_error->operation_id = record.operation_id;
  memcpy(out_error->text, record.text, sizeof(out_error->text));
  return HAL_OK;
}

int32_t hal_layer_refuse(hal_layer *self, const char *call, const char *rule, int32_t status,
                         const char *text, const char *detail, ...) {
  (void)call;
  const size_t bytes = strlen(text);
  const int shown = (int)(bytes > 0 && text[bytes - 1] == '.' ? bytes - 1 : bytes);
  char values[256] = "";
  va_list list;
  va_start(list, detail);
  if (detail != NULL && detail[0] != '\0') vsnprintf(values, sizeof(values), detail, list);
  va_end(list);
  return hal_record(self->port, status, "%.*s%s%s (%s)", shown, text, values[0] ? ": " : "", values,
                    rule);
}

int32_t hal_layer_absent(hal_layer *self, const char *call) {
  hal_port *port = self->port;
  if (self == &port->ended) {
    return hal_record(port, HAL_ERROR_INVALID_STATE, "%s", port->end_reason);
  }
  return hal_record(port, HAL_ERROR_UNSUPPORTED, "the port has no %s", call);
}

int32_t hal_layer_failed(hal_layer *self, const char *call, int32_t status) {
  (void)self;
  (void)call;
  hal_record_drop();
  return status;
}

uint64_t hal_now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t hal_deadline_ns(uint64_t timeout_ns) {
  const uint64_t now = hal_now_ns();
  return timeout_ns > UINT64_MAX - now ? UINT64_MAX : now + timeout_ns;
}
