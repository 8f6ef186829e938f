// The inside of ports of a driver (kit_driver.h).
#ifndef KIT_DRIVER_STATE_H_
#define KIT_DRIVER_STATE_H_

#include "kit_driver.h"
#include "kit_state.h"

// What stands behind an operation in its queue. Marks are used again.
typedef struct kit_mark {
  struct kit_mark *next;
  void *begin, *work, *end;  // Events; NULL until they are needed. `work` stands before `end` where
  bool has_work;             // a state is read between them and somebody wants to know the time.
  kit_allocation temporary;  // Given back with the mark.
  bool has_temporary;
  int32_t *states;  // Pinned where the port pins: what `state` held behind the steps,
  uint32_t *steps;  // and which steps.
  uint32_t state_count, state_room;
} kit_mark;

typedef struct kit_anchor {  // An event whose time on the host's clock is known.
  void *event;
  uint64_t ns;
  uint32_t references;  // Guarded by the lock of the kit_found.
} kit_anchor;

typedef struct kit_lane {
  kit_queue queue;
  kit_found *found;
  kit_allocation state;  // Two i32 that the launches of the queue share.
  bool has_state;
  kit_mark *free;
  kit_anchor *anchor;  // NULL: the driver has no times.
  uint64_t end_ns;
} kit_lane;

// ---- driver_base.c ----
const kit_driver *kit_the_driver(void);
int32_t kit_driver_enter(const kit_found *found);
void kit_driver_leave(void);
void kit_driver_close(kit_queue *queue);  // If it is open.
// The device's own queue; with the lock of `found`. NULL, and the error record, when there is none.
kit_queue *kit_driver_service(kit_found *found);
int32_t kit_driver_reserve(kit_found *found, uint64_t bytes, uint64_t alignment, bool zero,
                           kit_allocation *out);
void kit_driver_release(kit_found *found, const kit_allocation *allocation);

// ---- driver_mark.c ----
int32_t kit_mark_take(kit_lane *lane, uint32_t steps, kit_mark **out_mark);
void kit_mark_drop(kit_lane *lane, kit_mark *mark);  // To be used again.
void kit_marks_free(kit_lane *lane);
// Shares the device's anchor, which is measured when there is none that is young.
int32_t kit_anchor_take(kit_lane *lane);
void kit_anchor_drop(kit_found *found, kit_anchor *anchor);
void kit_mark_times(kit_lane *lane, kit_mark *mark, kit_operation *operation);

// ---- driver_submit.c ----
int32_t kit_driver_submit(kit_device *device, uint64_t queue, kit_operation *operation);
int32_t kit_driver_finished(kit_device *device, uint64_t queue, kit_operation *operation);

// ---- driver_program.c ----
struct kit_compiled {
  kit_program program;
  kit_compiled *next;    // Of those that are kept, the last used one first.
  uint32_t references;   // Guarded by the lock of `found`, as `next`.
  pthread_mutex_t lock;  // Held while a function is launched: arguments may be the function's.
  kit_found *found;
  char *text;
  uint64_t text_bytes;
  kit_function functions[];
};
int32_t kit_driver_module_open(kit_device *device, const hal_module_desc *desc,
                               vil_module **out_module, void **out_data);
void kit_driver_module_close(void *data);

#endif  // KIT_DRIVER_STATE_H_
