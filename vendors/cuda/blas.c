// The operator matmul by cuBLAS, where there is one.

// ---- Optional ----

#include "cuda.h"
#include "kit_matmul.h"

enum { PLAIN, TRANSPOSED };                             // cublasOperation_t.
enum { R_32F = 0, R_64F = 1, R_16F = 2, R_16BF = 14 };  // cudaDataType_t.
enum { COMPUTE_32F = 68, COMPUTE_64F = 70, DEFAULT_ALGORITHM = -1 };

// X(name without "cublas", types of the parameters)
// clang-format off
#define BLAS_FUNCTIONS(X) \
  X(Create_v2, void **) X(Destroy_v2, void *) X(SetStream_v2, void *, CUstream) \
  X(GemmStridedBatchedEx, void *, int, int, int, int, int, const void *, const void *, int, int, \
    long long, const void *, int, int, long long, const void *, void *, int, int, long long, int, \
    int, int)
#define BLAS_SYMBOL(name, ...) {"cublas" #name, &blas.name},
// clang-format on

static struct {
  BLAS_FUNCTIONS(KIT_POINTER) bool is_there;
} blas;

int cuda_blas_start(void) {
  static const kit_symbol symbols[] = {BLAS_FUNCTIONS(BLAS_SYMBOL){NULL, NULL}};
  static const kit_library library = {
      .what = "cuBLAS",
      .option = "cublas",
      .environment = "HAL_CUDA_CUBLAS",
      .files = {"libcublas.so.13", "libcublas.so.12", "libcublas.so.11"},
      .symbols = symbols,
      .advice = "The operator matmul is not offered",
      .missing = "it is older than CUDA 11. The operator matmul is not offered"};
  blas.is_there = kit_library_open(&library) == HAL_OK;
  if (!blas.is_there) {
    kit_log(HAL_LOG_INFO, "%s", kit_error_text());
  }
  return blas.is_there;
}

enum {
  TYPES = 1 << HAL_DTYPE_F32 | 1 << HAL_DTYPE_F64 | 1 << HAL_DTYPE_F16 | 1 << HAL_DTYPE_BF16,
};

int32_t cuda_blas_info(kit_device *device, uint32_t index, hal_operator_info *out_info) {
  (void)device;
  return kit_matmul_info(index, blas.is_there, TYPES, out_info);
}

int32_t cuda_blas_supports(kit_device *device, const hal_operator_desc *desc,
                           uint64_t *out_workspace_bytes) {
  (void)device;
  *out_workspace_bytes = 0;
  int32_t status = kit_matmul_supports(desc, blas.is_there ? NULL : "no cuBLAS was found", TYPES);
  if (status == HAL_OK && desc->outputs[0].rank == 3 && desc->outputs[0].shape[0] > INT32_MAX) {
    status = kit_fail(HAL_ERROR_UNSUPPORTED, "operator matmul: a batch is 2^31 or longer");
  }
  return status;
}

static int type_of(uint32_t dtype) {
  return dtype == HAL_DTYPE_F32   ? R_32F
         : dtype == HAL_DTYPE_F64 ? R_64F
         : dtype == HAL_DTYPE_F16 ? R_16F
                                  : R_16BF;
}

static int32_t check(int result, const char *call) {
  return result == 0 ? HAL_OK
                     : kit_fail(result == 3 ? HAL_ERROR_OUT_OF_MEMORY : HAL_ERROR_EXECUTION_FAILED,
                                "%s answers %d", call, result);
}

static int turn(const kit_matrix *matrix) {
  return matrix->is_transposed ? TRANSPOSED : PLAIN;
}

// cuBLAS has columns first: rows of c = a b are the columns of its transpose, b' a'.
int32_t cuda_blas_run(kit_queue *queue, const kit_operator *use) {
  kit_matmul p;
  kit_matmul_read(use, &p);
  if (p.m == 0 || p.n == 0 || p.count == 0) {
    return HAL_OK;
  }
  bool is_wide = p.dtype == HAL_DTYPE_F64;
  int type = type_of(p.dtype);
  double wide[] = {p.alpha, p.beta};
  float narrow[] = {(float)p.alpha, (float)p.beta};
  const void *alpha = is_wide ? (void *)&wide[0] : &narrow[0];
  const void *beta = is_wide ? (void *)&wide[1] : &narrow[1];
  if (queue->data == NULL) {  // The queue's handle is made when it is needed.
    int32_t status = check(blas.Create_v2(&queue->data), "cublasCreate");
    if (status == HAL_OK) {
      status = check(blas.SetStream_v2(queue->data, queue->native), "cublasSetStream");
    }
    if (status != HAL_OK) {
      return status;
    }
  }
  return check(blas.GemmStridedBatchedEx(queue->data, turn(&p.b), turn(&p.a), p.n, p.m, p.k, alpha,
                                         use->data[1], type, p.b.pitch, p.b.step, use->data[0],
                                         type, p.a.pitch, p.a.step, beta, use->data[2], type,
                                         p.c.pitch, p.c.step, (int)p.count,
                                         is_wide ? COMPUTE_64F : COMPUTE_32F, DEFAULT_ALGORITHM),
               "cublasGemmStridedBatchedEx");
}

void cuda_blas_stop(kit_queue *queue) {
  if (queue->data != NULL) {
    blas.Destroy_v2(queue->data);
  }
}
