#ifndef SIM_OBSERVE_H_
#define SIM_OBSERVE_H_

#include "kit.h"

int32_t sim_stream_query(hal_stream stream);
int32_t sim_stream_synchronize(hal_stream stream, uint64_t timeout_ns);
int32_t sim_device_synchronize(hal_device device, uint64_t timeout_ns);
int32_t sim_event_query(hal_event event);
int32_t sim_event_synchronize(hal_event event, uint64_t timeout_ns);
int32_t sim_event_record(hal_event event, hal_stream stream);

#endif  // SIM_OBSERVE_H_
