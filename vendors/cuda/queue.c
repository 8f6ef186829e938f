// Streams: operations are started on a CUDA stream, and a mark behind each tells when it has ended.
#include <stdlib.h>
#include <string.h>

#include "cuda.h"

enum { STATES = 8, ANCHOR_NS = 2000000000 };

// What stands behind an operation in its stream. Marks are used again.
struct cuda_mark {
  cuda_mark *next;
  CUevent begin, end;
  CUdeviceptr temporary;  // Given back with the mark; 0: none.
  int32_t *states;        // Pinned: what `state` held behind the steps that can fault.
  uint32_t state_count, steps[STATES];
};

// ---- Queues ----

static void free_mark(cuda_mark *mark) {
  if (mark->begin != NULL) cu.EventDestroy(mark->begin);
  if (mark->end != NULL) cu.EventDestroy(mark->end);
  if (mark->states != NULL) cu.MemFreeHost(mark->states);
  free(mark);
}

static cuda_mark *take_mark(cuda_queue *queue) {
  cuda_mark *mark = queue->free;
  if (mark != NULL) {
    queue->free = mark->next;
  } else if ((mark = calloc(1, sizeof(*mark))) != NULL &&
             (cu.EventCreate(&mark->begin, 0) != 0 || cu.EventCreate(&mark->end, 0) != 0)) {
    free_mark(mark);
    mark = NULL;
  }
  if (mark != NULL) {
    mark->temporary = 0;
    mark->state_count = 0;
  }
  return mark;
}

static void drop_mark(cuda_queue *queue, cuda_mark *mark) {
  if (mark->temporary != 0) cu.MemFree(mark->temporary);
  mark->next = queue->free;
  queue->free = mark;
}

static int32_t fill_queue(cuda_chip *chip, cuda_queue *queue) {
  int32_t status = HAL_OK;
  if (queue->is_ours) {
    status =
        cuda_check(cu.StreamCreate(&queue->stream, CUDA_STREAM_NON_BLOCKING), "cuStreamCreate");
  }
  if (status == HAL_OK) status = cuda_check(cu.MemAlloc(&queue->state, 8), "cuMemAlloc");
  if (status == HAL_OK) status = cuda_check(cu.EventCreate(&queue->anchor, 0), "cuEventCreate");
  if (status == HAL_OK) {
    status = cuda_check(cu.Set32(queue->state, 0, 2, chip->service), "cuMemsetD32Async");
  }
  if (status == HAL_OK) {
    status = cuda_check(cu.EventRecord(queue->anchor, chip->service), "cuEventRecord");
  }
  if (status == HAL_OK) {
    status = cuda_check(cu.EventSynchronize(queue->anchor), "cuEventSynchronize");
  }
  queue->anchor_ns = kit_monotonic_ns();
  return status;
}

static void free_queue(cuda_queue *queue) {
  while (queue->free != NULL) {
    cuda_mark *mark = queue->free;
    queue->free = mark->next;
    free_mark(mark);
  }
  cuda_blas_stop(queue);
  if (queue->anchor != NULL) cu.EventDestroy(queue->anchor);
  if (queue->state != 0) cu.MemFree(queue->state);
  if (queue->is_ours && queue->stream != NULL) cu.StreamDestroy(queue->stream);
}

int32_t cuda_queue_open(kit_device *device, uint64_t *handle) {
  cuda_queue *queue = calloc(1, sizeof(*queue));
  if (queue == NULL) return kit_fail(HAL_ERROR_OUT_OF_MEMORY, "no host memory for a stream");
  cuda_chip *chip = cuda_chip_of(device);
  queue->stream = (CUstream)(uintptr_t)*handle;
  queue->is_ours = *handle == 0;
  int32_t status = cuda_enter(chip);
  if (status == HAL_OK) {
    status = fill_queue(chip, queue);
    if (status != HAL_OK) free_queue(queue);
    cuda_leave();
  }
  if (status != HAL_OK) {
    free(queue);
    return status;
  }
  *handle = (uint64_t)(uintptr_t)queue;
  return HAL_OK;
}

void cuda_queue_close(kit_device *device, uint64_t handle) {
  cuda_queue *queue = (cuda_queue *)(uintptr_t)handle;
  if (cuda_enter(cuda_chip_of(device)) == HAL_OK) {
    free_queue(queue);
    cuda_leave();
  }
  free(queue);
}

// ---- Copies and fills ----

static CUdeviceptr address_of(const kit_range *range) {
  return kit_memory_allocation(range->memory)->native + range->offset_bytes;
}

static int32_t copy_on_device(cuda_queue *queue, const kit_operation *operation, cuda_mark *mark) {
  CUdeviceptr to = address_of(&operation->target), from = address_of(&operation->source);
  uint64_t bytes = operation->target.bytes, apart = to > from ? to - from : from - to;
  if (apart == 0) return HAL_OK;
  if (apart < bytes) {  // They overlap: through a third place.
    int32_t status = cuda_check(cu.MemAlloc(&mark->temporary, bytes), "cuMemAlloc");
    if (status == HAL_OK) {
      status = cuda_check(cu.CopyOnDevice(mark->temporary, from, bytes, queue->stream),
                          "cuMemcpyDtoDAsync");
    }
    if (status != HAL_OK) return status;
    from = mark->temporary;
  }
  return cuda_check(cu.CopyOnDevice(to, from, bytes, queue->stream), "cuMemcpyDtoDAsync");
}

static int32_t copy_peer(cuda_queue *queue, const kit_operation *operation) {
  cuda_chip *to = cuda_chip_of(kit_memory_device(operation->target.memory));
  cuda_chip *from = cuda_chip_of(kit_memory_device(operation->source.memory));
  cuda_chip *chips[] = {to, from};
  for (int i = 0; i < 2; ++i) {  // Both have a context.
    int32_t status = cuda_enter(chips[i]);
    if (status != HAL_OK) return status;
    cuda_leave();
  }
  return cuda_check(
      cu.CopyPeer(address_of(&operation->target), to->context, address_of(&operation->source),
                  from->context, operation->source.bytes, queue->stream),
      "cuMemcpyPeerAsync");
}

static int32_t fill(cuda_queue *queue, const kit_operation *operation) {
  CUdeviceptr to = address_of(&operation->target);
  uint32_t size = operation->pattern_bytes, words[2];
  uint64_t count = operation->target.bytes / size;
  memcpy(words, operation->pattern, 8);
  if (size == 1) {
    return cuda_check(cu.Set8(to, operation->pattern[0], count, queue->stream), "cuMemsetD8Async");
  }
  if (size >= 4 && to % 4 == 0) {  // In words, those of a pattern of 8 bytes one after the other.
    int32_t status = HAL_OK;
    for (uint32_t i = 0; i < size / 4 && status == HAL_OK; ++i) {
      status = size == 4
                   ? cuda_check(cu.Set32(to, words[0], count, queue->stream), "cuMemsetD32Async")
                   : cuda_check(cu.SetRows32(to + 4 * i, 8, words[i], 1, count, queue->stream),
                                "cuMemsetD2D32Async");
    }
    return status;
  }
  for (uint32_t i = 0; i < size; ++i) {  // Any address: each byte of the pattern as a column.
    int32_t status =
        cuda_check(cu.SetRows8(to + i, size, operation->pattern[i], 1, count, queue->stream),
                   "cuMemsetD2D8Async");
    if (status != HAL_OK) return status;
  }
  return HAL_OK;
}

// ---- Launches ----

// Has the state of a step that can fault read behind it.
static int32_t keep_state(cuda_queue *queue, cuda_mark *mark, uint32_t step) {
  if (mark->states == NULL) {
    int32_t status = cuda_check(
        cu.MemHostAlloc((void **)&mark->states, STATES * sizeof(int32_t), CUDA_HOST_PORTABLE),
        "cuMemHostAlloc");
    if (status != HAL_OK) return status;
  }
  uint32_t place = mark->state_count < STATES ? mark->state_count++ : STATES - 1;
  mark->steps[place] = step;
  return cuda_check(
      cu.CopyToHost(&mark->states[place], queue->state, sizeof(int32_t), queue->stream),
      "cuMemcpyDtoHAsync");
}

static int32_t launch_step(cuda_queue *queue, const kit_operation *operation, uint32_t step,
                           kit_source_call *call) {
  kit_source_bind(operation, step, call);
  if (call->groups == 0) return HAL_OK;
  void *arguments[KIT_SOURCE_ARGUMENTS + 1];
  for (uint32_t i = 0; i < call->argument_count; ++i) {
    kit_source_argument *argument = &call->arguments[i];
    if (argument->memory != NULL) argument->value = kit_memory_allocation(argument->memory)->native;
    arguments[i] = &argument->value;
  }
  arguments[call->argument_count] = &queue->state;
  const cuda_program *program = call->data;
  const cuda_function *function = &program->functions[call->program];
  uint32_t lanes = (call->lanes_worth + 31) / 32 * 32;
  lanes = lanes > function->lanes_max ? function->lanes_max : lanes;
  return cuda_check(cu.Launch(function->entry, (unsigned)call->grid[0], (unsigned)call->grid[1],
                              (unsigned)call->grid[2], lanes, 1, 1, function->near_bytes,
                              queue->stream, arguments, NULL),
                    "cuLaunchKernel");
}

static int32_t launch(cuda_queue *queue, const kit_operation *operation, cuda_mark *mark) {
  kit_source_call call;
  int32_t status = HAL_OK;
  for (uint32_t i = 0; status == HAL_OK && i < kit_source_steps(operation); ++i) {
    status = launch_step(queue, operation, i, &call);
    if (status == HAL_OK && call.groups != 0 && call.can_fault) {
      status = keep_state(queue, mark, i);
    }
  }
  return status;
}

// ---- Operations ----

static int32_t start(cuda_queue *queue, const kit_operation *operation, cuda_mark *mark) {
  switch (operation->kind) {
    case KIT_COPY_TO_DEVICE:
      return operation->target.bytes == 0
                 ? HAL_OK
                 : cuda_check(
                       cu.CopyToDevice(address_of(&operation->target), operation->host_source,
                                       operation->target.bytes, queue->stream),
                       "cuMemcpyHtoDAsync");
    case KIT_COPY_TO_HOST:
      return operation->source.bytes == 0
                 ? HAL_OK
                 : cuda_check(cu.CopyToHost(operation->host_target, address_of(&operation->source),
                                            operation->source.bytes, queue->stream),
                              "cuMemcpyDtoHAsync");
    case KIT_COPY_ON_DEVICE:
      return copy_on_device(queue, operation, mark);
    case KIT_COPY_PEER:
      return operation->source.bytes == 0 ? HAL_OK : copy_peer(queue, operation);
    case KIT_FILL:
      return operation->target.bytes == 0 ? HAL_OK : fill(queue, operation);
    case KIT_OPERATOR:
      return cuda_blas_run(queue, operation->launch);
    default:
      return launch(queue, operation, mark);
  }
}

static int32_t submit(cuda_queue *queue, kit_operation *operation) {
  cuda_mark **held = malloc(sizeof(*held));
  cuda_mark *mark = held == NULL ? NULL : take_mark(queue);
  if (mark == NULL) {
    free(held);
    return kit_fail(HAL_ERROR_OUT_OF_MEMORY, "no event is left for an operation");
  }
  int32_t status = HAL_OK;
  if (operation->begin_ns != 0) {  // Somebody wants to know.
    status = cuda_check(cu.EventRecord(mark->begin, queue->stream), "cuEventRecord");
  }
  if (status == HAL_OK) status = start(queue, operation, mark);
  if (status == HAL_OK) {
    status = cuda_check(cu.EventRecord(mark->end, queue->stream), "cuEventRecord");
  }
  if (status != HAL_OK) {
    drop_mark(queue, mark);
    free(held);
    return status;
  }
  *held = mark;
  operation->port_data = held;
  return HAL_OK;
}

int32_t cuda_submit(kit_device *device, uint64_t handle, kit_operation *operation) {
  int32_t status = cuda_enter(cuda_chip_of(device));
  if (status == HAL_OK) {
    status = submit((cuda_queue *)(uintptr_t)handle, operation);
    cuda_leave();
  }
  return status;
}

// The host's time of an event, by its distance from the anchor. The driver counts in floats of
// milliseconds: the anchor moves on before they are too coarse.
static uint64_t time_of(cuda_queue *queue, CUevent event, uint64_t least) {
  float ms = 0;
  uint64_t now = kit_monotonic_ns();
  if (cu.EventElapsed(&ms, queue->anchor, event) != 0) return now;
  double ns = (double)queue->anchor_ns + (double)ms * 1e6;
  uint64_t at = ns < (double)least ? least : (uint64_t)ns;
  return at > now ? now : at;
}

static void set_times(cuda_queue *queue, cuda_mark *mark, kit_operation *operation) {
  uint64_t last = queue->end_ns;
  if (operation->begin_ns != 0) operation->begin_ns = time_of(queue, mark->begin, last);
  operation->end_ns = queue->end_ns = time_of(queue, mark->end, last);
  if (queue->end_ns - queue->anchor_ns > ANCHOR_NS) {
    CUevent old = queue->anchor;
    queue->anchor = mark->end;
    queue->anchor_ns = queue->end_ns;
    mark->end = old;
  }
}

int32_t cuda_finished(kit_device *device, uint64_t handle, kit_operation *operation) {
  cuda_queue *queue = (cuda_queue *)(uintptr_t)handle;
  cuda_mark *mark = *(cuda_mark **)operation->port_data;
  int32_t status = cuda_enter(cuda_chip_of(device));
  if (status != HAL_OK) return status;
  CUresult result = cu.EventQuery(mark->end);
  if (result == CUDA_NOT_READY) {
    cuda_leave();
    return HAL_NOT_READY;
  }
  status = cuda_check(result, "the operation");
  for (uint32_t i = 0; i < mark->state_count && status == HAL_OK; ++i) {
    if (mark->states[i] != 0) status = kit_source_fault(operation, mark->steps[i], mark->states[i]);
  }
  if (result == 0) set_times(queue, mark, operation);
  drop_mark(queue, mark);
  cuda_leave();
  return status;
}
