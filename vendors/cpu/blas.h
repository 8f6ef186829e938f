// The operator `matmul` by a BLAS that is found when the port starts.
//
//   inputs   A (M × K), B (K × N), or with a leading batch dimension each
//   outputs  C (M × N)
//   types    all f32 or all f64
//   strides  of each matrix one is 1 (rows or columns lie in one piece); of C the last
//   attributes, f64: alpha (1) and beta (0): C = alpha · A · B + beta · C

// ---- Optional ----
#ifndef CPU_BLAS_H_
#define CPU_BLAS_H_

#include <stdbool.h>

#include "kit.h"

// Opens the library: of the given path, or one of the usual names. `threads` serve a product.
// False, with a line to the log for a path that was given, when there is none.
bool cpu_blas_start(const char *path, uint32_t threads);

int32_t cpu_blas_info(kit_device *device, uint32_t index, hal_operator_info *out_info);
int32_t cpu_blas_supports(kit_device *device, const hal_operator_desc *desc,
                          uint64_t *out_workspace_bytes);
int32_t cpu_blas_run(kit_device *device, const kit_operator *use);

#endif  // CPU_BLAS_H_
