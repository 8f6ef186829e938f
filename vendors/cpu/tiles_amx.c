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

// Registers: 0 to 3 the sums of the four quarters, 4 and 5 left, 6 and 7 right.
static void clear_sums(void) {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
}

static void load_operands(const uint8_t *left, const uint8_t *right) {
  finish_stores(left);
  _tile_loadd(4, left, CPU_ROW_BYTES);
  _tile_loadd(5, left + (size_t)16 * CPU_ROW_BYTES, CPU_ROW_BYTES);
  _tile_loadd(6, right, DOT_COLUMNS * 4);
  _tile_loadd(7, right + 64, DOT_COLUMNS * 4);
}

static void release(void) {
  _tile_release();
}

static void store_sums(uint32_t room[32][DOT_COLUMNS]) {
  _tile_stored(0, &room[0][0], DOT_COLUMNS * 4);
  _tile_stored(1, &room[0][16], DOT_COLUMNS * 4);
  _tile_stored(2, &room[16][0], DOT_COLUMNS * 4);
  _tile_stored(3, &room[16][16], DOT_COLUMNS * 4);
}

static void multiply_bf16(const void *left, int64_t step, const void *right, int64_t line,
                          uint32_t depth, void *target, int64_t pitch, uint32_t rows,
                          uint32_t columns, bool add) {
  (void)step;  // The left rows are packed.
  (void)line;
  uint32_t room[32][DOT_COLUMNS] __attribute__((aligned(64)));
  clear_sums();
  for (uint32_t l = 0; l < depth; l += 32) {
    load_operands((const uint8_t *)left + (size_t)l * 2,
                  (const uint8_t *)right + (size_t)l / 2 * DOT_COLUMNS * 4);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  store_sums(room);
  for (uint32_t i = 0; i < rows; ++i) {
    float *d = (float *)target + i * pitch, sums[DOT_COLUMNS];
    memcpy(sums, room[i], sizeof(sums));
    for (uint32_t n = 0; n < columns; ++n) d[n] = add ? d[n] + sums[n] : sums[n];
  }
}

static void multiply_i8(const void *left, int64_t step, const void *right, int64_t line,
                        uint32_t depth, void *target, int64_t pitch, uint32_t rows,
                        uint32_t columns, bool add) {
  (void)step;  // The left rows are packed.
  (void)line;
  uint32_t room[32][DOT_COLUMNS] __attribute__((aligned(64)));
  clear_sums();
  for (uint32_t l = 0; l < depth; l += 64) {
    load_operands((const uint8_t *)left + l,
                  (const uint8_t *)right + (size_t)l / 4 * DOT_COLUMNS * 4);
    _tile_dpbusd(0, 4, 6);
    _tile_dpbusd(1, 4, 7);
    _tile_dpbusd(2, 5, 6);
    _tile_dpbusd(3, 5, 7);
  }
  store_sums(room);
  for (uint32_t i = 0; i < rows; ++i) {
    uint32_t *d = (uint32_t *)target + i * pitch;
    for (uint32_t n = 0; n < columns; ++n) d[n] = add ? d[n] + room[i][n] : room[i][n];
  }
}

const cpu_product cpu_amx_bf16 = {.value_bytes = 2,
                                  .group = 2,
                                  .depth_multiple = 32,
                                  .rows = 32,
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
                                .rows = 32,
                                .columns = DOT_COLUMNS,
                                .needs_rows = true,
                                .shifts = true,
                                .pack_left = pack_i8_left,
                                .pack_right = pack_i8_right,
                                .multiply = multiply_i8,
                                .begin = configure,
                                .end = release};
