// A thing of the chip that operations share in virtual time: cores, copy engines, a link.
#ifndef SIM_RESOURCE_H_
#define SIM_RESOURCE_H_

#include <stdint.h>

enum { SIM_KEPT_USES = 48 };

typedef struct sim_use {
  uint64_t begin_ns, end_ns;
  uint32_t amount;
} sim_use;

// `capacity` units, and who takes them when. Uses that are forgotten raise the floor: nothing new
// begins before it.
typedef struct sim_resource {
  uint32_t capacity;
  uint32_t count;
  uint64_t floor_ns;
  sim_use uses[SIM_KEPT_USES];
} sim_resource;

void sim_resource_reset(sim_resource *self);
// The first time, at or after `earliest_ns`, from which `amount` units are free for `duration_ns`.
uint64_t sim_resource_fit(const sim_resource *self, uint64_t earliest_ns, uint64_t duration_ns,
                          uint32_t amount);
void sim_resource_take(sim_resource *self, uint64_t begin_ns, uint64_t duration_ns,
                       uint32_t amount);

#endif  // SIM_RESOURCE_H_
