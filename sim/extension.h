// What the simulated port offers beside the twelve tables, through port.get_extension(name, 1).
// All numbers are doubles, so that a caller without C declarations can use them.
#ifndef SIM_EXTENSION_H_
#define SIM_EXTENSION_H_

#include "hal/hal.h"

// Numbers of one prediction, in this order.
enum {
  SIM_TIME_NS,
  SIM_OVERHEAD_NS,
  SIM_CORE_NS,
  SIM_MEMORY_NS,
  SIM_CACHE_NS,
  SIM_BUSY_DMA_IN_NS,
  SIM_BUSY_DMA_OUT_NS,
  SIM_BUSY_VECTOR_NS,
  SIM_BUSY_MATRIX_NS,
  SIM_BUSY_SCALAR_NS,
  SIM_LOADED_BYTES,
  SIM_STORED_BYTES,
  SIM_MEMORY_BYTES,
  SIM_MACS,
  SIM_VECTOR_ELEMENTS,
  SIM_INSTRUCTIONS,
  SIM_PROGRAMS,
  SIM_CLASSES,
  SIM_CORES_USED,
  SIM_BOUND,  // vil_schedule.h: VIL_BOUND_*.
  SIM_OPEN_COUNTS,
  SIM_OPEN_BRANCHES,
  SIM_SAMPLED_AXES,
  SIM_MEAN_LOOPS,
  SIM_GUESSES,  // Rates of the chip that stand for absent ones.
  SIM_PREDICTION_COUNT
};

// "sim.schedule": the list schedule of a launch that does not run. Buffers need no memory: of a
// reference only `bytes` counts. Writes at most `capacity` numbers.
typedef struct sim_schedule_table {
  uint64_t size;
  int32_t (*predict)(hal_kernel kernel, const hal_launch_desc *desc, uint32_t capacity,
                     double *out_numbers);
} sim_schedule_table;

// "sim.collective": one all-reduce, message by message (events.h). `link_bytes_per_s` 0 takes the
// links of the loaded system and its first `ranks` devices; else each rank has a link to the next.
typedef struct sim_collective_table {
  uint64_t size;
  int32_t (*all_reduce)(uint32_t ranks, double bytes, uint32_t algorithm, double link_bytes_per_s,
                        double link_latency_ns, double *out_ns, double *out_events);
} sim_collective_table;

#endif  // SIM_EXTENSION_H_
