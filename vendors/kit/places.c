// The places of a stream's queue: who writes them, who reads them, what they hold.
#include <stdlib.h>

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

void kit_queue_call(kit_stream *stream) {
  atomic_store(&stream->called, true);
  kit_wake(&stream->head);
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
void kit_place_drop(kit_place *place) {
  kit_operation *operation = &place->operation;
  kit_range_drop(&operation->target);
  kit_range_drop(&operation->source);
  for (uint32_t i = 0; i < operation->use_count; ++i) {
    kit_release(operation->uses[i].memory);
  }
  operation->use_count = 0;
  if (operation->part != NULL) {
    kit_part_leave(operation->part);
    operation->part = NULL;
  }
  if (operation->kernel != NULL) {
    kit_release(operation->kernel);
    operation->kernel = NULL;
  }
  free(operation->owned);
  free(operation->port_data);
  operation->owned = operation->port_data = NULL;
  if (place->block_bytes > 65536) {
    free(place->block);
    place->block = NULL;
    place->block_bytes = 0;
  }
}

int32_t kit_stream_sticky(kit_stream *stream) {
  int32_t failed = atomic_load_explicit(&stream->failed, memory_order_acquire);
  if (failed != HAL_ERROR_DEVICE_LOST && atomic_load(&stream->object.device->lost)) {
    return kit_device_check(stream->object.device);
  }
  return failed == HAL_OK ? HAL_OK
                          : kit_fail_operation(failed, stream->failed_id, stream->failed_text);
}

bool kit_stream_is_idle(kit_stream *stream) {
  return atomic_load(&stream->completed) == atomic_load(&stream->enqueued);
}
