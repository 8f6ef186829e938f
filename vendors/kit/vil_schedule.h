// The time of a bound launch on a chip that is only described: a list schedule of each program
// class over the engines, classes over the cores, and the roofs of the shared memories.
//
// docs/simulator-port.md says what is modelled and what is not. A cost table is read once and is
// read-only afterwards; a schedule keeps no state, so any number of threads may ask.
#ifndef KIT_VIL_SCHEDULE_H_
#define KIT_VIL_SCHEDULE_H_

#include "vil.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct vil_cost vil_cost;

// Which bound the time of a launch stands at.
enum {
  VIL_BOUND_NOTHING = 0,  // No program ran.
  VIL_BOUND_DMA_IN = 1,   // An engine: the numbers of VIL's engines.
  VIL_BOUND_DMA_OUT,
  VIL_BOUND_VECTOR,
  VIL_BOUND_MATRIX,
  VIL_BOUND_SCALAR,
  VIL_BOUND_ORDER,   // Waits between engines: no engine is busy for half of the time.
  VIL_BOUND_MEMORY,  // The memory that holds buffers.
  VIL_BOUND_CACHE,   // The cache that all cores share.
};
const char *vil_bound_name(uint32_t bound);

// What a schedule had to assume. The counts are of instructions in the representatives.
typedef struct vil_assumptions {
  uint32_t open_counts;    // Loops whose count depends on data: VIL_ASSUMED_COUNT iterations.
  uint32_t open_branches;  // IFs that depend on data: taken.
  uint32_t sampled_axes;   // Grid axes of which only some programs were looked at.
  uint32_t mean_loops;     // Loops without a steady state: the rest takes the mean of its ends.
} vil_assumptions;
enum { VIL_ASSUMED_COUNT = 8 };

typedef struct vil_schedule {
  double time_ns;      // The whole launch with its overhead.
  double overhead_ns;  // Of that: before the first program starts, for all steps of the plan.
  double core_ns;      // What the cores take without the shared memories' limits.
  double memory_ns, cache_ns;         // What the two shared memories take alone.
  double busy_ns[6];                  // Of an engine, by its number, summed over the programs.
  double loaded_bytes, stored_bytes;  // Between buffers and cores, whole bursts.
  double memory_bytes;                // Of these, what the buffers' memory moves.
  double macs;                        // Multiply-adds on valid elements.
  double vector_elements;             // Elements of vector operations.
  double instructions;                // Tile instructions.
  uint64_t programs;
  uint32_t classes;     // Program classes that were scheduled.
  uint32_t cores_used;  // At the same time, at most.
  uint32_t bound;       // VIL_BOUND_*, of the longest step.
  vil_assumptions assumed;
} vil_schedule;

// Reads what timing needs from a chip's flat description. NULL, and a reason that names the missing
// keys, when the description has no rates for the mandatory parts; `out_guesses` (may be NULL) gets
// the number of rates that stand for others that are absent.
vil_cost *vil_cost_create(const kit_hcd *hcd, uint32_t *out_guesses, char *reason, size_t capacity);
void vil_cost_free(vil_cost *cost);
uint32_t vil_cost_cores(const vil_cost *cost);

// Schedules what vil_launch_bind wrote. Buffers' bytes count, their content is never read.
// HAL_OK or HAL_ERROR_OUT_OF_MEMORY.
int32_t vil_schedule_launch(const vil_cost *cost, const void *launch, vil_schedule *out);

#ifdef __cplusplus
}
#endif

#endif  // KIT_VIL_SCHEDULE_H_
