// The port of CUDA devices: the driver's memory and streams, kernels compiled by NVRTC.
//
// Options (hal_host.options, else the environment):
//   libcuda=PATH  HAL_CUDA_DRIVER=PATH  the driver; default: libcuda.so.1
//   nvrtc=PATH    HAL_CUDA_NVRTC=PATH   the compiler; default: libnvrtc.so.13, .12, .11.2
//   cublas=PATH   HAL_CUDA_CUBLAS=PATH  the operator matmul; default: libcublas.so.13, .12, .11; a
//                                       path that is no library leaves it out
#include <string.h>

#include "cuda.h"
#include "kit_tables.h"

static int32_t device_facts(uint32_t index, kit_device_facts *out_facts) {
  cuda_chip *chip = cuda_chip_at(index);
  *out_facts = (kit_device_facts){
      .name = chip->name,
      .hcd_ref = "hal/cuda",
      .hcd_overlay = chip->overlay,
      .hcd = kit_host_hcd(),
      .memory_bytes = chip->memory_bytes,
      .alignment_bytes = 256,
      .dlpack_type = 2,  // kDLCUDA
  };
  return HAL_OK;
}

// ---- Memory ----

static int32_t zero_bytes(cuda_chip *chip, CUdeviceptr at, uint64_t bytes) {
  int32_t status = cuda_check(cu.Set8(at, 0, bytes, chip->service), "cuMemsetD8Async");
  return status != HAL_OK ? status
                          : cuda_check(cu.StreamSynchronize(chip->service), "cuStreamSynchronize");
}

static int32_t reserve(kit_device *device, uint64_t bytes, uint64_t alignment, int zero,
                       kit_allocation *out_allocation) {
  cuda_chip *chip = cuda_chip_of(device);
  uint64_t more = alignment > 256 ? alignment - 256 : 0;  // The driver aligns to 256 at least.
  CUdeviceptr address = 0;
  int32_t status = cuda_enter(chip);
  if (status != HAL_OK) return status;
  status = cuda_check(cu.MemAlloc(&address, bytes + more), "cuMemAlloc");
  if (status == HAL_OK) {
    CUdeviceptr first = (address + alignment - 1) & -(CUdeviceptr)alignment;
    out_allocation->native = first;
    out_allocation->pointer = (void *)(uintptr_t)first;
    out_allocation->port_data = (void *)(uintptr_t)address;
    if (zero) status = zero_bytes(chip, first, bytes);
    if (status != HAL_OK) cu.MemFree(address);
  }
  cuda_leave();
  return status;
}

static void release(kit_device *device, kit_allocation *allocation) {
  if (cuda_enter(cuda_chip_of(device)) == HAL_OK) {
    cu.MemFree((CUdeviceptr)(uintptr_t)allocation->port_data);
    cuda_leave();
  }
}

static int32_t pin(kit_device *device, uint64_t bytes, void **out_pointer) {
  int32_t status = cuda_enter(cuda_chip_of(device));
  if (status == HAL_OK) {
    status = cuda_check(cu.MemHostAlloc(out_pointer, bytes, CUDA_HOST_PORTABLE), "cuMemHostAlloc");
    cuda_leave();
  }
  return status;
}

static void unpin(kit_device *device, void *pointer) {
  if (cuda_enter(cuda_chip_of(device)) == HAL_OK) {
    cu.MemFreeHost(pointer);
    cuda_leave();
  }
}

// ---- Tier 3 ----

static int32_t peer_info(uint32_t index, uint32_t peer, uint32_t key, int64_t *out_value) {
  int can = index == peer;
  if (index != peer) {
    cu.DeviceCanAccessPeer(&can, cuda_chip_at(index)->id, cuda_chip_at(peer)->id);
  }
  *out_value = key == HAL_PEER_ACCESS ? can : 0;  // Nobody has measured the links.
  return key >= HAL_PEER_ACCESS && key <= HAL_PEER_LATENCY ? HAL_OK : HAL_ERROR_NOT_FOUND;
}

// ---- Tier 1 ----

static const kit_port port = {
    .runtime = cuda_words,
    .runs_on = "device",
    .format = "source.cuda",
    .hooks = {.start = cuda_start,
              .stop = cuda_stop,
              .device_count = cuda_chip_count,
              .device_facts = device_facts,
              .reserve = reserve,
              .release = release,
              .pin = pin,
              .unpin = unpin,
              .queue_open = cuda_queue_open,
              .queue_close = cuda_queue_close,
              .submit = cuda_submit,
              .finished = cuda_finished,
              .peer_info = peer_info,
              .operator_info = cuda_blas_info,
              .operator_supports = cuda_blas_supports,
              .module_open = cuda_module_open,
              .module_close = cuda_module_close},
};

KIT_ENTRY(port, .name = "cuda", .vendor = "hal", .version = "1.0.0", .build_id = "1.0.0",
          .device = KIT_DEVICE_TABLE(.peer_info = kit_device_peer_info),
          .memory = KIT_MEMORY_TABLE(.wrap = kit_memory_wrap,
                                     .native_handle = kit_memory_native_handle),
          .transfer = KIT_TRANSFER_TABLE(.copy_peer = kit_transfer_copy_peer),
          .stream = KIT_STREAM_TABLE(.host_call = kit_stream_host_call, .wrap = kit_stream_wrap),
          .operators = KIT_OPERATOR_TABLE());
