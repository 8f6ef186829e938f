// Programs: NVRTC makes machine code of their text for the device's own kind.
#include <stdio.h>
#include <stdlib.h>

#include "cuda.h"

typedef void *nvrtcProgram;

// X(name without "nvrtc", types of the parameters)
// clang-format off
#define NVRTC_FUNCTIONS(X) \
  X(CreateProgram, nvrtcProgram *, const char *, const char *, int, const char *const *, \
    const char *const *) \
  X(DestroyProgram, nvrtcProgram *) X(CompileProgram, nvrtcProgram, int, const char *const *) \
  X(GetProgramLogSize, nvrtcProgram, size_t *) X(GetProgramLog, nvrtcProgram, char *) \
  X(GetCUBINSize, nvrtcProgram, size_t *) X(GetCUBIN, nvrtcProgram, char *) \
  X(GetPTXSize, nvrtcProgram, size_t *) X(GetPTX, nvrtcProgram, char *) \
  X(GetNumSupportedArchs, int *) X(GetSupportedArchs, int *) X(Version, int *, int *)
#define NVRTC_SYMBOL(name, ...) {"nvrtc" #name, &rtc.name},
// clang-format on

static struct {
  NVRTC_FUNCTIONS(KIT_POINTER)
} rtc;
char cuda_compiler[32];

int32_t cuda_compiler_start(void) {
  static const kit_symbol symbols[] = {NVRTC_FUNCTIONS(NVRTC_SYMBOL){NULL, NULL}};
  static const kit_library library = {
      .what = "NVRTC, which compiles kernels",
      .option = "nvrtc",
      .environment = "HAL_CUDA_NVRTC",
      .files = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so"},
      .symbols = symbols,
      .advice =
          "Install the CUDA toolkit, or pip install nvidia-cuda-nvrtc and name its file by "
          "HAL_CUDA_NVRTC=PATH",
      .missing = "it is older than CUDA 11.2"};
  int major = 0, minor = 0;
  int32_t status = kit_library_open(&library);
  if (status == HAL_OK) {
    rtc.Version(&major, &minor);
    snprintf(cuda_compiler, sizeof(cuda_compiler), "NVRTC %d.%d", major, minor);
  }
  return status;
}

// ---- Optional ----

// The word for a device: its own machine code, or for one newer than the compiler the latest
// portable code that it knows.
static bool kind_of(const cuda_chip *chip, char *out, size_t capacity) {
  int count = 0, kinds[128], best = 0;
  if (rtc.GetNumSupportedArchs(&count) != 0 || count < 1 || count > 128 ||
      rtc.GetSupportedArchs(kinds) != 0) {
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

static int32_t refuse(const kit_source *source, nvrtcProgram made) {
  size_t bytes = 0;
  char *log = rtc.GetProgramLogSize(made, &bytes) == 0 ? calloc(1, bytes + 1) : NULL;
  if (log != NULL) {
    rtc.GetProgramLog(made, log);
  }
  int32_t status = kit_source_refuse(source, cuda_compiler, log == NULL ? "" : log);
  free(log);
  return status;
}

// ---- Programs ----

static int32_t load(nvrtcProgram made, bool is_machine_code, kit_program *program) {
  size_t bytes = 0;
  char *code = NULL;
  int32_t status;
  if ((is_machine_code ? rtc.GetCUBINSize : rtc.GetPTXSize)(made, &bytes) != 0 ||
      (code = calloc(1, bytes + 1)) == NULL ||
      (is_machine_code ? rtc.GetCUBIN : rtc.GetPTX)(made, code) != 0) {
    status =
        kit_fail(HAL_ERROR_OUT_OF_MEMORY, "%s gives no code of %zu bytes", cuda_compiler, bytes);
  } else {
    status = CU(ModuleLoadData, &program->code, code);
  }
  free(code);
  return status;
}

int32_t cuda_compile(const kit_source *source, kit_program *program) {
  char kind[48];
  bool is_machine_code = kind_of(program->device, kind, sizeof(kind));
  const char *const words[] = {kind, "--std=c++17", "--fmad=false", "-w"};
  nvrtcProgram made = NULL;
  if (rtc.CreateProgram(&made, source->text, "program.cu", 0, NULL, NULL) != 0) {
    return kit_fail(HAL_ERROR_OUT_OF_MEMORY, "%s takes no source", cuda_compiler);
  }
  int32_t status = rtc.CompileProgram(made, 4, words) != 0 ? refuse(source, made)
                                                           : load(made, is_machine_code, program);
  rtc.DestroyProgram(&made);
  return status;
}

int32_t cuda_find(const kit_program *program, kit_function *function) {
  const cuda_chip *chip = program->device;
  int lanes = 0, near_bytes = (int)function->near_bytes;
  if (function->near_bytes > chip->near_bytes) {
    return kit_fail(HAL_ERROR_INVALID_MODULE,
                    "%s needs %u bytes of shared memory, a block has %llu", function->name,
                    function->near_bytes, (unsigned long long)chip->near_bytes);
  }
  int32_t status = CU(ModuleGetFunction, &function->entry, program->code, function->name);
  if (status == HAL_OK) {
    status = CU(FuncGetAttribute, &lanes, CUDA_FUNCTION_THREADS_MAX, function->entry);
  }
  function->lanes_step = 32;
  function->lanes_max = lanes < 32 ? 32 : lanes > 256 ? 256 : (uint32_t)lanes / 32 * 32;
  if (status == HAL_OK && near_bytes > 49152) {  // What a block has without asking.
    status = CU(FuncSetAttribute, function->entry, CUDA_FUNCTION_NEAR_MAX, near_bytes);
  }
  return status;
}

void cuda_program_drop(kit_program *program) {
  cu.ModuleUnload(program->code);
}
