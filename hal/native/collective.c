// Collectives of the loader: whose a call is, the port's, the loader's or a group's.
#include "circle.h"

void hal_emulate_comm(hal_emulation *emulation);  // comm.c

// ---- The functions of the interface ----

typedef int32_t (*native_fn)(hal_layer *next, hal_comm comm, hal_stream stream,
                             const hal_collective_desc *desc);

static int32_t take(hal_layer *self, hal_comm comm, hal_stream stream,
                    const hal_collective_desc *desc, uint32_t what, native_fn native,
                    const char *call) {
  hal_emulation *emulation = self->state;
  pthread_mutex_lock(&emulation->lock);
  const int is_ours = hal_slot_get(&emulation->ranks, comm) != NULL;
  pthread_mutex_unlock(&emulation->lock);
  int32_t status;
  if (!is_ours && HAL_PORT_HAS(emulation, collective_comm_create)) {
    status = native(self->next, comm, stream, desc);
    if (status == HAL_ERROR_UNSUPPORTED && what == HAL_ALL_TO_ALL) {
      status = hal_exchange(emulation, comm, stream, desc);
    }
    if (status != HAL_ERROR_UNSUPPORTED || hal_exchange_knows(emulation, comm)) return status;
  }
  status = hal_capture_refuse(emulation, stream, call);
  hal_part *part = NULL;
  if (status == HAL_OK) status = hal_part_make(emulation, comm, stream, what, desc, &part);
  if (status != HAL_OK) return status;
  if (hal_group_is_open()) return hal_group_add_part(part);
  status = hal_part_begin(part);
  if (status != HAL_OK) {
    hal_part_release(part);
    return status;
  }
  return hal_part_finish(part);
}

// Defines take_NAME, which does collective.NAME.
#define DEFINE_TAKE(name, what)                                                       \
  static int32_t take_##name(hal_layer *self, hal_comm comm, hal_stream stream,       \
                             const hal_collective_desc *desc) {                       \
    return take(self, comm, stream, desc, what, self->next->calls->collective_##name, \
                "collective." #name);                                                 \
  }

DEFINE_TAKE(all_reduce, HAL_ALL_REDUCE)
DEFINE_TAKE(all_gather, HAL_ALL_GATHER)
DEFINE_TAKE(reduce_scatter, HAL_REDUCE_SCATTER)
DEFINE_TAKE(broadcast, HAL_BROADCAST)
DEFINE_TAKE(all_to_all, HAL_ALL_TO_ALL)
DEFINE_TAKE(send, HAL_SEND)
DEFINE_TAKE(recv, HAL_RECV)

// A group is the port's and the layer's: what a call in it is for shows with the communicator.
static int32_t take_group_begin(hal_layer *self) {
  hal_emulation *emulation = self->state;
  if (HAL_PORT_HAS(emulation, collective_group_begin)) {
    const int32_t status = self->next->calls->collective_group_begin(self->next);
    if (status != HAL_OK && status != HAL_ERROR_UNSUPPORTED) return status;
  }
  hal_group_open();
  return HAL_OK;
}

static int32_t take_group_end(hal_layer *self) {
  hal_emulation *emulation = self->state;
  int32_t status = HAL_ERROR_UNSUPPORTED;
  if (HAL_PORT_HAS(emulation, collective_group_end)) {
    status = self->next->calls->collective_group_end(self->next);
  }
  if (status == HAL_ERROR_UNSUPPORTED) return hal_group_close(emulation);
  if (!hal_group_is_open()) return status;
  hal_error error = {.size = sizeof(error)};
  if (status != HAL_OK) hal_port_last_error(emulation->port, &error);
  const int32_t own = hal_group_close(emulation);
  if (status == HAL_OK) return own;
  return own == HAL_OK ? status : hal_record(emulation->port, status, "%s", error.text);
}

void hal_emulate_collective(hal_emulation *emulation) {
  hal_emulate_comm(emulation);
  HAL_TAKE_OVER(emulation, collective_all_reduce, COLLECTIVE_ALL_REDUCE, take_all_reduce);
  HAL_TAKE_OVER(emulation, collective_all_gather, COLLECTIVE_ALL_GATHER, take_all_gather);
  HAL_TAKE_OVER(emulation, collective_reduce_scatter, COLLECTIVE_REDUCE_SCATTER,
                take_reduce_scatter);
  HAL_TAKE_OVER(emulation, collective_broadcast, COLLECTIVE_BROADCAST, take_broadcast);
  HAL_TAKE_OVER(emulation, collective_send, COLLECTIVE_SEND, take_send);
  HAL_TAKE_OVER(emulation, collective_recv, COLLECTIVE_RECV, take_recv);
  HAL_TAKE_OVER(emulation, collective_group_begin, COLLECTIVE_GROUP_BEGIN, take_group_begin);
  HAL_TAKE_OVER(emulation, collective_group_end, COLLECTIVE_GROUP_END, take_group_end);
  HAL_TAKE_OVER(emulation, collective_all_to_all, COLLECTIVE_ALL_TO_ALL, take_all_to_all);
}
