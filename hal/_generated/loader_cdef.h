// What cffi is told of libhal. Made from hal/loader.h by hal/native/loader_cdef.py.
#define HAL_LAYER_TRACE 1
#define HAL_LAYER_VALIDATE 2
#define HAL_LAYER_EMULATE 4
#define HAL_LAYER_MUTATE 8
#define HAL_LAYER_DEFAULT 6
#define HAL_OPEN_NO_INIT 1
#define HAL_CAPABILITY_NONE 0
#define HAL_CAPABILITY_NATIVE 1
#define HAL_CAPABILITY_EMULATED 2
typedef void (*hal_trace_fn)(void *user, const char *line);
typedef struct hal_open_desc {
  uint64_t size;
  uint32_t layers;
  uint32_t flags;
  const char *hcd_text;
  uint64_t hcd_bytes;
  const char *options;
  hal_log_fn log;
  void *log_user;
  hal_trace_fn trace;
  void *trace_user;
  const char *break_rule;
  const char *skip_rule;
} hal_open_desc;
int32_t hal_port_open(const char *path, const hal_open_desc *desc, hal_port **out_port,
                              char *reason, uint64_t capacity);
int32_t hal_port_close(hal_port *port, uint64_t timeout_ns);
const hal_port_root *hal_port_raw(const hal_port *port);
const char *hal_port_path(const hal_port *port);
uint32_t hal_port_layers(const hal_port *port);
int32_t hal_port_capability(const hal_port *port, const char *call,
                                    int32_t *out_capability);
const char *hal_status_text(int32_t status);
