// Fast tile operations: what the port does itself instead of the kit's interpreter. There is one
// set of kernels for each instruction set; tiles.c chooses when the port starts. Values are those
// of docs/vil.md whatever the set.

// ---- Optional ----
#ifndef CPU_TILES_H_
#define CPU_TILES_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "hal/hal.h"
#include "vil.h"

// The left matrix of a product is packed in rows of CPU_ROW_BYTES, of which the first
// CPU_DEPTH_BYTES hold values. The pitch is an odd number of cache lines, so that the rows of a
// block do not meet in one set of the first-level cache.
enum { CPU_DEPTH_BYTES = 2048, CPU_ROW_BYTES = 2112 };

// One way to multiply. Products of packed values are added up in blocks of rows × columns.
//
// Left: rows of CPU_ROW_BYTES. Right: panels of `columns`; a line of a panel holds `columns` groups
// and a group `group` values that lie below each other. Values past the end are zeros.
typedef struct cpu_product {
  uint32_t value_bytes;  // Of a packed value.
  uint32_t group;
  uint32_t depth_multiple;  // `multiply` takes a depth that is a multiple of it.
  uint32_t rows, columns;   // Of a full block.
  bool needs_rows;          // `multiply` reads `rows` left rows even when fewer count.
  bool shifts;  // 8-bit integers: the kernel multiplies u8 by i8. Signed left values are
                // packed 128 larger, unsigned right ones 128 smaller.
  // Packs `count` values of one row. False, like the next: `multiply` does not do such values.
  bool (*pack_left)(void *out, const void *row, uint32_t dtype, uint32_t count);
  // Packs `depth` rows (`pitch` values apart) of `columns` columns into panels of `panel_bytes`.
  bool (*pack_right)(void *out, size_t panel_bytes, const void *first, int64_t pitch,
                     uint32_t dtype, uint32_t depth, uint32_t columns);
  // target (`pitch` results from row to row) = or, with `add`, += left · right for a depth above 0.
  // `line` is the distance of the lines of `right` in groups of one column, `step` that of the rows
  // of `left` in values; packed rows where `group` is above 1.
  void (*multiply)(const void *left, int64_t step, const void *right, int64_t line, uint32_t depth,
                   void *target, int64_t pitch, uint32_t rows, uint32_t columns, bool add);
  void (*begin)(void), (*end)(void);  // Around the calls of `multiply`; NULL: nothing to do.
} cpu_product;

// A step of a chain on one row of f32: a block of the row goes from step to step in registers.
typedef enum cpu_step_kind {
  CPU_STEP_TAKE,      // The block becomes `row`.
  CPU_STEP_UNARY,     // function(block)
  CPU_STEP_SCALAR,    // function(block, scalar)
  CPU_STEP_REVERSED,  // function(scalar, block)
  CPU_STEP_ROW,       // function(block, row)
  CPU_STEP_ROW_REVERSED,
  CPU_STEP_TWICE,   // function(block, block)
  CPU_STEP_FOLD,    // folds = function(folds, block)
  CPU_STEP_PUT,     // `row` becomes the block.
  CPU_STEP_STREAM,  // The same past the caches; `row` is aligned to 64.
  CPU_STEP_FETCH,   // Asks for `row`, which is read soon.
  CPU_STEP_END
} cpu_step_kind;

enum { CPU_CHAIN_BLOCK = 64 };  // The longest block of a set, in elements.

typedef struct cpu_step {
  void (*run)(void);  // Of the set; found by `find_step`.
  cpu_step_kind kind;
  uint8_t function;
  float scalar;
  float *row;
  float folds[CPU_CHAIN_BLOCK] __attribute__((aligned(64)));
} cpu_step;

// Loops over rows of `n` elements. A function answers false for what it does not do, and has then
// written nothing. Rows may be worked on in place. `one`: 1 (2) says that x (y) is a single value.
typedef struct cpu_rows {
  bool (*unary_f32)(uint8_t function, float *out, const float *x, size_t n);
  bool (*binary_f32)(uint8_t function, float *out, const float *x, const float *y, size_t n,
                     int one);
  bool (*binary_f64)(uint8_t function, double *out, const double *x, const double *y, size_t n,
                     int one);
  bool (*binary_i32)(uint8_t function, uint32_t *out, const uint32_t *x, const uint32_t *y,
                     size_t n, int one);
  bool (*binary_u8)(uint8_t function, uint8_t *out, const uint8_t *x, const uint8_t *y, size_t n,
                    int one);
  bool (*compare_f32)(uint8_t function, uint8_t *out, const float *x, const float *y, size_t n,
                      int one);
  bool (*compare_f64)(uint8_t function, uint8_t *out, const double *x, const double *y, size_t n,
                      int one);
  bool (*compare_i32)(uint8_t function, uint8_t *out, const int32_t *x, const int32_t *y, size_t n,
                      int one);
  void (*select)(uint32_t bytes, void *out, const uint8_t *mask, const void *x, const void *y,
                 size_t n);
  bool (*widen)(float *out, const void *in, uint32_t dtype, size_t n);       // To f32.
  bool (*narrow)(void *out, uint32_t dtype, const float *x, size_t n);       // From f32.
  bool (*fold_f32)(uint8_t function, const float *x, size_t n, float *out);  // RED; n > 0.
  uint32_t block;                                  // Elements of a chain's block.
  bool (*find_step)(cpu_step *step);               // False: the set has no such step.
  void (*run_steps)(cpu_step *steps, size_t end);  // Elements [0, end), whole blocks.
} cpu_rows;

// The kernels of one instruction set. A product that is NULL is left to the kit.
typedef struct cpu_set {
  const char *name;
  const cpu_product *f32, *f64, *i32, *bf16, *i8;
  const cpu_rows *rows;
} cpu_set;

extern const cpu_set cpu_set_plain;
#ifdef CPU_HAS_AVX
extern const cpu_set cpu_set_avx2, cpu_set_avx512;
extern const cpu_product cpu_avx512_bf16, cpu_avx512_i8;  // For processors that have them.
#endif
#ifdef CPU_HAS_AMX
extern const cpu_product cpu_amx_bf16, cpu_amx_i8;
bool cpu_amx_start(void);  // Asks the system for the tile registers; false when it refuses.
#endif

// Chooses the set of this name: "none" (the kit's interpreter does everything), "plain", "avx2",
// "avx512" or "amx"; NULL: the best that works here. False when this processor lacks the named one.
// Products that do not give right results here are left out, with a line to the log. Called when
// the port starts.
bool cpu_tiles_choose(const char *name);
const char *cpu_tiles_name(void);
// Multiply-adds that a core does in one cycle for "f32", "f64", "bf16", "f16" or "i8": what a
// processor with the chosen set reaches at least.
int cpu_tiles_macs_per_cycle(const char *dtype);

// The kit's tile hook; the context is not used.
int cpu_tile(void *context, const vil_operation *operation);

// The kit's hook for chains; the context is not used.
int cpu_chain_hook(void *context, const vil_link *links, uint32_t count, uint32_t rows,
                   uint32_t columns);
int cpu_chain(const cpu_rows *set, const vil_link *links, uint32_t count, uint32_t rows,
              uint32_t columns);

// UN, BIN, SEL, CAST and RED by rows; 0 when the kit shall do it.
int cpu_elements(const cpu_rows *rows, const vil_operation *operation);

// MMA by the set's products; 0 when none of them fits.
int cpu_matrix(const cpu_set *set, const vil_operation *operation);
#endif  // CPU_TILES_H_
