// Reads a chip's cost table from its flat description.
//
// A rate that the description leaves out is taken from its nearest neighbour and counted as a
// guess: another class of the same type, then the same class of f32 with the ratio of the plain
// rates, then the width of the type.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "vil_cost.h"

static const char *const class_names[VIL_CLASS_COUNT] = {
    "move", "add",     "mul",   "fma",     "div",    "sqrt",   "exp",    "log",  "trig",
    "erf",  "compare", "logic", "convert", "reduce", "gather", "random", "index"};
static const char *const space_names[VIL_SPACES] = {"global", "near", "mma_a", "mma_b",
                                                    "acc",    "vec",  "scalar"};
static const char *const engine_names[VIL_ENGINES] = {"",       "dma_in", "dma_out",
                                                      "vector", "matrix", "scalar"};

typedef struct reading {
  const kit_hcd *hcd;
  const char *core;
  vil_cost *cost;
  uint32_t guesses;
} reading;

// Cycles of a unit's clock in a nanosecond.
static double cycles_per_ns(const kit_hcd *hcd, const char *unit) {
  return kit_hcd_number(hcd, "clocks", kit_hcd_word(hcd, "units", unit, "clock"), "sustained_hz") *
         1e-9;
}

static double cycles_ns(double cycles, double per_ns) {
  return per_ns > 0 ? cycles / per_ns : 0;
}

// Instances of a unit inside one instance of `ancestor` ("" counts in the whole chip).
static double instances(const kit_hcd *hcd, const char *unit, const char *ancestor) {
  double count = 1;
  for (int depth = 0; depth < 16 && *unit != '\0' && strcmp(unit, ancestor) != 0; ++depth) {
    double here = kit_hcd_number(hcd, "units", unit, "count");
    count *= here > 0 ? here : 1;
    unit = kit_hcd_word(hcd, "units", unit, "parent");
  }
  return count;
}

static uint32_t dtype_number(const char *name) {
  for (uint32_t dtype = 1; dtype < VIL_DTYPES; ++dtype) {
    if (strcmp(vil_dtype_name(dtype), name) == 0) {
      return dtype;
    }
  }
  return 0;
}

// Bytes a nanosecond of one memory, by time or by the clock of its scope.
static double memory_rate(const kit_hcd *hcd, const char *memory) {
  double rate = kit_hcd_number(hcd, "memory", memory, "bandwidth_bytes_per_s") * 1e-9;
  return rate > 0 ? rate
                  : kit_hcd_number(hcd, "memory", memory, "bandwidth_bytes_per_cycle") *
                        cycles_per_ns(hcd, kit_hcd_word(hcd, "memory", memory, "scope"));
}

static double memory_latency(const kit_hcd *hcd, const char *memory) {
  double latency = kit_hcd_number(hcd, "memory", memory, "latency_ns");
  return latency > 0 ? latency
                     : cycles_ns(kit_hcd_number(hcd, "memory", memory, "latency_cycles"),
                                 cycles_per_ns(hcd, kit_hcd_word(hcd, "memory", memory, "scope")));
}

// ---- Arithmetic ----

static void read_vector(reading *r, const char *id, const char *section, const char *operation) {
  const char *unit = kit_hcd_word(r->hcd, "compute", id, "unit");
  double per_ns = cycles_per_ns(r->hcd, unit);
  double count = fmax(kit_hcd_number(r->hcd, "compute", id, "count"), 1);
  uint32_t dtype = dtype_number(kit_hcd_word(r->hcd, section, operation, "dtype"));
  vil_lanes lanes = {.per_ns = kit_hcd_number(r->hcd, section, operation, "lanes_per_cycle") *
                               per_ns * instances(r->hcd, unit, r->core) * count,
                     .latency_ns = cycles_ns(
                         kit_hcd_number(r->hcd, section, operation, "latency_cycles"), per_ns)};
  char path[512];
  snprintf(path, sizeof(path), "%s.%s.classes", section, operation);
  for (uint32_t class = 0; class < VIL_CLASS_COUNT; ++class) {
    if (kit_hcd_list_has(r->hcd, path, class_names[class]) &&
        lanes.per_ns > r->cost->lanes[class][dtype].per_ns) {
      r->cost->lanes[class][dtype] = lanes;
    }
  }
}

static void read_product(reading *r, const char *id, const char *section, const char *operation) {
  const char *unit = kit_hcd_word(r->hcd, "compute", id, "unit");
  const char *flow = kit_hcd_word(r->hcd, "compute", id, "dataflow");
  double per_ns = cycles_per_ns(r->hcd, unit);
  double count = fmax(kit_hcd_number(r->hcd, "compute", id, "count"), 1);
  vil_product product = {
      .macs_per_ns = kit_hcd_number(r->hcd, section, operation, "macs_per_cycle") * per_ns *
                     instances(r->hcd, unit, r->core) * count,
      .latency_ns = cycles_ns(kit_hcd_number(r->hcd, section, operation, "latency_cycles"), per_ns),
      .fill_ns = cycles_ns(kit_hcd_number(r->hcd, section, operation, "fill_cycles"), per_ns),
      .drain_ns = cycles_ns(kit_hcd_number(r->hcd, section, operation, "drain_cycles"), per_ns),
      .flow = strcmp(flow, "weight_stationary") == 0   ? VIL_FLOW_WEIGHTS
              : strcmp(flow, "output_stationary") == 0 ? VIL_FLOW_OUTPUTS
                                                       : VIL_FLOW_NONE};
  char path[512];
  snprintf(path, sizeof(path), "%s.%s.shape", section, operation);
  for (size_t i = 0; i < 3; ++i) {
    int64_t length = 1;
    kit_hcd_list_i64(r->hcd, path, i, &length);
    product.shape[i] = length > 0 && length < 65537 ? (uint32_t)length : 1;
  }
  uint32_t a = dtype_number(kit_hcd_word(r->hcd, section, operation, "a"));
  uint32_t b = dtype_number(kit_hcd_word(r->hcd, section, operation, "b"));
  if (product.macs_per_ns > r->cost->products[a][b].macs_per_ns) {
    r->cost->products[a][b] = product;
  }
}

static void read_compute(reading *r) {
  char id[128], operation[128], section[300];
  for (size_t cursor = 0; kit_hcd_next_id(r->hcd, "compute", &cursor, id, sizeof(id));) {
    const char *kind = kit_hcd_word(r->hcd, "compute", id, "kind");
    snprintf(section, sizeof(section), "compute.%s.operations", id);
    for (size_t inner = 0;
         kit_hcd_next_id(r->hcd, section, &inner, operation, sizeof(operation));) {
      if (strcmp(kind, "matrix") == 0) {
        read_product(r, id, section, operation);
      } else if (strcmp(kind, "scalar") == 0) {
        const char *unit = kit_hcd_word(r->hcd, "compute", id, "unit");
        double rate = kit_hcd_number(r->hcd, section, operation, "lanes_per_cycle") *
                      cycles_per_ns(r->hcd, unit);
        r->cost->issue_ns = rate > 0 ? 1 / rate : 0;
      } else {
        read_vector(r, id, section, operation);
      }
    }
  }
}

static double width_ratio(uint32_t dtype) {
  return fmin(1, 4.0 / vil_dtype_bytes(dtype));
}

// Gives every class of every type a rate. The plain class of f32 is known.
static void complete_lanes(reading *r) {
  vil_lanes(*lanes)[VIL_DTYPES] = r->cost->lanes;
  for (uint32_t class = 0; class < VIL_CLASS_COUNT; ++class) {
    if (lanes[class][HAL_DTYPE_F32].per_ns == 0) {
      lanes[class][HAL_DTYPE_F32] = lanes[VIL_CLASS_ADD][HAL_DTYPE_F32];
      ++r->guesses;
    }
  }
  for (uint32_t dtype = 1; dtype < VIL_DTYPES; ++dtype) {
    vil_lanes plain = lanes[VIL_CLASS_ADD][dtype];
    double ratio = width_ratio(dtype);
    if (plain.per_ns > 0) {
      ratio = fmin(1, plain.per_ns / lanes[VIL_CLASS_ADD][HAL_DTYPE_F32].per_ns);
    }
    for (uint32_t class = 0; class < VIL_CLASS_COUNT; ++class) {
      if (lanes[class][dtype].per_ns == 0) {
        lanes[class][dtype] = lanes[class][HAL_DTYPE_F32];
        lanes[class][dtype].per_ns *= ratio;
        ++r->guesses;
      }
    }
  }
}

// Products that the chip does not list run as the vector unit's multiply-adds.
static void complete_products(reading *r) {
  for (uint32_t a = 1; a < VIL_DTYPES; ++a) {
    for (uint32_t b = 1; b < VIL_DTYPES; ++b) {
      vil_product *product = &r->cost->products[a][b];
      if (product->macs_per_ns > 0) {
        continue;
      }
      uint32_t wide = vil_dtype_bytes(a) >= vil_dtype_bytes(b) ? a : b;
      if (r->cost->products[wide][wide].macs_per_ns > 0) {
        *product = r->cost->products[wide][wide];
      } else {
        vil_lanes lanes = r->cost->lanes[VIL_CLASS_MUL][wide];
        *product = (vil_product){
            .macs_per_ns = lanes.per_ns, .latency_ns = lanes.latency_ns, .shape = {1, 1, 1}};
      }
      ++r->guesses;
    }
  }
}

// ---- Memories and moves ----

static const char *space_memory(const kit_hcd *hcd, uint32_t space) {
  return space == 0 ? kit_hcd_text(hcd, "execution.buffers")
                    : kit_hcd_word(hcd, "kernels.vil.spaces", space_names[space], "memory");
}

static void read_paths(reading *r) {
  char id[128];
  for (size_t cursor = 0; kit_hcd_next_id(r->hcd, "paths", &cursor, id, sizeof(id));) {
    const char *engine = kit_hcd_word(r->hcd, "paths", id, "engine");
    double per_ns = cycles_per_ns(r->hcd, engine);
    double burst = kit_hcd_number(r->hcd, "paths", id, "min_burst_bytes");
    const char *source = kit_hcd_word(r->hcd, "paths", id, "from");
    vil_path path = {
        .bytes_per_ns = kit_hcd_number(r->hcd, "paths", id, "bytes_per_cycle") * per_ns *
                        instances(r->hcd, engine, r->core),
        .setup_ns = cycles_ns(kit_hcd_number(r->hcd, "paths", id, "setup_cycles"), per_ns),
        .latency_ns = memory_latency(r->hcd, source),
        .burst_bytes = burst >= 1 && burst < 1e9 ? (uint32_t)burst : 1};
    for (uint32_t from = 0; from < VIL_SPACES; ++from) {
      for (uint32_t to = 0; to < VIL_SPACES; ++to) {
        if (strcmp(space_memory(r->hcd, from), source) == 0 &&
            strcmp(space_memory(r->hcd, to), kit_hcd_word(r->hcd, "paths", id, "to")) == 0 &&
            path.bytes_per_ns > r->cost->paths[from][to].bytes_per_ns) {
          r->cost->paths[from][to] = path;
        }
      }
    }
  }
}

// A move without a path of its own: the best one out of, or into, the buffers' memory; within the
// core the vector unit's plain moves.
static void complete_paths(reading *r) {
  vil_path *best[2] = {NULL, NULL};  // From and to the buffers' memory.
  for (uint32_t space = 1; space < VIL_SPACES; ++space) {
    vil_path *ways[2] = {&r->cost->paths[0][space], &r->cost->paths[space][0]};
    for (int end = 0; end < 2; ++end) {
      if (best[end] == NULL || ways[end]->bytes_per_ns > best[end]->bytes_per_ns) {
        best[end] = ways[end];
      }
    }
  }
  vil_lanes move = r->cost->lanes[VIL_CLASS_MOVE][HAL_DTYPE_F32];
  vil_path inside = {
      .bytes_per_ns = 4 * move.per_ns, .latency_ns = move.latency_ns, .burst_bytes = 1};
  for (uint32_t from = 0; from < VIL_SPACES; ++from) {
    for (uint32_t to = 0; to < VIL_SPACES; ++to) {
      vil_path *path = &r->cost->paths[from][to];
      if (path->bytes_per_ns == 0 && (from != 0 || to != 0)) {
        *path = from == 0 ? *best[0] : to == 0 ? *best[1] : inside;
        r->guesses += *space_memory(r->hcd, from) != '\0' && *space_memory(r->hcd, to) != '\0';
      }
    }
  }
}

static void read_memories(reading *r) {
  vil_cost *cost = r->cost;
  cost->memory_bytes_per_ns = memory_rate(r->hcd, space_memory(r->hcd, 0));
  cost->near_bytes = kit_hcd_number(r->hcd, "memory", space_memory(r->hcd, 1), "capacity_bytes");
  char id[128];
  for (size_t cursor = 0; kit_hcd_next_id(r->hcd, "memory", &cursor, id, sizeof(id));) {
    if (strcmp(kit_hcd_word(r->hcd, "memory", id, "kind"), "cache") == 0 &&
        instances(r->hcd, kit_hcd_word(r->hcd, "memory", id, "scope"), "") <= 1) {
      double bytes = kit_hcd_number(r->hcd, "memory", id, "capacity_bytes");
      if (bytes > cost->cache_bytes) {
        cost->cache_bytes = bytes;
        cost->cache_bytes_per_ns = memory_rate(r->hcd, id);
      }
    }
  }
}

static void read_engines(reading *r) {
  const char *units[VIL_ENGINES] = {""};
  for (uint8_t engine = 1; engine < VIL_ENGINES; ++engine) {
    units[engine] = kit_hcd_word(r->hcd, "kernels.vil.engines", engine_names[engine], "unit");
    r->cost->unit[engine] = engine;
    for (uint8_t other = 1; other < engine; ++other) {
      if (*units[engine] != '\0' && strcmp(units[engine], units[other]) == 0) {
        r->cost->unit[engine] = r->cost->unit[other];
        break;
      }
    }
  }
  double cost = 0;
  kit_hcd_f64(r->hcd, "kernels.vil.token_cost_cycles", &cost);
  r->cost->token_ns = cycles_ns(cost, cycles_per_ns(r->hcd, r->core));
}

// The keys without which every time would be a guess; 1 when all are there.
static int has_needs(const reading *r, char *reason, size_t capacity) {
  char missing[500] = "", keys[4][200];
  size_t at = 0;
  snprintf(keys[0], sizeof(keys[0]), "memory.%.100s.bandwidth_bytes_per_s",
           space_memory(r->hcd, 0));
  snprintf(keys[1], sizeof(keys[1]), "compute.ID.operations.ID with f32 and the class add");
  snprintf(keys[2], sizeof(keys[2]), "units.%.100s.count", r->core);
  snprintf(keys[3], sizeof(keys[3]), "clocks.ID.sustained_hz of units.%.100s", r->core);
  const int there[] = {r->cost->memory_bytes_per_ns > 0,
                       r->cost->lanes[VIL_CLASS_ADD][HAL_DTYPE_F32].per_ns > 0, r->cost->cores > 0,
                       cycles_per_ns(r->hcd, r->core) > 0};
  for (size_t i = 0; i < 4; ++i) {
    if (!there[i] && at < sizeof(missing) - 1) {
      at += (size_t)snprintf(missing + at, sizeof(missing) - at, "%s%s", at == 0 ? "" : ", ",
                             keys[i]);
    }
  }
  if (at != 0 && reason != NULL) {
    snprintf(reason, capacity, "the chip's description lacks %s; without it every time is a guess",
             missing);
  }
  return at == 0;
}

static int has_loads(const vil_cost *cost) {
  int loads = 0, stores = 0;
  for (uint32_t space = 1; space < VIL_SPACES; ++space) {
    loads |= cost->paths[0][space].bytes_per_ns > 0;
    stores |= cost->paths[space][0].bytes_per_ns > 0;
  }
  return loads && stores;
}

vil_cost *vil_cost_create(const kit_hcd *hcd, uint32_t *out_guesses, char *reason,
                          size_t capacity) {
  vil_cost *cost = calloc(1, sizeof(*cost));
  const char *core = kit_hcd_text(hcd, "execution.core");
  if (cost == NULL || core == NULL || kit_hcd_text(hcd, "execution.buffers") == NULL) {
    if (reason != NULL) {
      snprintf(reason, capacity, "%s",
               cost == NULL   ? "no host memory for a cost table"
               : core == NULL ? "the chip's description lacks execution.core"
                              : "the chip's description lacks execution.buffers");
    }
    free(cost);
    return NULL;
  }
  reading r = {.hcd = hcd, .core = core, .cost = cost};
  double cores = instances(hcd, core, "");
  cost->cores = cores >= 1 && cores < 1e9 ? (uint32_t)cores : 0;
  int64_t programs = 1;
  kit_hcd_i64(hcd, "kernels.vil.programs_per_core", &programs);
  cost->programs_per_core = programs >= 1 && programs <= 65536 ? (uint32_t)programs : 1;
  kit_hcd_f64(hcd, "overheads.launch_ns", &cost->launch_ns);
  cost->wait_share = 0.1;
  read_compute(&r);
  read_paths(&r);
  read_memories(&r);
  read_engines(&r);
  int complete = has_needs(&r, reason, capacity);
  if (complete && !has_loads(cost)) {
    complete = 0;
    if (reason != NULL) {
      snprintf(reason, capacity,
               "the chip's description lacks paths from and to %s; without them every time is a "
               "guess",
               space_memory(hcd, 0));
    }
  }
  if (!complete) {
    free(cost);
    return NULL;
  }
  complete_lanes(&r);
  complete_products(&r);
  complete_paths(&r);
  if (out_guesses != NULL) {
    *out_guesses = r.guesses;
  }
  return cost;
}

void vil_cost_free(vil_cost *cost) {
  free(cost);
}

const char *vil_bound_name(uint32_t bound) {
  static const char *const names[] = {"nothing", "dma_in", "dma_out", "vector", "matrix",
                                      "scalar",  "order",  "memory",  "cache"};
  return bound < sizeof(names) / sizeof(names[0]) ? names[bound] : "unknown";
}

uint32_t vil_cost_cores(const vil_cost *cost) {
  return cost->cores;
}
