// One chip in virtual time: how long operations take and what they share.
//
// A launch takes its list schedule (vil_schedule.h) and the cores that it fills; a copy takes the
// setup and its bytes at the slower memory's rate, and a copy engine. Whoever comes later in the
// order of calls waits for what is taken, or slips into a gap that is wide enough.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sim.h"

// Bytes a second of one memory, by time or by the clock of its scope.
static double memory_rate(const kit_hcd *hcd, const char *memory) {
  double rate = kit_hcd_number(hcd, "memory", memory, "bandwidth_bytes_per_s");
  const char *clock =
      kit_hcd_word(hcd, "units", kit_hcd_word(hcd, "memory", memory, "scope"), "clock");
  return rate > 0 ? rate
                  : kit_hcd_number(hcd, "memory", memory, "bandwidth_bytes_per_cycle") *
                        kit_hcd_number(hcd, "clocks", clock, "sustained_hz");
}

// The units that move bytes between host and device: one a direction unless the paths say more.
static void read_copy_engines(const kit_hcd *hcd, const char *host, sim_timing *out) {
  char id[SIM_NAME_BYTES];
  const char *units[2] = {"", ""};
  out->copies[0].capacity = out->copies[1].capacity = 1;
  for (size_t cursor = 0; kit_hcd_next_id(hcd, "paths", &cursor, id, sizeof(id));) {
    for (int end = 0; end < 2; ++end) {
      if (*host != '\0' &&
          strcmp(kit_hcd_word(hcd, "paths", id, end == 0 ? "from" : "to"), host) == 0) {
        units[end] = kit_hcd_word(hcd, "paths", id, "engine");
        double count = kit_hcd_number(hcd, "units", units[end], "count");
        out->copies[end].capacity = count >= 1 && count < 4096 ? (uint32_t)count : 1;
      }
    }
  }
  out->one_engine = *units[0] != '\0' && strcmp(units[0], units[1]) == 0;
}

int32_t sim_timing_read(const kit_hcd *hcd, sim_timing *out) {
  char reason[400] = "", id[SIM_NAME_BYTES], host[SIM_NAME_BYTES] = "";
  memset(out, 0, sizeof(*out));
  out->cost = vil_cost_create(hcd, &out->guesses, reason, sizeof(reason));
  if (out->cost == NULL) {
    return kit_fail(HAL_ERROR_NOT_FOUND, "%s", reason);
  }
  const char *buffers = kit_hcd_text(hcd, "execution.buffers");
  out->memory_bytes_per_s = memory_rate(hcd, buffers);
  out->memory_latency_ns = kit_hcd_number(hcd, "memory", buffers, "latency_ns");
  out->host_bytes_per_s = out->memory_bytes_per_s;
  kit_hcd_f64(hcd, "overheads.copy_setup_ns", &out->copy_setup_ns);
  for (size_t cursor = 0; kit_hcd_next_id(hcd, "memory", &cursor, id, sizeof(id));) {
    if (strcmp(kit_hcd_word(hcd, "memory", id, "kind"), "host") == 0 && memory_rate(hcd, id) > 0) {
      out->host_bytes_per_s = fmin(memory_rate(hcd, id), out->memory_bytes_per_s);
      snprintf(host, sizeof(host), "%s", id);
    }
  }
  read_copy_engines(hcd, host, out);
  out->cores.capacity = vil_cost_cores(out->cost);
  return HAL_OK;
}

void sim_timing_end(sim_timing *self) {
  vil_cost_free(self->cost);
  self->cost = NULL;
}

// Takes `amount` of a resource for the part of an operation after its setup.
static void occupy(sim_resource *resource, kit_operation *operation, double setup_ns, double ns,
                   uint32_t amount) {
  uint64_t setup = (uint64_t)setup_ns, duration = (uint64_t)ceil(fmax(ns, 0));
  uint64_t begin = sim_resource_fit(resource, operation->begin_ns + setup, duration, amount);
  sim_resource_take(resource, begin, duration, amount);
  operation->begin_ns = begin - setup;
  operation->end_ns = begin + duration;
}

static const char *plan_launch(sim_timing *self, kit_operation *operation,
                               vil_schedule *out_launch) {
  vil_schedule *launch = out_launch;
  if (vil_schedule_launch(self->cost, operation->launch, launch) != HAL_OK) {
    *launch = (vil_schedule){0};
  }
  occupy(&self->cores, operation, launch->overhead_ns, launch->time_ns - launch->overhead_ns,
         launch->cores_used);
  return "cores";
}

const char *sim_timing_plan(sim_timing *self, kit_operation *operation, vil_schedule *out_launch) {
  double bytes =
      (double)(operation->target.bytes > operation->source.bytes ? operation->target.bytes
                                                                 : operation->source.bytes);
  int to_host = operation->kind == KIT_COPY_TO_HOST;
  sim_resource *engine = &self->copies[to_host && !self->one_engine];
  switch (operation->kind) {
    case KIT_LAUNCH:
      return plan_launch(self, operation, out_launch);
    case KIT_COPY_TO_DEVICE:
    case KIT_COPY_TO_HOST:
      occupy(engine, operation, self->copy_setup_ns, bytes * 1e9 / self->host_bytes_per_s, 1);
      return to_host ? "copy to host" : "copy to device";
    case KIT_COPY_ON_DEVICE:  // Each byte is read and written.
      occupy(engine, operation, self->copy_setup_ns, 2e9 * bytes / self->memory_bytes_per_s, 1);
      return "copy on device";
    default:
      occupy(engine, operation, self->copy_setup_ns, 1e9 * bytes / self->memory_bytes_per_s, 1);
      return "copy on device";
  }
}
