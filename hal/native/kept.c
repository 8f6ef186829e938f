// Buffers that a graph or a copy on its way still uses: a free of one makes its handle dead at
// once, and the port's free follows with the last release.
#include "emulation.h"

typedef struct hal_kept {
  uint32_t users;
  int is_dead;
} hal_kept;

int hal_keep(hal_emulation *emulation, hal_memory memory) {
  pthread_mutex_lock(&emulation->lock);
  hal_kept *kept = hal_map_get(&emulation->kept, memory);
  if (kept == NULL) {
    kept = calloc(1, sizeof(*kept));
    if (kept != NULL && !hal_map_add(&emulation->kept, memory, kept)) {
      free(kept);
      kept = NULL;
    }
    if (kept != NULL) atomic_fetch_add(&emulation->kept_count, 1);
  }
  if (kept != NULL) kept->users += 1;
  pthread_mutex_unlock(&emulation->lock);
  return kept != NULL;
}

void hal_release(hal_emulation *emulation, hal_memory memory) {
  int is_dead = 0;
  pthread_mutex_lock(&emulation->lock);
  hal_kept *kept = hal_map_get(&emulation->kept, memory);
  if (kept != NULL && --kept->users == 0) {
    is_dead = kept->is_dead;
    hal_map_remove(&emulation->kept, memory);
    atomic_fetch_sub(&emulation->kept_count, 1);
    free(kept);
  }
  pthread_mutex_unlock(&emulation->lock);
  if (!is_dead) return;
  emulation->next->calls->memory_free(emulation->next, memory);
  atomic_fetch_sub(&emulation->watch, 1);
}

int32_t hal_check_dead(hal_emulation *emulation, hal_memory memory) {
  if (atomic_load_explicit(&emulation->watch, memory_order_relaxed) == 0) return HAL_OK;
  pthread_mutex_lock(&emulation->lock);
  const hal_kept *kept = memory == 0 ? NULL : hal_map_get(&emulation->kept, memory);
  const int is_dead = kept != NULL && kept->is_dead;
  pthread_mutex_unlock(&emulation->lock);
  return is_dead ? hal_refuse_handle(emulation, "buffer", memory) : HAL_OK;
}

int32_t hal_kept_free(hal_layer *self, hal_memory memory) {
  hal_emulation *emulation = self->state;
  if (atomic_load_explicit(&emulation->kept_count, memory_order_relaxed) != 0 && memory != 0) {
    int is_kept = 0, was_dead = 0;
    pthread_mutex_lock(&emulation->lock);
    hal_kept *kept = hal_map_get(&emulation->kept, memory);
    if (kept != NULL) {
      is_kept = 1;
      was_dead = kept->is_dead;
      kept->is_dead = 1;
      if (!was_dead) atomic_fetch_add(&emulation->watch, 1);
    }
    pthread_mutex_unlock(&emulation->lock);
    if (was_dead) return hal_refuse_handle(emulation, "buffer", memory);
    if (is_kept) return HAL_OK;
  }
  return self->next->calls->memory_free(self->next, memory);
}

static int32_t info(hal_layer *self, hal_memory memory, hal_memory_facts *out_info) {
  const int32_t status = hal_check_dead(self->state, memory);
  return status == HAL_OK ? self->next->calls->memory_info(self->next, memory, out_info) : status;
}

static int32_t native_handle(hal_layer *self, hal_memory memory, uint64_t *out_native) {
  const int32_t status = hal_check_dead(self->state, memory);
  if (status != HAL_OK) return status;
  return self->next->calls->memory_native_handle(self->next, memory, out_native);
}

static int32_t export_handle(hal_layer *self, hal_memory memory, hal_ipc_handle *out_handle) {
  const int32_t status = hal_check_dead(self->state, memory);
  if (status != HAL_OK) return status;
  return self->next->calls->memory_export_handle(self->next, memory, out_handle);
}

void hal_emulate_kept(hal_emulation *emulation) {
  emulation->calls.memory_free = hal_kept_free;
  emulation->calls.memory_info = info;
  emulation->calls.memory_native_handle = native_handle;
  emulation->calls.memory_export_handle = export_handle;
}
