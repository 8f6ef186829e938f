// Collectives by NCCL, where there is one.

// ---- Optional ----

#include "cuda.h"
#include "kit_collective.h"

enum { INT8, UINT8, INT32, INT64 = 4, FLOAT16 = 6, FLOAT32, FLOAT64, BFLOAT16 };  // ncclDataType_t.
enum { IN_PROGRESS = 7 };                                                         // ncclResult_t.

typedef struct config {  // ncclConfig_t of NCCL 2.14: later ones begin like this.
  size_t size;
  unsigned magic, version;
  int blocking;
} config;

// X(name without "nccl", types of the parameters)
// clang-format off
#define NCCL_FUNCTIONS(X) \
  X(GetVersion, int *) X(GetUniqueId, hal_unique_id *) \
  X(CommInitRankConfig, void **, int, hal_unique_id, int, config *) \
  X(CommGetAsyncError, void *, int *) X(CommFinalize, void *) X(CommDestroy, void *) \
  X(CommAbort, void *) X(GroupStart, void) X(GroupEnd, void) \
  X(AllReduce, const void *, void *, size_t, int, int, void *, CUstream) \
  X(ReduceScatter, const void *, void *, size_t, int, int, void *, CUstream) \
  X(AllGather, const void *, void *, size_t, int, void *, CUstream) \
  X(Broadcast, const void *, void *, size_t, int, int, void *, CUstream) \
  X(Send, const void *, size_t, int, int, void *, CUstream) \
  X(Recv, void *, size_t, int, int, void *, CUstream)
#define NCCL_SYMBOL(name, ...) {"nccl" #name, &nccl.name},
// clang-format on

static struct {
  NCCL_FUNCTIONS(KIT_POINTER) int version;
} nccl;

int cuda_nccl_start(void) {
  static const kit_symbol symbols[] = {NCCL_FUNCTIONS(NCCL_SYMBOL){NULL, NULL}};
  static const kit_library library = {
      .what = "NCCL",
      .option = "nccl",
      .environment = "HAL_CUDA_NCCL",
      .files = {"libnccl.so.2"},
      .symbols = symbols,
      .advice = "Collectives go through the host",
      .missing = "it is older than NCCL 2.14. Collectives go through the host"};
  nccl.version = 0;
  if (kit_library_open(&library) != HAL_OK) {
    kit_log(HAL_LOG_INFO, "%s", kit_error_text());
  } else if (nccl.GetVersion(&nccl.version) != 0) {
    nccl.version = 0;
  }
  return nccl.version;
}

static int32_t answer(int result, const char *call) {
  static const kit_codes_row rows[] = {
      {HAL_ERROR_INVALID_VALUE, NULL, {4}},
      {HAL_ERROR_INVALID_STATE,
       "a wrong use: are two ranks of one device, in two processes? NCCL_DEBUG=WARN tells more",
       {5}},
      {HAL_ERROR_PEER_FAILED, "another rank is gone", {6}},
      {HAL_ERROR_TIMEOUT, NULL, {8}},
      {HAL_ERROR_EXECUTION_FAILED, "NCCL_DEBUG=WARN tells more", {1, 2, 3}}};
  static const kit_codes codes = {"NCCL", NULL, rows, sizeof(rows) / sizeof(*rows)};
  return result == IN_PROGRESS ? HAL_NOT_READY : kit_check(&codes, result, call);
}
#define NCCL(name, ...) answer(nccl.name(__VA_ARGS__), "nccl" #name)

static int32_t check(void) {
  return nccl.version != 0 ? HAL_OK : kit_fail(HAL_ERROR_UNSUPPORTED, "no NCCL was found");
}

// What no reduction takes has no number.
static int number_of(uint32_t dtype) {
  static const int numbers[] = {[HAL_DTYPE_F32] = FLOAT32,   [HAL_DTYPE_F16] = FLOAT16,
                                [HAL_DTYPE_BF16] = BFLOAT16, [HAL_DTYPE_F64] = FLOAT64,
                                [HAL_DTYPE_I8] = INT8,       [HAL_DTYPE_U8] = UINT8,
                                [HAL_DTYPE_I32] = INT32,     [HAL_DTYPE_I64] = INT64};
  return dtype > 0 && dtype <= HAL_DTYPE_I64 ? numbers[dtype] : -1;
}

static int32_t can_reduce(uint32_t dtype) {
  return number_of(dtype) >= 0 ? HAL_OK
                               : kit_fail(HAL_ERROR_UNSUPPORTED,
                                          "dtype %u is not reduced; dtypes f32 to i64 are", dtype);
}

static int32_t unique_id(hal_unique_id *out_id) {
  return NCCL(GetUniqueId, out_id);
}

static int32_t group_begin(void) {
  return NCCL(GroupStart);
}

static int32_t group_end(void) {
  return NCCL(GroupEnd);
}

static int32_t join(const hal_comm_desc *desc, void **out_comm) {
  config wanted = {sizeof(wanted), 0xcafebeef, 21400, 0};
  return NCCL(CommInitRankConfig, out_comm, (int)desc->rank_count, desc->id, (int)desc->rank,
              &wanted);
}

// What is only moved is moved as bytes.
static int32_t share(void *comm, kit_queue *queue, const kit_share *part) {
  int dtype = number_of(part->dtype), reduce = (int)part->reduce - HAL_REDUCE_SUM;
  int peer = (int)part->peer;
  CUstream stream = queue->native;
  switch (part->what) {
    case KIT_ALL_REDUCE:
      return NCCL(AllReduce, part->source, part->target, part->count, dtype, reduce, comm, stream);
    case KIT_REDUCE_SCATTER:
      return NCCL(ReduceScatter, part->source, part->target, part->count, dtype, reduce, comm,
                  stream);
    case KIT_ALL_GATHER:
      return NCCL(AllGather, part->source, part->target, part->bytes, UINT8, comm, stream);
    case KIT_BROADCAST:  // The root may want nothing: it is its own place then.
      return NCCL(Broadcast, part->source,
                  part->target != NULL ? part->target : (void *)part->source, part->bytes, UINT8,
                  peer, comm, stream);
    case KIT_SEND:
      return NCCL(Send, part->source, part->bytes, UINT8, peer, comm, stream);
    default:
      return NCCL(Recv, part->target, part->bytes, UINT8, peer, comm, stream);
  }
}

static int32_t state(void *comm) {
  int result = 0;
  int32_t status = NCCL(CommGetAsyncError, comm, &result);
  return status < 0 ? status : answer(result, "the communicator");
}

static int32_t leave(void *comm) {
  return NCCL(CommFinalize, comm);
}

static void drop(void *comm, int stop) {
  stop ? nccl.CommAbort(comm) : nccl.CommDestroy(comm);
}

const kit_collectives cuda_collectives = {.check = check,
                                          .can_reduce = can_reduce,
                                          .unique_id = unique_id,
                                          .group_begin = group_begin,
                                          .group_end = group_end,
                                          .join = join,
                                          .share = share,
                                          .state = state,
                                          .leave = leave,
                                          .drop = drop};
