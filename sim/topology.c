// Links between the devices of a system: the shortest ways, by the number of links.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

typedef struct node {
  char name[SIM_NAME_BYTES];
  double latency_ns;  // Of a switch.
} node;

typedef struct hop {  // How a device is reached from another.
  int32_t link;       // The last link on the way; −1: none.
  uint16_t hops;
  float bytes_per_s;
} hop;

struct sim_topology {
  uint32_t devices, node_count, link_count;
  node *nodes;
  sim_link *links;
  uint32_t *first, *around;  // Links around a node: around[first[n]] … around[first[n + 1] − 1].
  hop **from;                // Ways from a device to each node; made when they are asked for.
};

static uint32_t count_ids(const kit_hcd *hcd, const char *section) {
  char id[SIM_NAME_BYTES];
  uint32_t count = 0;
  for (size_t cursor = 0; kit_hcd_next_id(hcd, section, &cursor, id, sizeof(id));) {
    ++count;
  }
  return count;
}

static int find_node(const sim_topology *self, const char *name, uint32_t *out) {
  for (uint32_t i = 0; i < self->node_count; ++i) {
    if (strcmp(self->nodes[i].name, name) == 0) {
      *out = i;
      return 1;
    }
  }
  return 0;
}

static int read_link(const sim_topology *self, const kit_hcd *system, const char *id,
                     sim_link *out) {
  char path[300], end[SIM_NAME_BYTES];
  snprintf(path, sizeof(path), "links.%.120s.ends", id);
  for (size_t i = 0; i < 2; ++i) {
    if (!kit_hcd_list_item(system, path, i, end, sizeof(end)) ||
        !find_node(self, end, &out->ends[i])) {
      return 0;
    }
  }
  double count = kit_hcd_number(system, "links", id, "count");
  double payload = kit_hcd_number(system, "links", id, "max_payload_bytes");
  double header = kit_hcd_number(system, "links", id, "header_bytes");
  out->bytes_per_s = kit_hcd_number(system, "links", id, "bytes_per_s") * (count > 0 ? count : 1);
  if (payload > 0) {
    out->bytes_per_s *= payload / (payload + header);
  }
  out->bytes_per_s /= sim_options_now()->slow_link;
  out->latency_ns = kit_hcd_number(system, "links", id, "latency_ns");
  snprintf(path, sizeof(path), "links.%.120s.duplex", id);
  const char *duplex = kit_hcd_text(system, path);
  out->full_duplex = duplex == NULL || strcmp(duplex, "half") != 0;
  out->ways[0].capacity = out->ways[1].capacity = 1;
  snprintf(out->id, sizeof(out->id), "%.120s", id);
  return 1;
}

static void list_links_around(sim_topology *self) {
  for (uint32_t i = 0; i < self->link_count; ++i) {
    for (int end = 0; end < 2; ++end) {
      ++self->first[self->links[i].ends[end] + 1];
    }
  }
  for (uint32_t n = 0; n < self->node_count; ++n) {
    self->first[n + 1] += self->first[n];
  }
  uint32_t *next = calloc(self->node_count + 1u, sizeof(*next));
  for (uint32_t i = 0; next != NULL && i < self->link_count; ++i) {
    for (int end = 0; end < 2; ++end) {
      uint32_t n = self->links[i].ends[end];
      self->around[self->first[n] + next[n]++] = i;
    }
  }
  free(next);
}

static void read_graph(sim_topology *self, const kit_hcd *system) {
  char id[SIM_NAME_BYTES];
  for (size_t cursor = 0; kit_hcd_next_id(system, "switches", &cursor, id, sizeof(id));) {
    node *fresh = &self->nodes[self->node_count++];
    snprintf(fresh->name, sizeof(fresh->name), "%s", id);
    fresh->latency_ns = kit_hcd_number(system, "switches", id, "latency_ns");
  }
  for (size_t cursor = 0; kit_hcd_next_id(system, "links", &cursor, id, sizeof(id));) {
    if (read_link(self, system, id, &self->links[self->link_count])) {
      ++self->link_count;
    }
  }
  list_links_around(self);
}

sim_topology *sim_topology_create(const kit_hcd *system, const char *const *devices,
                                  uint32_t count) {
  sim_topology *self = calloc(1, sizeof(*self));
  if (self == NULL) {
    return NULL;
  }
  uint32_t nodes = count + count_ids(system, "switches"), links = count_ids(system, "links");
  self->devices = self->node_count = count;
  self->nodes = calloc(nodes + 1u, sizeof(*self->nodes));
  self->links = calloc(links + 1u, sizeof(*self->links));
  self->first = calloc(nodes + 2u, sizeof(*self->first));
  self->around = calloc(2 * links + 1u, sizeof(*self->around));
  self->from = calloc(count + 1u, sizeof(*self->from));
  if (self->nodes == NULL || self->links == NULL || self->first == NULL || self->around == NULL ||
      self->from == NULL) {
    sim_topology_free(self);
    return NULL;
  }
  for (uint32_t i = 0; i < count; ++i) {
    snprintf(self->nodes[i].name, sizeof(self->nodes[i].name), "%s", devices[i]);
  }
  read_graph(self, system);
  return self;
}

void sim_topology_free(sim_topology *self) {
  if (self == NULL) {
    return;
  }
  for (uint32_t i = 0; self->from != NULL && i < self->devices; ++i) {
    free(self->from[i]);
  }
  free(self->from);
  free(self->nodes);
  free(self->links);
  free(self->first);
  free(self->around);
  free(self);
}

uint32_t sim_topology_link_count(const sim_topology *self) {
  return self == NULL ? 0 : self->link_count;
}

sim_link *sim_topology_link(sim_topology *self, uint32_t index) {
  return &self->links[index];
}

void sim_topology_reset(sim_topology *self) {
  for (uint32_t i = 0; i < sim_topology_link_count(self); ++i) {
    sim_resource_reset(&self->links[i].ways[0]);
    sim_resource_reset(&self->links[i].ways[1]);
  }
}

static float narrower(float left, double right) {
  return left == 0 || right < (double)left ? (float)right : left;
}

// Breadth first from one device; of ways with as many links the widest.
static hop *search(const sim_topology *self, uint32_t from) {
  hop *ways = calloc(self->node_count, sizeof(*ways));
  uint32_t *queue = calloc(self->node_count, sizeof(*queue));
  if (ways == NULL || queue == NULL) {
    free(ways);
    free(queue);
    return NULL;
  }
  for (uint32_t i = 0; i < self->node_count; ++i) {
    ways[i].link = -1;
  }
  uint32_t head = 0, tail = 1;
  queue[0] = from;
  for (; head < tail; ++head) {
    uint32_t here = queue[head];
    for (uint32_t k = self->first[here]; k < self->first[here + 1]; ++k) {
      const sim_link *link = &self->links[self->around[k]];
      uint32_t there = link->ends[link->ends[0] == here];
      uint16_t hops = (uint16_t)(ways[here].hops + 1);
      float rate = narrower(ways[here].bytes_per_s, link->bytes_per_s);
      if (there == from ||
          (ways[there].link >= 0 && (hops > ways[there].hops || rate <= ways[there].bytes_per_s))) {
        continue;
      }
      if (ways[there].link < 0) {
        queue[tail++] = there;
      }
      ways[there] = (hop){(int32_t)self->around[k], hops, rate};
    }
  }
  free(queue);
  return ways;
}

// The table is made under the caller's lock or at start; see port.c.
static const hop *ways_from(const sim_topology *self, uint32_t from) {
  if (self->from[from] == NULL) {
    self->from[from] = search(self, from);
  }
  return self->from[from];
}

sim_route sim_topology_route(const sim_topology *self, uint32_t from, uint32_t to) {
  sim_route route = {0, 0, 0};
  const hop *ways = self == NULL || from == to ? NULL : ways_from(self, from);
  if (ways == NULL || ways[to].link < 0) {
    return route;
  }
  for (uint32_t at = to; at != from;) {
    const sim_link *link = &self->links[ways[at].link];
    if (route.bytes_per_s == 0 || link->bytes_per_s < route.bytes_per_s) {
      route.bytes_per_s = link->bytes_per_s;
    }
    route.latency_ns += link->latency_ns + self->nodes[at].latency_ns;
    at = link->ends[link->ends[0] == at];
  }
  route.exists = 1;
  return route;
}

uint32_t sim_topology_ways(sim_topology *self, uint32_t from, uint32_t to, sim_resource **out,
                           const char **out_names, uint32_t room) {
  const hop *ways = self == NULL || from == to ? NULL : ways_from(self, from);
  uint32_t count = 0;
  if (ways == NULL || ways[to].link < 0) {
    return 0;
  }
  for (uint32_t at = to; at != from;) {
    sim_link *link = &self->links[ways[at].link];
    uint32_t before = link->ends[link->ends[0] == at];
    if (count < room) {
      out[count] = &link->ways[link->full_duplex && link->ends[0] != before];
      out_names[count++] = link->id;
    }
    at = before;
  }
  return count;
}
