// Runs a fuzz target without libFuzzer: the corpus as it is, then a fixed count of seeded mutants.
//
// usage: fuzz_NAME [-runs=COUNT] [-seed=NUMBER] [FILE | FOLDER]…
//
// The same seed gives the same inputs. A target that fails does so by crashing or by a sanitizer's
// word, so before each run the input is kept in fuzz-input.bin of FUZZ_KEEP, when that is set.

#include <dirent.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { MAX_BYTES = 1 << 16, MAX_INPUTS = 1024 };

typedef struct input {
  uint8_t *data;
  size_t bytes;
} input;

static input corpus[MAX_INPUTS];
static size_t corpus_count;
static uint64_t random_state;

// xorshift64*: small, seeded, the same everywhere.
static uint64_t next_random(void) {
  random_state ^= random_state >> 12;
  random_state ^= random_state << 25;
  random_state ^= random_state >> 27;
  return random_state * UINT64_C(2685821657736338717);
}

static size_t below(size_t limit) {
  return limit == 0 ? 0 : (size_t)(next_random() % limit);
}

static void add_file(const char *path) {
  FILE *file = fopen(path, "rb");
  if (file == NULL || corpus_count == MAX_INPUTS) {
    fprintf(stderr, "fuzz: cannot read %s\n", path);
    exit(2);
  }
  uint8_t *data = malloc(MAX_BYTES);
  if (data == NULL) exit(2);
  corpus[corpus_count++] = (input){data, fread(data, 1, MAX_BYTES, file)};
  fclose(file);
}

static void add_path(const char *path) {
  struct stat facts;
  if (stat(path, &facts) != 0 || !S_ISDIR(facts.st_mode)) {
    add_file(path);
    return;
  }
  struct dirent **entries = NULL;
  int count = scandir(path, &entries, NULL, alphasort);
  for (int i = 0; i < count; ++i) {
    char name[4096];
    snprintf(name, sizeof name, "%s/%s", path, entries[i]->d_name);
    if (entries[i]->d_name[0] != '.') add_file(name);
    free(entries[i]);
  }
  free(entries);
}

// Changes the input in one of seven ways and returns its new length.
static size_t mutate(uint8_t *data, size_t bytes) {
  static const uint8_t edges[] = {0, 1, 0x7f, 0x80, 0xfe, 0xff, '\n', '"', '{', '%'};
  size_t at = below(bytes);
  size_t run = 1 + below(16);
  switch (bytes == 0 ? 5 : next_random() % 7) {
    case 0:
      data[at] ^= (uint8_t)(1u << below(8));
      return bytes;
    case 1:
      data[at] = edges[below(sizeof edges)];
      return bytes;
    case 2:  // a number of four bytes, at or next to a power of two
      for (size_t i = 0, value = ((size_t)1 << below(32)) - below(2); i < 4; ++i, value >>= 8) {
        if (at + i < bytes) data[at + i] = (uint8_t)value;
      }
      return bytes;
    case 3:  // cut a part out
      if (run > bytes - at) run = bytes - at;
      memmove(data + at, data + at + run, bytes - at - run);
      return bytes - run;
    case 4:  // cut the end off
      return at;
    case 5:  // put bytes in
      if (bytes + run > MAX_BYTES) return bytes;
      memmove(data + at + run, data + at, bytes - at);
      for (size_t i = 0; i < run; ++i) data[at + i] = (uint8_t)next_random();
      return bytes + run;
    default:  // copy a part of another input over this one
    {
      const input *other = &corpus[below(corpus_count)];
      size_t from = below(other->bytes);
      if (run > other->bytes - from) run = other->bytes - from;
      if (run > bytes - at) run = bytes - at;
      memcpy(data + at, other->data + from, run);
      return bytes;
    }
  }
}

static void keep(const uint8_t *data, size_t bytes) {
  const char *folder = getenv("FUZZ_KEEP");
  if (folder == NULL) return;
  char name[4096];
  snprintf(name, sizeof name, "%s/fuzz-input.bin", folder);
  FILE *file = fopen(name, "wb");
  if (file == NULL) return;
  fwrite(data, 1, bytes, file);
  fclose(file);
}

int main(int argc, char **argv) {
  uint64_t run_count = 20000;
  random_state = 1;
  for (int i = 1; i < argc; ++i) {
    if (sscanf(argv[i], "-runs=%" SCNu64, &run_count) == 1) continue;
    if (sscanf(argv[i], "-seed=%" SCNu64, &random_state) == 1) continue;
    add_path(argv[i]);
  }
  if (random_state == 0) random_state = 1;
  if (corpus_count == 0) corpus[corpus_count++] = (input){calloc(1, 1), 0};

  for (size_t i = 0; i < corpus_count; ++i) {
    keep(corpus[i].data, corpus[i].bytes);
    LLVMFuzzerTestOneInput(corpus[i].data, corpus[i].bytes);
  }
  static uint8_t work[MAX_BYTES];
  for (uint64_t run = 0; run < run_count; ++run) {
    const input *from = &corpus[below(corpus_count)];
    size_t bytes = from->bytes;
    memcpy(work, from->data, bytes);
    for (size_t i = 1 + below(4); i > 0; --i) bytes = mutate(work, bytes);
    keep(work, bytes);
    // A block of the exact length, so that a sanitizer sees one byte too far.
    uint8_t *exact = malloc(bytes + (bytes == 0));
    if (exact == NULL) return 2;
    memcpy(exact, work, bytes);
    LLVMFuzzerTestOneInput(exact, bytes);
    free(exact);
  }
  for (size_t i = 0; i < corpus_count; ++i) free(corpus[i].data);
  return 0;
}
