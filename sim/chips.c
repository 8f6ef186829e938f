// What the port knows of its chips and their links, for who asks from outside a plan.
#include "events.h"
#include "system.h"

sim_system sim_the_system = {.lock = PTHREAD_MUTEX_INITIALIZER};

uint32_t sim_device_count(void) {
  return sim_the_system.count;
}

const vil_cost *sim_device_cost(uint32_t index) {
  return sim_the_system.chips[index].timing.cost;
}

uint32_t sim_device_guesses(uint32_t index) {
  return sim_the_system.chips[index].timing.guesses;
}

int32_t sim_system_all_reduce(uint32_t ranks, double bytes, uint32_t algorithm, double *out_ns,
                              double *out_events) {
  if (sim_the_system.topology == NULL || ranks > sim_the_system.count) {
    return kit_fail(HAL_ERROR_INVALID_VALUE, "the system has %u devices with links, not %u",
                    sim_the_system.topology == NULL ? 0 : sim_the_system.count, ranks);
  }
  pthread_mutex_lock(&sim_the_system.lock);
  int32_t status =
      sim_all_reduce(sim_the_system.topology, NULL, ranks, bytes, algorithm, out_ns, out_events);
  pthread_mutex_unlock(&sim_the_system.lock);
  return status;
}
