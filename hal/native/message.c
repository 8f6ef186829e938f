// Send and receive between two ranks. A send hands its bytes over and goes on; a receive waits for
// the oldest bytes from its peer.
#include <string.h>

#include "circle.h"

int32_t hal_message_send(void *user, int32_t reached) {
  hal_part *part = user;
  hal_circle *circle = part->rank->circle;
  hal_message *message = reached == HAL_OK ? malloc(sizeof(*message) + part->in_bytes) : NULL;
  pthread_mutex_lock(&circle->lock);
  circle->sends[part->rank->rank] -= 1;
  if (message == NULL) {
    hal_circle_fail(circle, HAL_ERROR_PEER_FAILED);
  } else {
    *message = (hal_message){
        .source = part->rank->rank, .target = part->desc.peer, .bytes = part->in_bytes};
    memcpy(message->data, part->in, part->in_bytes);
    hal_message **at = &circle->messages;
    while (*at != NULL) at = &(*at)->next;
    *at = message;
    pthread_cond_broadcast(&circle->changed);
  }
  pthread_mutex_unlock(&circle->lock);
  hal_part_release(part);
  return reached;
}

// Takes the oldest message of a pair; NULL when there is none. Caller holds the circle's lock.
static hal_message *take_message(hal_circle *circle, uint32_t source, uint32_t target) {
  for (hal_message **at = &circle->messages; *at != NULL; at = &(*at)->next) {
    hal_message *message = *at;
    if (message->source != source || message->target != target) continue;
    *at = message->next;
    return message;
  }
  return NULL;
}

int32_t hal_message_recv(void *user, int32_t reached) {
  hal_part *part = user;
  hal_circle *circle = part->rank->circle;
  const uint64_t deadline_ns = hal_deadline_ns(part->rank->timeout_ns);
  hal_message *message = NULL;
  int32_t status = reached;
  pthread_mutex_lock(&circle->lock);
  while (status == HAL_OK) {
    message = take_message(circle, part->desc.peer, part->rank->rank);
    if (message != NULL) break;
    status = circle->status;
    const int comes_no_more =
        circle->has_left[part->desc.peer] && circle->sends[part->desc.peer] == 0;
    if (status == HAL_OK && comes_no_more) status = HAL_ERROR_PEER_FAILED;
    if (status == HAL_OK && !hal_circle_wait(circle, deadline_ns)) status = HAL_ERROR_TIMEOUT;
  }
  if (message != NULL && message->bytes != part->out_bytes) status = HAL_ERROR_INVALID_VALUE;
  if (status != HAL_OK) {
    hal_circle_fail(circle, reached != HAL_OK ? HAL_ERROR_PEER_FAILED : status);
  }
  pthread_mutex_unlock(&circle->lock);
  if (status == HAL_OK) memcpy(part->out, message->data, message->bytes);
  free(message);
  hal_part_release(part);
  return status;
}
