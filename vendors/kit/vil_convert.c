// Rows of elements between the element types and the types that arithmetic runs in: f32, f64, i64.
// Every conversion to a float type rounds once, to nearest even (docs/vil.md, section 5.4).
#include <math.h>
#include <string.h>

#include "vil_launch.h"

typedef struct float_format {
  int mantissa_bits, bias;
  uint32_t infinity, nan;  // Bits; a format without infinity gives its NaN for both.
  double largest;
  uint32_t sign;
  uint32_t largest_bits;
} float_format;

static const float_format f16_format = {10, 15, 0x7C00, 0x7E00, 65504.0, 0x8000, 0x7BFF};
static const float_format bf16_format = {7, 127, 0x7F80, 0x7FC0, 0x1.FEp127, 0x8000, 0x7F7F};
static const float_format f8e4m3_format = {3, 7, 0x7F, 0x7F, 448.0, 0x80, 0x7E};
static const float_format f8e5m2_format = {2, 15, 0x7C, 0x7E, 57344.0, 0x80, 0x7B};

static double from_bits(uint64_t bits) {
  double value;
  memcpy(&value, &bits, 8);
  return value;
}

static double power_of_two(int exponent) {
  return from_bits((uint64_t)(exponent + 1023) << 52);
}

// One rounding to nearest even, whatever the format.
static uint32_t encode(double value, const float_format *format, int saturate) {
  uint64_t bits;
  memcpy(&bits, &value, 8);
  uint32_t sign = bits >> 63 ? format->sign : 0;
  if (value != value) return sign | format->nan;
  double size = fabs(value);
  int exponent = (int)((bits >> 52) & 0x7FF) - 1023;
  if (exponent < 1 - format->bias) exponent = 1 - format->bias;
  if (exponent > 1022) return sign | (saturate ? format->largest_bits : format->infinity);
  double steps = rint(size * power_of_two(format->mantissa_bits - exponent));
  if (steps * power_of_two(exponent - format->mantissa_bits) > format->largest) {
    return sign | (saturate ? format->largest_bits : format->infinity);
  }
  uint32_t whole = (uint32_t)steps, hidden = 1u << format->mantissa_bits;
  if (whole < hidden) return sign | whole;
  return sign | (((uint32_t)(exponent + format->bias) << format->mantissa_bits) + (whole - hidden));
}

static double decode(uint32_t bits, const float_format *format, int exponent_bits) {
  uint32_t mantissa_mask = (1u << format->mantissa_bits) - 1, mantissa = bits & mantissa_mask;
  int exponent = (int)((bits >> format->mantissa_bits) & ((1u << exponent_bits) - 1));
  double value;
  if (exponent == 0) {
    value = mantissa * power_of_two(1 - format->bias - format->mantissa_bits);
  } else {
    value = (mantissa + mantissa_mask + 1) *
            power_of_two(exponent - format->bias - format->mantissa_bits);
  }
  if (format == &f8e4m3_format) {
    if ((bits & 0x7F) == 0x7F) value = NAN;
  } else if (exponent == (1 << exponent_bits) - 1) {
    value = mantissa ? NAN : INFINITY;
  }
  return bits & format->sign ? -value : value;
}

static float f16_to_f32(uint16_t half) {
  uint32_t sign = (uint32_t)(half & 0x8000) << 16, rest = half & 0x7FFF, bits;
  float value;
  if (rest >= 0x7C00) {
    bits = sign | 0x7F800000u | (rest & 0x3FF) << 13;
  } else if (rest >= 0x400) {
    bits = sign | ((rest << 13) + (112u << 23));
  } else {
    value = (float)rest * 0x1p-24f;
    memcpy(&bits, &value, 4);
    bits |= sign;
  }
  memcpy(&value, &bits, 4);
  return value;
}

static float bf16_to_f32(uint16_t half) {
  uint32_t bits = (uint32_t)half << 16;
  float value;
  memcpy(&value, &bits, 4);
  return value;
}

void vil_to_f32(float *out, const void *in, uint32_t dtype, uint64_t count) {
  switch (dtype) {
    case HAL_DTYPE_F32:
      memcpy(out, in, count * 4);
      break;
    case HAL_DTYPE_F16:
      for (uint64_t i = 0; i < count; i++) out[i] = f16_to_f32(((const uint16_t *)in)[i]);
      break;
    case HAL_DTYPE_BF16:
      for (uint64_t i = 0; i < count; i++) out[i] = bf16_to_f32(((const uint16_t *)in)[i]);
      break;
    case HAL_DTYPE_F8E4M3:
      for (uint64_t i = 0; i < count; i++)
        out[i] = (float)decode(((const uint8_t *)in)[i], &f8e4m3_format, 4);
      break;
    default:
      for (uint64_t i = 0; i < count; i++)
        out[i] = (float)decode(((const uint8_t *)in)[i], &f8e5m2_format, 5);
      break;
  }
}

// To f64 so that a later rounding to a narrower type is that of the integer: inexact results get an
// odd last bit.
static double i64_to_odd(int64_t value) {
  double nearest = (double)value;
  if (nearest >= 0x1p63) return from_bits(0x43DFFFFFFFFFFFFFull);  // Just below 2^63, last bit odd.
  int64_t back = (int64_t)nearest;
  if (back == value) return nearest;
  uint64_t bits;
  memcpy(&bits, &nearest, 8);
  if ((nearest > 0) == (back > value)) bits -= 1;  // Towards zero.
  return from_bits(bits | 1);
}

void vil_to_f64(double *out, const void *in, uint32_t dtype, uint64_t count) {
  for (uint64_t i = 0; i < count; i++) {
    switch (dtype) {
      case HAL_DTYPE_F64:
        out[i] = ((const double *)in)[i];
        break;
      case HAL_DTYPE_F32:
        out[i] = (double)((const float *)in)[i];
        break;
      case HAL_DTYPE_F16:
        out[i] = (double)f16_to_f32(((const uint16_t *)in)[i]);
        break;
      case HAL_DTYPE_BF16:
        out[i] = (double)bf16_to_f32(((const uint16_t *)in)[i]);
        break;
      case HAL_DTYPE_F8E4M3:
        out[i] = decode(((const uint8_t *)in)[i], &f8e4m3_format, 4);
        break;
      case HAL_DTYPE_F8E5M2:
        out[i] = decode(((const uint8_t *)in)[i], &f8e5m2_format, 5);
        break;
      case HAL_DTYPE_I64:
        out[i] = i64_to_odd(((const int64_t *)in)[i]);
        break;
      default:
        out[i] = (double)vil_read_int((const uint8_t *)in + i * vil_dtype_bytes(dtype), dtype);
        break;
    }
  }
}

int64_t vil_read_int(const void *at, uint32_t dtype) {
  switch (dtype) {
    case HAL_DTYPE_I8:
      return *(const int8_t *)at;
    case HAL_DTYPE_I32:
      return *(const int32_t *)at;
    case HAL_DTYPE_I64:
      return *(const int64_t *)at;
    default:
      return *(const uint8_t *)at;
  }
}

void vil_to_i64(int64_t *out, const void *in, uint32_t dtype, uint64_t count) {
  switch (dtype) {
    case HAL_DTYPE_I8:
      for (uint64_t i = 0; i < count; i++) out[i] = ((const int8_t *)in)[i];
      break;
    case HAL_DTYPE_I32:
      for (uint64_t i = 0; i < count; i++) out[i] = ((const int32_t *)in)[i];
      break;
    case HAL_DTYPE_I64:
      memcpy(out, in, count * 8);
      break;
    default:
      for (uint64_t i = 0; i < count; i++) out[i] = ((const uint8_t *)in)[i];
      break;
  }
}

static float f64_to_f32(double value, int saturate) {
  float narrow = (float)value;
  if (saturate && isinf(narrow)) return copysignf(0x1.FFFFFEp127f, narrow);
  return narrow;
}

void vil_from_f64(void *out, uint32_t dtype, const double *in, uint64_t count, int saturate) {
  for (uint64_t i = 0; i < count; i++) {
    switch (dtype) {
      case HAL_DTYPE_F64:
        ((double *)out)[i] =
            saturate && isinf(in[i]) ? copysign(0x1.FFFFFFFFFFFFFp1023, in[i]) : in[i];
        break;
      case HAL_DTYPE_F32:
        ((float *)out)[i] = f64_to_f32(in[i], saturate);
        break;
      case HAL_DTYPE_F16:
        ((uint16_t *)out)[i] = (uint16_t)encode(in[i], &f16_format, saturate);
        break;
      case HAL_DTYPE_BF16:
        ((uint16_t *)out)[i] = (uint16_t)encode(in[i], &bf16_format, saturate);
        break;
      case HAL_DTYPE_F8E4M3:
        ((uint8_t *)out)[i] = (uint8_t)encode(in[i], &f8e4m3_format, saturate);
        break;
      default:
        ((uint8_t *)out)[i] = (uint8_t)encode(in[i], &f8e5m2_format, saturate);
        break;
    }
  }
}

static uint16_t f32_to_bf16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, 4);
  if (value != value) return (uint16_t)(bits >> 16 & 0x8000) | 0x7FC0;
  return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

void vil_from_f32(void *out, uint32_t dtype, const float *in, uint64_t count) {
  if (dtype == HAL_DTYPE_F32) {
    memmove(out, in, count * 4);
  } else if (dtype == HAL_DTYPE_BF16) {
    for (uint64_t i = 0; i < count; i++) ((uint16_t *)out)[i] = f32_to_bf16(in[i]);
  } else {
    for (uint64_t i = 0; i < count; i++)
      ((uint16_t *)out)[i] = (uint16_t)encode((double)in[i], &f16_format, 0);
  }
}

void vil_from_i64(void *out, uint32_t dtype, const int64_t *in, uint64_t count) {
  switch (dtype) {
    case HAL_DTYPE_I8:
      for (uint64_t i = 0; i < count; i++) ((int8_t *)out)[i] = (int8_t)in[i];
      break;
    case HAL_DTYPE_I32:
      for (uint64_t i = 0; i < count; i++) ((int32_t *)out)[i] = (int32_t)in[i];
      break;
    case HAL_DTYPE_I64:
      memmove(out, in, count * 8);
      break;
    default:
      for (uint64_t i = 0; i < count; i++) ((uint8_t *)out)[i] = (uint8_t)in[i];
      break;
  }
}
