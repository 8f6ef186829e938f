// A hash map from a 64-bit key, never 0, to a pointer. Its caller serialises. Inside libhal only.
#ifndef HAL_NATIVE_MAP_H_
#define HAL_NATIVE_MAP_H_

#include <stdint.h>
#include <stdlib.h>

typedef struct hal_map_entry {
  uint64_t key;  // 0: free.
  void *value;
} hal_map_entry;

// All zeros is an empty map.
typedef struct hal_map {
  hal_map_entry *entries;
  uint32_t mask;  // Slots − 1.
  uint32_t count;
} hal_map;

static inline uint32_t hal_map_home(const hal_map *map, uint64_t key) {
  key *= 0x9E3779B97F4A7C15u;
  return (uint32_t)(key >> 32) & map->mask;
}

static inline void *hal_map_get(const hal_map *map, uint64_t key) {
  if (map->count == 0) return NULL;
  for (uint32_t i = hal_map_home(map, key);; i = (i + 1) & map->mask) {
    if (map->entries[i].key == key) return map->entries[i].value;
    if (map->entries[i].key == 0) return NULL;
  }
}

static inline void hal_map_place(hal_map *map, uint64_t key, void *value) {
  uint32_t i = hal_map_home(map, key);
  while (map->entries[i].key != 0) i = (i + 1) & map->mask;
  map->entries[i] = (hal_map_entry){key, value};
}

// Adds a key that is not there. Returns 0 without host memory.
static inline int hal_map_add(hal_map *map, uint64_t key, void *value) {
  if (map->entries == NULL || (map->count + 1) * 4 > (map->mask + 1) * 3) {
    const uint32_t slots = map->entries == NULL ? 16 : (map->mask + 1) * 2;
    hal_map grown = {.entries = calloc(slots, sizeof(hal_map_entry)), .mask = slots - 1};
    if (grown.entries == NULL) return 0;
    for (uint32_t i = 0; map->entries != NULL && i <= map->mask; ++i) {
      if (map->entries[i].key != 0) {
        hal_map_place(&grown, map->entries[i].key, map->entries[i].value);
      }
    }
    free(map->entries);
    map->entries = grown.entries;
    map->mask = grown.mask;
  }
  hal_map_place(map, key, value);
  map->count += 1;
  return 1;
}

// Removes a key and returns its value; NULL when it is not there.
static inline void *hal_map_remove(hal_map *map, uint64_t key) {
  if (map->count == 0) return NULL;
  uint32_t i = hal_map_home(map, key);
  while (map->entries[i].key != key) {
    if (map->entries[i].key == 0) return NULL;
    i = (i + 1) & map->mask;
  }
  void *value = map->entries[i].value;
  // Entries behind the hole that could have lain in it move up, so that searches find them.
  for (uint32_t k = (i + 1) & map->mask; map->entries[k].key != 0; k = (k + 1) & map->mask) {
    const uint32_t home = hal_map_home(map, map->entries[k].key);
    if (((k - home) & map->mask) >= ((k - i) & map->mask)) {
      map->entries[i] = map->entries[k];
      i = k;
    }
  }
  map->entries[i].key = 0;
  map->count -= 1;
  return value;
}

static inline void hal_map_free(hal_map *map) {
  free(map->entries);
  *map = (hal_map){0};
}

#endif  // HAL_NATIVE_MAP_H_
