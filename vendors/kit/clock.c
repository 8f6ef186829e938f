// A device's clock: the chip's own, the host's, or a virtual one.
//
// On a virtual clock an operation gets its times as soon as those of its stream's last one, and of
// the event that it waits for, are known: nearly always at its enqueue, so that they follow the
// order of the host's calls and never the luck of threads. Work behind an event that the host has
// still to signal gets its times when it runs.
#include "kit_state.h"

bool kit_clock_is_virtual(void) {
  const kit_hooks *hooks = &kit_the_port()->hooks;
  return hooks->plan != NULL || hooks->duration_ns != NULL;
}

void kit_raise(_Atomic uint64_t *value, uint64_t at_least) {
  uint64_t now = atomic_load_explicit(value, memory_order_relaxed);
  while (now < at_least && !atomic_compare_exchange_weak(value, &now, at_least)) {
  }
}

uint64_t kit_device_now(kit_device *device) {
  const kit_hooks *hooks = &kit_the_port()->hooks;
  if (kit_clock_is_virtual()) {
    return atomic_load(&device->latest_ns);
  }
  return hooks->now_ns != NULL ? hooks->now_ns(device) : kit_monotonic_ns();
}

void kit_device_saw(kit_device *device, uint64_t stamp_ns) {
  if (kit_clock_is_virtual()) {
    kit_raise(&device->seen_ns, stamp_ns);
  }
}

// When the point's event happens, or false when nobody knows yet.
static bool read_point(const kit_point *point, uint64_t *out_ns) {
  if (atomic_load(&point->done) != 0) {
    *out_ns = point->stamp_ns;
    return true;
  }
  uint64_t planned = atomic_load(&point->planned_ns);
  *out_ns = planned - 1;
  return planned != 0;
}

// The times of an operation whose predecessors have theirs.
static void plan(kit_stream *stream, kit_operation *operation) {
  uint64_t begin = atomic_load(&stream->planned_ns);
  begin = begin < operation->ready_ns ? operation->ready_ns : begin;
  operation->begin_ns = operation->end_ns = begin;
  kit_the_port()->hooks.plan(stream->object.device, stream->object.handle, operation);
  if (operation->kind == KIT_RECORD) {
    atomic_store(&operation->point->planned_ns, operation->end_ns + 1);
  }
  operation->planned = 1;
  atomic_store(&stream->planned_ns, operation->end_ns);
  atomic_store(&stream->planned_id, operation->id);
}

void kit_clock_enqueue(kit_stream *stream, kit_operation *operation) {
  if (kit_the_port()->hooks.plan == NULL || atomic_load(&stream->planned_id) + 1 != operation->id) {
    return;
  }
  if (operation->kind == KIT_WAIT && operation->point != NULL) {
    uint64_t when = 0;
    if (!read_point(operation->point, &when)) {
      return;
    }
    operation->ready_ns = operation->ready_ns < when ? when : operation->ready_ns;
  }
  plan(stream, operation);
}

void kit_clock_finish(kit_stream *stream, kit_operation *operation, bool ran) {
  kit_device *device = stream->object.device;
  const kit_hooks *hooks = &kit_the_port()->hooks;
  if (hooks->plan == NULL) {
    uint64_t begin = atomic_load_explicit(&stream->now_ns, memory_order_relaxed);
    begin = begin < operation->ready_ns ? operation->ready_ns : begin;
    operation->begin_ns = begin;
    operation->end_ns = begin + (ran ? hooks->duration_ns(device, operation) : 0);
  } else if (operation->planned == 0) {
    plan(stream, operation);
  }
  atomic_store_explicit(&stream->now_ns, operation->end_ns, memory_order_relaxed);
  kit_raise(&device->latest_ns, operation->end_ns);
}
