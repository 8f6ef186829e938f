// The small port once more, with every optional function there and answering UNSUPPORTED: libhal
// has to do the same as for a port that lacks them. Included after fake.c.
#ifndef HAL_TESTS_STUBS_H_
#define HAL_TESTS_STUBS_H_

static int32_t no_stream(hal_stream stream) {
  (void)stream;
  return answer(HAL_ERROR_UNSUPPORTED, "stub");
}
static int32_t no_end(hal_stream stream, hal_graph *out_graph) {
  (void)out_graph;
  return no_stream(stream);
}
static int32_t no_graph_launch(hal_graph graph, hal_stream stream) {
  (void)graph;
  return no_stream(stream);
}
static int32_t no_handle(uint64_t handle) {
  return no_stream(handle);
}
static int32_t no_update(hal_graph graph, uint32_t node, const hal_argument *arguments,
                         uint32_t argument_count) {
  (void)node, (void)arguments, (void)argument_count;
  return no_handle(graph);
}
static int32_t no_host_call(hal_stream stream, hal_host_fn function, void *user) {
  (void)function, (void)user;
  return no_stream(stream);
}
static int32_t no_copy_peer(hal_stream stream, const hal_memory_ref *source,
                            const hal_memory_ref *target) {
  (void)source, (void)target;
  return no_stream(stream);
}
static int32_t no_copy_2d(hal_stream stream, const hal_copy_2d_desc *desc) {
  (void)desc;
  return no_stream(stream);
}
static int32_t no_peer_info(hal_device device, hal_device peer, uint32_t key, int64_t *out_value) {
  (void)peer, (void)key, (void)out_value;
  return no_handle(device);
}
static int32_t no_register(hal_device device, void *pointer, uint64_t bytes) {
  (void)pointer, (void)bytes;
  return no_handle(device);
}
static int32_t no_unregister(hal_device device, void *pointer) {
  return no_register(device, pointer, 0);
}
static int32_t no_unique_id(hal_unique_id *out_id) {
  (void)out_id;
  return no_handle(0);
}
static int32_t no_create(hal_device device, const hal_comm_desc *desc, hal_comm *out_comm) {
  (void)desc, (void)out_comm;
  return no_handle(device);
}
static int32_t no_collective(hal_comm comm, hal_stream stream, const hal_collective_desc *desc) {
  (void)stream, (void)desc;
  return no_handle(comm);
}
static int32_t no_group(void) {
  return no_handle(0);
}
static int32_t no_async_error(hal_comm comm, int32_t *out_status) {
  (void)out_status;
  return no_handle(comm);
}

static const hal_graph_table stub_graph_table = {.size = sizeof(stub_graph_table),
                                                 .begin = no_stream,
                                                 .end = no_end,
                                                 .launch = no_graph_launch,
                                                 .destroy = no_handle,
                                                 .update_arguments = no_update};
static const hal_collective_table stub_collective_table = {.size = sizeof(stub_collective_table),
                                                           .unique_id = no_unique_id,
                                                           .comm_create = no_create,
                                                           .comm_destroy = no_handle,
                                                           .all_reduce = no_collective,
                                                           .all_gather = no_collective,
                                                           .reduce_scatter = no_collective,
                                                           .broadcast = no_collective,
                                                           .send = no_collective,
                                                           .recv = no_collective,
                                                           .group_begin = no_group,
                                                           .group_end = no_group,
                                                           .abort = no_handle,
                                                           .async_error = no_async_error,
                                                           .all_to_all = no_collective};

static int32_t stub_entry(uint32_t host_major, uint32_t host_minor,
                          const hal_port_root **out_root) {
  static hal_port_root stub_root;
  static hal_device_table devices_too;
  static hal_memory_table memory_too;
  static hal_transfer_table transfer_too;
  static hal_stream_table stream_too;
  (void)host_major, (void)host_minor;
  devices_too = device_table;
  devices_too.peer_info = no_peer_info;
  memory_too = memory_table;
  memory_too.host_register = no_register;
  memory_too.host_unregister = no_unregister;
  transfer_too = transfer_table;
  transfer_too.copy_peer = no_copy_peer;
  transfer_too.copy_2d = no_copy_2d;
  stream_too = stream_table;
  stream_too.host_call = no_host_call;
  stub_root = root;
  stub_root.device = &devices_too;
  stub_root.memory = &memory_too;
  stub_root.transfer = &transfer_too;
  stub_root.stream = &stream_too;
  stub_root.graph = &stub_graph_table;
  stub_root.collective = &stub_collective_table;
  *out_root = &stub_root;
  return HAL_OK;
}

#endif  // HAL_TESTS_STUBS_H_
