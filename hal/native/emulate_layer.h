// The emulate layer: passes through what the port has and does by other means what it lacks.
// emulate.c builds it; each subject has its own file. Inside libhal only.
#ifndef HAL_NATIVE_EMULATE_LAYER_H_
#define HAL_NATIVE_EMULATE_LAYER_H_

#include "port_object.h"

// Makes the layer that stands on `next`; NULL without host memory.
hal_emulation *hal_emulation_create(hal_port *port, hal_layer *next);
// Waits until no host work of a device is on its way; 0 stands for all devices. HAL_ERROR_TIMEOUT:
// some still is. NULL is settled.
int32_t hal_emulation_settle(hal_emulation *emulation, hal_device device, uint64_t deadline_ns);
// Ends the layer after its port was stopped; NULL does nothing.
void hal_emulation_destroy(hal_emulation *emulation);
// The layer's table.
const hal_calls *hal_emulation_calls(const hal_emulation *emulation);
// Tells (0 or 1) whether the layer does function HAL_FUNCTION_* for this port. NULL does nothing.
int hal_emulation_has(const hal_emulation *emulation, uint32_t function);
// Tells (0 or 1) whether work on the stream is recorded to a graph. NULL never records.
int hal_emulation_is_capturing(const hal_emulation *emulation, hal_stream stream);

#endif  // HAL_NATIVE_EMULATE_LAYER_H_
