// Interface 5: in-order queues of work.
#include <stdlib.h>

#include "kit_state.h"

static void finish_stream(kit_object *object) {
  kit_stream *stream = (kit_stream *)object;
  kit_native_stop(stream);
  kit_queue_free(stream);
  pthread_mutex_destroy(&stream->lock);
  free(stream);
}

static int32_t create(kit_device *device, uint64_t native, hal_stream *out_stream) {
  int32_t status = kit_device_check(device);
  if (status != HAL_OK) {
    return status;
  }
  kit_stream *stream = calloc(1, sizeof(*stream));
  if (stream == NULL || kit_queue_create(stream) != HAL_OK) {
    free(stream);
    return kit_fail(HAL_ERROR_OUT_OF_MEMORY, "no host memory for a stream");
  }
  stream->object.finish = finish_stream;
  pthread_mutex_init(&stream->lock, NULL);
  atomic_store(&stream->now_ns, atomic_load(&device->seen_ns));
  uint64_t handle = kit_handle_create(&stream->object, KIT_KIND_STREAM, device);
  if (handle == 0) {
    finish_stream(&stream->object);
    return kit_fail(HAL_ERROR_OUT_OF_MEMORY, "no handle is left for a stream");
  }
  kit_stream_list(stream);
  status = kit_is_native() ? kit_device_answer(device, kit_native_start(stream, native)) : HAL_OK;
  if (status != HAL_OK) {
    kit_stream_unlist(stream);
    kit_retire(stream);
    return status;
  }
  *out_stream = handle;
  return HAL_OK;
}

int32_t kit_stream_create(hal_device handle, uint32_t flags, hal_stream *out_stream) {
  (void)flags;
  kit_device *device = kit_acquire(handle, KIT_KIND_DEVICE);
  if (device == NULL) {
    return HAL_ERROR_INVALID_HANDLE;
  }
  int32_t status = create(device, 0, out_stream);
  kit_release(device);
  return status;
}

int32_t kit_stream_wrap(hal_device handle, uint64_t native, hal_stream *out_stream) {
  kit_device *device = kit_acquire(handle, KIT_KIND_DEVICE);
  if (device == NULL) {
    return HAL_ERROR_INVALID_HANDLE;
  }
  int32_t status = kit_is_native()
                       ? create(device, native, out_stream)
                       : kit_fail(HAL_ERROR_UNSUPPORTED, "the runtime underneath has no queues");
  kit_release(device);
  return status;
}

int32_t kit_stream_destroy(hal_stream handle) {
  kit_stream *stream = kit_acquire(handle, KIT_KIND_STREAM);
  if (stream == NULL) {
    return HAL_ERROR_INVALID_HANDLE;
  }
  if (!kit_retire(stream)) {
    kit_release(stream);
    return kit_fail(HAL_ERROR_INVALID_HANDLE, "another thread destroys the stream");
  }
  pthread_mutex_lock(&stream->lock);
  atomic_store(&stream->closing, true);
  bool has_thread = stream->has_thread;
  pthread_mutex_unlock(&stream->lock);
  if (kit_is_native()) {
    kit_native_pump(stream);
  } else if (has_thread) {
    kit_wake(&stream->head);  // The thread finishes the work and ends.
  } else {
    kit_stream_unlist(stream);
  }
  kit_release(stream);
  return HAL_OK;
}

typedef struct target {
  kit_stream *stream;
  uint64_t id;
} target;

static bool has_passed(void *context) {
  const target *wanted = context;
  return atomic_load(&wanted->stream->completed) >= wanted->id;
}

int32_t kit_stream_drain(kit_stream *stream, uint64_t deadline_ns) {
  target wanted = {stream, atomic_load(&stream->enqueued)};
  if (deadline_ns != 0) {
    kit_thread_help(stream, wanted.id, deadline_ns);
  }
  if (!kit_wait_pumping(has_passed, &wanted, &stream->completed, deadline_ns)) {
    return HAL_ERROR_TIMEOUT;
  }
  kit_device_saw(stream->object.device, atomic_load(&stream->now_ns));
  return HAL_OK;
}

int32_t kit_stream_query(hal_stream handle) {
  kit_stream *stream = kit_acquire(handle, KIT_KIND_STREAM);
  if (stream == NULL) {
    return HAL_ERROR_INVALID_HANDLE;
  }
  int32_t idle = kit_stream_drain(stream, 0);
  int32_t status = kit_stream_sticky(stream);
  if (status == HAL_OK && idle != HAL_OK) {
    status = HAL_NOT_READY;
  }
  kit_release(stream);
  return status;
}

int32_t kit_stream_synchronize(hal_stream handle, uint64_t timeout_ns) {
  kit_stream *stream = kit_acquire(handle, KIT_KIND_STREAM);
  if (stream == NULL) {
    return HAL_ERROR_INVALID_HANDLE;
  }
  int32_t idle = kit_stream_drain(stream, kit_deadline(timeout_ns));
  int32_t status = kit_stream_sticky(stream);
  if (status == HAL_OK && idle != HAL_OK) {
    status = kit_fail(HAL_ERROR_TIMEOUT, "work of the stream still runs after %llu ns",
                      (unsigned long long)timeout_ns);
  }
  kit_release(stream);
  return status;
}

int32_t kit_stream_wait_event(hal_stream stream_handle, hal_event event_handle) {
  kit_stream *stream = kit_acquire(stream_handle, KIT_KIND_STREAM);
  kit_event *event = stream == NULL ? NULL : kit_acquire(event_handle, KIT_KIND_EVENT);
  int32_t status = HAL_ERROR_INVALID_HANDLE;
  if (event != NULL) {
    pthread_mutex_lock(&event->lock);
    kit_point *point = event->point;
    if (point != NULL) {
      kit_point_retain(point);
    }
    pthread_mutex_unlock(&event->lock);
    kit_place *place = NULL;
    bool direct = point == NULL || atomic_load(&point->done) != 0;
    status = kit_enqueue_begin(stream, direct, &place);
    if (status == HAL_OK) {
      place->operation.kind = KIT_WAIT;
      place->operation.point = point;
      status = kit_enqueue_end(stream, place);
    } else if (point != NULL) {
      kit_point_release(point);
    }
    kit_release(event);
  }
  if (stream != NULL) {
    kit_release(stream);
  }
  return status;
}

int32_t kit_stream_host_call(hal_stream handle, hal_host_fn function, void *user) {
  kit_stream *stream = kit_acquire(handle, KIT_KIND_STREAM);
  if (stream == NULL) {
    return HAL_ERROR_INVALID_HANDLE;
  }
  kit_place *place = NULL;
  int32_t status = kit_enqueue_begin(stream, false, &place);
  if (status == HAL_OK) {
    place->operation.kind = KIT_HOST_CALL;
    place->operation.function = function;
    place->operation.user = user;
    status = kit_enqueue_end(stream, place);
  }
  kit_release(stream);
  return status;
}
