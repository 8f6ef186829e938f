// What cffi is told of the port of Python classes. Made from python_port/hooks.h by hal/native/loader_cdef.py.
enum { HAL_PYTHON_REASON_BYTES = 480, HAL_PYTHON_NAME_BYTES = 128, HAL_PYTHON_DEVICES_MAX = 64 };
typedef struct hal_python_facts {
  void *object;
  char runtime[HAL_PYTHON_NAME_BYTES];
  uint32_t device_count;
} hal_python_facts;
typedef struct hal_python_device {
  char name[HAL_PYTHON_NAME_BYTES];
  uint64_t memory_bytes;
} hal_python_device;
typedef struct hal_python_hooks {
  uint64_t size;
  int32_t (*start)(void *user, hal_python_facts *out_facts, char *reason);
  void (*stop)(void *user);
  int32_t (*device)(void *user, uint32_t index, hal_python_device *out_device, char *reason);
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
