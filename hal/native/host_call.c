// stream.host_call for ports that lack it: the function runs on a lane of the stream.
#include "emulation.h"

typedef struct host_call {
  hal_host_fn function;
  void *user;
} host_call;

static int32_t run(void *argument, int32_t reached) {
  host_call *call = argument;
  // Like all work behind a failure of its stream, the function does not run.
  if (reached == HAL_OK) call->function(call->user);
  free(call);
  return reached;
}

static int32_t emulate(hal_emulation *emulation, hal_stream stream, hal_host_fn function,
                       void *user) {
  host_call *call = malloc(sizeof(*call));
  if (call == NULL) return hal_record(emulation->port, HAL_ERROR_OUT_OF_MEMORY, "no host memory");
  *call = (host_call){.function = function, .user = user};
  const int32_t status = hal_lane_hold(emulation, stream, run, call);
  if (status != HAL_OK) free(call);
  return status;
}

static int32_t take_host_call(hal_layer *self, hal_stream stream, hal_host_fn function,
                              void *user) {
  hal_emulation *emulation = self->state;
  int32_t status = hal_capture_refuse(emulation, stream, "stream.host_call");
  if (status != HAL_OK) return status;
  if (HAL_PORT_HAS(emulation, stream_host_call)) {
    status = self->next->calls->stream_host_call(self->next, stream, function, user);
    if (status != HAL_ERROR_UNSUPPORTED) return status;
  }
  return emulate(emulation, stream, function, user);
}

void hal_emulate_host_call(hal_emulation *emulation) {
  HAL_TAKE_OVER(emulation, stream_host_call, STREAM_HOST_CALL, take_host_call);
}
