// FILL, IOTA, RNG: tiles from nothing (docs/vil.md, sections 5.2 and 5.8).
#include <string.h>

#include "vil_launch.h"

void vil_run_fill(const vil_operation *o, uint64_t bits, uint32_t source_dtype) {
  uint8_t element[8], room[8];
  uint32_t bytes = vil_dtype_bytes(o->d.dtype);
  vil_cast_row(element, o->d.dtype, &bits, source_dtype, 1, 0, room);
  uint64_t pitch = (uint64_t)o->d.columns * bytes, row_bytes = (uint64_t)o->d.valid_columns * bytes;
  uint8_t *first = o->d.data;
  if (o->d.valid_rows == 0 || row_bytes == 0) return;
  memcpy(first, element, bytes);
  for (uint64_t done = bytes; done < row_bytes; done *= 2)  // Doubles what is there.
    memcpy(first + done, first, row_bytes - done < done ? row_bytes - done : done);
  for (uint32_t i = 1; i < o->d.valid_rows; i++) memcpy(first + i * pitch, first, row_bytes);
}

void vil_run_iota(const vil_operation *o) {
  uint32_t bytes = vil_dtype_bytes(o->d.dtype);
  for (uint32_t i = 0; i < o->d.rows; i++) {
    for (uint32_t j = 0; j < o->d.columns; j++) {
      uint64_t value =
          (uint64_t)o->values[0] + (uint64_t)o->values[1] * i + (uint64_t)o->values[2] * j;
      memcpy((uint8_t *)o->d.data + ((uint64_t)i * o->d.columns + j) * bytes, &value, bytes);
    }
  }
}

static uint32_t high_half(uint32_t x, uint32_t y) {
  return (uint32_t)((uint64_t)x * y >> 32);
}

// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
static void philox(uint64_t counter, uint64_t offset, uint64_t seed, uint32_t out[4]) {
  uint32_t c0 = (uint32_t)counter, c1 = (uint32_t)(counter >> 32), c2 = (uint32_t)offset,
           c3 = (uint32_t)(offset >> 32);
  uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
  for (int round = 0; round < 10; round++) {
    uint32_t n0 = high_half(0xCD9E8D57u, c2) ^ c1 ^ k0, n2 = high_half(0xD2511F53u, c0) ^ c3 ^ k1;
    c1 = 0xCD9E8D57u * c2;
    c3 = 0xD2511F53u * c0;
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  out[0] = c0;
  out[1] = c1;
  out[2] = c2;
  out[3] = c3;
}

void vil_run_random(const vil_operation *o) {
  uint64_t base = (uint64_t)o->values[0], pitch = (uint64_t)o->values[1], last = 0;
  uint32_t lanes[4];
  int have = 0;
  for (uint32_t i = 0; i < o->d.rows; i++) {
    for (uint32_t j = 0; j < o->d.columns; j++) {
      uint64_t element = base + i * pitch + j, place = (uint64_t)i * o->d.columns + j;
      if (!have || element / 4 != last)
        philox(element / 4, (uint64_t)o->values[3], (uint64_t)o->values[2], lanes);
      have = 1;
      last = element / 4;
      if (o->function == VIL_RAW)
        ((uint32_t *)o->d.data)[place] = lanes[element % 4];
      else
        ((float *)o->d.data)[place] = (float)(lanes[element % 4] >> 8) * 0x1p-24f;
    }
  }
}
