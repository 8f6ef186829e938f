// The simulated chip: a port that takes any chip's description and becomes that chip. Results are
// exact (the kit's VIL interpreter); times are virtual and come from the description.
//
// A description of the kind `system` gives one device for each of its chips; the text then holds
// the lines of device ID's chip as `devices.ID.hcd.PATH`.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checks.h"
#include "kit_tables.h"
#include "observe.h"
#include "system.h"

static int32_t read_chip(sim_chip *self) {
  const char *vendor = kit_hcd_text(self->hcd, "identity.vendor");
  const char *product = kit_hcd_text(self->hcd, "identity.product");
  snprintf(self->reference, sizeof(self->reference), "%.120s/%.120s", vendor ? vendor : "unknown",
           product ? product : "unknown");
  snprintf(self->name, sizeof(self->name), "simulated %.250s%s%.30s", self->reference,
           self->id[0] != '\0' ? " " : "", self->id);
  int32_t status = sim_timing_read(self->hcd, &self->timing);
  if (status != HAL_OK) {
    return status;
  }
  const char *buffers = kit_hcd_text(self->hcd, "execution.buffers");
  char path[300];
  int64_t bytes = 0;
  snprintf(path, sizeof(path), "memory.%.200s.capacity_bytes", buffers);
  if (!kit_hcd_i64(self->hcd, path, &bytes) || bytes <= 0) {
    return kit_fail(HAL_ERROR_NOT_FOUND, "the description of %s lacks %s", self->reference, path);
  }
  self->memory_bytes = (uint64_t)bytes;
  int64_t alignment = 64;
  snprintf(path, sizeof(path), "memory.%.200s.alignment_bytes", buffers);
  kit_hcd_i64(self->hcd, path, &alignment);
  self->alignment_bytes =
      alignment > 0 && (alignment & (alignment - 1)) == 0 ? (uint64_t)alignment : 64;
  return HAL_OK;
}

static uint32_t count_devices(const kit_hcd *hcd, int is_system) {
  if (!is_system) {
    return 1;
  }
  uint32_t count = 0;
  char id[SIM_NAME_BYTES];
  for (size_t cursor = 0; kit_hcd_next_id(hcd, "devices", &cursor, id, sizeof(id));) {
    ++count;
  }
  return count;
}

static int32_t read_system(const kit_hcd *system) {
  size_t cursor = 0;
  for (uint32_t i = 0; i < sim_the_system.count; ++i) {
    sim_chip *self = &sim_the_system.chips[i];
    char prefix[160];
    kit_hcd_next_id(system, "devices", &cursor, self->id, sizeof(self->id));
    snprintf(prefix, sizeof(prefix), "devices.%.120s.hcd.", self->id);
    self->owned = kit_hcd_subtree(system, prefix);
    self->hcd = self->owned;
    if (kit_hcd_count(self->owned) == 0) {
      return kit_fail(HAL_ERROR_NOT_FOUND,
                      "the system's text has no lines %s… for the chip of device %s", prefix,
                      self->id);
    }
    int32_t status = read_chip(self);
    if (status != HAL_OK) {
      return status;
    }
  }
  const char **names = calloc(sim_the_system.count, sizeof(*names));
  for (uint32_t i = 0; names != NULL && i < sim_the_system.count; ++i) {
    names[i] = sim_the_system.chips[i].id;
  }
  sim_the_system.topology =
      names == NULL ? NULL : sim_topology_create(system, names, sim_the_system.count);
  free(names);
  return sim_the_system.topology != NULL
             ? HAL_OK
             : kit_fail(HAL_ERROR_INTERNAL, "no host memory for the links of the system");
}

static void forget(void) {
  for (uint32_t i = 0; i < sim_the_system.count; ++i) {
    sim_timing_end(&sim_the_system.chips[i].timing);
    kit_hcd_free(sim_the_system.chips[i].owned);
  }
  free(sim_the_system.chips);
  sim_topology_free(sim_the_system.topology);
  sim_the_system.chips = NULL;
  sim_the_system.topology = NULL;
  sim_the_system.count = 0;
  sim_the_system.allocations = sim_the_system.operations = sim_the_system.launches = 0;
}

static void stop(void) {
  sim_trace_end();
  sim_checks_end();
  forget();
}

static int32_t start(void) {
  const kit_hcd *hcd = kit_host_hcd();
  const char *kind = kit_hcd_text(hcd, "kind");
  int is_system = kind != NULL && strcmp(kind, "system") == 0;
  uint32_t count = count_devices(hcd, is_system);
  sim_options options;
  int32_t status = sim_options_read(&options);
  if (status != HAL_OK) {
    return status;
  }
  if (count == 0 || count > SIM_MOST_DEVICES) {
    return kit_fail(HAL_ERROR_UNSUPPORTED, "the system has %u devices; 1 to %d can be simulated",
                    count, SIM_MOST_DEVICES);
  }
  sim_the_system.chips = calloc(count, sizeof(*sim_the_system.chips));
  if (sim_the_system.chips == NULL) {
    return kit_fail(HAL_ERROR_INTERNAL, "no host memory for %u chips", count);
  }
  sim_the_system.count = count;
  if (is_system) {
    status = read_system(hcd);
  } else {
    sim_the_system.chips[0].hcd = hcd;
    status = read_chip(&sim_the_system.chips[0]);
  }
  if (status != HAL_OK) {
    forget();
    return status;
  }
  sim_trace_begin();
  sim_checks_begin();
  kit_host_fence(1);  // The host cannot read device memory, as with a real chip.
  long processors = sysconf(_SC_NPROCESSORS_ONLN);
  kit_host_threads(processors > 1 ? (uint32_t)processors - 1 : 0);
  return HAL_OK;
}

static uint32_t device_count(void) {
  return sim_the_system.count;
}

static int32_t device_facts(uint32_t index, kit_device_facts *out_facts) {
  const sim_chip *self = &sim_the_system.chips[index];
  *out_facts = (kit_device_facts){.name = self->name,
                                  .hcd_ref = self->reference,
                                  // Whatever chip is simulated: its clock is a model's.
                                  .hcd_overlay =
                                      "features.fault_injection\ttrue\n"
                                      "features.virtual_clock\ttrue\n",
                                  .hcd = self->hcd,
                                  .memory_bytes = self->memory_bytes,
                                  .alignment_bytes = self->alignment_bytes};
  return HAL_OK;
}

static const kit_port port = {
    .runtime = "",
    .runs_on = "device",
    .format = "vil.v1",
    .hooks = {.start = start,
              .stop = stop,
              .device_count = device_count,
              .device_facts = device_facts,
              .reserve = sim_reserve,
              .release = sim_release,
              .run = sim_run,
              .plan = sim_plan,
              .peer_info = sim_peer_info},
};

KIT_ENTRY(port, .name = "sim", .vendor = "hal", .version = "1.0.0", .build_id = "1.0.0",
          .port = KIT_PORT_TABLE(.get_extension = sim_get_extension),
          .device = KIT_DEVICE_TABLE(.synchronize = sim_device_synchronize,
                                     .peer_info = kit_device_peer_info),
          .transfer = KIT_TRANSFER_TABLE(.copy_peer = kit_transfer_copy_peer),
          .stream = KIT_STREAM_TABLE(.query = sim_stream_query,
                                     .synchronize = sim_stream_synchronize),
          .event = KIT_EVENT_TABLE(.record = sim_event_record, .query = sim_event_query,
                                   .synchronize = sim_event_synchronize));
