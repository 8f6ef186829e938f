// Enqueueing: a place for an operation, and the executor that is told of it.
#include <stdlib.h>
#include <string.h>

#include "kit_state.h"

// The next place to write, in a new chunk when the last one is full. NULL without memory.
static kit_place *next_place(kit_stream *stream) {
  if (stream->writer.number < stream->written / KIT_CHUNK_PLACES) {
    kit_chunk *chunk = atomic_exchange(&stream->spare, NULL);
    if (chunk == NULL) {
      chunk = calloc(1, sizeof(*chunk));
    }
    if (chunk == NULL) {
      return NULL;
    }
    atomic_store(&chunk->next, NULL);
    atomic_store_explicit(&stream->writer.chunk->next, chunk, memory_order_release);
    stream->writer.chunk = chunk;
    ++stream->writer.number;
  }
  return &stream->writer.chunk->places[stream->written % KIT_CHUNK_PLACES];
}

static bool has_room(void *context) {
  kit_stream *stream = context;
  return stream->written - atomic_load(&stream->left) < KIT_QUEUE_LIMIT;
}

// Back-pressure: waits while the queue is full, but not for ever when nothing moves.
static bool wait_for_room(kit_stream *stream) {
  for (uint64_t left = UINT64_MAX; !has_room(stream);) {
    uint64_t now = atomic_load(&stream->left);
    if (now == left) {
      return false;
    }
    left = now;
    kit_queue_call(stream);
    kit_wait_pumping(has_room, stream, &stream->left, kit_monotonic_ns() + 10000000000u);
  }
  return true;
}

int32_t kit_enqueue_begin(kit_stream *stream, bool direct, kit_place **out_place) {
  pthread_mutex_lock(&stream->lock);
  int32_t status = kit_stream_sticky(stream);
  kit_place *place = NULL;
  if (status == HAL_OK) {
    if (direct && !kit_is_native() && kit_stream_is_idle(stream)) {
      place = &stream->direct;
    } else if (!wait_for_room(stream)) {
      status = kit_fail(HAL_ERROR_OUT_OF_MEMORY,
                        "the stream holds %u operations and none has finished for 10 s",
                        (unsigned)KIT_QUEUE_LIMIT);
    } else if ((place = next_place(stream)) == NULL) {
      status = kit_fail(HAL_ERROR_OUT_OF_MEMORY, "no host memory for the stream's queue");
    }
  }
  if (status == HAL_OK && place != &stream->direct && !kit_is_native() && !stream->has_thread) {
    status = kit_thread_start(stream);
    stream->has_thread = status == HAL_OK;
  }
  if (status != HAL_OK) {
    pthread_mutex_unlock(&stream->lock);
    return status;
  }
  memset(&place->operation, 0, sizeof(place->operation));
  *out_place = place;
  return HAL_OK;
}

void kit_enqueue_cancel(kit_stream *stream, kit_place *place) {
  kit_place_drop(place);
  if (place->operation.point != NULL) {
    kit_point_release(place->operation.point);
  }
  pthread_mutex_unlock(&stream->lock);
}

int32_t kit_enqueue_end(kit_stream *stream, kit_place *place) {
  kit_device *device = stream->object.device;
  kit_operation *operation = &place->operation;
  uint32_t kind = kit_profile_kind(operation->kind);
  uint32_t mask = atomic_load_explicit(&device->profile.mask, memory_order_acquire);
  if (kind != 0 && (mask >> (kind - 1) & 1) != 0) {
    operation->kept |= KIT_KEEP_PROFILE;
  }
  operation->id = atomic_load_explicit(&stream->enqueued, memory_order_relaxed) + 1;
  operation->ready_ns = atomic_load_explicit(&device->seen_ns, memory_order_relaxed);
  if (operation->kind == KIT_RECORD) {
    operation->point->place_id = operation->id;
  }
  kit_clock_enqueue(stream, operation);
  atomic_store(&stream->enqueued, operation->id);
  if (place == &stream->direct) {
    hal_error saved;
    kit_error_save(&saved);  // A failure here is the stream's, not this call's.
    kit_execute(stream, place);
    kit_error_restore(&saved);
    pthread_mutex_unlock(&stream->lock);
    return HAL_OK;
  }
  atomic_store(&stream->head, ++stream->written);
  pthread_mutex_unlock(&stream->lock);
  if (kit_is_native()) {
    kit_native_pump(stream);
  } else {
    kit_thread_notify(stream);
  }
  return HAL_OK;
}
