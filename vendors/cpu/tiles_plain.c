// The set that every processor has: the compiler's own vectors of 16 bytes.

// ---- Optional ----
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
DEFINE_PRODUCT(f32, 8, 4)
DEFINE_PRODUCT(f64, 4, 8)
DEFINE_PRODUCT(i32, 8, 4)

static void narrow_f16(uint16_t *out, const float *x, size_t n) {
  vil_from_f32(out, HAL_DTYPE_F16, x, n);
}

#include "tiles_rows.h"

const cpu_set cpu_set_plain = {
    .name = "plain", .f32 = &f32, .f64 = &f64, .i32 = &i32, .rows = &rows};
