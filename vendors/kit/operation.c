// Doing one operation of a stream, and counting it as finished.
#include <stdio.h>

#include "kit_state.h"

uint32_t kit_profile_kind(uint32_t kind) {
  switch (kind) {
    case KIT_LAUNCH:
    case KIT_OPERATOR:
      return HAL_PROFILE_LAUNCH;
    case KIT_FILL:
      return HAL_PROFILE_FILL;
    case KIT_COPY_TO_DEVICE:
    case KIT_COPY_TO_HOST:
    case KIT_COPY_ON_DEVICE:
    case KIT_COPY_PEER:
      return HAL_PROFILE_COPY;
    default:
      return 0;
  }
}

static void fail_stream(kit_stream *stream, int32_t status, uint64_t failed_id, const char *text) {
  snprintf(stream->failed_text, sizeof(stream->failed_text), "%s", text);
  stream->failed_id = failed_id;
  stream->failed_at_ns = atomic_load(&stream->now_ns);
  atomic_store_explicit(&stream->failed, status, memory_order_release);
  kit_device_answer(stream->object.device, status);
}

// Sets the operation's two times and moves the stream's clock.
static void stamp(kit_stream *stream, kit_operation *operation, bool ran) {
  kit_device *device = stream->object.device;
  if (kit_clock_is_virtual()) {
    kit_clock_finish(stream, operation, ran);
  } else if (operation->kept != 0 && operation->end_ns == 0) {
    operation->end_ns = kit_device_now(device);
  }
}

void kit_finish_operation(kit_stream *stream, kit_place *place, int32_t status, uint64_t failed_id,
                          const char *text) {
  kit_operation *operation = &place->operation;
  kit_point *point = operation->kind == KIT_RECORD ? operation->point : NULL;
  int32_t failed = atomic_load_explicit(&stream->failed, memory_order_relaxed);
  stamp(stream, operation, status == HAL_OK && failed == HAL_OK);
  if (status < 0 && failed == HAL_OK) {
    fail_stream(stream, status, failed_id, text);
    failed = status;
  }
  if ((operation->kept & KIT_KEEP_PROFILE) != 0 && failed == HAL_OK) {
    kit_profile_keep(stream->object.device, stream->object.handle,
                     kit_profile_kind(operation->kind), operation);
  }
  if (point != NULL) {
    kit_point_complete(point, failed, stream->failed_id,
                       failed == HAL_OK ? "" : stream->failed_text, operation->end_ns);
  }
  kit_place_drop(place);
  kit_point *waited = operation->kind == KIT_WAIT ? operation->point : NULL;
  if (waited != NULL) {
    kit_point_release(waited);
  }
  atomic_store(&stream->completed, operation->id);
  kit_wake(&stream->completed);
  if (point != NULL) {
    kit_point_publish(point);
    kit_point_release(point);
  }
}

static bool is_done(void *context) {
  return atomic_load(&((kit_point *)context)->done) != 0;
}

// Has the thread whose work is waited for look at once.
static void call_for(const kit_point *point) {
  if (kit_is_native() || point->stream == 0 || atomic_load(&point->done) != 0) {
    return;
  }
  hal_error saved;
  kit_error_save(&saved);
  kit_stream *stream = kit_acquire(point->stream, KIT_KIND_STREAM);
  if (stream != NULL) {
    if (atomic_load(&stream->completed) < point->place_id &&
        atomic_load(&stream->left) != atomic_load(&stream->head)) {
      kit_queue_call(stream);
    }
    kit_release(stream);
  }
  kit_error_restore(&saved);
}

static _Atomic uint64_t patience_ns;

void kit_host_patience(uint64_t wait_ns) {
  atomic_store(&patience_ns, wait_ns);
}

// Waits for a point; false when it is the host's and the patience for it is over.
static bool await_point(kit_point *point) {
  uint64_t patience = point->stream == 0 ? atomic_load(&patience_ns) : 0;
  return kit_wait(is_done, point, point,
                  patience == 0 ? KIT_FOREVER : kit_monotonic_ns() + patience);
}

void kit_execute(kit_stream *stream, kit_place *place) {
  kit_operation *operation = &place->operation;
  int32_t status = HAL_OK;
  uint64_t failed_id = operation->id;
  const char *text = "";
  if ((operation->kept & KIT_KEEP_PROFILE) != 0 && !kit_clock_is_virtual()) {
    operation->begin_ns = kit_device_now(stream->object.device);
  }
  if (atomic_load_explicit(&stream->failed, memory_order_relaxed) != HAL_OK) {
    status = HAL_OK;  // Skipped: the stream failed before.
  } else if (operation->kind == KIT_WAIT) {
    kit_point *point = operation->point;
    if (point != NULL) {
      call_for(point);
      if (await_point(point)) {
        status = point->status;
        failed_id = point->operation_id != 0 ? point->operation_id : operation->id;
        text = point->text == NULL ? "" : point->text;
        if (operation->ready_ns < point->stamp_ns) {
          operation->ready_ns = point->stamp_ns;
        }
      } else {
        status = HAL_ERROR_EXECUTION_FAILED;
        text = "deadlock: stream.wait_event waits for a HOST event that nobody signals";
      }
    }
  } else if (operation->kind == KIT_HOST_CALL) {
    operation->function(operation->user);
  } else if (operation->kind != KIT_RECORD) {
    int32_t (*run)(kit_device *, kit_operation *) = kit_the_port()->hooks.run;
    status = (run != NULL ? run : kit_host_run)(stream->object.device, operation);
    text = kit_error_text();
  }
  kit_finish_operation(stream, place, status, failed_id, text);
}
