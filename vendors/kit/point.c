// Points: what an event completes, a place in a stream's order or the host's signal.
#include <stdlib.h>
#include <string.h>

#include "kit_state.h"

kit_point *kit_point_create(void) {
  kit_point *point = calloc(1, sizeof(*point));
  if (point != NULL) {
    atomic_init(&point->references, 1);
  }
  return point;
}

void kit_point_retain(kit_point *point) {
  atomic_fetch_add_explicit(&point->references, 1, memory_order_relaxed);
}

void kit_point_release(kit_point *point) {
  if (atomic_fetch_sub_explicit(&point->references, 1, memory_order_acq_rel) == 1) {
    free(point->text);
    free(point);
  }
}

void kit_point_complete(kit_point *point, int32_t status, uint64_t operation_id, const char *text,
                        uint64_t stamp_ns) {
  point->status = status;
  point->operation_id = status == HAL_OK ? 0 : operation_id;
  point->text = status == HAL_OK ? NULL : strdup(text);
  point->stamp_ns = stamp_ns;
  atomic_store(&point->done, 1);
  kit_wake(point);
}

void kit_point_publish(kit_point *point) {
  atomic_store(&point->done, 2);
  kit_wake(point);
}
