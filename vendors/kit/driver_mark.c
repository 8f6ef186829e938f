// Marks behind the operations of a driver's queue, and the times that they tell.
#include <stdlib.h>
#include <string.h>

#include "driver_state.h"

// Drivers count in floats: the anchor moves on before they are too coarse.
enum { ANCHOR_NS = 2000000000 };

static int32_t no_memory(void) {
  return kit_fail(HAL_ERROR_OUT_OF_MEMORY, "no host memory for an operation");
}

static void free_states(kit_lane *lane, kit_mark *mark) {
  const kit_driver *driver = kit_the_driver();
  if (mark->states != NULL && driver->pin != NULL) {
    driver->unpin(lane->found->data, mark->states);
  } else {
    free(mark->states);
  }
  free(mark->steps);
  mark->states = NULL;
  mark->steps = NULL;
  mark->state_room = 0;
}

// Room for the states behind so many steps.
static int32_t make_room(kit_lane *lane, kit_mark *mark, uint32_t steps) {
  const kit_driver *driver = kit_the_driver();
  if (steps <= mark->state_room) {
    return HAL_OK;
  }
  free_states(lane, mark);
  void *states = NULL;
  uint64_t bytes = steps * sizeof(int32_t);
  if (driver->pin == NULL) {
    states = malloc(bytes);
  } else {
    int32_t status = driver->pin(lane->found->data, bytes, &states);
    if (status != HAL_OK) {
      return status;
    }
  }
  mark->states = states;
  mark->steps = malloc(steps * sizeof(*mark->steps));
  mark->state_room = steps;
  return mark->states != NULL && mark->steps != NULL ? HAL_OK : no_memory();
}

static void free_mark(kit_lane *lane, kit_mark *mark) {
  void *events[] = {mark->begin, mark->work, mark->end};
  for (int i = 0; i < 3; ++i) {
    if (events[i] != NULL) {
      kit_the_driver()->drop(events[i]);
    }
  }
  free_states(lane, mark);
  free(mark);
}

int32_t kit_mark_take(kit_lane *lane, uint32_t steps, kit_mark **out_mark) {
  kit_mark *mark = lane->free;
  if (mark != NULL) {
    lane->free = mark->next;
  } else if ((mark = calloc(1, sizeof(*mark))) == NULL) {
    return no_memory();
  }
  int32_t status = make_room(lane, mark, steps);
  if (status != HAL_OK) {
    free_mark(lane, mark);
    return status;
  }
  *out_mark = mark;
  return HAL_OK;
}

void kit_mark_drop(kit_lane *lane, kit_mark *mark) {
  if (mark->has_temporary) {
    kit_driver_release(lane->found, &mark->temporary);
  }
  mark->has_temporary = mark->has_work = false;
  mark->state_count = 0;
  mark->next = lane->free;
  lane->free = mark;
}

void kit_marks_free(kit_lane *lane) {
  while (lane->free != NULL) {
    kit_mark *mark = lane->free;
    lane->free = mark->next;
    free_mark(lane, mark);
  }
}

// ---- Times ----

void kit_anchor_drop(kit_found *found, kit_anchor *anchor) {
  if (anchor == NULL) {
    return;
  }
  pthread_mutex_lock(&found->lock);
  bool is_last = --anchor->references == 0;
  pthread_mutex_unlock(&found->lock);
  if (is_last) {
    kit_the_driver()->drop(anchor->event);
    free(anchor);
  }
}

// Gives an event to a new anchor; NULL without memory: the event is dropped then.
static kit_anchor *create_anchor(void *event, uint64_t ns) {
  kit_anchor *made = malloc(sizeof(*made));
  if (made == NULL) {
    kit_the_driver()->drop(event);
    kit_fail(HAL_ERROR_OUT_OF_MEMORY, "no host memory for a stream");
  } else {
    *made = (kit_anchor){event, ns, 1};
  }
  return made;
}

// An event on the empty queue ends a little before the host sees it: the best of three tries. NULL,
// and the error record, when the queue does not work.
static kit_anchor *measure(kit_queue *queue) {
  const kit_driver *driver = kit_the_driver();
  uint64_t least = UINT64_MAX, best_ns = 0;
  void *best = NULL, *next = NULL;
  int32_t status = HAL_OK;
  for (int turn = 0; turn < 3 && status == HAL_OK; ++turn) {
    uint64_t before = kit_monotonic_ns();
    status = driver->mark(queue, &next);
    if (status == HAL_OK) {
      status = driver->queue_finish(queue);
    }
    uint64_t after = kit_monotonic_ns();
    if (status == HAL_OK && after - before < least) {
      void *old = best;
      least = after - before;
      best = next;
      best_ns = after;
      next = old;
    }
  }
  if (next != NULL) {
    driver->drop(next);
  }
  if (status != HAL_OK && best != NULL) {
    driver->drop(best);
  }
  return status == HAL_OK ? create_anchor(best, best_ns) : NULL;
}

int32_t kit_anchor_take(kit_lane *lane) {
  kit_found *found = lane->found;
  kit_anchor *old = NULL;
  int32_t status = HAL_OK;
  pthread_mutex_lock(&found->lock);
  if (found->anchor == NULL || kit_monotonic_ns() - found->anchor->ns > ANCHOR_NS) {
    kit_queue *service = kit_driver_service(found);
    kit_anchor *made = service == NULL ? NULL : measure(service);
    if (made == NULL) {
      status = kit_error_status();
    } else {
      old = found->anchor;
      found->anchor = made;
    }
  }
  if (status == HAL_OK) {
    lane->anchor = found->anchor;
    lane->end_ns = lane->anchor->ns;
    ++lane->anchor->references;
  }
  pthread_mutex_unlock(&found->lock);
  kit_anchor_drop(found, old);
  return status;
}

// The host's time of an event, by its distance from the anchor.
static uint64_t time_of(const kit_lane *lane, void *event, uint64_t least) {
  int64_t distance = 0;
  uint64_t now = kit_monotonic_ns();
  if (kit_the_driver()->elapsed_ns(lane->anchor->event, event, &distance) != HAL_OK) {
    return now;
  }
  uint64_t at = lane->anchor->ns + (uint64_t)distance;
  at = at < least ? least : at;
  return at > now ? now : at;
}

void kit_mark_times(kit_lane *lane, kit_mark *mark, kit_operation *operation) {
  if (lane->anchor == NULL) {
    return;
  }
  if (operation->begin_ns != 0) {
    operation->begin_ns = time_of(lane, mark->begin, lane->end_ns);
  }
  operation->end_ns = lane->end_ns =
      time_of(lane, mark->has_work ? mark->work : mark->end, lane->end_ns);
  if (lane->end_ns - lane->anchor->ns > ANCHOR_NS && !mark->has_work) {
    kit_anchor *made = create_anchor(mark->end, lane->end_ns);
    mark->end = NULL;
    if (made != NULL) {
      kit_anchor_drop(lane->found, lane->anchor);
      lane->anchor = made;
    }
  }
}
