// A port in libhal is a stack of layers, the highest first: trace, validate, emulate, mutate,
// direct. Each layer is a table of functions; a function does its part and calls the next layer.
// This header is what the generated layers and the rest of libhal agree on. Inside libhal only.
#ifndef HAL_NATIVE_LAYER_H_
#define HAL_NATIVE_LAYER_H_

#include <stdint.h>

#include "calls.h"

struct hal_layer {
  const hal_calls *calls;  // What it does.
  hal_layer *next;         // The layer below; NULL in the lowest one.
  hal_port *port;          // The port that owns the stack.
  void *state;             // The layer's own: see each table below.
};

// The head of struct hal_port: its first member is the highest layer. The wrappers read it alone.
typedef struct hal_port_head {
  hal_layer *top;
} hal_port_head;

static inline hal_layer *hal_port_top(hal_port *port) {
  return ((hal_port_head *)port)->top;
}

// ---- The generated layers ----

extern const hal_calls hal_direct_calls;    // state: const hal_entries *, what the port has.
extern const hal_calls hal_forward_calls;   // state: not read. Copy it to write a layer by hand.
extern const hal_calls hal_validate_calls;  // state: const hal_rule * to skip, or NULL.
extern const hal_calls hal_mutate_calls;    // state: const hal_rule * to break, never NULL.
extern const hal_calls hal_trace_calls;     // state: const hal_trace_sink *.

// Fills `entries` from the port's tables: an entry exists when it lies inside its table's stated
// size and is not NULL.
void hal_entries_read(hal_entries *entries, const hal_port_root *root);
// Tells (0 or 1) whether the port has the function with number HAL_FUNCTION_*.
int hal_entries_have(const hal_entries *entries, uint32_t function);

// Where trace lines go. `line` is one JSON object without a line end, valid during the call; it may
// come from any thread.
typedef struct hal_trace_sink {
  void (*write)(void *user, const char *line);
  void *user;
} hal_trace_sink;

// ---- The ABI as data ----

typedef struct hal_function_name {
  const char *call;       // "interface.verb".
  const char *interface;  // "interface".
  int32_t tier;           // The lowest tier that requires it; 0 when it is optional.
} hal_function_name;

enum { HAL_BY_HOST = 1, HAL_BY_PORT = 2 };
enum {
  HAL_BREAK_MUTANT = 0,  // A port written by hand breaks it; the mutate layer only passes calls on.
  HAL_BREAK_SKIP_CHECK = 1,
  HAL_BREAK_WRONG_STATUS = 2,
  HAL_BREAK_WRITE_OUT = 3,
  HAL_BREAK_DO_NOTHING = 4
};

typedef struct hal_rule {
  const char *id;       // As HAL-MEM-004.
  uint32_t function;    // HAL_FUNCTION_*; HAL_FUNCTION_COUNT for a law of the whole ABI.
  int32_t status;       // What the rule makes the function answer.
  uint32_t checked_by;  // HAL_BY_*.
  uint32_t breaking;    // HAL_BREAK_*.
  const char *text;     // The rule in one sentence.
} hal_rule;

extern const hal_function_name hal_functions[HAL_FUNCTION_COUNT];
extern const hal_rule hal_rules[HAL_RULE_COUNT];

// Finds a rule by its id; NULL when there is none.
const hal_rule *hal_rule_find(const char *id);
// The registry's name of a status ("OK", "INVALID_VALUE"), for messages. Never NULL.
const char *hal_status_name(int32_t status);

// ---- What libhal supplies to the layers (layer.c) ----

#if defined(__GNUC__)
#define HAL_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define HAL_PRINTF(text, first)
#endif

// A host rule fails: makes it the calling thread's last error and returns `status`.
//   call: "interface.verb". rule: its id. text: the rule in one sentence.
//   detail: printf format of the values that broke it; may be empty.
int32_t hal_layer_refuse(hal_layer *self, const char *call, const char *rule, int32_t status,
                         const char *text, const char *detail, ...) HAL_PRINTF(6, 7);

// The port has no such function: makes that the last error and returns HAL_ERROR_UNSUPPORTED.
int32_t hal_layer_absent(hal_layer *self, const char *call);

// The minor of the ABI that the port speaks. A descriptor's field of a later one is not its to
// read.
uint32_t hal_layer_minor(const hal_layer *self);

// The port answered an error: its own record is now the thread's newest one. Returns `status`.
int32_t hal_layer_failed(hal_layer *self, const char *call, int32_t status);

#endif  // HAL_NATIVE_LAYER_H_
