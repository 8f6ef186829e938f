// A libOpenCL.so.1 with one device whose memory is the host's and whose kernels do nothing.
//
// FAKE_OPENCL says what is wrong with it: platforms, devices, context, build, build_silent, lost,
// no_fp64, local, old; anything else: nothing. "lost" counts commands, of which a stream takes one
// at its start: lost:4 takes two operations and loses the device.
#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <stdlib.h>
#include <string.h>

struct _cl_mem {
  size_t bytes;
  unsigned char data[];
};

static char thing;  // What every other handle points at.
#define HANDLE(kind) ((kind)(void *)&thing)

static int is_wrong(const char *what) {
  const char *said = getenv("FAKE_OPENCL");
  return said != NULL && strncmp(said, what, strlen(what)) == 0;
}

// An operation is enqueued: CL_DEVICE_NOT_AVAILABLE once the device is lost.
static cl_int take(cl_event *event) {
  static int count;
  if (event != NULL) {
    *event = HANDLE(cl_event);
  }
  return is_wrong("lost:") && ++count >= atoi(strchr(getenv("FAKE_OPENCL"), ':') + 1)
             ? CL_DEVICE_NOT_AVAILABLE
             : CL_SUCCESS;
}

static cl_int give(const void *value, size_t bytes, size_t capacity, void *out, size_t *out_bytes) {
  if (out != NULL && capacity < bytes) {
    return CL_INVALID_VALUE;
  }
  if (out != NULL) {
    memcpy(out, value, bytes);
  }
  if (out_bytes != NULL) {
    *out_bytes = bytes;
  }
  return CL_SUCCESS;
}

cl_int clGetPlatformIDs(cl_uint capacity, cl_platform_id *out, cl_uint *out_count) {
  if (is_wrong("platforms")) {
    return -1001;
  }
  if (out != NULL && capacity != 0) {
    out[0] = HANDLE(cl_platform_id);
  }
  if (out_count != NULL) {
    *out_count = 1;
  }
  return CL_SUCCESS;
}

cl_int clGetPlatformInfo(cl_platform_id id, cl_platform_info key, size_t capacity, void *out,
                         size_t *out_bytes) {
  (void)id, (void)key;
  return give("Fake Platform", 14, capacity, out, out_bytes);
}

cl_int clGetDeviceIDs(cl_platform_id id, cl_device_type type, cl_uint capacity, cl_device_id *out,
                      cl_uint *out_count) {
  (void)id, (void)type;
  if (is_wrong("devices")) {
    return CL_DEVICE_NOT_FOUND;
  }
  if (out != NULL && capacity != 0) {
    out[0] = HANDLE(cl_device_id);
  }
  if (out_count != NULL) {
    *out_count = 1;
  }
  return CL_SUCCESS;
}

static cl_int give_text(const char *text, size_t capacity, void *out, size_t *out_bytes) {
  return give(text, strlen(text) + 1, capacity, out, out_bytes);
}

cl_int clGetDeviceInfo(cl_device_id id, cl_device_info key, size_t capacity, void *out,
                       size_t *out_bytes) {
  (void)id;
  cl_ulong value = 0;
  switch (key) {
    case CL_DEVICE_NAME:
      return give_text("Fake Device", capacity, out, out_bytes);
    case CL_DRIVER_VERSION:
      return give_text("7", capacity, out, out_bytes);
    case CL_DEVICE_VERSION:
      return give_text(is_wrong("old") ? "OpenCL 1.1 fake" : "OpenCL 1.2 fake", capacity, out,
                       out_bytes);
    case CL_DEVICE_AVAILABLE:
    case CL_DEVICE_COMPILER_AVAILABLE:
    case CL_DEVICE_MAX_COMPUTE_UNITS:
      value = 1;
      break;
    case CL_DEVICE_TYPE:
      value = CL_DEVICE_TYPE_GPU;
      break;
    case CL_DEVICE_GLOBAL_MEM_SIZE:
    case CL_DEVICE_MAX_MEM_ALLOC_SIZE:
      value = 64 << 20;
      break;
    case CL_DEVICE_DOUBLE_FP_CONFIG:
      value = is_wrong("no_fp64") ? 0 : CL_FP_DENORM | CL_FP_FMA;
      break;
    case CL_DEVICE_LOCAL_MEM_SIZE:
      value = 65536;
      break;
    case CL_DEVICE_MEM_BASE_ADDR_ALIGN:
      value = 1024;
      break;
    case CL_DEVICE_MAX_WORK_GROUP_SIZE:
    case CL_DEVICE_MAX_PARAMETER_SIZE:
    case CL_DEVICE_MAX_CLOCK_FREQUENCY:
      value = 1024;
      break;
    default:
      break;
  }
  return give(&value, sizeof(value), capacity, out, out_bytes);
}

cl_context clCreateContext(const cl_context_properties *properties, cl_uint count,
                           const cl_device_id *ids,
                           void(CL_CALLBACK *tell)(const char *, const void *, size_t, void *),
                           void *user, cl_int *error) {
  (void)properties, (void)count, (void)ids, (void)tell, (void)user;
  *error = is_wrong("context") ? CL_OUT_OF_RESOURCES : CL_SUCCESS;
  return *error == CL_SUCCESS ? HANDLE(cl_context) : NULL;
}

cl_command_queue clCreateCommandQueue(cl_context context, cl_device_id id,
                                      cl_command_queue_properties properties, cl_int *error) {
  (void)context, (void)id, (void)properties;
  *error = CL_SUCCESS;
  return HANDLE(cl_command_queue);
}

// ---- Memory and commands, which are done at once ----

cl_mem clCreateBuffer(cl_context context, cl_mem_flags flags, size_t bytes, void *from,
                      cl_int *error) {
  cl_mem made = calloc(1, sizeof(*made) + bytes);
  (void)context;
  *error = made == NULL ? CL_MEM_OBJECT_ALLOCATION_FAILURE : CL_SUCCESS;
  if (made != NULL && (flags & CL_MEM_COPY_HOST_PTR) != 0) {
    memcpy(made->data, from, bytes);
  }
  return made;
}

cl_int clReleaseMemObject(cl_mem memory) {
  free(memory);
  return CL_SUCCESS;
}

#define WAITS cl_uint wait_count, const cl_event *waits, cl_event *event
#define NO_WAITS (void)queue, (void)wait_count, (void)waits

cl_int clEnqueueWriteBuffer(cl_command_queue queue, cl_mem target, cl_bool blocks, size_t offset,
                            size_t bytes, const void *from, WAITS) {
  NO_WAITS, (void)blocks;
  memcpy(target->data + offset, from, bytes);
  return take(event);
}

cl_int clEnqueueReadBuffer(cl_command_queue queue, cl_mem source, cl_bool blocks, size_t offset,
                           size_t bytes, void *to, WAITS) {
  NO_WAITS, (void)blocks;
  memcpy(to, source->data + offset, bytes);
  return take(event);
}

cl_int clEnqueueCopyBuffer(cl_command_queue queue, cl_mem source, cl_mem target, size_t from,
                           size_t to, size_t bytes, WAITS) {
  NO_WAITS;
  memcpy(target->data + to, source->data + from, bytes);
  return take(event);
}

cl_int clEnqueueFillBuffer(cl_command_queue queue, cl_mem target, const void *pattern,
                           size_t length, size_t offset, size_t bytes, WAITS) {
  NO_WAITS;
  if (offset % length != 0 || bytes % length != 0) {
    return CL_INVALID_VALUE;
  }
  for (size_t i = 0; i < bytes; i += length) {
    memcpy(target->data + offset + i, pattern, length);
  }
  return take(event);
}

cl_int clEnqueueMarkerWithWaitList(cl_command_queue queue, WAITS) {
  NO_WAITS;
  *event = HANDLE(cl_event);
  return CL_SUCCESS;
}

cl_int clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                              const size_t *offset, const size_t *whole, const size_t *group,
                              WAITS) {
  NO_WAITS, (void)kernel, (void)dimensions, (void)offset, (void)whole, (void)group;
  return take(event);
}

cl_int clGetEventInfo(cl_event event, cl_event_info key, size_t capacity, void *out,
                      size_t *out_bytes) {
  (void)event, (void)key;
  cl_int done = CL_COMPLETE;
  return give(&done, sizeof(done), capacity, out, out_bytes);
}

cl_int clGetEventProfilingInfo(cl_event event, cl_profiling_info key, size_t capacity, void *out,
                               size_t *out_bytes) {
  (void)event, (void)key, (void)capacity, (void)out, (void)out_bytes;
  return CL_PROFILING_INFO_NOT_AVAILABLE;
}

// ---- Programs ----

cl_program clCreateProgramWithSource(cl_context context, cl_uint count, const char **texts,
                                     const size_t *lengths, cl_int *error) {
  (void)context, (void)count, (void)texts, (void)lengths;
  *error = CL_SUCCESS;
  return HANDLE(cl_program);
}

cl_int clBuildProgram(cl_program program, cl_uint count, const cl_device_id *ids,
                      const char *options, void(CL_CALLBACK *tell)(cl_program, void *),
                      void *user) {
  (void)program, (void)count, (void)ids, (void)tell, (void)user;
  return is_wrong("build")                 ? CL_BUILD_PROGRAM_FAILURE
         : strstr(options, "-odd") != NULL ? CL_INVALID_BUILD_OPTIONS
                                           : CL_SUCCESS;
}

cl_int clGetProgramBuildInfo(cl_program program, cl_device_id id, cl_program_build_info key,
                             size_t capacity, void *out, size_t *out_bytes) {
  (void)program, (void)id, (void)key;
  const char *line = getenv("FAKE_OPENCL_LINE");
  if (is_wrong("build_silent")) {
    return give_text("", capacity, out, out_bytes);
  }
  char log[200] = "warning: of no weight\n<kernel>:";
  strcat(strcat(log, line == NULL ? "1" : line), ":9: error: no such word\n1 error\n");
  return give_text(log, capacity, out, out_bytes);
}

cl_kernel clCreateKernel(cl_program program, const char *name, cl_int *error) {
  (void)program, (void)name;
  *error = CL_SUCCESS;
  return HANDLE(cl_kernel);
}

cl_int clGetKernelWorkGroupInfo(cl_kernel kernel, cl_device_id id, cl_kernel_work_group_info key,
                                size_t capacity, void *out, size_t *out_bytes) {
  (void)kernel, (void)id;
  size_t value = key == CL_KERNEL_WORK_GROUP_SIZE ? 256 : 32;
  return give(&value, sizeof(value), capacity, out, out_bytes);
}

cl_int clSetKernelArg(cl_kernel kernel, cl_uint index, size_t bytes, const void *value) {
  (void)kernel, (void)index, (void)bytes, (void)value;
  return CL_SUCCESS;
}

#define NOTHING(name, kind)  \
  cl_int name(kind object) { \
    (void)object;            \
    return CL_SUCCESS;       \
  }
NOTHING(clFinish, cl_command_queue)
NOTHING(clFlush, cl_command_queue)
NOTHING(clReleaseCommandQueue, cl_command_queue)
NOTHING(clReleaseContext, cl_context)
NOTHING(clReleaseEvent, cl_event)
NOTHING(clReleaseKernel, cl_kernel)
NOTHING(clReleaseProgram, cl_program)
NOTHING(clRetainProgram, cl_program)
