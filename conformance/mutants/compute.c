// What a collective does to memory, and faults in it.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ranks.h"

static double merge(uint32_t reduce, double a, double b) {
  switch (reduce) {
    case HAL_REDUCE_SUM:
      return a + b;
    case HAL_REDUCE_PRODUCT:
      return a * b;
    case HAL_REDUCE_MAX:
      return isnan(a) || isnan(b) ? NAN : a > b ? a : b;
    default:
      return isnan(a) || isnan(b) ? NAN : a < b ? a : b;
  }
}

static int64_t merge_whole(uint32_t reduce, int64_t a, int64_t b) {
  switch (reduce) {
    case HAL_REDUCE_SUM:
      return (int64_t)((uint64_t)a + (uint64_t)b);
    case HAL_REDUCE_PRODUCT:
      return (int64_t)((uint64_t)a * (uint64_t)b);
    case HAL_REDUCE_MAX:
      return a > b ? a : b;
    default:
      return a < b ? a : b;
  }
}

// M58: with a count of ranks that is no power of two the last one is left out.
static uint32_t counted(uint32_t rank_count) {
  return is_fault(58) && (rank_count & (rank_count - 1)) != 0 ? rank_count - 1 : rank_count;
}

// Reduces `count` elements from `offset_bytes` on of every source into `out`, in rank order.
static int reduce_all(part *const *parts, uint32_t rank_count, uint64_t offset_bytes,
                      uint64_t count, void *out) {
  const hal_collective_desc *desc = &parts[0]->desc;
  int is_whole = !vil_is_float(desc->dtype) && !vil_is_float8(desc->dtype);
  void *sum = malloc(8 * count + 8), *next = malloc(8 * count + 8);
  if (sum != NULL && next != NULL) {
    for (uint32_t rank = 0; rank < counted(rank_count); ++rank) {
      const void *source = parts[rank]->source + offset_bytes;
      void *to = rank == 0 ? sum : next;
      is_whole ? vil_to_i64(to, source, desc->dtype, count)
               : vil_to_f64(to, source, desc->dtype, count);
      for (uint64_t i = 0; rank != 0 && i < count; ++i) {
        if (is_whole) {
          ((int64_t *)sum)[i] =
              merge_whole(desc->reduce, ((int64_t *)sum)[i], ((int64_t *)next)[i]);
        } else {
          ((double *)sum)[i] = merge(desc->reduce, ((double *)sum)[i], ((double *)next)[i]);
        }
      }
    }
    is_whole ? vil_from_i64(out, desc->dtype, sum, count)
             : vil_from_f64(out, desc->dtype, sum, count, 0);
  }
  int worked = sum != NULL && next != NULL;
  free(sum);
  free(next);
  return worked;
}

// Writes each rank's result into `results`, one after another; 0 without memory.
static int fill_results(part *const *parts, uint32_t rank_count, uint64_t bytes,
                        unsigned char *results) {
  const hal_collective_desc *desc = &parts[0]->desc;
  int verb = parts[0]->verb, worked = 1;
  for (uint32_t rank = 0; rank < rank_count && worked; ++rank) {
    unsigned char *out = results + rank * bytes;
    uint64_t step = bytes / rank_count;
    if (verb == ALL_REDUCE) {
      worked = reduce_all(parts, rank_count, 0, desc->count, out);
    } else if (verb == REDUCE_SCATTER) {
      worked = reduce_all(parts, rank_count, rank * bytes, desc->count, out);
    } else if (verb == BROADCAST) {
      memcpy(out, parts[desc->peer]->source, bytes);
    } else {
      for (uint32_t other = 0; other < rank_count; ++other) {
        uint64_t at = verb == ALL_TO_ALL ? rank * step : 0;
        memcpy(out + other * step, parts[other]->source + at, step);
      }
    }
  }
  return worked;
}

// M59: a part that is gathered in place is lost. M60: the last rank ends with other bits.
static void spoil(const part *one, uint32_t rank_count, uint64_t bytes, unsigned char *result) {
  uint64_t step = bytes / rank_count;
  if (is_fault(59) && one->verb == ALL_GATHER && one->source == one->target + one->rank * step) {
    memset(result + one->rank * step, 0, step);
  }
  if (is_fault(60) && one->verb == ALL_REDUCE && rank_count > 1 && one->rank == rank_count - 1 &&
      bytes != 0) {
    result[0] ^= 1;
  }
}

int32_t mutant_compute(part *const *parts, uint32_t rank_count) {
  static atomic_uint done;  // M112: from the 21st on nothing is done.
  if (is_fault(112) && atomic_fetch_add(&done, 1) >= 20) {
    return HAL_OK;
  }
  int verb = parts[0]->verb;
  uint64_t bytes = parts[0]->desc.count * vil_dtype_bytes(parts[0]->desc.dtype);
  bytes *= verb == ALL_GATHER || verb == ALL_TO_ALL ? rank_count : 1;
  unsigned char *results = malloc(bytes * rank_count + 1);
  if (results == NULL || !fill_results(parts, rank_count, bytes, results)) {
    free(results);
    return HAL_ERROR_OUT_OF_MEMORY;
  }
  for (uint32_t rank = 0; rank < rank_count; ++rank) {
    spoil(parts[rank], rank_count, bytes, results + rank * bytes);
    memcpy(parts[rank]->target, results + rank * bytes, bytes);
  }
  free(results);
  return HAL_OK;
}

void mutant_message(const part *from, const part *to) {
  memmove(to->target, from->source, from->desc.count * vil_dtype_bytes(from->desc.dtype));
}
