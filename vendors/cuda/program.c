// Loads `source.cuda` images: NVRTC makes machine code of the text for the device's own kind.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda.h"

typedef struct nvrtc_program_st *nvrtcProgram;

#define NVRTC_FUNCTIONS(X)                                                                       \
  X(Create, "nvrtcCreateProgram",                                                                \
    (nvrtcProgram * program, const char *text, const char *name, int header_count,               \
     const char *const *headers, const char *const *names))                                      \
  X(Destroy, "nvrtcDestroyProgram", (nvrtcProgram * program))                                    \
  X(Compile, "nvrtcCompileProgram", (nvrtcProgram program, int count, const char *const *words)) \
  X(GetLogSize, "nvrtcGetProgramLogSize", (nvrtcProgram program, size_t *bytes))                 \
  X(GetLog, "nvrtcGetProgramLog", (nvrtcProgram program, char *log))                             \
  X(GetCodeSize, "nvrtcGetCUBINSize", (nvrtcProgram program, size_t *bytes))                     \
  X(GetCode, "nvrtcGetCUBIN", (nvrtcProgram program, char *code))                                \
  X(GetTextSize, "nvrtcGetPTXSize", (nvrtcProgram program, size_t *bytes))                       \
  X(GetText, "nvrtcGetPTX", (nvrtcProgram program, char *code))                                  \
  X(CountKinds, "nvrtcGetNumSupportedArchs", (int *count))                                       \
  X(GetKinds, "nvrtcGetSupportedArchs", (int *kinds))                                            \
  X(Version, "nvrtcVersion", (int *major, int *minor))

static struct {
#define X(member, symbol, parameters) int(*member) parameters;
  NVRTC_FUNCTIONS(X)
#undef X
  char name[32];  // "NVRTC 13.0".
} rtc;

int32_t cuda_compiler_start(void) {
  static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2",
                                      "libnvrtc.so", NULL};
  static const cuda_symbol symbols[] = {
#define X(member, symbol, parameters) {symbol, &rtc.member},
      NVRTC_FUNCTIONS(X)
#undef X
          {NULL, NULL}};
  char reason[300];
  void *library = cuda_library("nvrtc", "HAL_CUDA_NVRTC", names, reason, sizeof(reason));
  if (library == NULL) {
    return kit_fail(HAL_ERROR_NOT_FOUND,
                    "no NVRTC, which compiles kernels: %s. Install the CUDA toolkit, or pip "
                    "install nvidia-cuda-nvrtc and name its file by HAL_CUDA_NVRTC=PATH",
                    reason);
  }
  const char *missing = cuda_symbols(library, symbols);
  if (missing != NULL) {
    return kit_fail(HAL_ERROR_VERSION, "NVRTC has no %s: it is older than CUDA 11.2", missing);
  }
  int major = 0, minor = 0;
  rtc.Version(&major, &minor);
  snprintf(rtc.name, sizeof(rtc.name), "NVRTC %d.%d", major, minor);
  return HAL_OK;
}

const char *cuda_compiler_name(void) {
  return rtc.name;
}

// The word for a device: its own machine code, or for one newer than the compiler the latest
// portable code that it knows.
static bool kind_of(const cuda_chip *chip, char *out, size_t capacity) {
  int count = 0, kinds[128], best = 0;
  if (rtc.CountKinds(&count) != 0 || count < 1 || count > 128 || rtc.GetKinds(kinds) != 0) {
    count = 1;
    kinds[0] = chip->capability;
  }
  for (int i = 0; i < count; ++i) {
    best = kinds[i] <= chip->capability && kinds[i] > best ? kinds[i] : best;
  }
  bool is_machine_code = best == chip->capability;
  snprintf(out, capacity, "--gpu-architecture=%s_%d", is_machine_code ? "sm" : "compute", best);
  return is_machine_code;
}

static int32_t refuse(const kit_source *source, nvrtcProgram program) {
  size_t bytes = 0;
  char *log = rtc.GetLogSize(program, &bytes) == 0 ? calloc(1, bytes + 1) : NULL;
  if (log != NULL) rtc.GetLog(program, log);
  int32_t status = kit_source_refuse(source, rtc.name, log == NULL ? "" : log);
  free(log);
  return status;
}

// Compiles; *out_code is from malloc.
static int32_t compile(const cuda_chip *chip, const kit_source *source, char **out_code) {
  char kind[48];
  bool is_machine_code = kind_of(chip, kind, sizeof(kind));
  const char *const words[] = {kind, "--std=c++17", "--fmad=false", "-w"};
  char *text = calloc(1, source->text_bytes + 1);
  nvrtcProgram program = NULL;
  if (text != NULL) memcpy(text, source->text, source->text_bytes);
  if (text == NULL || rtc.Create(&program, text, "program.cu", 0, NULL, NULL) != 0) {
    free(text);
    return kit_fail(HAL_ERROR_OUT_OF_MEMORY, "no host memory to compile a source");
  }
  int32_t status = HAL_OK;
  size_t bytes = 0;
  if (rtc.Compile(program, 4, words) != 0) {
    status = refuse(source, program);
  } else if ((is_machine_code ? rtc.GetCodeSize : rtc.GetTextSize)(program, &bytes) != 0 ||
             (*out_code = calloc(1, bytes + 1)) == NULL ||
             (is_machine_code ? rtc.GetCode : rtc.GetText)(program, *out_code) != 0) {
    status = kit_fail(HAL_ERROR_OUT_OF_MEMORY, "%s gives no code of %zu bytes", rtc.name, bytes);
  }
  rtc.Destroy(&program);
  free(text);
  return status;
}

// The constant `enum { NAME_bytes = N };` of the source: near memory of a group.
static uint32_t near_bytes_of(const kit_source *source, const char *name) {
  char line[200];
  snprintf(line, sizeof(line), "enum { %.160s_bytes = ", name);
  const char *found = memmem(source->text, source->text_bytes, line, strlen(line));
  return found == NULL ? 0 : (uint32_t)strtoul(found + strlen(line), NULL, 10);
}

static int32_t find_function(cuda_program *program, const kit_source *source, uint32_t index) {
  char name[200];
  cuda_function *function = &program->functions[index];
  kit_source_function(source->module, index, name, sizeof(name));
  int32_t status = cuda_check(cu.ModuleGetFunction(&function->entry, program->module, name),
                              "cuModuleGetFunction");
  if (status != HAL_OK) return status;
  function->near_bytes = near_bytes_of(source, name);
  if (function->near_bytes > program->chip->near_bytes) {
    return kit_fail(HAL_ERROR_INVALID_MODULE,
                    "%s needs %u bytes of shared memory, a block has %llu", name,
                    function->near_bytes, (unsigned long long)program->chip->near_bytes);
  }
  int lanes = 0;
  status = cuda_check(cu.FunctionGet(&lanes, CUDA_FUNCTION_THREADS_MAX, function->entry),
                      "cuFuncGetAttribute");
  function->lanes_max = lanes < 32 ? 32 : lanes > 256 ? 256 : (uint32_t)lanes / 32 * 32;
  if (status == HAL_OK && function->near_bytes > 49152) {
    status = cuda_check(
        cu.FunctionSet(function->entry, CUDA_FUNCTION_NEAR_MAX, (int)function->near_bytes),
        "cuFuncSetAttribute");
  }
  return status;
}

static int32_t load(cuda_program *program, const kit_source *source) {
  char *code = NULL;
  int32_t status = compile(program->chip, source, &code);
  if (status == HAL_OK) status = cuda_enter(program->chip);
  if (status == HAL_OK) {
    status = cuda_check(cu.ModuleLoad(&program->module, code), "cuModuleLoadData");
    uint32_t count = vil_module_program_count(source->module);
    for (uint32_t i = 0; status == HAL_OK && i < count; ++i) {
      status = find_function(program, source, i);
    }
    cuda_leave();
  }
  free(code);
  return status;
}

int32_t cuda_module_open(kit_device *device, const hal_module_desc *desc, vil_module **out_module,
                         void **out_data) {
  kit_source source;
  int32_t status = kit_source_read(device, desc, &source);
  if (status != HAL_OK) return status;
  size_t count = vil_module_program_count(source.module);
  cuda_program *program = calloc(1, sizeof(*program) + count * sizeof(cuda_function));
  if (program == NULL) {
    status = kit_fail(HAL_ERROR_OUT_OF_MEMORY, "no host memory for a module");
  } else {
    program->chip = cuda_chip_of(device);
    status = load(program, &source);
  }
  if (status != HAL_OK) {
    if (program != NULL) cuda_module_close(program);
    vil_module_free(source.module);
    return status;
  }
  *out_module = source.module;
  *out_data = program;
  return HAL_OK;
}

void cuda_module_close(void *data) {
  cuda_program *program = data;
  if (program->module != NULL && cuda_enter(program->chip) == HAL_OK) {
    cu.ModuleUnload(program->module);
    cuda_leave();
  }
  free(program);
}
