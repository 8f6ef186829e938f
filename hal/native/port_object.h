// What a loaded port is inside libhal, and the thread's record of errors. Inside libhal only.
#ifndef HAL_NATIVE_PORT_OBJECT_H_
#define HAL_NATIVE_PORT_OBJECT_H_

#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>

#include "hal/loader.h"
#include "layer.h"

typedef struct hal_library hal_library;  // library.h
typedef struct hal_emulation hal_emulation;

enum { HAL_LAYER_COUNT = 5 };

// A port object. It is never freed, so that a call after close gets an answer and not a crash.
struct hal_port {
  hal_layer *top;  // First: see hal_port_head. It points at `ended` after close and after fork.
  hal_layer layers[HAL_LAYER_COUNT];
  hal_layer ended;  // Answers INVALID_STATE to every call.
  hal_calls lowest_calls;
  hal_entries entries;
  hal_library *library;
  hal_emulation *emulation;  // NULL without the emulate layer.
  const hal_rule *break_rule;
  const hal_rule *skip_rule;
  hal_trace_sink trace_sink;
  hal_log_fn log;
  void *log_user;
  uint32_t layer_mask;
  int starts;  // Whether hal_port_open called port.init.
  const char *end_reason;
  hal_port *next;  // Every port object of the process, newest first.
};

// True when the port was closed, or belongs to the process before a fork.
static inline int hal_port_ended(const hal_port *port) {
  return port->top == &port->ended;
}

// Ends a port object: later calls answer INVALID_STATE with `reason`, a text that is never freed.
void hal_port_end(hal_port *port, const char *reason);

// Newest port object of the process; follow `next`. The list only grows.
hal_port *hal_port_first(void);
// Adds a port object. The caller holds the lock of the libraries.
void hal_port_list(hal_port *port);

// Writes a reason into the caller's room and returns `status`.
int32_t hal_reason(char *reason, uint64_t capacity, int32_t status, const char *format, ...)
    HAL_PRINTF(4, 5);

// Makes a text the calling thread's last error of `port` and returns `status`.
int32_t hal_record(hal_port *port, int32_t status, const char *format, ...) HAL_PRINTF(3, 4);
// The same for an operation that failed on its stream.
int32_t hal_record_operation(hal_port *port, int32_t status, uint64_t operation_id,
                             const char *format, ...) HAL_PRINTF(4, 5);
// Drops libhal's own record of the calling thread, so that last_error asks the port again.
void hal_record_drop(void);
// Answers port.last_error: libhal's record if it is the newest, else the port's.
int32_t hal_record_read(hal_layer *lowest, hal_error *out_error);

// Nanoseconds of the monotonic clock.
uint64_t hal_now_ns(void);
// now + timeout, which does not wrap.
uint64_t hal_deadline_ns(uint64_t timeout_ns);

#endif  // HAL_NATIVE_PORT_OBJECT_H_
