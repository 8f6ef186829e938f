// Ports of a driver: the hooks that it makes, for memory and queues.
#include <stdlib.h>
#include <string.h>

#include "driver_state.h"

enum { STATE_BYTES = 8 };  // Of which the first four say what went wrong.

static kit_found *found_of(const kit_device *device) {
  return kit_found_at(device->index);
}

// ---- Memory ----

static int32_t reserve(kit_device *device, uint64_t bytes, uint64_t alignment, int zero,
                       kit_allocation *out_allocation) {
  kit_found *found = found_of(device);
  int32_t status = kit_driver_enter(found);
  if (status == HAL_OK) {
    status = kit_driver_reserve(found, bytes, alignment, zero != 0, out_allocation);
    kit_driver_leave();
  }
  return status;
}

static void release(kit_device *device, kit_allocation *allocation) {
  if (kit_driver_enter(found_of(device)) == HAL_OK) {
    kit_driver_release(found_of(device), allocation);
    kit_driver_leave();
  }
}

static int32_t pin(kit_device *device, uint64_t bytes, void **out_pointer) {
  int32_t status = kit_driver_enter(found_of(device));
  if (status == HAL_OK) {
    status = kit_the_driver()->pin(found_of(device)->data, bytes, out_pointer);
    kit_driver_leave();
  }
  return status;
}

static void unpin(kit_device *device, void *pointer) {
  if (kit_driver_enter(found_of(device)) == HAL_OK) {
    kit_the_driver()->unpin(found_of(device)->data, pointer);
    kit_driver_leave();
  }
}

// ---- Queues ----

static void close_lane(kit_lane *lane) {
  kit_marks_free(lane);
  kit_anchor_drop(lane->found, lane->anchor);
  kit_driver_close(&lane->queue);
  if (lane->has_state) {
    kit_driver_release(lane->found, &lane->state);
  }
}

static int32_t open_lane(kit_lane *lane) {
  int32_t status = kit_the_driver()->queue_open(&lane->queue);
  if (status == HAL_OK) {
    status = kit_driver_reserve(lane->found, STATE_BYTES, 1, false, &lane->state);
    lane->has_state = status == HAL_OK;
  }
  if (status == HAL_OK) {  // In order before all that comes.
    const kit_span all = {lane->state.native, 0, STATE_BYTES};
    const uint32_t zero = 0;
    status = kit_the_driver()->fill(&lane->queue, &all, &zero, sizeof(zero));
  }
  if (status == HAL_OK && kit_the_driver()->elapsed_ns != NULL) {
    status = kit_anchor_take(lane);
  }
  if (status != HAL_OK) {
    close_lane(lane);
  }
  return status;
}

static int32_t queue_open(kit_device *device, uint64_t *queue) {
  kit_lane *lane = calloc(1, sizeof(*lane));
  if (lane == NULL) {
    return kit_fail(HAL_ERROR_OUT_OF_MEMORY, "no host memory for a stream");
  }
  lane->found = found_of(device);
  lane->queue = (kit_queue){
      .device = lane->found->data, .native = (void *)(uintptr_t)*queue, .is_wrapped = *queue != 0};
  int32_t status = kit_driver_enter(lane->found);
  if (status == HAL_OK) {
    status = open_lane(lane);
    kit_driver_leave();
  }
  if (status != HAL_OK) {
    free(lane);
    return status;
  }
  *queue = (uint64_t)(uintptr_t)lane;
  return HAL_OK;
}

static void queue_close(kit_device *device, uint64_t queue) {
  kit_lane *lane = (kit_lane *)(uintptr_t)queue;
  if (kit_driver_enter(found_of(device)) == HAL_OK) {
    close_lane(lane);
    kit_driver_leave();
  }
  free(lane);
}

// ---- The port ----

void kit_driver_hooks(const kit_driver *driver, kit_hooks *hooks) {
  hooks->reserve = reserve;
  hooks->release = release;
  hooks->pin = driver->pin == NULL ? NULL : pin;
  hooks->unpin = driver->pin == NULL ? NULL : unpin;
  hooks->queue_open = queue_open;
  hooks->queue_close = queue_close;
  hooks->submit = kit_driver_submit;
  hooks->finished = kit_driver_finished;
  hooks->module_open = kit_driver_module_open;
  hooks->module_close = kit_driver_module_close;
}

void kit_driver_forget(kit_found *found) {
  if (kit_the_driver() != NULL && kit_the_driver()->collectives != NULL) {
    kit_comms_end();
  }
  if (kit_the_driver() == NULL || (found->service == NULL && found->kept == NULL) ||
      kit_driver_enter(found) != HAL_OK) {
    return;
  }
  kit_anchor_drop(found, found->anchor);
  found->anchor = NULL;
  while (found->kept != NULL) {
    kit_compiled *first = found->kept;
    found->kept = first->next;
    kit_compiled_release(first);
  }
  if (found->service != NULL) {
    kit_driver_close(found->service);
    free(found->service);
    found->service = NULL;
  }
  kit_driver_leave();
}
