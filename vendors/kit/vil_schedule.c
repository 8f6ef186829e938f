// From program classes to a launch: which programs are alike, how the classes fill the cores, and
// what the shared memories allow.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "vil_cost.h"
#include "vil_launch.h"

enum { MOST_CLASSES = 48, MOST_PIECES = 16, FEW_PROGRAMS = 16, MOST_GROUPS = 256 };

// Programs along one axis of the grid that are alike: [first, first + count).
typedef struct piece {
  uint64_t first, count;
} piece;

typedef struct classes {
  const vil_cost *cost;
  const vil_step *step;
  vil_scheduler *scheduler;
  vil_assumptions *assumed;
  uint32_t works, count;
  double time_ns[MOST_CLASSES], unit_ns[MOST_CLASSES];
  double *work;  // `works` numbers a class.
} classes;

// The class of one program instance. When the table is full the last class stands for the rest.
static uint32_t classify(classes *all, uint64_t x, uint64_t y, uint64_t z) {
  uint64_t ids[3] = {x, y, z};
  vil_class_cost cost = vil_scheduler_run(all->scheduler, ids);
  size_t bytes = all->works * sizeof(double);
  for (uint32_t i = 0; i < all->count; ++i) {
    if (all->time_ns[i] == cost.time_ns &&
        memcmp(all->work + (size_t)i * all->works, cost.work, bytes) == 0) {
      return i;
    }
  }
  if (all->count == MOST_CLASSES) {
    ++all->assumed->sampled_axes;
    return all->count - 1;
  }
  all->time_ns[all->count] = cost.time_ns;
  all->unit_ns[all->count] = cost.unit_ns;
  memcpy(all->work + (size_t)all->count * all->works, cost.work, bytes);
  return all->count++;
}

// The class at a position of one axis, with the other axes at their first or last position.
static uint32_t class_along(classes *all, int axis, uint64_t at, int last) {
  uint64_t ids[3];
  for (int other = 0; other < 3; ++other) {
    ids[other] = last ? all->step->grid[other] - 1 : 0;
  }
  ids[axis] = at;
  return classify(all, ids[0], ids[1], ids[2]);
}

// Cuts [low, high) where the class changes; both ends' classes are known.
static void cut(classes *all, int axis, int last, uint64_t low, uint64_t high, uint32_t low_class,
                uint32_t high_class, uint64_t *cuts, uint32_t *count) {
  if (low_class == high_class || *count >= MOST_PIECES - 1) {
    if (low_class != high_class) ++all->assumed->sampled_axes;
    return;
  }
  if (high - low == 1) {
    cuts[(*count)++] = high;
    return;
  }
  uint64_t middle = low + (high - low) / 2;
  uint32_t middle_class = class_along(all, axis, middle, last);
  cut(all, axis, last, low, middle, low_class, middle_class, cuts, count);
  cut(all, axis, last, middle, high, middle_class, high_class, cuts, count);
}

static int by_value(const void *left, const void *right) {
  uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
  return (a > b) - (a < b);
}

// The pieces of one axis. Its ends, their neighbours and the middle are looked at, and where two of
// them differ all that lies between is searched.
static uint32_t split_axis(classes *all, int axis, piece *out) {
  uint64_t length = all->step->grid[axis], cuts[2 * MOST_PIECES];
  uint32_t count = 0;
  int alone = all->step->programs == length;
  for (int last = 0; last <= !alone && length > 1; ++last) {
    uint64_t marks[5] = {0, 1, length / 2, length - 2, length - 1};
    uint32_t start = count, before = class_along(all, axis, 0, last);
    for (int m = 1; m < 5; ++m) {
      if (marks[m] <= marks[m - 1]) continue;
      uint32_t here = class_along(all, axis, marks[m], last);
      uint32_t found = 0;
      cut(all, axis, last, marks[m - 1], marks[m], before, here, cuts + count, &found);
      count += found;
      if (count > start + MOST_PIECES / 2) count = start + MOST_PIECES / 2;
      before = here;
    }
    all->assumed->sampled_axes += length > 5;
  }
  qsort(cuts, count, sizeof(*cuts), by_value);
  uint32_t pieces = 0;
  uint64_t first = 0;
  for (uint32_t i = 0; i <= count; ++i) {
    uint64_t end = i == count ? length : cuts[i];
    if (end > first) out[pieces++] = (piece){first, end - first};
    first = end > first ? end : first;
  }
  return pieces;
}

// ---- Cores ----

// Programs that run at the same time are `slots`; a group is slots that become free together.
typedef struct fleet {
  double free_ns[MOST_GROUPS];
  uint64_t slots[MOST_GROUPS];
  uint32_t groups;
  uint64_t total;
} fleet;

static void insert(fleet *f, double free_ns, uint64_t slots) {
  uint32_t at = f->groups;
  for (; at > 0 && f->free_ns[at - 1] > free_ns; --at) {
  }
  if (at > 0 && f->free_ns[at - 1] == free_ns) {
    f->slots[at - 1] += slots;
    return;
  }
  if (f->groups == MOST_GROUPS) {  // The two nearest become one; the later time counts.
    uint32_t where = at < MOST_GROUPS ? at : MOST_GROUPS - 1;
    f->slots[where] += slots;
    f->free_ns[where] = fmax(f->free_ns[where], free_ns);
    return;
  }
  for (uint32_t i = f->groups; i > at; --i) {
    f->free_ns[i] = f->free_ns[i - 1];
    f->slots[i] = f->slots[i - 1];
  }
  f->free_ns[at] = free_ns;
  f->slots[at] = slots;
  ++f->groups;
}

// Hands `count` programs of one class to the slots that become free first.
static void hand_out(fleet *f, uint64_t count, double time_ns) {
  if (f->free_ns[f->groups - 1] - f->free_ns[0] <= time_ns && count / f->total > 1) {
    uint64_t rounds = count / f->total - 1;  // Each slot takes one a round, in the same order.
    for (uint32_t i = 0; i < f->groups; ++i) f->free_ns[i] += (double)rounds * time_ns;
    count -= rounds * f->total;
  }
  while (count > 0) {
    uint64_t taken = f->slots[0] < count ? f->slots[0] : count;
    double free_ns = f->free_ns[0] + time_ns;
    f->slots[0] -= taken;
    count -= taken;
    if (f->slots[0] == 0) {
      --f->groups;
      memmove(f->free_ns, f->free_ns + 1, f->groups * sizeof(f->free_ns[0]));
      memmove(f->slots, f->slots + 1, f->groups * sizeof(f->slots[0]));
    }
    insert(f, free_ns, taken);
  }
}

// Programs that one core holds at a time: what the chip allows and what `near` has room for.
static uint64_t resident(const vil_cost *cost, const vil_program *program) {
  uint64_t most = cost->programs_per_core;
  double near = 0;
  for (uint32_t i = 0; i < program->tile_count; ++i) {
    const vil_r_tile *tile = &program->tiles[i];
    double end = tile->offset + (double)vil_tile_bytes(tile) * tile->stages;
    near = tile->space == 1 ? fmax(near, end) : near;
  }
  if (near > 0 && cost->near_bytes > 0) {
    double fit = fmax(1, floor(cost->near_bytes / near));
    most = fit < (double)most ? (uint64_t)fit : most;
  }
  return most;
}

// ---- Shared memories ----

// For each SREG the grid axes that its value follows, as bits; program order does not matter.
static void follow_axes(const vil_program *program, uint8_t *axes) {
  for (int axis = 0; axis < 3; ++axis) axes[axis] = (uint8_t)(1 << axis);
  for (int changed = 1; changed;) {
    changed = 0;
    for (uint32_t i = 0; i < program->instruction_count; ++i) {
      const vil_instruction *at = &program->code[i];
      if (at->op != VIL_SREG || at->function == VIL_ARG) continue;
      uint8_t mask = axes[at->x];
      for (int k = 0; k < 4; ++k) {
        if (at->values[k] != VIL_NONE && (at->values[k] & VIL_SREG_BIT)) {
          mask |= axes[at->values[k] & 0x7FFFu];
        }
      }
      changed |= mask != axes[at->x];
      axes[at->x] = mask;
    }
  }
}

static uint8_t value_axes(const uint8_t *axes, uint16_t value) {
  return value != VIL_NONE && (value & VIL_SREG_BIT) ? axes[value & 0x7FFFu] : 0;
}

// The grid axes along which programs read other bytes of a parameter.
static uint8_t param_axes(const vil_program *program, const uint8_t *axes, uint32_t param) {
  uint8_t mask = 0;
  for (uint32_t i = 0; i < program->descriptor_count; ++i) {
    const vil_r_descriptor *descriptor = &program->descriptors[i];
    if (descriptor->param != param) continue;
    for (uint32_t k = 0; k < descriptor->rank; ++k) {
      mask |= value_axes(axes, descriptor->dimensions[k].base);
    }
    mask |=
        value_axes(axes, descriptor->axes[0].origin) | value_axes(axes, descriptor->axes[1].origin);
    for (uint32_t t = 0; t < descriptor->term_count; ++t) {
      const vil_r_term *term = &program->terms[descriptor->first_term + t];
      mask |= term->kind == VIL_TERM_SREG ? axes[term->index] : 0;
    }
  }
  return mask;
}

// Different blocks of a parameter that `active` neighbouring programs use; x runs fastest.
static double distinct(const uint64_t grid[3], uint8_t mask, double active) {
  double blocks = 1;
  for (int axis = 0; axis < 3; ++axis) {
    double along = fmin(active, (double)grid[axis]);
    if (mask >> axis & 1) blocks *= along;
    active = ceil(active / (double)grid[axis]);
  }
  return blocks;
}

// Bytes that the buffers' memory moves. Without a shared cache that is all that the cores ask for.
// With one, neighbours of a wave share what they read alike; what does not fit is read again in
// each wave.
static double memory_bytes(const classes *all, const double *total, double active) {
  const vil_step *step = all->step;
  uint8_t stack[256], *axes = stack;
  uint32_t sregs = step->program->sreg_count;
  double asked = total[VIL_WORK_LOADED] + total[VIL_WORK_STORED], moved = 0, alone = 0;
  if (all->cost->cache_bytes <= 0) return asked;
  if (sregs > sizeof(stack)) axes = malloc(sregs);
  if (axes == NULL) return asked;
  memset(axes, 0, sregs);
  follow_axes(step->program, axes);
  double programs = (double)step->programs, waves = fmax(1, programs / active);
  for (uint32_t p = 0; p < step->program->param_count; ++p) {
    double bytes = total[VIL_WORK_PARAMS + p];
    if (bytes == 0) continue;
    uint8_t mask = param_axes(step->program, axes, p);
    double each = bytes / programs;
    double once = fmin(bytes, fmin(distinct(step->grid, mask, programs) * each,
                                   fmax((double)step->params[p].bytes, 1)));
    alone += once;
    moved += fmax(once, fmin(bytes, waves * distinct(step->grid, mask, active) * each));
  }
  if (axes != stack) free(axes);
  return alone <= all->cost->cache_bytes ? alone : moved;
}

// ---- One step of the plan ----

static uint32_t busiest(const vil_cost *cost, const double *busy, double cores, double core_ns) {
  double units[VIL_ENGINES] = {0}, most = 0;
  uint32_t engine = 1;
  for (uint32_t e = 1; e < VIL_ENGINES; ++e) units[cost->unit[e]] += busy[e];
  for (uint32_t e = 1; e < VIL_ENGINES; ++e) {
    most = fmax(most, units[cost->unit[e]]);
    engine = units[cost->unit[e]] > units[cost->unit[engine]] ||
                     (cost->unit[e] == cost->unit[engine] && busy[e] > busy[engine])
                 ? e
                 : engine;
  }
  return most >= 0.5 * cores * core_ns ? engine : VIL_BOUND_ORDER;
}

static void add_roofs(const classes *all, const double *total, double core_ns, double active,
                      double cores, double *longest_ns, vil_schedule *out) {
  const vil_cost *cost = all->cost;
  double moved = memory_bytes(all, total, active);
  double asked = total[VIL_WORK_LOADED] + total[VIL_WORK_STORED];
  double memory_ns = moved / cost->memory_bytes_per_ns;
  double cache_ns = cost->cache_bytes_per_ns > 0 ? asked / cost->cache_bytes_per_ns : 0;
  double shared_ns = fmax(memory_ns, cache_ns);
  double step_ns = fmax(core_ns, shared_ns) + cost->wait_share * fmin(core_ns, shared_ns);
  if (step_ns > *longest_ns) {
    *longest_ns = step_ns;
    out->bound = core_ns >= shared_ns    ? busiest(cost, total, cores, core_ns)
                 : memory_ns >= cache_ns ? VIL_BOUND_MEMORY
                                         : VIL_BOUND_CACHE;
  }
  out->time_ns += step_ns;
  out->core_ns += core_ns;
  out->memory_ns += memory_ns;
  out->cache_ns += cache_ns;
  out->memory_bytes += moved;
  out->loaded_bytes += total[VIL_WORK_LOADED];
  out->stored_bytes += total[VIL_WORK_STORED];
  out->macs += total[VIL_WORK_MACS];
  out->vector_elements += total[VIL_WORK_ELEMENTS];
  out->instructions += total[VIL_WORK_INSTRUCTIONS];
  for (int e = 1; e < VIL_ENGINES; ++e) out->busy_ns[e] += total[VIL_WORK_BUSY + e];
}

// Hands a run of programs of one class to the cores and adds what they do. Programs that share a
// core fill each other's waits, but never beat its busiest unit.
static void run_class(classes *all, fleet *cores, uint32_t class, uint64_t count, double share,
                      double *total) {
  double alone = all->time_ns[class], busy = all->unit_ns[class] * share;
  hand_out(cores, count, fmax(alone, busy));
  const double *work = all->work + (size_t)class * all->works;
  for (uint32_t i = 0; i < all->works; ++i) total[i] += work[i] * (double)count;
}

static void schedule_pieces(classes *all, fleet *cores, double share, double *total) {
  const vil_step *step = all->step;
  if (step->programs <= FEW_PROGRAMS) {
    for (uint64_t n = 0; n < step->programs; ++n) {
      uint64_t x = n % step->grid[0], y = n / step->grid[0] % step->grid[1];
      uint64_t z = n / step->grid[0] / step->grid[1];
      run_class(all, cores, classify(all, x, y, z), 1, share, total);
    }
    return;
  }
  piece pieces[3][2 * MOST_PIECES + 1];
  uint32_t counts[3];
  for (int axis = 0; axis < 3; ++axis) counts[axis] = split_axis(all, axis, pieces[axis]);
  for (uint32_t z = 0; z < counts[2]; ++z) {
    for (uint32_t y = 0; y < counts[1]; ++y) {
      for (uint32_t x = 0; x < counts[0]; ++x) {
        const piece *px = &pieces[0][x], *py = &pieces[1][y], *pz = &pieces[2][z];
        uint32_t class = classify(all, px->first + px->count / 2, py->first + py->count / 2,
                                  pz->first + pz->count / 2);
        run_class(all, cores, class, px->count * py->count * pz->count, share, total);
      }
    }
  }
}

static int32_t schedule_step(const vil_cost *cost, const vil_step *step, double *longest_ns,
                             vil_schedule *out) {
  if (step->programs == 0) return HAL_OK;
  classes all = {.cost = cost, .step = step, .assumed = &out->assumed};
  all.scheduler = vil_scheduler_create(cost, step, &out->assumed);
  if (all.scheduler == NULL) return HAL_ERROR_OUT_OF_MEMORY;
  all.works = vil_scheduler_works(all.scheduler);
  all.work = calloc((size_t)(MOST_CLASSES + 1) * all.works, sizeof(double));
  if (all.work == NULL) {
    vil_scheduler_free(all.scheduler);
    return HAL_ERROR_OUT_OF_MEMORY;
  }
  double *total = all.work + (size_t)MOST_CLASSES * all.works;
  uint64_t held = resident(cost, step->program);
  uint64_t needed = (step->programs + cost->cores - 1) / cost->cores;
  uint64_t share = held < needed ? held : needed;
  uint64_t slots = cost->cores * share < step->programs ? cost->cores * share : step->programs;
  fleet cores = {.slots = {slots}, .groups = 1, .total = slots};
  schedule_pieces(&all, &cores, (double)share, total);
  double used = fmin(cost->cores, (double)slots);
  add_roofs(&all, total, cores.free_ns[cores.groups - 1], (double)slots, used, longest_ns, out);
  out->programs += step->programs;
  out->classes += all.count;
  out->cores_used = used > out->cores_used ? (uint32_t)used : out->cores_used;
  free(all.work);
  vil_scheduler_free(all.scheduler);
  return HAL_OK;
}

int32_t vil_schedule_launch(const vil_cost *cost, const void *storage, vil_schedule *out) {
  const vil_launch *launch = storage;
  *out = (vil_schedule){0};
  double longest_ns = 0;
  int32_t status = HAL_OK;
  for (uint32_t i = 0; i < launch->step_count && status == HAL_OK; ++i) {
    out->overhead_ns += cost->launch_ns;
    out->time_ns += cost->launch_ns;
    status = schedule_step(cost, &launch->steps[i], &longest_ns, out);
  }
  return status;
}
