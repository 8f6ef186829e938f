// A first plain timing: the launch overhead and the slowest engine; copies at the memory's pace.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sim.h"

static double number(const kit_hcd *hcd, const char *section, const char *id, const char *key) {
  char path[512];
  double value = 0;
  snprintf(path, sizeof(path), "%s.%s.%s", section, id, key);
  kit_hcd_f64(hcd, path, &value);
  return value;
}

static const char *text(const kit_hcd *hcd, const char *section, const char *id, const char *key) {
  char path[512];
  snprintf(path, sizeof(path), "%s.%s.%s", section, id, key);
  const char *value = kit_hcd_text(hcd, path);
  return value == NULL ? "" : value;
}

// Clock of a unit in Hz.
static double unit_hz(const kit_hcd *hcd, const char *unit) {
  return number(hcd, "clocks", text(hcd, "units", unit, "clock"), "sustained_hz");
}

// Instances of a unit inside one instance of `ancestor` ("" counts in the whole chip).
static double instances(const kit_hcd *hcd, const char *unit, const char *ancestor) {
  double count = 1;
  for (int depth = 0; depth < 16 && *unit != '\0' && strcmp(unit, ancestor) != 0; ++depth) {
    double here = number(hcd, "units", unit, "count");
    count *= here > 0 ? here : 1;
    unit = text(hcd, "units", unit, "parent");
  }
  return count;
}

// Bytes a second of one memory, by time or by the clock of its scope.
static double memory_rate(const kit_hcd *hcd, const char *memory) {
  double rate = number(hcd, "memory", memory, "bandwidth_bytes_per_s");
  return rate > 0 ? rate
                  : number(hcd, "memory", memory, "bandwidth_bytes_per_cycle") *
                        unit_hz(hcd, text(hcd, "memory", memory, "scope"));
}

// The best rate of one core over the paths that leave (or reach) the buffers' memory.
static double path_rate(const kit_hcd *hcd, const char *buffers, const char *end,
                        const char *core) {
  double best = 0;
  char id[128];
  for (size_t cursor = 0; kit_hcd_next_id(hcd, "paths", &cursor, id, sizeof(id));) {
    const char *engine = text(hcd, "paths", id, "engine");
    if (strcmp(text(hcd, "paths", id, end), buffers) == 0) {
      double rate = number(hcd, "paths", id, "bytes_per_cycle") * unit_hz(hcd, engine) *
                    instances(hcd, engine, core);
      best = fmax(best, rate);
    }
  }
  return best;
}

// The best rate of one core over the operations of all arithmetic units of a kind.
static double compute_rate(const kit_hcd *hcd, const char *kind, const char *key,
                           const char *core) {
  double best = 0;
  char id[128];
  char operation[128];
  char section[160];
  for (size_t cursor = 0; kit_hcd_next_id(hcd, "compute", &cursor, id, sizeof(id));) {
    if (strcmp(text(hcd, "compute", id, "kind"), kind) != 0) {
      continue;
    }
    const char *unit = text(hcd, "compute", id, "unit");
    double count = number(hcd, "compute", id, "count");
    double steps = unit_hz(hcd, unit) * instances(hcd, unit, core) * (count > 0 ? count : 1);
    snprintf(section, sizeof(section), "compute.%s.operations", id);
    double f32 = number(hcd, section, "f32", key);
    for (size_t inner = 0;
         f32 == 0 && kit_hcd_next_id(hcd, section, &inner, operation, sizeof(operation));) {
      f32 = number(hcd, section, operation, key);
    }
    best = fmax(best, f32 * steps);
  }
  return best;
}

int32_t sim_read_rates(const kit_hcd *hcd, sim_rates *out_rates) {
  const char *buffers = kit_hcd_text(hcd, "execution.buffers");
  const char *core = kit_hcd_text(hcd, "execution.core");
  if (buffers == NULL || core == NULL) {
    return kit_fail(HAL_ERROR_NOT_FOUND, "the chip's description lacks %s",
                    buffers == NULL ? "execution.buffers" : "execution.core");
  }
  *out_rates = (sim_rates){
      .memory_bytes_per_s = memory_rate(hcd, buffers),
      .memory_latency_ns = number(hcd, "memory", buffers, "latency_ns"),
      .cores = instances(hcd, core, ""),
      .core_load_bytes_per_s = path_rate(hcd, buffers, "from", core),
      .core_store_bytes_per_s = path_rate(hcd, buffers, "to", core),
      .core_macs_per_s = compute_rate(hcd, "matrix", "macs_per_cycle", core),
      .core_elements_per_s = compute_rate(hcd, "vector", "lanes_per_cycle", core),
  };
  kit_hcd_f64(hcd, "overheads.launch_ns", &out_rates->launch_ns);
  kit_hcd_f64(hcd, "overheads.copy_setup_ns", &out_rates->copy_setup_ns);
  if (out_rates->memory_bytes_per_s <= 0) {
    return kit_fail(HAL_ERROR_NOT_FOUND,
                    "the chip's description lacks memory.%s.bandwidth_bytes_per_s", buffers);
  }
  out_rates->host_bytes_per_s = out_rates->memory_bytes_per_s;
  char id[128];
  for (size_t cursor = 0; kit_hcd_next_id(hcd, "memory", &cursor, id, sizeof(id));) {
    if (strcmp(text(hcd, "memory", id, "kind"), "host") == 0 && memory_rate(hcd, id) > 0) {
      out_rates->host_bytes_per_s = fmin(memory_rate(hcd, id), out_rates->memory_bytes_per_s);
    }
  }
  return HAL_OK;
}

// Nanoseconds that an amount takes at a rate a second.
static double time_ns(double amount, double per_s) {
  return per_s > 0 ? amount * 1e9 / per_s : 0;
}

// Programs run in waves over the cores; in a wave the slowest engine counts, and the memory that
// all cores share bounds the whole.
static double launch_ns(const sim_rates *rates, const kit_operation *operation) {
  vil_work work = {0};
  vil_launch_work(operation->launch, &work);
  if (work.programs == 0) {
    return rates->launch_ns;
  }
  double waves = ceil((double)work.programs / fmax(rates->cores, 1));
  double share = waves / (double)work.programs;
  double engine = time_ns((double)work.bytes_loaded * share, rates->core_load_bytes_per_s);
  engine = fmax(engine, time_ns((double)work.bytes_stored * share, rates->core_store_bytes_per_s));
  engine = fmax(engine, time_ns((double)work.macs * share, rates->core_macs_per_s));
  engine = fmax(engine, time_ns((double)work.vector_elements * share, rates->core_elements_per_s));
  double memory =
      time_ns((double)work.bytes_loaded + (double)work.bytes_stored, rates->memory_bytes_per_s);
  return rates->launch_ns + fmax(engine, memory);
}

uint64_t sim_duration_ns(const sim_rates *rates, const kit_operation *operation) {
  double bytes =
      (double)(operation->target.bytes > operation->source.bytes ? operation->target.bytes
                                                                 : operation->source.bytes);
  switch (operation->kind) {
    case KIT_COPY_TO_DEVICE:
    case KIT_COPY_TO_HOST:
      return (uint64_t)(rates->copy_setup_ns + time_ns(bytes, rates->host_bytes_per_s));
    case KIT_COPY_ON_DEVICE:  // Each byte is read and written.
      return (uint64_t)(rates->copy_setup_ns + time_ns(2 * bytes, rates->memory_bytes_per_s));
    case KIT_FILL:
      return (uint64_t)(rates->copy_setup_ns + time_ns(bytes, rates->memory_bytes_per_s));
    case KIT_LAUNCH:
      return (uint64_t)launch_ns(rates, operation);
    default:
      return 0;
  }
}
