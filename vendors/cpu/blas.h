// The operator `matmul` by the libraries that are found when the port starts: f64 by a CBLAS, f32
// by oneDNN where that is the faster one and installed, else by the CBLAS.
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

// Opens what serves products; false when there is nothing. `threads` share one.
//   only   path of the one library to open, or none; NULL: the installed ones
//   found  path of an installed CBLAS that the system's loader does not know, or NULL
// A path that does not serve is told by a line to the log.
bool cpu_blas_start(const char *only, const char *found, uint32_t threads);

int32_t cpu_blas_info(kit_device *device, uint32_t index, hal_operator_info *out_info);
int32_t cpu_blas_supports(kit_device *device, const hal_operator_desc *desc,
                          uint64_t *out_workspace_bytes);
int32_t cpu_blas_run(kit_device *device, const kit_operator *use);

#endif  // CPU_BLAS_H_
