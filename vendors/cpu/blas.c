// See blas.h. The interface is CBLAS with 32-bit integers: OpenBLAS as Debian installs it, or the
// wheel scipy-openblas32, whose symbols begin with scipy_. Where there is none, oneDNN's dnnl_sgemm
// serves f32 (oneAPI Deep Neural Network Library, developer guide, "BLAS functions").

// ---- Optional ----
#include "blas.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "kit_matmul.h"

enum { ROW_MAJOR = 101, PLAIN = 111, TRANSPOSED = 112 };  // CBLAS.

typedef void (*gemm_f32)(int order, int turn_a, int turn_b, int m, int n, int k, float alpha,
                         const float *a, int a_pitch, const float *b, int b_pitch, float beta,
                         float *c, int c_pitch);
typedef void (*gemm_f64)(int order, int turn_a, int turn_b, int m, int n, int k, double alpha,
                         const double *a, int a_pitch, const double *b, int b_pitch, double beta,
                         double *c, int c_pitch);

typedef int (*gemm_onednn)(char turn_a, char turn_b, int64_t m, int64_t n, int64_t k, float alpha,
                           const float *a, int64_t a_pitch, const float *b, int64_t b_pitch,
                           float beta, float *c, int64_t c_pitch);

static struct {
  gemm_f32 f32;
  gemm_f64 f64;  // NULL where the library has f32 alone.
  gemm_onednn onednn;
} blas;

static void run_onednn(int order, int turn_a, int turn_b, int m, int n, int k, float alpha,
                       const float *a, int a_pitch, const float *b, int b_pitch, float beta,
                       float *c, int c_pitch) {
  (void)order;
  blas.onednn(turn_a == PLAIN ? 'N' : 'T', turn_b == PLAIN ? 'N' : 'T', m, n, k, alpha, a, a_pitch,
              b, b_pitch, beta, c, c_pitch);
}

static void *find(void *library, const char *name) {
  char longer[80];
  void *symbol = dlsym(library, name);
  snprintf(longer, sizeof(longer), "scipy_%s", name);
  return symbol != NULL ? symbol : dlsym(library, longer);
}

static bool take(const char *path, uint32_t threads) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    return false;
  }
  void *single = find(library, "cblas_sgemm"), *wide = find(library, "cblas_dgemm");
  void *share = find(library, "openblas_set_num_threads");
  void *onednn = dlsym(library, "dnnl_sgemm");
  if (onednn != NULL) {
    memcpy(&blas.onednn, &onednn, sizeof(onednn));
    blas.f32 = run_onednn;
    return true;
  }
  if (single == NULL || wide == NULL) {
    dlclose(library);
    return false;
  }
  memcpy(&blas.f32, &single, sizeof(single));
  memcpy(&blas.f64, &wide, sizeof(wide));
  if (share != NULL) {
    void (*set_threads)(int) = NULL;
    memcpy(&set_threads, &share, sizeof(share));
    set_threads((int)threads);
  }
  return true;
}

bool cpu_blas_start(const char *path, uint32_t threads) {
  static const char *const names[] = {"libopenblas.so.0", "libblas.so.3", "libdnnl.so.3",
                                      "libdnnl.so.2"};
  memset(&blas, 0, sizeof(blas));
  if (path != NULL) {
    if (strcmp(path, "none") == 0 || take(path, threads)) {
      return blas.f32 != NULL;
    }
    kit_log(HAL_LOG_WARNING, "blas=%s is no BLAS: %s", path,
            "it lacks cblas_sgemm and dnnl_sgemm, or cannot load");
    return false;
  }
  for (size_t i = 0; i < sizeof(names) / sizeof(*names); ++i) {
    if (take(names[i], threads)) {
      return true;
    }
  }
  return false;
}

static uint64_t types(void) {
  return 1ull << HAL_DTYPE_F32 | (uint64_t)(blas.f64 != NULL) << HAL_DTYPE_F64;
}

int32_t cpu_blas_info(kit_device *device, uint32_t index, hal_operator_info *out_info) {
  (void)device;
  return kit_matmul_info(index, blas.f32 != NULL, types(), out_info);
}

int32_t cpu_blas_supports(kit_device *device, const hal_operator_desc *desc,
                          uint64_t *out_workspace_bytes) {
  (void)device;
  *out_workspace_bytes = 0;
  return kit_matmul_supports(
      desc,
      blas.f32 != NULL ? NULL
                       : "no BLAS was found; install scipy-openblas32, or name one by HAL_CPU_BLAS",
      types());
}

static int turn(const kit_matrix *matrix) {
  return matrix->is_transposed ? TRANSPOSED : PLAIN;
}

int32_t cpu_blas_run(kit_device *device, const kit_operator *use) {
  (void)device;
  kit_matmul p;
  kit_matmul_read(use, &p);
  for (uint64_t i = 0; i < p.count && p.m > 0 && p.n > 0; ++i) {
    int64_t at = (int64_t)i;
    if (p.dtype == HAL_DTYPE_F32) {
      blas.f32(ROW_MAJOR, turn(&p.a), turn(&p.b), p.m, p.n, p.k, (float)p.alpha,
               (const float *)use->data[0] + at * p.a.step, p.a.pitch,
               (const float *)use->data[1] + at * p.b.step, p.b.pitch, (float)p.beta,
               (float *)use->data[2] + at * p.c.step, p.c.pitch);
    } else {
      blas.f64(ROW_MAJOR, turn(&p.a), turn(&p.b), p.m, p.n, p.k, p.alpha,
               (const double *)use->data[0] + at * p.a.step, p.a.pitch,
               (const double *)use->data[1] + at * p.b.step, p.b.pitch, p.beta,
               (double *)use->data[2] + at * p.c.step, p.c.pitch);
    }
  }
  return HAL_OK;
}
