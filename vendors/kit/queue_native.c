// The executor for runtimes with queues of their own: no thread. Whoever enqueues, asks or waits
// moves the queues on ("pumps"): hands operations to the runtime in order, and counts those that
// have finished.
#include <time.h>

#include "kit_state.h"

int32_t kit_native_start(kit_stream *stream, uint64_t native) {
  stream->native.queue = native;
  int32_t status = kit_the_port()->hooks.queue_open(stream->object.device, &stream->native.queue);
  stream->native.owns_queue = stream->native.queue != native;
  stream->native.is_open = status == HAL_OK;
  return status;
}

void kit_native_stop(kit_stream *stream) {
  if (stream->native.is_open && stream->native.owns_queue) {
    kit_the_port()->hooks.queue_close(stream->object.device, stream->native.queue);
  }
}

static bool runs_on_queue(const kit_operation *operation) {
  return operation->kind != KIT_RECORD && operation->kind != KIT_WAIT &&
         operation->kind != KIT_HOST_CALL;
}

static void finish(kit_stream *stream, kit_place *place, int32_t status, uint64_t failed_id,
                   const char *text) {
  struct kit_native *native = &stream->native;
  kit_operation *operation = &place->operation;
  ++native->done;
  if (operation->ticket != 0) {
    native->end_ns = operation->end_ns;  // 0 when the port gives no times.
    if (operation->end_ns == 0 && operation->kept != 0) {
      // Handed over while the one before it ran, it began when that one was seen to have ended.
      if (operation->begin_ns < native->seen_ns) {
        operation->begin_ns = native->seen_ns;
      }
      operation->end_ns = native->seen_ns = kit_device_now(stream->object.device);
    }
  } else if (operation->kind == KIT_RECORD && native->end_ns != 0) {
    operation->end_ns = operation->begin_ns > native->end_ns ? operation->begin_ns : native->end_ns;
  }
  kit_finish_operation(stream, place, status, failed_id, text);
  kit_queue_leave(stream);
}

// Hands one operation on; false when it has to wait.
static bool send_one(kit_stream *stream) {
  struct kit_native *native = &stream->native;
  kit_place *place = kit_queue_at(stream, &native->sender, native->sent, false);
  kit_operation *operation = &place->operation;
  bool first = native->done == native->sent;  // All earlier operations have finished.
  if (atomic_load(&stream->failed) != HAL_OK) {
    ++native->sent;  // Skipped.
    return true;
  }
  if (operation->kind == KIT_WAIT && operation->point != NULL) {
    kit_point *point = operation->point;
    if (atomic_load(&point->done) == 0 || (point->status != HAL_OK && !first)) {
      return false;
    }
    if (point->status != HAL_OK) {
      ++native->sent;
      finish(stream, place, point->status,
             point->operation_id != 0 ? point->operation_id : operation->id,
             point->text == NULL ? "" : point->text);
      return true;
    }
  } else if (operation->kind == KIT_HOST_CALL) {
    if (!first) {
      return false;
    }
    operation->function(operation->user);
  } else if (runs_on_queue(operation)) {
    if (operation->kind != KIT_LAUNCH && native->risk > native->done) {
      return false;  // A kernel before it may fault, and then it must not run. Kernels ask the
                     // state.
    }
    if (operation->kept != 0) {
      operation->begin_ns = kit_device_now(stream->object.device);
    }
    int32_t status = kit_the_port()->hooks.submit(stream->object.device, native->queue, operation);
    if (status != HAL_OK) {
      if (!first || status == HAL_NOT_READY) {
        return false;  // Tried again; a failure, when its turn to fail has come.
      }
      ++native->sent;
      finish(stream, place, status, operation->id, kit_error_text());
      return true;
    }
    operation->ticket = ++native->submitted;
    if (operation->kind == KIT_LAUNCH && kit_source_can_fault(operation)) {
      native->risk = native->sent + 1;
    }
  }
  ++native->sent;
  if (operation->kind == KIT_RECORD && operation->kept != 0) {
    operation->begin_ns = kit_device_now(stream->object.device);
  }
  return true;
}

// Counts operations that have finished; true when there was one.
static bool finish_some(kit_stream *stream) {
  struct kit_native *native = &stream->native;
  const kit_hooks *hooks = &kit_the_port()->hooks;
  uint64_t finished = 0;
  int32_t status = HAL_OK;
  bool asked = false;
  bool moved = false;
  while (native->done < native->sent) {
    kit_place *place = kit_queue_at(stream, &stream->reader, native->done, true);
    kit_operation *operation = &place->operation;
    int32_t mine = HAL_OK;
    if (operation->ticket != 0 && hooks->finished != NULL) {
      mine = hooks->finished(stream->object.device, native->queue, operation);
      if (mine > 0) {
        break;
      }
    } else if (operation->ticket != 0 && atomic_load(&stream->failed) == HAL_OK) {
      if (!asked) {
        status = hooks->poll(stream->object.device, native->queue, &finished);
        asked = true;
      }
      if (operation->ticket > finished) {
        if (status >= 0) {
          break;
        }
        mine = status;
      }
    }
    finish(stream, place, mine, operation->id, mine < 0 ? kit_error_text() : "");
    moved = true;
  }
  return moved;
}

void kit_native_pump(kit_stream *stream) {
  struct kit_native *native = &stream->native;
  if (!native->is_open || atomic_exchange(&native->pumping, true)) {
    return;  // Another thread pumps.
  }
  hal_error saved;
  kit_error_save(&saved);
  bool moved = true;
  while (moved) {
    moved = finish_some(stream);
    while (native->sent < atomic_load(&stream->head) && send_one(stream)) {
      moved = true;
    }
  }
  bool drained = atomic_load(&stream->closing) && native->done == atomic_load(&stream->head);
  kit_error_restore(&saved);
  atomic_store(&native->pumping, false);
  if (drained) {
    kit_stream_unlist(stream);
  }
}

static void pump_device(kit_object *object) {
  kit_device_each_stream((kit_device *)object, kit_native_pump);
}

void kit_native_pump_all(void) {
  kit_handles_each(NULL, pump_device);
}

bool kit_wait_pumping(bool (*ready)(void *context), void *context, const void *key,
                      uint64_t deadline_ns) {
  if (!kit_is_native()) {
    return kit_wait(ready, context, key, deadline_ns);
  }
  for (long pause_ns = 1000;; pause_ns = pause_ns < 100000 ? pause_ns * 2 : pause_ns) {
    kit_native_pump_all();
    if (ready(context)) {
      return true;
    }
    if (deadline_ns == 0 || (deadline_ns != KIT_FOREVER && kit_monotonic_ns() >= deadline_ns)) {
      return false;
    }
    struct timespec shortly = {0, pause_ns};
    nanosleep(&shortly, NULL);
  }
}
