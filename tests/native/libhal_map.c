// The hash map, against a plain array: random keys of a small range, so that searches run into each
// other and removals leave holes.
#include "map.h"

#include "expect.h"

enum { KEYS = 300, STEPS = 200000 };

int main(void) {
  hal_map map = {0};
  static char values[KEYS + 1];
  int is_in[KEYS + 1] = {0};
  uint32_t count = 0;
  uint64_t state = 4101842887655102017u;
  TRUE(hal_map_get(&map, 5) == NULL);
  TRUE(hal_map_remove(&map, 5) == NULL);
  for (int step = 0; step < STEPS; ++step) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    const uint64_t key = 1 + (state >> 33) % KEYS;
    // Keys of which only the highest bits differ are keys too.
    const uint64_t wide = key << 55 | key;
    TRUE(hal_map_get(&map, wide) == (is_in[key] ? &values[key] : NULL));
    if (is_in[key]) {
      TRUE(hal_map_remove(&map, wide) == &values[key]);
      count -= 1;
    } else {
      TRUE(hal_map_add(&map, wide, &values[key]));
      count += 1;
    }
    is_in[key] = !is_in[key];
    EQUAL(map.count, count);
    const uint64_t other = 1 + (state >> 11) % KEYS;
    TRUE(hal_map_get(&map, other << 55 | other) == (is_in[other] ? &values[other] : NULL));
  }
  hal_map_free(&map);
  return 0;
}
