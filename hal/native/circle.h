// The loader's collectives inside one process. A rank copies its part to host memory in the order
// of its stream; the last rank to arrive computes for all, in rank order; each rank copies its
// result back. From below: circle.c, what ranks share; round.c, where parts meet; message.c, send
// and recv; part.c, a rank's part on its stream; join.c, how ranks meet; group.c, several ranks of
// one thread; comm.c and collective.c, the interface. Inside libhal only.
#ifndef HAL_NATIVE_CIRCLE_H_
#define HAL_NATIVE_CIRCLE_H_

#include "emulation.h"

typedef struct hal_round hal_round;
typedef struct hal_message hal_message;

// What all ranks of a communicator share.
typedef struct hal_circle {
  struct hal_circle *next;  // In the list of communicators that still form.
  hal_unique_id id;
  uint32_t rank_count;
  uint32_t joined_count;
  uint32_t user_count;  // Ranks and pieces of work that hold it.
  pthread_mutex_t lock;
  pthread_cond_t changed;
  int32_t status;  // First failure, or HAL_OK.
  hal_rank **ranks;
  unsigned char *has_left;  // By rank: it ended its part.
  uint32_t *sends;          // By rank: sends that are not handed over yet.
  hal_round *rounds;
  hal_message *messages;
} hal_circle;

// One rank of a communicator.
struct hal_rank {
  hal_circle *circle;
  hal_emulation *emulation;
  hal_device device;
  uint32_t rank;
  uint32_t user_count;  // Under the circle's lock.
  uint64_t timeout_ns;
  uint64_t round_count;  // Collectives that it took part in.
};

enum {
  HAL_ALL_REDUCE,
  HAL_ALL_GATHER,
  HAL_REDUCE_SCATTER,
  HAL_BROADCAST,
  HAL_ALL_TO_ALL,
  HAL_SEND,
  HAL_RECV,
};

// One rank's part in one collective.
typedef struct hal_part {
  hal_rank *rank;
  hal_stream stream;
  uint32_t what;  // HAL_ALL_REDUCE and so on.
  hal_collective_desc desc;
  uint64_t in_bytes, out_bytes;
  atomic_uint user_count;
  hal_round *round;
  hal_event reached;
  unsigned char *in, *out;  // Host memory of both sides; one block that starts at `in`.
} hal_part;

// All ranks' parts of one collective.
struct hal_round {
  hal_round *next;
  uint64_t number;
  uint32_t what, dtype, reduce, root;
  uint64_t count;
  uint32_t begun, arrived, passed;
  enum { IS_OPEN, IS_COMPUTED_NOW, IS_DONE } state;
  hal_part *parts[];  // By rank; set while a part has arrived.
};

// Bytes on their way from one rank to another.
struct hal_message {
  hal_message *next;
  uint32_t source, target;
  uint64_t bytes;
  unsigned char data[];
};

// Lanes of a rank: see hal_lane_id.
enum { HAL_LANE_ROUNDS, HAL_LANE_SENDS, HAL_LANE_RECVS };

// ---- circle.c ----

// A circle for the ranks of a descriptor; NULL without host memory.
hal_circle *hal_circle_make(const hal_comm_desc *desc);
void hal_rank_hold(hal_rank *rank);
void hal_rank_drop(hal_rank *rank);
// Makes the first failure known to all ranks. Caller holds the circle's lock.
void hal_circle_fail(hal_circle *circle, int32_t status);
// Waits for a change until a time; 0 when the time is over. Caller holds the circle's lock.
int hal_circle_wait(hal_circle *circle, uint64_t deadline_ns);
// Lets go of a part; the last one to do so frees it.
void hal_part_release(hal_part *part);

// ---- join.c ----

// Joins without waiting; then waits for the others and gives the handle out.
int32_t hal_rank_join(hal_emulation *emulation, hal_device device, const hal_comm_desc *desc,
                      hal_rank **out_rank);
int32_t hal_rank_complete(hal_rank *rank, hal_comm *out_comm);

// ---- part.c ----

// Checks one rank's part and makes it ready; nothing is enqueued.
int32_t hal_part_make(hal_emulation *emulation, hal_comm comm, hal_stream stream, uint32_t what,
                      const hal_collective_desc *desc, hal_part **out_part);
// First half: copies the source to host memory, behind earlier work of the stream.
int32_t hal_part_begin(hal_part *part);
// Second half: later work of the stream waits for the result. Ends the part in any case.
int32_t hal_part_finish(hal_part *part);

// ---- round.c ----

// Takes part in the rank's next round; refused when ranks call with different values.
int32_t hal_round_enter(hal_part *part);
// Takes an entry back: the rank did not enqueue its part.
void hal_round_undo(hal_part *part);
// A job: the rank's stream reached the collective, its source is in host memory.
int32_t hal_round_arrive(void *part, int32_t reached);

// ---- exchange.c ----

// The port made a communicator of its own.
void hal_exchange_created(hal_emulation *emulation, const hal_comm_desc *desc, hal_comm comm);
void hal_exchange_destroyed(hal_emulation *emulation, hal_comm comm);
int hal_exchange_knows(hal_emulation *emulation, hal_comm comm);
// Does all_to_all on a communicator of the port.
int32_t hal_exchange(hal_emulation *emulation, hal_comm comm, hal_stream stream,
                     const hal_collective_desc *desc);

// ---- message.c ----

int32_t hal_message_send(void *part, int32_t reached);
int32_t hal_message_recv(void *part, int32_t reached);

// ---- group.c ----

// Whether this thread has opened a group.
int hal_group_is_open(void);
// Opens and ends groups of this thread. End answers for what the group held. Ranks that join in it
// are offered to the port first, all of one communicator together; the layer joins those of a
// communicator for which the port answers UNSUPPORTED.
void hal_group_open(void);
int32_t hal_group_close(hal_emulation *emulation);
// Puts work into the open group; it belongs to the group from now on.
int32_t hal_group_add_part(hal_part *part);
int32_t hal_group_add_rank(hal_emulation *emulation, hal_device device, const hal_comm_desc *desc,
                           hal_comm *out_comm);

#endif  // HAL_NATIVE_CIRCLE_H_
