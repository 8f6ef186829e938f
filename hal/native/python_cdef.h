// What cffi is told of python.h, and the Python functions that C calls back.
int32_t hal_python_launch(hal_plan *plan, hal_stream stream, const void *arguments,
                          uint32_t argument_count);
int32_t hal_python_launch_grid(hal_plan *plan, hal_stream stream, const void *arguments,
                               uint32_t argument_count, const void *grid);
int32_t hal_python_copy(hal_port *port, hal_stream stream, uint32_t kind, uint32_t flags,
                        const void *source, const void *target, void *host);
int32_t hal_python_pool_free(hal_pool *pool, hal_stream stream, hal_memory memory,
                             uint64_t offset_bytes);
int32_t hal_python_pool_recycle(hal_port *port, hal_device device, hal_pool *pool,
                                hal_memory memory, uint64_t offset_bytes);
int32_t hal_python_update(hal_port *port, hal_graph graph, uint32_t node, const void *arguments,
                          uint32_t argument_count);
extern "Python" void hal_python_host_call(void *user);
extern "Python" void hal_python_log(void *user, int32_t level, const char *text);
extern "Python" void hal_python_trace(void *user, const char *line);
