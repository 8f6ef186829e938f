// Modules of the format `source.c`: VIL with its programs written in C, compiled when loaded.

// ---- Optional ----
#ifndef CPU_SOURCE_H_
#define CPU_SOURCE_H_

#include "kit.h"

// The hooks module_open and module_close of the kit.
int32_t cpu_source_open(kit_device *device, const hal_module_desc *desc, vil_module **out_module,
                        void **out_data);
void cpu_source_close(void *data);

#endif  // CPU_SOURCE_H_
