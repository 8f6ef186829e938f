// One line of a trace: {"call": …, "in": {…}, "status": …, "ns": …, "out": {…}}.
// Values that no longer fit are left out and "cut": true says so.
#ifndef HAL_NATIVE_TRACE_LINE_H_
#define HAL_NATIVE_TRACE_LINE_H_

#include <stdint.h>

#include "layer.h"

enum { HAL_TRACE_LINE_BYTES = 2048 };

typedef struct hal_trace_line {
  char text[HAL_TRACE_LINE_BYTES];
  uint32_t length;
  int32_t cut;        // 1 when something was left out.
  uint64_t begin_ns;  // When the call began, on the monotonic clock.
} hal_trace_line;

void hal_trace_open(hal_trace_line *line, const char *call);
void hal_trace_unsigned(hal_trace_line *line, const char *name, uint64_t value);
void hal_trace_signed(hal_trace_line *line, const char *name, int64_t value);
void hal_trace_real(hal_trace_line *line, const char *name, double value);
void hal_trace_handle(hal_trace_line *line, const char *name, uint64_t value);
void hal_trace_pointer(hal_trace_line *line, const char *name, uint64_t address);
void hal_trace_text(hal_trace_line *line, const char *name, const char *value);
void hal_trace_u32s(hal_trace_line *line, const char *name, const uint32_t *values, uint32_t count);
// A nested object: begin, its members, end.
void hal_trace_begin(hal_trace_line *line, const char *name);
void hal_trace_end(hal_trace_line *line);
// Ends the inputs and starts the time.
void hal_trace_start(hal_trace_line *line);
// Stops the time, adds the status and opens the outputs.
void hal_trace_stop(hal_trace_line *line, int32_t status);
// Ends the line and gives it to the sink.
void hal_trace_close(hal_trace_line *line, const hal_trace_sink *sink);

#endif  // HAL_NATIVE_TRACE_LINE_H_
