// Threads that do host work in the order of a stream, for ports that cannot call the host: the
// stream records one event and waits for another, which the thread signals after the work.
#include <time.h>

#include "emulation.h"

enum { SLICE_NS = 50000000 };  // How long a thread waits for the device at a time.

typedef struct hal_job {
  struct hal_job *next;
  hal_device device;  // Whose events these are.
  hal_event reached;
  hal_event gate;
  hal_job_fn function;
  void *user;
} hal_job;

struct hal_lane {
  hal_lane *next;
  hal_emulation *emulation;
  hal_lane_id id;
  pthread_t thread;
  hal_job *first, *last;
  int is_leaving;
  int is_done;  // The thread does nothing more; it can be joined.
};

void hal_event_drop(hal_emulation *emulation, hal_event event) {
  if (event != 0) emulation->next->calls->event_destroy(emulation->next, event);
}

static int is_ending(hal_emulation *emulation) {
  pthread_mutex_lock(&emulation->lane_lock);
  const int ending = emulation->is_ending;
  pthread_mutex_unlock(&emulation->lane_lock);
  return ending;
}

static int32_t wait_until_reached(hal_emulation *emulation, hal_event reached) {
  hal_layer *next = emulation->next;
  if (reached == 0) return HAL_OK;
  for (;;) {
    const int32_t status = next->calls->event_synchronize(next, reached, SLICE_NS);
    if (status != HAL_ERROR_TIMEOUT || is_ending(emulation)) return status;
    // TIMEOUT may also be what the stream failed with; then the event is complete.
    const int32_t now = next->calls->event_query(next, reached);
    if (now != HAL_NOT_READY) return now;
  }
}

static void do_job(hal_emulation *emulation, const hal_job *job) {
  hal_layer *next = emulation->next;
  const int32_t status = job->function(job->user, wait_until_reached(emulation, job->reached));
  if (job->gate != 0) {
    next->calls->event_signal(next, job->gate, status > HAL_OK ? HAL_OK : status);
  }
  hal_event_drop(emulation, job->reached);
  hal_event_drop(emulation, job->gate);
}

static void *run_lane(void *argument) {
  hal_lane *lane = argument;
  hal_emulation *emulation = lane->emulation;
  pthread_mutex_lock(&emulation->lane_lock);
  while (lane->first != NULL || (!lane->is_leaving && !emulation->is_ending)) {
    hal_job *job = lane->first;
    if (job == NULL) {
      pthread_cond_wait(&emulation->lane_changed, &emulation->lane_lock);
      continue;
    }
    pthread_mutex_unlock(&emulation->lane_lock);
    do_job(emulation, job);
    pthread_mutex_lock(&emulation->lane_lock);
    lane->first = job->next;
    if (lane->first == NULL) lane->last = NULL;
    free(job);
    emulation->job_count -= 1;
    pthread_cond_broadcast(&emulation->lane_changed);
  }
  lane->is_done = 1;
  pthread_mutex_unlock(&emulation->lane_lock);
  return NULL;
}

// Joins the threads that have nothing more to do. Caller holds the lane lock.
static void join_done(hal_emulation *emulation) {
  for (hal_lane **at = &emulation->lanes; *at != NULL;) {
    hal_lane *lane = *at;
    if (!lane->is_done) {
      at = &lane->next;
      continue;
    }
    *at = lane->next;
    pthread_join(lane->thread, NULL);
    free(lane);
  }
}

static int is_lane(const hal_lane *lane, hal_lane_id id) {
  return lane->id.owner == id.owner && lane->id.number == id.number && !lane->is_leaving;
}

// The lane of a name, started when there is none. Caller holds the lane lock.
static hal_lane *lane_of(hal_emulation *emulation, hal_lane_id id) {
  join_done(emulation);
  for (hal_lane *lane = emulation->lanes; lane != NULL; lane = lane->next) {
    if (is_lane(lane, id)) return lane;
  }
  hal_lane *lane = calloc(1, sizeof(*lane));
  if (lane == NULL) return NULL;
  lane->emulation = emulation;
  lane->id = id;
  if (pthread_create(&lane->thread, NULL, run_lane, lane) != 0) {
    free(lane);
    return NULL;
  }
  lane->next = emulation->lanes;
  emulation->lanes = lane;
  return lane;
}

int32_t hal_lane_add(hal_emulation *emulation, hal_lane_id id, hal_device device, hal_event reached,
                     hal_event gate, hal_job_fn function, void *user) {
  hal_job *job = malloc(sizeof(*job));
  hal_lane *lane = NULL;
  pthread_mutex_lock(&emulation->lane_lock);
  if (job != NULL && !emulation->is_ending) lane = lane_of(emulation, id);
  if (lane != NULL) {
    *job = (hal_job){
        .device = device, .reached = reached, .gate = gate, .function = function, .user = user};
    if (lane->last != NULL) lane->last->next = job;
    if (lane->first == NULL) lane->first = job;
    lane->last = job;
    emulation->job_count += 1;
    pthread_cond_broadcast(&emulation->lane_changed);
  }
  pthread_mutex_unlock(&emulation->lane_lock);
  if (lane != NULL) return HAL_OK;
  free(job);
  return hal_record(emulation->port, HAL_ERROR_OUT_OF_MEMORY, "no host memory or no thread");
}

void hal_lane_leave(hal_emulation *emulation, hal_lane_id id) {
  pthread_mutex_lock(&emulation->lane_lock);
  for (hal_lane *lane = emulation->lanes; lane != NULL; lane = lane->next) {
    if (is_lane(lane, id)) lane->is_leaving = 1;
  }
  pthread_cond_broadcast(&emulation->lane_changed);
  pthread_mutex_unlock(&emulation->lane_lock);
}

int32_t hal_lane_mark(hal_emulation *emulation, hal_stream stream, hal_event *out_reached) {
  hal_layer *next = emulation->next;
  const hal_device device = hal_stream_device(emulation, stream);
  if (device == 0) return hal_refuse_handle(emulation, "stream", stream);
  hal_event event = 0;
  int32_t status = next->calls->event_create(next, device, 0, &event);
  if (status != HAL_OK) return status;
  status = next->calls->event_record(next, event, stream);
  if (status != HAL_OK) {
    hal_event_drop(emulation, event);
    return status;
  }
  *out_reached = event;
  return HAL_OK;
}

int32_t hal_lane_gate(hal_emulation *emulation, hal_stream stream, hal_event *out_gate) {
  hal_layer *next = emulation->next;
  const hal_device device = hal_stream_device(emulation, stream);
  if (device == 0) return hal_refuse_handle(emulation, "stream", stream);
  hal_event event = 0;
  int32_t status = next->calls->event_create(next, device, HAL_EVENT_FLAG_HOST, &event);
  if (status != HAL_OK) return status;
  status = next->calls->stream_wait_event(next, stream, event);
  if (status != HAL_OK) {
    hal_event_drop(emulation, event);
    return status;
  }
  *out_gate = event;
  return HAL_OK;
}

int32_t hal_lane_hold(hal_emulation *emulation, hal_stream stream, hal_job_fn function,
                      void *user) {
  hal_event reached = 0, gate = 0;
  int32_t status = hal_lane_mark(emulation, stream, &reached);
  if (status == HAL_OK) status = hal_lane_gate(emulation, stream, &gate);
  if (status == HAL_OK)
    status = hal_lane_add(emulation, hal_lane_of_stream(stream),
                          hal_stream_device(emulation, stream), reached, gate, function, user);
  if (status == HAL_OK) return HAL_OK;
  hal_event_drop(emulation, reached);
  hal_event_drop(emulation, gate);  // Ends the wait with an error, if it was enqueued.
  return status;
}

int32_t hal_lane_follow(hal_emulation *emulation, hal_stream stream, hal_job_fn function,
                        void *user) {
  hal_event reached = 0;
  int32_t status = hal_lane_mark(emulation, stream, &reached);
  if (status == HAL_OK)
    status = hal_lane_add(emulation, hal_lane_of_stream(stream),
                          hal_stream_device(emulation, stream), reached, 0, function, user);
  if (status != HAL_OK) hal_event_drop(emulation, reached);
  return status;
}

// Whether a job of the device, or any for 0, is not done. Caller holds the lane lock.
static int has_job(const hal_emulation *emulation, hal_device device) {
  if (emulation->job_count == 0 || device == 0) return emulation->job_count != 0;
  for (const hal_lane *lane = emulation->lanes; lane != NULL; lane = lane->next) {
    for (const hal_job *job = lane->first; job != NULL; job = job->next) {
      if (job->device == device) return 1;
    }
  }
  return 0;
}

int32_t hal_emulation_settle(hal_emulation *emulation, hal_device device, uint64_t deadline_ns) {
  if (emulation == NULL) return HAL_OK;
  int32_t status = HAL_OK;
  pthread_mutex_lock(&emulation->lane_lock);
  while (has_job(emulation, device)) {
    const uint64_t now = hal_now_ns();
    if (now >= deadline_ns) {
      status = HAL_ERROR_TIMEOUT;
      break;
    }
    const uint64_t step = deadline_ns - now < SLICE_NS ? deadline_ns - now : SLICE_NS;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    const uint64_t sum = (uint64_t)until.tv_nsec + step;
    until.tv_sec += (time_t)(sum / 1000000000u);
    until.tv_nsec = (long)(sum % 1000000000u);
    pthread_cond_timedwait(&emulation->lane_changed, &emulation->lane_lock, &until);
  }
  pthread_mutex_unlock(&emulation->lane_lock);
  return status;
}

void hal_lanes_end(hal_emulation *emulation) {
  pthread_mutex_lock(&emulation->lane_lock);
  emulation->is_ending = 1;
  pthread_cond_broadcast(&emulation->lane_changed);
  while (emulation->lanes != NULL) {
    hal_lane *lane = emulation->lanes;
    emulation->lanes = lane->next;
    pthread_mutex_unlock(&emulation->lane_lock);
    pthread_join(lane->thread, NULL);
    free(lane);
    pthread_mutex_lock(&emulation->lane_lock);
  }
  pthread_mutex_unlock(&emulation->lane_lock);
}
