// The handle table. A handle is kind (4 bits) · salt of the port (8) · generation (28) · index
// (24).
//
// A slot's state is its generation (upper half; even: live) and its references (lower half), so
// that taking a reference by handle is one compare-and-swap and needs no lock. Slots are never
// freed; generations go on over shutdown and init, so old handles stay refused.
#include <stdlib.h>
#include <string.h>

#include "kit_state.h"

enum { INDEX_BITS = 24, GENERATION_BITS = 28, CHUNK_BITS = 10, CHUNK = 1 << CHUNK_BITS };
#define CHUNK_COUNT ((1u << INDEX_BITS) / CHUNK)
#define GENERATION_MASK ((UINT64_C(1) << GENERATION_BITS) - 1)
#define REFERENCES UINT64_C(0xFFFFFFFF)

typedef struct kit_slot {
  _Atomic uint64_t state;
  _Atomic uint64_t handle;
  kit_object *object;
  uint32_t index;
  uint32_t next_free;  // Index + 1.
} kit_slot;

static struct {
  pthread_mutex_t lock;
  _Atomic(kit_slot *) chunks[CHUNK_COUNT];
  _Atomic uint32_t used;  // Slots ever given out.
  uint32_t first_free;    // Index + 1.
  uint64_t salt;
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const char *const kind_names[] = {"",      "device", "memory", "stream",
                                         "event", "module", "kernel", "communicator"};

void kit_handles_salt(const char *name) {
  uint32_t hash = 2166136261u;  // FNV-1a
  for (; *name != '\0'; ++name) {
    hash = (hash ^ (unsigned char)*name) * 16777619u;
  }
  table.salt = (hash ^ (hash >> 8) ^ (hash >> 16) ^ (hash >> 24)) & 0xFF;
}

static kit_slot *slot_at(uint32_t index) {
  kit_slot *chunk = atomic_load_explicit(&table.chunks[index >> CHUNK_BITS], memory_order_acquire);
  return chunk == NULL ? NULL : &chunk[index & (CHUNK - 1)];
}

// Takes a slot that nobody uses; NULL when the table is full. Called with the table locked.
static kit_slot *take_slot(void) {
  if (table.first_free != 0) {
    kit_slot *slot = slot_at(table.first_free - 1);
    table.first_free = slot->next_free;
    return slot;
  }
  uint32_t index = atomic_load_explicit(&table.used, memory_order_relaxed);
  if (index >> INDEX_BITS != 0) {
    return NULL;
  }
  if (slot_at(index) == NULL) {
    kit_slot *chunk = calloc(CHUNK, sizeof(*chunk));
    if (chunk == NULL) {
      return NULL;
    }
    for (uint32_t i = 0; i < CHUNK; ++i) {
      chunk[i].index = index + i;
      atomic_init(&chunk[i].state, UINT64_C(1) << 32);
    }
    atomic_store_explicit(&table.chunks[index >> CHUNK_BITS], chunk, memory_order_release);
  }
  atomic_store_explicit(&table.used, index + 1, memory_order_release);
  return slot_at(index);
}

uint64_t kit_handle_create(kit_object *object, kit_kind kind, kit_device *device) {
  pthread_mutex_lock(&table.lock);
  kit_slot *slot = take_slot();
  pthread_mutex_unlock(&table.lock);
  if (slot == NULL) {
    return 0;
  }
  if (device != NULL) {
    kit_retain(device);
  }
  uint64_t generation = (atomic_load_explicit(&slot->state, memory_order_relaxed) >> 32) + 1;
  uint64_t handle = (uint64_t)kind << 60 | table.salt << 52 |
                    (generation & GENERATION_MASK) << INDEX_BITS | slot->index;
  object->handle = handle;
  object->slot = slot;
  object->device = device;
  slot->object = object;
  atomic_store_explicit(&slot->handle, handle, memory_order_relaxed);
  atomic_store_explicit(&slot->state, (generation << 32 & ~REFERENCES) | 1, memory_order_release);
  return handle;
}

// Takes a reference when the slot is live and, with `handle`, still this handle's.
static kit_object *take_reference(kit_slot *slot, uint64_t handle) {
  uint64_t state = atomic_load_explicit(&slot->state, memory_order_acquire);
  do {
    uint64_t generation = state >> 32;
    if ((generation & 1) != 0 || (state & REFERENCES) == 0 ||
        (handle != 0 &&
         (generation & GENERATION_MASK) != (handle >> INDEX_BITS & GENERATION_MASK))) {
      return NULL;
    }
  } while (!atomic_compare_exchange_weak_explicit(&slot->state, &state, state + 1,
                                                  memory_order_acquire, memory_order_acquire));
  return slot->object;
}

void *kit_acquire(uint64_t handle, kit_kind kind) {
  uint32_t index = (uint32_t)(handle & ((1u << INDEX_BITS) - 1));
  kit_slot *slot = handle >> 60 == (uint64_t)kind ? slot_at(index) : NULL;
  kit_object *object = slot == NULL ? NULL : take_reference(slot, handle);
  if (object != NULL && object->handle != handle) {
    kit_release(object);
    object = NULL;
  }
  if (object == NULL) {
    uint64_t found = handle >> 60;
    if (handle == 0) {
      kit_fail(HAL_ERROR_INVALID_HANDLE, "the %s handle is zero", kind_names[kind]);
    } else if (found != (uint64_t)kind && found >= 1 && found <= KIT_KIND_KERNEL) {
      kit_fail(HAL_ERROR_INVALID_HANDLE, "handle 0x%llx is a %s, not a %s",
               (unsigned long long)handle, kind_names[found], kind_names[kind]);
    } else {
      kit_fail(HAL_ERROR_INVALID_HANDLE, "0x%llx is no live %s handle", (unsigned long long)handle,
               kind_names[kind]);
    }
  }
  return object;
}

kit_kind kit_object_kind(const kit_object *object) {
  return (kit_kind)(object->handle >> 60);
}

void kit_retain(void *object) {
  atomic_fetch_add_explicit(&((kit_object *)object)->slot->state, 1, memory_order_relaxed);
}

void kit_release(void *object) {
  kit_object *mine = object;
  kit_slot *slot = mine->slot;
  uint64_t before = atomic_fetch_sub_explicit(&slot->state, 1, memory_order_acq_rel);
  if ((before & REFERENCES) != 1) {
    return;
  }
  kit_device *device = mine->device;
  slot->object = NULL;
  mine->finish(mine);
  pthread_mutex_lock(&table.lock);
  slot->next_free = table.first_free;
  table.first_free = slot->index + 1;
  pthread_mutex_unlock(&table.lock);
  if (device != NULL) {
    kit_release(device);
  }
}

bool kit_retire(void *object) {
  kit_object *mine = object;
  kit_slot *slot = mine->slot;
  uint64_t state = atomic_load_explicit(&slot->state, memory_order_relaxed);
  uint64_t next;
  do {
    if ((state >> 32 & 1) != 0) {
      return false;
    }
    next = state + (UINT64_C(1) << 32);
  } while (!atomic_compare_exchange_weak_explicit(&slot->state, &state, next, memory_order_acq_rel,
                                                  memory_order_relaxed));
  kit_release(mine);
  return true;
}

void kit_handles_each(const kit_device *device, void (*visit)(kit_object *object)) {
  uint32_t used = atomic_load_explicit(&table.used, memory_order_acquire);
  for (uint32_t index = 0; index < used; ++index) {
    kit_slot *slot = slot_at(index);
    kit_object *object = slot == NULL ? NULL : take_reference(slot, 0);
    if (object == NULL) {
      continue;
    }
    bool is_device = kit_object_kind(object) == KIT_KIND_DEVICE;
    if (device == NULL ? is_device : object->device == device) {
      visit(object);
    }
    kit_release(object);
  }
}
