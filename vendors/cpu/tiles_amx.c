// AMX: tile registers of 16 rows × 64 bytes. A block is 2 × 2 of them: 32 rows × 32 columns.

// ---- Optional ----
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tiles_dot.h"

// Linux, Documentation/arch/x86/xstate.rst: a process asks for the tile registers before it uses
// them.
enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };

bool cpu_amx_start(void) {
  return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}

typedef struct tile_config {
  uint8_t palette, start_row, reserved[14];
  uint16_t column_bytes[16];
  uint8_t rows[16];
} tile_config;

// GCC's intrinsics name eight bytes of the configuration and none of the operands as read (GCC 12,
// amxtileintrin.h): without this the stores before them may go.
static void finish_stores(const void *read) {
  __asm__ volatile("" : : "r"(read) : "memory");
}

// All eight registers at their full size.
static void configure(void) {
  tile_config config = {.palette = 1};
  for (int t = 0; t < 8; ++t) {
    config.column_bytes[t] = 64;
    config.rows[t] = 16;
  }
  finish_stores(&config);
  _tile_loadconfig(&config);
}

static void release(void) {
  _tile_release();
}

// Sums of a block: four registers, one after another.
typedef uint32_t sums[4][16][16];

enum {
  BLOCK_ROWS = 32,
  MOST_ROWS = 128,   // Of one call: what a panel of the right matrix is used for.
  STEP_BYTES = 512,  // Of left rows, so that a block of both matrices stays in the nearest cache.
  LINE_BYTES = DOT_COLUMNS * 4
};

static inline void load_sums(sums block) {
  finish_stores(block);
  _tile_loadd(0, block[0], 64);
  _tile_loadd(1, block[1], 64);
  _tile_loadd(2, block[2], 64);
  _tile_loadd(3, block[3], 64);
}

static inline void clear_sums(void) {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
}

static inline void store_sums(sums block) {
  _tile_stored(0, block[0], 64);
  _tile_stored(1, block[1], 64);
  _tile_stored(2, block[2], 64);
  _tile_stored(3, block[3], 64);
}

// Adds the product of 32 rows of `bytes` and as many groups of a panel to the registers 0 to 3, the
// sums of the four quarters. Each operand is loaded just before its first use.
#define MULTIPLY_BLOCK(left, right, bytes, product)                                      \
  for (uint32_t at = 0; at < (bytes); at += 64) {                                        \
    const uint8_t *rows_at = (left) + at, *line = (right) + (size_t)at / 4 * LINE_BYTES; \
    _tile_loadd(4, rows_at, CPU_ROW_BYTES);                                              \
    _tile_loadd(6, line, LINE_BYTES);                                                    \
    product(0, 4, 6);                                                                    \
    _tile_loadd(7, line + 64, LINE_BYTES);                                               \
    product(1, 4, 7);                                                                    \
    _tile_loadd(5, rows_at + (size_t)16 * CPU_ROW_BYTES, CPU_ROW_BYTES);                 \
    product(2, 5, 6);                                                                    \
    product(3, 5, 7);                                                                    \
  }

// Asks for the results that the sums will be put to.
static inline void fetch(const uint32_t *target, int64_t pitch, uint32_t rows) {
  for (uint32_t i = 0; i < rows; ++i, target += pitch) {
    __builtin_prefetch(target, 1, 2);
    __builtin_prefetch(target + 16, 1, 2);
  }
}

static inline __attribute__((always_inline)) void multiply(const uint8_t *left,
                                                           const uint8_t *right, uint32_t bytes,
                                                           uint32_t rows, bool is_bf16,
                                                           const uint32_t *target, int64_t pitch,
                                                           sums *blocks) {
  finish_stores(left);
  fetch(target, pitch, rows);
  for (uint32_t first = 0; first < bytes; first += STEP_BYTES) {
    uint32_t step = bytes - first < STEP_BYTES ? bytes - first : STEP_BYTES;
    const uint8_t *panel = right + (size_t)first / 4 * LINE_BYTES;
    for (uint32_t i = 0; i < rows; i += BLOCK_ROWS) {
      const uint8_t *block = left + (size_t)i * CPU_ROW_BYTES + first;
      if (first == 0) {
        clear_sums();
      } else {
        load_sums(blocks[i / BLOCK_ROWS]);
      }
      if (is_bf16) {
        MULTIPLY_BLOCK(block, panel, step, _tile_dpbf16ps)
      } else {
        MULTIPLY_BLOCK(block, panel, step, _tile_dpbusd)
      }
      store_sums(blocks[i / BLOCK_ROWS]);
    }
  }
}

static inline void put(uint32_t *to, const uint32_t *found, uint32_t count, bool is_bf16,
                       bool add) {
  const __mmask16 mask = (__mmask16)((1u << count) - 1);
  __m512i sum = _mm512_load_si512(found);
  if (add) {
    __m512i old = _mm512_maskz_loadu_epi32(mask, to);
    sum =
        is_bf16
            ? _mm512_castps_si512(_mm512_add_ps(_mm512_castsi512_ps(sum), _mm512_castsi512_ps(old)))
            : _mm512_add_epi32(sum, old);
  }
  _mm512_mask_storeu_epi32(to, mask, sum);
}

static inline __attribute__((always_inline)) void multiply_rows(
    const uint8_t *left, const uint8_t *right, uint32_t bytes, uint32_t *target, int64_t pitch,
    uint32_t rows, uint32_t columns, bool is_bf16, bool add) {
  sums blocks[MOST_ROWS / BLOCK_ROWS] __attribute__((aligned(64)));
  multiply(left, right, bytes, rows, is_bf16, target, pitch, blocks);
  for (uint32_t i = 0; i < rows; ++i, target += pitch) {
    uint32_t (*quarters)[16][16] = &blocks[i / BLOCK_ROWS][i % BLOCK_ROWS / 16 * 2];
    put(target, quarters[0][i % 16], columns < 16 ? columns : 16, is_bf16, add);
    if (columns > 16) put(target + 16, quarters[1][i % 16], columns - 16, is_bf16, add);
  }
}

// The left rows are packed, and so is the right panel: `step` and `line` say nothing new.
static void multiply_bf16(const void *left, int64_t step, const void *right, int64_t line,
                          uint32_t depth, void *target, int64_t pitch, uint32_t rows,
                          uint32_t columns, bool add) {
  (void)step;
  (void)line;
  multiply_rows(left, right, depth * 2, target, pitch, rows, columns, true, add);
}

static void multiply_i8(const void *left, int64_t step, const void *right, int64_t line,
                        uint32_t depth, void *target, int64_t pitch, uint32_t rows,
                        uint32_t columns, bool add) {
  (void)step;
  (void)line;
  multiply_rows(left, right, depth, target, pitch, rows, columns, false, add);
}

const cpu_product cpu_amx_bf16 = {.value_bytes = 2,
                                  .group = 2,
                                  .depth_multiple = 32,
                                  .rows = MOST_ROWS,
                                  .columns = DOT_COLUMNS,
                                  .needs_rows = true,
                                  .pack_left = pack_bf16_left,
                                  .pack_right = pack_bf16_right,
                                  .multiply = multiply_bf16,
                                  .begin = configure,
                                  .end = release};
const cpu_product cpu_amx_i8 = {.value_bytes = 1,
                                .group = 4,
                                .depth_multiple = 64,
                                .rows = MOST_ROWS,
                                .columns = DOT_COLUMNS,
                                .needs_rows = true,
                                .shifts = true,
                                .pack_left = pack_i8_left,
                                .pack_right = pack_i8_right,
                                .multiply = multiply_i8,
                                .begin = configure,
                                .end = release};
