// Checks that real chips do not make: order between streams, and bytes that nobody wrote.
#ifndef SIM_CHECKS_H_
#define SIM_CHECKS_H_

#include "sim.h"

void sim_checks_begin(void);
void sim_checks_end(void);  // Drops everything.

// Every operation, in the order of the host's calls: what it comes after. With no lock held.
void sim_checks_enqueue(uint64_t device, uint64_t stream, kit_operation *operation);
// Runs an operation under the checks that are on. A finding is EXECUTION_FAILED with a text.
int32_t sim_checks_run(kit_operation *operation);
// Fresh device bytes, and their end. OUT_OF_MEMORY: they could not be checked.
int32_t sim_checks_reserve(const kit_allocation *allocation, uint64_t bytes, int zero);
void sim_checks_release(const kit_allocation *allocation);

// The host has seen the end of all work of a stream, a device or what an event stands for.
void sim_checks_saw_stream(uint64_t stream);
void sim_checks_saw_device(uint64_t device);
void sim_checks_saw_event(uint64_t event);
void sim_checks_recorded(uint64_t event, uint64_t stream);

#endif  // SIM_CHECKS_H_
