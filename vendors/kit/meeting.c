// Parts of collectives on their streams. The streams of a group come to their parts one by one, as
// their work allows; with the last one the library is told of all parts at once. Only when it has
// put them on the queues does anything follow there, and be it the mark of an operation's end.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm_state.h"

kit_meeting *kit_meeting_create(const kit_part *parts, uint32_t count) {
  kit_meeting *made = calloc(1, sizeof(*made) + count * sizeof(*parts));
  if (made == NULL) {
    kit_fail(HAL_ERROR_OUT_OF_MEMORY, "no host memory for a collective");
    return NULL;
  }
  made->references = count + 1;
  made->count = count;
  memcpy(made->parts, parts, count * sizeof(*parts));
  for (uint32_t i = 0; i < count; ++i) {
    made->parts[i].meeting = made;
  }
  return made;
}

void kit_meeting_seal(kit_meeting *meeting) {
  kit_comms_lock();
  meeting->expected = meeting->count;
  kit_comms_unlock();
}

void kit_meeting_release(kit_meeting *meeting) {
  if (atomic_fetch_sub(&meeting->references, 1) == 1) {
    free(meeting);
  }
}

// ---- With the lock ----

// Fails the meeting and all ranks in it: their communicators lack a part. Their work is stopped.
static int32_t fail(kit_meeting *meeting, int32_t status, const char *text) {
  if (meeting->status == HAL_OK) {  // The other ranks' devices are not lost.
    meeting->status = status == HAL_ERROR_DEVICE_LOST ? HAL_ERROR_PEER_FAILED : status;
    snprintf(meeting->text, sizeof(meeting->text), "%s", text);
    for (uint32_t i = 0; i < meeting->count; ++i) {
      kit_comm *comm = meeting->parts[i].comm;
      if (comm != NULL) {
        kit_comm_fail(comm, meeting->status, meeting->text);
        kit_comm_watch(comm);
      }
    }
  }
  return kit_fail(meeting->status, "%s", meeting->text);
}

static int32_t start(kit_meeting *meeting) {
  int32_t status = kit_comms_group_begin(meeting->parts[0].comm);
  if (status < 0) {
    return status;
  }
  for (uint32_t i = 0; i < meeting->count && status >= 0; ++i) {
    kit_part *part = &meeting->parts[i];
    part->deadline_ns = kit_deadline(part->comm->timeout_ns);
    status = kit_driver_enter(part->comm->found);
    if (status == HAL_OK) {
      status = kit_the_collectives()->share(part->comm->native, part->queue, &part->share);
      kit_driver_leave();
    }
  }
  return kit_comms_group_end(status);
}

static bool is_late(const kit_part *part) {
  return part->deadline_ns != KIT_FOREVER && kit_monotonic_ns() >= part->deadline_ns;
}

static int32_t time_out(const kit_part *part, char *out_text, size_t capacity) {
  snprintf(out_text, capacity, "rank %u waited %llu ns for the other ranks", part->comm->rank,
           (unsigned long long)part->comm->timeout_ns);
  return HAL_ERROR_TIMEOUT;
}

// Whether the communicators of all parts are well, and the library has done what it was told.
static int32_t ask_all(kit_meeting *meeting) {
  int32_t status = HAL_OK;
  char text[128];
  for (uint32_t i = 0; i < meeting->count; ++i) {
    kit_part *part = &meeting->parts[i];
    int32_t one = kit_comm_watch(part->comm);
    if (one < 0) {
      return fail(meeting, one, kit_error_text());
    }
    if (one > 0 && meeting->state == KIT_STARTS && is_late(part)) {
      one = time_out(part, text, sizeof(text));
      return fail(meeting, one, text);
    }
    status = one == HAL_OK ? status : one;
  }
  return status;
}

static int32_t advance(kit_meeting *meeting) {
  if (meeting->status != HAL_OK) {
    return fail(meeting, meeting->status, meeting->text);
  }
  if (meeting->state == KIT_STARTED) {
    return HAL_OK;
  }
  int32_t status = ask_all(meeting);
  if (status != HAL_OK) {
    return status;
  }
  if (meeting->state == KIT_GATHERS) {
    if (meeting->expected == 0 || meeting->arrived < meeting->expected) {
      return HAL_NOT_READY;
    }
    meeting->state = KIT_STARTS;
    status = start(meeting);
    if (status < 0) {
      return fail(meeting, status, kit_error_text());
    }
    status = ask_all(meeting);
  }
  if (status == HAL_OK) {
    meeting->state = KIT_STARTED;
  }
  return status;
}

// ---- Parts ----

int32_t kit_part_arrive(kit_part *part, kit_queue *queue) {
  kit_meeting *meeting = part->meeting;
  kit_comms_lock();
  bool is_first = part->queue == NULL;
  for (uint32_t i = 0; i < meeting->count && is_first; ++i) {
    kit_part *other = &meeting->parts[i];  // Those of one stream come with the first of them.
    if (other->stream == part->stream) {
      other->queue = queue;
      ++meeting->arrived;
    }
  }
  int32_t status = advance(meeting);
  part->is_on_queue |= status == HAL_OK;
  kit_comms_unlock();
  return status;
}

int32_t kit_part_watch(kit_part *part, int32_t asked) {
  char text[128];
  hal_error saved;
  kit_error_save(&saved);
  kit_comms_lock();
  if (asked < 0) {
    kit_comm_fail(part->comm, HAL_ERROR_PEER_FAILED, "the device of a rank failed");
  }
  int32_t status = kit_comm_watch(part->comm);
  if (status >= 0 && asked > 0 && is_late(part)) {
    status = time_out(part, text, sizeof(text));
    kit_comm_fail(part->comm, status, text);
    status = kit_comm_watch(part->comm);
  }
  kit_comms_unlock();
  if (asked != HAL_OK || status > 0) {  // What is stopped ends before it has failed.
    kit_error_restore(&saved);
    return asked;
  }
  return status;
}

// Waits for work of a part that nothing was put behind; it has been stopped.
static void finish_queue(const kit_part *part) {
  if (kit_driver_enter(part->comm->found) == HAL_OK) {
    kit_the_driver()->queue_finish(part->queue);
    kit_driver_leave();
  }
}

void kit_part_leave(kit_part *part) {
  kit_meeting *meeting = part->meeting;
  hal_error saved;
  kit_error_save(&saved);
  kit_comms_lock();
  if (!part->is_on_queue) {  // Its stream failed before: the others wait in vain.
    fail(meeting, HAL_ERROR_PEER_FAILED, "the stream of a rank failed before its part");
  }
  bool is_told = !part->is_on_queue && meeting->state != KIT_GATHERS;
  kit_comms_unlock();
  if (is_told) {
    finish_queue(part);
  }
  kit_comms_lock();
  kit_comm *comm = part->comm;
  part->comm = NULL;
  kit_comms_unlock();
  kit_error_restore(&saved);
  kit_release(comm);
  kit_meeting_release(meeting);
}
