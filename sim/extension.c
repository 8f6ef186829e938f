#include "extension.h"

#include <string.h>

#include "events.h"
#include "sim.h"

typedef struct asked {
  uint32_t capacity;
  double *numbers;
} asked;

static int32_t write_schedule(void *context, kit_device *device, const void *launch) {
  const asked *out = context;
  uint32_t index = kit_device_index(device);
  vil_schedule s;
  int32_t status = vil_schedule_launch(sim_device_cost(index), launch, &s);
  if (status != HAL_OK) {
    return kit_fail(status, "no host memory for a schedule");
  }
  double numbers[SIM_PREDICTION_COUNT] = {s.time_ns,
                                          s.overhead_ns,
                                          s.core_ns,
                                          s.memory_ns,
                                          s.cache_ns,
                                          s.busy_ns[1],
                                          s.busy_ns[2],
                                          s.busy_ns[3],
                                          s.busy_ns[4],
                                          s.busy_ns[5],
                                          s.loaded_bytes,
                                          s.stored_bytes,
                                          s.memory_bytes,
                                          s.macs,
                                          s.vector_elements,
                                          s.instructions,
                                          (double)s.programs,
                                          s.classes,
                                          s.cores_used,
                                          s.bound,
                                          s.assumed.open_counts,
                                          s.assumed.open_branches,
                                          s.assumed.sampled_axes,
                                          s.assumed.mean_loops,
                                          sim_device_guesses(index)};
  uint32_t count = out->capacity < SIM_PREDICTION_COUNT ? out->capacity : SIM_PREDICTION_COUNT;
  memcpy(out->numbers, numbers, count * sizeof(*numbers));
  return HAL_OK;
}

static int32_t predict(hal_kernel kernel, const hal_launch_desc *desc, uint32_t capacity,
                       double *out_numbers) {
  asked out = {capacity, out_numbers};
  return kit_launch_preview(kernel, desc, write_schedule, &out);
}

static int32_t all_reduce(uint32_t ranks, double bytes, uint32_t algorithm, double link_bytes_per_s,
                          double link_latency_ns, double *out_ns, double *out_events) {
  if (link_bytes_per_s != 0) {
    sim_ring_links links = {link_bytes_per_s / sim_options_now()->slow_link, link_latency_ns};
    return sim_all_reduce(NULL, &links, ranks, bytes, algorithm, out_ns, out_events);
  }
  return sim_system_all_reduce(ranks, bytes, algorithm, out_ns, out_events);
}

static const sim_schedule_table schedule_table = {sizeof(schedule_table), predict};
static const sim_collective_table collective_table = {sizeof(collective_table), all_reduce};

int32_t sim_get_extension(const char *name, uint32_t version, const void **out_table) {
  const void *table = strcmp(name, "sim.schedule") == 0     ? (const void *)&schedule_table
                      : strcmp(name, "sim.collective") == 0 ? (const void *)&collective_table
                                                            : NULL;
  if (table == NULL || version != 1) {
    return kit_fail(HAL_ERROR_NOT_FOUND,
                    "there is no extension '%.100s' in version %u; sim.schedule and "
                    "sim.collective exist in version 1",
                    name, version);
  }
  *out_table = table;
  return HAL_OK;
}
