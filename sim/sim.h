// The parts of the simulated chip. docs/simulator-port.md is the guide.
#ifndef SIM_SIM_H_
#define SIM_SIM_H_

#include "kit.h"
#include "resource.h"
#include "vil_schedule.h"

enum { SIM_MOST_DEVICES = 4096, SIM_NAME_BYTES = 128 };

// ---- options.c: what the host asks for ----
enum {
  SIM_CHECK_UNINITIALISED = 1,
  SIM_CHECK_RACE = 2,
  SIM_CHECK_BOUNDS = 4,
  SIM_CHECK_LIFETIME = 8,
  SIM_CHECK_DEADLOCK = 16
};
typedef struct sim_options {
  int functional;   // 0: timing alone; data memory is never touched.
  uint32_t checks;  // SIM_CHECK_*.
  double deadlock_s;
  char trace[1024];  // Path, or empty.
  // Faults; a negative count means never.
  int64_t out_of_memory_after;  // Allocations that still succeed.
  int64_t lose_device_after;    // Operations that still run.
  int64_t fail_kernel;          // 1-based number of the launch that fails; 0 never.
  int64_t dead_rank;            // Device whose transfers with others fail.
  int64_t late_ns, late_ms;     // Later completion: virtual, and real.
  double slow_link;             // Divides the bandwidth of every link.
} sim_options;
// HAL_OK, or HAL_ERROR_INVALID_VALUE and a text that names the option.
int32_t sim_options_read(sim_options *out);
const sim_options *sim_options_now(void);

// ---- topology.c: links between the devices of a system ----
typedef struct sim_link {
  char id[SIM_NAME_BYTES];
  uint32_t ends[2];  // Nodes.
  double bytes_per_s, latency_ns;
  int full_duplex;
  sim_resource ways[2];  // From ends[0] to ends[1] and back; of a half-duplex link only the first.
} sim_link;
typedef struct sim_topology sim_topology;
// NULL without memory. Nodes 0 … count − 1 are the devices.
sim_topology *sim_topology_create(const kit_hcd *system, const char *const *devices,
                                  uint32_t count);
void sim_topology_free(sim_topology *self);
uint32_t sim_topology_link_count(const sim_topology *self);
void sim_topology_reset(sim_topology *self);  // No link is in use any more.
sim_link *sim_topology_link(sim_topology *self, uint32_t index);

// The way between two devices: with the fewest links, then the widest.
typedef struct sim_route {
  int exists;
  double bytes_per_s;  // The narrowest link, one direction.
  double latency_ns;   // All links and switches on the way.
} sim_route;
sim_route sim_topology_route(const sim_topology *self, uint32_t from, uint32_t to);
// The links of a route, in order: the resource of each link's direction. Their number, 0 without a
// way; at most `room` are written.
uint32_t sim_topology_ways(sim_topology *self, uint32_t from, uint32_t to, sim_resource **out,
                           const char **out_names, uint32_t room);

// ---- timing.c: one chip in virtual time ----
typedef struct sim_timing {
  vil_cost *cost;
  uint32_t guesses;
  double copy_setup_ns, memory_bytes_per_s, memory_latency_ns;
  double host_bytes_per_s;  // Between host and device.
  sim_resource cores;
  sim_resource copies[2];  // To the device and on it; to the host.
  int one_engine;          // Both directions share the first.
} sim_timing;
// HAL_OK, or HAL_ERROR_NOT_FOUND and a text that names what the description lacks.
int32_t sim_timing_read(const kit_hcd *hcd, sim_timing *out);
void sim_timing_end(sim_timing *self);
// Sets the times of an operation on one chip and says which track of the trace it runs on;
// `begin_ns` holds the earliest begin. Peer copies are port.c's.
const char *sim_timing_plan(sim_timing *self, kit_operation *operation, vil_schedule *out_launch);

// ---- trace.c: a timeline in the trace event format ----
void sim_trace_begin(void);  // With the port stopped.
void sim_trace_add(uint32_t device, uint64_t stream, const char *name, const char *track,
                   uint64_t begin_ns, uint64_t end_ns, const vil_schedule *launch);
// Writes the file that the option names; a failure goes to the host's log.
void sim_trace_end(void);

// ---- extension.c ----
int32_t sim_get_extension(const char *name, uint32_t version, const void **out_table);

// ---- chips.c ----
uint32_t sim_device_count(void);
const vil_cost *sim_device_cost(uint32_t index);
uint32_t sim_device_guesses(uint32_t index);
int32_t sim_system_all_reduce(uint32_t ranks, double bytes, uint32_t algorithm, double *out_ns,
                              double *out_events);

#endif  // SIM_SIM_H_
