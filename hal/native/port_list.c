// Every port object of the process, and the end of one.
#include "port_object.h"

static _Atomic(hal_port *) ports;

hal_port *hal_port_first(void) {
  return atomic_load(&ports);
}

void hal_port_end(hal_port *port, const char *reason) {
  port->end_reason = reason;
  port->top = &port->ended;
}

void hal_port_list(hal_port *port) {
  port->next = atomic_load(&ports);
  atomic_store(&ports, port);
}
