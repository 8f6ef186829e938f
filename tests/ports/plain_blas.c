// A BLAS of two functions, slow and right: what the port's operator is tested with.
#include <stdint.h>

enum { TRANSPOSED = 112, REFUSED_ROWS = 13 };

#define DEFINE_GEMM(name, type)                                                                \
  void name(int order, int turn_a, int turn_b, int m, int n, int k, type alpha, const type *a, \
            int a_pitch, const type *b, int b_pitch, type beta, type *c, int c_pitch) {        \
    (void)order;                                                                               \
    for (int64_t i = 0; i < m; ++i) {                                                          \
      for (int64_t j = 0; j < n; ++j) {                                                        \
        type sum = 0;                                                                          \
        for (int64_t l = 0; l < k; ++l)                                                        \
          sum += (turn_a == TRANSPOSED ? a[l * a_pitch + i] : a[i * a_pitch + l]) *            \
                 (turn_b == TRANSPOSED ? b[j * b_pitch + l] : b[l * b_pitch + j]);             \
        type before = beta == 0 ? 0 : beta * c[i * c_pitch + j];                               \
        c[i * c_pitch + j] = alpha * sum + before;                                             \
      }                                                                                        \
    }                                                                                          \
  }
DEFINE_GEMM(scipy_cblas_sgemm, float)
DEFINE_GEMM(scipy_cblas_dgemm, double)

// The same for f32 as oneDNN offers it; compiled with -DONEDNN alone, so that a library has one of
// the two interfaces that the port looks for. As oneDNN does, it leaves C alone where the depth is
// zero, refuses pitches that are too small, and takes the threads from OpenMP: a product of single
// numbers gives their count here.
#ifdef ONEDNN
static int threads = 7;
static int pauses;

int plain_blas_pauses(void) {
  return pauses;
}

int omp_get_initial_device(void) {
  return 5;
}

int omp_pause_resource(int kind, int device) {
  pauses += kind == 1 && device == 5;
  return 0;
}

int omp_get_max_threads(void) {
  return threads;
}

void omp_set_num_threads(int count) {
  threads = count;
}

int dnnl_sgemm(char turn_a, char turn_b, int64_t m, int64_t n, int64_t k, float alpha,
               const float *a, int64_t a_pitch, const float *b, int64_t b_pitch, float beta,
               float *c, int64_t c_pitch) {
  if (m == REFUSED_ROWS || a_pitch < (turn_a == 'T' ? m : k) || b_pitch < (turn_b == 'T' ? k : n) ||
      c_pitch < n) {
    return 2;
  }
  if (m == 1 && n == 1 && k == 1) {
    *c = (float)threads;
  } else if (k > 0) {
    scipy_cblas_sgemm(101, turn_a == 'T' ? TRANSPOSED : 111, turn_b == 'T' ? TRANSPOSED : 111,
                      (int)m, (int)n, (int)k, alpha, a, (int)a_pitch, b, (int)b_pitch, beta, c,
                      (int)c_pitch);
  }
  return 0;
}
#endif
