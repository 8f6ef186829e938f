// What comes before what: a clock a stream, as the host's calls order them.
#ifndef SIM_ORDER_H_
#define SIM_ORDER_H_

#include <stdbool.h>
#include <stdint.h>

enum { SIM_MOST_STREAMS = 256 };

// A moment: for each stream the number of its operations that are over.
typedef struct sim_moment {
  uint32_t over[SIM_MOST_STREAMS];
} sim_moment;

void sim_order_reset(void);
// Number of a stream. A stream that the host has seen the end of gives its number to a new one: no
// more is known of it than the host knows. False when all numbers are in use.
bool sim_order_stream(uint64_t handle, uint64_t device, uint32_t *out);
// The next operation of a stream: the moment at which it begins. Its own number is out->over[it].
void sim_order_step(uint32_t stream, sim_moment *out);
void sim_order_record(uint32_t stream, const void *point);
void sim_order_wait(uint32_t stream, const void *point);  // A point of the host: after the host.
void sim_order_name_event(uint64_t event, uint32_t stream);
void sim_order_host_saw_stream(uint32_t stream);
void sim_order_host_saw_device(uint64_t device);
void sim_order_host_saw_event(uint64_t event);

#endif  // SIM_ORDER_H_
