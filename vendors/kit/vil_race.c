// Races between the engines of an explicit program, by happens-before clocks.
//
// Each engine counts its instructions; it also keeps, for every other engine, the last count that
// it knows to be over. SIGNAL puts the producer's knowledge on the token, WAIT takes it off: the
// n-th WAIT after the credits meets the n-th SIGNAL. An access is a race when the accessor does not
// know that the other engine's conflicting access is over. So a lucky order of engines hides
// nothing, and each token that is missing and not implied by others is found on the path that ran.
//
// Tiles count as whole stages, and stages that share bytes as one place. Elements of buffers that
// the program both loads and stores are followed one by one.
#include <stdlib.h>
#include <string.h>

#include "vil_launch.h"

enum { ENGINES = VIL_ENGINE_SCALAR + 1 };

typedef struct clocks {
  uint64_t of[ENGINES];
} clocks;

// The last accesses of a place; a count of 0 is none.
typedef struct place {
  uint64_t write, reads[ENGINES];
  uint32_t write_at, read_at[ENGINES];
  uint8_t writer;
} place;

typedef struct element {
  uint64_t key;  // Parameter and element + 1; 0: free.
  place is;
} element;

typedef struct token {
  clocks *signals;  // Put on and not yet taken; a ring.
  uint32_t first, count, room;
  uint64_t credits;  // Of the start, not yet taken.
} token;

struct vil_race {
  const vil_program *program;
  clocks known[ENGINES];
  place *stages;
  uint32_t *shares;  // For stage s: shares[s] … of `near`, ended by VIL_NONE32.
  uint32_t *near;
  token *tokens;
  uint8_t *both;  // Of a parameter: the program loads and stores it.
  element *elements;
  uint64_t element_count, element_room;
};

static const char *const engine_names[ENGINES] = {"",       "dma_in", "dma_out",
                                                  "vector", "matrix", "scalar"};

// ---- Making one ----

static void stage_bytes(const vil_program *program, uint32_t tile, uint32_t stage,
                        uint64_t bytes[2]) {
  const vil_r_tile *t = &program->tiles[tile];
  uint64_t each = vil_tile_bytes(t);
  bytes[0] = t->offset + stage * ((each + 63) & ~UINT64_C(63));
  bytes[1] = bytes[0] + each;
}

static int add_share(vil_race *race, uint32_t *count, uint32_t *room, uint32_t stage) {
  if (*count == *room) {
    uint32_t more = *room ? 2 * *room : 64;
    uint32_t *wider = realloc(race->near, more * sizeof(*wider));
    if (!wider) return 0;
    race->near = wider;
    *room = more;
  }
  race->near[(*count)++] = stage;
  return 1;
}

// Lists for each stage all stages that share bytes with it, itself included.
static int list_shares(vil_race *race) {
  const vil_program *p = race->program;
  uint32_t count = 0, room = 0;
  int there = 1;
  for (uint32_t tile = 0; tile < p->tile_count; ++tile) {
    for (uint32_t stage = 0; stage < p->tiles[tile].stages; ++stage) {
      uint64_t mine[2], other[2];
      stage_bytes(p, tile, stage, mine);
      race->shares[p->stage_first[tile] + stage] = count;
      for (uint32_t t = 0; t < p->tile_count; ++t) {
        for (uint32_t s = 0; s < p->tiles[t].stages; ++s) {
          stage_bytes(p, t, s, other);
          if (p->tiles[t].space == p->tiles[tile].space && mine[0] < other[1] &&
              other[0] < mine[1]) {
            there = there && add_share(race, &count, &room, p->stage_first[t] + s);
          }
        }
      }
      there = there && add_share(race, &count, &room, VIL_NONE32);
    }
  }
  return there;
}

static void find_both(vil_race *race) {
  const vil_program *p = race->program;
  for (uint32_t i = 0; i < p->instruction_count; ++i) {
    const vil_instruction *at = &p->code[i];
    int loads = at->op == VIL_LOAD || at->op == VIL_GATHER;
    if (!loads && at->op != VIL_STORE && at->op != VIL_SCATTER) continue;
    uint16_t param = p->descriptors[at->x].param;
    if (param != VIL_NONE) race->both[param] |= loads ? 1 : 2;
  }
}

vil_race *vil_race_create(const vil_program *program) {
  vil_race *race = calloc(1, sizeof(*race));
  if (!race) return NULL;
  race->program = program;
  race->stages = calloc(program->stage_count + 1, sizeof(*race->stages));
  race->shares = calloc(program->stage_count + 1, sizeof(*race->shares));
  race->tokens = calloc(program->token_count + 1, sizeof(*race->tokens));
  race->both = calloc(program->param_count + 1, 1);
  if (!race->stages || !race->shares || !race->tokens || !race->both || !list_shares(race)) {
    vil_race_free(race);
    return NULL;
  }
  find_both(race);
  return race;
}

void vil_race_free(vil_race *race) {
  if (!race) return;
  for (uint32_t t = 0; race->tokens && t < race->program->token_count; ++t)
    free(race->tokens[t].signals);
  free(race->tokens);
  free(race->stages);
  free(race->shares);
  free(race->near);
  free(race->both);
  free(race->elements);
  free(race);
}

void vil_race_begin(vil_race *race) {
  memset(race->known, 0, sizeof(race->known));
  memset(race->stages, 0, race->program->stage_count * sizeof(*race->stages));
  for (uint32_t t = 0; t < race->program->token_count; ++t) {
    race->tokens[t].first = race->tokens[t].count = 0;
    race->tokens[t].credits = race->program->tokens[t].credits;
  }
  if (race->element_count) memset(race->elements, 0, race->element_room * sizeof(element));
  race->element_count = 0;
}

// ---- Accesses ----

// The engine that may still be at work on the place, 0 when all is over; `*out_at` is where.
static uint8_t find_rival(const vil_race *race, const place *where, uint8_t engine, int is_write,
                          uint32_t *out_at, int *out_wrote) {
  const clocks *known = &race->known[engine];
  if (where->write && where->writer != engine && known->of[where->writer] < where->write) {
    *out_at = where->write_at;
    *out_wrote = 1;
    return where->writer;
  }
  for (uint8_t e = 1; e < ENGINES && is_write; ++e) {
    if (e != engine && known->of[e] < where->reads[e]) {
      *out_at = where->read_at[e];
      *out_wrote = 0;
      return e;
    }
  }
  return 0;
}

static void note(const vil_race *race, place *where, uint8_t engine, int is_write, uint32_t at) {
  uint64_t now = race->known[engine].of[engine];
  if (is_write) {
    where->write = now;
    where->writer = engine;
    where->write_at = at;
  } else {
    where->reads[engine] = now;
    where->read_at[engine] = at;
  }
}

static int32_t report(vil_run *run, uint8_t engine, int is_write, const char *what, uint32_t stage,
                      uint8_t rival, uint32_t at, int wrote) {
  char part[24] = "";
  if (stage != VIL_NONE32) snprintf(part, sizeof(part), "[%u]", stage);
  return vil_fault(run,
                   "race: engine %s %s %s%s, and no token says that engine %s is done %s it at "
                   "instruction %u (%s)",
                   engine_names[engine], is_write ? "writes" : "reads", what, part,
                   engine_names[rival], wrote ? "writing" : "reading", at,
                   vil_op_name(run->program->code[at].op));
}

static int32_t touch_stage(vil_run *run, uint8_t engine, uint16_t tile, uint32_t stage,
                           int is_write) {
  vil_race *race = run->race;
  for (const uint32_t *near = race->near + race->shares[stage]; *near != VIL_NONE32; ++near) {
    uint32_t at = 0;
    int wrote = 0;
    uint8_t rival = find_rival(race, &race->stages[*near], engine, is_write, &at, &wrote);
    if (rival) {
      const char *name = run->program->strings + run->program->tiles[tile].name;
      uint32_t number = stage - run->program->stage_first[tile];
      return report(run, engine, is_write, name,
                    run->program->tiles[tile].stages > 1 ? number : VIL_NONE32, rival, at, wrote);
    }
  }
  note(race, &race->stages[stage], engine, is_write, run->at);
  return HAL_OK;
}

static int32_t signal(vil_run *run, uint32_t index, uint8_t engine) {
  token *t = &run->race->tokens[index];
  if (t->count == t->room) {
    uint32_t room = t->room ? 2 * t->room : 16;
    clocks *more = malloc(room * sizeof(*more));
    if (!more) return vil_refuse(run->reason, HAL_ERROR_OUT_OF_MEMORY, "no memory for tokens");
    for (uint32_t i = 0; i < t->count; ++i) more[i] = t->signals[(t->first + i) % t->room];
    free(t->signals);
    t->signals = more;
    t->first = 0;
    t->room = room;
  }
  t->signals[(t->first + t->count++) % t->room] = run->race->known[engine];
  return HAL_OK;
}

static void wait(vil_race *race, uint32_t index, uint8_t engine) {
  token *t = &race->tokens[index];
  if (t->credits) {
    --t->credits;
  } else if (t->count) {
    const clocks *told = &t->signals[t->first];
    for (int e = 1; e < ENGINES; ++e) {
      if (race->known[engine].of[e] < told->of[e]) race->known[engine].of[e] = told->of[e];
    }
    t->first = (t->first + 1) % t->room;
    --t->count;
  }
}

int32_t vil_race_step(vil_run *run, const vil_instruction *at) {
  vil_race *race = run->race;
  uint8_t engine = at->engine;
  if (at->op == VIL_SIGNAL) return signal(run, at->x, engine);
  if (at->op == VIL_WAIT) {
    wait(race, at->x, engine);
    return HAL_OK;
  }
  if (at->op == VIL_LOOP || at->op == VIL_END || at->op == VIL_IF ||
      (at->op == VIL_SREG && at->function != VIL_TILE)) {
    return HAL_OK;  // They belong to the issue.
  }
  ++race->known[engine].of[engine];
  uint32_t roles[2];  // Reads first: an operation reads before it writes.
  vil_operand_roles(at, &roles[0], &roles[1]);
  if (at->op == VIL_SREG) roles[1] = 0;
  for (int is_write = 0; is_write < 2; ++is_write) {
    for (int k = VIL_D; k <= VIL_C; ++k) {
      uint32_t stage = vil_operand_stage(run, at, k);
      if (stage == VIL_NONE32 || !(roles[is_write] >> k & 1)) continue;
      int32_t status = touch_stage(run, engine, at->operands[k].tile, stage, is_write);
      if (status) return status;
    }
  }
  return HAL_OK;
}

// ---- Elements of buffers ----

static element *find(element *all, uint64_t room, uint64_t key) {
  uint64_t at = key * 0x9E3779B97F4A7C15u >> 20 & (room - 1);
  while (all[at].key && all[at].key != key) at = (at + 1) & (room - 1);
  return &all[at];
}

static int grow(vil_race *race) {
  if (race->element_count * 2 < race->element_room) return 1;
  uint64_t room = race->element_room ? 2 * race->element_room : 4096;
  element *more = calloc(room, sizeof(*more));
  if (!more) return 0;
  for (uint64_t i = 0; i < race->element_room; ++i) {
    if (race->elements[i].key) *find(more, room, race->elements[i].key) = race->elements[i];
  }
  free(race->elements);
  race->elements = more;
  race->element_room = room;
  return 1;
}

int32_t vil_race_element(vil_run *run, uint32_t param, uint64_t index, int is_write) {
  vil_race *race = run->race;
  if (race->both[param] != 3) return HAL_OK;
  if (!grow(race)) return vil_refuse(run->reason, HAL_ERROR_OUT_OF_MEMORY, "no memory to check");
  element *found = find(race->elements, race->element_room, ((uint64_t)param << 48) + index + 1);
  if (!found->key) {
    found->key = ((uint64_t)param << 48) + index + 1;
    ++race->element_count;
  }
  uint32_t at = 0;
  int wrote = 0;
  uint8_t engine = run->program->code[run->at].engine;
  uint8_t rival = find_rival(race, &found->is, engine, is_write, &at, &wrote);
  if (rival) {
    char what[120];
    snprintf(what, sizeof(what), "element %llu of %.63s", (unsigned long long)index,
             run->program->strings + run->program->params[param].name);
    return report(run, engine, is_write, what, VIL_NONE32, rival, at, wrote);
  }
  note(race, &found->is, engine, is_write, run->at);
  return HAL_OK;
}
