// AVX2, FMA and F16C.

// ---- Optional ----
#include <immintrin.h>

#include "tiles_pack.h"

#define VECTOR_BYTES 32
#define BLOCK_ROWS 6
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
      for (; i + 8 <= count; i += 8)
        _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(from + i))));
      for (; i < count; ++i) to[i] = _cvtsh_ss(from[i]);
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
DEFINE_PRODUCT(f32, 16, 4)
DEFINE_PRODUCT(f64, 8, 8)
DEFINE_PRODUCT(i32, 16, 4)

// ---- Optional: 8-bit integers as pairs of 16-bit ones: each pair of products fits 32 bits ----

static bool pack_i16_left(void *out, const void *row, uint32_t dtype, uint32_t count) {
  int16_t *to = out;
  if (dtype == HAL_DTYPE_I8) {
    for (uint32_t i = 0; i < count; ++i) to[i] = ((const int8_t *)row)[i];
  } else {
    for (uint32_t i = 0; i < count; ++i) to[i] = ((const uint8_t *)row)[i];
  }
  return true;
}

static bool pack_i16_right(void *out, size_t panel_bytes, const void *first, int64_t pitch,
                           uint32_t dtype, uint32_t depth, uint32_t columns) {
  for (uint32_t l = 0; l < depth; l += 2) {
    for (uint32_t n = 0; n < columns; n += 16) {
      uint32_t width = columns - n < 16 ? columns - n : 16;
      int16_t above[16] = {0}, below[16] = {0};
      const uint8_t *row = (const uint8_t *)first + (int64_t)l * pitch + n;
      pack_i16_left(above, row, dtype, width);
      if (l + 1 < depth) pack_i16_left(below, row + pitch, dtype, width);
      uint32_t *to = (uint32_t *)((uint8_t *)out + n / 16 * panel_bytes) + (size_t)l / 2 * 16;
      for (int j = 0; j < 16; ++j) to[j] = (uint16_t)above[j] | (uint32_t)(uint16_t)below[j] << 16;
    }
  }
  return true;
}

static inline __attribute__((always_inline)) void block_i16(const uint8_t *a, const __m256i *b,
                                                            uint32_t depth, int32_t *d,
                                                            int64_t pitch, uint32_t columns,
                                                            bool add, const uint32_t rows) {
  __m256i sum[BLOCK_ROWS][2];
#pragma GCC unroll 8
  for (uint32_t i = 0; i < rows; ++i) sum[i][0] = sum[i][1] = _mm256_setzero_si256();
  for (uint32_t l = 0; l < depth; l += 2, b += 2, a += 4) {
    __m256i near = _mm256_loadu_si256(b), far = _mm256_loadu_si256(b + 1);
#pragma GCC unroll 8
    for (uint32_t i = 0; i < rows; ++i) {
      int32_t pair;
      memcpy(&pair, a + (size_t)i * CPU_ROW_BYTES, 4);
      __m256i both = _mm256_set1_epi32(pair);
      sum[i][0] = _mm256_add_epi32(sum[i][0], _mm256_madd_epi16(both, near));
      sum[i][1] = _mm256_add_epi32(sum[i][1], _mm256_madd_epi16(both, far));
    }
  }
  for (uint32_t i = 0; i < rows; ++i) {
    uint32_t room[16];
    memcpy(room, sum[i], sizeof(room));
    for (uint32_t n = 0; n < columns; ++n)
      d[i * pitch + n] = (int32_t)(add ? (uint32_t)d[i * pitch + n] + room[n] : room[n]);
  }
}

static void multiply_i16(const void *left, int64_t step, const void *right, int64_t line,
                         uint32_t depth, void *target, int64_t pitch, uint32_t rows,
                         uint32_t columns, bool add) {
  (void)step;  // The left rows are packed.
  (void)line;
  for (uint32_t i = rows == BLOCK_ROWS ? rows : 0; i < rows; ++i)
    block_i16((const uint8_t *)left + (size_t)i * CPU_ROW_BYTES, right, depth,
              (int32_t *)target + i * pitch, pitch, columns, add, 1);
  if (rows == BLOCK_ROWS) block_i16(left, right, depth, target, pitch, columns, add, BLOCK_ROWS);
}

static const cpu_product i16 = {.value_bytes = 2,
                                .group = 2,
                                .depth_multiple = 2,
                                .rows = BLOCK_ROWS,
                                .columns = 16,
                                .pack_left = pack_i16_left,
                                .pack_right = pack_i16_right,
                                .multiply = multiply_i16};

static void narrow_f16(uint16_t *out, const float *x, size_t n) {
  size_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm_storeu_si128((__m128i *)(void *)(out + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
  for (; i < n; ++i) out[i] = _cvtss_sh(x[i], _MM_FROUND_TO_NEAREST_INT);
}

#define STREAM_LANES(to, value) _mm256_stream_ps(to, (__m256)(value))
#define LARGER_LANES(x, y) (lanes) _mm256_max_ps((__m256)(x), (__m256)(y))
#define SMALLER_LANES(x, y) (lanes) _mm256_min_ps((__m256)(x), (__m256)(y))
#define HAVE_NAN(x, y) _mm256_movemask_ps(_mm256_cmp_ps((__m256)(x), (__m256)(y), _CMP_UNORD_Q))
#define SUM_OF_LANES(x) sum_vector((__m256)(x))
#define LARGEST_OF_LANES(x) largest_of_vector((__m256)(x))

static inline float sum_vector(__m256 x) {
  __m128 half = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  half = _mm_add_ps(half, _mm_movehl_ps(half, half));
  return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
}

static inline float largest_of_vector(__m256 x) {
  __m128 half = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  half = _mm_max_ps(half, _mm_movehl_ps(half, half));
  return _mm_cvtss_f32(_mm_max_ss(half, _mm_movehdup_ps(half)));
}

#include "tiles_rows.h"

const cpu_set cpu_set_avx2 = {
    .name = "avx2", .f32 = &f32, .f64 = &f64, .i32 = &i32, .i8 = &i16, .rows = &rows};
