// Checked launches: a kernel of a loaded module together with its signature.
#include <stdlib.h>
#include <string.h>

#include "emulate_layer.h"
#include "pool.h"
#include "signature_form.h"

enum { SHORT_ARGUMENTS = 32 };  // So many need no memory from the heap.

struct hal_plan {
  hal_port *port;
  hal_kernel kernel;
  hal_image *image;
  const hal_kernel_signature *signature;
  hal_pool *pool;
};

int32_t hal_plan_create(hal_port *port, hal_kernel kernel, const hal_image *image, uint32_t index,
                        hal_pool *pool, hal_plan **out_plan) {
  if (port == NULL) return HAL_ERROR_INVALID_HANDLE;
  if (image == NULL || out_plan == NULL || index >= image->kernel_count) {
    return hal_record(port, HAL_ERROR_INVALID_VALUE, "%s",
                      image == NULL      ? "the image is NULL"
                      : out_plan == NULL ? "out_plan is NULL"
                                         : "the image has no kernel of that index");
  }
  const hal_kernel_signature *signature = &image->kernels[index];
  if (signature->workspace_count != 0 && pool == NULL) {
    return hal_record(port, HAL_ERROR_INVALID_VALUE,
                      "%s has %u workspaces and no pool to take them from", signature->name,
                      signature->workspace_count);
  }
  hal_plan *plan = malloc(sizeof(*plan));
  if (plan == NULL) return hal_record(port, HAL_ERROR_OUT_OF_MEMORY, "no host memory");
  hal_image *shared = (hal_image *)image;  // Only its count of users changes.
  atomic_fetch_add(&shared->user_count, 1);
  *plan = (hal_plan){
      .port = port, .kernel = kernel, .image = shared, .signature = signature, .pool = pool};
  *out_plan = plan;
  return HAL_OK;
}

void hal_plan_free(hal_plan *plan) {
  if (plan == NULL) return;
  hal_image_free(plan->image);
  free(plan);
}

// Takes the workspace. While a graph is captured it is a buffer of its own, which the graph keeps.
static int32_t take_workspace(const hal_plan *plan, hal_stream stream, uint64_t bytes,
                              int is_capturing, hal_memory_ref *out_ref) {
  if (bytes == 0) bytes = 1;  // The port gets a block even when all workspaces are empty.
  if (!is_capturing) return hal_pool_alloc(plan->pool, stream, bytes, out_ref);
  *out_ref = (hal_memory_ref){.bytes = bytes};
  const hal_memory_desc desc = {.size = sizeof(desc), .bytes = bytes};
  return hal_memory_alloc(plan->port, hal_pool_device(plan->pool), &desc, &out_ref->memory);
}

static int32_t give_workspace(const hal_plan *plan, hal_stream stream, int is_capturing,
                              const hal_memory_ref *ref) {
  if (is_capturing) return hal_memory_free(plan->port, ref->memory);
  return hal_pool_free(plan->pool, stream, ref);
}

// A list of the arguments with the workspace behind them; `few` is used when it has room. Frees
// with drop_list. NULL without host memory.
static hal_argument *make_list(hal_argument *few, const hal_argument *arguments, uint32_t count,
                               const hal_memory_ref *workspace) {
  hal_argument *list = few;
  if (count >= SHORT_ARGUMENTS) list = malloc(((size_t)count + 1) * sizeof(*list));
  if (list == NULL) return NULL;
  if (count != 0) memcpy(list, arguments, count * sizeof(*list));
  list[count] = (hal_argument){.kind = HAL_ARGUMENT_BUFFER, .buffer = *workspace};
  return list;
}

static void drop_list(hal_argument *list, const hal_argument *few) {
  if (list != few) free(list);
}

// Launches with the workspace as one more argument.
static int32_t launch_with_workspace(const hal_plan *plan, hal_stream stream, hal_launch_desc *desc,
                                     uint64_t bytes) {
  const int is_capturing = hal_emulation_is_capturing(plan->port->emulation, stream);
  hal_argument few[SHORT_ARGUMENTS];
  hal_memory_ref workspace;
  int32_t status = take_workspace(plan, stream, bytes, is_capturing, &workspace);
  if (status != HAL_OK) return status;
  hal_argument *list = make_list(few, desc->arguments, desc->argument_count, &workspace);
  if (list == NULL) {
    status = hal_record(plan->port, HAL_ERROR_OUT_OF_MEMORY, "no host memory");
  } else {
    desc->arguments = list;
    desc->argument_count += 1;
    status = hal_launch_launch(plan->port, stream, plan->kernel, desc);
    drop_list(list, few);
  }
  // The block serves the stream's next launch: it runs after this one. A launch that was refused
  // uses it not at all. Giving it back cannot fail, it was taken just now.
  give_workspace(plan, stream, is_capturing, &workspace);
  return status;
}

// Checks the arguments and computes the workspace; the refusal is the thread's last error.
static int32_t check(const hal_plan *plan, const hal_argument *arguments, uint32_t argument_count,
                     uint64_t *out_workspace_bytes) {
  if (arguments == NULL && argument_count != 0) {
    return hal_record(plan->port, HAL_ERROR_INVALID_VALUE, "%u arguments at NULL", argument_count);
  }
  hal_problem problem;
  const int32_t status = hal_signature_check(plan->image, plan->signature, arguments,
                                             argument_count, NULL, out_workspace_bytes, &problem);
  return status == HAL_OK ? HAL_OK : hal_record(plan->port, status, "%s", problem.text);
}

int32_t hal_plan_launch(hal_plan *plan, hal_stream stream, const hal_argument *arguments,
                        uint32_t argument_count, const uint32_t *grid) {
  if (plan == NULL) return HAL_ERROR_INVALID_HANDLE;
  uint64_t workspace_bytes = 0;
  const int32_t status = check(plan, arguments, argument_count, &workspace_bytes);
  if (status != HAL_OK) return status;
  hal_launch_desc desc = {.size = sizeof(desc),
                          .grid = {1, 1, 1},
                          .argument_count = argument_count,
                          .arguments = arguments};
  if (grid != NULL) memcpy(desc.grid, grid, sizeof(desc.grid));
  if (plan->signature->workspace_count != 0) {
    return launch_with_workspace(plan, stream, &desc, workspace_bytes);
  }
  return hal_launch_launch(plan->port, stream, plan->kernel, &desc);
}

int32_t hal_plan_update(hal_plan *plan, hal_graph graph, uint32_t node,
                        const hal_argument *arguments, uint32_t argument_count) {
  if (plan == NULL) return HAL_ERROR_INVALID_HANDLE;
  uint64_t workspace_bytes = 0;
  int32_t status = check(plan, arguments, argument_count, &workspace_bytes);
  if (status != HAL_OK) return status;
  if (plan->signature->workspace_count == 0) {
    return hal_graph_update_arguments(plan->port, graph, node, arguments, argument_count);
  }
  hal_argument few[SHORT_ARGUMENTS];
  hal_memory_ref workspace;
  status = take_workspace(plan, 0, workspace_bytes, 1, &workspace);
  if (status != HAL_OK) return status;
  hal_argument *list = make_list(few, arguments, argument_count, &workspace);
  if (list == NULL) {
    status = hal_record(plan->port, HAL_ERROR_OUT_OF_MEMORY, "no host memory");
  } else {
    status = hal_graph_update_arguments(plan->port, graph, node, list, argument_count + 1);
    drop_list(list, few);
  }
  give_workspace(plan, 0, 1, &workspace);  // The graph keeps it.
  return status;
}
