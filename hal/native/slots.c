// Handles of objects that the emulate layer makes itself.
#include "emulation.h"

enum { KIND_SHIFT = 56, GENERATION_MASK = 0xFFFFFF };

uint64_t hal_slot_add(hal_slots *slots, void *object) {
  uint32_t index = slots->first_free;
  while (index < slots->count && slots->slots[index].object != NULL) ++index;
  if (index == slots->count) {
    const uint32_t count = slots->count == 0 ? 16 : slots->count * 2;
    hal_slot *grown = realloc(slots->slots, count * sizeof(*grown));
    if (grown == NULL) return 0;
    for (uint32_t i = slots->count; i < count; ++i) grown[i] = (hal_slot){0};
    slots->slots = grown;
    slots->count = count;
  }
  slots->first_free = index + 1;
  hal_slot *slot = &slots->slots[index];
  slot->object = object;
  slot->generation = (slot->generation + 1) & GENERATION_MASK;
  return slots->kind << KIND_SHIFT | (uint64_t)slot->generation << 32 | (index + 1);
}

static hal_slot *find(const hal_slots *slots, uint64_t handle) {
  const uint32_t index = (uint32_t)handle - 1;
  if (handle >> KIND_SHIFT != slots->kind || index >= slots->count) return NULL;
  hal_slot *slot = &slots->slots[index];
  return slot->generation == (handle >> 32 & GENERATION_MASK) ? slot : NULL;
}

void *hal_slot_get(const hal_slots *slots, uint64_t handle) {
  const hal_slot *slot = find(slots, handle);
  return slot == NULL ? NULL : slot->object;
}

void *hal_slot_remove(hal_slots *slots, uint64_t handle) {
  hal_slot *slot = find(slots, handle);
  if (slot == NULL) return NULL;
  void *object = slot->object;
  hal_slot_clear(slots, (uint32_t)(slot - slots->slots));
  return object;
}

void hal_slot_clear(hal_slots *slots, uint32_t index) {
  slots->slots[index].object = NULL;
  if (index < slots->first_free) slots->first_free = index;
}
