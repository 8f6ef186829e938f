// A bound launch and a running program instance, as the parts of the interpreter see them.
#ifndef KIT_VIL_LAUNCH_H_
#define KIT_VIL_LAUNCH_H_

#include "vil_image.h"

// One step of the plan. `values` has one i64 per expression of the program.
typedef struct vil_step {
  const vil_program *program;
  uint64_t grid[3];
  uint64_t programs;
  const int64_t *values;
  const vil_bound *params;
} vil_step;

struct vil_launch {
  const vil_kernel *kernel;
  uint32_t step_count;
  vil_step *steps;
};

// One row of kernels.vil.ops as bits: absent lists have all bits.
typedef struct vil_row {
  uint8_t op;
  uint64_t functions, dtypes, dtypes_to;
  uint64_t spaces[4], layouts[4];  // Out, in, a, b.
} vil_row;

struct vil_limits {
  const kit_hcd *hcd;  // NULL: vil-core.
  uint32_t grid_bits, row_count;
  vil_row *rows;
};

// One stage of a tile while a program runs.
typedef struct vil_stage {
  uint32_t rows, columns;  // The valid region.
  const uint8_t *shared;   // Its elements stand here, in a buffer, and not in the arena; or NULL.
  uint64_t pitch;          // Elements from row to row there,
  int turned;              // or from column to column; the rows are then neighbours.
} vil_stage;

// Working memory: tiles, their stages, SREGs, and scratch of one instruction.
struct vil_arena {
  uint8_t *tiles;
  uint64_t tiles_bytes;
  vil_stage *stages;
  uint64_t stages_bytes;
  int64_t *sregs;
  uint64_t sregs_bytes;
  uint8_t *scratch;
  uint64_t scratch_bytes;
};

// One program instance while it runs.
typedef struct vil_run {
  const vil_step *step;
  const vil_program *program;
  vil_arena *arena;
  const vil_hooks *hooks;
  vil_reason *reason;
  uint32_t at;            // The instruction that runs.
  struct vil_race *race;  // NULL: the order of engines is not checked.
  uint64_t may_share;     // Bit n: tiles may stand in the buffer of parameter n.
  int streams;            // A STORE went past the caches.
} vil_run;

uint64_t vil_launch_size(const vil_kernel *kernel);

// The value of a u16 reference; `absent` when it is none.
static inline int64_t vil_value(const vil_run *run, uint16_t value, int64_t absent) {
  if (value == VIL_NONE) return absent;
  if (value & VIL_SREG_BIT) return run->arena->sregs[value & 0x7FFFu];
  return run->step->values[value];
}

static inline uint32_t vil_smaller(uint32_t left, uint32_t right) {
  return left < right ? left : right;
}

// A length out of a value of the program: from 0 to `limit`.
static inline uint32_t vil_clamp(int64_t value, uint32_t limit) {
  return value<0 ? 0 : value>(int64_t) limit ? limit : (uint32_t)value;
}

// Valid length of an elementwise result along one axis (docs/vil.md, section 1.5): `result` is the
// length of the result, `sofar` what the operands before allow, `length` and `valid` the operand's.
static inline uint32_t vil_broadcast_valid(uint32_t result, uint32_t sofar, uint32_t length,
                                           uint32_t valid) {
  return vil_smaller(sofar, length == result ? valid : valid == 1 ? result : 0);
}

// Division and remainder of integers round down (docs/vil.md, section 5.4); by zero they give 0.
static inline int64_t vil_divide(int64_t left, int64_t right) {
  if (right == 0) return 0;
  if (right == -1) return (int64_t)(0 - (uint64_t)left);
  return left / right - (left % right != 0 && ((left < 0) != (right < 0)));
}

static inline int64_t vil_modulo(int64_t left, int64_t right) {
  if (right == 0 || right == -1) return 0;
  int64_t rest = left % right;
  return rest != 0 && ((rest < 0) != (right < 0)) ? rest + right : rest;
}

// vil_arena.c: what every instruction stands on.
// Makes room for the tiles, valid regions and SREGs of a program; 0 without memory.
int vil_arena_hold(vil_arena *arena, const vil_program *program);

// A fault of the running instruction: fills the reason and gives HAL_ERROR_EXECUTION_FAILED.
__attribute__((format(printf, 2, 3))) int32_t vil_fault(vil_run *run, const char *format, ...);

// The view of an operand; a NULL data when it is absent. `vil_view` is for reading and changing:
// elements that stand in a buffer are copied to the arena first. `vil_view_shared` leaves them
// there, but turned ones only for b of MMA; `vil_view_target` is for an operation that writes the
// stage anew.
vil_tile_view vil_view(const vil_run *run, const vil_instruction *at, int operand);
vil_tile_view vil_view_shared(const vil_run *run, const vil_instruction *at, int operand);
vil_tile_view vil_view_target(const vil_run *run, const vil_instruction *at, int operand);
// Copies an operand's elements to the arena when they stand in a buffer, and mends its view.
void vil_view_settle(const vil_run *run, const vil_instruction *at, int operand,
                     vil_tile_view *view);
// The elements of operand d stand at `data` in a buffer; the valid region is set.
void vil_share(const vil_run *run, const vil_instruction *at, const uint8_t *data, uint64_t pitch,
               int turned);
// Sets the valid region of an operand's stage.
void vil_set_valid(const vil_run *run, const vil_instruction *at, int operand, uint32_t rows,
                   uint32_t columns);

// Which operands an operation reads and writes, as bits of VIL_D … VIL_C. The sum of an MMA does
// not count as read: a unit forwards its own sums.
void vil_operand_roles(const vil_instruction *at, uint32_t *reads, uint32_t *writes);
uint32_t vil_operand_stage(const vil_run *run, const vil_instruction *at, int operand);

// vil_race.c: the order of engines in an explicit program; see the head of the file.
typedef struct vil_race vil_race;
vil_race *vil_race_create(const vil_program *program);  // NULL without memory.
void vil_race_free(vil_race *race);
void vil_race_begin(vil_race *race);  // A new program instance.
int32_t vil_race_step(vil_run *run, const vil_instruction *at);
int32_t vil_race_element(vil_run *run, uint32_t param, uint64_t element, int is_write);

// vil_entry.c: a range of a step whose program has machine code.
int32_t vil_run_entry(const vil_step *step, uint64_t first, uint64_t count, vil_arena *arena,
                      vil_reason *reason);
// Says what a fault of machine code was: kind + 256 · instruction. HAL_ERROR_EXECUTION_FAILED.
int32_t vil_explain_fault(const vil_program *program, uint64_t code, vil_reason *reason);
// vil_move.c: LOAD STORE GATHER SCATTER.
int32_t vil_run_move(vil_run *run, const vil_instruction *at);

// vil_run.c: sets the valid region of the result, in the view and in its stage.
void vil_result_valid(const vil_run *run, const vil_instruction *at, vil_operation *o);
// vil_chain.c: runs one; 0: nothing was done, its operations must run one by one.
int vil_run_chain(vil_run *run, const vil_chain *chain);
// vil_block.c: where a STORE of `tile` writes, when that is the whole valid region, neighbouring
// columns side by side; else 0.
int vil_store_place(const vil_run *run, const vil_instruction *at, const vil_tile_view *tile,
                    vil_tile_view *out_place);
// vil_block.c: a LOAD or STORE of a plain block; 0 when vil_run_move must do it.
int vil_run_block(vil_run *run, const vil_instruction *at);
void vil_stream_fence(void);  // After stores past the caches, before others may look.
// vil_area.c: copies rows × columns elements; steps from row to row and column to column are in
// bytes.
void vil_copy_area(void *to, int64_t to_row, int64_t to_column, const void *from, int64_t from_row,
                   int64_t from_column, int64_t rows, int64_t columns, uint32_t bytes);
// Data of the tile operations; the valid regions are set. NULL scratch gives OUT_OF_MEMORY.
int32_t vil_run_unary(vil_arena *arena, const vil_operation *o);   // vil_element.c
int32_t vil_run_binary(vil_arena *arena, const vil_operation *o);  // vil_element.c
int32_t vil_run_select(const vil_operation *o);                    // vil_element.c
int32_t vil_run_cast(vil_arena *arena, const vil_operation *o);    // vil_element.c
int32_t vil_run_reduce(vil_arena *arena, const vil_operation *o);  // vil_reduce.c
int32_t vil_run_scan(vil_arena *arena, const vil_operation *o);    // vil_reduce.c
int32_t vil_run_topk(vil_arena *arena, const vil_operation *o,
                     uint32_t old_length);                                        // vil_reduce.c
int32_t vil_run_matrix(vil_arena *arena, const vil_operation *o);                 // vil_matrix.c
void vil_run_transpose(const vil_operation *o);                                   // vil_matrix.c
void vil_run_iota(const vil_operation *o);                                        // vil_make.c
void vil_run_random(const vil_operation *o);                                      // vil_make.c
void vil_run_fill(const vil_operation *o, uint64_t bits, uint32_t source_dtype);  // vil_make.c

// vil_convert.c: rows of elements between the types and the three types of arithmetic.
void vil_to_f32(float *out, const void *in, uint32_t dtype, uint64_t count);  // f16 bf16 f32 f8.
void vil_to_f64(double *out, const void *in, uint32_t dtype,
                uint64_t count);  // Every type; i64 rounds to odd.
void vil_to_i64(int64_t *out, const void *in, uint32_t dtype,
                uint64_t count);  // Integers and bool.
void vil_from_f64(void *out, uint32_t dtype, const double *in, uint64_t count,
                  int saturate);  // To floats: one rounding.
void vil_from_f32(void *out, uint32_t dtype, const float *in, uint64_t count);  // To f16 bf16 f32.
void vil_from_i64(void *out, uint32_t dtype, const int64_t *in,
                  uint64_t count);  // To integers and bool: wraps.
// BIN on i64, comparisons included: what SREG arithmetic does.
int64_t vil_compute_i64(uint8_t function, int64_t left, int64_t right);  // vil_element.c
// One row by the rules of CAST; `room` holds 8 bytes an element.
void vil_cast_row(void *out, uint32_t to, const void *in, uint32_t from, uint64_t count,
                  int saturate, void *room);
// A value of an integer type at an element address.
int64_t vil_read_int(const void *at, uint32_t dtype);

#endif  // KIT_VIL_LAUNCH_H_
