// The operator matmul for ports whose library has the BLAS's gemm: what it takes, and one use of it
// in the BLAS's terms (docs/interfaces/operator.md).
#ifndef KIT_KIT_MATMUL_H_
#define KIT_KIT_MATMUL_H_

#include "kit.h"

// A matrix as the BLAS sees it: rows that lie `pitch` elements apart, or columns that do.
typedef struct kit_matrix {
  int is_transposed;
  int pitch;
  int64_t step;  // Elements from one matrix of a batch to the next; 0: there is one.
} kit_matrix;

// c[m, n] = alpha a[m, k] b[k, n] + beta c, `count` times.
typedef struct kit_matmul {
  kit_matrix a, b, c;  // c is not transposed.
  int m, n, k;
  uint64_t count;
  uint32_t dtype;  // Of all three.
  double alpha, beta;
} kit_matmul;

// Fills the operator's row of operator.enumerate, of which it is the only one; `is_there` is 0 when
// the port found no library.
int32_t kit_matmul_info(uint32_t index, int is_there, uint64_t dtype_mask,
                        hal_operator_info *out_info);

// HAL_OK, or UNSUPPORTED with a reason: `absent` when that is not NULL, or what the library does
// not take.
int32_t kit_matmul_supports(const hal_operator_desc *desc, const char *absent, uint64_t dtype_mask);

// One use, which kit_matmul_supports has let through.
void kit_matmul_read(const kit_operator *use, kit_matmul *out);

#endif  // KIT_KIT_MATMUL_H_
