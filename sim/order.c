#include "order.h"

#include <stdlib.h>
#include <string.h>

// A moment under a name: a point of the kit, or an event.
typedef struct named {
  uint64_t key;
  sim_moment at;
} named;

typedef struct names {
  named *all;
  uint32_t count, room;
} names;

static struct {
  uint64_t handles[SIM_MOST_STREAMS];
  uint64_t devices[SIM_MOST_STREAMS];
  sim_moment streams[SIM_MOST_STREAMS];
  uint32_t count;
  sim_moment host;
  names points, events;
} order;

static void join(sim_moment *into, const sim_moment *from) {
  for (uint32_t i = 0; i < order.count; ++i) {
    into->over[i] = into->over[i] < from->over[i] ? from->over[i] : into->over[i];
  }
}

static sim_moment *find(names *list, uint64_t key) {
  for (uint32_t i = list->count; i > 0; --i) {
    if (list->all[i - 1].key == key) {
      return &list->all[i - 1].at;
    }
  }
  return NULL;
}

static void keep(names *list, uint64_t key, const sim_moment *moment) {
  sim_moment *old = find(list, key);
  if (old == NULL && list->count == list->room) {
    uint32_t room = list->room == 0 ? 64 : 2 * list->room;
    named *more = realloc(list->all, room * sizeof(*more));
    if (more == NULL) {
      return;
    }
    list->all = more;
    list->room = room;
  }
  if (old == NULL) {
    list->all[list->count].key = key;
    old = &list->all[list->count++].at;
  }
  *old = *moment;
}

void sim_order_reset(void) {
  free(order.points.all);
  free(order.events.all);
  memset(&order, 0, sizeof(order));
}

// Whether the host knows all that a stream knows, so that a new stream may go on from there: its
// operations come after all of those.
static bool is_seen(uint32_t stream) {
  for (uint32_t i = 0; i < order.count; ++i) {
    if (order.streams[stream].over[i] > order.host.over[i]) {
      return false;
    }
  }
  return true;
}

bool sim_order_stream(uint64_t handle, uint64_t device, uint32_t *out) {
  for (*out = 0; *out < order.count; ++*out) {
    if (order.handles[*out] == handle) {
      return true;
    }
  }
  if (order.count < SIM_MOST_STREAMS) {
    ++order.count;
  } else {
    for (*out = 0; *out < order.count && !is_seen(*out); ++*out) {
    }
    if (*out == order.count) {
      return false;
    }
  }
  order.handles[*out] = handle;
  order.devices[*out] = device;
  return true;
}

void sim_order_step(uint32_t stream, sim_moment *out) {
  join(&order.streams[stream], &order.host);
  ++order.streams[stream].over[stream];
  *out = order.streams[stream];
}

void sim_order_record(uint32_t stream, const void *point) {
  keep(&order.points, (uint64_t)(uintptr_t)point, &order.streams[stream]);
}

void sim_order_wait(uint32_t stream, const void *point) {
  const sim_moment *at = find(&order.points, (uint64_t)(uintptr_t)point);
  join(&order.streams[stream], at == NULL ? &order.host : at);
}

void sim_order_name_event(uint64_t event, uint32_t stream) {
  keep(&order.events, event, &order.streams[stream]);
}

void sim_order_host_saw_stream(uint32_t stream) {
  join(&order.host, &order.streams[stream]);
}

void sim_order_host_saw_device(uint64_t device) {
  for (uint32_t i = 0; i < order.count; ++i) {
    if (order.devices[i] == device) {
      join(&order.host, &order.streams[i]);
    }
  }
}

void sim_order_host_saw_event(uint64_t event) {
  const sim_moment *at = find(&order.events, event);
  if (at != NULL) {
    join(&order.host, at);
  }
}
