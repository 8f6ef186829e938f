// Reductions on the host, for the loader's collectives. Inside libhal only.
#ifndef HAL_NATIVE_REDUCE_H_
#define HAL_NATIVE_REDUCE_H_

#include <stdint.h>

// Bytes of an element; 0 for an unknown dtype.
uint32_t hal_dtype_bytes(uint32_t dtype);
// Whether elements of this dtype can be reduced.
int hal_reduce_can(uint32_t dtype);
// target[i] = sources[0][first + i] op sources[1][first + i] op …, in that order, for i < count.
// f16 and bf16 are computed in f32 and rounded once; integers wrap; max and min pass on NaN.
//   target: may be one of the sources at the same elements.
void hal_reduce(uint32_t dtype, uint32_t operation, const void *const *sources,
                uint32_t source_count, uint64_t first, uint64_t count, void *target);

#endif  // HAL_NATIVE_REDUCE_H_
