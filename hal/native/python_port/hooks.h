// What the port of Python classes calls: one function per method of a class. The host fills the
// table and gives its address in the options of hal_host (`python.hooks=ADDRESS`,
// `python.user=ADDRESS`); table and user live until the port has stopped.
//
// Each function answers a status of the ABI. When that is an error it writes a line to `reason`,
// which has room for HAL_PYTHON_REASON_BYTES. No two are called at the same time.
#ifndef HAL_NATIVE_PYTHON_PORT_HOOKS_H_
#define HAL_NATIVE_PYTHON_PORT_HOOKS_H_

#include <stdint.h>

// [cffi
enum { HAL_PYTHON_REASON_BYTES = 480, HAL_PYTHON_NAME_BYTES = 128, HAL_PYTHON_DEVICES_MAX = 64 };

// What a class says of itself; texts end with NUL.
typedef struct hal_python_facts {
  void *object;  // What was started: `user` of all later calls, until stop.
  char runtime[HAL_PYTHON_NAME_BYTES];
  uint32_t device_count;
} hal_python_facts;

typedef struct hal_python_device {
  char name[HAL_PYTHON_NAME_BYTES];
  uint64_t memory_bytes;  // 0: what the description says.
} hal_python_device;

typedef struct hal_python_hooks {
  uint64_t size;  // sizeof(hal_python_hooks) in the host's build.
  int32_t (*start)(void *user, hal_python_facts *out_facts, char *reason);
  void (*stop)(void *user);
  int32_t (*device)(void *user, uint32_t index, hal_python_device *out_device, char *reason);
  // `out_id`: any number but 0. `out_view`: the buffer's first byte where the host may touch it, or
  // NULL; kernels then run on a copy.
  int32_t (*alloc)(void *user, uint32_t index, uint64_t bytes, uint64_t alignment, uint64_t *out_id,
                   void **out_view, char *reason);
  int32_t (*free)(void *user, uint64_t id, char *reason);
  int32_t (*write)(void *user, uint64_t id, uint64_t offset, const void *source, uint64_t bytes,
                   char *reason);
  int32_t (*read)(void *user, uint64_t id, uint64_t offset, void *target, uint64_t bytes,
                  char *reason);
  int32_t (*copy)(void *user, uint64_t target, uint64_t target_offset, uint64_t source,
                  uint64_t source_offset, uint64_t bytes, char *reason);
  int32_t (*fill)(void *user, uint64_t id, uint64_t offset, uint64_t bytes, const void *pattern,
                  uint32_t pattern_bytes, char *reason);
} hal_python_hooks;
// cffi]

#endif  // HAL_NATIVE_PYTHON_PORT_HOOKS_H_
