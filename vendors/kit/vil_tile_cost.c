// What one tile instruction takes on its engine.
#include <math.h>

#include "vil_cost.h"

static uint32_t class_of_unary(uint8_t function) {
  switch (function) {
    case VIL_MOV:
      return VIL_CLASS_MOVE;
    case VIL_EXP:
    case VIL_EXP2:
      return VIL_CLASS_EXP;
    case VIL_LOG:
    case VIL_LOG2:
      return VIL_CLASS_LOG;
    case VIL_SQRT:
    case VIL_RSQRT:
      return VIL_CLASS_SQRT;
    case VIL_RCP:
      return VIL_CLASS_DIV;
    case VIL_SIN:
    case VIL_COS:
      return VIL_CLASS_TRIG;
    case VIL_TANH:
    case VIL_ERF:
      return VIL_CLASS_ERF;
    case VIL_FLOOR:
    case VIL_CEIL:
    case VIL_TRUNC:
    case VIL_ROUND:
      return VIL_CLASS_CONVERT;
    default:
      return VIL_CLASS_LOGIC;
  }
}

static uint32_t class_of_binary(uint8_t function) {
  switch (function) {
    case VIL_MUL:
    case VIL_MULHI:
      return VIL_CLASS_MUL;
    case VIL_DIV:
    case VIL_FMOD:
    case VIL_IDIV:
    case VIL_IMOD:
      return VIL_CLASS_DIV;
    case VIL_POW:
      return VIL_CLASS_ERF;
    case VIL_AND:
    case VIL_OR:
    case VIL_XOR:
    case VIL_SHL:
    case VIL_SHR:
    case VIL_SHRU:
      return VIL_CLASS_LOGIC;
    case VIL_LT:
    case VIL_LE:
    case VIL_EQ:
    case VIL_NE:
    case VIL_MAX:
    case VIL_MIN:
      return VIL_CLASS_COMPARE;
    default:
      return VIL_CLASS_ADD;
  }
}

uint32_t vil_class_of(uint8_t op, uint8_t function) {
  switch (op) {
    case VIL_UN:
      return class_of_unary(function);
    case VIL_BIN:
      return class_of_binary(function);
    case VIL_SEL:
      return VIL_CLASS_COMPARE;
    case VIL_CAST:
      return VIL_CLASS_CONVERT;
    case VIL_RED:
    case VIL_SCAN:
    case VIL_TOPK:
      return VIL_CLASS_REDUCE;
    case VIL_IOTA:
      return VIL_CLASS_INDEX;
    case VIL_RNG:
      return VIL_CLASS_RANDOM;
    case VIL_TRN:
    case VIL_LOAD:  // With a near descriptor: the vector engine moves element by element.
    case VIL_STORE:
      return VIL_CLASS_GATHER;
    default:
      return VIL_CLASS_MOVE;
  }
}

vil_duration vil_vector_duration(const vil_cost *cost, uint32_t class, uint32_t dtype,
                                 double elements) {
  const vil_lanes *lanes = &cost->lanes[class][dtype];
  return (vil_duration){elements / lanes->per_ns, lanes->latency_ns};
}

static double blocks(double length, uint32_t step) {
  return ceil(length / step);
}

// A dot-product unit works in whole native steps. A systolic array holds one block of its operand
// (weights: k × n, outputs: m × n) while the third axis streams through, and refills for the next:
// the analytical form of SCALE-Sim (Samajdar et al., ISPASS 2020), with the fill that the
// description declares in place of the array's two edges.
vil_duration vil_product_duration(const vil_cost *cost, uint32_t a, uint32_t b, double rows,
                                  double columns, double depth) {
  const vil_product *product = &cost->products[a][b];
  const uint32_t *shape = product->shape;
  if (rows <= 0 || columns <= 0 || depth <= 0) {
    return (vil_duration){0, product->latency_ns};
  }
  double step_macs, folds;
  if (product->flow == VIL_FLOW_WEIGHTS) {
    folds = blocks(columns, shape[1]) * blocks(depth, shape[2]);
    step_macs = rows * shape[1] * shape[2];
  } else if (product->flow == VIL_FLOW_OUTPUTS) {
    folds = blocks(rows, shape[0]) * blocks(columns, shape[1]);
    step_macs = (double)shape[0] * shape[1] * depth;
  } else {
    double whole = blocks(rows, shape[0]) * blocks(columns, shape[1]) * blocks(depth, shape[2]);
    return (vil_duration){
        product->fill_ns + whole * shape[0] * shape[1] * shape[2] / product->macs_per_ns,
        product->latency_ns + product->drain_ns};
  }
  return (vil_duration){folds * (product->fill_ns + step_macs / product->macs_per_ns),
                        product->latency_ns + product->drain_ns};
}

vil_duration vil_path_duration(const vil_cost *cost, uint32_t from, uint32_t to, double runs,
                               double run_bytes, double *out_bytes) {
  const vil_path *path = &cost->paths[from][to];
  double bytes = runs * blocks(run_bytes, path->burst_bytes) * path->burst_bytes;
  *out_bytes = bytes;
  if (bytes <= 0) {
    return (vil_duration){0, 0};
  }
  return (vil_duration){path->setup_ns + bytes / path->bytes_per_ns, path->latency_ns};
}
