// The choice of an instruction set, the check of its products, and the hook.

// ---- Optional ----
#include "tiles.h"

#include <stdlib.h>

#include "kit.h"
#include "vil_launch.h"

#ifdef CPU_HAS_AMX
#include <cpuid.h>
#endif

static cpu_set chosen;  // The set in use; no name: none.

// ---- Optional: what the processor has ----

#ifdef CPU_HAS_AVX
static bool has_avx2(void) {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static bool has_avx512(void) {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") && has_avx2();
}
#endif

#ifdef CPU_HAS_AMX
// Intel SDM, volume 1, chapter 18: CPUID leaf 7 names the instructions, XCR0 the state that the
// system saves.
static bool has_amx(void) {
  uint32_t a, b, c, d, low, high;
  if (!has_avx512() || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
  uint32_t wanted = 1u << 22 | 1u << 24 | 1u << 25;  // bf16, tiles, int8
  if ((d & wanted) != wanted) return false;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low >> 17 & 3) == 3 && cpu_amx_start();
}
#endif

static bool take(const char *name) {
  if (strcmp(name, "plain") == 0) {
    chosen = cpu_set_plain;
    return true;
  }
#ifdef CPU_HAS_AVX
  if (strcmp(name, "avx2") == 0 && has_avx2()) {
    chosen = cpu_set_avx2;
    return true;
  }
  bool amx = strcmp(name, "amx") == 0;
  if ((amx || strcmp(name, "avx512") == 0) && has_avx512()) {
    chosen = cpu_set_avx512;
    if (__builtin_cpu_supports("avx512bf16")) chosen.bf16 = &cpu_avx512_bf16;
    if (__builtin_cpu_supports("avx512vnni")) chosen.i8 = &cpu_avx512_i8;
    if (!amx) return true;
#ifdef CPU_HAS_AMX
    if (has_amx()) {
      chosen.name = "amx";
      chosen.bf16 = &cpu_amx_bf16;
      chosen.i8 = &cpu_amx_i8;
      return true;
    }
#endif
  }
#endif
  return false;
}

// ---- Optional: the check of a product on a small case whose result is exact ----

static int value_of(uint32_t index) {
  return (int)(index * 2654435761u >> 28) - 8;  // −8 … 7
}

static void write_value(void *data, uint32_t dtype, uint32_t index, int value) {
  float narrow = (float)value;
  double wide = value;
  uint32_t bits;
  memcpy(&bits, &narrow, 4);
  switch (dtype) {
    case HAL_DTYPE_F32:
      memcpy((float *)data + index, &narrow, 4);
      break;
    case HAL_DTYPE_F64:
      memcpy((double *)data + index, &wide, 8);
      break;
    case HAL_DTYPE_BF16:
      ((uint16_t *)data)[index] = (uint16_t)(bits >> 16);
      break;
    case HAL_DTYPE_I32:
      ((int32_t *)data)[index] = value;
      break;
    default:
      ((int8_t *)data)[index] = (int8_t)value;
  }
}

static bool holds(const void *data, uint32_t dtype, uint32_t index, int value) {
  uint8_t bytes[8];
  write_value(bytes, dtype, 0, value);
  uint32_t size = vil_dtype_bytes(dtype);
  return memcmp((const uint8_t *)data + (size_t)index * size, bytes, size) == 0;
}

static vil_tile_view make_view(void *data, uint32_t dtype, uint32_t rows, uint32_t columns) {
  return (vil_tile_view){.dtype = dtype,
                         .rows = rows,
                         .columns = columns,
                         .valid_rows = rows,
                         .valid_columns = columns,
                         .data = data,
                         .pitch = columns};
}

// Whether the product multiplies rightly: a block, its edges and a depth that is no multiple.
static bool is_right(const cpu_product *product, uint32_t dtype, uint32_t target) {
  uint32_t m = product->rows + 1, n = product->columns + 3, k = product->depth_multiple + 3;
  uint8_t *room = calloc((size_t)m * k + (size_t)k * n + (size_t)m * n, 8);
  vil_arena *arena = vil_arena_create();
  if (!room || !arena) {
    free(room);
    vil_arena_free(arena);
    return false;
  }
  void *a = room, *b = room + (size_t)m * k * 8, *d = room + ((size_t)m * k + (size_t)k * n) * 8;
  for (uint32_t i = 0; i < m * k; ++i) write_value(a, dtype, i, value_of(i));
  for (uint32_t i = 0; i < k * n; ++i) write_value(b, dtype, i, value_of(i + 77));
  vil_operation o = {.op = VIL_MMA, .flags = VIL_FLAG_INIT, .arena = arena};
  o.d = make_view(d, target, m, n);
  o.a = make_view(a, dtype, m, k);
  o.b = make_view(b, dtype, k, n);
  bool right = cpu_matrix(&chosen, &o);
  for (uint32_t i = 0; i < m && right; ++i) {
    for (uint32_t j = 0; j < n && right; ++j) {
      int sum = 0;
      for (uint32_t l = 0; l < k; ++l) sum += value_of(i * k + l) * value_of(l * n + j + 77);
      right = holds(d, target, i * n + j, sum);
    }
  }
  free(room);
  vil_arena_free(arena);
  return right;
}

static void check(const cpu_product **product, uint32_t dtype, uint32_t target, const char *what) {
  if (*product && !is_right(*product, dtype, target)) {
    kit_log(HAL_LOG_WARNING, "products of %s by %s are wrong on this processor and not used", what,
            chosen.name);
    *product = NULL;
  }
}

bool cpu_tiles_choose(const char *name) {
  static const char *const best[] = {"amx", "avx512", "avx2", "plain"};
  chosen = (cpu_set){.name = "none"};
  if (name && strcmp(name, "none") == 0) return true;
  if (name && !take(name)) return false;
  for (int i = 0; !name && i < 4 && !take(best[i]); ++i) {
  }
  check(&chosen.f32, HAL_DTYPE_F32, HAL_DTYPE_F32, "f32");
  check(&chosen.f64, HAL_DTYPE_F64, HAL_DTYPE_F64, "f64");
  check(&chosen.i32, HAL_DTYPE_I32, HAL_DTYPE_I32, "i32");
  check(&chosen.bf16, HAL_DTYPE_BF16, HAL_DTYPE_F32, "bf16");
  check(&chosen.i8, HAL_DTYPE_I8, HAL_DTYPE_I32, "i8");
  return true;
}

const char *cpu_tiles_name(void) {
  return chosen.name;
}

int cpu_tiles_macs_per_cycle(const char *dtype) {
  bool amx = strcmp(chosen.name, "amx") == 0;  // Its processors have two units of 512 bits.
  bool wide = strcmp(chosen.name, "avx2") == 0 || strcmp(chosen.name, "avx512") == 0;
  int f32 = amx ? 32 : wide ? 16 : 4;  // Two units of 256 bits, or one of 512.
#ifdef CPU_HAS_AMX
  if (strcmp(dtype, "bf16") == 0 && chosen.bf16 == &cpu_amx_bf16) return 512;
  if (strcmp(dtype, "i8") == 0 && chosen.i8 == &cpu_amx_i8) return 1024;
#endif
  if (strcmp(dtype, "f64") == 0) return f32 / 2;
  if (strcmp(dtype, "bf16") == 0) return chosen.bf16 ? 2 * f32 : f32;
  if (strcmp(dtype, "i8") == 0) return chosen.i8 ? 2 * f32 : f32;
  return f32;
}

// ---- Optional: the hooks ----

int cpu_chain_hook(void *context, const vil_link *links, uint32_t count, uint32_t rows,
                   uint32_t columns) {
  (void)context;
  return chosen.rows ? cpu_chain(chosen.rows, links, count, rows, columns) : 0;
}

int cpu_tile(void *context, const vil_operation *operation) {
  (void)context;
  return operation->op == VIL_MMA ? cpu_matrix(&chosen, operation)
                                  : cpu_elements(chosen.rows, operation);
}
