// The parts of the simulated chip: timing and topology.
#ifndef SIM_SIM_H_
#define SIM_SIM_H_

#include "kit.h"

enum { SIM_MOST_DEVICES = 256 };

// ---- timing.c ----
// Rates of one chip in units per second, from its description. A rate of 0 is unknown: what needs
// it takes no time.
typedef struct sim_rates {
  double launch_ns, copy_setup_ns;
  double memory_bytes_per_s;  // Of the memory that holds buffers, read and write together.
  double host_bytes_per_s;    // Between host and device.
  double memory_latency_ns;
  double cores;
  double core_load_bytes_per_s, core_store_bytes_per_s;  // Of one core's engines.
  double core_macs_per_s, core_elements_per_s;
} sim_rates;

// Reads the rates. HAL_OK, or HAL_ERROR_NOT_FOUND and a text that names the key that is missing.
int32_t sim_read_rates(const kit_hcd *hcd, sim_rates *out_rates);

// Time of an operation on one chip, in virtual nanoseconds; peer copies are topology's.
uint64_t sim_duration_ns(const sim_rates *rates, const kit_operation *operation);

// ---- topology.c ----
// The way between two devices of a system.
typedef struct sim_route {
  int exists;
  double bytes_per_s;  // The narrowest link, one direction.
  double latency_ns;   // All links and switches on the way.
} sim_route;

// The shortest way from device `from` to device `to` over the links of a system's description.
sim_route sim_find_route(const kit_hcd *system, const char *from, const char *to);

#endif  // SIM_SIM_H_
