// Elementary functions of f32, written without branches so that the compiler makes vectors of loops
// over them. The error stays below the tolerance law (docs/vil.md, section 5.3): exp, log 3, sin,
// cos 4, tanh 5, erf 16 units in the last place; tests/ports/test_cpu_elements.py measures it.
//
// Arguments are reduced as by Cody and Waite ("Software Manual for the Elementary Functions",
// 1980): a multiple of the period is taken off in two parts, of which the first has so few bits
// that its product is exact. Polynomials are weighted minimax fits in a Chebyshev basis (Lawson's
// method).

// ---- Optional ----
#ifndef CPU_TILES_MATH_H_
#define CPU_TILES_MATH_H_

#include <math.h>
#include <stdint.h>
#include <string.h>

#define MATH static inline __attribute__((always_inline))

MATH float float_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, 4);
  return value;
}

MATH uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, 4);
  return bits;
}

// Adding it rounds to a whole number, which then stands in the lowest bits.
#define ROUND_F32 0x1.8p23f
#define LN2_HIGH 0x1.62e4p-1f
#define LN2_LOW 0x1.7f7d1cp-20f

// e^r · 2^n for |r| ≤ ln 2 / 2. Two factors, so that subnormal results are rounded once.
MATH float scaled_exp(float r, int32_t n) {
  float q = 0x1.6a2430p-10f;
  q = q * r + 0x1.1239e4p-7f;
  q = q * r + 0x1.5558f2p-5f;
  q = q * r + 0x1.555492p-3f;
  q = q * r + 0x1.fffffcp-2f;
  float p = 1.0f + (r + r * r * q);
  int32_t half = n >> 1;
  return p * float_of((uint32_t)(half + 127) << 23) * float_of((uint32_t)(n - half + 127) << 23);
}

MATH float exp_f32(float x) {
  float c = x > 89.0f ? 89.0f : x < -104.0f ? -104.0f : x;
  float t = c * 0x1.715476p+0f + ROUND_F32, n = t - ROUND_F32;
  float r = (c - n * LN2_HIGH) - n * LN2_LOW;
  return scaled_exp(r, (int32_t)(bits_of(t) - bits_of(ROUND_F32)));
}

MATH float exp2_f32(float x) {
  float c = x > 129.0f ? 129.0f : x < -151.0f ? -151.0f : x;
  float t = c + ROUND_F32, n = t - ROUND_F32;
  return scaled_exp((c - n) * 0x1.62e430p-1f, (int32_t)(bits_of(t) - bits_of(ROUND_F32)));
}

// x = m · 2^e with m in [√½, √2); gives log(m) and e.
MATH float log_parts(float x, float *out_exponent) {
  int small = x < 0x1p-126f;
  uint32_t bits = bits_of(small ? x * 0x1p23f : x);
  int32_t e = (int32_t)(bits - 0x3F3504F3u) >> 23;
  float f = float_of(bits - ((uint32_t)e << 23)) - 1.0f;
  float q = 0x1.14573ep-4f;
  q = q * f + -0x1.de3bf8p-4f;
  q = q * f + 0x1.e6f08cp-4f;
  q = q * f + -0x1.fc220ep-4f;
  q = q * f + 0x1.233766p-3f;
  q = q * f + -0x1.555c4ep-3f;
  q = q * f + 0x1.99a4b6p-3f;
  q = q * f + -0x1.000006p-2f;
  q = q * f + 0x1.555548p-2f;
  *out_exponent = (float)(small ? e - 23 : e);
  float square = f * f;
  return f + (square * f * q - 0.5f * square);
}

MATH float log_special(float x, float result) {
  result = x == INFINITY ? INFINITY : result;
  result = x == 0.0f ? -INFINITY : result;
  return x < 0.0f || x != x ? NAN : result;
}

MATH float log_f32(float x) {
  float e, m = log_parts(x, &e);
  return log_special(x, e * LN2_HIGH + (m + e * LN2_LOW));
}

MATH float log2_f32(float x) {
  float e, m = log_parts(x, &e);
  return log_special(x, e + (m + m * 0x1.c551dap-2f));
}

// ---- Optional: trigonometry ----

// Beyond it the callers take the C library.
#define TRIG_LIMIT 0x1p20f
#define ROUND_F64 0x1.8p52

// x − n · π/2, and n. In f64, since a result near 0 keeps its digits.
MATH float quarter_turns(float x, uint32_t *out_n) {
  double wide = (double)x, t = wide * 0x1.45f306dc9c883p-1 + ROUND_F64, n = t - ROUND_F64;
  uint64_t bits;
  memcpy(&bits, &t, 8);
  *out_n = (uint32_t)bits;
  return (float)((wide - n * 0x1.921fb544p+0) - n * 0x1.0b4611a626331p-34);
}

MATH float sin_or_cos(float r, uint32_t n) {
  float z = r * r;
  float s = 0x1.6cd732p-19f;
  s = s * z + -0x1.a00f98p-13f;
  s = s * z + 0x1.111108p-7f;
  s = s * z + -0x1.555556p-3f;
  float c = -0x1.241da2p-22f;
  c = c * z + 0x1.a010dap-16f;
  c = c * z + -0x1.6c16b8p-10f;
  c = c * z + 0x1.555556p-5f;
  float sine = r + r * z * s, cosine = (1.0f - 0.5f * z) + z * z * c;
  float result = n & 1 ? cosine : sine;
  return float_of(bits_of(result) ^ (n & 2) << 30);
}

MATH float sin_f32(float x) {
  uint32_t n;
  float r = quarter_turns(x, &n);
  return x == 0.0f ? x : sin_or_cos(r, n);
}

MATH float cos_f32(float x) {
  uint32_t n;
  float r = quarter_turns(x, &n);
  return sin_or_cos(r, n + 1);
}

// ---- Optional: tanh and erf ----

MATH float tanh_f32(float x) {
  float size = fabsf(x), z = x * x;
  float q = -0x1.75e1a8p-8f;
  q = q * z + 0x1.522692p-6f;
  q = q * z + -0x1.b83c58p-5f;
  q = q * z + 0x1.110726p-3f;
  q = q * z + -0x1.555532p-2f;
  float near = size + size * z * q;
  float far = 1.0f - 2.0f / (exp_f32(2.0f * (size > 10.0f ? 10.0f : size)) + 1.0f);
  float result = size < 0.625f ? near : far;
  return x != x ? x : copysignf(result, x);
}

MATH float erf_f32(float x) {
  float size = fabsf(x), z = x * x;
  float q = 0x1.496a28p-14f;
  q = q * z + -0x1.a3f6fcp-11f;
  q = q * z + 0x1.5405b2p-8f;
  q = q * z + -0x1.b7f90cp-6f;
  q = q * z + 0x1.ce2cf8p-4f;
  q = q * z + -0x1.81273ep-2f;
  q = q * z + 0x1.20dd74p+0f;
  float near = size * q;
  float t = size > 4.0f ? 4.0f : size;  // erfc(t) = e^p
  float p = -0x1.6bd850p-16f;
  p = p * t + 0x1.cec656p-12f;
  p = p * t + -0x1.138cd8p-8f;
  p = p * t + 0x1.9d0318p-6f;
  p = p * t + -0x1.bc151ep-4f;
  p = p * t + -0x1.443566p-1f;
  p = p * t + -0x1.212c0ep+0f;
  p = p * t + 0x1.8a5956p-13f;
  float far = 1.0f - exp_f32(p);
  float result = size < 1.0f ? near : far;
  return x != x ? x : copysignf(result, x);
}

#endif  // CPU_TILES_MATH_H_
