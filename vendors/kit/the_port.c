// Whose kit this is: the port that the entry named, and whether it is started.
#include "kit_state.h"

static const kit_port *the_port;
static _Atomic bool started;

const kit_port *kit_the_port(void) {
  return the_port;
}

void kit_port_is(const kit_port *port) {
  the_port = port;
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
