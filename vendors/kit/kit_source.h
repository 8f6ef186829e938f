// Ports whose programs arrive as text in the chip's own language (docs/dialect.md, `group`).
//
// Such a port says `.format = "source.ID"`, and the kit hands images of that format to its hook
// `module_open`:
//
//   kit_source source;
//   int32_t status = kit_source_read(device, desc, &source);      // The parts of the image.
//   … compile source.text; kit_source_refuse tells what the compiler says …
//   *out_module = source.module;  *out_data = the program;        // module_close gets it back.
//
// A launch is one call of a function for each step of the kernel's plan. `submit` (or `run`) does:
//
//   for (uint32_t step = 0; step < kit_source_steps(operation); ++step) {
//     kit_source_call call;
//     kit_source_bind(operation, step, &call);
//     if (call.groups == 0) continue;
//     … give call.arguments and, last, two i32 of device memory ("state", 0 at first); start
//     call.grid groups of lanes …
//   }
//
// When the work has finished and call.can_fault was set, state[0] != 0 is a fault: kit_source_fault
// tells which. All launches of one queue share one state: a function that finds a fault in it does
// nothing, and the kit holds copies and fills back until the kernels before them have not faulted.
#ifndef KIT_KIT_SOURCE_H_
#define KIT_KIT_SOURCE_H_

#include "kit.h"

// Most arguments of a function, the state not counted; programs with more are refused.
enum { KIT_SOURCE_ARGUMENTS = 800 };

typedef struct kit_source {
  const char *text;     // The source; inside the image, so not behind the hook; no NUL at its end.
  uint64_t text_bytes;  // Its length.
  vil_module *module;   // The plan, read and judged; the hook gives it on, or frees it.
} kit_source;

// One argument of a function.
typedef struct kit_source_argument {
  kit_memory *memory;  // A buffer: its handle or first address is wanted. NULL: `value` is.
  uint64_t value;      // Bits, in the low bytes.
  uint32_t bytes;      // 4 or 8; of a buffer 0.
} kit_source_argument;

// One call of a function. Buffers give three arguments: the buffer, the offset in bytes and the
// elements; then come scalars and symbols in the program's order, and the grid as three i64.
typedef struct kit_source_call {
  void *data;            // What module_open gave for the module.
  uint32_t program;      // Number in the module, as vil_module_program_name counts.
  uint64_t grid[3];      // Groups along x, y and z.
  uint64_t groups;       // Their product; 0: nothing is to be done.
  int can_fault;         // The function may set the state.
  uint32_t lanes_worth;  // Most lanes that find work at once: elements of the largest tile.
  uint32_t argument_count;
  kit_source_argument arguments[KIT_SOURCE_ARGUMENTS];
} kit_source_call;

// Takes an image of a source format apart, reads and judges its plan. Of any dialect.
int32_t kit_source_plan(kit_device *device, const hal_module_desc *desc, kit_source *out_source);

// The same for a dialect of groups, whose functions take the arguments of kit_source_call.
int32_t kit_source_read(kit_device *device, const hal_module_desc *desc, kit_source *out_source);

// "hal_program_NAME": the function of a program.
void kit_source_function(const vil_module *module, uint32_t program, char *out, size_t capacity);

uint32_t kit_source_steps(const kit_operation *operation);
void kit_source_bind(const kit_operation *operation, uint32_t step, kit_source_call *out_call);

// Fails with what state[0] of a step says: HAL_ERROR_EXECUTION_FAILED.
int32_t kit_source_fault(const kit_operation *operation, uint32_t step, int32_t state);

// Fails with what the compiler says: its first error, the line of our source and the VIL
// instruction above that line. HAL_ERROR_INVALID_MODULE.
int32_t kit_source_refuse(const kit_source *source, const char *compiler, const char *log);

// The VIL instruction above a line of the source: the comment before it.
void kit_source_instruction(const kit_source *source, long line, char *out, size_t capacity);

#endif  // KIT_KIT_SOURCE_H_
