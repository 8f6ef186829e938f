// A micro-kernel by vectors of the compiler (GCC and Clang), for one element type. The file that
// includes this defines
//   KERNEL        the function's name
//   TYPE          of a packed value and of the result: float, double, uint32_t
//   VECTOR_BYTES  of a register
//   BLOCK_ROWS    rows of a full block, at most 14; a block is two vectors wide

// ---- Optional ----

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define VECTOR JOIN(KERNEL, _vector)
#define BLOCK JOIN(KERNEL, _block)

typedef TYPE VECTOR __attribute__((vector_size(VECTOR_BYTES)));

// `rows` is a constant wherever this is inlined, so that the sums stay in registers. Three rows of
// a share a pointer: their distances, 0, `step` and 2 · `step`, fit an address.
static inline __attribute__((always_inline)) void BLOCK(const TYPE *restrict a, int64_t step,
                                                        const TYPE *restrict b, int64_t line,
                                                        uint32_t depth, TYPE *restrict d,
                                                        int64_t pitch, uint32_t columns, bool add,
                                                        const uint32_t rows) {
  enum { LANES = VECTOR_BYTES / sizeof(TYPE) };
  const TYPE *left[(BLOCK_ROWS + 2) / 3];
#pragma GCC unroll 16
  for (uint32_t i = 0; i < rows; i += 3) left[i / 3] = a + i * step;
  VECTOR sum[BLOCK_ROWS][2];
#pragma GCC unroll 16
  for (uint32_t i = 0; i < rows; ++i) {
    sum[i][0] = (VECTOR){0};
    sum[i][1] = (VECTOR){0};
  }
  for (uint32_t l = 0; l < depth; ++l) {
    VECTOR near, far;
    memcpy(&near, b, sizeof(near));
    memcpy(&far, b + LANES, sizeof(far));
#pragma GCC unroll 16
    for (uint32_t i = 0; i < rows; ++i) {
      const TYPE value = left[i / 3][i % 3 * step];
      sum[i][0] += value * near;
      sum[i][1] += value * far;
    }
#pragma GCC unroll 16
    for (uint32_t i = 0; i < rows; i += 3) ++left[i / 3];
    b += line;
  }
  if (columns == 2 * LANES) {
#pragma GCC unroll 16
    for (uint32_t i = 0; i < rows; ++i) {
      VECTOR before[2] = {{0}, {0}};
      if (add) memcpy(before, d + i * pitch, sizeof(before));
      before[0] += sum[i][0];
      before[1] += sum[i][1];
      memcpy(d + i * pitch, before, sizeof(before));
    }
    return;
  }
  TYPE room[BLOCK_ROWS][2 * LANES];
#pragma GCC unroll 16
  for (uint32_t i = 0; i < rows; ++i) memcpy(room[i], sum[i], sizeof(room[i]));
  for (uint32_t i = 0; i < rows; ++i) {
    for (uint32_t j = 0; j < columns; ++j)
      d[i * pitch + j] = add ? d[i * pitch + j] + room[i][j] : room[i][j];
  }
}

static void KERNEL(const void *left, int64_t step, const void *right, int64_t line, uint32_t depth,
                   void *target, int64_t pitch, uint32_t rows, uint32_t columns, bool add) {
// Never more than a block has: the compiler sees the cases that no call reaches, too.
#define FEW(n) (n < BLOCK_ROWS ? n : BLOCK_ROWS)
#define ROWS(n)                                                                 \
  case n:                                                                       \
    BLOCK(left, step, right, line, depth, target, pitch, columns, add, FEW(n)); \
    return
  switch (rows) {
    ROWS(1);
    ROWS(2);
    ROWS(3);
    ROWS(4);
    ROWS(5);
    ROWS(6);
    ROWS(7);
#if BLOCK_ROWS > 8
    ROWS(8);
    ROWS(9);
    ROWS(10);
    ROWS(11);
    ROWS(12);
    ROWS(13);
#endif
    default:
      BLOCK(left, step, right, line, depth, target, pitch, columns, add, BLOCK_ROWS);
  }
#undef ROWS
#undef FEW
}

#undef JOIN_
#undef JOIN
#undef VECTOR
#undef BLOCK
#undef KERNEL
#undef TYPE
