// Links between the devices of a system: the shortest way, by the number of hops.
#include <stdio.h>
#include <string.h>

#include "sim.h"

enum { MOST_NODES = 2 * SIM_MOST_DEVICES, NAME_BYTES = 128 };

typedef struct node {
  char name[NAME_BYTES];
  int hops;  // −1: not reached.
  double bytes_per_s, latency_ns;
} node;

typedef struct link {
  char ends[2][NAME_BYTES];
  double bytes_per_s, latency_ns;
} link;

static double number(const kit_hcd *hcd, const char *section, const char *id, const char *key) {
  char path[300];
  double value = 0;
  snprintf(path, sizeof(path), "%s.%s.%s", section, id, key);
  kit_hcd_f64(hcd, path, &value);
  return value;
}

static int read_link(const kit_hcd *system, const char *id, link *out) {
  char path[300];
  snprintf(path, sizeof(path), "links.%s.ends", id);
  if (!kit_hcd_list_item(system, path, 0, out->ends[0], NAME_BYTES) ||
      !kit_hcd_list_item(system, path, 1, out->ends[1], NAME_BYTES)) {
    return 0;
  }
  double count = number(system, "links", id, "count");
  double payload = number(system, "links", id, "max_payload_bytes");
  double header = number(system, "links", id, "header_bytes");
  out->bytes_per_s = number(system, "links", id, "bytes_per_s") * (count > 0 ? count : 1);
  if (payload > 0) {
    out->bytes_per_s *= payload / (payload + header);
  }
  out->latency_ns = number(system, "links", id, "latency_ns");
  return 1;
}

// The node of a name; a new one is not reached yet. NULL when there are too many.
static node *find_node(node *nodes, size_t *count, const char *name) {
  for (size_t i = 0; i < *count; ++i) {
    if (strcmp(nodes[i].name, name) == 0) {
      return &nodes[i];
    }
  }
  if (*count == MOST_NODES) {
    return NULL;
  }
  node *fresh = &nodes[(*count)++];
  memset(fresh, 0, sizeof(*fresh));
  snprintf(fresh->name, NAME_BYTES, "%s", name);
  fresh->hops = -1;
  return fresh;
}

// Takes the way over one link when it is shorter, or as short and wider; tells whether it was
// taken.
static int relax(const kit_hcd *system, const node *from, node *to, const link *over) {
  if (from->hops < 0) {
    return 0;
  }
  double rate = from->hops == 0 || over->bytes_per_s < from->bytes_per_s ? over->bytes_per_s
                                                                         : from->bytes_per_s;
  int hops = from->hops + 1;
  if (to->hops >= 0 && (hops > to->hops || (hops == to->hops && rate <= to->bytes_per_s))) {
    return 0;
  }
  to->hops = hops;
  to->bytes_per_s = rate;
  to->latency_ns =
      from->latency_ns + over->latency_ns + number(system, "switches", to->name, "latency_ns");
  return 1;
}

sim_route sim_find_route(const kit_hcd *system, const char *from, const char *to) {
  static _Thread_local node nodes[MOST_NODES];
  size_t count = 0;
  find_node(nodes, &count, from)->hops = 0;
  find_node(nodes, &count, to);
  for (int changed = 1; changed;) {
    changed = 0;
    char id[NAME_BYTES];
    for (size_t cursor = 0; kit_hcd_next_id(system, "links", &cursor, id, sizeof(id));) {
      link over;
      if (!read_link(system, id, &over)) {
        continue;
      }
      node *first = find_node(nodes, &count, over.ends[0]);
      node *second = find_node(nodes, &count, over.ends[1]);
      if (first != NULL && second != NULL) {
        changed |= relax(system, first, second, &over) | relax(system, second, first, &over);
      }
    }
  }
  const node *end = find_node(nodes, &count, to);
  return (sim_route){end->hops >= 0, end->bytes_per_s, end->latency_ns};
}
