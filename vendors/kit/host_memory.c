// Device memory that is the host's own: the kit's way for ports whose chip is this machine or a
// model in it. With the fence on, a buffer lies on pages of its own that can be touched only while
// an operation that uses it runs, with a page behind it that never can.
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kit_state.h"

enum { POISON = 0xA5, POISON_LIMIT = 1 << 20, HUGE_BYTES = 2 << 20 };

typedef struct fence {
  pthread_mutex_t lock;
  uint32_t users;  // Running operations that use the buffer.
  char *pages;
  uint64_t open_bytes;    // Pages that open and close.
  uint64_t mapped_bytes;  // These and what stays closed.
  char *mapping;
} fence;

static _Atomic bool fenced;

void kit_host_fence(int on) {
  atomic_store(&fenced, on != 0);
}

int kit_host_is_fenced(void) {
  return atomic_load(&fenced);
}

uint64_t kit_host_physical_bytes(void) {
  return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

static int32_t no_room(uint64_t bytes) {
  return kit_fail(HAL_ERROR_OUT_OF_MEMORY, "the host has no room for %llu bytes",
                  (unsigned long long)bytes);
}

// Maps closed pages: [unused up to the alignment] buffer [guard page].
static int32_t map_fenced(uint64_t bytes, uint64_t alignment, int zero, kit_allocation *out) {
  uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
  uint64_t open_bytes = (bytes + page - 1) & ~(page - 1);
  uint64_t slack = alignment > page ? alignment : 0;
  uint64_t mapped = open_bytes + page + slack;
  fence *mine = bytes > UINT64_MAX / 4 || slack > UINT64_MAX / 4 ? NULL : calloc(1, sizeof(*mine));
  if (mine == NULL) {
    return no_room(bytes);
  }
  char *mapping = mmap(NULL, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) {
    free(mine);
    return no_room(bytes);
  }
  uint64_t start = (uint64_t)(uintptr_t)mapping;
  uint64_t aligned = slack == 0 ? start : (start + alignment - 1) & ~(alignment - 1);
  pthread_mutex_init(&mine->lock, NULL);
  mine->mapping = mapping;
  mine->mapped_bytes = mapped;
  mine->pages = mapping + (aligned - start);
  mine->open_bytes = open_bytes;
  // The buffer ends as near to the guard page as its alignment allows.
  uint64_t lead = alignment >= page ? 0 : (open_bytes - bytes) & ~(alignment - 1);
  out->pointer = mine->pages + lead;
  out->port_data = mine;
  if (!zero && bytes <= POISON_LIMIT &&
      mprotect(mine->pages, open_bytes, PROT_READ | PROT_WRITE) == 0) {
    memset(out->pointer, POISON, bytes);
    mprotect(mine->pages, open_bytes, PROT_NONE);
  }
  return HAL_OK;
}

int32_t kit_host_reserve(kit_device *device, uint64_t bytes, uint64_t alignment, int zero,
                         kit_allocation *out) {
  (void)device;
  alignment = alignment < 64 ? 64 : alignment;
  if (kit_host_is_fenced()) {
    int32_t status = map_fenced(bytes, alignment, zero, out);
    out->native = (uint64_t)(uintptr_t)out->pointer;
    return status;
  }
  bool huge = bytes >= 2 * HUGE_BYTES;
  alignment = huge && alignment < HUGE_BYTES ? HUGE_BYTES : alignment;
  uint64_t rounded = (bytes + alignment - 1) & ~(alignment - 1);
  if (rounded >= bytes && posix_memalign(&out->pointer, alignment, rounded) != 0) {
    out->pointer = NULL;
  }
  if (out->pointer == NULL) {
    return no_room(bytes);
  }
  if (huge) {
    madvise(out->pointer, rounded, MADV_HUGEPAGE);  // Fewer faults; fine when it is refused.
  }
  if (zero) {
    memset(out->pointer, 0, bytes);
  }
  out->native = (uint64_t)(uintptr_t)out->pointer;
  return HAL_OK;
}

void kit_host_release(kit_device *device, kit_allocation *allocation) {
  (void)device;
  fence *mine = allocation->port_data;
  if (mine == NULL) {
    free(allocation->pointer);
    return;
  }
  munmap(mine->mapping, mine->mapped_bytes);
  pthread_mutex_destroy(&mine->lock);
  free(mine);
}

void kit_host_open(const kit_range *range, bool open) {
  fence *mine = range->memory == NULL ? NULL : range->memory->allocation.port_data;
  if (mine == NULL) {
    return;
  }
  pthread_mutex_lock(&mine->lock);
  if (open ? mine->users++ == 0 : --mine->users == 0) {
    mprotect(mine->pages, mine->open_bytes, open ? PROT_READ | PROT_WRITE : PROT_NONE);
  }
  pthread_mutex_unlock(&mine->lock);
}
