// The records of a VIL image (docs/vil.md, section 4) and what the kit keeps of a module that it
// has read. Records are used where they lie in the module's own copy of the image.
#ifndef KIT_VIL_IMAGE_H_
#define KIT_VIL_IMAGE_H_

#include <stdarg.h>
#include <stdio.h>

#include "hal/hal.h"
#include "vil.h"

#define VIL_NONE32 0xFFFFFFFFu
#define VIL_NONE 0xFFFFu
#define VIL_SREG_BIT 0x8000u
#define VIL_KNOWN_FEATURES 0x1FFFFu

enum vil_op {
  VIL_LOAD = 1,
  VIL_STORE,
  VIL_FILL,
  VIL_IOTA,
  VIL_UN,
  VIL_BIN,
  VIL_SEL,
  VIL_CAST,
  VIL_RED,
  VIL_MMA,
  VIL_TRN,
  VIL_LOOP,
  VIL_END,
  VIL_IF,
  VIL_SREG,
  VIL_GATHER,
  VIL_SCATTER,
  VIL_COPY,
  VIL_SCAN,
  VIL_TOPK,
  VIL_RNG,
  VIL_SIGNAL,
  VIL_WAIT,
  VIL_OP_COUNT
};

enum vil_function {
  VIL_MOV = 1,
  VIL_NEG,
  VIL_ABS,
  VIL_EXP,
  VIL_EXP2,
  VIL_LOG,
  VIL_LOG2,
  VIL_SQRT,
  VIL_RSQRT,
  VIL_RCP,
  VIL_SIN,
  VIL_COS,
  VIL_TANH,
  VIL_ERF,
  VIL_FLOOR,
  VIL_CEIL,
  VIL_TRUNC,
  VIL_ROUND,
  VIL_NOT,
  VIL_ISNAN,
  VIL_ADD,
  VIL_SUB,
  VIL_MUL,
  VIL_DIV,
  VIL_MAX,
  VIL_MIN,
  VIL_POW,
  VIL_FMOD,
  VIL_IDIV,
  VIL_IMOD,
  VIL_AND,
  VIL_OR,
  VIL_XOR,
  VIL_SHL,
  VIL_SHR,
  VIL_SHRU,
  VIL_MULHI,
  VIL_LT,
  VIL_LE,
  VIL_EQ,
  VIL_NE,
  VIL_ARGMAX,
  VIL_ARGMIN,
  VIL_SET,
  VIL_RAW,
  VIL_UNIFORM,
  VIL_ARG,
  VIL_TILE,
  VIL_GRID,
  VIL_CHOOSE,
  VIL_FUNCTION_COUNT
};

enum { VIL_BUFFER = 1, VIL_SCALAR = 2, VIL_SYMBOL = 3 };  // Argument kinds.
enum { VIL_READ = 1, VIL_WRITE = 2, VIL_INOUT = 3 };      // Access.
enum { VIL_BIND_ARGUMENT = 1, VIL_BIND_WORKSPACE = 2, VIL_BIND_EXPRESSION = 3 };
enum {
  VIL_ENGINE_DMA_IN = 1,
  VIL_ENGINE_DMA_OUT,
  VIL_ENGINE_VECTOR,
  VIL_ENGINE_MATRIX,
  VIL_ENGINE_SCALAR
};
enum { VIL_TERM_SREG = 0, VIL_TERM_ROW = 1, VIL_TERM_COLUMN = 2 };
enum {
  VIL_FLAG_SCALAR = 1,
  VIL_FLAG_STREAM = 1,
  VIL_FLAG_SATURATE = 1,
  VIL_FLAG_INIT = 1,
  VIL_FLAG_EXCLUSIVE = 1,
  VIL_FLAG_REVERSE = 2,
  VIL_FLAG_SMALLEST = 2
};
enum { VIL_PROGRAM_CONTRACT = 1, VIL_PROGRAM_DETERMINISTIC = 2 };

typedef struct vil_table {
  uint32_t offset, count;
} vil_table;
typedef struct vil_r_kernel {
  uint32_t name, first_argument, argument_count, first_workspace, workspace_count, first_launch,
      launch_count, reserved;
} vil_r_kernel;
typedef struct vil_r_argument {
  uint32_t name;
  uint8_t kind, dtype, access, reserved0;
  uint32_t required_bytes, alias;
  uint64_t reserved;
} vil_r_argument;
typedef struct vil_r_workspace {
  uint32_t name, bytes;
} vil_r_workspace;
typedef struct vil_r_launch {
  uint32_t name, program, grid[3], first_binding, binding_count, block[3], scratch, reserved;
} vil_r_launch;
typedef struct vil_r_binding {
  uint8_t kind, reserved[3];
  uint32_t index;
} vil_r_binding;
typedef struct vil_r_expression {
  uint32_t offset, bytes;
} vil_r_expression;
typedef struct vil_r_param {
  uint32_t name;
  uint8_t kind, dtype, access, reserved;
} vil_r_param;
typedef struct vil_r_tile {
  uint32_t name;
  uint8_t dtype, space, layout, reserved0;
  uint32_t rows, columns, offset;
  uint16_t stages, panel;
  uint64_t reserved;
} vil_r_tile;
typedef struct vil_r_term {
  uint8_t dimension, kind;
  uint16_t index, coefficient, reserved;
} vil_r_term;
typedef struct vil_r_token {
  uint32_t name;
  uint8_t producer, consumer;
  uint16_t credits;
} vil_r_token;
typedef struct vil_r_axis {
  uint16_t origin, limit;
  struct {
    uint16_t size, divisor;
  } digits[3];
} vil_r_axis;
typedef struct vil_r_descriptor {
  uint32_t name;
  uint16_t param;
  uint8_t dtype, rank;
  uint32_t first_term;
  uint16_t term_count;
  uint8_t digit_count[2];  // Rows, columns.
  uint64_t fill;
  struct {
    uint16_t extent, stride, base;
  } dimensions[5];
  uint16_t reserved;
  vil_r_axis axes[2];  // Rows, columns.
} vil_r_descriptor;
typedef struct vil_instruction {
  uint8_t op, function, engine, axis;
  uint16_t flags, x;
  struct {
    uint16_t tile, stage;
  } operands[4];  // d, a, b, c.
  uint16_t values[4];
} vil_instruction;
enum { VIL_D = 0, VIL_A = 1, VIL_B = 2, VIL_C = 3 };

_Static_assert(sizeof(vil_r_argument) == 24 && sizeof(vil_r_launch) == 48,
               "records as in docs/vil.md");
_Static_assert(sizeof(vil_r_tile) == 32 && sizeof(vil_r_descriptor) == 88,
               "records as in docs/vil.md");
_Static_assert(sizeof(vil_instruction) == 32 && sizeof(vil_r_kernel) == 32,
               "records as in docs/vil.md");

// Expressions of one section, and which argument or parameter indices are symbols.
typedef struct vil_expressions {
  const vil_r_expression *items;
  uint32_t count;
  const uint8_t *code;
  uint32_t code_bytes;
} vil_expressions;

// Instructions first … first + count − 1 are a chain (vil_chain.c); a count of 0 is none. Bit n of
// `kept`: what instruction first + n leaves is read behind the chain.
typedef struct vil_chain {
  uint32_t first, count, kept;
} vil_chain;

typedef struct vil_program {
  const char *name;
  uint8_t profile, flags;
  uint16_t sreg_count;
  const vil_r_param *params;
  const vil_r_tile *tiles;
  const vil_r_descriptor *descriptors;
  const vil_r_term *terms;
  const vil_r_token *tokens;
  const uint64_t *constants;
  const vil_instruction *code;
  uint32_t param_count, tile_count, descriptor_count, term_count, token_count, constant_count,
      instruction_count;
  vil_expressions expressions;
  const char *strings;
  uint32_t *matches;      // Per instruction: END of a LOOP or IF, start of an END; else 0.
  uint64_t *tile_at;      // Where each tile's first stage lies in the arena.
  uint32_t *stage_first;  // Number of stages of all tiles before this one.
  uint32_t stage_count;   // Stages of all tiles.
  vil_chain *chains;      // Per instruction: the chain that starts with it.
  uint64_t arena_bytes;   // All tiles.
  vil_entry entry;        // Machine code that runs it; NULL: the interpreter does.
  uint64_t entry_bytes;   // Room for tiles that `entry` wants.
  int can_fault;          // Its function in a source can report a fault.
} vil_program;

struct vil_kernel {
  const vil_module *module;
  const char *name;
  const vil_r_argument *arguments;
  const vil_r_workspace *workspaces;
  const vil_r_launch *launches;
  uint32_t argument_count, workspace_count, launch_count;
  uint64_t launch_bytes;
};

struct vil_module {
  uint8_t *image;
  uint64_t bytes;
  uint64_t features;
  vil_kernel *kernels;
  uint32_t kernel_count;
  vil_program *programs;
  uint32_t program_count;
  const vil_r_binding *bindings;
  uint32_t binding_count;
  vil_expressions expressions;
  const char *strings;
};

// Finds the chains of a program that is read; 0 without memory.
int vil_find_chains(vil_program *program);

// Where a reason goes.
typedef struct vil_reason {
  char *text;
  size_t capacity;
} vil_reason;
// Writes the reason and gives `status` back.
__attribute__((format(printf, 3, 4))) int32_t vil_refuse(vil_reason *reason, int32_t status,
                                                         const char *format, ...);

uint32_t vil_dtype_bytes(uint32_t dtype);  // 0 when the number is none.
int vil_is_float(uint32_t dtype);          // f16 bf16 f32 f64.
int vil_is_float8(uint32_t dtype);
int vil_is_int(uint32_t dtype);  // i8 u8 i32 i64.
const char *vil_dtype_name(uint32_t dtype);
const char *vil_op_name(uint32_t op);
const char *vil_function_name(uint32_t function);
uint64_t vil_tile_bytes(const vil_r_tile *tile);  // One stage, in its space.

// Postfix code: structure (at read) and value (at launch). `symbols[i]` is the value of argument or
// parameter i; `is_symbol[i]` says whether i is one.
int vil_expression_is_sound(const vil_expressions *all, uint32_t index, const uint8_t *is_symbol,
                            uint32_t symbol_count);
// 1 done, 0 overflow or a division by zero.
int vil_expression_compute(const vil_expressions *all, uint32_t index, const int64_t *symbols,
                           int64_t *out_value);
// 1 and the value when the expression names no symbol.
int vil_expression_constant(const vil_expressions *all, uint32_t index, int64_t *out_value);

#endif  // KIT_VIL_IMAGE_H_
