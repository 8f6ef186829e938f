// The cost table of a chip, as the parts of the list schedule see it. Times are nanoseconds, rates
// are per nanosecond and belong to one core unless a comment says otherwise.
#ifndef KIT_VIL_COST_H_
#define KIT_VIL_COST_H_

#include "vil_image.h"
#include "vil_schedule.h"

enum { VIL_DTYPES = 12, VIL_SPACES = 7, VIL_ENGINES = 6 };

// Classes of vector work, as `compute.ID.operations.ID.classes` names them.
enum vil_work_class {
  VIL_CLASS_MOVE,
  VIL_CLASS_ADD,
  VIL_CLASS_MUL,
  VIL_CLASS_FMA,
  VIL_CLASS_DIV,
  VIL_CLASS_SQRT,
  VIL_CLASS_EXP,
  VIL_CLASS_LOG,
  VIL_CLASS_TRIG,
  VIL_CLASS_ERF,
  VIL_CLASS_COMPARE,
  VIL_CLASS_LOGIC,
  VIL_CLASS_CONVERT,
  VIL_CLASS_REDUCE,
  VIL_CLASS_GATHER,
  VIL_CLASS_RANDOM,
  VIL_CLASS_INDEX,
  VIL_CLASS_COUNT
};

typedef struct vil_lanes {
  double per_ns;  // Elements.
  double latency_ns;
} vil_lanes;

enum { VIL_FLOW_NONE, VIL_FLOW_WEIGHTS, VIL_FLOW_OUTPUTS };
typedef struct vil_product {
  double macs_per_ns;
  double latency_ns, fill_ns, drain_ns;
  uint32_t shape[3];  // m, n, k of the native step.
  uint32_t flow;
} vil_product;

typedef struct vil_path {
  double bytes_per_ns;
  double setup_ns;
  double latency_ns;  // Of the memory that is read.
  uint32_t burst_bytes;
} vil_path;

struct vil_cost {
  uint32_t cores;
  uint32_t programs_per_core;
  double launch_ns;
  double issue_ns;  // One instruction on the scalar engine.
  double token_ns;
  double wait_share;          // q of max + q · min: how badly cores and memories overlap.
  uint8_t unit[VIL_ENGINES];  // Engines with the same number share a unit.
  vil_lanes lanes[VIL_CLASS_COUNT][VIL_DTYPES];
  vil_product products[VIL_DTYPES][VIL_DTYPES];
  vil_path paths[VIL_SPACES][VIL_SPACES];  // From, to; 0 is the buffers' memory.
  double near_bytes;                       // Capacity of the near space; 0: unknown.
  double memory_bytes_per_ns;              // Of the chip.
  double cache_bytes_per_ns;               // Of the chip; 0: there is no shared cache.
  double cache_bytes;
};

// What one program takes, apart from its time.
enum {
  VIL_WORK_BUSY = 0,  // One per engine, by number.
  VIL_WORK_LOADED = VIL_ENGINES,
  VIL_WORK_STORED,
  VIL_WORK_MACS,
  VIL_WORK_ELEMENTS,
  VIL_WORK_INSTRUCTIONS,
  VIL_WORK_PARAMS,  // From here: bytes of each buffer parameter.
};

// One program class: its representative scheduled alone on one core.
typedef struct vil_class_cost {
  double time_ns;
  double unit_ns;  // Busy time of the busiest unit.
  const double *work;
} vil_class_cost;

// vil_engines.c: schedules the program instance with the given ids. `scheduler` is its memory.
typedef struct vil_scheduler vil_scheduler;
struct vil_step;
vil_scheduler *vil_scheduler_create(const vil_cost *cost, const struct vil_step *step,
                                    vil_assumptions *assumed);
void vil_scheduler_free(vil_scheduler *scheduler);
uint32_t vil_scheduler_works(const vil_scheduler *scheduler);  // Length of `work`.
vil_class_cost vil_scheduler_run(vil_scheduler *scheduler, const uint64_t ids[3]);

// vil_tile_cost.c: one instruction. Rows and columns are the valid ones.
uint32_t vil_class_of(uint8_t op, uint8_t function);
typedef struct vil_duration {
  double occupied_ns;  // The engine takes nothing else.
  double latency_ns;   // Then, until the result can be used.
} vil_duration;
vil_duration vil_vector_duration(const vil_cost *cost, uint32_t class, uint32_t dtype,
                                 double elements);
vil_duration vil_product_duration(const vil_cost *cost, uint32_t a, uint32_t b, double rows,
                                  double columns, double depth);
// `out_bytes`: whole bursts.
vil_duration vil_path_duration(const vil_cost *cost, uint32_t from, uint32_t to, double runs,
                               double run_bytes, double *out_bytes);

#endif  // KIT_VIL_COST_H_
