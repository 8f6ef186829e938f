// The port of this machine: buffers in the host's memory, kernels interpreted on its processors.
//
// Options (hal_host.options, else the environment):
//   fence=1    HAL_CPU_FENCE=1    buffers can be touched only while an operation uses them
//   threads=N  HAL_CPU_THREADS=N  threads that share a large launch; default: all processors
//   isa=NAME   HAL_CPU_ISA=NAME   plain, avx2, avx512, amx: kernels of tile operations; default:
//   the
//                                 best of this processor; none: the kit's interpreter alone
//   blas=PATH  HAL_CPU_BLAS=PATH  library of the operator matmul; none: no operator; default: the
//                                 installed ones, oneDNN and OpenBLAS (of the system, or what the
//                                 host found: library.blas=PATH)
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "blas.h"
#include "kit_tables.h"
#include "source.h"
#include "tiles.h"

// What the port is without a description from the host: the least that every chip offers.
static const char default_hcd[] =
    "identity.product\tcpu\n"
    "identity.vendor\thal\n"
    "dtypes.bf16.compute\temulated\n"
    "dtypes.bool.compute\tnative\n"
    "dtypes.f16.compute\temulated\n"
    "dtypes.f32.compute\tnative\n"
    "dtypes.f64.compute\tnative\n"
    "dtypes.i32.compute\tnative\n"
    "dtypes.i64.compute\tnative\n"
    "dtypes.i8.compute\tnative\n"
    "dtypes.u8.compute\tnative\n"
    "features.async_copy\ttrue\n"
    "features.concurrent_kernels\ttrue\n"
    "features.deterministic\ttrue\n"
    "features.host_call\ttrue\n"
    "features.host_signal_events\ttrue\n"
    "features.native_handles\ttrue\n"
    "features.pinned_host\ttrue\n"
    "features.timing\ttrue\n";

static struct {
  char name[128];
  char overlay[1024];
  uint64_t memory_bytes;
  uint32_t processors;
  bool has_blas;
} machine;

// Reads the value of the first line of a file that starts with `key`; false when there is none.
static int read_line(const char *path, const char *key, char *out, size_t capacity) {
  FILE *file = fopen(path, "r");
  if (file == NULL) {
    return 0;
  }
  char line[512];
  int found = 0;
  while (!found && fgets(line, sizeof(line), file) != NULL) {
    if (strncmp(line, key, strlen(key)) == 0) {
      const char *value = line + strlen(key);
      value += strspn(value, " \t:");
      snprintf(out, capacity, "%.*s", (int)strcspn(value, "\n"), value);
      found = 1;
    }
  }
  fclose(file);
  return found;
}

// Half of what this process may use, so that the host keeps room for itself and staged copies.
static uint64_t measure_memory(void) {
  uint64_t bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
  char text[64];
  if (read_line("/sys/fs/cgroup/memory.max", "", text, sizeof(text)) && text[0] != 'm') {
    uint64_t limit = strtoull(text, NULL, 10);
    bytes = limit != 0 && limit < bytes ? limit : bytes;
  }
  return bytes / 2 & ~(uint64_t)0xFFFFF;
}

static uint32_t measure_processors(void) {
  cpu_set_t allowed;
  int count = sched_getaffinity(0, sizeof(allowed), &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
  return count < 1 ? 1 : (uint32_t)count;
}

// Adds a line to the overlay.
__attribute__((format(printf, 1, 2))) static void overlay(const char *format, ...) {
  size_t used = strlen(machine.overlay);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(machine.overlay + used, sizeof(machine.overlay) - used, format, arguments);
  va_end(arguments);
}

// Adds the capacity of a cache that the description has and the system knows.
static void overlay_cache(const kit_hcd *hcd, const char *id, int level) {
  char path[80], file[80], text[32], *unit;
  snprintf(path, sizeof(path), "memory.%s.capacity_bytes", id);
  snprintf(file, sizeof(file), "/sys/devices/system/cpu/cpu0/cache/index%d/size", level);
  if (kit_hcd_text(hcd, path) == NULL || !read_line(file, "", text, sizeof(text))) {
    return;
  }
  unsigned long long bytes = strtoull(text, &unit, 10);
  bytes *= *unit == 'K' ? 1024 : *unit == 'M' ? 1024 * 1024 : 1;
  if (bytes != 0) {
    overlay("%s\t%llu\n", path, bytes);
  }
}

// Multiply-adds of a core in one cycle with the instructions in use.
static void overlay_products(const kit_hcd *hcd) {
  static const char *const types[] = {"f32", "f64", "bf16", "f16", "i8"};
  for (int i = 0; i < 5; ++i) {
    char path[80];
    snprintf(path, sizeof(path), "compute.matrix.operations.%s.macs_per_cycle", types[i]);
    if (kit_hcd_text(hcd, path) != NULL) {
      overlay("%s\t%d\n", path, cpu_tiles_macs_per_cycle(types[i]));
    }
  }
}

// The values of the description that only this machine knows.
static void write_overlay(void) {
  const kit_hcd *hcd = kit_host_hcd();
  const char *memory = kit_hcd_text(hcd, "execution.buffers");
  const char *core = kit_hcd_text(hcd, "execution.core");
  if (kit_host_is_fenced()) {
    overlay("features.native_handles\tfalse\n");
  }
  if (memory != NULL) {
    overlay(
        "execution.limits.allocation_bytes_max\t%llu\n"
        "memory.%.64s.capacity_bytes\t%llu\n",
        (unsigned long long)machine.memory_bytes, memory, (unsigned long long)machine.memory_bytes);
  }
  if (core != NULL) {
    overlay("units.%.64s.count\t%u\n", core, machine.processors);
  }
  overlay_cache(hcd, "l2", 2);
  overlay_cache(hcd, "l3", 3);
  overlay_products(hcd);
  overlay("features.library\t%s\n", machine.has_blas ? "true" : "false");
}

static int32_t start(void) {
  char text[32];
  memset(&machine, 0, sizeof(machine));
  machine.memory_bytes = measure_memory();
  machine.processors = measure_processors();
  if (!read_line("/proc/cpuinfo", "model name", machine.name, sizeof(machine.name))) {
    snprintf(machine.name, sizeof(machine.name), "this machine's processors");
  }
  kit_host_fence(kit_option("fence", "HAL_CPU_FENCE", text, sizeof(text)) != NULL &&
                 strcmp(text, "1") == 0);
  uint32_t threads = machine.processors;
  if (kit_option("threads", "HAL_CPU_THREADS", text, sizeof(text)) != NULL && atoi(text) > 0) {
    threads = (uint32_t)atoi(text);
  }
  kit_host_threads(threads - 1);
  const char *isa = kit_option("isa", "HAL_CPU_ISA", text, sizeof(text));
  if (!cpu_tiles_choose(isa)) {
    return kit_fail(
        HAL_ERROR_UNSUPPORTED,
        "isa=%s: this processor has no such instructions, or there is no such set; sets "
        "are none, plain, avx2, avx512, amx",
        isa);
  }
  static const vil_hooks hooks = {
      .tile = cpu_tile, .takes_pitch = 1, .takes_turned = 1, .chain = cpu_chain_hook};
  kit_host_hooks(strcmp(cpu_tiles_name(), "none") == 0 ? NULL : &hooks);
  char path[1024], installed[1024];
  const char *only = kit_option("blas", "HAL_CPU_BLAS", path, sizeof(path));
  const char *found = kit_option("library.blas", NULL, installed, sizeof(installed));
  machine.has_blas = cpu_blas_start(only, found, threads);
  write_overlay();
  return HAL_OK;
}

static uint32_t device_count(void) {
  return 1;
}

static int32_t device_facts(uint32_t index, kit_device_facts *out_facts) {
  (void)index;
  *out_facts = (kit_device_facts){
      .name = machine.name,
      .hcd_ref = "hal/cpu",
      .hcd_overlay = machine.overlay,
      .hcd = kit_host_hcd(),
      .memory_bytes = machine.memory_bytes,
      .alignment_bytes = 64,
      .dlpack_type = kit_host_is_fenced() ? 0 : 1,  // kDLCPU
  };
  return HAL_OK;
}

static const kit_port port = {
    .runtime = "",
    .runs_on = "device",
    .format = "vil.v1",
    .hcd_default = default_hcd,
    .hooks = {.start = start,
              .device_count = device_count,
              .device_facts = device_facts,
              .operator_info = cpu_blas_info,
              .operator_supports = cpu_blas_supports,
              .operator_run = cpu_blas_run,
              .module_open = cpu_source_open,
              .module_close = cpu_source_close},
};

KIT_ENTRY(port, .name = "cpu", .vendor = "hal", .version = "1.0.0", .build_id = "1.0.0",
          .memory = KIT_MEMORY_TABLE(.wrap = kit_memory_wrap,
                                     .native_handle = kit_memory_native_handle),
          .stream = KIT_STREAM_TABLE(.host_call = kit_stream_host_call),
          .operators = KIT_OPERATOR_TABLE());
