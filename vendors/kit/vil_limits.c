// Judges a program by a chip: the keys kernels.vil.* of its flat HCD (docs/vil.md, section 6).
#include <stdlib.h>
#include <string.h>

#include "vil_check.h"

static const char *const space_names[] = {"global", "near", "mma_a", "mma_b",
                                          "acc",    "vec",  "scalar"};
static const char *const layout_names[] = {"?", "row", "col", "panel", "mma_a", "mma_b", "acc"};

// ---- Rows of the operation table, read once ----

// Bits of the names of a list; all bits when the row has no such list.
static uint64_t list_bits(const kit_hcd *hcd, const char *row, const char *list,
                          const char *const *names, uint32_t count) {
  char path[192], item[32];
  snprintf(path, sizeof(path), "kernels.vil.ops.%s.%s", row, list);
  int64_t items = kit_hcd_list_count(hcd, path);
  if (items < 0) return ~(uint64_t)0;
  uint64_t bits = 0;
  for (int64_t i = 0; i < items; i++) {
    if (!kit_hcd_list_item(hcd, path, (size_t)i, item, sizeof(item))) continue;
    for (uint32_t n = 0; n < count; n++) {
      if (strcmp(names[n], item) == 0) bits |= (uint64_t)1 << n;
    }
  }
  return bits;
}

static void read_row(const kit_hcd *hcd, const char *id, vil_row *row) {
  static const char *const spaces[4] = {"spaces_out", "spaces_in", "spaces_a", "spaces_b"};
  static const char *const layouts[4] = {"layouts_out", "layouts_in", "layouts_a", "layouts_b"};
  const char *dtypes[12], *functions[VIL_FUNCTION_COUNT];
  char path[160];
  for (uint32_t n = 0; n < 12; n++) dtypes[n] = vil_dtype_name(n);
  for (uint32_t n = 0; n < VIL_FUNCTION_COUNT; n++) functions[n] = vil_function_name(n);
  snprintf(path, sizeof(path), "kernels.vil.ops.%s.op", id);
  const char *op = kit_hcd_text(hcd, path);
  for (uint32_t n = 1; op && n < VIL_OP_COUNT; n++) {
    if (strcmp(op, vil_op_name(n)) == 0) row->op = (uint8_t)n;
  }
  row->functions = list_bits(hcd, id, "functions", functions, VIL_FUNCTION_COUNT);
  row->dtypes = list_bits(hcd, id, "dtypes", dtypes, 12);
  row->dtypes_to = list_bits(hcd, id, "dtypes_to", dtypes, 12);
  for (int k = 0; k < 4; k++) {
    row->spaces[k] = list_bits(hcd, id, spaces[k], space_names, 7);
    row->layouts[k] = list_bits(hcd, id, layouts[k], layout_names, 7);
  }
}

vil_limits *vil_limits_create(const kit_hcd *hcd) {
  vil_limits *limits = calloc(1, sizeof(*limits));
  if (!limits) return NULL;
  int64_t bits = 31;
  if (hcd && kit_hcd_text(hcd, "kernels.vil.version")) {
    limits->hcd = hcd;
    kit_hcd_i64(hcd, "kernels.vil.grid_bits", &bits);
    char id[64];
    size_t cursor = 0;
    while (kit_hcd_next_id(hcd, "kernels.vil.ops", &cursor, id, sizeof(id))) limits->row_count++;
    limits->rows = calloc(limits->row_count + 1u, sizeof(vil_row));
    if (!limits->rows) {
      free(limits);
      return NULL;
    }
    uint32_t at = 0;
    for (cursor = 0; at < limits->row_count &&
                     kit_hcd_next_id(hcd, "kernels.vil.ops", &cursor, id, sizeof(id));)
      read_row(hcd, id, &limits->rows[at++]);
  }
  limits->grid_bits = bits < 1 ? 1 : bits > 63 ? 63 : (uint32_t)bits;
  return limits;
}

void vil_limits_free(vil_limits *limits) {
  if (limits) free(limits->rows);
  free(limits);
}

// A number of the chip, or vil-core's where there is no HCD; where a chip says nothing, no limit.
static int64_t number(const vil_limits *limits, const char *key, int64_t core) {
  if (!limits->hcd) return core;
  char path[128];
  int64_t value = INT64_MAX;
  snprintf(path, sizeof(path), "kernels.vil.%s", key);
  kit_hcd_i64(limits->hcd, path, &value);
  return value;
}

static int32_t check_count(vil_judged *judged, const vil_limits *limits, const char *what,
                           uint64_t count, const char *key, int64_t core) {
  int64_t limit = number(limits, key, core);
  if ((int64_t)count <= limit) return HAL_OK;
  return vil_bad_program(judged, "%llu %s; the chip takes %lld (kernels.vil.%s)",
                         (unsigned long long)count, what, (long long)limit, key);
}

static int chip_has(const vil_limits *limits, const char *list, const char *item,
                    const char *const core[]) {
  if (limits->hcd) {
    char path[128];
    snprintf(path, sizeof(path), "kernels.vil.%s", list);
    return kit_hcd_list_has(limits->hcd, path, item);
  }
  for (; *core; core++) {
    if (strcmp(*core, item) == 0) return 1;
  }
  return 0;
}

// ---- Tiles ----

// Bytes and alignment of a space; 0 when the chip lacks it.
static int find_space(const vil_limits *limits, const char *id, int64_t *capacity,
                      int64_t *alignment) {
  char path[160], memory[64];
  *alignment = 1;
  *capacity = INT64_MAX;
  if (!limits->hcd) {
    *capacity = 1 << 20;
    return strcmp(id, "near") == 0;
  }
  snprintf(path, sizeof(path), "kernels.vil.spaces.%s.memory", id);
  const char *text = kit_hcd_text(limits->hcd, path);
  if (!text) return 0;
  snprintf(memory, sizeof(memory), "%s", text);
  snprintf(path, sizeof(path), "kernels.vil.spaces.%s.alignment_bytes", id);
  kit_hcd_i64(limits->hcd, path, alignment);
  snprintf(path, sizeof(path), "kernels.vil.spaces.%s.capacity_bytes", id);
  if (!kit_hcd_i64(limits->hcd, path, capacity)) {
    snprintf(path, sizeof(path), "memory.%s.capacity_bytes", memory);
    kit_hcd_i64(limits->hcd, path, capacity);
  }
  return 1;
}

static int32_t check_tile(vil_judged *judged, const vil_limits *limits, const vil_r_tile *tile) {
  static const char *const core_layouts[] = {"row", "col", NULL};
  const vil_program *program = judged->program;
  const char *name = program->strings + tile->name;
  int64_t granule_rows = number(limits, "granule_rows", 1),
          granule_columns = number(limits, "granule_columns", 1), capacity, alignment;
  if ((granule_rows != INT64_MAX && tile->rows != 1 && tile->rows % granule_rows) ||
      (granule_columns != INT64_MAX && tile->columns != 1 && tile->columns % granule_columns)) {
    return vil_bad_program(judged, "tile %s is %u x %u; the chip's granule is %lld x %lld", name,
                           tile->rows, tile->columns, (long long)granule_rows,
                           (long long)granule_columns);
  }
  int32_t status = check_count(judged, limits, "rows of a tile", tile->rows, "max_rows", 64);
  if (!status)
    status = check_count(judged, limits, "columns of a tile", tile->columns, "max_columns", 64);
  if (!status)
    status = check_count(judged, limits, "bytes of a tile", vil_tile_bytes(tile), "max_tile_bytes",
                         32768);
  if (status) return status;
  if (!chip_has(limits, "layouts", layout_names[tile->layout], core_layouts))
    return vil_bad_program(judged, "tile %s: the chip has no layout %s", name,
                           layout_names[tile->layout]);
  if (tile->panel) {
    char panel[16];
    snprintf(panel, sizeof(panel), "%u", tile->panel);
    if (!limits->hcd || !kit_hcd_list_has(limits->hcd, "kernels.vil.panel_rows", panel))
      return vil_bad_program(judged, "tile %s: the chip has no panel(%u)", name, tile->panel);
  }
  if (!find_space(limits, space_names[tile->space], &capacity, &alignment)) {
    if (program->profile == 1)
      return vil_bad_program(judged, "tile %s: the chip has no space %s", name,
                             space_names[tile->space]);
    find_space(limits, "near", &capacity, &alignment);
  }
  uint64_t stage = (vil_tile_bytes(tile) + 63) & ~(uint64_t)63,
           end = tile->offset + (tile->stages - 1) * stage + vil_tile_bytes(tile);
  if (end > (uint64_t)capacity)
    return vil_bad_program(judged, "tile %s ends at byte %llu; the space has %lld", name,
                           (unsigned long long)end, (long long)capacity);
  if (alignment > 1 && tile->offset % (uint64_t)alignment)
    return vil_bad_program(judged, "tile %s starts at %u, not at a multiple of %lld", name,
                           tile->offset, (long long)alignment);
  return HAL_OK;
}

// ---- Operations ----

enum { OUT = 0, IN = 1, OF_A = 2, OF_B = 3 };

static int allows(uint64_t bits, uint32_t number) {
  return (int)(bits >> number & 1);
}

static int allows_tile(const vil_row *row, const vil_r_tile *tile, int side) {
  return !tile ||
         (allows(row->spaces[side], tile->space) && allows(row->layouts[side], tile->layout));
}

// The tile whose type the row's `dtypes` speaks of.
static const vil_r_tile *typed_tile(const vil_program *program, const vil_instruction *at) {
  switch (at->op) {
    case VIL_LOAD:
    case VIL_FILL:
    case VIL_IOTA:
    case VIL_RNG:
    case VIL_GATHER:
      return vil_operand_tile(program, at, VIL_D);
    case VIL_SEL:
      return vil_operand_tile(program, at, VIL_B);
    default:
      return vil_operand_tile(program, at, VIL_A);
  }
}

static int row_allows(const vil_row *row, const vil_program *program, const vil_instruction *at) {
  const vil_r_tile *d = vil_operand_tile(program, at, VIL_D),
                   *a = vil_operand_tile(program, at, VIL_A);
  const vil_r_tile *b = vil_operand_tile(program, at, VIL_B),
                   *c = vil_operand_tile(program, at, VIL_C);
  const vil_r_tile *typed = typed_tile(program, at);
  if (row->op != at->op) return 0;
  if (at->op == VIL_SREG) return 1;
  if (at->function && at->op != VIL_RNG && !allows(row->functions, at->function)) return 0;
  if (typed && !allows(row->dtypes, typed->dtype)) return 0;
  if (at->op == VIL_MMA && !allows(row->dtypes, b->dtype)) return 0;
  if (at->op == VIL_CAST && !allows(row->dtypes_to, d->dtype)) return 0;
  if (program->profile == 0) return 1;
  switch (at->op) {
    case VIL_MMA:
      return allows_tile(row, a, OF_A) && allows_tile(row, b, OF_B) && allows_tile(row, d, OUT);
    case VIL_TOPK:
      return allows_tile(row, a, IN) && allows_tile(row, d, OUT) && allows_tile(row, c, OUT);
    case VIL_LOAD:
      return allows_tile(row, d, OUT);
    case VIL_STORE:
      return allows_tile(row, a, IN);
    default:
      return allows_tile(row, d, OUT) && allows_tile(row, a, IN) && allows_tile(row, b, IN) &&
             allows_tile(row, c, IN);
  }
}

static int32_t check_row(vil_judged *judged, const vil_limits *limits) {
  const vil_program *program = judged->program;
  const vil_instruction *at = &program->code[judged->at];
  if (at->op == VIL_END) return HAL_OK;
  if (!limits->hcd) {
    if (at->op == VIL_SIGNAL || at->op == VIL_WAIT)
      return vil_bad_instruction(judged, "vil-core has no tokens");
    return HAL_OK;
  }
  for (uint32_t i = 0; i < limits->row_count; i++) {
    if (row_allows(&limits->rows[i], program, at)) return HAL_OK;
  }
  const vil_r_tile *typed = typed_tile(program, at);
  return vil_bad_instruction(judged, "no row of the chip's kernels.vil.ops allows it%s%s",
                             typed ? " on " : "", typed ? vil_dtype_name(typed->dtype) : "");
}

// ---- Features ----

static int32_t check_features(vil_judged *judged, const vil_limits *limits) {
  static const struct {
    int bit;
    const char *name;
  } optional[] = {{6, "near_descriptors"},
                  {13, "fp8_mma"},
                  {14, "sreg_from_tile"},
                  {15, "contraction"},
                  {16, "deterministic_scatter"}};
  static const char *const core[] = {"near_descriptors", "sreg_from_tile", NULL};
  uint64_t features = vil_program_features(judged->program);
  for (size_t i = 0; i < sizeof(optional) / sizeof(optional[0]); i++) {
    if ((features >> optional[i].bit & 1) && !chip_has(limits, "features", optional[i].name, core))
      return vil_bad_program(judged, "the chip lacks the feature %s", optional[i].name);
  }
  if (features & 1) {
    const char *profile = limits->hcd ? kit_hcd_text(limits->hcd, "kernels.vil.profile") : "flat";
    if (!profile || strcmp(profile, "explicit") != 0)
      return vil_bad_program(judged, "the program is explicit, the chip is flat");
  }
  return HAL_OK;
}

int32_t vil_check_counts(vil_judged *judged, const vil_limits *limits) {
  const vil_program *program = judged->program;
  int64_t version = number(limits, "version", 1);
  if (version != 1)
    return vil_bad_program(judged, "VIL 1; the chip reads VIL %lld", (long long)version);
  int32_t status = check_count(judged, limits, "tiles", program->tile_count, "max_tiles", 64);
  if (!status)
    status = check_count(judged, limits, "instructions", program->instruction_count,
                         "max_instructions", 4096);
  if (!status)
    status = check_count(judged, limits, "SREGs", program->sreg_count, "registers_per_program", 64);
  return status ? status
                : check_count(judged, limits, "tokens", program->token_count, "token_count", 0);
}

int32_t vil_check_chip(vil_judged *judged, const vil_limits *limits) {
  const vil_program *program = judged->program;
  int32_t status = check_features(judged, limits);
  for (uint32_t i = 0; i < program->tile_count && !status; i++)
    status = check_tile(judged, limits, &program->tiles[i]);
  for (judged->at = 0; judged->at < program->instruction_count && !status; judged->at++)
    status = check_row(judged, limits);
  return status;
}
