// Names and facts of VIL's enumerations (docs/vil.md, section 2).
#include "vil_image.h"

static const char *const dtype_names[] = {"?",  "f32", "f16", "bf16", "f64",    "i8",
                                          "u8", "i32", "i64", "bool", "f8e4m3", "f8e5m2"};
static const char *const op_names[] = {"?",    "load", "store", "fill", "iota",   "un",
                                       "bin",  "sel",  "cast",  "red",  "mma",    "trn",
                                       "loop", "end",  "if",    "sreg", "gather", "scatter",
                                       "copy", "scan", "topk",  "rng",  "signal", "wait"};
static const char *const function_names[] = {
    "",    "mov", "neg",     "abs",  "exp",   "exp2", "log",   "log2",  "sqrt", "rsqrt",  "rcp",
    "sin", "cos", "tanh",    "erf",  "floor", "ceil", "trunc", "round", "not",  "isnan",  "add",
    "sub", "mul", "div",     "max",  "min",   "pow",  "fmod",  "idiv",  "imod", "and",    "or",
    "xor", "shl", "shr",     "shru", "mulhi", "lt",   "le",    "eq",    "ne",   "argmax", "argmin",
    "set", "raw", "uniform", "arg",  "tile",  "grid", "sel"};

uint32_t vil_dtype_bytes(uint32_t dtype) {
  static const uint8_t bytes[] = {0, 4, 2, 2, 8, 1, 1, 4, 8, 1, 1, 1};
  return dtype < sizeof(bytes) ? bytes[dtype] : 0;
}

int vil_is_float(uint32_t dtype) {
  return dtype >= HAL_DTYPE_F32 && dtype <= HAL_DTYPE_F64;
}
int vil_is_float8(uint32_t dtype) {
  return dtype == HAL_DTYPE_F8E4M3 || dtype == HAL_DTYPE_F8E5M2;
}
int vil_is_int(uint32_t dtype) {
  return dtype >= HAL_DTYPE_I8 && dtype <= HAL_DTYPE_I64;
}

const char *vil_dtype_name(uint32_t dtype) {
  return dtype <= HAL_DTYPE_F8E5M2 ? dtype_names[dtype] : "?";
}
const char *vil_op_name(uint32_t op) {
  return op < VIL_OP_COUNT ? op_names[op] : "?";
}
const char *vil_function_name(uint32_t function) {
  return function < VIL_FUNCTION_COUNT ? function_names[function] : "?";
}

uint64_t vil_tile_bytes(const vil_r_tile *tile) {
  uint64_t rows = tile->rows;
  if (tile->panel) rows = (rows + tile->panel - 1) / tile->panel * tile->panel;
  return rows * tile->columns * vil_dtype_bytes(tile->dtype);
}
