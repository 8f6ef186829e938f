// Every byte of a buffer has a shadow: whether it was written, and which operations wrote and read
// it last. An operation knows its place in the order of streams (order.h), so two that touch a byte
// without an order are found whichever of them ran first.
#include "checks.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "order.h"

enum { MOST_RECORDS = 1 << 22 };

typedef struct shadow {
  struct shadow *next;
  const uint8_t *base;
  uint64_t bytes;
  uint8_t *written;           // One a byte.
  uint32_t *writer, *reader;  // Numbers in `records`; 0: none.
} shadow;

// An operation that touched bytes.
typedef struct record {
  uint32_t stream, number;  // Its stream, and its place in the stream's order.
  uint64_t id;              // As the port counts it on the stream.
  char what[48];
} record;

// What an operation keeps from its enqueue to its run.
typedef struct pass {
  uint32_t stream;
  sim_moment at;
} pass;

static struct {
  pthread_mutex_t lock;
  shadow *shadows;
  record *records;
  uint32_t count, room;
} checks = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int is_on(uint32_t check) {
  return (sim_options_now()->checks & check) != 0;
}

static int needs_shadows(void) {
  return is_on(SIM_CHECK_UNINITIALISED | SIM_CHECK_RACE);
}

static void free_shadow(shadow *self) {
  free(self->written);
  free(self->writer);
  free(self->reader);
  free(self);
}

void sim_checks_begin(void) {
  double patience_ns = is_on(SIM_CHECK_DEADLOCK) ? sim_options_now()->deadlock_s * 1e9 : 0;
  kit_host_patience((uint64_t)patience_ns);
  sim_order_reset();
}

void sim_checks_end(void) {
  kit_host_patience(0);
  sim_order_reset();
  while (checks.shadows != NULL) {
    shadow *next = checks.shadows->next;
    free_shadow(checks.shadows);
    checks.shadows = next;
  }
  free(checks.records);
  checks.records = NULL;
  checks.count = checks.room = 0;
}

// ---- Buffers ----

static shadow *make_shadow(const kit_allocation *allocation, uint64_t bytes, int zero) {
  shadow *fresh = calloc(1, sizeof(*fresh));
  if (fresh == NULL) {
    return NULL;
  }
  fresh->base = allocation->pointer;
  fresh->bytes = bytes;
  fresh->written = malloc(bytes);
  fresh->writer = calloc(bytes, sizeof(*fresh->writer));
  fresh->reader = calloc(bytes, sizeof(*fresh->reader));
  if (fresh->written == NULL || fresh->writer == NULL || fresh->reader == NULL) {
    free_shadow(fresh);
    return NULL;
  }
  memset(fresh->written, zero != 0, bytes);
  return fresh;
}

int32_t sim_checks_reserve(const kit_allocation *allocation, uint64_t bytes, int zero) {
  if (!needs_shadows() || bytes == 0) {
    return HAL_OK;
  }
  shadow *fresh = make_shadow(allocation, bytes, zero);
  if (fresh == NULL) {
    return kit_fail(HAL_ERROR_OUT_OF_MEMORY,
                    "no host memory for the checks of a buffer of %llu bytes: they take nine bytes "
                    "a byte",
                    (unsigned long long)bytes);
  }
  pthread_mutex_lock(&checks.lock);
  fresh->next = checks.shadows;
  checks.shadows = fresh;
  pthread_mutex_unlock(&checks.lock);
  return HAL_OK;
}

void sim_checks_release(const kit_allocation *allocation) {
  pthread_mutex_lock(&checks.lock);
  for (shadow **at = &checks.shadows; *at != NULL; at = &(*at)->next) {
    if ((*at)->base == allocation->pointer) {
      shadow *old = *at;
      *at = old->next;
      free_shadow(old);
      break;
    }
  }
  pthread_mutex_unlock(&checks.lock);
}

static shadow *find_shadow(const uint8_t *address) {
  shadow *at = checks.shadows;
  while (at != NULL && !(address >= at->base && address < at->base + at->bytes)) {
    at = at->next;
  }
  return at;
}

// ---- One operation ----

typedef struct running {
  const pass *pass;
  uint32_t record;
  shadow *last;  // Most accesses go to the buffer of the one before.
} running;

static const char *kind_name(uint32_t kind) {
  static const char *const names[] = {
      "", "copy to device", "copy to host", "copy on device", "copy between devices", "fill"};
  return kind <= KIT_FILL ? names[kind] : "";
}

// The record of a running operation; 0 when there is no room.
static uint32_t begin_record(const kit_operation *operation) {
  const pass *pass = operation->port_data;
  if (pass == NULL) {
    return 0;
  }
  if (checks.count == checks.room) {
    uint32_t room = checks.room == 0 ? 1024 : 2 * checks.room;
    record *more = room > MOST_RECORDS ? NULL : realloc(checks.records, room * sizeof(*more));
    if (more == NULL) {
      return 0;
    }
    checks.records = more;
    checks.room = room;
    checks.count += checks.count == 0;  // Number 0 is none.
  }
  record *fresh = &checks.records[checks.count];
  *fresh =
      (record){.stream = pass->stream, .number = pass->at.over[pass->stream], .id = operation->id};
  if (operation->kind == KIT_LAUNCH) {
    snprintf(fresh->what, sizeof(fresh->what), "launch of %.36s",
             vil_kernel_name(kit_kernel_vil(operation->kernel)));
  } else {
    snprintf(fresh->what, sizeof(fresh->what), "%s", kind_name(operation->kind));
  }
  return checks.count++;
}

// The earlier operation when it and the running one have no order; NULL when they have.
static const record *unordered(const running *run, uint32_t earlier) {
  if (earlier == 0 || run->record == 0) {
    return NULL;
  }
  const record *other = &checks.records[earlier];
  return other->stream != run->pass->stream && run->pass->at.over[other->stream] < other->number
             ? other
             : NULL;
}

static void describe_race(const record *other, int other_writes, int is_write, uint64_t byte,
                          uint64_t bytes, char *text, size_t capacity) {
  snprintf(text, capacity,
           "race: it %s byte %llu of a buffer of %llu bytes that operation %llu of another stream "
           "(%s) %s, and no event or wait orders the two",
           is_write ? "writes" : "reads", (unsigned long long)byte, (unsigned long long)bytes,
           (unsigned long long)other->id, other->what, other_writes ? "writes" : "reads");
}

// Looks at one byte and marks it; 0, or 1 and a text.
static int touch_byte(const running *run, shadow *where, uint64_t byte, int is_read, int is_write,
                      char *text, size_t capacity) {
  if (is_read && is_on(SIM_CHECK_UNINITIALISED) && !where->written[byte]) {
    snprintf(text, capacity,
             "uninitialised: it reads byte %llu of a buffer of %llu bytes that "
             "nobody has written",
             (unsigned long long)byte, (unsigned long long)where->bytes);
    return 1;
  }
  if (is_on(SIM_CHECK_RACE)) {
    const record *other = unordered(run, where->writer[byte]);
    const record *reader = is_write ? unordered(run, where->reader[byte]) : NULL;
    if (other != NULL || reader != NULL) {
      describe_race(other != NULL ? other : reader, other != NULL, is_write, byte, where->bytes,
                    text, capacity);
      return 1;
    }
    if (is_write) {
      where->writer[byte] = run->record;
    } else if (unordered(run, where->reader[byte]) == NULL) {
      where->reader[byte] = run->record;  // Of two readers without an order the first stays.
    }
  }
  where->written[byte] |= (uint8_t)(is_write != 0);
  return 0;
}

static int touch(running *run, const uint8_t *address, uint64_t bytes, int is_read, int is_write,
                 char *text, size_t capacity) {
  shadow *where = run->last;
  if (where == NULL || address < where->base || address >= where->base + where->bytes) {
    where = run->last = find_shadow(address);
  }
  for (uint64_t i = 0; where != NULL && i < bytes; ++i) {
    uint64_t byte = (uint64_t)(address - where->base) + i;
    if (touch_byte(run, where, byte, is_read, is_write, text, capacity)) {
      return 1;
    }
  }
  return 0;
}

static int32_t see_element(void *context, const vil_access *access, char *text, size_t capacity) {
  running *run = context;
  char found[400] = "";
  if (!touch(run, access->address, access->bytes, access->is_read, access->is_write, found,
             sizeof(found))) {
    return HAL_OK;
  }
  snprintf(text, capacity, "parameter %s: %s", access->param, found);
  return HAL_ERROR_EXECUTION_FAILED;
}

static int touch_range(running *run, const kit_range *range, int is_write, char *text,
                       size_t capacity) {
  return range->memory != NULL && range->bytes != 0 &&
         touch(run, kit_range_pointer(range), range->bytes, !is_write, is_write, text, capacity);
}

int32_t sim_checks_run(kit_operation *operation) {
  running run = {.pass = operation->port_data};
  vil_watch watch = {.element = needs_shadows() ? see_element : NULL,
                     .context = &run,
                     .engines = is_on(SIM_CHECK_RACE)};
  vil_hooks hooks = {.watch = &watch};
  char text[400] = "";
  pthread_mutex_lock(&checks.lock);
  run.record = begin_record(operation);
  int32_t status = HAL_OK;
  if (is_on(SIM_CHECK_RACE) && run.record == 0) {
    status = kit_fail(HAL_ERROR_EXECUTION_FAILED,
                      "race: the order of more than %d streams that nobody waited for, or of more "
                      "than %d operations, is not kept; wait for some streams",
                      SIM_MOST_STREAMS, MOST_RECORDS);
  } else if (needs_shadows() && operation->kind != KIT_LAUNCH &&
             (touch_range(&run, &operation->source, 0, text, sizeof(text)) ||
              touch_range(&run, &operation->target, 1, text, sizeof(text)))) {
    status = kit_fail(HAL_ERROR_EXECUTION_FAILED, "%s: %s", kind_name(operation->kind), text);
  }
  if (status == HAL_OK) {
    status = kit_host_run_with(operation, &hooks);
  }
  pthread_mutex_unlock(&checks.lock);
  return status;
}

// ---- Order ----

void sim_checks_enqueue(uint64_t device, uint64_t stream, kit_operation *operation) {
  if (!is_on(SIM_CHECK_RACE)) {
    return;
  }
  pthread_mutex_lock(&checks.lock);
  uint32_t number = 0;
  if (!sim_order_stream(stream, device, &number)) {
    pthread_mutex_unlock(&checks.lock);
    return;
  }
  if (operation->kind == KIT_RECORD) {
    sim_order_record(number, operation->point);
  } else if (operation->kind == KIT_WAIT) {
    sim_order_wait(number, operation->point);
  } else {
    pass *kept = malloc(sizeof(*kept));
    operation->port_data = kept;
    if (kept != NULL) {
      kept->stream = number;
      sim_order_step(number, &kept->at);
    }
  }
  pthread_mutex_unlock(&checks.lock);
}

void sim_checks_saw_stream(uint64_t stream) {
  if (!is_on(SIM_CHECK_RACE)) {
    return;
  }
  pthread_mutex_lock(&checks.lock);
  uint32_t number = 0;
  if (sim_order_stream(stream, 0, &number)) {
    sim_order_host_saw_stream(number);
  }
  pthread_mutex_unlock(&checks.lock);
}

void sim_checks_saw_device(uint64_t device) {
  if (!is_on(SIM_CHECK_RACE)) {
    return;
  }
  pthread_mutex_lock(&checks.lock);
  sim_order_host_saw_device(device);
  pthread_mutex_unlock(&checks.lock);
}

void sim_checks_saw_event(uint64_t event) {
  if (!is_on(SIM_CHECK_RACE)) {
    return;
  }
  pthread_mutex_lock(&checks.lock);
  sim_order_host_saw_event(event);
  pthread_mutex_unlock(&checks.lock);
}

void sim_checks_recorded(uint64_t event, uint64_t stream) {
  if (!is_on(SIM_CHECK_RACE)) {
    return;
  }
  pthread_mutex_lock(&checks.lock);
  uint32_t number = 0;
  if (sim_order_stream(stream, 0, &number)) {
    sim_order_name_event(event, number);
  }
  pthread_mutex_unlock(&checks.lock);
}
