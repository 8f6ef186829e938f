// Recording of graphs for ports that lack them: launches, copies and fills of a stream that
// captures. A graph keeps the buffers that it uses; arguments are copied when they are recorded.
#include <stdio.h>
#include <string.h>

#include "recording.h"

static void free_node(hal_emulation *emulation, const hal_node *one) {
  if (one->kind == HAL_NODE_COPY) {
    if (one->copy.kind != HAL_COPY_HOST_TO_DEVICE) {
      hal_release(emulation, one->copy.source.memory);
    }
    if (one->copy.kind != HAL_COPY_DEVICE_TO_HOST) {
      hal_release(emulation, one->copy.target.memory);
    }
  } else if (one->kind == HAL_NODE_FILL) {
    hal_release(emulation, one->fill.target.memory);
  } else {
    for (uint32_t i = 0; i < one->launch.desc.argument_count; ++i) {
      if (one->launch.arguments[i].kind == HAL_ARGUMENT_BUFFER) {
        hal_release(emulation, one->launch.arguments[i].buffer.memory);
      }
    }
    free(one->launch.arguments);
  }
}

void hal_graph_free(hal_emulation *emulation, hal_graph_object *graph) {
  if (graph == NULL) return;
  for (uint32_t i = 0; i < graph->count; ++i) free_node(emulation, &graph->nodes[i]);
  free(graph->nodes);
  free(graph);
}

hal_capture *hal_capture_of(hal_emulation *emulation, hal_stream stream) {
  if (atomic_load_explicit(&emulation->watch, memory_order_relaxed) == 0 || stream == 0) {
    return NULL;
  }
  pthread_mutex_lock(&emulation->lock);
  hal_capture *capture = hal_map_get(&emulation->captures, stream);
  pthread_mutex_unlock(&emulation->lock);
  return capture;
}

int hal_emulation_is_capturing(const hal_emulation *emulation, hal_stream stream) {
  if (emulation == NULL) return 0;
  return hal_capture_of((hal_emulation *)emulation, stream) != NULL;  // Only its lock changes.
}

int32_t hal_capture_refuse(hal_emulation *emulation, hal_stream stream, const char *call) {
  hal_capture *capture = hal_capture_of(emulation, stream);
  if (capture == NULL || capture->graph == NULL) return HAL_OK;
  if (capture->void_reason[0] == '\0') {
    snprintf(capture->void_reason, sizeof(capture->void_reason), "%s", call);
  }
  return hal_record(emulation->port, HAL_ERROR_INVALID_STATE,
                    "the stream is recording a graph; %s voids it, for only launches, copies and "
                    "fills are recorded",
                    call);
}

hal_capture *hal_capture_take(hal_emulation *emulation, hal_stream stream) {
  if (hal_capture_of(emulation, stream) == NULL) return NULL;
  pthread_mutex_lock(&emulation->lock);
  hal_capture *capture = hal_map_remove(&emulation->captures, stream);
  pthread_mutex_unlock(&emulation->lock);
  if (capture != NULL) atomic_fetch_sub(&emulation->watch, 1);
  return capture;
}

void hal_capture_drop(hal_emulation *emulation, hal_stream stream) {
  hal_capture *capture = hal_capture_take(emulation, stream);
  if (capture == NULL) return;
  hal_graph_free(emulation, capture->graph);
  free(capture);
}

// ---- Recording ----

// Checks a range that work would use and keeps its buffer.
static int32_t keep_range(hal_emulation *emulation, const hal_graph_object *graph,
                          const hal_memory_ref *ref) {
  hal_device device = 0;
  const int32_t status = hal_check_range(emulation, ref, "recorded work", &device);
  if (status != HAL_OK) return status;
  if (device != graph->device)
    return hal_refuse_handle(emulation, "buffer of the stream's device", ref->memory);
  if (!hal_keep(emulation, ref->memory)) {
    return hal_record(emulation->port, HAL_ERROR_OUT_OF_MEMORY, "no host memory");
  }
  return HAL_OK;
}

// Room for one more node; NULL without host memory.
static hal_node *next_node(hal_graph_object *graph) {
  if (graph->count == graph->room) {
    const uint32_t room = graph->room == 0 ? 16 : graph->room * 2;
    hal_node *grown = realloc(graph->nodes, room * sizeof(*grown));
    if (grown == NULL) return NULL;
    graph->nodes = grown;
    graph->room = room;
  }
  return &graph->nodes[graph->count];
}

static int32_t check_capture(hal_emulation *emulation, const hal_capture *capture, hal_node **out) {
  if (capture->void_reason[0] != '\0') {
    return hal_record(emulation->port, HAL_ERROR_INVALID_STATE, "the capture is void since %s",
                      capture->void_reason);
  }
  *out = next_node(capture->graph);
  if (*out == NULL) return hal_record(emulation->port, HAL_ERROR_OUT_OF_MEMORY, "no host memory");
  return HAL_OK;
}

static int32_t record_copy(hal_emulation *emulation, const hal_capture *capture,
                           const hal_copy_desc *desc) {
  hal_node *one = NULL;
  int32_t status = check_capture(emulation, capture, &one);
  const int reads = desc->kind != HAL_COPY_HOST_TO_DEVICE;
  const int writes = desc->kind != HAL_COPY_DEVICE_TO_HOST;
  if (status == HAL_OK && reads) status = keep_range(emulation, capture->graph, &desc->source);
  if (status == HAL_OK && writes) {
    status = keep_range(emulation, capture->graph, &desc->target);
    if (status != HAL_OK && reads) hal_release(emulation, desc->source.memory);
  }
  if (status != HAL_OK) return status;
  one->kind = HAL_NODE_COPY;
  one->copy = *desc;
  capture->graph->count += 1;
  return HAL_OK;
}

int hal_capture_copy(hal_emulation *emulation, hal_stream stream, const hal_copy_desc *desc,
                     int32_t *out_status) {
  const hal_capture *capture = hal_capture_of(emulation, stream);
  if (capture != NULL && capture->graph != NULL) {
    *out_status = record_copy(emulation, capture, desc);
    return 1;
  }
  *out_status = HAL_OK;
  if (desc->kind != HAL_COPY_HOST_TO_DEVICE) {
    *out_status = hal_check_dead(emulation, desc->source.memory);
  }
  if (*out_status == HAL_OK && desc->kind != HAL_COPY_DEVICE_TO_HOST) {
    *out_status = hal_check_dead(emulation, desc->target.memory);
  }
  return *out_status != HAL_OK;
}

static int32_t record_fill(hal_emulation *emulation, const hal_capture *capture,
                           const hal_memory_ref *target, const void *pattern,
                           uint32_t pattern_bytes) {
  hal_node *one = NULL;
  int32_t status = check_capture(emulation, capture, &one);
  if (status == HAL_OK && pattern_bytes > sizeof(one->fill.pattern)) {
    status = hal_record(emulation->port, HAL_ERROR_INVALID_VALUE, "a pattern of %u bytes",
                        pattern_bytes);
  }
  if (status == HAL_OK) status = keep_range(emulation, capture->graph, target);
  if (status != HAL_OK) return status;
  one->kind = HAL_NODE_FILL;
  one->pattern_bytes = pattern_bytes;
  one->fill.target = *target;
  memcpy(one->fill.pattern, pattern, pattern_bytes);
  capture->graph->count += 1;
  return HAL_OK;
}

int hal_capture_fill(hal_emulation *emulation, hal_stream stream, const hal_memory_ref *target,
                     const void *pattern, uint32_t pattern_bytes, int32_t *out_status) {
  const hal_capture *capture = hal_capture_of(emulation, stream);
  if (capture != NULL && capture->graph != NULL) {
    *out_status = record_fill(emulation, capture, target, pattern, pattern_bytes);
    return 1;
  }
  *out_status = hal_check_dead(emulation, target->memory);
  return *out_status != HAL_OK;
}

int32_t hal_graph_keep_arguments(hal_emulation *emulation, const hal_graph_object *graph,
                                 const hal_argument *arguments, uint32_t count,
                                 hal_argument **out_arguments) {
  hal_argument *kept = malloc(((size_t)count + 1) * sizeof(*kept));
  if (kept == NULL) return hal_record(emulation->port, HAL_ERROR_OUT_OF_MEMORY, "no host memory");
  int32_t status = HAL_OK;
  uint32_t done = 0;
  for (; status == HAL_OK && done < count; ++done) {
    kept[done] = arguments[done];
    if (arguments[done].kind != HAL_ARGUMENT_BUFFER) continue;
    status = keep_range(emulation, graph, &arguments[done].buffer);
  }
  if (status == HAL_OK) {
    *out_arguments = kept;
    return HAL_OK;
  }
  for (uint32_t i = 0; i + 1 < done; ++i) {
    if (kept[i].kind == HAL_ARGUMENT_BUFFER) hal_release(emulation, kept[i].buffer.memory);
  }
  free(kept);
  return status;
}

static int32_t record_launch(hal_emulation *emulation, const hal_capture *capture,
                             hal_kernel kernel, const hal_launch_desc *desc) {
  hal_node *one = NULL;
  hal_argument *arguments = NULL;
  int32_t status = check_capture(emulation, capture, &one);
  if (status == HAL_OK) {
    status = hal_graph_keep_arguments(emulation, capture->graph, desc->arguments,
                                      desc->argument_count, &arguments);
  }
  if (status != HAL_OK) return status;
  hal_launch_desc kept = {0};
  memcpy(&kept, desc, desc->size < sizeof(kept) ? desc->size : sizeof(kept));
  kept.size = sizeof(kept);
  kept.arguments = arguments;
  one->kind = HAL_NODE_LAUNCH;
  one->launch.kernel = kernel;
  one->launch.desc = kept;
  one->launch.arguments = arguments;
  capture->graph->count += 1;
  return HAL_OK;
}

int hal_capture_launch(hal_emulation *emulation, hal_stream stream, hal_kernel kernel,
                       const hal_launch_desc *desc, int32_t *out_status) {
  const hal_capture *capture = hal_capture_of(emulation, stream);
  if (capture != NULL && capture->graph != NULL) {
    *out_status = record_launch(emulation, capture, kernel, desc);
    return 1;
  }
  *out_status = HAL_OK;
  for (uint32_t i = 0; *out_status == HAL_OK && i < desc->argument_count; ++i) {
    if (desc->arguments[i].kind == HAL_ARGUMENT_BUFFER) {
      *out_status = hal_check_dead(emulation, desc->arguments[i].buffer.memory);
    }
  }
  return *out_status != HAL_OK;
}
