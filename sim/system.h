// The chips that are simulated, and the lock of virtual time.
#ifndef SIM_SYSTEM_H_
#define SIM_SYSTEM_H_

#include <pthread.h>

#include "sim.h"

typedef struct sim_chip {
  char id[SIM_NAME_BYTES];  // In the system; empty for a chip alone.
  char name[300];
  char reference[300];
  kit_hcd *owned;  // Of a system's device.
  const kit_hcd *hcd;
  uint64_t memory_bytes, alignment_bytes;
  sim_timing timing;
  uint64_t session;  // Handle of the opening whose clock the times follow.
} sim_chip;

typedef struct sim_system {
  sim_chip *chips;
  uint32_t count;
  sim_topology *topology;  // NULL: a chip alone.
  pthread_mutex_t lock;    // Of virtual time: resources, links and counts.
  int64_t allocations, operations, launches;
} sim_system;
extern sim_system sim_the_system;

// ---- work.c, plan.c: the kit's hooks ----
int32_t sim_reserve(kit_device *device, uint64_t bytes, uint64_t alignment, int zero,
                    kit_allocation *out);
void sim_release(kit_device *device, kit_allocation *allocation);
int32_t sim_run(kit_device *device, kit_operation *operation);
void sim_plan(kit_device *device, uint64_t stream, kit_operation *operation);
int32_t sim_peer_info(uint32_t index, uint32_t peer, uint32_t key, int64_t *out_value);

#endif  // SIM_SYSTEM_H_
