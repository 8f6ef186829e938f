// A CUDA driver that has no device: memory of the host, a thread for each stream, kernels that the
// compiler of this machine made. It serves the tests of the port; nothing here is CUDA's own code.
//
// Environment:
//   FAKE_CUDA_DEVICES=N             devices; default 1
//   FAKE_CUDA_MEMORY=BYTES          of each; default 1 GiB
//   FAKE_CUDA_CAPABILITY=NN         default 90
//   FAKE_CUDA_NEAR=BYTES            shared memory that a block may have; default 232448
//   FAKE_CUDA_FAIL=NAME:CODE[:N]    the Nth and each further call of NAME answers CODE; NAME may be
//                                   "kernel": then kernels end with CODE and the device is lost
//                                   "ncclKernel": then a collective's communicator has the error
//                                   CODE, and the collective runs until it is aborted
//   FAKE_CUDA_CACHE=FOLDER          where compiled kernels are kept
#ifndef TESTS_PORTS_CUDA_FAKE_FAKE_H_
#define TESTS_PORTS_CUDA_FAKE_FAKE_H_

#include <stddef.h>
#include <stdint.h>

#define FAKE_API __attribute__((visibility("default")))

// Device addresses are those of the host with this bit, so that a host that follows one stops.
#define FAKE_TAG (UINT64_C(1) << 62)

// Runs `function` in the order of a stream, with a copy of `bytes` bytes. A result other than 0
// loses the device.
typedef int (*fake_work)(void *data);
FAKE_API int fake_enqueue(void *stream, fake_work function, const void *data, size_t bytes);

// The error that ended the devices: nothing that is enqueued runs any more; 0: they are well.
FAKE_API int fake_lost(void);

// The device of this thread's context, -1 without one; that of a stream.
FAKE_API int fake_device(void);
FAKE_API int fake_stream_device(const void *stream);
// As fake_enqueue, within the stream's own device.
FAKE_API int fake_enqueue_there(void *stream, fake_work function, const void *data, size_t bytes);

// The host's address of `bytes` device bytes; NULL when they lie in no allocation.
FAKE_API void *fake_host(uint64_t address, size_t bytes);

// What FAKE_CUDA_FAIL says for one more call of `name`; 0: nothing.
FAKE_API int fake_fault(const char *name);

// What a compiled kernel's library exports for each kernel.
typedef struct fake_kernel {
  const char *name;
  void (*run)(void **arguments, const unsigned grid[3], unsigned near_bytes);
  const unsigned *sizes;  // Of the arguments, 0 at the end.
} fake_kernel;

#endif  // TESTS_PORTS_CUDA_FAKE_FAKE_H_
