// Interface 6: points in a stream's order, and signals that the host gives.
//
// A record makes a new point; who waits keeps the point that was the latest then. So a later record
// or the event's end changes nothing for those who wait already.
#include <sched.h>
#include <stdlib.h>

#include "kit_state.h"

static void finish_event(kit_object *object) {
  kit_event *event = (kit_event *)object;
  if (event->point != NULL) {
    kit_point_release(event->point);
  }
  pthread_mutex_destroy(&event->lock);
  free(event);
}

int32_t kit_event_create(hal_device handle, uint32_t flags, hal_event *out_event) {
  kit_device *device = kit_acquire(handle, KIT_KIND_DEVICE);
  if (device == NULL) {
    return HAL_ERROR_INVALID_HANDLE;
  }
  int32_t status = kit_device_check(device);
  if (status != HAL_OK) {
    kit_release(device);
    return status;
  }
  kit_event *event = calloc(1, sizeof(*event));
  bool host = (flags & HAL_EVENT_FLAG_HOST) != 0;
  uint64_t made = 0;
  if (event != NULL) {
    pthread_mutex_init(&event->lock, NULL);
    event->flags = flags;
    event->object.finish = finish_event;
    event->point = host ? kit_point_create() : NULL;
    if (!host || event->point != NULL) {
      made = kit_handle_create(&event->object, KIT_KIND_EVENT, device);
    }
    if (made == 0) {
      finish_event(&event->object);
    }
  }
  kit_release(device);
  if (made == 0) {
    return kit_fail(HAL_ERROR_OUT_OF_MEMORY, "no host memory or handle is left for an event");
  }
  *out_event = made;
  return HAL_OK;
}

// Completes a HOST event once; false when it was completed before.
static bool signal_once(kit_event *event, int32_t status, const char *text) {
  pthread_mutex_lock(&event->lock);
  bool first = !event->signalled;
  event->signalled = true;
  pthread_mutex_unlock(&event->lock);
  if (first) {
    kit_point_complete(event->point, status, 0, text, kit_device_now(event->object.device));
    kit_point_publish(event->point);
    if (kit_is_native()) {
      kit_native_pump_all();
    }
  }
  return first;
}

int32_t kit_event_destroy(hal_event handle) {
  kit_event *event = kit_acquire(handle, KIT_KIND_EVENT);
  if (event == NULL) {
    return HAL_ERROR_INVALID_HANDLE;
  }
  if (!kit_retire(event)) {
    kit_release(event);
    return kit_fail(HAL_ERROR_INVALID_HANDLE, "another thread destroys the event");
  }
  if ((event->flags & HAL_EVENT_FLAG_HOST) != 0) {
    signal_once(event, HAL_ERROR_EXECUTION_FAILED, "a HOST event was destroyed unsignalled");
  }
  kit_release(event);
  return HAL_OK;
}

int32_t kit_event_signal(hal_event handle, int32_t status) {
  kit_event *event = kit_acquire(handle, KIT_KIND_EVENT);
  if (event == NULL) {
    return HAL_ERROR_INVALID_HANDLE;
  }
  int32_t answer = HAL_OK;
  if ((event->flags & HAL_EVENT_FLAG_HOST) == 0) {
    answer = kit_fail(HAL_ERROR_INVALID_STATE, "the event was made without HOST");
  } else if (!signal_once(event, status, "the host signalled an error")) {
    answer = kit_fail(HAL_ERROR_INVALID_STATE, "the event is signalled already");
  }
  kit_release(event);
  return answer;
}

// Gives the event its new point and drops the old one.
static void set_point(kit_event *event, kit_point *point) {
  kit_point_retain(point);
  pthread_mutex_lock(&event->lock);
  kit_point *old = event->point;
  event->point = point;
  pthread_mutex_unlock(&event->lock);
  if (old != NULL) {
    kit_point_release(old);
  }
}

static int32_t record(kit_event *event, kit_stream *stream) {
  if ((event->flags & HAL_EVENT_FLAG_HOST) != 0) {
    return kit_fail(HAL_ERROR_INVALID_STATE, "a HOST event is signalled, never recorded");
  }
  kit_point *point = kit_point_create();
  if (point == NULL) {
    return kit_fail(HAL_ERROR_INVALID_STATE, "no host memory to record an event");
  }
  kit_place *place = NULL;
  int32_t status = kit_enqueue_begin(stream, true, &place);
  if (status == HAL_OK) {
    place->operation.kind = KIT_RECORD;
    place->operation.point = point;
    point->stream = stream->object.handle;
    place->operation.kept = (event->flags & HAL_EVENT_FLAG_TIMING) != 0 ? KIT_KEEP_TIME : 0;
    kit_point_retain(point);
    kit_enqueue_end(stream, place);
    set_point(event, point);
    kit_point_release(point);
    return HAL_OK;
  }
  if (atomic_load(&stream->failed) != HAL_OK) {
    // Recorded after the failure: the event completes with it.
    kit_point_complete(point, atomic_load(&stream->failed), stream->failed_id, stream->failed_text,
                       stream->failed_at_ns);
    kit_point_publish(point);
    set_point(event, point);
  }
  kit_point_release(point);
  return status;
}

int32_t kit_event_record(hal_event event_handle, hal_stream stream_handle) {
  kit_event *event = kit_acquire(event_handle, KIT_KIND_EVENT);
  kit_stream *stream = event == NULL ? NULL : kit_acquire(stream_handle, KIT_KIND_STREAM);
  int32_t status = stream == NULL ? HAL_ERROR_INVALID_HANDLE : record(event, stream);
  if (stream != NULL) {
    kit_release(stream);
  }
  if (event != NULL) {
    kit_release(event);
  }
  return status;
}

// Takes the event's latest point with a reference; NULL when it was never recorded.
static kit_point *take_point(kit_event *event) {
  pthread_mutex_lock(&event->lock);
  kit_point *point = event->point;
  if (point != NULL) {
    kit_point_retain(point);
  }
  pthread_mutex_unlock(&event->lock);
  return point;
}

static bool is_started(void *context) {
  return atomic_load(&((kit_point *)context)->done) != 0;
}

// Waits for a point; HAL_NOT_READY when the time is over.
static int32_t await(kit_event *event, kit_point *point, uint64_t deadline_ns) {
  kit_thread_help_point(point, deadline_ns);
  if (!kit_wait_pumping(is_started, point, point, deadline_ns)) {
    return HAL_NOT_READY;
  }
  while (atomic_load(&point->done) != 2) {
    sched_yield();  // The stream is about to count the record.
  }
  kit_device_saw(event->object.device, point->stamp_ns);
  return point->status == HAL_OK ? HAL_OK
                                 : kit_fail_operation(point->status, point->operation_id,
                                                      point->text == NULL ? "" : point->text);
}

int32_t kit_event_query(hal_event handle) {
  kit_event *event = kit_acquire(handle, KIT_KIND_EVENT);
  if (event == NULL) {
    return HAL_ERROR_INVALID_HANDLE;
  }
  kit_point *point = take_point(event);
  int32_t status = HAL_OK;
  if (point != NULL) {
    status = await(event, point, 0);
    kit_point_release(point);
  }
  kit_release(event);
  return status;
}

int32_t kit_event_synchronize(hal_event handle, uint64_t timeout_ns) {
  kit_event *event = kit_acquire(handle, KIT_KIND_EVENT);
  if (event == NULL) {
    return HAL_ERROR_INVALID_HANDLE;
  }
  kit_point *point = take_point(event);
  int32_t status = HAL_OK;
  if (point != NULL) {
    status = await(event, point, kit_deadline(timeout_ns));
    if (status == HAL_NOT_READY) {
      status = kit_fail(HAL_ERROR_TIMEOUT, "the event is not complete after %llu ns",
                        (unsigned long long)timeout_ns);
    }
    kit_point_release(point);
  }
  kit_release(event);
  return status;
}

// Reads the time of a TIMING event's record.
static int32_t read_time(hal_event handle, uint64_t *out_ns) {
  kit_event *event = kit_acquire(handle, KIT_KIND_EVENT);
  if (event == NULL) {
    return HAL_ERROR_INVALID_HANDLE;
  }
  int32_t status = HAL_OK;
  kit_point *point = take_point(event);
  if ((event->flags & HAL_EVENT_FLAG_TIMING) == 0 || (event->flags & HAL_EVENT_FLAG_HOST) != 0) {
    status =
        kit_fail(HAL_ERROR_INVALID_STATE, "the event keeps no time: it was made without TIMING");
  } else if (point == NULL) {
    status = kit_fail(HAL_ERROR_INVALID_STATE, "the event was never recorded");
  } else if ((status = await(event, point, 0)) < 0) {
    status = kit_fail(HAL_ERROR_INVALID_STATE, "the work before the event failed: %.300s",
                      kit_error_text());
  } else {
    *out_ns = point->stamp_ns;
  }
  if (point != NULL) {
    kit_point_release(point);
  }
  kit_release(event);
  return status;
}

int32_t kit_event_elapsed_ns(hal_event start, hal_event end, int64_t *out_ns) {
  uint64_t first = 0;
  uint64_t last = 0;
  int32_t start_status = read_time(start, &first);
  if (start_status < 0) {
    return start_status;
  }
  int32_t end_status = read_time(end, &last);
  if (end_status != HAL_OK || start_status != HAL_OK) {
    return end_status != HAL_OK ? end_status : start_status;
  }
  *out_ns = (int64_t)(last - first);
  return HAL_OK;
}
