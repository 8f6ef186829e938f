// The set that every processor has: the compiler's own vectors of 16 bytes.
#include "tiles_pack.h"

#define VECTOR_BYTES 16
#define BLOCK_ROWS 4
#define TYPE float
#define KERNEL multiply_f32
#include "tiles_block.h"
#define TYPE double
#define KERNEL multiply_f64
#include "tiles_block.h"
#define TYPE uint32_t
#define KERNEL multiply_i32
#include "tiles_block.h"

static void copy_f32(void *out, const void *row, uint32_t dtype, uint32_t count) {
  vil_to_f32(out, row, dtype, count);
}
DEFINE_PACKING(pack_f32, copy_f32, 8, 4)
DEFINE_PACKING(pack_f64, copy_f64, 4, 8)
DEFINE_PACKING(pack_i32, copy_i32, 8, 4)

static const cpu_product f32 = {.value_bytes = 4,
                                .group = 1,
                                .depth_multiple = 1,
                                .rows = BLOCK_ROWS,
                                .columns = 8,
                                .pack_left = pack_f32_left,
                                .pack_right = pack_f32_right,
                                .multiply = multiply_f32};
static const cpu_product f64 = {.value_bytes = 8,
                                .group = 1,
                                .depth_multiple = 1,
                                .rows = BLOCK_ROWS,
                                .columns = 4,
                                .pack_left = pack_f64_left,
                                .pack_right = pack_f64_right,
                                .multiply = multiply_f64};
static const cpu_product i32 = {.value_bytes = 4,
                                .group = 1,
                                .depth_multiple = 1,
                                .rows = BLOCK_ROWS,
                                .columns = 8,
                                .pack_left = pack_i32_left,
                                .pack_right = pack_i32_right,
                                .multiply = multiply_i32};

static void narrow_f16(uint16_t *out, const float *x, size_t n) {
  vil_from_f32(out, HAL_DTYPE_F16, x, n);
}

#include "tiles_rows.h"

const cpu_set cpu_set_plain = {
    .name = "plain", .f32 = &f32, .f64 = &f64, .i32 = &i32, .rows = &rows};
