// AVX-512 BF16 and VNNI: dot products of two bf16 or four 8-bit integers in each lane.

// ---- Optional ----
#include <immintrin.h>

#include "tiles_dot.h"

enum { ROWS = 14 };

// A block by one of the two instructions; sums are read as 32 bits.
#define DEFINE_DOT(name, vector, zero, group, dot)                                             \
  static inline __attribute__((always_inline)) void name##_block(                              \
      const uint8_t *a, const uint8_t *b, uint32_t depth, vector room[ROWS][2],                \
      const uint32_t rows) {                                                                   \
    vector sum[ROWS][2];                                                                       \
    _Pragma("GCC unroll 16") for (uint32_t i = 0; i < rows; ++i) sum[i][0] = sum[i][1] = zero; \
    for (uint32_t l = 0; l < depth; l += group, b += 128, a += 4) {                            \
      __m512i near = _mm512_loadu_si512(b), far = _mm512_loadu_si512(b + 64);                  \
      _Pragma("GCC unroll 16") for (uint32_t i = 0; i < rows; ++i) {                           \
        int32_t bits;                                                                          \
        memcpy(&bits, a + (size_t)i * CPU_ROW_BYTES, 4);                                       \
        __m512i all = _mm512_set1_epi32(bits);                                                 \
        sum[i][0] = dot(sum[i][0], all, near);                                                 \
        sum[i][1] = dot(sum[i][1], all, far);                                                  \
      }                                                                                        \
    }                                                                                          \
    _Pragma("GCC unroll 16") for (uint32_t i = 0; i < rows; ++i) {                             \
      room[i][0] = sum[i][0];                                                                  \
      room[i][1] = sum[i][1];                                                                  \
    }                                                                                          \
  }                                                                                            \
  static void name##_rows(const uint8_t *a, const uint8_t *b, uint32_t depth,                  \
                          vector room[ROWS][2], uint32_t rows) {                               \
    if (rows == ROWS) {                                                                        \
      name##_block(a, b, depth, room, ROWS);                                                   \
      return;                                                                                  \
    }                                                                                          \
    uint32_t i = 0;                                                                            \
    for (; i + 4 <= rows; i += 4)                                                              \
      name##_block(a + (size_t)i * CPU_ROW_BYTES, b, depth, room + i, 4);                      \
    for (; i < rows; ++i) name##_block(a + (size_t)i * CPU_ROW_BYTES, b, depth, room + i, 1);  \
  }

#define DOT_BF16(sum, left, right) _mm512_dpbf16_ps(sum, (__m512bh)(left), (__m512bh)(right))
DEFINE_DOT(bf16, __m512, _mm512_setzero_ps(), 2, DOT_BF16)
DEFINE_DOT(i8, __m512i, _mm512_setzero_si512(), 4, _mm512_dpbusd_epi32)

static inline __mmask16 mask_of(uint32_t columns, uint32_t first) {
  return columns <= first        ? 0
         : columns - first >= 16 ? 0xFFFF
                                 : (__mmask16)((1u << (columns - first)) - 1);
}

static void multiply_bf16(const void *left, int64_t step, const void *right, int64_t line,
                          uint32_t depth, void *target, int64_t pitch, uint32_t rows,
                          uint32_t columns, bool add) {
  (void)step;  // The left rows are packed.
  (void)line;
  __m512 room[ROWS][2];
  bf16_rows(left, right, depth, room, rows);
  for (uint32_t i = 0; i < rows; ++i) {
    for (uint32_t half = 0; half < 2; ++half) {
      float *d = (float *)target + i * pitch + 16 * half;
      __mmask16 mask = mask_of(columns, 16 * half);
      __m512 sum = room[i][half];
      if (add) sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(mask, d));
      _mm512_mask_storeu_ps(d, mask, sum);
    }
  }
}

static void multiply_i8(const void *left, int64_t step, const void *right, int64_t line,
                        uint32_t depth, void *target, int64_t pitch, uint32_t rows,
                        uint32_t columns, bool add) {
  (void)step;  // The left rows are packed.
  (void)line;
  __m512i room[ROWS][2];
  i8_rows(left, right, depth, room, rows);
  for (uint32_t i = 0; i < rows; ++i) {
    for (uint32_t half = 0; half < 2; ++half) {
      int32_t *d = (int32_t *)target + i * pitch + 16 * half;
      __mmask16 mask = mask_of(columns, 16 * half);
      __m512i sum = room[i][half];
      if (add) sum = _mm512_add_epi32(sum, _mm512_maskz_loadu_epi32(mask, d));
      _mm512_mask_storeu_epi32(d, mask, sum);
    }
  }
}

const cpu_product cpu_avx512_bf16 = {.value_bytes = 2,
                                     .group = 2,
                                     .depth_multiple = 2,
                                     .rows = ROWS,
                                     .columns = DOT_COLUMNS,
                                     .pack_left = pack_bf16_left,
                                     .pack_right = pack_bf16_right,
                                     .multiply = multiply_bf16};
const cpu_product cpu_avx512_i8 = {.value_bytes = 1,
                                   .group = 4,
                                   .depth_multiple = 4,
                                   .rows = ROWS,
                                   .columns = DOT_COLUMNS,
                                   .shifts = true,
                                   .pack_left = pack_i8_left,
                                   .pack_right = pack_i8_right,
                                   .multiply = multiply_i8};
