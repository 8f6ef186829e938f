// libcublas.so.13 of the fake: products by three loops, in the order of their stream.
#include <stdlib.h>
#include <string.h>

#include "fake.h"

typedef struct handle {
  void *stream;
} handle;

typedef struct matrix {
  uint64_t data;
  int turn, type, pitch;
  long long step;
} matrix;

typedef struct product {
  matrix a, b, c;
  int m, n, k, count;
  double alpha, beta;
} product;

enum { R_32F = 0, R_64F = 1, R_16F = 2, R_16BF = 14, INVALID_VALUE = 7 };

static int bytes_of(int type) {
  return type == R_64F ? 8 : type == R_32F ? 4 : 2;
}

static double number_of(int type, const void *at) {
  if (type == R_64F) return *(const double *)at;
  if (type == R_32F) return *(const float *)at;
  uint32_t bits = *(const uint16_t *)at;
  float value;
  if (type == R_16BF) {
    bits <<= 16;
    memcpy(&value, &bits, 4);
    return value;
  }
  int exponent = bits >> 10 & 31;
  double size = exponent == 0    ? (double)(bits & 1023) / 16777216.0
                : exponent == 31 ? (bits & 1023 ? __builtin_nan("") : __builtin_inf())
                                 : __builtin_ldexp(1024 + (bits & 1023), exponent - 25);
  return bits >> 15 ? -size : size;
}

static void store(int type, void *at, double value) {
  if (type == R_64F) {
    *(double *)at = value;
  } else if (type == R_32F) {
    *(float *)at = (float)value;
  } else if (type == R_16BF) {
    float narrow = (float)value;
    uint32_t bits;
    memcpy(&bits, &narrow, 4);
    *(uint16_t *)at = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  } else {
    double size = value < 0 ? -value : value;
    int exponent = 0;
    while (size >= 2048 * __builtin_ldexp(1, exponent - 24) && exponent < 30) ++exponent;
    double unit = __builtin_ldexp(1, exponent - 24);
    uint32_t bits =
        size >= 65520 ? 0x7c00 : (uint32_t)(__builtin_nearbyint(size / unit) + 1024.0 * exponent);
    *(uint16_t *)at = (uint16_t)(bits | (value < 0 ? 0x8000u : 0));
  }
}

// Element of row i and column j of a matrix whose columns follow each other.
static char *element(const matrix *of, char *host, int batch, int i, int j) {
  long long row = of->turn ? j : i, column = of->turn ? i : j;
  return host + (batch * of->step + column * of->pitch + row) * bytes_of(of->type);
}

static int do_product(void *data) {
  const product *work = data;
  char *a = fake_host(work->a.data, 1), *b = fake_host(work->b.data, 1),
       *c = fake_host(work->c.data, 1);
  if (c == NULL || (work->k != 0 && (a == NULL || b == NULL))) return 700;
  for (int batch = 0; batch < work->count; ++batch) {
    for (int i = 0; i < work->m; ++i) {
      for (int j = 0; j < work->n; ++j) {
        double sum = 0;
        for (int p = 0; p < work->k; ++p) {
          sum += number_of(work->a.type, element(&work->a, a, batch, i, p)) *
                 number_of(work->b.type, element(&work->b, b, batch, p, j));
        }
        char *at = element(&work->c, c, batch, i, j);
        double old = work->beta == 0 ? 0 : work->beta * number_of(work->c.type, at);
        store(work->c.type, at, work->alpha * sum + old);
      }
    }
  }
  return 0;
}

FAKE_API int cublasCreate_v2(handle **out) {
  int code = fake_fault(__func__);
  *out = code == 0 ? calloc(1, sizeof(**out)) : NULL;
  return code;
}

FAKE_API int cublasDestroy_v2(handle *gone) {
  free(gone);
  return 0;
}

FAKE_API int cublasSetStream_v2(handle *of, void *stream) {
  of->stream = stream;
  return 0;
}

FAKE_API int cublasGemmStridedBatchedEx(handle *of, int turn_a, int turn_b, int m, int n, int k,
                                        const void *alpha, uint64_t a, int a_type, int a_pitch,
                                        long long a_step, uint64_t b, int b_type, int b_pitch,
                                        long long b_step, const void *beta, uint64_t c, int c_type,
                                        int c_pitch, long long c_step, int count, int compute,
                                        int algorithm) {
  (void)algorithm;
  int code = fake_fault(__func__);
  if (code != 0) return code;
  if (a_pitch < (turn_a ? k : m) || b_pitch < (turn_b ? n : k) || c_pitch < m ||
      compute != (c_type == R_64F ? 70 : 68)) {
    return INVALID_VALUE;
  }
  product work = {{a, turn_a, a_type, a_pitch, a_step},
                  {b, turn_b, b_type, b_pitch, b_step},
                  {c, 0, c_type, c_pitch, c_step},
                  m,
                  n,
                  k,
                  count,
                  number_of(c_type == R_64F ? R_64F : R_32F, alpha),
                  number_of(c_type == R_64F ? R_64F : R_32F, beta)};
  return fake_enqueue(of->stream, do_product, &work, sizeof(work)) == 0 ? 0 : 13;
}
