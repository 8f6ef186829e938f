// The inside of the kit's collectives. From below: comm.c, communicators and what their ranks in
// this process share; meeting.c, the parts of a group on their streams; collective.c, interface 11.
#ifndef KIT_COMM_STATE_H_
#define KIT_COMM_STATE_H_

#include "driver_state.h"
#include "kit_collective.h"

typedef struct kit_circle kit_circle;

// A rank: what the handle of a communicator stands for.
typedef struct kit_comm {
  kit_object object;
  kit_circle *circle;
  struct kit_comm *next;  // In the circle.
  kit_found *found;
  void *native;  // The library's; NULL before and after.
  uint32_t rank, rank_count;
  uint64_t timeout_ns;
} kit_comm;

// The parts of a group, or one call without a group. They start when all streams have come to them.
typedef struct kit_meeting kit_meeting;
typedef struct kit_part {
  kit_meeting *meeting;
  kit_comm *comm;  // Holds a reference, as on the stream until it is enqueued.
  kit_stream *stream;
  kit_range source, target;
  kit_share share;
  kit_queue *queue;  // NULL: the stream has not come here.
  uint64_t deadline_ns;
  bool is_on_queue;
} kit_part;
struct kit_meeting {
  _Atomic uint32_t references;
  uint32_t expected, arrived;  // Parts; expected is 0 until all are enqueued.
  enum { KIT_GATHERS, KIT_STARTS, KIT_STARTED } state;
  int32_t status;  // Its failure.
  char text[256];
  uint32_t count;
  kit_part parts[];
};

// ---- comm.c ----
const kit_collectives *kit_the_collectives(void);
int32_t kit_comms_check(void);  // HAL_OK, or UNSUPPORTED: the port has no library.
// One lock guards ranks, circles and meetings, and is held while the library is called: that never
// waits for another rank.
void kit_comms_lock(void);
void kit_comms_unlock(void);
int32_t kit_comm_create(kit_device *device, const hal_comm_desc *desc, kit_comm **out_comm);
// Joins ranks of this thread, all or none; with none their handles are dead.
int32_t kit_comms_join(kit_comm **comms, const hal_comm_desc *descs, uint32_t count);
int32_t kit_comm_status(kit_comm *comm);  // HAL_OK, or the first failure, told.
// With the lock: a group of the library, within the device of its first rank. End gives `status`,
// what came of the calls in it, or its own.
int32_t kit_comms_group_begin(const kit_comm *first);
int32_t kit_comms_group_end(int32_t status);
// With the lock: makes a failure the first one of all ranks here; asks for the library's own, and
// stops the rank's work after any.
void kit_comm_fail(kit_comm *comm, int32_t status, const char *text);
int32_t kit_comm_watch(kit_comm *comm);  // HAL_OK, NOT_READY or the failure, told.

// ---- meeting.c ----
kit_meeting *kit_meeting_create(const kit_part *parts, uint32_t count);
void kit_meeting_seal(kit_meeting *meeting);  // All are enqueued.
void kit_meeting_release(kit_meeting *meeting);
// The stream has come to its part. HAL_OK: the part is on the queue, NOT_READY: not now.
int32_t kit_part_arrive(kit_part *part, kit_queue *queue);
// What became of a part on its queue, whose end the driver was asked for: NOT_READY, HAL_OK, or
// what went wrong. A part that cannot end any more, or whose time is over, is stopped.
int32_t kit_part_watch(kit_part *part, int32_t asked);

#endif  // KIT_COMM_STATE_H_
