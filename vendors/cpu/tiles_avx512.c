// AVX-512 F, BW, DQ and VL.
#include <immintrin.h>

#include "tiles_pack.h"

#define VECTOR_BYTES 64
#define BLOCK_ROWS 14
#define TYPE float
#define KERNEL multiply_f32
#include "tiles_block.h"
#define TYPE double
#define KERNEL multiply_f64
#include "tiles_block.h"
#define TYPE uint32_t
#define KERNEL multiply_i32
#include "tiles_block.h"

static inline void copy_f32(void *out, const void *row, uint32_t dtype, uint32_t count) {
  float *to = out;
  const uint16_t *from = row;
  uint32_t i = 0;
  switch (dtype) {
    case HAL_DTYPE_F32:
      memcpy(out, row, (size_t)count * 4);
      break;
    case HAL_DTYPE_F16:
      for (; i < count; i += 16) {
        __mmask16 mask = count - i < 16 ? (__mmask16)((1u << (count - i)) - 1) : 0xFFFF;
        __m256i halves = _mm256_maskz_loadu_epi16(mask, from + i);
        _mm512_mask_storeu_ps(to + i, mask, _mm512_cvtph_ps(halves));
      }
      break;
    case HAL_DTYPE_BF16:
      for (; i < count; ++i) {
        uint32_t bits = (uint32_t)from[i] << 16;
        memcpy(to + i, &bits, 4);
      }
      break;
    default:
      vil_to_f32(out, row, dtype, count);
  }
}
DEFINE_PACKING(pack_f32, copy_f32, 32, 4)
DEFINE_PACKING(pack_f64, copy_f64, 16, 8)
DEFINE_PACKING(pack_i32, copy_i32, 32, 4)

static const cpu_product f32 = {.value_bytes = 4,
                                .group = 1,
                                .depth_multiple = 1,
                                .rows = BLOCK_ROWS,
                                .columns = 32,
                                .pack_left = pack_f32_left,
                                .pack_right = pack_f32_right,
                                .multiply = multiply_f32};
static const cpu_product f64 = {.value_bytes = 8,
                                .group = 1,
                                .depth_multiple = 1,
                                .rows = BLOCK_ROWS,
                                .columns = 16,
                                .pack_left = pack_f64_left,
                                .pack_right = pack_f64_right,
                                .multiply = multiply_f64};
static const cpu_product i32 = {.value_bytes = 4,
                                .group = 1,
                                .depth_multiple = 1,
                                .rows = BLOCK_ROWS,
                                .columns = 32,
                                .pack_left = pack_i32_left,
                                .pack_right = pack_i32_right,
                                .multiply = multiply_i32};

static void narrow_f16(uint16_t *out, const float *x, size_t n) {
  for (size_t i = 0; i < n; i += 16) {
    __mmask16 mask = n - i < 16 ? (__mmask16)((1u << (n - i)) - 1) : 0xFFFF;
    __m256i halves = _mm512_cvtps_ph(_mm512_maskz_loadu_ps(mask, x + i), _MM_FROUND_TO_NEAREST_INT);
    _mm256_mask_storeu_epi16(out + i, mask, halves);
  }
}

#include "tiles_rows.h"

const cpu_set cpu_set_avx512 = {
    .name = "avx512", .f32 = &f32, .f64 = &f64, .i32 = &i32, .rows = &rows};
