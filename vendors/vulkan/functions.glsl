// UN and BIN of one element (docs/vil.md, section 5.3). What IEEE leaves to the device, or the
// device to its driver, is computed here: elementary functions in double, rounded once to float.
#define NAN uintBitsToFloat(0x7FC00000u)
#define INFINITE uintBitsToFloat(0x7F800000u)
const double LN2 = 0.69314718055994530942lf, HALF_PI = 1.57079632679489661923lf;

double power_of_two(int k) { return packDouble2x32(uvec2(0u, uint(k + 1023) << 20)); }

// Series are written out: a loop costs turns of the budget (interpret.comp), unrolled or not.

// e^r · 2^k for |r| <= ln 2 / 2, by the series of e^r.
double grow(double r, double k) {
  double sum = 1.0lf;
#define TERM(n) sum = 1.0lf + sum * r / double(n);
  TERM(11) TERM(10) TERM(9) TERM(8) TERM(7) TERM(6) TERM(5) TERM(4) TERM(3) TERM(2) TERM(1)
#undef TERM
  return sum * power_of_two(int(k));
}
double exp_of(double x) {  // |x| is cut where f32 is 0 or infinite anyway.
  x = clamp(x, -200.0lf, 200.0lf);
  double k = floor(x / LN2 + 0.5lf);
  return grow(x - k * LN2, k);
}
double log_of(double x) {  // x > 0 and normal in double; by the series of 2 artanh.
  uvec2 bits = unpackDouble2x32(x);
  int e = int(bits.y >> 20) - 1023;
  double m = packDouble2x32(uvec2(bits.x, (bits.y & 0xFFFFFu) | 0x3FF00000u));
  if (m > 1.41421356lf) {
    m *= 0.5lf;
    ++e;
  }
  double s = (m - 1.0lf) / (m + 1.0lf), sum = 0.0lf;
#define TERM(n) sum = sum * s * s + 1.0lf / double(n);
  TERM(17) TERM(15) TERM(13) TERM(11) TERM(9) TERM(7) TERM(5) TERM(3) TERM(1)
#undef TERM
  return 2.0lf * s * sum + double(e) * LN2;
}

// log, with the special values; `unit` is 1 or ln 2.
float log_in(float x, double unit) {
  if (is_nan(x) || x < 0.0) return NAN;
  if (x == 0.0) return -INFINITE;
  return x == INFINITE ? x : float(log_of(double(x)) / unit);
}

// The 32 bits of 2 / pi from bit `first` on, counted from 1 behind the point; bits before are 0.
const uint TWO_OVER_PI[11] = uint[11](0u, 0u, 0xA2F9836Eu, 0x4E441529u, 0xFC2757D1u, 0xF534DDC0u,
                                      0xDB629599u, 0x3C439041u, 0xFE5163ABu, 0xDEBBC561u,
                                      0xB7246E3Au);
uint word_of(int first) {
  uint n = uint(first + 63), shift = n & 31;
  uint high = TWO_OVER_PI[n >> 5], low = TWO_OVER_PI[(n >> 5) + 1];
  return shift == 0 ? high : high << shift | low >> (32 - shift);
}

// sin(x + quarter · pi / 2). |x| = m · 2^e; m times the bits of 2 / pi from bit e − 1 on is |x| in
// quarter turns, modulo 4, with 62 bits behind the point.
float sine(float x, uint quarter) {
  uint bits = floatBitsToUint(x) & 0x7FFFFFFFu;
  if (bits >= 0x7F800000u) return NAN;
  if (bits < 0x39000000u && quarter == 0) return x;
  double r = double(x);
  if (bits >= 0x3F000000u) {
    int e = int(bits >> 23) - 150;
    uint64_t m = (bits & 0x7FFFFFu) | 0x800000u;
    uint64_t turns = m * (uint64_t(word_of(e - 1)) << 32 | word_of(e + 31)) +
                     (m * word_of(e + 63) >> 32);
    uint64_t whole = (turns + (HIGHEST >> 2)) >> 62;
    r = double(int64_t(turns - (whole << 62))) * (HALF_PI / 4611686018427387904.0lf);
    uint count = uint(whole);
    if (x < 0.0) {
      r = -r;
      count = 4 - count;
    }
    quarter += count;
  }
  double s = r * r, result = 1.0lf;
#define TERM(n) result = 1.0lf - result * s / double((n) * (n + 1));
  if ((quarter & 1) == 0) {
    TERM(12) TERM(10) TERM(8) TERM(6) TERM(4) TERM(2)
    result *= r;
  } else {
    TERM(13) TERM(11) TERM(9) TERM(7) TERM(5) TERM(3) TERM(1)
  }
#undef TERM
  return float((quarter & 2) == 0 ? result : -result);
}

float tanh_of(float x) {
  double y = abs(double(x)), t = exp_of(2.0lf * min(y, 20.0lf));
  double result = y < 0.004lf ? y - y * y * y / 3.0lf : (t - 1.0lf) / (t + 1.0lf);
  return is_nan(x) || x == 0.0 ? x : float(x < 0.0 ? -result : result);
}

// 2 / sqrt(pi) · e^(−x²) · Σ x (2x²)^n / (1 · 3 · … · (2n + 1)): all terms have one sign.
float erf_of(float x) {
  double y = min(abs(double(x)), 4.0lf), sum = 1.0lf;
  for (int n = 48; n > 0; --n) sum = 1.0lf + sum * 2.0lf * y * y / double(2 * n + 1);
  double result = 1.12837916709551257390lf * exp_of(-y * y) * y * sum;
  if (is_nan(x) || x == 0.0) return x;
  return float(x < 0.0 ? -result : result);
}

float pow_of(float x, float y) {
  if (y == 0.0 || x == 1.0) return 1.0;
  if (is_nan(x) || is_nan(y)) return NAN;
  float size = abs(x), power = abs(y);
  bool whole = power >= 16777216.0 || floor(power) == power;
  bool odd = whole && power < 16777216.0 && (uint(power) & 1) == 1;
  if (power == INFINITE) {
    if (size == 1.0) return 1.0;
    return (size > 1.0) == (y > 0.0) ? INFINITE : 0.0;
  }
  bool negative = (floatBitsToUint(x) >> 31) != 0 && odd;
  float result;
  if (size == 0.0 || size == INFINITE) {
    result = (size == 0.0) == (y > 0.0) ? 0.0 : INFINITE;
  } else if (x < 0.0 && !whole) {
    return NAN;
  } else {
    result = float(exp_of(double(y) * log_of(double(size))));
  }
  return negative ? -result : result;
}

// |x| = m · 2^e.
uint split(float x, out int e) {
  uint bits = floatBitsToUint(x) & 0x7FFFFFFFu;
  e = max(int(bits >> 23), 1) - 150;
  return bits >> 23 == 0 ? bits : (bits & 0x7FFFFFu) | 0x800000u;
}
float fmod_of(float x, float y) {
  uint xs = floatBitsToUint(x), ys = floatBitsToUint(y) & 0x7FFFFFFFu;
  if ((xs & 0x7FFFFFFFu) >= 0x7F800000u || ys > 0x7F800000u || ys == 0) return NAN;
  if ((xs & 0x7FFFFFFFu) < ys) return x;
  int ex, ey;
  uint64_t rest = split(x, ex);
  uint my = split(y, ey);
  rest %= my;
  for (int left = ex - ey; left > 0; left -= 32) rest = (rest << min(left, 32)) % my;
  double result = double(uint(rest)) * power_of_two(ey);
  return float(xs >> 31 == 0 ? result : -result);
}

float unary_float(uint f, float x) {
  uint bits = floatBitsToUint(x);
  if (HAS(NEG) && f == NEG) return uintBitsToFloat(bits ^ 0x80000000u);
  if (HAS(ABS) && f == ABS) return uintBitsToFloat(bits & 0x7FFFFFFFu);
  if (HAS(SIN) && f == SIN) return sine(x, 0);
  if (HAS(COS) && f == COS) return sine(x, 1);
  if (HAS(TANH) && f == TANH) return tanh_of(x);
  if (HAS(ERF) && f == ERF) return erf_of(x);
  if (HAS(LOG) && f == LOG) return log_in(x, 1.0lf);
  if (HAS(LOG2) && f == LOG2) return log_in(x, LN2);
  if (HAS(EXP) && f == EXP) return is_nan(x) ? x : float(exp_of(double(x)));
  if (HAS(EXP2) && f == EXP2) return is_nan(x) ? x : float(exp_of(double(x) * LN2));
  if (HAS(SQRT) && f == SQRT) return x < 0.0 ? NAN : x == 0.0 ? x : float(sqrt(double(x)));
  if (HAS(RSQRT) && f == RSQRT) {
    if (x == 0.0) return uintBitsToFloat(bits & 0x80000000u | 0x7F800000u);
    return x < 0.0 ? NAN : x == INFINITE ? 0.0 : float(1.0lf / sqrt(double(x)));
  }
  if (HAS(RCP) && f == RCP) {
    precise float result = 1.0 / x;
    return result;
  }
  if (HAS(FLOOR) && f == FLOOR) return floor(x);
  if (HAS(CEIL) && f == CEIL) return ceil(x);
  if (HAS(TRUNC) && f == TRUNC) return trunc(x);
  if (HAS(ROUND) && f == ROUND) return roundEven(x);
  return x;
}

float binary_float(uint f, float x, float y) {
  precise float result = x;
  if (HAS(ADD) && f == ADD) result = x + y;
  if (HAS(SUB) && f == SUB) result = x - y;
  if (HAS(MUL) && f == MUL) result = x * y;
  if (HAS(DIV) && f == DIV) result = x / y;
  if (HAS(MAX) && f == MAX) result = is_nan(x) || x > y ? x : y;
  if (HAS(MIN) && f == MIN) result = is_nan(x) || x < y ? x : y;
  if (HAS(POW) && f == POW) result = pow_of(x, y);
  if (HAS(FMOD) && f == FMOD) result = fmod_of(x, y);
  return result;
}

bool compare_float(uint f, float x, float y) {
  bool ordered = !is_nan(x) && !is_nan(y);
  if (f == LT) return ordered && x < y;
  if (f == LE) return ordered && x <= y;
  return (ordered && x == y) == (f == EQ);
}

// The upper 64 bits of the product of two i64.
int64_t upper(int64_t a, int64_t b) {
  uint64_t mask = 0xFFFFFFFFul, al = uint64_t(a) & mask, bl = uint64_t(b) & mask;
  int64_t ah = a >> 32, bh = b >> 32;
  int64_t middle = ah * int64_t(bl) + int64_t(al * bl >> 32);
  int64_t low = int64_t(uint64_t(middle) & mask) + int64_t(al) * bh;
  return ah * bh + (middle >> 32) + (low >> 32);
}

// BIN on integers, before the result is wrapped. Comparisons give 0 or 1. SREG arithmetic asks with
// `every`, for its functions are not in the masks.
#define WHEN(f, value) case f: if (every || HAS(f)) return value; break;
int64_t binary_int(const bool every, uint f, uint dtype, int64_t a, int64_t b) {
  uint width = width_of(dtype), shift = uint(b) & (width - 1);
  int64_t quotient = f == IDIV || f == IMOD ? floor_div(a, b) : int64_t(0);
  uint64_t bits = width == 64 ? uint64_t(a) : uint64_t(a) & ((uint64_t(1) << width) - 1);
  switch (f) {
    WHEN(ADD, a + b)
    WHEN(SUB, a - b)
    WHEN(MUL, a * b)
    WHEN(MAX, max(a, b))
    WHEN(MIN, min(a, b))
    WHEN(IDIV, quotient)
    WHEN(IMOD, b == 0 ? int64_t(0) : a - quotient * b)
    WHEN(AND, a & b)
    WHEN(OR, a | b)
    WHEN(XOR, a ^ b)
    WHEN(SHL, a << shift)
    WHEN(SHR, a >> shift)
    WHEN(SHRU, int64_t(bits >> shift))
    WHEN(MULHI, width == 64 ? upper(a, b) : a * b >> width)
    WHEN(LT, a < b ? 1 : 0)
    WHEN(LE, a <= b ? 1 : 0)
    WHEN(EQ, a == b ? 1 : 0)
    WHEN(NE, a != b ? 1 : 0)
  }
  return a;
}

int64_t unary_int(uint f, uint dtype, int64_t a) {
  if (f == NEG) return -a;
  if (f == ABS) return a < 0 ? -a : a;
  if (f == NOT) return dtype == BOOL ? a ^ 1 : ~a;
  return a;
}

// CAST (section 5.4) between f32, the integers and bool.
int64_t float_to_int(float x, uint dtype) {
  if (dtype == BOOL) return x != 0.0 || is_nan(x) ? 1 : 0;
  if (is_nan(x)) return 0;
  double cut = trunc(double(x));
  if (cut >= double(highest(dtype))) return highest(dtype);
  return cut <= double(lowest(dtype)) ? lowest(dtype) : int64_t(cut);
}
