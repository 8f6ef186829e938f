// AVX-512 F, BW, DQ and VL.

// ---- Optional ----
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
DEFINE_PRODUCT(f32, 32, 4)
DEFINE_PRODUCT(f64, 16, 8)
DEFINE_PRODUCT(i32, 32, 4)

static void narrow_f16(uint16_t *out, const float *x, size_t n) {
  for (size_t i = 0; i < n; i += 16) {
    __mmask16 mask = n - i < 16 ? (__mmask16)((1u << (n - i)) - 1) : 0xFFFF;
    __m256i halves = _mm512_cvtps_ph(_mm512_maskz_loadu_ps(mask, x + i), _MM_FROUND_TO_NEAREST_INT);
    _mm256_mask_storeu_epi16(out + i, mask, halves);
  }
}

#define STREAM_LANES(to, value) _mm512_stream_ps(to, (__m512)(value))
#define LARGER_LANES(x, y) (lanes) _mm512_max_ps((__m512)(x), (__m512)(y))
#define SMALLER_LANES(x, y) (lanes) _mm512_min_ps((__m512)(x), (__m512)(y))
#define HAVE_NAN(x, y) _mm512_cmp_ps_mask((__m512)(x), (__m512)(y), _CMP_UNORD_Q)
#define SUM_OF_LANES(x) _mm512_reduce_add_ps((__m512)(x))
#define LARGEST_OF_LANES(x) _mm512_reduce_max_ps((__m512)(x))
#define EXP_LANES(x) (lanes) exp_vector((__m512)(x))

// exp_f32 of 16 numbers; one scaling that rounds once, in place of two factors.
static inline __m512 exp_vector(__m512 x) {
  const __m512 round = _mm512_set1_ps(0x1.8p23f);
  __m512 c = _mm512_max_ps(_mm512_set1_ps(-104.0f), _mm512_min_ps(_mm512_set1_ps(89.0f), x));
  __m512 n = _mm512_sub_ps(_mm512_fmadd_ps(c, _mm512_set1_ps(0x1.715476p+0f), round), round);
  __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0x1.62e4p-1f), c);
  r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0x1.7f7d1cp-20f), r);
  __m512 q = _mm512_set1_ps(0x1.6a2430p-10f);
  q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(0x1.1239e4p-7f));
  q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(0x1.5558f2p-5f));
  q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(0x1.555492p-3f));
  q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(0x1.fffffcp-2f));
  __m512 p = _mm512_fmadd_ps(_mm512_mul_ps(r, r), q, r);
  return _mm512_scalef_ps(_mm512_add_ps(_mm512_set1_ps(1.0f), p), n);
}

#include "tiles_rows.h"

const cpu_set cpu_set_avx512 = {
    .name = "avx512", .f32 = &f32, .f64 = &f64, .i32 = &i32, .rows = &rows};
