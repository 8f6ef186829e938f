// The vendor's own runtime, as a chip's maker ships it: memory at addresses of the chip, and calls
// that do one thing to its end. This one is a model: the chip's memory is the host's.
#ifndef ACME_RUNTIME_H_
#define ACME_RUNTIME_H_

#include <stdint.h>

typedef uint64_t acme_address;  // Of the chip; 0 is none.

enum { ACME_OK = 0, ACME_NO_CHIP = 1, ACME_NO_MEMORY = 2 };

// Powers the chip up; ACME_NO_CHIP when ACME_CHIPS=0 stands in the environment.
int acme_open(void);
void acme_close(void);
const char *acme_name(void);
uint64_t acme_memory_bytes(void);

// Memory of the chip at a multiple of `alignment`, a power of two of at least 64. May be called
// from any thread, as all that follows.
int acme_take(uint64_t bytes, uint64_t alignment, acme_address *out_address);
void acme_give(acme_address address);

// Where the host sees the chip's memory.
void *acme_window(acme_address address);

void acme_write(acme_address target, const void *source, uint64_t bytes);
void acme_read(void *target, acme_address source, uint64_t bytes);
void acme_move(acme_address target, acme_address source, uint64_t bytes);  // They may overlap.
void acme_fill(acme_address target, const void *pattern, uint32_t pattern_bytes, uint64_t bytes);

#endif  // ACME_RUNTIME_H_
