// Rounds: all ranks' parts of one collective meet, and the last rank to arrive computes for all.
#include <string.h>

#include "circle.h"
#include "reduce.h"

// The rank's next round; made by the rank that comes first. Caller holds the circle's lock.
static hal_round *open_round(hal_part *part) {
  hal_circle *circle = part->rank->circle;
  const uint64_t number = part->rank->round_count;
  for (hal_round *round = circle->rounds; round != NULL; round = round->next) {
    if (round->number == number) return round;
  }
  hal_round *round = calloc(1, sizeof(*round) + circle->rank_count * sizeof(round->parts[0]));
  if (round == NULL) return NULL;
  round->number = number;
  round->what = part->what;
  round->dtype = part->desc.dtype;
  round->reduce = part->desc.reduce;
  round->root = part->desc.peer;
  round->count = part->desc.count;
  round->next = circle->rounds;
  circle->rounds = round;
  return round;
}

static int is_same_call(const hal_round *round, const hal_part *part) {
  const hal_collective_desc *desc = &part->desc;
  const int reduces = part->what == HAL_ALL_REDUCE || part->what == HAL_REDUCE_SCATTER;
  return round->what == part->what && round->dtype == desc->dtype && round->count == desc->count &&
         (!reduces || round->reduce == desc->reduce) &&
         (part->what != HAL_BROADCAST || round->root == desc->peer);
}

int32_t hal_round_enter(hal_part *part) {
  hal_circle *circle = part->rank->circle;
  hal_port *port = part->rank->emulation->port;
  int32_t status = HAL_OK;
  pthread_mutex_lock(&circle->lock);
  hal_round *round = open_round(part);
  if (round == NULL) {
    status = hal_record(port, HAL_ERROR_OUT_OF_MEMORY, "no host memory");
  } else if (!is_same_call(round, part)) {
    status = hal_record(port, HAL_ERROR_INVALID_VALUE,
                        "rank %u calls with %llu elements of dtype %u, another rank with %llu of "
                        "dtype %u or another collective",
                        part->rank->rank, (unsigned long long)part->desc.count, part->desc.dtype,
                        (unsigned long long)round->count, round->dtype);
    hal_circle_fail(circle, HAL_ERROR_PEER_FAILED);
  } else {
    part->round = round;
    round->begun += 1;
    part->rank->round_count += 1;
  }
  pthread_mutex_unlock(&circle->lock);
  return status;
}

void hal_round_undo(hal_part *part) {
  hal_circle *circle = part->rank->circle;
  pthread_mutex_lock(&circle->lock);
  part->round->begun -= 1;
  part->rank->round_count -= 1;
  part->round = NULL;
  pthread_mutex_unlock(&circle->lock);
}

// A rank is done with its round; the last one frees it. Caller holds the circle's lock.
static void leave_round(hal_circle *circle, hal_round *round) {
  round->passed += 1;
  if (round->passed < circle->rank_count) return;
  for (hal_round **at = &circle->rounds; *at != NULL; at = &(*at)->next) {
    if (*at != round) continue;
    *at = round->next;
    break;
  }
  free(round);
}

static void reduce_round(const hal_round *round, uint32_t rank_count) {
  const void **sources = malloc(rank_count * sizeof(*sources));
  if (sources == NULL) return;
  for (uint32_t i = 0; i < rank_count; ++i) sources[i] = round->parts[i]->in;
  if (round->what == HAL_ALL_REDUCE) {
    hal_reduce(round->dtype, round->reduce, sources, rank_count, 0, round->count,
               round->parts[0]->out);
    for (uint32_t i = 1; i < rank_count; ++i) {
      memcpy(round->parts[i]->out, round->parts[0]->out, round->parts[0]->out_bytes);
    }
  } else {
    for (uint32_t i = 0; i < rank_count; ++i) {
      hal_reduce(round->dtype, round->reduce, sources, rank_count, i * round->count, round->count,
                 round->parts[i]->out);
    }
  }
  free(sources);
}

static void compute_round(const hal_round *round, uint32_t rank_count) {
  const uint64_t one = round->count * hal_dtype_bytes(round->dtype);
  if (round->what == HAL_ALL_REDUCE || round->what == HAL_REDUCE_SCATTER) {
    reduce_round(round, rank_count);
    return;
  }
  for (uint32_t i = 0; i < rank_count; ++i) {
    unsigned char *out = round->parts[i]->out;
    if (round->what == HAL_BROADCAST) {
      if (round->parts[i]->out_bytes != 0) memcpy(out, round->parts[round->root]->in, one);
      continue;
    }
    for (uint32_t k = 0; k < rank_count; ++k) {
      const uint64_t from = round->what == HAL_ALL_GATHER ? 0 : i * one;
      memcpy(out + k * one, round->parts[k]->in + from, one);
    }
  }
}

// Whether a rank left before it began this round. Caller holds the circle's lock.
static int lacks_a_rank(const hal_circle *circle, const hal_round *round) {
  uint32_t left = 0;
  for (uint32_t i = 0; i < circle->rank_count; ++i) left += circle->has_left[i];
  return left > 0 && round->begun < circle->rank_count && round->begun + left >= circle->rank_count;
}

// Waits in a round until it is done or fails. Caller holds the circle's lock.
static int32_t wait_for_round(hal_circle *circle, hal_round *round, uint64_t timeout_ns) {
  const uint64_t deadline_ns = hal_deadline_ns(timeout_ns);
  while (round->state != IS_DONE) {
    if (round->state == IS_OPEN) {
      if (circle->status != HAL_OK) return circle->status;
      if (lacks_a_rank(circle, round)) {
        hal_circle_fail(circle, HAL_ERROR_PEER_FAILED);
        return circle->status;
      }
      if (!hal_circle_wait(circle, deadline_ns)) {
        hal_circle_fail(circle, HAL_ERROR_TIMEOUT);
        return circle->status;
      }
    } else {
      // The last rank reads this rank's memory now; it will not take long.
      hal_circle_wait(circle, UINT64_MAX);
    }
  }
  return HAL_OK;
}

int32_t hal_round_arrive(void *user, int32_t reached) {
  hal_part *part = user;
  hal_circle *circle = part->rank->circle;
  hal_round *round = part->round;
  int32_t status = reached;
  pthread_mutex_lock(&circle->lock);
  if (reached != HAL_OK) hal_circle_fail(circle, HAL_ERROR_PEER_FAILED);
  if (status == HAL_OK) status = circle->status;
  if (status == HAL_OK) {
    round->parts[part->rank->rank] = part;
    round->arrived += 1;
    if (round->arrived == circle->rank_count) {
      round->state = IS_COMPUTED_NOW;
      pthread_mutex_unlock(&circle->lock);
      compute_round(round, circle->rank_count);
      pthread_mutex_lock(&circle->lock);
      round->state = IS_DONE;
      pthread_cond_broadcast(&circle->changed);
    } else {
      status = wait_for_round(circle, round, part->rank->timeout_ns);
    }
  }
  if (status != HAL_OK) round->arrived = 0;  // It failed for all: nobody computes any more.
  leave_round(circle, round);
  pthread_mutex_unlock(&circle->lock);
  hal_part_release(part);
  return status;
}
