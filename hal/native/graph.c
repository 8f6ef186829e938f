// The graph interface for ports that lack it: begin, end, replay, update, destroy.
#include <string.h>

#include "recording.h"

static int32_t begin_capture(hal_emulation *emulation, hal_stream stream, int is_native) {
  const hal_device device = hal_stream_device(emulation, stream);
  if (device == 0) return hal_refuse_handle(emulation, "stream", stream);
  hal_capture *capture = calloc(1, sizeof(*capture));
  hal_graph_object *graph = is_native ? NULL : calloc(1, sizeof(*graph));
  int added = 0;
  if (capture != NULL && (is_native || graph != NULL)) {
    capture->graph = graph;
    capture->device = device;
    if (graph != NULL) graph->device = device;
    pthread_mutex_lock(&emulation->lock);
    added = hal_map_add(&emulation->captures, stream, capture);
    pthread_mutex_unlock(&emulation->lock);
  }
  if (!added) {
    free(capture);
    free(graph);
    return hal_record(emulation->port, HAL_ERROR_OUT_OF_MEMORY, "no host memory");
  }
  atomic_fetch_add(&emulation->watch, 1);
  return HAL_OK;
}

static int32_t take_begin(hal_layer *self, hal_stream stream) {
  hal_emulation *emulation = self->state;
  hal_layer *next = self->next;
  int32_t status = hal_capture_refuse(emulation, stream, "graph.begin");
  if (status != HAL_OK) return status;
  if (HAL_PORT_HAS(emulation, graph_begin)) {
    status = next->calls->graph_begin(next, stream);
    if (status == HAL_OK && hal_capture_of(emulation, stream) == NULL) {
      begin_capture(emulation, stream, 1);
    }
    if (status != HAL_ERROR_UNSUPPORTED) return status;
  }
  status = next->calls->stream_query(next, stream);
  if (status < HAL_OK) return status;
  return begin_capture(emulation, stream, 0);
}

static int32_t end_native(hal_layer *self, hal_stream stream, hal_graph *out_graph) {
  hal_emulation *emulation = self->state;
  const int32_t status = self->next->calls->graph_end(self->next, stream, out_graph);
  if (status != HAL_ERROR_INVALID_HANDLE) free(hal_capture_take(emulation, stream));
  return status;
}

static int32_t take_end(hal_layer *self, hal_stream stream, hal_graph *out_graph) {
  hal_emulation *emulation = self->state;
  hal_layer *next = self->next;
  hal_capture *capture = hal_capture_of(emulation, stream);
  if (capture == NULL || capture->graph == NULL) {
    if (capture != NULL || HAL_PORT_HAS(emulation, graph_end)) {
      const int32_t status = end_native(self, stream, out_graph);
      if (status != HAL_ERROR_UNSUPPORTED) return status;
    }
    const int32_t status = next->calls->stream_query(next, stream);
    if (status == HAL_ERROR_INVALID_HANDLE) return status;
    return hal_record(emulation->port, HAL_ERROR_INVALID_STATE, "the stream is not recording");
  }
  hal_capture_take(emulation, stream);
  int32_t status = HAL_OK;
  if (capture->void_reason[0] != '\0') {
    status = hal_record(emulation->port, HAL_ERROR_INVALID_STATE, "the capture is void since %s",
                        capture->void_reason);
  } else {
    pthread_mutex_lock(&emulation->lock);
    const hal_graph handle = hal_slot_add(&emulation->graphs, capture->graph);
    pthread_mutex_unlock(&emulation->lock);
    if (handle != 0) {
      *out_graph = handle;
    } else {
      status = hal_record(emulation->port, HAL_ERROR_OUT_OF_MEMORY, "no host memory");
    }
  }
  if (status != HAL_OK) hal_graph_free(emulation, capture->graph);
  free(capture);
  return status;
}

static hal_graph_object *graph_of(hal_emulation *emulation, hal_graph handle) {
  pthread_mutex_lock(&emulation->lock);
  hal_graph_object *graph = hal_slot_get(&emulation->graphs, handle);
  pthread_mutex_unlock(&emulation->lock);
  return graph;
}

static int32_t replay(hal_layer *next, const hal_graph_object *graph, hal_stream stream) {
  const hal_calls *calls = next->calls;
  const hal_node *end = graph->nodes + graph->count;
  for (const hal_node *one = graph->nodes; one != end; ++one) {
    int32_t status;
    if (one->kind == HAL_NODE_LAUNCH) {
      status = calls->launch_launch(next, stream, one->launch.kernel, &one->launch.desc);
    } else if (one->kind == HAL_NODE_COPY) {
      status = calls->transfer_copy(next, stream, &one->copy);
    } else {
      status = calls->transfer_fill(next, stream, &one->fill.target, one->fill.pattern,
                                    one->pattern_bytes);
    }
    if (status != HAL_OK) return status;
  }
  return HAL_OK;
}

static int32_t take_launch(hal_layer *self, hal_graph handle, hal_stream stream) {
  hal_emulation *emulation = self->state;
  int32_t status = hal_capture_refuse(emulation, stream, "graph.launch");
  if (status != HAL_OK) return status;
  const hal_graph_object *graph = graph_of(emulation, handle);
  if (graph == NULL) {
    if (HAL_PORT_HAS(emulation, graph_launch)) {
      status = self->next->calls->graph_launch(self->next, handle, stream);
      if (status != HAL_ERROR_UNSUPPORTED) return status;
    }
    return hal_refuse_handle(emulation, "graph", handle);
  }
  if (hal_stream_device(emulation, stream) != graph->device) {
    return hal_refuse_handle(emulation, "stream of the graph's device", stream);
  }
  if (graph->count == 0) {
    status = self->next->calls->stream_query(self->next, stream);
    return status < HAL_OK ? status : HAL_OK;
  }
  return replay(self->next, graph, stream);
}

static int32_t take_destroy(hal_layer *self, hal_graph handle) {
  hal_emulation *emulation = self->state;
  pthread_mutex_lock(&emulation->lock);
  hal_graph_object *graph = hal_slot_remove(&emulation->graphs, handle);
  pthread_mutex_unlock(&emulation->lock);
  if (graph != NULL) {
    hal_graph_free(emulation, graph);
    return HAL_OK;
  }
  if (HAL_PORT_HAS(emulation, graph_destroy)) {
    const int32_t status = self->next->calls->graph_destroy(self->next, handle);
    if (status != HAL_ERROR_UNSUPPORTED) return status;
  }
  return hal_refuse_handle(emulation, "graph", handle);
}

static int32_t update(hal_emulation *emulation, hal_graph_object *graph, uint32_t index,
                      const hal_argument *arguments, uint32_t count) {
  if (index >= graph->count) {
    return hal_record(emulation->port, HAL_ERROR_OUT_OF_RANGE, "node %u of a graph with %u nodes",
                      index, graph->count);
  }
  hal_node *one = &graph->nodes[index];
  if (one->kind != HAL_NODE_LAUNCH) {
    return hal_record(emulation->port, HAL_ERROR_INVALID_VALUE, "node %u is no launch", index);
  }
  if (count != one->launch.desc.argument_count) {
    return hal_record(emulation->port, HAL_ERROR_INVALID_VALUE,
                      "%u arguments for a launch that was recorded with %u", count,
                      one->launch.desc.argument_count);
  }
  for (uint32_t i = 0; i < count; ++i) {
    if (arguments[i].kind != one->launch.arguments[i].kind) {
      return hal_record(emulation->port, HAL_ERROR_INVALID_VALUE,
                        "argument %u has kind %u, it was recorded with kind %u", i,
                        arguments[i].kind, one->launch.arguments[i].kind);
    }
  }
  hal_argument *kept = NULL;
  const int32_t status = hal_graph_keep_arguments(emulation, graph, arguments, count, &kept);
  if (status != HAL_OK) return status;
  for (uint32_t i = 0; i < count; ++i) {
    if (one->launch.arguments[i].kind == HAL_ARGUMENT_BUFFER) {
      hal_release(emulation, one->launch.arguments[i].buffer.memory);
    }
  }
  free(one->launch.arguments);
  one->launch.arguments = kept;
  one->launch.desc.arguments = kept;
  return HAL_OK;
}

static int32_t take_update(hal_layer *self, hal_graph handle, uint32_t index,
                           const hal_argument *arguments, uint32_t count) {
  hal_emulation *emulation = self->state;
  hal_graph_object *graph = graph_of(emulation, handle);
  if (graph != NULL) return update(emulation, graph, index, arguments, count);
  if (HAL_PORT_HAS(emulation, graph_update_arguments)) {
    const int32_t status =
        self->next->calls->graph_update_arguments(self->next, handle, index, arguments, count);
    if (status != HAL_ERROR_UNSUPPORTED) return status;
  }
  return hal_refuse_handle(emulation, "graph", handle);
}

// Takes one graph or capture of the device out of the tables; NULL when none is left.
static hal_graph_object *take_one(hal_emulation *emulation, hal_device device) {
  hal_graph_object *found = NULL;
  pthread_mutex_lock(&emulation->lock);
  for (uint32_t i = 0; found == NULL && i < emulation->graphs.count; ++i) {
    hal_graph_object *graph = emulation->graphs.slots[i].object;
    if (graph == NULL || (device != 0 && graph->device != device)) continue;
    hal_slot_clear(&emulation->graphs, i);
    found = graph;
  }
  const hal_map *captures = &emulation->captures;
  for (uint32_t i = 0; found == NULL && captures->entries != NULL && i <= captures->mask;) {
    const hal_map_entry entry = captures->entries[i];
    hal_capture *capture = entry.key == 0 ? NULL : entry.value;
    if (capture == NULL || (device != 0 && capture->device != device)) {
      ++i;
      continue;
    }
    hal_map_remove(&emulation->captures, entry.key);
    atomic_fetch_sub(&emulation->watch, 1);
    found = capture->graph;
    free(capture);
  }
  pthread_mutex_unlock(&emulation->lock);
  return found;
}

void hal_graphs_drop(hal_emulation *emulation, hal_device device) {
  for (;;) {
    hal_graph_object *graph = take_one(emulation, device);
    if (graph == NULL) return;
    hal_graph_free(emulation, graph);
  }
}

void hal_emulate_graph(hal_emulation *emulation) {
  HAL_TAKE_OVER(emulation, graph_begin, GRAPH_BEGIN, take_begin);
  HAL_TAKE_OVER(emulation, graph_end, GRAPH_END, take_end);
  HAL_TAKE_OVER(emulation, graph_launch, GRAPH_LAUNCH, take_launch);
  HAL_TAKE_OVER(emulation, graph_destroy, GRAPH_DESTROY, take_destroy);
  HAL_TAKE_OVER(emulation, graph_update_arguments, GRAPH_UPDATE_ARGUMENTS, take_update);
}
