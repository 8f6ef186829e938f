// Loads `source.c` images: the machine's C compiler makes a library of the source, which is kept in
// the cache folder by the content of everything that decides it, and loaded from there next time.
//
// Environment: CC names the compiler (default: the first of cc, gcc, clang); HAL_CACHE_DIR the
// cache folder (default: hal in XDG_CACHE_HOME or in ~/.cache).

// ---- Optional ----
#include "source.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kit_source.h"

extern char **environ;

enum { PATH_BYTES = 1024, WORDS = 32, LOG_BYTES = 4096, FLAGS_BYTES = 4096 };

static const char *const flags[] = {"-x",
                                    "c",
                                    "-std=gnu11",
                                    "-O3",
                                    "-march=native",
                                    "-w",
                                    "-fPIC",
                                    "-shared",
                                    "-ffp-contract=off",
                                    "-fwrapv",
                                    "-fopenmp-simd",
                                    "-fno-math-errno",
                                    "-fno-trapping-math"};

// A compiler call: the words of CC, our flags, and room for where to and from what.
typedef struct command {
  char name[256];
  char *words[WORDS];
  uint32_t count;
} command;

typedef struct key {
  uint64_t low, high;
} key;

// ---- Optional: the cache ----

static void mix(key *hash, const void *data, uint64_t bytes) {  // FNV-1a, two of them.
  const uint8_t *at = data;
  for (uint64_t i = 0; i < bytes; i++) {
    hash->low = (hash->low ^ at[i]) * UINT64_C(0x100000001b3);
    hash->high = (hash->high ^ at[i]) * UINT64_C(0x10000000233);
  }
}

// The features of this processor, so that a folder on a shared disk serves several machines.
static const char *processor(void) {
  static char text[FLAGS_BYTES];
  if (text[0] == 0) {
    char line[FLAGS_BYTES] = "unknown";
    FILE *file = fopen("/proc/cpuinfo", "r");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL &&
           strncmp(line, "flags", 5) != 0 && strncmp(line, "Features", 8) != 0) {
    }
    if (file != NULL) fclose(file);
    snprintf(text, sizeof(text), "%.4000s", line);
  }
  return text;
}

static int make_folder(char *path) {
  for (char *slash = path + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
    *slash = 0;
    mkdir(path, 0777);
    *slash = '/';
  }
  return mkdir(path, 0777) == 0 || errno == EEXIST;
}

static int cache_folder(char *out) {
  const char *named = getenv("HAL_CACHE_DIR"), *shared = getenv("XDG_CACHE_HOME");
  const char *home = getenv("HOME");
  int length;
  if (named != NULL && *named) {
    length = snprintf(out, PATH_BYTES, "%s/sources", named);
  } else if (shared != NULL && *shared) {
    length = snprintf(out, PATH_BYTES, "%s/hal/sources", shared);
  } else {
    length = snprintf(out, PATH_BYTES, "%s/.cache/hal/sources", home != NULL ? home : "/tmp");
  }
  return length < PATH_BYTES - 100 && make_folder(out);
}

// Whether the file beside a library holds these bytes: the library was made from them.
static int is_made_from(const char *path, const kit_source *source, const char *how) {
  int file = open(path, O_RDONLY | O_CLOEXEC);
  struct stat facts;
  uint64_t head = strlen(how), all = head + source->text_bytes;
  int same = 0;
  if (file >= 0 && fstat(file, &facts) == 0 && (uint64_t)facts.st_size == all && all != 0) {
    char *text = mmap(NULL, all, PROT_READ, MAP_PRIVATE, file, 0);
    if (text != MAP_FAILED) {
      same = memcmp(text, how, head) == 0 &&
             memcmp(text + head, source->text, source->text_bytes) == 0;
      munmap(text, all);
    }
  }
  if (file >= 0) close(file);
  return same;
}

static int write_all(int file, const char *text, uint64_t bytes) {
  while (bytes != 0) {
    ssize_t done = write(file, text, bytes);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return 0;
    text += done;
    bytes -= (uint64_t)done;
  }
  return 1;
}

// Writes what a library was made from, under its own name at once.
static int keep_origin(const char *path, const char *place, const kit_source *source,
                       const char *how) {
  int file = open(place, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  int done = file >= 0 && write_all(file, how, strlen(how)) &&
             write_all(file, source->text, source->text_bytes);
  if (file >= 0) close(file);
  if (done && rename(place, path) == 0) return 1;
  unlink(place);
  return 0;
}

// ---- Optional: the compiler ----

static void split(command *call, const char *text) {
  snprintf(call->name, sizeof(call->name), "%s", text);
  call->count = 0;
  for (char *word = strtok(call->name, " "); word != NULL && call->count < 8;
       word = strtok(NULL, " ")) {
    call->words[call->count++] = word;
  }
  for (uint32_t i = 0; i < sizeof(flags) / sizeof(*flags); i++) {
    call->words[call->count++] = (char *)flags[i];
  }
  call->words[call->count] = NULL;
}

static int is_found(const char *name) {
  char path[PATH_BYTES];
  if (strchr(name, '/') != NULL) return access(name, X_OK) == 0;
  const char *from = getenv("PATH");
  while (from != NULL && *from) {
    int length = (int)strcspn(from, ":");
    snprintf(path, sizeof(path), "%.*s/%s", length, from, name);
    if (access(path, X_OK) == 0) return 1;
    from += length + (from[length] == ':');
  }
  return 0;
}

static int find_compiler(command *call) {
  static const char *const usual[] = {"cc", "gcc", "clang"};
  const char *named = getenv("CC");
  if (named != NULL && *named) {
    split(call, named);
    return call->count != 0 && is_found(call->words[0]);
  }
  for (int i = 0; i < 3; i++) {
    if (is_found(usual[i])) {
      split(call, usual[i]);
      return 1;
    }
  }
  return 0;
}

static void describe(const command *call, char *out, size_t capacity) {
  size_t at = 0;
  for (uint32_t i = 0; i < call->count && at < capacity; i++) {
    at += (size_t)snprintf(out + at, capacity - at, "%s ", call->words[i]);
  }
  if (at < capacity) snprintf(out + at, capacity - at, "\n%s", processor());
}

// Runs the compiler with the source on its standard input. 0, its exit status, or -1.
static int run_compiler(command *call, const char *to, const kit_source *source, char *log) {
  int input = memfd_create("hal-source", MFD_CLOEXEC);
  int words = memfd_create("hal-log", MFD_CLOEXEC);
  int status = -1;
  pid_t child;
  posix_spawn_file_actions_t actions;
  if (input >= 0 && words >= 0 && write_all(input, source->text, source->text_bytes) &&
      lseek(input, 0, SEEK_SET) == 0 && posix_spawn_file_actions_init(&actions) == 0) {
    uint32_t at = call->count;
    char *const last[] = {"-", "-o", (char *)to, "-lm", NULL};
    for (int i = 0; i < 5; i++) call->words[at++] = last[i];
    posix_spawn_file_actions_adddup2(&actions, input, 0);
    posix_spawn_file_actions_adddup2(&actions, words, 1);
    posix_spawn_file_actions_adddup2(&actions, words, 2);
    if (posix_spawnp(&child, call->words[0], &actions, NULL, call->words, environ) == 0) {
      while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
      }
      status = WIFEXITED(status) ? WEXITSTATUS(status) : 255;
    }
    posix_spawn_file_actions_destroy(&actions);
    call->words[call->count] = NULL;
    ssize_t length = pread(words, log, LOG_BYTES - 1, 0);
    log[length < 0 ? 0 : length] = 0;
  }
  if (input >= 0) close(input);
  if (words >= 0) close(words);
  return status;
}

static int32_t explain(const command *call, int status, const kit_source *source, const char *log) {
  if (status < 0) {
    return kit_fail(HAL_ERROR_UNSUPPORTED, "the C compiler '%s' cannot be run", call->words[0]);
  }
  char instruction[160];
  const char *error = strstr(log, "error:");
  const char *mark = strstr(log, "<stdin>:");
  for (const char *next = mark; next != NULL && error != NULL && next < error;
       next = strstr(next + 1, "<stdin>:")) {
    mark = next;
  }
  long line = mark == NULL ? 0 : strtol(mark + 8, NULL, 10);
  kit_source_instruction(source, line, instruction, sizeof(instruction));
  error = error == NULL ? log : error;
  return kit_fail(HAL_ERROR_INVALID_MODULE,
                  "the C compiler '%s' refuses the source (exit %d) at line %ld, from VIL `%s`: "
                  "%.*s",
                  call->words[0], status, line, instruction, (int)strcspn(error, "\n"), error);
}

// ---- Optional: loading ----

static int32_t build(command *call, const char *library, const char *origin,
                     const kit_source *source, const char *how) {
  static _Atomic uint32_t count;
  char place[PATH_BYTES + 64], log[LOG_BYTES] = "";
  snprintf(place, sizeof(place), "%s.%ld.%u", library, (long)getpid(), ++count);
  int status = run_compiler(call, place, source, log);
  if (status != 0) {
    unlink(place);
    return explain(call, status, source, log);
  }
  if (rename(place, library) != 0) {
    unlink(place);
    return kit_fail(HAL_ERROR_INTERNAL, "%s cannot be written: %s", library, strerror(errno));
  }
  return keep_origin(origin, place, source, how)
             ? HAL_OK
             : kit_fail(HAL_ERROR_INTERNAL, "%s cannot be written: %s", origin, strerror(errno));
}

static int32_t find_library(const kit_source *source, char *library) {
  command call;
  char folder[PATH_BYTES], origin[PATH_BYTES + 64], how[FLAGS_BYTES + 1024];
  if (!find_compiler(&call)) {
    const char *named = getenv("CC");
    return kit_fail(HAL_ERROR_UNSUPPORTED,
                    "source.c needs a C compiler, and %s is not found; CC names another",
                    named != NULL && *named ? named : "none of cc, gcc, clang");
  }
  if (!cache_folder(folder))
    return kit_fail(HAL_ERROR_UNSUPPORTED, "the cache folder %s cannot be made: %s", folder,
                    strerror(errno));
  describe(&call, how, sizeof(how));
  key hash = {UINT64_C(0xcbf29ce484222325), UINT64_C(0x84222325cbf29ce4)};
  mix(&hash, how, strlen(how));
  mix(&hash, source->text, source->text_bytes);
  snprintf(library, PATH_BYTES + 64, "%s/%016llx%016llx.so", folder, (unsigned long long)hash.high,
           (unsigned long long)hash.low);
  snprintf(origin, sizeof(origin), "%.*s.c", (int)strlen(library) - 3, library);
  if (access(library, R_OK) == 0 && is_made_from(origin, source, how)) return HAL_OK;
  return build(&call, library, origin, source, how);
}

static int32_t link_programs(vil_module *module, void *library) {
  char name[128];
  for (uint32_t i = 0; i < vil_module_program_count(module); i++) {
    const char *program = vil_module_program_name(module, i);
    snprintf(name, sizeof(name), "hal_program_%s", program);
    void *entry = dlsym(library, name);
    snprintf(name, sizeof(name), "hal_program_%s_bytes", program);
    const uint64_t *bytes = dlsym(library, name);
    if (entry == NULL || bytes == NULL)
      return kit_fail(HAL_ERROR_INVALID_MODULE, "the source has no %s", name);
    vil_entry function;
    memcpy(&function, &entry, sizeof(function));
    vil_module_set_entry(module, i, function, *bytes);
  }
  return HAL_OK;
}

int32_t cpu_source_open(kit_device *device, const hal_module_desc *desc, vil_module **out_module,
                        void **out_data) {
  if (strcmp(desc->format, "source.c") != 0)
    return kit_fail(HAL_ERROR_UNSUPPORTED,
                    "format '%.100s' is not loaded here; 'vil.v1' and 'source.c' are",
                    desc->format);
  kit_source source;
  char path[PATH_BYTES + 64];
  int32_t status = kit_source_plan(device, desc, &source);
  if (status == HAL_OK) status = find_library(&source, path);
  void *library = NULL;
  if (status == HAL_OK && (library = dlopen(path, RTLD_NOW | RTLD_LOCAL)) == NULL)
    status = kit_fail(HAL_ERROR_INVALID_MODULE, "the compiled source cannot be loaded: %.300s",
                      dlerror());
  if (status == HAL_OK) status = link_programs(source.module, library);
  if (status != HAL_OK) {
    vil_module_free(source.module);
    if (library != NULL) dlclose(library);
    return status;
  }
  *out_module = source.module;
  *out_data = library;
  return HAL_OK;
}

void cpu_source_close(void *data) {
  dlclose(data);
}
