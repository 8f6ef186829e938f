// Ports of a driver: what its other files stand on: calls within the device's context, memory, and
// the device's own queue.
#include <stdlib.h>

#include "driver_state.h"

const kit_driver *kit_the_driver(void) {
  return kit_the_port()->driver;
}

int32_t kit_driver_enter(const kit_found *found) {
  const kit_driver *driver = kit_the_driver();
  return driver->enter == NULL ? HAL_OK : driver->enter(found->data);
}

void kit_driver_leave(void) {
  if (kit_the_driver()->leave != NULL) {
    kit_the_driver()->leave();
  }
}

void kit_driver_close(kit_queue *queue) {
  if (queue->native != NULL) {
    kit_the_driver()->queue_close(queue);
  }
}

kit_queue *kit_driver_service(kit_found *found) {
  if (found->service != NULL) {
    return found->service;
  }
  kit_queue *made = calloc(1, sizeof(*made));
  if (made == NULL) {
    kit_fail(HAL_ERROR_OUT_OF_MEMORY, "no host memory for a queue");
    return NULL;
  }
  made->device = found->data;
  if (kit_the_driver()->queue_open(made) != HAL_OK) {
    kit_driver_close(made);
    free(made);
    return NULL;
  }
  found->service = made;
  return made;
}

static int32_t zero_bytes(kit_found *found, const kit_allocation *memory, uint64_t bytes) {
  const kit_driver *driver = kit_the_driver();
  const kit_span all = {memory->native, 0, bytes};
  const uint8_t zero = 0;
  pthread_mutex_lock(&found->lock);
  kit_queue *service = kit_driver_service(found);
  int32_t status = service == NULL ? kit_error_status() : driver->fill(service, &all, &zero, 1);
  if (status == HAL_OK) {
    status = driver->queue_finish(service);
  }
  pthread_mutex_unlock(&found->lock);
  return status;
}

// Where there are addresses, `port_data` is what the driver gave, and the rest is aligned.
static void align(uint64_t alignment, kit_allocation *memory) {
  if (memory->pointer != NULL) {
    memory->port_data = memory->pointer;
    uint64_t more = -(uint64_t)(uintptr_t)memory->pointer & (alignment - 1);
    memory->pointer = (char *)memory->pointer + more;
    memory->native += more;
  }
}

int32_t kit_driver_reserve(kit_found *found, uint64_t bytes, uint64_t alignment, bool zero,
                           kit_allocation *out) {
  uint64_t own = found->alignment_bytes;
  uint64_t more = alignment > own ? alignment - own : 0;
  int32_t status = kit_the_driver()->reserve(found->data, bytes + more, out);
  if (status != HAL_OK) {
    return status;
  }
  align(alignment, out);
  if (zero && (status = zero_bytes(found, out, bytes)) != HAL_OK) {
    kit_driver_release(found, out);
  }
  return status;
}

void kit_driver_release(kit_found *found, const kit_allocation *allocation) {
  kit_allocation given = *allocation;
  if (given.pointer != NULL) {
    given.native -= (uint64_t)((char *)given.pointer - (char *)given.port_data);
    given.pointer = given.port_data;
  }
  kit_the_driver()->release(found->data, &given);
}
