// An event queue: messages between ranks over the links of a system, in virtual time.
#ifndef SIM_EVENTS_H_
#define SIM_EVENTS_H_

#include "sim.h"

enum { SIM_RING = 0, SIM_DOUBLING = 1 };

// Links of ranks that stand in a ring of their own, each to the next, both ways at once.
typedef struct sim_ring_links {
  double bytes_per_s, latency_ns;
} sim_ring_links;

// The time of one all-reduce of `bytes` over `ranks` chips, message by message. `system` NULL takes
// the ring of `links`. Each message holds every link on its way; whoever is ready first goes first.
// HAL_OK; HAL_ERROR_INVALID_VALUE for ranks or an algorithm that do not fit, HAL_ERROR_NOT_FOUND
// when two ranks have no way, HAL_ERROR_OUT_OF_MEMORY.
int32_t sim_all_reduce(sim_topology *system, const sim_ring_links *links, uint32_t ranks,
                       double bytes, uint32_t algorithm, double *out_ns, double *out_events);

#endif  // SIM_EVENTS_H_
