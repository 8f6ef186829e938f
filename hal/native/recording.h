// Graphs of the emulate layer: capture.c records them, graph.c replays them. Inside libhal only.
#ifndef HAL_NATIVE_RECORDING_H_
#define HAL_NATIVE_RECORDING_H_

#include "emulation.h"

// One recorded piece of work.
typedef struct hal_node {
  enum { HAL_NODE_COPY, HAL_NODE_FILL, HAL_NODE_LAUNCH } kind;
  uint32_t pattern_bytes;
  union {
    hal_copy_desc copy;
    struct {
      hal_memory_ref target;
      unsigned char pattern[8];
    } fill;
    struct {
      hal_kernel kernel;
      hal_launch_desc desc;     // Its arguments point to `arguments`.
      hal_argument *arguments;  // Owned.
    } launch;
  };
} hal_node;

struct hal_graph_object {
  hal_device device;
  hal_node *nodes;
  uint32_t count, room;
};

struct hal_capture {
  hal_device device;
  hal_graph_object *graph;  // NULL while the port itself records.
  char void_reason[96];     // Not empty: the capture is void.
};

// The capture of a stream; NULL when it is not recording.
hal_capture *hal_capture_of(hal_emulation *emulation, hal_stream stream);
// The same, taken out of the table.
hal_capture *hal_capture_take(hal_emulation *emulation, hal_stream stream);
// Frees a graph and releases its buffers; NULL does nothing.
void hal_graph_free(hal_emulation *emulation, hal_graph_object *graph);
// Copies arguments and keeps their buffers.
int32_t hal_graph_keep_arguments(hal_emulation *emulation, const hal_graph_object *graph,
                                 const hal_argument *arguments, uint32_t count,
                                 hal_argument **out_arguments);

#endif  // HAL_NATIVE_RECORDING_H_
