// Memory, devices and records: faults in what handles and outputs are answered.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "mutant.h"

void *volatile mutant_lost;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static hal_error latest = {.size = sizeof(latest)};  // M11

// ---- records ----

int32_t mutant_note(int32_t status) {
  if (is_fault(11) && status < 0) {
    pthread_mutex_lock(&lock);
    kit_port_last_error(&latest);
    pthread_mutex_unlock(&lock);
  }
  return status;
}

int32_t mutant_handle(int32_t status) {
  status = mutant_felt(status);
  mutant_note(status);
  if (is_fault(5) && status < 0) {
    return (int32_t)(0x7F00u | ((uint32_t)status & 0xFFu));
  }
  if (status == HAL_ERROR_INVALID_HANDLE && is_fault(7)) {
    return HAL_OK;
  }
  return status == HAL_ERROR_INVALID_HANDLE && is_fault(10) ? HAL_ERROR_INVALID_VALUE : status;
}

// M11: every thread sees one record. M12: the text does not end.
int32_t mutant_last_error(hal_error *out_error) {
  int32_t status = kit_port_last_error(out_error);
  if (is_fault(11)) {
    pthread_mutex_lock(&lock);
    memcpy((char *)out_error + 8, (const char *)&latest + 8, sizeof(latest) - 8);
    pthread_mutex_unlock(&lock);
  }
  if (is_fault(12) && out_error->status != HAL_OK) {
    memset(out_error->text, '!', sizeof(out_error->text));
  }
  return status;
}

// ---- devices ----

int32_t mutant_device_open(uint32_t index, hal_device *out_device) {
  int32_t status = kit_device_open(index, out_device);
  if (is_fault(9) && status < 0) {
    *out_device = 0;
  }
  return mutant_note(status);
}

// M13: the HCD claims f16. M14: twice the memory.
int32_t mutant_get_i64(hal_device device, const char *key, int64_t *out_value) {
  int32_t status = kit_device_get_i64(device, key, out_value);
  if (status == HAL_OK && is_fault(13) && strcmp(key, "dtypes.f16.compute") == 0) {
    *out_value = 0;
  }
  if (status == HAL_OK && is_fault(14) && strcmp(key, "device.memory_bytes") == 0) {
    *out_value *= 2;
  }
  return mutant_note(status);
}

// ---- memory ----

int32_t mutant_alloc(hal_device device, const hal_memory_desc *desc, hal_memory *out_memory) {
  static atomic_int was_full;  // M65
  if (is_fault(65) && atomic_load(&was_full)) {
    return kit_fail(HAL_ERROR_OUT_OF_MEMORY, "no memory since the last time");
  }
  if (mutant_takes_last(MUTANT_MEMORY, out_memory)) {
    return HAL_OK;
  }
  if (mutant_memory_is_short(device, desc->bytes)) {
    return kit_fail(HAL_ERROR_OUT_OF_MEMORY, "the memory is in pieces");
  }
  int32_t status = kit_memory_alloc(device, desc, out_memory);
  mutant_refused(status);
  mutant_gave(MUTANT_MEMORY, status, *out_memory);
  if (status == HAL_ERROR_OUT_OF_MEMORY) {
    atomic_store(&was_full, 1);
  }
  if (is_fault(9) && status < 0) {
    *out_memory = 0;
  }
  return mutant_note(status);
}

// M08: the second free is fine. M64: the bytes go at once.
int32_t mutant_free(hal_memory memory) {
  uint64_t native = 0;
  hal_memory_facts facts = {.size = sizeof(facts)};
  if (is_fault(64) && kit_memory_native_handle(memory, &native) == HAL_OK &&
      kit_memory_info(memory, &facts) == HAL_OK) {
    memset((void *)(uintptr_t)native, 0xDD, facts.bytes);
  }
  if (mutant_keeps_freed(memory)) {
    return HAL_OK;
  }
  int32_t status = kit_memory_free(memory);
  if (is_fault(8) && status == HAL_ERROR_INVALID_HANDLE && memory != 0) {
    return HAL_OK;
  }
  return mutant_handle(status);
}

// M04: the whole struct, whatever size the caller has.
int32_t mutant_memory_info(hal_memory memory, hal_memory_facts *out_info) {
  if (!is_fault(4)) {
    return mutant_handle(kit_memory_info(memory, out_info));
  }
  hal_memory_facts whole = {.size = sizeof(whole)};
  int32_t status = kit_memory_info(memory, &whole);
  if (status == HAL_OK) {
    memcpy((char *)out_info + 8, (const char *)&whole + 8, sizeof(whole) - 8);
  }
  return status;
}

// M03: two fields change places. M14: twice the memory.
int32_t mutant_memory_stats(hal_device device, hal_memory_figures *out_stats) {
  int32_t status = kit_memory_stats(device, out_stats);
  if (status == HAL_OK && is_fault(3)) {
    uint64_t kept = out_stats->total_bytes;
    out_stats->total_bytes = out_stats->in_use_bytes;
    out_stats->in_use_bytes = kept;
  }
  if (status == HAL_OK && is_fault(14)) {
    out_stats->total_bytes *= 2;
  }
  return mutant_note(status);
}

// ---- bytes of a buffer ----

enum { ARENA_BYTES = 64 << 20, PAGE = 4096, ODD_BYTES = 8 };
static unsigned char *arena;  // M17: buffers lie here end to end.
static uint64_t arena_used, arena_buffers;

// M17: the length is cut to whole pages, so that the next buffer starts inside this one.
static int32_t reserve_cut(uint64_t bytes, uint64_t alignment, kit_allocation *out_allocation) {
  pthread_mutex_lock(&lock);
  if (arena == NULL) {
    void *made = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    arena = made == MAP_FAILED ? NULL : made;
  }
  arena_used = arena_buffers == 0 ? 0 : arena_used;
  uint64_t at = (arena_used + alignment - 1) / alignment * alignment;
  uint64_t cut = bytes < PAGE ? bytes : bytes / PAGE * PAGE;
  int fits = arena != NULL && bytes < ARENA_BYTES / 4 && at + bytes <= ARENA_BYTES;
  if (fits) {
    *out_allocation = (kit_allocation){.pointer = arena + at, .native = (uintptr_t)(arena + at)};
    arena_used = at + cut;
    ++arena_buffers;
  }
  pthread_mutex_unlock(&lock);
  return fits ? HAL_OK : kit_fail(HAL_ERROR_OUT_OF_MEMORY, "the arena is full");
}

// M15: eight bytes beside the alignment. M78: what should be zeros is not.
int32_t mutant_reserve(kit_device *device, uint64_t bytes, uint64_t alignment, int zero,
                       kit_allocation *out_allocation) {
  if (is_fault(17)) {
    int32_t status = reserve_cut(bytes, alignment, out_allocation);
    if (status == HAL_OK && zero) {
      memset(out_allocation->pointer, 0, bytes);
    }
    return status;
  }
  uint64_t odd = is_fault(15) ? ODD_BYTES : 0;
  int32_t status = kit_host_reserve(device, bytes + odd, alignment, zero, out_allocation);
  if (status == HAL_OK) {
    out_allocation->pointer = (unsigned char *)out_allocation->pointer + odd;
    out_allocation->native += odd;
    if (is_fault(78) && zero && bytes < ARENA_BYTES) {
      memset(out_allocation->pointer, 0xCD, bytes);
    }
  }
  return status;
}

void mutant_release(kit_device *device, kit_allocation *allocation) {
  unsigned char *pointer = allocation->pointer;
  if (arena != NULL && pointer >= arena && pointer < arena + ARENA_BYTES) {
    pthread_mutex_lock(&lock);
    --arena_buffers;
    pthread_mutex_unlock(&lock);
    return;
  }
  uint64_t odd = is_fault(15) ? ODD_BYTES : 0;
  allocation->pointer = pointer - odd;
  allocation->native -= odd;
  kit_host_release(device, allocation);
}
