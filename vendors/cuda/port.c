// The port of CUDA devices: the driver's memory and streams, kernels compiled by NVRTC.
//
// Options (hal_host.options, else the environment):
//   device=NAME   HAL_CUDA_DEVICE=NAME  devices with this in their name, or with this number
//   libcuda=PATH  HAL_CUDA_DRIVER=PATH  the driver; default: libcuda.so.1
//   nvrtc=PATH    HAL_CUDA_NVRTC=PATH   the compiler; default: libnvrtc.so.13, .12, .11.2
//   cublas=PATH   HAL_CUDA_CUBLAS=PATH  the operator matmul; default: libcublas.so.13, .12, .11; a
//                                       path that is no library leaves it out
//   nccl=PATH     HAL_CUDA_NCCL=PATH    collectives; default: libnccl.so.2; likewise
#include <string.h>

#include "cuda.h"
#include "kit_tables.h"

#define AT(span) ((span)->native + (span)->offset_bytes)

// ---- Memory and queues ----

static int32_t reserve(void *device, uint64_t bytes, kit_allocation *out) {
  CUdeviceptr address = 0;
  (void)device;
  int32_t status = CU(MemAlloc_v2, &address, bytes);
  out->native = address;
  out->pointer = (void *)(uintptr_t)address;
  return status;
}

static void release(void *device, kit_allocation *allocation) {
  (void)device;
  cu.MemFree_v2(allocation->native);
}

static int32_t queue_open(kit_queue *queue) {
  bool is_ours = !queue->is_wrapped;
  return is_ours ? CU(StreamCreate, &queue->native, CUDA_STREAM_NON_BLOCKING) : HAL_OK;
}

static void queue_close(kit_queue *queue) {
  cuda_blas_stop(queue);
  if (!queue->is_wrapped) {
    cu.StreamDestroy_v2(queue->native);
  }
}

static int32_t queue_finish(kit_queue *queue) {
  return CU(StreamSynchronize, queue->native);
}

// ---- Commands ----

static int32_t write_bytes(kit_queue *queue, const kit_span *to, const void *from) {
  return CU(MemcpyHtoDAsync_v2, AT(to), from, to->bytes, queue->native);
}

static int32_t read_bytes(kit_queue *queue, const kit_span *from, void *to) {
  return CU(MemcpyDtoHAsync_v2, to, AT(from), from->bytes, queue->native);
}

static int32_t copy(kit_queue *queue, const kit_span *from, const kit_span *to) {
  return CU(MemcpyDtoDAsync_v2, AT(to), AT(from), to->bytes, queue->native);
}

static int32_t fill(kit_queue *queue, const kit_span *to, const void *pattern, uint32_t size) {
  uint32_t words[2] = {0};
  uint64_t count = to->bytes / size;
  memcpy(words, pattern, size);
  switch (size) {
    case 1:
      return CU(MemsetD8Async, AT(to), (uint8_t)words[0], count, queue->native);
    case 2:
      return CU(MemsetD16Async, AT(to), (uint16_t)words[0], count, queue->native);
    case 4:
      return CU(MemsetD32Async, AT(to), words[0], count, queue->native);
  }
  int32_t status = CU(MemsetD2D32Async, AT(to), 8, words[0], 1, count, queue->native);
  return status != HAL_OK ? status
                          : CU(MemsetD2D32Async, AT(to) + 4, 8, words[1], 1, count, queue->native);
}

static int32_t launch(kit_queue *queue, const kit_call *call) {
  const kit_function *function = call->function;
  return CU(LaunchKernel, function->entry, (unsigned)call->grid[0], (unsigned)call->grid[1],
            (unsigned)call->grid[2], call->lanes, 1, 1, function->near_bytes, queue->native,
            (void **)call->values, NULL);
}

// ---- Events ----

static int32_t mark(kit_queue *queue, void **event) {
  int32_t status = *event != NULL ? HAL_OK : CU(EventCreate, event, 0);
  return status != HAL_OK ? status : CU(EventRecord, *event, queue->native);
}

static int32_t ask(kit_queue *queue, void *event) {
  CUresult result = cu.EventQuery(event);
  (void)queue;
  return result == CUDA_NOT_READY ? HAL_NOT_READY : cuda_check(result, "the operation");
}

static void drop(void *event) {
  cu.EventDestroy_v2(event);
}

static int32_t elapsed_ns(void *from, void *to, int64_t *out_ns) {
  float ms = 0;
  int32_t status = CU(EventElapsedTime, &ms, from, to);
  *out_ns = (int64_t)((double)ms * 1e6);
  return status;
}

// ---- Optional ----

static int32_t pin(void *device, uint64_t bytes, void **out_pointer) {
  (void)device;
  return CU(MemHostAlloc, out_pointer, bytes, CUDA_HOST_PORTABLE);
}

static void unpin(void *device, void *pointer) {
  (void)device;
  cu.MemFreeHost(pointer);
}

// ---- Tier 3 ----

static int32_t copy_peer(kit_queue *queue, void *from_device, const kit_span *from, void *to_device,
                         const kit_span *to) {
  const cuda_chip *source = from_device, *target = to_device;
  return CU(MemcpyPeerAsync, AT(to), target->context, AT(from), source->context, from->bytes,
            queue->native);
}

static int32_t peer_info(uint32_t index, uint32_t peer, uint32_t key, int64_t *out_value) {
  const cuda_chip *one = kit_device_data_at(index), *other = kit_device_data_at(peer);
  int can = index == peer;
  if (index != peer) {
    cu.DeviceCanAccessPeer(&can, one->id, other->id);
  }
  *out_value = key == HAL_PEER_ACCESS ? can : 0;  // Nobody has measured the links.
  return key >= HAL_PEER_ACCESS && key <= HAL_PEER_LATENCY ? HAL_OK : HAL_ERROR_NOT_FOUND;
}

// ---- The port ----

static const kit_driver driver = {.enter = cuda_enter,
                                  .leave = cuda_leave,
                                  .reserve = reserve,
                                  .release = release,
                                  .pin = pin,
                                  .unpin = unpin,
                                  .queue_open = queue_open,
                                  .queue_close = queue_close,
                                  .queue_finish = queue_finish,
                                  .write = write_bytes,
                                  .read = read_bytes,
                                  .copy = copy,
                                  .fill = fill,
                                  .launch = launch,
                                  .copy_peer = copy_peer,
                                  .operate = cuda_blas_run,
                                  .collectives = &cuda_collectives,
                                  .mark = mark,
                                  .ask = ask,
                                  .drop = drop,
                                  .elapsed_ns = elapsed_ns,
                                  .compile = cuda_compile,
                                  .find = cuda_find,
                                  .program_drop = cuda_program_drop};

static const kit_port port = {.runtime = cuda_runtime,
                              .runs_on = "device",
                              .format = "source.cuda",
                              .driver = &driver,
                              .hooks = {.start = cuda_start,
                                        .device_describe = cuda_describe,
                                        .device_drop = cuda_drop,
                                        .peer_info = peer_info,
                                        .operator_info = cuda_blas_info,
                                        .operator_supports = cuda_blas_supports}};

KIT_ENTRY(port, .name = "cuda", .vendor = "hal", .version = "1.0.0", .build_id = "1.0.0",
          .device = KIT_DEVICE_TABLE(.peer_info = kit_device_peer_info),
          .memory = KIT_MEMORY_TABLE(.wrap = kit_memory_wrap,
                                     .native_handle = kit_memory_native_handle),
          .transfer = KIT_TRANSFER_TABLE(.copy_peer = kit_transfer_copy_peer),
          .stream = KIT_STREAM_TABLE(.host_call = kit_stream_host_call, .wrap = kit_stream_wrap),
          .operators = KIT_OPERATOR_TABLE(), .collective = KIT_COLLECTIVE_TABLE());
