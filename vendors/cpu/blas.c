// See blas.h. The interface is CBLAS with 32-bit integers: OpenBLAS as Debian installs it, or the
// wheel scipy-openblas32, whose symbols begin with scipy_. Where there is none, oneDNN's dnnl_sgemm
// serves f32 (oneAPI Deep Neural Network Library, developer guide, "BLAS functions").
#include "blas.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

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

int32_t cpu_blas_info(kit_device *device, uint32_t index, hal_operator_info *out_info) {
  (void)device;
  if (index != 0 || blas.f32 == NULL) {
    return kit_fail(HAL_ERROR_OUT_OF_RANGE, "operator %u of %d", index, blas.f32 != NULL);
  }
  snprintf(out_info->name, sizeof(out_info->name), "matmul");
  out_info->dtype_mask = 1ull << HAL_DTYPE_F32 | (uint64_t)(blas.f64 != NULL) << HAL_DTYPE_F64;
  return HAL_OK;
}

// A matrix as CBLAS takes it.
typedef struct matrix {
  int turn, pitch;
} matrix;

static bool find_matrix(const hal_tensor *tensor, matrix *out) {
  uint32_t row = tensor->rank - 2, column = tensor->rank - 1;
  int64_t rows = (int64_t)tensor->shape[row], columns = (int64_t)tensor->shape[column],
          down = tensor->strides[row], right = tensor->strides[column];
  if ((right == 1 || columns <= 1) && (down >= columns || rows <= 1)) {
    *out = (matrix){PLAIN, (int)(rows <= 1 ? columns : down)};
  } else if ((down == 1 || rows <= 1) && (right >= rows || columns <= 1)) {
    *out = (matrix){TRANSPOSED, (int)(columns <= 1 ? rows : right)};
  } else {
    return false;
  }
  out->pitch = out->pitch < 1 ? 1 : out->pitch;
  return down <= INT32_MAX && right <= INT32_MAX;
}

static double number(const hal_attribute *attributes, uint32_t count, const char *name,
                     double absent) {
  for (uint32_t i = 0; i < count; ++i) {
    if (strcmp(attributes[i].name, name) == 0) memcpy(&absent, &attributes[i].bits, 8);
  }
  return absent;
}

static int32_t refuse(const char *why) {
  return kit_fail(HAL_ERROR_UNSUPPORTED, "operator matmul: %s", why);
}

static int32_t check_shapes(const hal_tensor *a, const hal_tensor *b, const hal_tensor *c) {
  uint32_t rank = a->rank;
  if (rank < 2 || rank > 3 || b->rank != rank || c->rank != rank) {
    return refuse("the tensors have not all two dimensions, or all three");
  }
  const uint64_t *x = a->shape + rank - 2, *y = b->shape + rank - 2, *z = c->shape + rank - 2;
  if (x[1] != y[0] || x[0] != z[0] || y[1] != z[1] ||
      (rank == 3 && (a->shape[0] != b->shape[0] || a->shape[0] != c->shape[0]))) {
    return refuse("the shapes do not fit each other");
  }
  if (x[0] > INT32_MAX || x[1] > INT32_MAX || y[1] > INT32_MAX) {
    return refuse("a dimension is 2^31 or longer");
  }
  matrix ignored, target;
  if (!find_matrix(a, &ignored) || !find_matrix(b, &ignored) || !find_matrix(c, &target) ||
      target.turn != PLAIN) {
    return refuse("strides that the library does not take");
  }
  return HAL_OK;
}

int32_t cpu_blas_supports(kit_device *device, const hal_operator_desc *desc,
                          uint64_t *out_workspace_bytes) {
  (void)device;
  *out_workspace_bytes = 0;
  if (strcmp(desc->name, "matmul") != 0) {
    return kit_fail(HAL_ERROR_UNSUPPORTED, "there is no operator %.64s", desc->name);
  }
  if (blas.f32 == NULL) {
    return refuse("no BLAS was found; install scipy-openblas32, or name one by HAL_CPU_BLAS");
  }
  if (desc->input_count != 2 || desc->output_count != 1) {
    return refuse("it has two inputs and one output");
  }
  uint32_t dtype = desc->outputs[0].dtype;
  if ((dtype != HAL_DTYPE_F32 && dtype != HAL_DTYPE_F64) || desc->inputs[0].dtype != dtype ||
      desc->inputs[1].dtype != dtype) {
    return refuse("the types are not all f32, or all f64");
  }
  if (dtype == HAL_DTYPE_F64 && blas.f64 == NULL) {
    return refuse("the library that was found has f32 alone");
  }
  for (uint32_t i = 0; i < desc->attribute_count; ++i) {
    const hal_attribute *at = &desc->attributes[i];
    if ((strcmp(at->name, "alpha") != 0 && strcmp(at->name, "beta") != 0) ||
        at->kind != HAL_ATTRIBUTE_F64) {
      return refuse("its attributes are alpha and beta, both f64");
    }
  }
  return check_shapes(&desc->inputs[0], &desc->inputs[1], &desc->outputs[0]);
}

int32_t cpu_blas_run(kit_device *device, const kit_operator *use) {
  (void)device;
  const hal_tensor *a = &use->tensors[0], *b = &use->tensors[1], *c = &use->tensors[2];
  uint32_t rank = a->rank;
  matrix x = {0}, y = {0}, z = {0};
  find_matrix(a, &x);
  find_matrix(b, &y);
  find_matrix(c, &z);
  int m = (int)c->shape[rank - 2], n = (int)c->shape[rank - 1], k = (int)a->shape[rank - 1];
  double alpha = number(use->attributes, use->attribute_count, "alpha", 1.0),
         beta = number(use->attributes, use->attribute_count, "beta", 0.0);
  uint64_t batch = rank == 3 ? c->shape[0] : 1;
  for (uint64_t i = 0; i < batch && m > 0 && n > 0; ++i) {
    int64_t at = (int64_t)i * (rank == 3);
    if (c->dtype == HAL_DTYPE_F32) {
      blas.f32(ROW_MAJOR, x.turn, y.turn, m, n, k, (float)alpha,
               (const float *)use->data[0] + at * a->strides[0], x.pitch,
               (const float *)use->data[1] + at * b->strides[0], y.pitch, (float)beta,
               (float *)use->data[2] + at * c->strides[0], z.pitch);
    } else {
      blas.f64(ROW_MAJOR, x.turn, y.turn, m, n, k, alpha,
               (const double *)use->data[0] + at * a->strides[0], x.pitch,
               (const double *)use->data[1] + at * b->strides[0], y.pitch, beta,
               (double *)use->data[2] + at * c->strides[0], z.pitch);
    }
  }
  return HAL_OK;
}
