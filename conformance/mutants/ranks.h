// The broken port's collectives, between ranks of one process: who takes part, and what is asked.
#ifndef CONFORMANCE_MUTANTS_RANKS_H_
#define CONFORMANCE_MUTANTS_RANKS_H_

#include "mutant.h"

enum { RANKS_MOST = 16 };
enum { ALL_REDUCE = 1, ALL_GATHER, REDUCE_SCATTER, BROADCAST, ALL_TO_ALL, SEND, RECV };

// One rank's part in a collective; its thread waits until it is done.
typedef struct part {
  struct part *next;       // In the rank's queue.
  struct part *following;  // In the thread's group.
  struct circle *circle;
  uint32_t rank;
  int verb;
  hal_stream stream;
  hal_collective_desc desc;
  unsigned char *source, *target;  // In host memory, where this port's buffers lie.
  int is_done;
  int32_t status;
} part;

// A communicator.
typedef struct circle {
  hal_unique_id id;
  int is_used;
  uint32_t rank_count, joined, left;
  uint64_t timeout_ns;
  int32_t status;           // Its first failure.
  part *first[RANKS_MOST];  // What each rank has asked for and not got yet, in its order.
} circle;

// compute.c: does a collective of all ranks, whose parts are given by rank, or moves one message.
int32_t mutant_compute(part *const *parts, uint32_t rank_count);
void mutant_message(const part *from, const part *to);

// collective.c
int32_t mutant_unique_id(hal_unique_id *out_id);
int32_t mutant_comm_create(hal_device device, const hal_comm_desc *desc, hal_comm *out_comm);
int32_t mutant_comm_destroy(hal_comm comm);
int32_t mutant_all_reduce(hal_comm comm, hal_stream stream, const hal_collective_desc *desc);
int32_t mutant_all_gather(hal_comm comm, hal_stream stream, const hal_collective_desc *desc);
int32_t mutant_reduce_scatter(hal_comm comm, hal_stream stream, const hal_collective_desc *desc);
int32_t mutant_broadcast(hal_comm comm, hal_stream stream, const hal_collective_desc *desc);
int32_t mutant_all_to_all(hal_comm comm, hal_stream stream, const hal_collective_desc *desc);
int32_t mutant_send(hal_comm comm, hal_stream stream, const hal_collective_desc *desc);
int32_t mutant_recv(hal_comm comm, hal_stream stream, const hal_collective_desc *desc);
int32_t mutant_group_begin(void);
int32_t mutant_group_end(void);
int32_t mutant_abort(hal_comm comm);
int32_t mutant_async_error(hal_comm comm, int32_t *out_status);

#endif  // CONFORMANCE_MUTANTS_RANKS_H_
