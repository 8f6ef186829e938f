// Table entries by which the host learns that work is over. The checks of order follow them.
#include "observe.h"
#include "checks.h"

int32_t sim_stream_query(hal_stream stream) {
  int32_t status = kit_stream_query(stream);
  if (status == HAL_OK) {
    sim_checks_saw_stream(stream);
  }
  return status;
}

int32_t sim_stream_synchronize(hal_stream stream, uint64_t timeout_ns) {
  int32_t status = kit_stream_synchronize(stream, timeout_ns);
  if (status == HAL_OK) {
    sim_checks_saw_stream(stream);
  }
  return status;
}

int32_t sim_device_synchronize(hal_device device, uint64_t timeout_ns) {
  int32_t status = kit_device_synchronize(device, timeout_ns);
  if (status == HAL_OK) {
    sim_checks_saw_device(device);
  }
  return status;
}

int32_t sim_event_query(hal_event event) {
  int32_t status = kit_event_query(event);
  if (status == HAL_OK) {
    sim_checks_saw_event(event);
  }
  return status;
}

int32_t sim_event_synchronize(hal_event event, uint64_t timeout_ns) {
  int32_t status = kit_event_synchronize(event, timeout_ns);
  if (status == HAL_OK) {
    sim_checks_saw_event(event);
  }
  return status;
}

int32_t sim_event_record(hal_event event, hal_stream stream) {
  int32_t status = kit_event_record(event, stream);
  if (status == HAL_OK) {
    sim_checks_recorded(event, stream);
  }
  return status;
}
