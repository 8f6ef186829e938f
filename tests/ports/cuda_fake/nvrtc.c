// libnvrtc.so.13 of the fake: compiles CUDA C++ with g++ into a library whose path is the "cubin".
// A group has one lane; barriers are nothing.
#define _GNU_SOURCE  // gettid
#include <ctype.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fake.h"

extern char **environ;

enum { COMPILATION_FAILED = 6, INVALID_OPTION = 5, PATH_BYTES = 600 };

typedef struct program {
  char *text, *log;
  char code[PATH_BYTES + 32];
} program;

static const char head[] =
    "#define __global__\n"
    "#define __device__\n"
    "#define __shared__ thread_local\n"
    "#define __restrict__ __restrict\n"
    "#define __align__(n) __attribute__((aligned(n)))\n"
    "struct fake_place { unsigned x, y, z; };\n"
    "static thread_local fake_place blockIdx;\n"
    "static const fake_place threadIdx = {0, 0, 0}, blockDim = {1, 1, 1};\n"
    "static inline void __syncthreads() {}\n"
    "static inline void __threadfence() { __sync_synchronize(); }\n"
    "#define FAKE_PUN(name, to, from)                                        \\\n"
    "  static inline to name(from x) {                                       \\\n"
    "    to y; __builtin_memcpy(&y, &x, sizeof(y)); return y; }\n"
    "FAKE_PUN(__float_as_uint, unsigned, float)\n"
    "FAKE_PUN(__uint_as_float, float, unsigned)\n"
    "FAKE_PUN(__double_as_longlong, long long, double)\n"
    "FAKE_PUN(__longlong_as_double, double, long long)\n"
    "template <class T> static inline T atomicCAS(T *at, T old, T next) {\n"
    "  return __sync_val_compare_and_swap(at, old, next); }\n"
    "#define FAKE_MATH(name)                                                 \\\n"
    "  static inline float name(float x) { return __builtin_##name##f(x); }  \\\n"
    "  static inline double name(double x) { return __builtin_##name(x); }\n"
    "FAKE_MATH(exp) FAKE_MATH(exp2) FAKE_MATH(log) FAKE_MATH(log2) FAKE_MATH(sqrt)\n"
    "FAKE_MATH(sin) FAKE_MATH(cos) FAKE_MATH(tanh) FAKE_MATH(erf) FAKE_MATH(floor)\n"
    "FAKE_MATH(ceil) FAKE_MATH(trunc) FAKE_MATH(rint)\n"
    "#define FAKE_MATH_2(name)                                               \\\n"
    "  static inline float name(float x, float y) { return __builtin_##name##f(x, y); }  \\\n"
    "  static inline double name(double x, double y) { return __builtin_##name(x, y); }\n"
    "FAKE_MATH_2(pow) FAKE_MATH_2(fmod)\n"
    "static inline float fma(float x, float y, float z) { return __builtin_fmaf(x, y, z); }\n"
    "static inline double fma(double x, double y, double z) { return __builtin_fma(x, y, z); }\n"
    "#line 1 \"program.cu\"\n";

static const char tail[] =
    "\n#line 1 \"fake\"\n"
    "thread_local __align__(64) unsigned char hal_tiles[232448 + 4096];\n"
    "struct fake_kernel { const char *name; void (*run)(void **, const unsigned *, unsigned);\n"
    "                     const unsigned *sizes; };\n"
    "template <class T> struct fake_argument { static T take(void *p) { return *(T *)p; } };\n"
    "template <class T> struct fake_argument<T *> { static T *take(void *p) {\n"
    "  return (T *)(*(unsigned long long *)p & ~(1ull << 62)); } };\n"
    "template <unsigned... i> struct fake_list {};\n"
    "template <class T> struct fake_maker;\n"
    "template <class... A> struct fake_maker<void (*)(A...)> {\n"
    "  static constexpr unsigned sizes[] = {(unsigned)sizeof(A)..., 0};\n"
    "  template <void (*f)(A...), unsigned... i> static void call(void **p, fake_list<i...>) {\n"
    "    f(fake_argument<A>::take(p[i])...); }\n"
    "  template <void (*f)(A...)> static void run(void **p, const unsigned *grid,\n"
    "                                             unsigned near_bytes) {\n"
    "    __builtin_memset(hal_tiles, 0xFF, near_bytes + 4096);\n"
    "    for (unsigned z = 0; z < grid[2]; ++z) for (unsigned y = 0; y < grid[1]; ++y)\n"
    "      for (unsigned x = 0; x < grid[0]; ++x) {\n"
    "        blockIdx = {x, y, z};\n"
    "        call<f>(p, fake_list<__integer_pack(sizeof...(A))...>()); }\n"
    "    for (unsigned n = 0; n < 4096; ++n)\n"
    "      if (hal_tiles[near_bytes + n] != 0xFF) __builtin_trap();\n"
    "  }\n"
    "  template <void (*f)(A...)> static fake_kernel of(const char *name) {\n"
    "    return {name, run<f>, sizes}; }\n"
    "};\n"
    "#define FAKE_KERNEL(f) fake_maker<decltype(&f)>::template of<&f>(#f),\n"
    "extern \"C\" __attribute__((visibility(\"default\"))) fake_kernel fake_kernels[] = {\n";

FAKE_API int nvrtcVersion(int *major, int *minor) {
  *major = 13;
  *minor = 0;
  return 0;
}

FAKE_API int nvrtcGetNumSupportedArchs(int *count) {
  *count = 3;
  return 0;
}

FAKE_API int nvrtcGetSupportedArchs(int *kinds) {
  const int known[] = {75, 80, 90};
  memcpy(kinds, known, sizeof(known));
  return 0;
}

FAKE_API int nvrtcCreateProgram(program **out, const char *text, const char *name, int count,
                                const char *const *headers, const char *const *names) {
  (void)name, (void)headers, (void)names;
  int code = fake_fault(__func__);
  if (code != 0 || count != 0) return code != 0 ? code : 3;
  *out = calloc(1, sizeof(**out));
  (*out)->text = strdup(text);
  (*out)->log = strdup("");
  return 0;
}

FAKE_API int nvrtcDestroyProgram(program **gone) {
  free((*gone)->text);
  free((*gone)->log);
  free(*gone);
  *gone = NULL;
  return 0;
}

static void folder(char *out) {
  const char *named = getenv("FAKE_CUDA_CACHE");
  if (named != NULL) {
    snprintf(out, PATH_BYTES / 2, "%s", named);
  } else {
    snprintf(out, PATH_BYTES / 2, "/tmp/fake-cuda-%u", (unsigned)getuid());
  }
  mkdir(out, 0700);
}

static void write_source(FILE *file, const char *text) {
  fputs(head, file);
  fputs(text, file);
  fputs(tail, file);
  for (const char *at = text; (at = strstr(at, "__global__ void ")) != NULL;) {
    at += strlen("__global__ void ");
    fprintf(file, "  FAKE_KERNEL(%.*s)\n", (int)strcspn(at, "("), at);
  }
  fputs("  {nullptr, nullptr, nullptr}};\n", file);
}

// Reads what the compiler said, in NVRTC's form: FILE(LINE): error: …
static void read_log(program *of, const char *path) {
  FILE *file = fopen(path, "r");
  char line[1000];
  free(of->log);
  of->log = calloc(1, 1);
  while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
    char name[100], rest[800];
    int number, column;
    char shaped[1000];
    if (sscanf(line, "%99[^:]:%d:%d: %799[^\n]", name, &number, &column, rest) == 4) {
      snprintf(shaped, sizeof(shaped), "%s(%d): %s\n", name, number, rest);
    } else {
      snprintf(shaped, sizeof(shaped), "%s", line);
    }
    of->log = realloc(of->log, strlen(of->log) + strlen(shaped) + 1);
    strcat(of->log, shaped);
  }
  if (file != NULL) fclose(file);
}

static int run_compiler(const char *source, const char *library, const char *log) {
  const char *const words[] = {"g++",
                               "-x",
                               "c++",
                               "-std=gnu++17",
                               "-O1",
                               "-w",
                               "-fPIC",
                               "-shared",
                               "-ffp-contract=off",
                               "-fno-exceptions",
                               "-fno-math-errno",
                               "-fno-diagnostics-show-caret",
                               "-fvisibility=hidden",
                               source,
                               "-o",
                               library,
                               NULL};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 2, log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  pid_t child;
  int status = -1;
  if (posix_spawnp(&child, words[0], &actions, NULL, (char *const *)words, environ) == 0) {
    waitpid(child, &status, 0);
  }
  posix_spawn_file_actions_destroy(&actions);
  return status;
}

static uint64_t hash_of(uint64_t hash, const char *text) {
  for (; *text != '\0'; ++text) hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
  return hash;
}

FAKE_API int nvrtcCompileProgram(program *made, int count, const char *const *words) {
  for (int i = 0; i < count; ++i) {
    if (strncmp(words[i], "--", 2) != 0 && strcmp(words[i], "-w") != 0) return INVALID_OPTION;
  }
  int code = fake_fault(__func__);
  if (code != 0) return code;
  char where[PATH_BYTES / 2], base[PATH_BYTES - 50], source[PATH_BYTES], library[PATH_BYTES],
      fresh[PATH_BYTES], log[PATH_BYTES];
  folder(where);
  uint64_t hash = hash_of(hash_of(hash_of(UINT64_C(0xcbf29ce484222325), head), tail), made->text);
  snprintf(base, sizeof(base), "%s/%016llx", where, (unsigned long long)hash);
  snprintf(library, sizeof(library), "%s.so", base);
  snprintf(made->code, sizeof(made->code), "FAKE CUBIN %s", library);
  if (access(library, R_OK) == 0) return 0;
  snprintf(source, sizeof(source), "%s.%d.cu", base, (int)gettid());
  snprintf(fresh, sizeof(fresh), "%s.%d.so", base, (int)gettid());
  snprintf(log, sizeof(log), "%s.%d.log", base, (int)gettid());
  FILE *file = fopen(source, "w");
  if (file == NULL) return COMPILATION_FAILED;
  write_source(file, made->text);
  fclose(file);
  int status = run_compiler(source, fresh, log);
  read_log(made, log);
  remove(log);
  remove(source);
  return status == 0 && rename(fresh, library) == 0 ? 0 : COMPILATION_FAILED;
}

FAKE_API int nvrtcGetProgramLogSize(program *of, size_t *bytes) {
  *bytes = strlen(of->log) + 1;
  return 0;
}

FAKE_API int nvrtcGetProgramLog(program *of, char *out) {
  strcpy(out, of->log);
  return 0;
}

FAKE_API int nvrtcGetCUBINSize(program *of, size_t *bytes) {
  *bytes = strlen(of->code) + 1;
  return 0;
}

FAKE_API int nvrtcGetCUBIN(program *of, char *out) {
  strcpy(out, of->code);
  return 0;
}

FAKE_API int nvrtcGetPTXSize(program *of, size_t *bytes) {
  return nvrtcGetCUBINSize(of, bytes);
}

FAKE_API int nvrtcGetPTX(program *of, char *out) {
  return nvrtcGetCUBIN(of, out);
}
