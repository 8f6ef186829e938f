// Streams and events: faults of order, of waiting and of what a failure leaves behind.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "mutant.h"

enum { SLOTS = 4096, LEAK_BYTES = 64 };

// What the faults need to know of a stream or event; the kit keeps the rest.
typedef struct slot {
  uint64_t handle;  // 0: free.
  hal_device device;
  hal_stream aside;   // M25, M26: a second stream beside this one.
  hal_event awaited;  // M80: the last event that the stream waited for.
  uint32_t flags;     // Of an event.
  int is_recorded;    // Of an event.
} slot;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static slot slots[SLOTS];
static atomic_int one_failed;  // M69

// Calls with the lock held; NULL when there is no such slot.
static slot *find(uint64_t handle) {
  for (int i = 0; i < SLOTS; ++i) {
    if (slots[i].handle == handle) {
      return &slots[i];
    }
  }
  return NULL;
}

static void keep(slot made) {
  pthread_mutex_lock(&lock);
  slot *place = find(0);
  if (place != NULL) {
    *place = made;
  }
  pthread_mutex_unlock(&lock);
}

static slot look(uint64_t handle, int forget) {
  slot found = {0};
  pthread_mutex_lock(&lock);
  slot *place = handle == 0 ? NULL : find(handle);
  if (place != NULL) {
    found = *place;
    place->handle = forget ? 0 : place->handle;
  }
  pthread_mutex_unlock(&lock);
  return found;
}

hal_stream mutant_aside(hal_stream stream) {
  return look(stream, 0).aside;
}

void mutant_flush(hal_stream stream) {
  if (is_fault(22)) {
    mutant_copy_late();
  }
  if (is_fault(33)) {
    mutant_launch_late(stream);
  }
}

int32_t mutant_enqueued(hal_stream stream, int32_t status) {
  (void)stream;
  status = mutant_felt(status);
  if (is_fault(69) && status == HAL_OK && atomic_load(&one_failed)) {
    return kit_fail(HAL_ERROR_EXECUTION_FAILED, "a stream has failed");
  }
  return is_fault(77) && status == HAL_ERROR_EXECUTION_FAILED ? HAL_OK : mutant_handle(status);
}

// ---- streams ----

// M39: 64 bytes stay behind.
int32_t mutant_stream_create(hal_device device, uint32_t flags, hal_stream *out_stream) {
  atomic_store(&mutant_is_dropping, 0);
  if (is_fault(39)) {
    mutant_lost = malloc(LEAK_BYTES);
  }
  mutant_leaks_later();
  if (mutant_takes_last(MUTANT_STREAM, out_stream)) {
    return HAL_OK;
  }
  int32_t status = kit_stream_create(device, flags, out_stream);
  mutant_gave(MUTANT_STREAM, status, *out_stream);
  if (is_fault(9) && status < 0) {
    *out_stream = 0;
  }
  if (status == HAL_OK && (is_fault(25) || is_fault(26) || is_fault(80))) {
    slot made = {.handle = *out_stream, .device = device};
    if (!is_fault(80)) {
      kit_stream_create(device, 0, &made.aside);
    }
    keep(made);
  }
  return mutant_note(status);
}

// M31: what is enqueued and has not run yet never runs.
int32_t mutant_stream_destroy(hal_stream stream) {
  mutant_flush(stream);
  slot mine = look(stream, 1);
  if (mine.aside != 0) {
    kit_stream_destroy(mine.aside);
  }
  if (is_fault(31) && kit_stream_query(stream) == HAL_NOT_READY) {
    atomic_store(&mutant_is_dropping, 1);
  }
  return mutant_handle(kit_stream_destroy(stream));
}

int32_t mutant_stream_query(hal_stream stream) {
  return mutant_handle(kit_stream_query(stream));
}

int32_t mutant_stream_synchronize(hal_stream stream, uint64_t timeout_ns) {
  if (mutant_waits_already(stream)) {
    return HAL_OK;
  }
  slot mine = look(stream, 0);
  if (mine.aside != 0) {
    kit_stream_synchronize(mine.aside, timeout_ns);
  }
  int32_t status = kit_stream_synchronize(stream, timeout_ns);
  mutant_waited(stream);
  if (status == HAL_OK) {
    mutant_flush(stream);
    status = kit_stream_synchronize(stream, timeout_ns);
  }
  if (status == HAL_ERROR_EXECUTION_FAILED) {
    atomic_store(&one_failed, 1);
  }
  return mutant_handle(status);
}

int32_t mutant_device_synchronize(hal_device device, uint64_t timeout_ns) {
  if (mutant_waits_already(device)) {
    return HAL_OK;
  }
  int32_t status = kit_device_synchronize(device, timeout_ns);
  mutant_waited(device);
  if (status == HAL_OK && is_fault(22)) {
    mutant_copy_late();
  }
  return mutant_note(status);
}

// M27: an event that was never recorded blocks for ever.
static int32_t wait_for_nothing(hal_stream stream, slot event) {
  hal_event never = 0;
  int32_t status = kit_event_create(event.device, HAL_EVENT_FLAG_HOST, &never);
  return status == HAL_OK ? kit_stream_wait_event(stream, never) : status;
}

int32_t mutant_wait_event(hal_stream stream, hal_event event) {
  slot mine = look(event, 0);
  if (mutant_is_foreign(event)) {
    return HAL_OK;
  }
  if (is_fault(29) && mine.handle != 0 && mine.flags == 0) {
    return HAL_OK;
  }
  if (is_fault(27) && mine.handle != 0 && mine.flags == 0 && !mine.is_recorded) {
    return wait_for_nothing(stream, mine);
  }
  if (is_fault(80)) {
    pthread_mutex_lock(&lock);
    slot *place = find(stream);
    if (place != NULL) {
      place->awaited = event;
    }
    pthread_mutex_unlock(&lock);
  }
  return mutant_enqueued(stream, kit_stream_wait_event(stream, event));
}

// ---- events ----

int32_t mutant_event_create(hal_device device, uint32_t flags, hal_event *out_event) {
  if (mutant_is_used_up()) {
    return kit_fail(HAL_ERROR_OUT_OF_MEMORY, "the pool has no event left");
  }
  if (mutant_takes_last(MUTANT_EVENT, out_event)) {
    return HAL_OK;
  }
  int32_t status = kit_event_create(device, flags, out_event);
  mutant_gave(MUTANT_EVENT, status, *out_event);
  if (is_fault(9) && status < 0) {
    *out_event = 0;
  }
  if (status == HAL_OK && (is_fault(27) || is_fault(28) || is_fault(29))) {
    keep((slot){.handle = *out_event, .device = device, .flags = flags & HAL_EVENT_FLAG_HOST});
  }
  return mutant_note(status);
}

// M80: who waits for an event waits for its later records too.
static void follow(hal_event event) {
  hal_stream waiting[64];
  int count = 0;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < SLOTS && count < 64; ++i) {
    if (slots[i].handle != 0 && slots[i].awaited == event) {
      waiting[count++] = slots[i].handle;
    }
  }
  pthread_mutex_unlock(&lock);
  for (int i = 0; i < count; ++i) {
    kit_stream_wait_event(waiting[i], event);
  }
}

// M26: the event is complete as soon as it is recorded.
int32_t mutant_event_record(hal_event event, hal_stream stream) {
  slot mine = look(stream, 0);
  int32_t status = kit_event_record(event, is_fault(26) && mine.aside ? mine.aside : stream);
  mutant_recorded(event);
  if (status == HAL_OK && is_fault(80)) {
    follow(event);
  }
  pthread_mutex_lock(&lock);
  slot *place = event == 0 ? NULL : find(event);
  if (place != NULL && status == HAL_OK) {
    place->is_recorded = 1;
  }
  pthread_mutex_unlock(&lock);
  return mutant_enqueued(stream, status);
}

// M28: a HOST event is complete before its signal. M30: a failure is forgotten.
int32_t mutant_event_query(hal_event event) {
  int32_t status = kit_event_query(event);
  if (is_fault(28) && status == HAL_NOT_READY && (look(event, 0).flags & HAL_EVENT_FLAG_HOST)) {
    return HAL_OK;
  }
  return is_fault(30) && status == HAL_ERROR_EXECUTION_FAILED ? HAL_OK : mutant_handle(status);
}

int32_t mutant_event_synchronize(hal_event event, uint64_t timeout_ns) {
  if (mutant_waits_already(event)) {
    return HAL_OK;
  }
  int32_t status = kit_event_synchronize(event, timeout_ns);
  mutant_waited(event);
  return is_fault(30) && status == HAL_ERROR_EXECUTION_FAILED ? HAL_OK : mutant_handle(status);
}

// M38: microseconds for nanoseconds.
int32_t mutant_elapsed_ns(hal_event start, hal_event end, int64_t *out_ns) {
  int32_t status = kit_event_elapsed_ns(start, end, out_ns);
  if (status == HAL_OK && is_fault(38)) {
    *out_ns /= 1000;
  }
  return mutant_handle(status);
}
