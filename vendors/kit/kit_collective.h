// Collectives of a driver's library, for ports of a driver (kit_driver.h): what the library does in
// single commands. The kit makes interface 11 of them: handles, groups, order on the streams,
// time-outs, aborts. A port names the table in its kit_driver, and in its root
// `.collective = KIT_COLLECTIVE_TABLE()`.
//
// The library's communicators do not block: `join` and `group_end` start what they are for, and
// `state` tells when it is done. Before that nothing else may be put on the queues of a group, so
// the kit marks an operation's end behind it.
#ifndef KIT_KIT_COLLECTIVE_H_
#define KIT_KIT_COLLECTIVE_H_

#include "kit_driver.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  KIT_ALL_REDUCE = 1,
  KIT_ALL_GATHER,
  KIT_REDUCE_SCATTER,
  KIT_BROADCAST,
  KIT_SEND,
  KIT_RECV,
};

// One rank's part in a collective, checked.
typedef struct kit_share {
  uint32_t what;           // KIT_ALL_REDUCE and so on.
  uint32_t dtype, reduce;  // HAL_DTYPE_*, HAL_REDUCE_*, where it reduces.
  uint32_t peer;           // Root, or the other side.
  uint64_t count, bytes;   // Of one rank's part: elements, and their bytes.
  const void *source;      // Device addresses; NULL where the rank gives or gets nothing.
  void *target;
} kit_share;

// All are called by one thread at a time; `join`, `share`, `leave` and `drop` within the rank's
// device, groups within that of their first rank.
struct kit_collectives {
  int32_t (*check)(void);                 // UNSUPPORTED, with the reason, when there is no library.
  int32_t (*can_reduce)(uint32_t dtype);  // UNSUPPORTED, with the reason, for other types.
  int32_t (*unique_id)(hal_unique_id *out_id);
  int32_t (*group_begin)(void);  // Several joins, or several shares, start together at the end.
  int32_t (*group_end)(void);
  // Begins to make a communicator. *out_comm stays where it is until `state` is not NOT_READY.
  int32_t (*join)(const hal_comm_desc *desc, void **out_comm);
  int32_t (*share)(void *comm, kit_queue *queue, const kit_share *share);
  int32_t (*state)(void *comm);  // HAL_OK, NOT_READY, or the communicator's failure.
  int32_t (*leave)(void *comm);  // Begins to end it, when its work has ended; `state` tells.
  // Frees it: after `leave`, or with `stop`: then its work on the queues ends soon, undone.
  void (*drop)(void *comm, int stop);
};

#ifdef __cplusplus
}
#endif

#endif  // KIT_KIT_COLLECTIVE_H_
