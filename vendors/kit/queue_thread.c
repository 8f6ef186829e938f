// The executor for runtimes without queues: one thread a stream does its operations in order.
#include "kit_state.h"

static bool has_work(void *context) {
  kit_stream *stream = context;
  return atomic_load(&stream->head) != atomic_load_explicit(&stream->left, memory_order_relaxed) ||
         atomic_load(&stream->closing);
}

static void *run_stream(void *argument) {
  kit_stream *stream = argument;
  kit_device *device = stream->object.device;
  kit_retain(device);  // The count of threads lives in it.
  for (uint64_t place = 0;;) {
    kit_wait(has_work, stream, &stream->head, KIT_FOREVER);
    uint64_t head = atomic_load(&stream->head);
    if (place == head) {
      break;  // Closing, and all work is done.
    }
    for (; place != head; ++place) {
      kit_execute(stream, kit_queue_at(stream, &stream->reader, place, true));
      kit_queue_leave(stream);
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
