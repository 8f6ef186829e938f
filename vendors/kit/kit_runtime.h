// Ports of a runtime that lies on the host: its library, its errors, its devices, what they say.
//
// Such a port opens the runtime in its hook `start`, and offers the devices that it finds:
//
//   static int32_t start(void) {
//     int32_t status = kit_library_open(&library);
//     for (… each device that the runtime lists …) {
//       acme_chip chip = {.id = …};
//       if (!kit_option_picks("device", "HAL_ACME_DEVICE", name, number)) continue;
//       status = acme_open(&chip);
//       status == HAL_OK ? kit_device_offer(name, &chip, sizeof(chip)) : kit_device_refuse(name);
//     }
//     return HAL_OK;  // Where none was taken, init fails with the reasons.
//   }
//
// The hook `device_describe` tells the facts of one that was taken; it is left out when the hook
// fails, or when its near memory cannot hold the tiles of every program. `device_drop` gives it
// back. Such a port has no hooks device_count and device_facts.
#ifndef KIT_KIT_RUNTIME_H_
#define KIT_KIT_RUNTIME_H_

#include "kit.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- A library ----

typedef struct kit_symbol {
  const char *name;
  void *place;  // Of the pointer to the function. The list ends with a NULL name.
} kit_symbol;

// In a list FUNCTIONS(X) of X(name, types of the parameters), a pointer to a function that answers
// an int: `typedef struct acme_functions { FUNCTIONS(KIT_POINTER) } acme_functions;`.
#define KIT_POINTER(name, ...) int (*name)(__VA_ARGS__);

typedef struct kit_library {
  const char *what;                  // In errors: "OpenCL loader".
  const char *option, *environment;  // What may name the file; NULL: nothing does.
  const char *files[6];              // Else the first of these that opens.
  const kit_symbol *symbols;
  const char *advice;   // What to do without the library: "Install …".
  const char *missing;  // What a missing function means: "it is older than OpenCL 1.2".
} kit_library;

// Opens the library and finds its functions. NOT_FOUND without it, VERSION without a function; both
// are explained. It stays open for ever: runtimes have threads of their own.
int32_t kit_library_open(const kit_library *library);

// ---- Its errors ----

typedef struct kit_codes_row {
  int32_t status;     // Of the HAL.
  const char *words;  // What it means for the user; NULL: nothing more.
  int32_t codes[24];  // The runtime's numbers; 0 ends the list.
} kit_codes_row;

typedef struct kit_codes {
  const char *runtime;                // "OpenCL".
  const char *(*name)(int32_t code);  // The runtime's word for a number; NULL: it has none.
  const kit_codes_row *rows;
  size_t count;
} kit_codes;

// HAL_OK for 0; else fails with the status of the code's row, EXECUTION_FAILED where it has none:
// "CALL: RUNTIME error CODE, WORDS".
int32_t kit_check(const kit_codes *codes, int32_t code, const char *call);

// ---- Options ----

// Whether a thing is what an option asks for: its number, or a part of its name. 1 where the option
// is not given.
int kit_option_picks(const char *key, const char *environment, const char *name, uint32_t number);

// The option as a number; `otherwise` where it is not given, or is none.
uint64_t kit_option_number(const char *key, const char *environment, uint64_t otherwise);

// ---- Devices ----

// Takes a device, in the order of the calls; name and data are copied. OUT_OF_MEMORY: it is not.
int32_t kit_device_offer(const char *name, const void *data, size_t bytes);
// Leaves one out, for the reason in the thread's error record: it goes to the log, and into the
// error when no device is left.
void kit_device_refuse(const char *name);
void *kit_device_data(const kit_device *device);  // The copy; it lives until shutdown.
void *kit_device_data_at(uint32_t index);         // NULL beyond the last one.

// ---- What a device says ----

// In the hook device_describe: a line of the overlay, when the description has such a path. A path
// in braces stands for its value: "memory.{execution.buffers}.capacity_bytes". No line for 0.
void kit_facts_number(kit_device_facts *facts, const char *path, uint64_t value);
void kit_facts_text(kit_device_facts *facts, const char *path, const char *value);
// Whether the device computes with a type; where not, no operation of the description takes it.
void kit_facts_dtype(kit_device_facts *facts, const char *dtype, int is_there);

#ifdef __cplusplus
}
#endif

#endif  // KIT_KIT_RUNTIME_H_
