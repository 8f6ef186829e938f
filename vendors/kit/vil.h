// The kit's VIL: read an image, judge it, bind a launch, run it. The contract is docs/vil.md.
//
// A port uses it so:
//   module.load    vil_module_read, vil_module_validate
//   get_kernel     vil_kernel_find
//   launch         vil_launch_bind at enqueue (it answers every INVALID_VALUE and OUT_OF_RANGE),
//                  vil_launch_run on the thread that executes
// A module is read-only once it is read: any number of threads may bind and run its kernels.
// Each function that can fail takes `reason`, which gets one NUL-terminated line.
#ifndef KIT_VIL_H_
#define KIT_VIL_H_

#include <stddef.h>
#include <stdint.h>

#include "kit_hcd.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct vil_module vil_module;
typedef struct vil_kernel vil_kernel;
typedef struct vil_launch vil_launch;
typedef struct vil_arena vil_arena;
typedef struct vil_limits vil_limits;

// One argument of a launch, in the signature's order; the workspace block comes last where the
// kernel has workspaces.
typedef struct vil_argument {
  uint32_t kind;    // One of HAL_ARGUMENT_*.
  uint64_t scalar;  // Bits of a scalar or symbol.
  void *data;       // First byte of a buffer's range; aligned to the element size.
  uint64_t bytes;   // Length of the range.
} vil_argument;

// A tile as a hook sees it: rows of `columns` elements, `valid_rows` × `valid_columns` of them hold
// values. Rows follow each other without gaps; only an operand of a hook that `takes_pitch` may
// stand elsewhere, with `pitch` elements from row to row, and is then not to be written; in a tile
// that is `turned`, `pitch` elements lie from column to column and the rows are neighbours.
typedef struct vil_tile_view {
  uint32_t dtype;  // One of HAL_DTYPE_*.
  uint32_t rows, columns;
  uint32_t valid_rows, valid_columns;
  void *data;
  uint64_t pitch;
  int turned;
} vil_tile_view;

// One tile operation as a hook sees it. `op` and `function` have the numbers of docs/vil.md.
typedef struct vil_operation {
  uint8_t op, function, axis;
  uint16_t flags;
  vil_tile_view d, a, b, c;  // Absent operands have a NULL data.
  int64_t values[4];         // v0 … v3; an absent one holds its default.
  vil_arena *arena;          // For vil_scratch.
} vil_operation;

// A port's own implementation of tile operations (UN BIN SEL CAST RED MMA TRN SCAN COPY). It is
// asked first; when it answers 0 the kit's own code runs. It may not touch elements outside of
// `d`'s result.
typedef int (*vil_tile_hook)(void *context, const vil_operation *operation);

// One operation of a chain: UN, BIN, RED along the columns, elementwise operations on a number a
// row, STORE (o.a goes to o.d, which stands in a buffer; rows are o.d.pitch elements apart), and
// LOAD, which has run already.
typedef struct vil_link {
  vil_operation o;
  uint16_t tiles[4];  // Numbers of the tiles d, a, b, c; 0xFFFF: none.
  int is_column;      // The result is a number a row, by an elementwise operation.
  int is_kept;        // The result is read behind the chain, so o.d must hold it then.
} vil_link;
enum { VIL_CHAIN_LINKS = 24 };

// A port's own way to run operations that follow each other, on the first `rows` × `columns` of
// tiles of one shape. Row i of a result needs row i of the operands alone. A result of whole rows
// that is not kept need not be written. 0: nothing was done, and the operations run one by one.
typedef int (*vil_chain_hook)(void *context, const vil_link *links, uint32_t count, uint32_t rows,
                              uint32_t columns);

// One element of a buffer that a running program touches.
typedef struct vil_access {
  const char *program;
  uint32_t instruction;
  const char *op, *param;
  const uint8_t *address;
  uint32_t bytes;
  int is_write;  // An atomic update reads and writes.
  int is_read;
} vil_access;

// Looks on while programs run, for checks that a chip does not make. Slow.
typedef struct vil_watch {
  // Called before an element is touched. A status below 0 and a text stop the launch; the text then
  // stands behind the program and the instruction. NULL: nobody asks.
  int32_t (*element)(void *context, const vil_access *access, char *text, size_t capacity);
  void *context;
  // Fail an explicit program in which two engines touch a tile, or an element of a buffer, and no
  // token orders them.
  int engines;
} vil_watch;

typedef struct vil_hooks {
  vil_tile_hook tile;
  void *context;
  // The tile hook reads a, b and c by their pitch. Then a LOAD of whole rows from a buffer that
  // the program does not write leaves the elements where they are.
  int takes_pitch;
  // With `takes_pitch`: b of MMA may be turned. When the hook answers 0 it is asked again with the
  // elements in order.
  int takes_turned;
  vil_chain_hook chain;    // With `takes_pitch` only; NULL: none.
  const vil_watch *watch;  // NULL: nobody looks on.
} vil_hooks;

// Reads an image (magic HVIL) and checks its structure: every offset, count, index and string.
// HAL_OK, HAL_ERROR_INVALID_MODULE or HAL_ERROR_OUT_OF_MEMORY. The image is copied.
int32_t vil_module_read(const void *image, uint64_t bytes, vil_module **out_module, char *reason,
                        size_t capacity);
void vil_module_free(vil_module *module);

// Limits of a chip from its flat HCD; NULL gives vil-core. Free with vil_limits_free.
vil_limits *vil_limits_create(const kit_hcd *hcd);
void vil_limits_free(vil_limits *limits);

// The only judge of what a port must run: HAL_OK or HAL_ERROR_INVALID_MODULE.
int32_t vil_module_validate(const vil_module *module, const vil_limits *limits, char *reason,
                            size_t capacity);

uint32_t vil_module_kernel_count(const vil_module *module);
const vil_kernel *vil_module_kernel(const vil_module *module, uint32_t index);
const vil_kernel *vil_kernel_find(const vil_module *module, const char *name);  // NULL: none.
const char *vil_kernel_name(const vil_kernel *kernel);
uint32_t vil_kernel_argument_count(const vil_kernel *kernel);  // The workspace block included.
uint32_t vil_kernel_argument_kind(const vil_kernel *kernel, uint32_t index);  // HAL_ARGUMENT_*.
int vil_kernel_argument_is_written(const vil_kernel *kernel, uint32_t index);
uint32_t vil_kernel_argument_element_bytes(const vil_kernel *kernel, uint32_t index);

// What a parameter of a program is bound to.
typedef struct vil_bound {
  uint8_t *data;    // Buffer: first byte.
  uint64_t bytes;   // Buffer: length.
  uint64_t scalar;  // Scalar or symbol: its bits.
} vil_bound;

// Machine code of a program: runs instances first … first + count − 1 of a grid on the calling
// thread; `params` has one entry a parameter, `tiles` is room for its tiles, aligned to 64. Gives
// 0, or 1 + kind + 256 · instruction of a fault; the kinds are the next two.
typedef int64_t (*vil_entry)(const vil_bound *params, const uint64_t grid[3], uint64_t first,
                             uint64_t count, void *tiles);
enum { VIL_FAULT_ELEMENT = 1, VIL_FAULT_NOTHING = 2 };

// The programs of a module, and machine code for one in place of the interpreter. Before the first
// launch only.
uint32_t vil_module_program_count(const vil_module *module);
const char *vil_module_program_name(const vil_module *module, uint32_t index);
void vil_module_set_entry(vil_module *module, uint32_t index, vil_entry entry, uint64_t tile_bytes);

// Bytes that vil_launch_bind needs at `launch`, aligned to 16.
uint64_t vil_launch_bytes(const vil_kernel *kernel);

// Checks the arguments and computes sizes and grids. `grid` serves launches marked `grid caller`;
// zeros are legal. HAL_OK, HAL_ERROR_INVALID_VALUE or HAL_ERROR_OUT_OF_RANGE. The arguments are
// copied.
int32_t vil_launch_bind(const vil_kernel *kernel, const uint32_t grid[3],
                        const vil_argument *arguments, uint32_t count, const vil_limits *limits,
                        void *storage, char *reason, size_t capacity);

// The plan's steps run one after another; a step has `vil_launch_programs` independent programs,
// any ranges of which may run at once, each with an arena of its own.
uint32_t vil_launch_steps(const void *storage);
uint64_t vil_launch_programs(const void *storage, uint32_t step);
int32_t vil_launch_run_range(const void *storage, uint32_t step, uint64_t first, uint64_t count,
                             vil_arena *arena, const vil_hooks *hooks, char *reason,
                             size_t capacity);
// All steps on the calling thread. HAL_OK or HAL_ERROR_EXECUTION_FAILED, or
// HAL_ERROR_OUT_OF_MEMORY.
int32_t vil_launch_run(const void *storage, vil_arena *arena, const vil_hooks *hooks, char *reason,
                       size_t capacity);

// Working memory of one executing thread; it grows to the largest program that it has run.
vil_arena *vil_arena_create(void);
void vil_arena_free(vil_arena *arena);
// Room for one instruction: `bytes`, undefined, aligned to 64, until the next call; NULL without
// memory.
void *vil_scratch(vil_arena *arena, uint64_t bytes);

// What a launch does, for timing models: sums over its programs are bounds, not measurements.
typedef struct vil_work {
  uint64_t programs;         // Program instances.
  uint64_t instructions;     // Instructions that they execute.
  uint64_t open_loops;       // Loops whose count is an SREG, so that the sums take it as 1.
  uint64_t bytes_loaded;     // Bytes that LOAD and GATHER move if every tile is full.
  uint64_t bytes_stored;     // Bytes that STORE and SCATTER move if every tile is full.
  uint64_t macs;             // Multiply-accumulates of MMA on full tiles.
  uint64_t vector_elements;  // Result elements of vector operations on full tiles.
} vil_work;
void vil_launch_work(const void *storage, vil_work *out_work);

#ifdef __cplusplus
}
#endif

#endif  // KIT_VIL_H_
