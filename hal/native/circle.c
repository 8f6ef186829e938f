// What ranks share, and how long it lives: circles, ranks and parts, held and let go.
#include "circle.h"

#include <time.h>

hal_circle *hal_circle_make(const hal_comm_desc *desc) {
  hal_circle *circle = calloc(1, sizeof(*circle));
  if (circle == NULL) return NULL;
  circle->ranks = calloc(desc->rank_count, sizeof(*circle->ranks));
  circle->has_left = calloc(desc->rank_count, 1);
  circle->sends = calloc(desc->rank_count, sizeof(*circle->sends));
  if (circle->ranks == NULL || circle->has_left == NULL || circle->sends == NULL) {
    free(circle->ranks);
    free(circle->has_left);
    free(circle->sends);
    free(circle);
    return NULL;
  }
  circle->id = desc->id;
  circle->rank_count = desc->rank_count;
  pthread_mutex_init(&circle->lock, NULL);
  pthread_condattr_t clock;
  pthread_condattr_init(&clock);
  pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
  pthread_cond_init(&circle->changed, &clock);
  pthread_condattr_destroy(&clock);
  return circle;
}

static void free_rounds(hal_circle *circle) {
  while (circle->rounds != NULL) {
    hal_round *round = circle->rounds;
    circle->rounds = round->next;
    free(round);
  }
}

static void free_messages(hal_circle *circle) {
  while (circle->messages != NULL) {
    hal_message *message = circle->messages;
    circle->messages = message->next;
    free(message);
  }
}

static void free_circle(hal_circle *circle) {
  free_messages(circle);
  free_rounds(circle);
  pthread_mutex_destroy(&circle->lock);
  pthread_cond_destroy(&circle->changed);
  free(circle->ranks);
  free(circle->has_left);
  free(circle->sends);
  free(circle);
}

void hal_circle_fail(hal_circle *circle, int32_t status) {
  if (circle->status == HAL_OK) circle->status = status;
  pthread_cond_broadcast(&circle->changed);
}

int hal_circle_wait(hal_circle *circle, uint64_t deadline_ns) {
  const uint64_t limit_ns = UINT64_C(1000000000) * 3600 * 24 * 365;  // A time that all clocks know.
  const uint64_t now = hal_now_ns();
  if (now >= deadline_ns) return 0;
  const uint64_t until_ns = deadline_ns - now < limit_ns ? deadline_ns : now + limit_ns;
  const struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000u),
                                 .tv_nsec = (long)(until_ns % 1000000000u)};
  pthread_cond_timedwait(&circle->changed, &circle->lock, &until);
  return 1;
}

void hal_rank_hold(hal_rank *rank) {
  pthread_mutex_lock(&rank->circle->lock);
  rank->user_count += 1;
  pthread_mutex_unlock(&rank->circle->lock);
}

void hal_rank_drop(hal_rank *rank) {
  hal_circle *circle = rank->circle;
  pthread_mutex_lock(&circle->lock);
  const int is_last_of_rank = --rank->user_count == 0;
  if (is_last_of_rank) circle->user_count -= 1;
  const int is_last = circle->user_count == 0;
  pthread_mutex_unlock(&circle->lock);
  if (is_last_of_rank) free(rank);
  if (is_last) free_circle(circle);
}

void hal_part_release(hal_part *part) {
  if (atomic_fetch_sub(&part->user_count, 1) != 1) return;
  hal_rank_drop(part->rank);
  free(part->in);
  free(part);
}
