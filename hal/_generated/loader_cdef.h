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
int32_t hal_bridge_copy(hal_port *source_port, hal_stream source_stream,
                                const hal_memory_ref *source, hal_port *target_port,
                                hal_stream target_stream, const hal_memory_ref *target);
typedef struct hal_image hal_image;
#define HAL_IMAGE_VIL 1
#define HAL_IMAGE_ENVELOPE 2
#define HAL_SIGNATURE_BUFFER 1
#define HAL_SIGNATURE_SCALAR 2
#define HAL_SIGNATURE_SYMBOL 3
#define HAL_ACCESS_READ 1
#define HAL_ACCESS_WRITE 2
#define HAL_ACCESS_INOUT 3
#define HAL_INDEX_NONE 0xFFFFFFFFu
typedef struct hal_image_facts {
  uint64_t size;
  uint32_t kind;
  uint32_t kernel_count;
  uint64_t features;
  uint32_t program_count;
  uint32_t reserved;
  const char *format;
} hal_image_facts;
typedef struct hal_kernel_facts {
  uint64_t size;
  const char *name;
  uint32_t argument_count;
  uint32_t workspace_count;
  uint32_t launch_count;
  uint32_t takes_grid;
} hal_kernel_facts;
typedef struct hal_parameter_facts {
  uint64_t size;
  const char *name;
  uint32_t kind;
  uint32_t dtype;
  uint32_t access;
  uint32_t alias;
  uint32_t argument_kind;
  uint32_t reserved;
} hal_parameter_facts;
int32_t hal_image_read(const void *bytes, uint64_t byte_count, hal_image **out_image,
                               char *reason, uint64_t capacity);
void hal_image_free(hal_image *image);
int32_t hal_image_info(const hal_image *image, hal_image_facts *out_facts);
int32_t hal_image_kernel(const hal_image *image, uint32_t kernel,
                                 hal_kernel_facts *out_facts);
int32_t hal_image_parameter(const hal_image *image, uint32_t kernel, uint32_t parameter,
                                    hal_parameter_facts *out_facts);
int32_t hal_image_find(const hal_image *image, const char *name, uint32_t *out_kernel);
int32_t hal_image_check(const hal_image *image, uint32_t kernel,
                                const hal_argument *arguments, uint32_t argument_count,
                                uint64_t *out_required_bytes, uint64_t *out_workspace_bytes,
                                char *reason, uint64_t capacity);
typedef struct hal_pool hal_pool;
typedef struct hal_pool_desc {
  uint64_t size;
  uint64_t limit_bytes;
  uint64_t alignment_bytes;
} hal_pool_desc;
typedef struct hal_pool_stats {
  uint64_t size;
  uint64_t allocated_bytes;
  uint64_t reserved_bytes;
  uint64_t peak_bytes;
  uint64_t live_count;
  uint64_t hit_count;
  uint64_t miss_count;
  uint64_t largest_free_bytes;
} hal_pool_stats;
int32_t hal_pool_create(hal_port *port, hal_device device, const hal_pool_desc *desc,
                                hal_pool **out_pool);
int32_t hal_pool_destroy(hal_pool *pool);
int32_t hal_pool_alloc(hal_pool *pool, hal_stream stream, uint64_t bytes,
                               hal_memory_ref *out_ref);
int32_t hal_pool_free(hal_pool *pool, hal_stream stream, const hal_memory_ref *ref);
int32_t hal_pool_forget_stream(hal_pool *pool, hal_stream stream);
int32_t hal_pool_trim(hal_pool *pool, uint64_t keep_bytes, uint64_t *out_released_bytes);
int32_t hal_pool_stats_read(hal_pool *pool, hal_pool_stats *out_stats);
typedef struct hal_plan hal_plan;
int32_t hal_plan_create(hal_port *port, hal_kernel kernel, const hal_image *image,
                                uint32_t index, hal_pool *pool, hal_plan **out_plan);
void hal_plan_free(hal_plan *plan);
int32_t hal_plan_launch(hal_plan *plan, hal_stream stream, const hal_argument *arguments,
                                uint32_t argument_count, const uint32_t *grid);
int32_t hal_plan_update(hal_plan *plan, hal_graph graph, uint32_t node,
                                const hal_argument *arguments, uint32_t argument_count);
