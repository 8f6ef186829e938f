// Groups: several ranks of one thread join or communicate together. What a group holds starts when
// its outermost end is called.
#include <string.h>

#include "circle.h"

typedef struct pending {
  hal_part *part;  // NULL for a rank that joins.
  hal_emulation *emulation;
  hal_device device;
  hal_comm_desc desc;
  hal_comm *out_comm;  // NULL for a part.
  int was_offered;     // To the port.
  hal_rank *rank;
} pending;

static _Thread_local struct {
  uint32_t depth;
  pending *items;
  uint32_t count, room;
} group;

int hal_group_is_open(void) {
  return group.depth != 0;
}

void hal_group_open(void) {
  group.depth += 1;
}

static int32_t add(hal_emulation *emulation, const pending *item) {
  if (group.count == group.room) {
    const uint32_t room = group.room == 0 ? 16 : group.room * 2;
    pending *grown = realloc(group.items, room * sizeof(*grown));
    if (grown == NULL) {
      return hal_record(emulation->port, HAL_ERROR_OUT_OF_MEMORY, "no host memory");
    }
    group.items = grown;
    group.room = room;
  }
  group.items[group.count++] = *item;
  return HAL_OK;
}

int32_t hal_group_add_part(hal_part *part) {
  const int32_t status = add(part->rank->emulation, &(pending){.part = part});
  if (status != HAL_OK) hal_part_release(part);
  return status;
}

int32_t hal_group_add_rank(hal_emulation *emulation, hal_device device, const hal_comm_desc *desc,
                           hal_comm *out_comm) {
  pending item = {.emulation = emulation, .device = device, .out_comm = out_comm};
  memcpy(&item.desc, desc, desc->size < sizeof(item.desc) ? desc->size : sizeof(item.desc));
  return add(emulation, &item);
}

static void keep_first(int32_t *first, int32_t status) {
  if (*first == HAL_OK) *first = status;
}

static int is_same_comm(const pending *one, const pending *other) {
  return other->out_comm != NULL &&
         memcmp(&one->desc.id, &other->desc.id, sizeof(one->desc.id)) == 0;
}

// Has the port make the ranks of one communicator; UNSUPPORTED: they are the layer's to join.
static int32_t offer(pending *items, uint32_t count, const pending *first) {
  hal_emulation *emulation = first->emulation;
  hal_layer *next = emulation->next;
  if (!HAL_PORT_HAS(emulation, collective_comm_create)) return HAL_ERROR_UNSUPPORTED;
  int32_t status = HAL_OK, ended = HAL_ERROR_UNSUPPORTED;
  if (HAL_PORT_HAS(emulation, collective_group_begin)) {
    ended = next->calls->collective_group_begin(next);
  }
  for (uint32_t i = 0; i < count && status == HAL_OK; ++i) {
    if (!is_same_comm(first, &items[i])) continue;
    status = next->calls->collective_comm_create(next, items[i].device, &items[i].desc,
                                                 items[i].out_comm);
  }
  if (ended == HAL_OK) {
    ended = next->calls->collective_group_end(next);
    if (status == HAL_OK) status = ended;
  }
  return status;
}

// The ranks that the port makes are made communicator by communicator.
static void join_in_port(pending *items, uint32_t count, int32_t *first) {
  for (uint32_t i = 0; i < count; ++i) {
    if (items[i].out_comm == NULL || items[i].was_offered) continue;
    const pending one = items[i];
    const int32_t status = offer(items, count, &one);
    if (status != HAL_ERROR_UNSUPPORTED) keep_first(first, status);
    for (uint32_t k = i; k < count; ++k) {
      if (!is_same_comm(&one, &items[k])) continue;
      items[k].was_offered = 1;
      if (status == HAL_OK) hal_exchange_created(one.emulation, &items[k].desc, *items[k].out_comm);
      if (status != HAL_ERROR_UNSUPPORTED) items[k].out_comm = NULL;  // Nothing is left to do.
    }
  }
}

// All ranks of the group join before any of them waits.
static void join_all(pending *items, uint32_t count, int32_t *first) {
  for (uint32_t i = 0; i < count; ++i) {
    if (items[i].out_comm == NULL) continue;
    keep_first(first,
               hal_rank_join(items[i].emulation, items[i].device, &items[i].desc, &items[i].rank));
  }
  for (uint32_t i = 0; i < count; ++i) {
    if (items[i].rank == NULL) continue;
    keep_first(first, hal_rank_complete(items[i].rank, items[i].out_comm));
  }
}

// Whether a part can start together with those of `step` before it: a rank does one collective at a
// time, but any number of sends and receives.
static int fits(const pending *items, uint32_t step, uint32_t index) {
  const hal_part *part = items[index].part;
  for (uint32_t i = step; i < index; ++i) {
    const hal_part *other = items[i].part;
    if (other == NULL || other->rank != part->rank) continue;
    if (part->what < HAL_SEND || other->what < HAL_SEND) return 0;
  }
  return 1;
}

// Starts the parts in steps. In a step all sources are copied out before any stream waits, so ranks
// that share a stream or wait for each other do not hold each other up.
static void start_all(pending *items, uint32_t count, int32_t *first) {
  for (uint32_t step = 0; step < count;) {
    uint32_t end = step;
    while (end < count && (items[end].part == NULL || fits(items, step, end))) ++end;
    for (uint32_t i = step; i < end; ++i) {
      if (items[i].part == NULL) continue;
      const int32_t status = hal_part_begin(items[i].part);
      if (status == HAL_OK) continue;
      keep_first(first, status);
      hal_part_release(items[i].part);
      items[i].part = NULL;
    }
    for (uint32_t i = step; i < end; ++i) {
      if (items[i].part != NULL) keep_first(first, hal_part_finish(items[i].part));
    }
    step = end;
  }
}

int32_t hal_group_close(hal_emulation *emulation) {
  if (group.depth == 0) {
    return hal_record(emulation->port, HAL_ERROR_INVALID_STATE,
                      "this thread has not opened a group");
  }
  if (--group.depth != 0) return HAL_OK;
  pending *items = group.items;
  const uint32_t count = group.count;
  group.items = NULL;
  group.count = group.room = 0;
  int32_t first = HAL_OK;
  join_in_port(items, count, &first);
  join_all(items, count, &first);
  start_all(items, count, &first);
  free(items);
  return first;
}
