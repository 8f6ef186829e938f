#include "resource.h"

static uint64_t later(uint64_t a, uint64_t b) {
  return a > b ? a : b;
}

// Units in use at one moment.
static uint32_t used_at(const sim_resource *self, uint64_t when_ns) {
  uint32_t used = 0;
  for (uint32_t i = 0; i < self->count; ++i) {
    const sim_use *use = &self->uses[i];
    used += use->begin_ns <= when_ns && when_ns < use->end_ns ? use->amount : 0;
  }
  return used;
}

// Whether `amount` units are free in [begin, end). Use rises only where a use begins.
static int is_free(const sim_resource *self, uint64_t begin_ns, uint64_t end_ns, uint32_t amount) {
  if (used_at(self, begin_ns) + amount > self->capacity) {
    return 0;
  }
  for (uint32_t i = 0; i < self->count; ++i) {
    uint64_t at = self->uses[i].begin_ns;
    if (at > begin_ns && at < end_ns && used_at(self, at) + amount > self->capacity) {
      return 0;
    }
  }
  return 1;
}

void sim_resource_reset(sim_resource *self) {
  self->count = 0;
  self->floor_ns = 0;
}

uint64_t sim_resource_fit(const sim_resource *self, uint64_t earliest_ns, uint64_t duration_ns,
                          uint32_t amount) {
  uint64_t begin = later(earliest_ns, self->floor_ns);
  amount = amount < self->capacity ? amount : self->capacity;
  while (!is_free(self, begin, begin + duration_ns, amount)) {
    uint64_t next = UINT64_MAX;  // Units come free only where a use ends.
    for (uint32_t i = 0; i < self->count; ++i) {
      uint64_t end = self->uses[i].end_ns;
      next = end > begin && end < next ? end : next;
    }
    if (next == UINT64_MAX) {
      break;
    }
    begin = next;
  }
  return begin;
}

void sim_resource_take(sim_resource *self, uint64_t begin_ns, uint64_t duration_ns,
                       uint32_t amount) {
  if (duration_ns == 0) {
    return;
  }
  sim_use use = {begin_ns, begin_ns + duration_ns,
                 amount < self->capacity ? amount : self->capacity};
  if (self->count < SIM_KEPT_USES) {
    self->uses[self->count++] = use;
    return;
  }
  uint32_t oldest = 0;
  for (uint32_t i = 1; i < self->count; ++i) {
    oldest = self->uses[i].end_ns < self->uses[oldest].end_ns ? i : oldest;
  }
  self->floor_ns = later(self->floor_ns, self->uses[oldest].end_ns);
  self->uses[oldest] = use;
}
