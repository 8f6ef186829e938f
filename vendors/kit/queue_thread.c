// The executor for runtimes without queues: one thread a stream does its operations in order.
//
// Waking a thread costs more than a small kernel. So a stream's thread that was busy shortly before
// naps and looks by itself; it is woken only from a deep sleep, or when somebody waits. And a host
// thread that waits for a stream without a time-out does the operations itself where it can.
// `claimed` says who takes operations off the queue; it passes from hand to hand, so their order
// stays.
#include "kit_state.h"

enum { NAP_NS = 50000, LONG_NAP_NS = 1600000, NAPS_NS = 10000000 };  // Then it sleeps deep.

static _Atomic long nappers;

// Whether work lies there that no waiting thread is at.
static bool lies(kit_stream *stream) {
  return atomic_load(&stream->left) != atomic_load(&stream->head) && !atomic_load(&stream->claimed);
}

static bool has_work(void *context) {
  return lies(context) || atomic_load(&((kit_stream *)context)->closing);
}

static bool claim(kit_stream *stream) {
  return !atomic_exchange(&stream->claimed, true);
}

static bool is_called(void *context) {
  kit_stream *stream = context;
  return atomic_load(&stream->called) || atomic_load(&stream->closing);
}

// Naps until there is work for this thread. Where waiting threads do the work (`helped`), it leaves
// them fresh work, and takes what lies there for a whole nap or what somebody calls for. While they
// leave nothing it naps longer and longer: each time that it looks takes a processor from them.
static bool nap(kit_stream *stream, bool helped) {
  uint64_t length_ns = NAP_NS, lay = UINT64_MAX;
  for (uint64_t napped_ns = 0; napped_ns < NAPS_NS; napped_ns += length_ns) {
    if (kit_sleep(helped ? is_called : has_work, stream, &stream->head,
                  kit_monotonic_ns() + length_ns)) {
      return true;
    }
    uint64_t left = atomic_load(&stream->left);
    bool has_fresh = lies(stream);
    if (has_fresh && left == lay) {
      return true;
    }
    lay = has_fresh ? left : UINT64_MAX;
    if (atomic_exchange(&stream->helped, false)) {
      helped = true;
      napped_ns = 0;
    }
    if (has_fresh) {
      length_ns = NAP_NS;
    } else if (helped && length_ns < LONG_NAP_NS) {
      length_ns *= 2;
    }
  }
  return has_work(stream);
}

static bool is_woken(void *context) {
  return has_work(context) || !atomic_load(&((kit_stream *)context)->deep);
}

static void await_work(kit_stream *stream, bool was_busy, bool helped) {
  helped = atomic_exchange(&stream->helped, false) || helped;
  if (was_busy && !helped && kit_spin(has_work, stream)) {
    return;
  }
  bool found = false;
  if (atomic_fetch_add(&nappers, 1) < 2 * kit_processors() && was_busy) {
    found = nap(stream, helped);
  }
  atomic_fetch_sub(&nappers, 1);
  if (!found) {
    atomic_store(&stream->deep, true);
    kit_sleep(is_woken, stream, &stream->head, KIT_FOREVER);
    atomic_store(&stream->deep, false);
  }
}

static bool is_unclaimed(void *context) {
  return !atomic_load(&((kit_stream *)context)->claimed);
}

// Does operations until the queue is empty; false when a waiting host thread works here.
static bool run_queue(kit_stream *stream) {
  if (!claim(stream)) {
    kit_sleep(is_unclaimed, stream, &stream->claimed, kit_monotonic_ns() + NAP_NS);
    return false;
  }
  uint64_t place = atomic_load(&stream->left);
  do {
    for (; place != atomic_load(&stream->head); ++place) {
      kit_execute(stream, kit_queue_at(stream, &stream->reader, place, true));
      kit_queue_leave(stream);
    }
    atomic_store(&stream->called, false);
  } while (place != atomic_load(&stream->head));
  atomic_store(&stream->claimed, false);
  kit_wake(&stream->claimed);
  return true;
}

static void *run_stream(void *argument) {
  kit_stream *stream = argument;
  kit_device *device = stream->object.device;
  kit_retain(device);  // The count of threads lives in it.
  for (bool was_busy = false, helped = false;; was_busy = true) {
    await_work(stream, was_busy, helped);
    helped = !run_queue(stream);
    if (atomic_load(&stream->closing) && atomic_load(&stream->left) == atomic_load(&stream->head)) {
      break;
    }
  }
  kit_stream_unlist(stream);
  kit_release(stream);
  atomic_fetch_sub(&device->workers, 1);
  kit_wake(&device->workers);
  kit_release(device);
  return NULL;
}

int32_t kit_thread_start(kit_stream *stream) {
  kit_device *device = stream->object.device;
  pthread_attr_t attributes;
  pthread_t thread;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, 1u << 20);
  atomic_fetch_add(&device->workers, 1);
  kit_retain(stream);
  int failed = pthread_create(&thread, &attributes, run_stream, stream);
  pthread_attr_destroy(&attributes);
  if (failed != 0) {
    atomic_fetch_sub(&device->workers, 1);
    kit_release(stream);
    return kit_fail(HAL_ERROR_OUT_OF_MEMORY, "the system has no thread for a stream");
  }
  return HAL_OK;
}

void kit_thread_notify(kit_stream *stream) {
  if (atomic_load(&stream->deep) && atomic_exchange(&stream->deep, false)) {
    kit_wake(&stream->head);
  }
}

// Whether a thread that waits may do the operation: host calls belong to the port's own threads,
// and a wait could outlast the caller's patience.
static bool may_help(const kit_operation *operation) {
  return operation->kind != KIT_HOST_CALL &&
         (operation->kind != KIT_WAIT || operation->point == NULL ||
          atomic_load(&operation->point->done) != 0);
}

void kit_thread_help(kit_stream *stream, uint64_t id, uint64_t deadline_ns) {
  if (kit_is_native() || atomic_load(&stream->completed) >= id) {
    return;
  }
  if (deadline_ns == KIT_FOREVER && !claim(stream)) {
    atomic_store(&stream->helped, true);  // It would have been.
  } else if (deadline_ns == KIT_FOREVER) {
    hal_error saved;
    kit_error_save(&saved);  // Failures here are the stream's.
    uint64_t place = atomic_load(&stream->left);
    while (place != atomic_load(&stream->head) && atomic_load(&stream->completed) < id) {
      kit_place *next = kit_queue_at(stream, &stream->reader, place, true);
      if (!may_help(&next->operation)) {
        break;
      }
      kit_execute(stream, next);
      kit_queue_leave(stream);
      atomic_store(&stream->helped, true);
      ++place;
    }
    kit_error_restore(&saved);
    atomic_store(&stream->claimed, false);
    kit_wake(&stream->claimed);
  }
  if (atomic_load(&stream->left) != atomic_load(&stream->head)) {
    kit_queue_call(stream);
  }
}

void kit_thread_help_point(const kit_point *point, uint64_t deadline_ns) {
  if (kit_is_native() || point->stream == 0 || atomic_load(&point->done) != 0) {
    return;
  }
  hal_error saved;
  kit_error_save(&saved);
  kit_stream *stream = kit_acquire(point->stream, KIT_KIND_STREAM);
  if (stream != NULL) {
    kit_thread_help(stream, point->place_id, deadline_ns);
    kit_release(stream);
  }
  kit_error_restore(&saved);
}
