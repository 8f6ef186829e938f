// What the simulated chips do: memory, operations, and the faults that the host asked for.
#include <time.h>

#include "checks.h"
#include "system.h"

int32_t sim_reserve(kit_device *device, uint64_t bytes, uint64_t alignment, int zero,
                    kit_allocation *out) {
  const sim_options *options = sim_options_now();
  pthread_mutex_lock(&sim_the_system.lock);
  int64_t number = ++sim_the_system.allocations;
  pthread_mutex_unlock(&sim_the_system.lock);
  if (options->out_of_memory_after >= 0 && number > options->out_of_memory_after) {
    return kit_fail(HAL_ERROR_OUT_OF_MEMORY,
                    "fault_out_of_memory_after=%lld: allocation %lld of %llu bytes fails",
                    (long long)options->out_of_memory_after, (long long)number,
                    (unsigned long long)bytes);
  }
  // Timing alone: address space that nobody writes, so a chip's whole memory costs nothing.
  int32_t status = kit_host_reserve(device, bytes, alignment, options->functional ? zero : 1, out);
  if (status == HAL_OK && options->functional) {
    status = sim_checks_reserve(out, bytes, zero);
    if (status != HAL_OK) {
      kit_host_release(device, out);
    }
  }
  return status;
}

void sim_release(kit_device *device, kit_allocation *allocation) {
  sim_checks_release(allocation);
  kit_host_release(device, allocation);
}

// The fault that the options lay on this operation; HAL_OK when there is none.
static int32_t find_fault(kit_device *device, const kit_operation *operation) {
  const sim_options *options = sim_options_now();
  pthread_mutex_lock(&sim_the_system.lock);
  int64_t number = ++sim_the_system.operations;
  int64_t launch = operation->kind == KIT_LAUNCH ? ++sim_the_system.launches : 0;
  pthread_mutex_unlock(&sim_the_system.lock);
  if (options->late_ms > 0) {
    struct timespec pause = {options->late_ms / 1000, options->late_ms % 1000 * 1000000};
    nanosleep(&pause, NULL);
  }
  if (options->lose_device_after >= 0 && number > options->lose_device_after) {
    return kit_fail(HAL_ERROR_DEVICE_LOST, "fault_device_lost_after=%lld: the device is lost",
                    (long long)options->lose_device_after);
  }
  if (launch != 0 && launch == options->fail_kernel) {
    return kit_fail(HAL_ERROR_EXECUTION_FAILED, "fault_kernel=%lld: launch %lld, kernel %s, fails",
                    (long long)options->fail_kernel, (long long)launch,
                    vil_kernel_name(kit_kernel_vil(operation->kernel)));
  }
  if (operation->kind == KIT_COPY_PEER && options->dead_rank >= 0) {
    uint32_t from = kit_device_index(kit_memory_device(operation->source.memory));
    uint32_t to = kit_device_index(kit_memory_device(operation->target.memory));
    if (from == (uint32_t)options->dead_rank || to == (uint32_t)options->dead_rank) {
      return kit_fail(kit_device_index(device) == (uint32_t)options->dead_rank
                          ? HAL_ERROR_DEVICE_LOST
                          : HAL_ERROR_EXECUTION_FAILED,
                      "fault_dead_rank=%lld: a copy from device %u to device %u gets no answer",
                      (long long)options->dead_rank, from, to);
    }
  }
  return HAL_OK;
}

int32_t sim_run(kit_device *device, kit_operation *operation) {
  int32_t status = find_fault(device, operation);
  if (status != HAL_OK || !sim_options_now()->functional) {
    return status;
  }
  return sim_options_now()->checks != 0 ? sim_checks_run(operation)
                                        : kit_host_run(device, operation);
}
