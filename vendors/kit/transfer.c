// Interface 4: copies and fills in stream order.
#include <stdlib.h>
#include <string.h>

#include "kit_state.h"

// Operations of at most this many bytes run on the caller's thread when the stream is idle: that is
// faster than waking the stream's thread.
enum { DIRECT_BYTES = 1 << 20 };

// The source of a copy without BORROW is finished with at return: on an idle stream the copy runs
// at once, else the bytes are staged.
static int32_t stage(kit_place *place, const hal_copy_desc *desc, bool runs_now) {
  kit_operation *operation = &place->operation;
  operation->host_source = desc->host_source;
  if (runs_now || (desc->flags & HAL_COPY_FLAG_BORROW) != 0 || desc->target.bytes == 0) {
    return HAL_OK;
  }
  operation->owned = malloc(desc->target.bytes);
  if (operation->owned == NULL) {
    return kit_fail(HAL_ERROR_OUT_OF_MEMORY, "the host has no room to stage %llu bytes",
                    (unsigned long long)desc->target.bytes);
  }
  memcpy(operation->owned, desc->host_source, desc->target.bytes);
  operation->host_source = operation->owned;
  return HAL_OK;
}

static int32_t take_ranges(const hal_copy_desc *desc, const kit_device *device, kit_range *source,
                           kit_range *target) {
  int32_t status = HAL_OK;
  if (desc->kind != HAL_COPY_HOST_TO_DEVICE) {
    status = kit_range_take(&desc->source, device, "copy source", source);
  }
  if (status == HAL_OK && desc->kind != HAL_COPY_DEVICE_TO_HOST) {
    status = kit_range_take(&desc->target, device, "copy target", target);
  }
  return status;
}

static int32_t copy(kit_stream *stream, const hal_copy_desc *desc) {
  kit_range source = {0};
  kit_range target = {0};
  int32_t status = take_ranges(desc, stream->object.device, &source, &target);
  bool staged = desc->kind == HAL_COPY_HOST_TO_DEVICE && (desc->flags & HAL_COPY_FLAG_BORROW) == 0;
  uint64_t bytes = desc->kind == HAL_COPY_HOST_TO_DEVICE ? target.bytes : source.bytes;
  kit_place *place = NULL;
  if (status == HAL_OK) {
    status = kit_enqueue_begin(stream, staged || bytes <= DIRECT_BYTES, &place);
  }
  if (status != HAL_OK) {
    kit_range_drop(&source);
    kit_range_drop(&target);
    return status;
  }
  kit_operation *operation = &place->operation;
  operation->kind = desc->kind == HAL_COPY_HOST_TO_DEVICE   ? KIT_COPY_TO_DEVICE
                    : desc->kind == HAL_COPY_DEVICE_TO_HOST ? KIT_COPY_TO_HOST
                                                            : KIT_COPY_ON_DEVICE;
  operation->source = source;
  operation->target = target;
  operation->host_target = desc->host_target;
  if (desc->kind == HAL_COPY_HOST_TO_DEVICE) {
    status = stage(place, desc, place == &stream->direct);
  }
  if (status != HAL_OK) {
    kit_enqueue_cancel(stream, place);
    return status;
  }
  return kit_enqueue_end(stream, place);
}

int32_t kit_transfer_copy(hal_stream handle, const hal_copy_desc *desc) {
  kit_stream *stream = kit_acquire(handle, KIT_KIND_STREAM);
  if (stream == NULL) {
    return HAL_ERROR_INVALID_HANDLE;
  }
  int32_t status = copy(stream, desc);
  kit_release(stream);
  return status;
}

int32_t kit_transfer_fill(hal_stream handle, const hal_memory_ref *target, const void *pattern,
                          uint32_t pattern_bytes) {
  kit_stream *stream = kit_acquire(handle, KIT_KIND_STREAM);
  if (stream == NULL) {
    return HAL_ERROR_INVALID_HANDLE;
  }
  kit_range range = {0};
  kit_place *place = NULL;
  int32_t status = kit_range_take(target, stream->object.device, "fill target", &range);
  if (status == HAL_OK) {
    status = kit_enqueue_begin(stream, target->bytes <= DIRECT_BYTES, &place);
  }
  if (status == HAL_OK) {
    place->operation.kind = KIT_FILL;
    place->operation.target = range;
    place->operation.pattern_bytes = pattern_bytes;
    memcpy(place->operation.pattern, pattern, pattern_bytes <= 8 ? pattern_bytes : 8);
    status = kit_enqueue_end(stream, place);
  } else {
    kit_range_drop(&range);
  }
  kit_release(stream);
  return status;
}

static int32_t copy_peer(kit_stream *stream, const hal_memory_ref *source,
                         const hal_memory_ref *target) {
  kit_range from = {0};
  kit_range to = {0};
  kit_place *place = NULL;
  int32_t status = kit_range_take(source, NULL, "copy source", &from);
  if (status == HAL_OK) {
    status = kit_range_take(target, NULL, "copy target", &to);
  }
  if (status == HAL_OK && from.memory->object.device != stream->object.device &&
      to.memory->object.device != stream->object.device) {
    status = kit_fail(HAL_ERROR_INVALID_HANDLE, "the stream belongs to neither of the two devices");
  }
  if (status == HAL_OK) {
    status = kit_enqueue_begin(stream, source->bytes <= DIRECT_BYTES, &place);
  }
  if (status != HAL_OK) {
    kit_range_drop(&from);
    kit_range_drop(&to);
    return status;
  }
  place->operation.kind = KIT_COPY_PEER;
  place->operation.source = from;
  place->operation.target = to;
  return kit_enqueue_end(stream, place);
}

int32_t kit_transfer_copy_peer(hal_stream handle, const hal_memory_ref *source,
                               const hal_memory_ref *target) {
  kit_stream *stream = kit_acquire(handle, KIT_KIND_STREAM);
  if (stream == NULL) {
    return HAL_ERROR_INVALID_HANDLE;
  }
  int32_t status = copy_peer(stream, source, target);
  kit_release(stream);
  return status;
}
