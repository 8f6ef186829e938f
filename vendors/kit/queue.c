// A stream's queue: places, enqueue, and the end of an operation. Both executors stand on it.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit_state.h"

static void free_chunk(kit_chunk *chunk) {
  for (int i = 0; chunk != NULL && i < KIT_CHUNK_PLACES; ++i) {
    free(chunk->places[i].block);
  }
  free(chunk);
}

int32_t kit_queue_create(kit_stream *stream) {
  kit_chunk *chunk = calloc(1, sizeof(*chunk));
  stream->writer.chunk = stream->reader.chunk = stream->native.sender.chunk = chunk;
  return chunk == NULL ? HAL_ERROR_OUT_OF_MEMORY : HAL_OK;
}

void kit_queue_free(kit_stream *stream) {
  free_chunk(atomic_load(&stream->spare));
  for (kit_chunk *chunk = stream->reader.chunk; chunk != NULL;) {
    kit_chunk *next = atomic_load(&chunk->next);
    free_chunk(chunk);
    chunk = next;
  }
  free(stream->direct.block);
}

kit_place *kit_queue_at(kit_stream *stream, kit_cursor *cursor, uint64_t number, bool recycle) {
  while (cursor->number < number / KIT_CHUNK_PLACES) {
    kit_chunk *old = cursor->chunk;
    cursor->chunk = atomic_load_explicit(&old->next, memory_order_acquire);
    ++cursor->number;
    if (recycle) {
      free_chunk(atomic_exchange(&stream->spare, old));
    }
  }
  return &cursor->chunk->places[number % KIT_CHUNK_PLACES];
}

void kit_queue_leave(kit_stream *stream) {
  atomic_fetch_add(&stream->left, 1);
  kit_wake(&stream->left);
}

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
    kit_thread_call(stream);
    kit_wait_pumping(has_room, stream, &stream->left, kit_monotonic_ns() + 10000000000u);
  }
  return true;
}

int32_t kit_stream_sticky(kit_stream *stream) {
  if (atomic_load(&stream->object.device->lost)) {
    return kit_fail(HAL_ERROR_DEVICE_LOST, "the device is lost");
  }
  int32_t failed = atomic_load_explicit(&stream->failed, memory_order_acquire);
  return failed == HAL_OK ? HAL_OK
                          : kit_fail_operation(failed, stream->failed_id, stream->failed_text);
}

bool kit_stream_is_idle(kit_stream *stream) {
  return atomic_load(&stream->completed) == atomic_load(&stream->enqueued);
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

void *kit_place_block(kit_place *place, uint64_t bytes) {
  if (place->block_bytes < bytes) {
    free(place->block);
    uint64_t rounded = (bytes + 255) & ~UINT64_C(255);
    place->block = aligned_alloc(64, rounded);
    place->block_bytes = place->block == NULL ? 0 : rounded;
  }
  return place->block;
}

// Drops references and staged bytes of an operation.
static void drop_holdings(kit_place *place) {
  kit_operation *operation = &place->operation;
  kit_range_drop(&operation->target);
  kit_range_drop(&operation->source);
  for (uint32_t i = 0; i < operation->use_count; ++i) {
    kit_release(operation->uses[i].memory);
  }
  operation->use_count = 0;
  if (operation->kernel != NULL) {
    kit_release(operation->kernel);
    operation->kernel = NULL;
  }
  free(operation->owned);
  operation->owned = NULL;
  if (place->block_bytes > 65536) {
    free(place->block);
    place->block = NULL;
    place->block_bytes = 0;
  }
}

void kit_enqueue_cancel(kit_stream *stream, kit_place *place) {
  drop_holdings(place);
  if (place->operation.point != NULL) {
    kit_point_release(place->operation.point);
  }
  pthread_mutex_unlock(&stream->lock);
}

static uint32_t profile_kind(uint32_t kind) {
  switch (kind) {
    case KIT_LAUNCH:
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

int32_t kit_enqueue_end(kit_stream *stream, kit_place *place) {
  kit_device *device = stream->object.device;
  kit_operation *operation = &place->operation;
  uint32_t kind = profile_kind(operation->kind);
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

static void fail_stream(kit_stream *stream, int32_t status, uint64_t failed_id, const char *text) {
  snprintf(stream->failed_text, sizeof(stream->failed_text), "%s", text);
  stream->failed_id = failed_id;
  stream->failed_at_ns = atomic_load(&stream->now_ns);
  atomic_store_explicit(&stream->failed, status, memory_order_release);
  if (status == HAL_ERROR_DEVICE_LOST) {
    atomic_store(&stream->object.device->lost, true);
  }
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
    kit_profile_keep(stream->object.device, stream->object.handle, profile_kind(operation->kind),
                     operation);
  }
  if (point != NULL) {
    kit_point_complete(point, failed, stream->failed_id,
                       failed == HAL_OK ? "" : stream->failed_text, operation->end_ns);
  }
  drop_holdings(place);
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
      kit_thread_help_point(point, 0);  // Wakes the thread whose work is waited for.
      kit_wait(is_done, point, point, KIT_FOREVER);
      status = point->status;
      failed_id = point->operation_id != 0 ? point->operation_id : operation->id;
      text = point->text == NULL ? "" : point->text;
      if (operation->ready_ns < point->stamp_ns) {
        operation->ready_ns = point->stamp_ns;
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
