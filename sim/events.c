// Collectives as events. A rank sends its message of step s when the one of step s − 1 has arrived.
//
// Ring (Patarasuk and Yuan, 2009): 2 · (n − 1) steps of bytes / n to the next rank. Recursive
// doubling: log2(n) steps of all bytes with the rank whose number differs in one bit.
#include "events.h"

#include <stdlib.h>

typedef struct event {
  double at_ns;
  uint64_t id;  // step · ranks + rank: ties go in a fixed order.
} event;

typedef struct plane {
  sim_topology *system;
  const sim_ring_links *ring;
  uint32_t ranks, steps, algorithm;
  double bytes, end_ns, count;
  event *heap;
  size_t waiting;
  double *free_ns;  // Of each link and direction.
} plane;

static int is_before(const event *a, const event *b) {
  return a->at_ns < b->at_ns || (a->at_ns == b->at_ns && a->id < b->id);
}

static void push(plane *p, event fresh) {
  size_t at = p->waiting++;
  for (; at > 0 && is_before(&fresh, &p->heap[(at - 1) / 2]); at = (at - 1) / 2) {
    p->heap[at] = p->heap[(at - 1) / 2];
  }
  p->heap[at] = fresh;
}

static event pop(plane *p) {
  event first = p->heap[0], last = p->heap[--p->waiting];
  size_t at = 0;
  for (;;) {
    size_t child = 2 * at + 1;
    if (child >= p->waiting) {
      break;
    }
    child += child + 1 < p->waiting && is_before(&p->heap[child + 1], &p->heap[child]);
    if (!is_before(&p->heap[child], &last)) {
      break;
    }
    p->heap[at] = p->heap[child];
    at = child;
  }
  p->heap[at] = last;
  return first;
}

static uint32_t peer_of(const plane *p, uint32_t rank, uint32_t step) {
  return p->algorithm == SIM_RING ? (rank + 1) % p->ranks : rank ^ (1u << step);
}

// Sends one message; its arrival, or a negative number without a way.
static double send(plane *p, uint32_t from, uint32_t to, double ready_ns) {
  double bytes = p->algorithm == SIM_RING ? p->bytes / p->ranks : p->bytes;
  if (p->system == NULL) {
    double begin = ready_ns > p->free_ns[from] ? ready_ns : p->free_ns[from];
    p->free_ns[from] = begin + bytes * 1e9 / p->ring->bytes_per_s;
    return p->free_ns[from] + p->ring->latency_ns;
  }
  sim_resource *ways[64];
  const char *names[64];
  sim_route route = sim_topology_route(p->system, from, to);
  uint32_t count = sim_topology_ways(p->system, from, to, ways, names, 64);
  if (!route.exists || count == 64) {
    return -1;
  }
  uint64_t duration = (uint64_t)(bytes * 1e9 / route.bytes_per_s);
  uint64_t begin = (uint64_t)ready_ns;
  for (uint32_t i = 0; i < count; ++i) {
    begin = ways[i]->floor_ns > begin ? ways[i]->floor_ns : begin;
  }
  for (uint32_t i = 0; i < count; ++i) {
    ways[i]->floor_ns = begin + duration;
  }
  return (double)(begin + duration) + route.latency_ns;
}

static int32_t work(plane *p) {
  for (uint32_t rank = 0; rank < p->ranks; ++rank) {
    push(p, (event){0, rank});
  }
  while (p->waiting > 0) {
    event now = pop(p);
    uint32_t rank = (uint32_t)(now.id % p->ranks), step = (uint32_t)(now.id / p->ranks);
    uint32_t peer = peer_of(p, rank, step);
    double arrival = send(p, rank, peer, now.at_ns);
    if (arrival < 0) {
      return kit_fail(HAL_ERROR_NOT_FOUND, "devices %u and %u have no way between them", rank,
                      peer);
    }
    p->count += 1;
    p->end_ns = arrival > p->end_ns ? arrival : p->end_ns;
    if (step + 1 < p->steps) {
      push(p, (event){arrival, (uint64_t)(step + 1) * p->ranks + peer});
    }
  }
  return HAL_OK;
}

// An all-reduce has the links to itself: what operations have taken is put back afterwards.
static int32_t work_on_links(plane *p) {
  uint32_t links = sim_topology_link_count(p->system);
  uint64_t *floors = calloc(2 * (size_t)links + 1, sizeof(*floors));
  if (floors == NULL) {
    return kit_fail(HAL_ERROR_OUT_OF_MEMORY, "no host memory for %u links", links);
  }
  for (uint32_t i = 0; i < 2 * links; ++i) {
    sim_resource *way = &sim_topology_link(p->system, i / 2)->ways[i % 2];
    floors[i] = way->floor_ns;
    way->floor_ns = 0;
  }
  int32_t status = work(p);
  for (uint32_t i = 0; i < 2 * links; ++i) {
    sim_topology_link(p->system, i / 2)->ways[i % 2].floor_ns = floors[i];
  }
  free(floors);
  return status;
}

int32_t sim_all_reduce(sim_topology *system, const sim_ring_links *links, uint32_t ranks,
                       double bytes, uint32_t algorithm, double *out_ns, double *out_events) {
  int is_power = ranks != 0 && (ranks & (ranks - 1)) == 0;
  if (ranks == 0 || ranks > (1u << 20) || algorithm > SIM_DOUBLING || !(bytes >= 0) ||
      (algorithm == SIM_DOUBLING && (!is_power || system == NULL)) ||
      (system == NULL && !(links->bytes_per_s > 0 && links->latency_ns >= 0))) {
    return kit_fail(HAL_ERROR_INVALID_VALUE,
                    "an all-reduce has 1 to 2^20 ranks, a ring or (in a system, with a power of "
                    "two ranks) doubling, and links with a bandwidth; given: %u ranks, algorithm "
                    "%u, %g bytes",
                    ranks, algorithm, bytes);
  }
  plane p = {
      .system = system, .ring = links, .ranks = ranks, .bytes = bytes, .algorithm = algorithm};
  p.steps = 2 * (ranks - 1);
  for (uint32_t reach = 1; algorithm == SIM_DOUBLING && reach <= ranks; reach *= 2) {
    p.steps = reach == 1 ? 0 : p.steps + 1;
  }
  p.heap = malloc((size_t)ranks * 2 * sizeof(*p.heap));
  p.free_ns = calloc(ranks, sizeof(*p.free_ns));
  int32_t status = HAL_OK;
  if (p.heap == NULL || p.free_ns == NULL) {
    status = kit_fail(HAL_ERROR_OUT_OF_MEMORY, "no host memory for %u ranks", ranks);
  } else if (p.steps > 0) {
    status = system == NULL ? work(&p) : work_on_links(&p);
  }
  free(p.heap);
  free(p.free_ns);
  *out_ns = p.end_ns;
  *out_events = p.count;
  return status;
}
