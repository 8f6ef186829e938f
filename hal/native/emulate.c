// The emulate layer as a whole: what it takes over, and its life.
#include "emulate.h"

#include <stdlib.h>

struct hal_emulation {
  hal_calls calls;
  hal_port *port;
  hal_layer *next;
  unsigned char does[HAL_FUNCTION_COUNT];
};

hal_emulation *hal_emulation_create(hal_port *port, hal_layer *next) {
  hal_emulation *emulation = calloc(1, sizeof(*emulation));
  if (emulation == NULL) return NULL;
  emulation->calls = hal_forward_calls;
  emulation->port = port;
  emulation->next = next;
  return emulation;
}

int32_t hal_emulation_settle(hal_emulation *emulation, uint64_t deadline_ns) {
  (void)emulation;
  (void)deadline_ns;
  return HAL_OK;
}

void hal_emulation_destroy(hal_emulation *emulation) {
  free(emulation);
}

const hal_calls *hal_emulation_calls(const hal_emulation *emulation) {
  return &emulation->calls;
}

int hal_emulation_has(const hal_emulation *emulation, uint32_t function) {
  return emulation != NULL && function < HAL_FUNCTION_COUNT && emulation->does[function];
}

int hal_emulation_is_capturing(const hal_emulation *emulation, hal_stream stream) {
  (void)emulation;
  (void)stream;
  return 0;
}
