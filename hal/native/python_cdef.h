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

// What the table of hal/native/python_port/hooks.h is filled with.
extern "Python" int32_t hal_python_port_start(void *, hal_python_facts *, char *);
extern "Python" void hal_python_port_stop(void *);
extern "Python" int32_t hal_python_port_device(void *, uint32_t, hal_python_device *, char *);
extern "Python" int32_t hal_python_port_alloc(void *, uint32_t, uint64_t, uint64_t, uint64_t *,
                                              void **, char *);
extern "Python" int32_t hal_python_port_free(void *, uint64_t, char *);
extern "Python" int32_t hal_python_port_write(void *, uint64_t, uint64_t, const void *, uint64_t,
                                              char *);
extern "Python" int32_t hal_python_port_read(void *, uint64_t, uint64_t, void *, uint64_t, char *);
extern "Python" int32_t hal_python_port_copy(void *, uint64_t, uint64_t, uint64_t, uint64_t,
                                             uint64_t, char *);
extern "Python" int32_t hal_python_port_fill(void *, uint64_t, uint64_t, uint64_t, const void *,
                                             uint32_t, char *);
