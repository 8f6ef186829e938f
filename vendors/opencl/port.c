// The port of OpenCL devices: all devices of all platforms that the loader knows, from OpenCL 1.2
// on. Buffers are handles, streams are in-order queues, kernels come as OpenCL C.
//
// Options (hal_host.options, else the environment):
//   platform=NAME  HAL_OPENCL_PLATFORM=NAME  platforms with this in their name, or with this number
//   device=NAME    HAL_OPENCL_DEVICE=NAME    devices with this in their name, or with this number
//   lanes=N        HAL_OPENCL_LANES=N        lanes of a group; default: by device and kernel
//   build=WORDS    HAL_OPENCL_BUILD=WORDS    more words for the compiler, as -cl-opt-disable
#include <stdio.h>
#include <stdlib.h>

#include "kit_tables.h"
#include "opencl.h"

// Arguments of clEnqueue…: a range, and the event of a command.
#define MEMORY(span) ((cl_mem)(uintptr_t)(span)->native)
#define RANGE(span) MEMORY(span), CL_FALSE, (span)->offset_bytes, (span)->bytes
#define EVENT(queue) 0, NULL, (cl_event *)(queue)->event

// ---- Memory and queues ----

static int32_t reserve(void *device, uint64_t bytes, kit_allocation *out) {
  cl_int error;
  cl_mem made =
      cl.CreateBuffer(((cl_chip *)device)->context, CL_MEM_READ_WRITE, bytes, NULL, &error);
  out->native = (uint64_t)(uintptr_t)made;
  return cl_check(error, "clCreateBuffer");
}

static void release(void *device, kit_allocation *allocation) {
  (void)device;
  cl.ReleaseMemObject(MEMORY(allocation));
}

static int32_t queue_open(kit_queue *queue) {
  const cl_chip *chip = queue->device;
  cl_int error;
  queue->native = cl.CreateCommandQueue(chip->context, chip->id, CL_QUEUE_PROFILING_ENABLE, &error);
  return cl_check(error, "clCreateCommandQueue");
}

static void queue_close(kit_queue *queue) {
  cl.ReleaseCommandQueue(queue->native);
}

static int32_t queue_finish(kit_queue *queue) {
  return cl_check(cl.Finish(queue->native), "clFinish");
}

static int32_t flush(kit_queue *queue) {
  return cl_check(cl.Flush(queue->native), "clFlush");
}

// ---- Commands ----

static int32_t write_bytes(kit_queue *queue, const kit_span *to, const void *from) {
  return cl_check(cl.EnqueueWriteBuffer(queue->native, RANGE(to), from, EVENT(queue)),
                  "clEnqueueWriteBuffer");
}

static int32_t read_bytes(kit_queue *queue, const kit_span *from, void *to) {
  return cl_check(cl.EnqueueReadBuffer(queue->native, RANGE(from), to, EVENT(queue)),
                  "clEnqueueReadBuffer");
}

static int32_t copy(kit_queue *queue, const kit_span *from, const kit_span *to) {
  return cl_check(cl.EnqueueCopyBuffer(queue->native, MEMORY(from), MEMORY(to), from->offset_bytes,
                                       to->offset_bytes, to->bytes, EVENT(queue)),
                  "clEnqueueCopyBuffer");
}

static int32_t fill(kit_queue *queue, const kit_span *to, const void *pattern,
                    uint32_t pattern_bytes) {
  return cl_check(cl.EnqueueFillBuffer(queue->native, MEMORY(to), pattern, pattern_bytes,
                                       to->offset_bytes, to->bytes, EVENT(queue)),
                  "clEnqueueFillBuffer");
}

static int32_t launch(kit_queue *queue, const kit_call *call) {
  cl_kernel kernel = call->function->entry;
  size_t group[] = {call->lanes, 1, 1};
  size_t whole[] = {call->grid[0] * call->lanes, call->grid[1], call->grid[2]};
  cl_int error = CL_SUCCESS;
  for (uint32_t i = 0; i < call->argument_count && error == CL_SUCCESS; ++i) {
    error = cl.SetKernelArg(kernel, i, call->bytes[i], call->values[i]);
  }
  if (error == CL_SUCCESS) {
    error = cl.EnqueueNDRangeKernel(queue->native, kernel, 3, NULL, whole, group, EVENT(queue));
  }
  return cl_check(error, "clEnqueueNDRangeKernel");
}

// ---- Events ----

static int32_t mark(kit_queue *queue, void **event) {
  if (*event != NULL) {
    cl.ReleaseEvent(*event);
    *event = NULL;
  }
  return cl_check(cl.EnqueueMarkerWithWaitList(queue->native, 0, NULL, (cl_event *)event),
                  "clEnqueueMarkerWithWaitList");
}

static int32_t ask(kit_queue *queue, void *event) {
  cl_int state = CL_COMPLETE;
  (void)queue;
  cl_int error =
      cl.GetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(state), &state, NULL);
  if (error == CL_SUCCESS && state > CL_COMPLETE) {
    return HAL_NOT_READY;
  }
  return cl_check(error != CL_SUCCESS ? error : state, "the operation");
}

static void drop(void *event) {
  cl.ReleaseEvent(event);
}

static int32_t elapsed_ns(void *from, void *to, int64_t *out_ns) {
  cl_ulong first = 0, last = 0;
  cl_int error =
      cl.GetEventProfilingInfo(from, CL_PROFILING_COMMAND_END, sizeof(first), &first, NULL);
  if (error == CL_SUCCESS) {
    error = cl.GetEventProfilingInfo(to, CL_PROFILING_COMMAND_END, sizeof(last), &last, NULL);
  }
  *out_ns = (int64_t)(last - first);
  return cl_check(error, "clGetEventProfilingInfo");
}

// ---- Optional ----

// Tells what the compiler says about a source.
static int32_t refuse(const kit_program *program, const kit_source *source, const char *options,
                      cl_int error) {
  const cl_chip *chip = program->device;
  size_t length = 0;
  if (error == CL_INVALID_BUILD_OPTIONS) {
    return kit_fail(HAL_ERROR_INVALID_VALUE, "the OpenCL compiler does not take the words '%s'",
                    options);
  }
  if (error != CL_BUILD_PROGRAM_FAILURE) {
    return cl_check(error, "clBuildProgram");
  }
  cl.GetProgramBuildInfo(program->code, chip->id, CL_PROGRAM_BUILD_LOG, 0, NULL, &length);
  char *log = calloc(1, length + 1);
  if (log != NULL) {
    cl.GetProgramBuildInfo(program->code, chip->id, CL_PROGRAM_BUILD_LOG, length, log, NULL);
  }
  int32_t status = kit_source_refuse(source, "the OpenCL compiler", log == NULL ? "" : log);
  free(log);
  return status;
}

// Lanes of a group where they are not fixed: whole bundles of what the device likes.
static void choose_lanes(const cl_chip *chip, kit_function *function) {
  size_t most = 1, bundle = 1;
  cl.GetKernelWorkGroupInfo(function->entry, chip->id, CL_KERNEL_WORK_GROUP_SIZE, sizeof(most),
                            &most, NULL);
  cl.GetKernelWorkGroupInfo(function->entry, chip->id, CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE,
                            sizeof(bundle), &bundle, NULL);
  function->lanes_step = (uint32_t)bundle;
  function->lanes_max = most < 256 ? (uint32_t)most : 256;
}

// ---- Programs ----

static int32_t compile(const kit_source *source, kit_program *program) {
  const cl_chip *chip = program->device;
  const char *text = source->text;
  char options[200], more[80];
  cl_int error;
  int rounds =
      (cl_number(chip->id, CL_DEVICE_SINGLE_FP_CONFIG) & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) != 0;
  const char *added = kit_option("build", "HAL_OPENCL_BUILD", more, sizeof(more));
  snprintf(options, sizeof(options), "-cl-std=CL1.2 -w%s%s %s",
           rounds ? " -cl-fp32-correctly-rounded-divide-sqrt" : "",
           chip->lanes == 1 ? " -DHAL_ONE_LANE" : "", added == NULL ? "" : added);
  program->code = cl.CreateProgramWithSource(chip->context, 1, &text, NULL, &error);
  if (error == CL_SUCCESS) {
    error = cl.BuildProgram(program->code, 1, &chip->id, options, NULL, NULL);
  }
  return error == CL_SUCCESS ? HAL_OK : refuse(program, source, options, error);
}

static int32_t find(const kit_program *program, kit_function *function) {
  const cl_chip *chip = program->device;
  cl_int error;
  function->entry = cl.CreateKernel(program->code, function->name, &error);
  function->lanes_step = function->lanes_max = chip->lanes;
  if (error == CL_SUCCESS && chip->lanes == 0) {
    choose_lanes(chip, function);
  }
  return cl_check(error, "clCreateKernel");
}

static void function_drop(kit_function *function) {
  cl.ReleaseKernel(function->entry);
}

static void program_drop(kit_program *program) {
  cl.ReleaseProgram(program->code);
}

// ---- The port ----

static const kit_driver driver = {.reserve = reserve,
                                  .release = release,
                                  .queue_open = queue_open,
                                  .queue_close = queue_close,
                                  .queue_finish = queue_finish,
                                  .write = write_bytes,
                                  .read = read_bytes,
                                  .copy = copy,
                                  .fill = fill,
                                  .launch = launch,
                                  .command_events = 1,
                                  .flush = flush,
                                  .mark = mark,
                                  .ask = ask,
                                  .drop = drop,
                                  .elapsed_ns = elapsed_ns,
                                  .compile = compile,
                                  .find = find,
                                  .function_drop = function_drop,
                                  .program_drop = program_drop};

static const kit_port port = {
    .runtime = cl_runtime,
    .runs_on = "device",
    .format = "source.opencl",
    .driver = &driver,
    .hooks = {.start = cl_start, .device_describe = cl_describe, .device_drop = cl_drop}};

KIT_ENTRY(port, .name = "opencl", .vendor = "hal", .version = "1.0.0", .build_id = "1.0.0",
          .stream = KIT_STREAM_TABLE(.host_call = kit_stream_host_call));
