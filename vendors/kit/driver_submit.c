// Ports of a driver: an operation as commands on a queue, and what became of it.
#include <stdlib.h>
#include <string.h>

#include "comm_state.h"

static const kit_allocation *memory_of(const kit_range *range) {
  return &range->memory->allocation;
}

static kit_span span_of(const kit_range *range) {
  return (kit_span){memory_of(range)->native, range->offset_bytes, range->bytes};
}

// The queue for the next command, whose event goes to a place: of the last one there.
static kit_queue *to_end(kit_lane *lane, kit_mark *mark) {
  lane->queue.event = NULL;
  if (kit_the_driver()->command_events) {
    if (mark->end != NULL) {
      kit_the_driver()->drop(mark->end);
    }
    mark->end = NULL;
    lane->queue.event = &mark->end;
  }
  return &lane->queue;
}

// ---- Copies and fills ----

// Where the bytes begin: an address, or an offset where there are none.
static uint64_t first_of(const kit_range *range) {
  return (uint64_t)(uintptr_t)memory_of(range)->pointer + range->offset_bytes;
}

static bool overlap(const kit_range *one, const kit_range *other) {
  if (memory_of(one)->native != memory_of(other)->native &&
      (memory_of(one)->pointer == NULL || memory_of(other)->pointer == NULL)) {
    return false;  // Two buffers without addresses.
  }
  uint64_t first = first_of(one), second = first_of(other);
  return first < second + other->bytes && second < first + one->bytes;
}

static int32_t copy_on_device(kit_lane *lane, const kit_operation *operation, kit_mark *mark) {
  const kit_driver *driver = kit_the_driver();
  const kit_range *source = &operation->source, *target = &operation->target;
  kit_span from = span_of(source), to = span_of(target);
  if (overlap(source, target)) {  // Through a third place.
    if (first_of(source) == first_of(target)) {
      return HAL_OK;
    }
    int32_t status = kit_driver_reserve(lane->found, from.bytes, lane->found->alignment_bytes,
                                        false, &mark->temporary);
    if (status != HAL_OK) {
      return status;
    }
    mark->has_temporary = true;
    kit_span between = {mark->temporary.native, 0, from.bytes};
    status = driver->copy(to_end(lane, mark), &from, &between);
    if (status != HAL_OK) {
      return status;
    }
    from = between;
  }
  return driver->copy(to_end(lane, mark), &from, &to);
}

static int32_t copy_peer(kit_lane *lane, const kit_operation *operation, kit_mark *mark) {
  const kit_range *ranges[] = {&operation->source, &operation->target};
  void *devices[2];
  for (int i = 0; i < 2; ++i) {  // Both have a context.
    const kit_found *found = kit_found_at(ranges[i]->memory->object.device->index);
    int32_t status = kit_driver_enter(found);
    if (status != HAL_OK) {
      return status;
    }
    kit_driver_leave();
    devices[i] = found->data;
  }
  kit_span from = span_of(ranges[0]), to = span_of(ranges[1]);
  return kit_the_driver()->copy_peer(to_end(lane, mark), devices[0], &from, devices[1], &to);
}

// A range off the pattern's own grid is filled in parts: bytes at its ends, and whole patterns,
// turned, between them.
static int32_t fill(kit_lane *lane, const kit_operation *operation, kit_mark *mark) {
  const kit_range *target = &operation->target;
  uint32_t length = operation->pattern_bytes;
  int32_t status = HAL_OK;
  for (uint64_t done = 0, part; done < target->bytes && status == HAL_OK; done += part) {
    uint64_t left = target->bytes - done;
    bool whole = (first_of(target) + done) % length == 0 && left >= length;
    uint8_t turned[8];
    for (uint32_t i = 0; i < length; ++i) {
      turned[i] = operation->pattern[(done + i) % length];
    }
    part = whole ? left / length * length : 1;
    kit_span to = {memory_of(target)->native, target->offset_bytes + done, part};
    status = kit_the_driver()->fill(to_end(lane, mark), &to, turned, whole ? length : 1);
  }
  return status;
}

// ---- Launches ----

static bool is_timed(const kit_lane *lane, const kit_operation *operation) {
  return operation->begin_ns != 0 && lane->anchor != NULL;  // Somebody wants to know.
}

static uint32_t lanes_of(const kit_function *function, uint32_t worth) {
  uint32_t step = function->lanes_step == 0 ? 1 : function->lanes_step;
  uint32_t most = function->lanes_max == 0 ? 1 : function->lanes_max;
  uint32_t wanted = (worth + step - 1) / step * step;
  return wanted < most ? wanted : most;
}

static int32_t call_function(kit_lane *lane, kit_source_call *source, kit_mark *mark) {
  kit_compiled *compiled = source->data;
  kit_call call;
  call.function = &compiled->functions[source->program];
  call.lanes = lanes_of(call.function, source->lanes_worth);
  call.argument_count = source->argument_count + 1;
  memcpy(call.grid, source->grid, sizeof(call.grid));
  for (uint32_t i = 0; i < source->argument_count; ++i) {
    kit_source_argument *argument = &source->arguments[i];
    if (argument->memory != NULL) {
      argument->value = argument->memory->allocation.native;
      argument->bytes = sizeof(void *);
    }
    call.values[i] = &argument->value;
    call.bytes[i] = argument->bytes;
  }
  call.values[source->argument_count] = &lane->state.native;
  call.bytes[source->argument_count] = sizeof(void *);
  pthread_mutex_lock(&compiled->lock);
  int32_t status = kit_the_driver()->launch(to_end(lane, mark), &call);
  pthread_mutex_unlock(&compiled->lock);
  return status;
}

static int32_t launch(kit_lane *lane, const kit_operation *operation, kit_mark *mark) {
  int32_t status = HAL_OK;
  for (uint32_t i = 0; status == HAL_OK && i < kit_source_steps(operation); ++i) {
    kit_source_call call;
    kit_source_bind(operation, i, &call);
    if (call.groups == 0) {
      continue;
    }
    status = call_function(lane, &call, mark);
    mark->has_work = call.can_fault && is_timed(lane, operation);
    if (status == HAL_OK && mark->has_work) {
      status = kit_the_driver()->mark(&lane->queue, &mark->work);
    }
    if (status == HAL_OK && call.can_fault) {
      kit_span state = {lane->state.native, 0, sizeof(int32_t)};
      mark->steps[mark->state_count] = i;
      status =
          kit_the_driver()->read(to_end(lane, mark), &state, &mark->states[mark->state_count++]);
    }
  }
  return status;
}

// ---- Operations ----

static int32_t start(kit_lane *lane, const kit_operation *operation, kit_mark *mark) {
  const kit_driver *driver = kit_the_driver();
  if (operation->kind == KIT_LAUNCH) {
    return launch(lane, operation, mark);
  }
  if (operation->kind == KIT_OPERATOR) {
    return driver->operate(to_end(lane, mark), operation->launch);
  }
  if (operation->kind == KIT_COLLECTIVE || operation->source.bytes + operation->target.bytes == 0) {
    return HAL_OK;  // Nothing, or on the queue already.
  }
  kit_span span;
  switch (operation->kind) {
    case KIT_COPY_TO_DEVICE:
      span = span_of(&operation->target);
      return driver->write(to_end(lane, mark), &span, operation->host_source);
    case KIT_COPY_TO_HOST:
      span = span_of(&operation->source);
      return driver->read(to_end(lane, mark), &span, operation->host_target);
    case KIT_COPY_ON_DEVICE:
      return copy_on_device(lane, operation, mark);
    case KIT_COPY_PEER:
      return copy_peer(lane, operation, mark);
    default:
      return fill(lane, operation, mark);
  }
}

static int32_t submit(kit_lane *lane, kit_operation *operation) {
  const kit_driver *driver = kit_the_driver();
  uint32_t steps = operation->kind == KIT_LAUNCH ? kit_source_steps(operation) : 0;
  kit_mark *mark = NULL;
  int32_t status = kit_mark_take(lane, steps, &mark);
  if (status != HAL_OK) {
    return status;
  }
  to_end(lane, mark);  // What an earlier operation has left there says nothing of this one.
  if (is_timed(lane, operation)) {
    status = driver->mark(&lane->queue, &mark->begin);
  }
  if (status == HAL_OK) {
    status = start(lane, operation, mark);
  }
  if (status == HAL_OK && (mark->end == NULL || !driver->command_events)) {
    status = driver->mark(&lane->queue, &mark->end);
  }
  if (status == HAL_OK && driver->flush != NULL) {
    status = driver->flush(&lane->queue);
  }
  if (status != HAL_OK) {
    hal_error saved;
    kit_error_save(&saved);
    driver->queue_finish(&lane->queue);  // Commands before the refused one may use the memory.
    kit_error_restore(&saved);
    kit_mark_drop(lane, mark);
    return status;
  }
  operation->port_data = mark;
  return HAL_OK;
}

int32_t kit_driver_submit(kit_device *device, uint64_t queue, kit_operation *operation) {
  if (operation->kind == KIT_COLLECTIVE) {
    int32_t status = kit_part_arrive(operation->part, &((kit_lane *)(uintptr_t)queue)->queue);
    if (status != HAL_OK) {
      return status;
    }
  }
  int32_t status = kit_driver_enter(kit_found_at(device->index));
  if (status == HAL_OK) {
    status = submit((kit_lane *)(uintptr_t)queue, operation);
    kit_driver_leave();
  }
  if (status < 0 && operation->kind == KIT_COLLECTIVE) {  // Nobody will ask for its end.
    status = kit_part_watch(operation->part, status);
  }
  return status;
}

static int32_t finished(kit_lane *lane, kit_operation *operation) {
  kit_mark *mark = operation->port_data;
  int32_t status = kit_the_driver()->ask(&lane->queue, mark->end);
  if (operation->kind == KIT_COLLECTIVE) {
    status = kit_part_watch(operation->part, status);
  }
  if (status > 0) {
    return status;
  }
  bool has_ended = status == HAL_OK;
  for (uint32_t i = 0; i < mark->state_count && status == HAL_OK; ++i) {
    if (mark->states[i] != 0) {
      status = kit_source_fault(operation, mark->steps[i], mark->states[i]);
    }
  }
  if (has_ended) {
    kit_mark_times(lane, mark, operation);
  }
  kit_mark_drop(lane, mark);
  operation->port_data = NULL;
  return status;
}

int32_t kit_driver_finished(kit_device *device, uint64_t queue, kit_operation *operation) {
  int32_t status = kit_driver_enter(kit_found_at(device->index));
  if (status == HAL_OK) {
    status = finished((kit_lane *)(uintptr_t)queue, operation);
    kit_driver_leave();
  }
  return status;
}
