// Checked launches: a kernel of a loaded module together with its signature.
#include <stdlib.h>
#include <string.h>

#include "emulate.h"
#include "image.h"
#include "pool.h"

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

// Launches with the workspace as one more argument.
static int32_t launch_with_workspace(const hal_plan *plan, hal_stream stream, hal_launch_desc *desc,
                                     uint64_t bytes) {
  const uint32_t count = desc->argument_count;
  hal_argument few[SHORT_ARGUMENTS];
  hal_argument *arguments = few;
  if (count >= SHORT_ARGUMENTS) {
    arguments = malloc(((size_t)count + 1) * sizeof(*arguments));
    if (arguments == NULL) {
      return hal_record(plan->port, HAL_ERROR_OUT_OF_MEMORY, "no host memory");
    }
  }
  const int is_capturing = hal_emulation_is_capturing(plan->port->emulation, stream);
  hal_memory_ref workspace;
  int32_t status = take_workspace(plan, stream, bytes, is_capturing, &workspace);
  if (status == HAL_OK) {
    if (count != 0) memcpy(arguments, desc->arguments, count * sizeof(*arguments));
    arguments[count] = (hal_argument){.kind = HAL_ARGUMENT_BUFFER, .buffer = workspace};
    desc->arguments = arguments;
    desc->argument_count = count + 1;
    status = hal_launch_launch(plan->port, stream, plan->kernel, desc);
    // The block serves the stream's next launch: it runs after this one. A launch that was refused
    // uses it not at all. Giving it back cannot fail, it was taken just now.
    give_workspace(plan, stream, is_capturing, &workspace);
  }
  if (arguments != few) free(arguments);
  return status;
}

int32_t hal_plan_launch(hal_plan *plan, hal_stream stream, const hal_argument *arguments,
                        uint32_t argument_count, const uint32_t *grid) {
  if (plan == NULL) return HAL_ERROR_INVALID_HANDLE;
  if (arguments == NULL && argument_count != 0) {
    return hal_record(plan->port, HAL_ERROR_INVALID_VALUE, "%u arguments at NULL", argument_count);
  }
  hal_problem problem;
  uint64_t workspace_bytes = 0;
  const int32_t status = hal_signature_check(plan->image, plan->signature, arguments,
                                             argument_count, NULL, &workspace_bytes, &problem);
  if (status != HAL_OK) return hal_record(plan->port, status, "%s", problem.text);
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
