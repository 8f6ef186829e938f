// Virtual time over all chips: what each operation takes, on its chip and on the links.
#include <stdio.h>

#include "checks.h"
#include "events.h"
#include "system.h"

static sim_route route(uint32_t from, uint32_t to) {
  if (from != to) {
    return sim_topology_route(sim_the_system.topology, from, to);
  }
  const sim_timing *timing = &sim_the_system.chips[from].timing;
  return (sim_route){1, timing->memory_bytes_per_s / 2, timing->memory_latency_ns};
}

// The name of a span. Tools that sort spans into computing and moving know copies by these names.
static const char *operation_name(const kit_operation *operation) {
  static const char *const names[] = {
      "", "Memcpy HtoD", "Memcpy DtoH", "Memcpy DtoD", "Memcpy PtoP", "Memset"};
  return operation->kind == KIT_LAUNCH ? vil_kernel_name(kit_kernel_vil(operation->kernel))
                                       : names[operation->kind <= KIT_FILL ? operation->kind : 0];
}

// A copy between devices: it takes every link on its way for as long as its bytes need.
static void plan_peer_copy(uint64_t stream, uint32_t device, kit_operation *operation) {
  uint32_t from = kit_device_index(kit_memory_device(operation->source.memory));
  uint32_t to = kit_device_index(kit_memory_device(operation->target.memory));
  const sim_timing *timing = &sim_the_system.chips[device].timing;
  sim_route way = route(from, to);
  double bytes_per_s = way.bytes_per_s;
  if (!way.exists) {  // Through the host: out of one device, into the other.
    double out = sim_the_system.chips[from].timing.host_bytes_per_s;
    double in = sim_the_system.chips[to].timing.host_bytes_per_s;
    bytes_per_s = 1 / (1 / out + 1 / in);
  }
  sim_resource *ways[64];
  const char *names[64];
  uint32_t count = sim_topology_ways(sim_the_system.topology, from, to, ways, names, 64);
  uint64_t setup = (uint64_t)(timing->copy_setup_ns + way.latency_ns);
  uint64_t duration = (uint64_t)((double)operation->source.bytes * 1e9 / bytes_per_s);
  uint64_t begin = operation->begin_ns + setup;
  for (int changed = 1; changed;) {
    changed = 0;
    for (uint32_t i = 0; i < count; ++i) {
      uint64_t free = sim_resource_fit(ways[i], begin, duration, 1);
      changed |= free != begin;
      begin = free;
    }
  }
  for (uint32_t i = 0; i < count; ++i) {
    sim_resource_take(ways[i], begin, duration, 1);
  }
  operation->begin_ns = begin - setup;
  operation->end_ns = begin + duration;
  for (uint32_t i = 0; *sim_options_now()->trace != '\0' && i < count; ++i) {
    char track[160];
    snprintf(track, sizeof(track), "link %.120s", names[i]);
    sim_trace_add(device, i == 0 ? stream : 0, operation_name(operation), track, begin,
                  operation->end_ns, NULL);
  }
}

// A device that is opened again starts its clock at 0: what the opening before it took is over.
static void begin_session(sim_chip *chip, uint64_t session) {
  if (chip->session == session) {
    return;
  }
  if (chip->session != 0) {
    sim_topology_reset(sim_the_system.topology);
  }
  chip->session = session;
  sim_resource_reset(&chip->timing.cores);
  sim_resource_reset(&chip->timing.copies[0]);
  sim_resource_reset(&chip->timing.copies[1]);
}

void sim_plan(kit_device *device, uint64_t stream, kit_operation *operation) {
  const sim_options *options = sim_options_now();
  uint32_t index = kit_device_index(device);
  vil_schedule launch = {0};
  sim_checks_enqueue(kit_device_handle(device), stream, operation);
  if (operation->kind >= KIT_HOST_CALL) {
    return;
  }
  pthread_mutex_lock(&sim_the_system.lock);
  begin_session(&sim_the_system.chips[index], kit_device_handle(device));
  const char *track = NULL;
  if (operation->kind == KIT_COPY_PEER) {
    plan_peer_copy(stream, index, operation);
  } else {
    track = sim_timing_plan(&sim_the_system.chips[index].timing, operation, &launch);
  }
  if (track != NULL && *options->trace != '\0') {
    sim_trace_add(index, stream, operation_name(operation), track, operation->begin_ns,
                  operation->end_ns, operation->kind == KIT_LAUNCH ? &launch : NULL);
  }
  operation->end_ns += (uint64_t)options->late_ns;
  pthread_mutex_unlock(&sim_the_system.lock);
}

int32_t sim_peer_info(uint32_t index, uint32_t peer, uint32_t key, int64_t *out_value) {
  pthread_mutex_lock(&sim_the_system.lock);
  sim_route way = route(index, peer);
  pthread_mutex_unlock(&sim_the_system.lock);
  switch (key) {
    case HAL_PEER_ACCESS:
      *out_value = way.exists;
      return HAL_OK;
    case HAL_PEER_BANDWIDTH:
      *out_value = (int64_t)way.bytes_per_s;
      return HAL_OK;
    case HAL_PEER_LATENCY:
      *out_value = (int64_t)way.latency_ns;
      return HAL_OK;
    default:
      return HAL_ERROR_NOT_FOUND;
  }
}
