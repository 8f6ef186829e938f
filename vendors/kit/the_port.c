// Whose kit this is: the port that the entry named, whether it is started, and what the host gave
// it: its log, options and description.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit_state.h"

static kit_port the_port;  // A copy, with the hooks of a driver.
static const hal_port_root *the_root;
static _Atomic bool started;

const kit_port *kit_the_port(void) {
  return the_root == NULL ? NULL : &the_port;
}

const hal_port_root *kit_the_root(void) {
  return the_root;
}

void kit_port_is(const kit_port *port, const hal_port_root *root) {
  the_port = *port;
  the_root = root;
}

bool kit_is_native(void) {
  return kit_the_port()->hooks.submit != NULL;
}

bool kit_is_started(void) {
  return atomic_load(&started);
}

void kit_set_started(bool now) {
  atomic_store(&started, now);
}

// ---- What the host gave ----

static struct {
  hal_log_fn log;
  void *log_user;
  const char *options;
  kit_hcd *hcd;
} given;

void kit_host_is(const hal_host *host) {
  kit_hcd_free(given.hcd);
  memset(&given, 0, sizeof(given));
  if (host != NULL) {
    given.log = host->log;
    given.log_user = host->user;
    given.options = KIT_HAS(host, options) ? host->options : NULL;
  }
}

void kit_host_describes(kit_hcd *hcd) {
  given.hcd = hcd;
}

const kit_hcd *kit_host_hcd(void) {
  return given.hcd;
}

void kit_log(int32_t level, const char *format, ...) {
  hal_log_fn log = given.log;
  if (log == NULL) {
    return;
  }
  char text[600];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  log(given.log_user, level, text);
}

const char *kit_option(const char *key, const char *environment, char *out, size_t capacity) {
  size_t length = strlen(key);
  const char *at = given.options;
  while (at != NULL && *at != '\0') {
    size_t line = strcspn(at, "\n");
    if (line > length && at[length] == '=' && strncmp(at, key, length) == 0) {
      snprintf(out, capacity, "%.*s", (int)(line - length - 1), at + length + 1);
      return out;
    }
    at += line + (at[line] == '\n');
  }
  const char *value = environment == NULL ? NULL : getenv(environment);
  if (value == NULL) {
    return NULL;
  }
  snprintf(out, capacity, "%s", value);
  return out;
}
