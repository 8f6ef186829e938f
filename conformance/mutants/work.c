// Operations while they run: faults in what they do to memory.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "mutant.h"

enum {
  LATE_LIMIT = 256,
  SHORT_BYTES = 4096,
  FLIP_AT = 7,
  KEPT_BYTES = 1 << 20,
  LEAK_BYTES = 1024,
  VECTOR_BYTES = 16
};

atomic_uint mutant_launches_waiting;
atomic_int mutant_is_dropping;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

// M22: downloads that wait until somebody synchronizes a stream.
static struct {
  void *target;
  unsigned char *bytes;
  uint64_t count;
} late[LATE_LIMIT];
static int late_count;

void mutant_copy_late(void) {
  pthread_mutex_lock(&lock);
  for (int i = 0; i < late_count; ++i) {
    memcpy(late[i].target, late[i].bytes, late[i].count);
    free(late[i].bytes);
  }
  late_count = 0;
  pthread_mutex_unlock(&lock);
}

static int put_off(const kit_operation *operation) {
  pthread_mutex_lock(&lock);
  unsigned char *bytes = late_count < LATE_LIMIT ? malloc(operation->source.bytes) : NULL;
  if (bytes != NULL) {
    memcpy(bytes, kit_range_pointer(&operation->source), operation->source.bytes);
    late[late_count].target = operation->host_target;
    late[late_count].bytes = bytes;
    late[late_count++].count = operation->source.bytes;
  }
  pthread_mutex_unlock(&lock);
  return bytes != NULL;
}

// M21: from the front, byte by byte, whatever overlaps.
static int32_t copy_forward(const kit_operation *operation) {
  volatile unsigned char *target = kit_range_pointer(&operation->target);
  const unsigned char *source = kit_range_pointer(&operation->source);
  for (uint64_t i = 0; i < operation->source.bytes; ++i) {
    target[i] = source[i];
  }
  return HAL_OK;
}

// M71: one bit of the 7th copy.
static void flip(const kit_operation *operation) {
  static atomic_uint copies;
  if (atomic_fetch_add(&copies, 1) != FLIP_AT) {
    return;
  }
  unsigned char *bytes = operation->kind == KIT_COPY_TO_HOST
                             ? operation->host_target
                             : kit_range_pointer(&operation->target);
  bytes[0] ^= 0x10;
}

static int32_t run_copy(kit_device *device, kit_operation *operation) {
  if (is_fault(21) && operation->kind == KIT_COPY_ON_DEVICE) {
    return copy_forward(operation);
  }
  if (is_fault(22) && operation->kind == KIT_COPY_TO_HOST && put_off(operation)) {
    return HAL_OK;
  }
  uint64_t source_bytes = operation->source.bytes, target_bytes = operation->target.bytes;
  if (is_fault(19)) {
    operation->source.bytes = source_bytes < SHORT_BYTES ? source_bytes : SHORT_BYTES;
    operation->target.bytes = target_bytes < SHORT_BYTES ? target_bytes : SHORT_BYTES;
  }
  int32_t status = kit_host_run(device, operation);
  operation->source.bytes = source_bytes;
  operation->target.bytes = target_bytes;
  if (is_fault(71) && status == HAL_OK) {
    flip(operation);
  }
  return status;
}

// ---- launches ----

static int is_written(const kit_operation *operation, uint32_t use) {
  const vil_kernel *kernel = kit_kernel_vil(operation->kernel);
  uint32_t seen = 0;
  for (uint32_t i = 0; i < vil_kernel_argument_count(kernel); ++i) {
    if (vil_kernel_argument_kind(kernel, i) == HAL_ARGUMENT_BUFFER && seen++ == use) {
      return vil_kernel_argument_is_written(kernel, i);
    }
  }
  return 0;
}

// M62: the result of the last launch with buffers of these lengths, in place of the right one.
static void answer_from_memory(const kit_operation *operation, const kit_range *written) {
  static unsigned char kept[KEPT_BYTES];
  static uint64_t kept_bytes, kept_total;
  uint64_t total = operation->use_count;
  for (uint32_t i = 0; i < operation->use_count; ++i) {
    total = total * 31 + operation->uses[i].bytes;
  }
  if (written->bytes > KEPT_BYTES || written->bytes == 0) {
    return;
  }
  pthread_mutex_lock(&lock);
  if (kept_bytes == written->bytes && kept_total == total) {
    memcpy(kit_range_pointer(written), kept, kept_bytes);
  } else {
    memcpy(kept, kit_range_pointer(written), written->bytes);
    kept_bytes = written->bytes;
    kept_total = total;
  }
  pthread_mutex_unlock(&lock);
}

// After a launch. M53: an input changes. M57: the result depends on how many launches there were.
static void spoil(const kit_operation *operation) {
  static atomic_uint launches;
  unsigned turn = atomic_fetch_add(&launches, 1);
  for (uint32_t i = 0; i < operation->use_count; ++i) {
    const kit_range *use = &operation->uses[i];
    int writes = is_written(operation, i);
    if (use->memory == NULL || use->bytes == 0) {
      continue;
    }
    if (is_fault(53) && !writes) {
      kit_range_pointer(use)[0] ^= 1;
    }
    if (is_fault(57) && writes) {
      kit_range_pointer(use)[0] ^= turn & 1;
    }
    if (is_fault(62) && writes) {
      answer_from_memory(operation, use);
    }
  }
}

// M42: what is left over behind whole vectors of 16 bytes stays as it was.
static int32_t run_without_tail(kit_device *device, kit_operation *operation) {
  unsigned char tails[8][VECTOR_BYTES];
  uint32_t count = operation->use_count < 8 ? operation->use_count : 8;
  for (uint32_t i = 0; i < count; ++i) {
    const kit_range *use = &operation->uses[i];
    uint64_t tail = use->memory == NULL ? 0 : use->bytes % VECTOR_BYTES;
    if (tail != 0) {
      memcpy(tails[i], kit_range_pointer(use) + use->bytes - tail, tail);
    }
  }
  int32_t status = kit_host_run(device, operation);
  for (uint32_t i = 0; i < count; ++i) {
    const kit_range *use = &operation->uses[i];
    uint64_t tail = use->memory == NULL ? 0 : use->bytes % VECTOR_BYTES;
    if (tail != 0) {
      memcpy(kit_range_pointer(use) + use->bytes - tail, tails[i], tail);
    }
  }
  return status;
}

// M75: 1 KiB stays behind. M98: each program runs twice. M82: a failure of the program is nobody's
// business.
static int32_t run_launch(kit_device *device, kit_operation *operation) {
  if (is_fault(75)) {
    mutant_lost = malloc(LEAK_BYTES);
  }
  if (mutant_is_tired(HAL_OK)) {
    atomic_fetch_sub(&mutant_launches_waiting, 1);
    return HAL_OK;
  }
  int32_t status =
      is_fault(42) ? run_without_tail(device, operation) : kit_host_run(device, operation);
  if (is_fault(98) && status == HAL_OK) {
    status = kit_host_run(device, operation);
  }
  atomic_fetch_sub(&mutant_launches_waiting, 1);
  mutant_is_tired(status);
  if (status == HAL_OK) {
    spoil(operation);
  }
  return is_fault(82) && status == HAL_ERROR_EXECUTION_FAILED ? HAL_OK : status;
}

int32_t mutant_run(kit_device *device, kit_operation *operation) {
  int32_t lost = HAL_OK;
  if (mutant_loses_device(&lost)) {
    return lost;
  }
  if (is_fault(31) && atomic_load(&mutant_is_dropping)) {
    return HAL_OK;
  }
  switch (operation->kind) {
    case KIT_COPY_TO_DEVICE:
    case KIT_COPY_TO_HOST:
    case KIT_COPY_ON_DEVICE:
      return run_copy(device, operation);
    case KIT_LAUNCH:
      return run_launch(device, operation);
    default:
      return kit_host_run(device, operation);
  }
}
