// Whose kit this is: the port that the entry named, and whether it is started.
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
  if (port->driver != NULL) {
    kit_driver_hooks(port->driver, &the_port.hooks);
  }
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
