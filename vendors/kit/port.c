// Interface 1: start, stop and describe the port.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit_state.h"

static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;  // Init or shutdown at a time.

int32_t kit_entry(const kit_port *port, const hal_port_root *root, uint32_t host_major,
                  uint32_t host_minor, const hal_port_root **out_root) {
  (void)host_minor;  // The tables only grow within a major: any minor reads what it knows.
  if (kit_the_port() == NULL) {
    kit_port mine = *port;
    if (port->driver != NULL) {
      kit_driver_hooks(port->driver, &mine.hooks);
    }
    kit_port_is(&mine, root);
    kit_handles_salt(root->name);
  }
  if (host_major != HAL_ABI_MAJOR) {
    return kit_fail(HAL_ERROR_VERSION, "the host speaks ABI major %u, the port speaks %u",
                    host_major, (unsigned)HAL_ABI_MAJOR);
  }
  *out_root = root;
  return HAL_OK;
}

// Forgets everything that init took.
static void forget(void) {
  kit_chips_drop();
  kit_host_is(NULL);
}

static int32_t read_hcd(const hal_host *host) {
  const char *text = KIT_HAS(host, hcd_text) ? host->hcd_text : NULL;
  uint64_t bytes = KIT_HAS(host, hcd_bytes) && text != NULL ? host->hcd_bytes : 0;
  if (bytes == 0) {
    text = kit_the_port()->hcd_default;
    bytes = text == NULL ? 0 : strlen(text);
  }
  if (text == NULL) {
    return kit_fail(
        HAL_ERROR_NOT_FOUND,
        "port %s needs the chip's description, which hal_host.hcd_text brings: none, or "
        "more than one, *.hcd.yaml lies beside the library",
        kit_the_root()->name);
  }
  char reason[256];
  kit_hcd *hcd = kit_hcd_parse(text, bytes, reason, sizeof(reason));
  kit_host_describes(hcd);
  return hcd == NULL ? kit_fail(HAL_ERROR_INVALID_VALUE, "%s", reason) : HAL_OK;
}

// Hooks that serve each other's results are all there, or the kit's own way serves all of them.
static int32_t check_hooks(const kit_hooks *hooks) {
  const int reserve = hooks->reserve != NULL, pin = hooks->pin != NULL;
  const int submit = hooks->submit != NULL;
  const struct {
    const char *hook, *without;
    int is_wrong;
  } pairs[] = {
      {"reserve", "release", reserve && hooks->release == NULL},
      {"release", "reserve", !reserve && hooks->release != NULL},
      {"pin", "unpin", pin && hooks->unpin == NULL},
      {"unpin", "pin", !pin && hooks->unpin != NULL},
      {"queue_open", "submit", !submit && hooks->queue_open != NULL},
      {"submit", "queue_open", submit && hooks->queue_open == NULL},
      {"submit", "queue_close", submit && hooks->queue_close == NULL},
      {"submit", "poll or finished", submit && !hooks->poll && !hooks->finished},
  };
  for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); ++i) {
    if (pairs[i].is_wrong) {
      return kit_fail(HAL_ERROR_INTERNAL, "the hook %s needs %s, which kit_hooks lacks",
                      pairs[i].hook, pairs[i].without);
    }
  }
  return HAL_OK;
}

// Ends what the hook `start` has begun.
static void stop(void) {
  kit_chips_end_offers();
  if (kit_the_port()->hooks.stop != NULL) {
    kit_the_port()->hooks.stop();
  }
}

static int32_t start(const hal_host *host) {
  if (host->abi_major != HAL_ABI_MAJOR) {
    return kit_fail(HAL_ERROR_INVALID_VALUE, "the host speaks ABI major %u, the port speaks %u",
                    host->abi_major, (unsigned)HAL_ABI_MAJOR);
  }
  kit_host_is(host);
  int32_t status = read_hcd(host);
  if (status != HAL_OK) {
    return status;
  }
  const kit_hooks *hooks = &kit_the_port()->hooks;
  if ((status = check_hooks(hooks)) != HAL_OK) {
    return status;
  }
  if (hooks->start != NULL && (status = hooks->start()) != HAL_OK) {
    kit_chips_end_offers();
    return status;
  }
  status = kit_chips_read();
  if (status != HAL_OK) {
    stop();
  }
  return status;
}

int32_t kit_port_init(const hal_host *host) {
  pthread_mutex_lock(&one);
  int32_t status;
  if (kit_is_started()) {
    status = kit_fail(HAL_ERROR_INVALID_STATE, "port %s is started already", kit_the_root()->name);
  } else {
    status = start(host);
    if (status == HAL_OK) {
      kit_set_started(true);
    } else {
      forget();
    }
  }
  pthread_mutex_unlock(&one);
  return status;
}

static _Atomic uint64_t shutdown_deadline;
static _Atomic int32_t shutdown_status;

static void drain_device(kit_object *object) {
  int32_t status = kit_device_drain((kit_device *)object, atomic_load(&shutdown_deadline));
  if (status == HAL_ERROR_TIMEOUT) {
    atomic_store(&shutdown_status, status);
  }
}

static void close_device(kit_object *object) {
  int32_t status = kit_device_close(object->handle, 0);
  if (status == HAL_ERROR_TIMEOUT) {
    atomic_store(&shutdown_status, status);
  }
}

int32_t kit_port_shutdown(uint64_t timeout_ns) {
  pthread_mutex_lock(&one);
  int32_t status = HAL_OK;
  if (!kit_is_started()) {
    status = kit_fail(HAL_ERROR_INVALID_STATE, "the port is not started");
  } else {
    // First wait for all work, so that a time-out leaves every device open.
    atomic_store(&shutdown_deadline, kit_deadline(timeout_ns));
    atomic_store(&shutdown_status, HAL_OK);
    kit_handles_each(NULL, drain_device);
    if (atomic_load(&shutdown_status) == HAL_OK) {
      kit_handles_each(NULL, close_device);
    }
    if (atomic_load(&shutdown_status) != HAL_OK) {
      status = kit_fail(HAL_ERROR_TIMEOUT, "work still runs after %llu ns; the port stays started",
                        (unsigned long long)timeout_ns);
    } else {
      kit_set_started(false);
      kit_host_stop();
      stop();
      forget();
    }
  }
  pthread_mutex_unlock(&one);
  return status;
}

int32_t kit_port_get_info(uint32_t key, uint64_t capacity, char *out_text, uint64_t *out_bytes) {
  const kit_port *port = kit_the_port();
  switch (key) {
    case HAL_PORT_INFO_NAME:
      return kit_write_text(kit_the_root()->name, capacity, out_text, out_bytes);
    case HAL_PORT_INFO_VERSION:
      return kit_write_text(kit_the_root()->version, capacity, out_text, out_bytes);
    case HAL_PORT_INFO_RUNTIME:
      return kit_write_text(port->runtime, capacity, out_text, out_bytes);
    case HAL_PORT_INFO_RUNS_ON:
      return kit_write_text(port->runs_on, capacity, out_text, out_bytes);
    default:
      return kit_fail(HAL_ERROR_NOT_FOUND, "port.get_info knows no key %u", key);
  }
}

int32_t kit_port_device_count(uint32_t *out_count) {
  if (!kit_is_started()) {
    return kit_fail(HAL_ERROR_INTERNAL, "the port is not started: call init first");
  }
  *out_count = kit_chip_count();
  return HAL_OK;
}

int32_t kit_port_last_error(hal_error *out_error) {
  kit_error_read(out_error);
  return HAL_OK;
}
