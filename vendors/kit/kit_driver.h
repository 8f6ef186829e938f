// Ports of a driver: a runtime on the host with buffers, in-order queues, events behind the work of
// a queue, and a compiler for programs that come as text (docs/dialect.md, entry `group`).
//
// Such a port names a table `kit_driver` of single commands in its kit_port, beside `start`,
// `device_describe` and `device_drop` (kit_runtime.h); the kit makes all hooks for memory, queues
// and modules of them:
//
//   static const kit_driver driver = {.reserve = …, .queue_open = …, .write = …, .launch = …};
//   static const kit_port port = {.format = "source.acme", .driver = &driver, .hooks = {…}};
//
// What the kit does with it:
//   - zeroed buffers, alignments beyond the driver's own, copies over themselves, fills
//     off the grid of their pattern, copies of nothing;
//   - marks behind operations, used again and again; device times on the host's clock;
//   - one call of a function for each step of a launch, its arguments and lanes;
//   - faults: the state that kernels of a queue share, read behind each that can fault;
//   - compiled programs: the last 32 texts of a device are not compiled again.
//
// Every command starts and returns; none is called with a lock of the kit held, but `launch` by one
// thread at a time for each program. A failing command explains itself (kit_check, kit_fail).
#ifndef KIT_KIT_DRIVER_H_
#define KIT_KIT_DRIVER_H_

#include "kit_runtime.h"
#include "kit_source.h"

#ifdef __cplusplus
extern "C" {
#endif

// A queue of the runtime.
typedef struct kit_queue {
  void *device;    // What the port offered for its device.
  void *native;    // The runtime's queue: queue_open puts it here, or finds the caller's here.
  int is_wrapped;  // It is the caller's: it stays when queue_close has run.
  void *data;      // The port's own; NULL at first.
  void **event;    // With command_events: where the command's event goes; NULL: none is wanted.
} kit_queue;

// Bytes of a buffer.
typedef struct kit_span {
  uint64_t native;  // Of the buffer's kit_allocation.
  uint64_t offset_bytes, bytes;
} kit_span;

// A function of a compiled program.
typedef struct kit_function {
  char name[160];
  uint32_t near_bytes;  // Near memory that the source says it needs beside what it declares.
  // These three are the port's, set by `find`. Lanes of a group are whole steps, as many as find
  // work and at most `lanes_max`; 0 counts as 1.
  void *entry;
  uint32_t lanes_step, lanes_max;
} kit_function;

typedef struct kit_program {
  void *device;  // What the port offered.
  void *code;    // The port's.
  uint32_t function_count;
  kit_function *functions;
} kit_program;

// One call of a function.
typedef struct kit_call {
  const kit_function *function;
  uint64_t grid[3];  // Groups along x, y and z.
  uint32_t lanes;    // Of each group.
  uint32_t argument_count;
  // Where each argument lies, and how long it is: numbers of 4 and 8 bytes, buffers as `native`.
  void *values[KIT_SOURCE_ARGUMENTS + 1];
  uint32_t bytes[KIT_SOURCE_ARGUMENTS + 1];
} kit_call;

typedef struct kit_collectives kit_collectives;  // kit_collective.h

// `device` is what the port offered. What is not said to be optional is needed.
typedef struct kit_driver {
  // The calling thread works with this device until `leave`: called around everything below.
  // Optional, both or none.
  int32_t (*enter)(void *device);
  void (*leave)(void);

  // Sets `native`, and `pointer` where the runtime has addresses; aligned to the facts' alignment.
  int32_t (*reserve)(void *device, uint64_t bytes, kit_allocation *out_allocation);
  void (*release)(void *device, kit_allocation *allocation);
  // Memory of the host that the device reaches by itself. Optional, both or none.
  int32_t (*pin)(void *device, uint64_t bytes, void **out_pointer);
  void (*unpin)(void *device, void *pointer);

  int32_t (*queue_open)(kit_queue *queue);
  void (*queue_close)(kit_queue *queue);      // Where `native` is not NULL, also after a failure.
  int32_t (*queue_finish)(kit_queue *queue);  // Waits until its work has ended.

  // Host bytes stay valid until the work has ended.
  int32_t (*write)(kit_queue *queue, const kit_span *to, const void *from);
  int32_t (*read)(kit_queue *queue, const kit_span *from, void *to);
  int32_t (*copy)(kit_queue *queue, const kit_span *from,
                  const kit_span *to);  // Never over itself.
  // Whole patterns of 1, 2, 4 or 8 bytes, on their grid.
  int32_t (*fill)(kit_queue *queue, const kit_span *to, const void *pattern,
                  uint32_t pattern_bytes);
  int32_t (*launch)(kit_queue *queue, const kit_call *call);
  // Between two devices, on a queue of either one; both were entered before. Optional.
  int32_t (*copy_peer)(kit_queue *queue, void *from_device, const kit_span *from, void *to_device,
                       const kit_span *to);
  // An operator of the port's library, on the queue. Optional.
  int32_t (*operate)(kit_queue *queue, const kit_operator *use);

  const kit_collectives *collectives;  // Of the port's library. Optional.

  // The commands above make an event each where queue->event asks for it. 0: `mark` makes them all.
  int command_events;
  // Has the runtime start what the queue has been given. Optional: commands start by themselves.
  int32_t (*flush)(kit_queue *queue);
  // An event behind all that the queue has been given. *event is NULL, or an event of this device
  // to be used again.
  int32_t (*mark)(kit_queue *queue, void **event);
  int32_t (*ask)(kit_queue *queue, void *event);  // HAL_OK: ended. NOT_READY, or what went wrong.
  void (*drop)(void *event);
  // Time between two events that have ended. Optional: the host's clock tells then.
  int32_t (*elapsed_ns)(void *from, void *to, int64_t *out_ns);

  // Compiles source->text, which has a NUL at its end, to program->code; kit_source_refuse tells
  // what the compiler says.
  int32_t (*compile)(const kit_source *source, kit_program *program);
  int32_t (*find)(const kit_program *program, kit_function *function);  // By its name.
  // Of what is not NULL, also after a failure. The first is optional.
  void (*function_drop)(kit_function *function);
  void (*program_drop)(kit_program *program);
} kit_driver;

#ifdef __cplusplus
}
#endif

#endif  // KIT_KIT_DRIVER_H_
