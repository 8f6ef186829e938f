// Port objects: opening, the stack of layers, closing, and what a port can do.
#include "port_object.h"

#include <stdlib.h>
#include <string.h>

#include "emulate_layer.h"
#include "library.h"

static const uint32_t KNOWN_LAYERS =
    HAL_LAYER_TRACE | HAL_LAYER_VALIDATE | HAL_LAYER_EMULATE | HAL_LAYER_MUTATE;

static int32_t read_last_error(hal_layer *self, hal_error *out_error) {
  return hal_record_read(self, out_error);
}

// An ended port keeps the record of the thread; asking for it is no new error.
static hal_calls ended_calls(void) {
  hal_calls calls = hal_direct_calls;
  calls.port_last_error = read_last_error;
  return calls;
}

static const hal_entries no_entries;

static void push(hal_port *port, uint32_t *count, const hal_calls *calls, const void *state) {
  hal_layer *layer = &port->layers[(*count)++];
  // A state is never written through a layer; the generated tables read it as const.
  *layer = (hal_layer){.calls = calls, .next = port->top, .port = port, .state = (void *)state};
  port->top = layer;
}

static int32_t build_layers(hal_port *port, char *reason, uint64_t capacity) {
  uint32_t count = 0;
  hal_entries_read(&port->entries, port->library->root);
  port->lowest_calls = ended_calls();
  port->ended = (hal_layer){
      .calls = &port->lowest_calls, .next = NULL, .port = port, .state = (void *)&no_entries};
  push(port, &count, &port->lowest_calls, &port->entries);
  if (port->layer_mask & HAL_LAYER_MUTATE) push(port, &count, &hal_mutate_calls, port->break_rule);
  if (port->layer_mask & HAL_LAYER_EMULATE) {
    port->emulation = hal_emulation_create(port, port->top);
    if (port->emulation == NULL) {
      return hal_reason(reason, capacity, HAL_ERROR_OUT_OF_MEMORY, "no host memory");
    }
    push(port, &count, hal_emulation_calls(port->emulation), port->emulation);
  }
  if (port->layer_mask & HAL_LAYER_VALIDATE) {
    push(port, &count, &hal_validate_calls, port->skip_rule);
  }
  if (port->layer_mask & HAL_LAYER_TRACE) push(port, &count, &hal_trace_calls, &port->trace_sink);
  return HAL_OK;
}

static int32_t find_rule(const char *id, const hal_rule **out_rule, char *reason,
                         uint64_t capacity) {
  *out_rule = NULL;
  if (id == NULL) return HAL_OK;
  *out_rule = hal_rule_find(id);
  if (*out_rule != NULL) return HAL_OK;
  return hal_reason(reason, capacity, HAL_ERROR_INVALID_VALUE, "no rule has the id '%s'", id);
}

// Reads the caller's descriptor, whatever its size, and refuses what it cannot mean.
static int32_t read_desc(const hal_open_desc *given, hal_open_desc *desc, char *reason,
                         uint64_t capacity) {
  *desc = (hal_open_desc){.size = sizeof(*desc), .layers = HAL_LAYER_DEFAULT};
  if (given == NULL) return HAL_OK;
  if (given->size < offsetof(hal_open_desc, hcd_text)) {
    return hal_reason(reason, capacity, HAL_ERROR_INVALID_VALUE,
                      "the descriptor's size is %llu bytes; it is at least %u",
                      (unsigned long long)given->size, (unsigned)offsetof(hal_open_desc, hcd_text));
  }
  const uint64_t known = given->size < sizeof(*desc) ? given->size : sizeof(*desc);
  memcpy(desc, given, known);
  for (uint64_t i = known; i < given->size; ++i) {
    if (((const unsigned char *)given)[i] == 0) continue;
    return hal_reason(reason, capacity, HAL_ERROR_UNSUPPORTED,
                      "byte %llu of the descriptor is set; this release knows %u bytes",
                      (unsigned long long)i, (unsigned)sizeof(*desc));
  }
  if ((desc->layers & ~KNOWN_LAYERS) != 0 || (desc->flags & ~(uint32_t)HAL_OPEN_NO_INIT) != 0) {
    return hal_reason(reason, capacity, HAL_ERROR_INVALID_VALUE,
                      "layers 0x%x or flags 0x%x have an unknown bit; known are 0x%x and 0x%x",
                      desc->layers, desc->flags, KNOWN_LAYERS, (unsigned)HAL_OPEN_NO_INIT);
  }
  if ((desc->layers & HAL_LAYER_TRACE) != 0 && desc->trace == NULL) {
    return hal_reason(reason, capacity, HAL_ERROR_INVALID_VALUE,
                      "the trace layer needs the field trace");
  }
  if ((desc->layers & HAL_LAYER_MUTATE) != 0 && desc->break_rule == NULL) {
    return hal_reason(reason, capacity, HAL_ERROR_INVALID_VALUE,
                      "the mutate layer needs the field break_rule");
  }
  return HAL_OK;
}

// Fills a new port object. Caller holds the lock of the libraries.
static int32_t make_port(hal_library *library, const hal_open_desc *desc, hal_port **out_port,
                         char *reason, uint64_t capacity) {
  hal_port *port = calloc(1, sizeof(*port));
  if (port == NULL) return hal_reason(reason, capacity, HAL_ERROR_OUT_OF_MEMORY, "no host memory");
  port->library = library;
  port->layer_mask = desc->layers;
  port->log = desc->log;
  port->log_user = desc->log_user;
  port->trace_sink = (hal_trace_sink){.write = desc->trace, .user = desc->trace_user};
  int32_t status = find_rule(desc->break_rule, &port->break_rule, reason, capacity);
  if (status == HAL_OK) status = find_rule(desc->skip_rule, &port->skip_rule, reason, capacity);
  if (status == HAL_OK) status = build_layers(port, reason, capacity);
  if (status == HAL_OK) status = hal_library_join(library, port, desc, reason, capacity);
  if (status != HAL_OK) {
    hal_emulation_destroy(port->emulation);
    hal_record_drop();  // A record must not outlive the object that it names.
    free(port);
    return status;
  }
  hal_port_list(port);
  *out_port = port;
  return HAL_OK;
}

static int32_t open_port(const char *path, hal_port_entry_fn entry, const hal_open_desc *given,
                         hal_port **out_port, char *reason, uint64_t capacity) {
  if (out_port == NULL || (path == NULL && entry == NULL)) {
    return hal_reason(reason, capacity, HAL_ERROR_INVALID_VALUE, "%s is NULL",
                      out_port == NULL ? "out_port" : "the path or the entry");
  }
  hal_open_desc desc;
  int32_t status = read_desc(given, &desc, reason, capacity);
  if (status != HAL_OK) return status;
  hal_library *library = NULL;
  hal_library_lock();
  if (path != NULL) {
    status = hal_library_find(path, &desc, &library, reason, capacity);
  } else {
    status = hal_library_find_entry(entry, &desc, &library, reason, capacity);
  }
  if (status == HAL_OK) status = make_port(library, &desc, out_port, reason, capacity);
  hal_library_unlock();
  return status;
}

int32_t hal_port_open(const char *path, const hal_open_desc *desc, hal_port **out_port,
                      char *reason, uint64_t capacity) {
  return open_port(path, NULL, desc, out_port, reason, capacity);
}

int32_t hal_port_open_entry(hal_port_entry_fn entry, const hal_open_desc *desc, hal_port **out_port,
                            char *reason, uint64_t capacity) {
  return open_port(NULL, entry, desc, out_port, reason, capacity);
}

int32_t hal_port_close(hal_port *port, uint64_t timeout_ns) {
  if (port == NULL) return HAL_ERROR_INVALID_HANDLE;
  if (hal_port_ended(port)) return hal_layer_absent(&port->ended, "port.close");
  const uint64_t deadline_ns = hal_deadline_ns(timeout_ns);
  if (hal_emulation_settle(port->emulation, 0, deadline_ns) != HAL_OK) {
    return hal_record(port, HAL_ERROR_TIMEOUT, "host calls still wait after %llu ns",
                      (unsigned long long)timeout_ns);
  }
  const uint64_t now = hal_now_ns();
  hal_library_lock();
  const int32_t status =
      hal_library_leave(port->library, port, deadline_ns > now ? deadline_ns - now : 0);
  if (status == HAL_OK) hal_port_end(port, "the port is closed");
  hal_library_unlock();
  if (status != HAL_OK) return status;
  hal_emulation_destroy(port->emulation);
  port->emulation = NULL;
  return HAL_OK;
}

uint32_t hal_layer_minor(const hal_layer *self) {
  return self->port->library->root->abi_minor;
}

const hal_port_root *hal_port_raw(const hal_port *port) {
  return port == NULL ? NULL : port->library->root;
}

const char *hal_port_path(const hal_port *port) {
  return port == NULL ? "" : port->library->path;
}

uint32_t hal_port_layers(const hal_port *port) {
  return port == NULL ? 0 : port->layer_mask;
}

int32_t hal_port_capability(const hal_port *port, const char *call, int32_t *out_capability) {
  if (port == NULL) return HAL_ERROR_INVALID_HANDLE;
  if (call == NULL || out_capability == NULL) return HAL_ERROR_INVALID_VALUE;
  for (uint32_t i = 0; i < HAL_FUNCTION_COUNT; ++i) {
    if (strcmp(hal_functions[i].call, call) != 0) continue;
    *out_capability = hal_entries_have(&port->entries, i)     ? HAL_CAPABILITY_NATIVE
                      : hal_emulation_has(port->emulation, i) ? HAL_CAPABILITY_EMULATED
                                                              : HAL_CAPABILITY_NONE;
    return HAL_OK;
  }
  return HAL_ERROR_NOT_FOUND;
}

const char *hal_status_text(int32_t status) {
  return hal_status_name(status);
}
