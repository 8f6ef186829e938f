// See blas.h. Two interfaces are known: CBLAS with 32-bit integers (OpenBLAS as Debian installs it,
// or the wheel scipy-openblas32, whose symbols begin with scipy_), and oneDNN's dnnl_sgemm (oneAPI
// Deep Neural Network Library, developer guide, "BLAS functions").

// ---- Optional ----
#include "blas.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "kit_matmul.h"

enum { ROW_MAJOR = 101, PLAIN = 111, TRANSPOSED = 112 };  // CBLAS.
enum { PAUSE_SOFT = 1, OTHERS_MOST = 16 };                // OpenMP 5.0, 3.2.44.

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
  gemm_f32 f32;  // With f64, or both NULL.
  gemm_f64 f64;
  gemm_onednn onednn;  // Serves f32 where it is.
  int threads;
} blas;

// What oneDNN shares its products by; NULL where its runtime lacks it. OpenMP counts threads by the
// caller and keeps a team of them for each.
static struct {
  int (*threads)(void);
  void (*set_threads)(int);
  int (*host)(void);
  int (*pause)(int kind, int device);
} openmp;

static _Atomic(const char *) team_owner;  // Whose team is kept.
static _Atomic uint32_t others_in_a_row;  // Products since the owner's last one.
static _Thread_local char caller;         // Its address is the thread's.

static void find(void *library, const char *name, void *out_function) {
  char longer[80];
  void *symbol = dlsym(library, name);
  if (symbol == NULL) {
    snprintf(longer, sizeof(longer), "scipy_%s", name);
    symbol = dlsym(library, longer);
  }
  memcpy(out_function, &symbol, sizeof(symbol));
}

static bool take_cblas(void *library) {
  gemm_f32 single = NULL;
  gemm_f64 wide = NULL;
  void (*set_threads)(int) = NULL;
  find(library, "cblas_sgemm", &single);
  find(library, "cblas_dgemm", &wide);
  if (blas.f32 != NULL || single == NULL || wide == NULL) {
    return false;
  }
  blas.f32 = single;
  blas.f64 = wide;
  find(library, "openblas_set_num_threads", &set_threads);
  if (set_threads != NULL) {
    set_threads(blas.threads);
  }
  return true;
}

static bool take_onednn(void *library) {
  gemm_onednn single = NULL;
  find(library, "dnnl_sgemm", &single);
  if (blas.onednn != NULL || single == NULL) {
    return false;
  }
  blas.onednn = single;
  find(library, "omp_get_max_threads", &openmp.threads);
  find(library, "omp_set_num_threads", &openmp.set_threads);
  find(library, "omp_get_initial_device", &openmp.host);
  find(library, "omp_pause_resource", &openmp.pause);
  return true;
}

static bool take(const char *path) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    return false;
  }
  if (take_onednn(library) || take_cblas(library)) {
    return true;
  }
  dlclose(library);
  return false;
}

static bool take_named(const char *path) {
  bool is_taken = take(path);
  if (!is_taken) {
    kit_log(HAL_LOG_WARNING, "blas=%s is no BLAS: %s", path,
            "it lacks cblas_sgemm and dnnl_sgemm, or cannot load");
  }
  return is_taken;
}

bool cpu_blas_start(const char *only, const char *found, uint32_t threads) {
  static const char *const cblas[] = {"libopenblas.so.0", "libblas.so.3"};
  static const char *const onednn[] = {"libdnnl.so.3", "libdnnl.so.2"};
  memset(&blas, 0, sizeof(blas));
  memset(&openmp, 0, sizeof(openmp));
  blas.threads = (int)threads;
  if (only != NULL) {
    return strcmp(only, "none") != 0 && take_named(only);
  }
  bool has_cblas = found != NULL && take_named(found);
  for (size_t i = 0; i < 2 && !has_cblas; ++i) {
    has_cblas = take(cblas[i]);
  }
  // On x86 oneDNN's products of f32 are the faster ones (record 0254); elsewhere they are plain C.
#if defined(__x86_64__)
  bool wants_onednn = true;
#else
  bool wants_onednn = !has_cblas;
#endif
  bool has_onednn = false;
  for (size_t i = 0; i < 2 && wants_onednn && !has_onednn; ++i) {
    has_onednn = take(onednn[i]);
  }
  return has_cblas || has_onednn;
}

static bool has_f32(void) {
  return blas.f32 != NULL || blas.onednn != NULL;
}

static uint64_t types(void) {
  return (uint64_t)has_f32() << HAL_DTYPE_F32 | (uint64_t)(blas.f64 != NULL) << HAL_DTYPE_F64;
}

int32_t cpu_blas_info(kit_device *device, uint32_t index, hal_operator_info *out_info) {
  (void)device;
  return kit_matmul_info(index, has_f32(), types(), out_info);
}

int32_t cpu_blas_supports(kit_device *device, const hal_operator_desc *desc,
                          uint64_t *out_workspace_bytes) {
  (void)device;
  *out_workspace_bytes = 0;
  return kit_matmul_supports(
      desc,
      has_f32() ? NULL : "no BLAS was found; install scipy-openblas32, or name one by HAL_CPU_BLAS",
      types());
}

static int turn(const kit_matrix *matrix) {
  return matrix->is_transposed ? TRANSPOSED : PLAIN;
}

// oneDNN returns at once where the depth is zero, and leaves C as it was.
static void scale(const kit_matmul *p, float *c) {
  for (int i = 0; i < p->m; ++i) {
    float *row = c + (int64_t)i * p->c.pitch;
    for (int j = 0; j < p->n; ++j) {
      row[j] = p->beta == 0 ? 0 : (float)p->beta * row[j];
    }
  }
}

static int32_t run_onednn(const kit_matmul *p, const float *a, const float *b, float *c) {
  if (p->k == 0) {
    scale(p, c);
    return HAL_OK;
  }
  int status =
      blas.onednn(p->a.is_transposed ? 'T' : 'N', p->b.is_transposed ? 'T' : 'N', p->m, p->n, p->k,
                  (float)p->alpha, a, p->a.pitch, b, p->b.pitch, (float)p->beta, c, p->c.pitch);
  return status == 0 ? HAL_OK
                     : kit_fail(HAL_ERROR_INTERNAL,
                                "operator matmul: dnnl_sgemm gave status %d for %d x %d x %d",
                                status, p->m, p->n, p->k);
}

static int32_t run_one(const kit_matmul *p, void *const *data, int64_t at) {
  int64_t x = at * p->a.step, y = at * p->b.step, z = at * p->c.step;
  if (p->dtype == HAL_DTYPE_F64) {
    blas.f64(ROW_MAJOR, turn(&p->a), turn(&p->b), p->m, p->n, p->k, p->alpha,
             (const double *)data[0] + x, p->a.pitch, (const double *)data[1] + y, p->b.pitch,
             p->beta, (double *)data[2] + z, p->c.pitch);
    return HAL_OK;
  }
  const float *a = (const float *)data[0] + x, *b = (const float *)data[1] + y;
  float *c = (float *)data[2] + z;
  if (blas.onednn != NULL) {
    return run_onednn(p, a, b, c);
  }
  blas.f32(ROW_MAJOR, turn(&p->a), turn(&p->b), p->m, p->n, p->k, (float)p->alpha, a, p->a.pitch, b,
           p->b.pitch, (float)p->beta, c, p->c.pitch);
  return HAL_OK;
}

// One thread's team is kept, and passes to another that does many products without it. Teams that
// together hold more threads than there are processors stop looking for work, and then each product
// wakes its own.
static void end_team(void) {
  const char *owner = atomic_load(&team_owner);
  bool is_mine = owner == NULL || owner == &caller;
  if (is_mine || atomic_fetch_add(&others_in_a_row, 1) >= OTHERS_MOST) {
    atomic_store(&team_owner, &caller);
    atomic_store(&others_in_a_row, 0);
  } else if (openmp.pause != NULL && openmp.host != NULL) {
    openmp.pause(PAUSE_SOFT, openmp.host());
  }
}

int32_t cpu_blas_run(kit_device *device, const kit_operator *use) {
  (void)device;
  kit_matmul p;
  kit_matmul_read(use, &p);
  // A caller that waits for a stream may be the user's thread.
  bool sets_threads = openmp.threads != NULL && openmp.set_threads != NULL;
  int before = sets_threads ? openmp.threads() : 0;
  if (sets_threads) {
    openmp.set_threads(blas.threads);
  }
  int32_t status = HAL_OK;
  for (uint64_t i = 0; i < p.count && p.m > 0 && p.n > 0 && status == HAL_OK; ++i) {
    status = run_one(&p, use->data, (int64_t)i);
  }
  if (sets_threads) {
    openmp.set_threads(before);
  }
  if (blas.onednn != NULL && p.dtype == HAL_DTYPE_F32) {
    end_team();
  }
  return status;
}
