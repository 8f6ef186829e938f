// The broken port: an honest port on the kit whose faults are switched on by their number.
//
// The host names a fault by the option `mutant=M26` or, for use by hand, the variable HAL_FAULT.
// Without one the port is honest. catalogue.yaml says what each fault is and which rules it breaks.
//
//   port.c     the root, the tables, start and stop; faults of texts and claims
//   objects.c  memory, devices, records: what handles and outputs are answered
//   order.c    streams and events
//   launch.c   launches, modules and copies at enqueue
//   work.c     operations while they run
//   image.c    programs that are changed before they are loaded
//   tile.c     numbers: one operand, two operands, casts
//   system.c   faults that need several threads, much memory, many failures or a long life
//   collective.c, compute.c   collectives between ranks of one process
//   matrix.c   numbers: MMA, reductions, scans, transposes
#ifndef CONFORMANCE_MUTANTS_MUTANT_H_
#define CONFORMANCE_MUTANTS_MUTANT_H_

#include <stdatomic.h>
#include <stdint.h>

#include "kit.h"
#include "vil_launch.h"

extern int mutant_fault;  // The number behind the M; 0 when the port is honest.

static inline int is_fault(int number) {
  return mutant_fault == number;
}

// ---- port.c ----
extern hal_stream_table mutant_stream_table;

// ---- objects.c ----
int32_t mutant_note(int32_t status);    // M11: keeps the record of a failure for every thread.
int32_t mutant_handle(int32_t status);  // M05, M07, M10: what a stale handle is answered.
int32_t mutant_last_error(hal_error *out_error);
int32_t mutant_device_open(uint32_t index, hal_device *out_device);
int32_t mutant_get_i64(hal_device device, const char *key, int64_t *out_value);
int32_t mutant_alloc(hal_device device, const hal_memory_desc *desc, hal_memory *out_memory);
int32_t mutant_free(hal_memory memory);
int32_t mutant_memory_info(hal_memory memory, hal_memory_facts *out_info);
int32_t mutant_memory_stats(hal_device device, hal_memory_figures *out_stats);
int32_t mutant_reserve(kit_device *device, uint64_t bytes, uint64_t alignment, int zero,
                       kit_allocation *out_allocation);
void mutant_release(kit_device *device, kit_allocation *allocation);

extern void *volatile mutant_lost;  // M39, M75: memory that stays behind.

// ---- order.c ----
hal_stream mutant_aside(hal_stream stream);  // The stream that faults of order use instead.
void mutant_flush(hal_stream stream);        // Does what M22 and M33 put off.
int32_t mutant_stream_create(hal_device device, uint32_t flags, hal_stream *out_stream);
int32_t mutant_stream_destroy(hal_stream stream);
int32_t mutant_stream_query(hal_stream stream);
int32_t mutant_stream_synchronize(hal_stream stream, uint64_t timeout_ns);
int32_t mutant_wait_event(hal_stream stream, hal_event event);
int32_t mutant_device_synchronize(hal_device device, uint64_t timeout_ns);
int32_t mutant_event_create(hal_device device, uint32_t flags, hal_event *out_event);
int32_t mutant_event_record(hal_event event, hal_stream stream);
int32_t mutant_event_query(hal_event event);
int32_t mutant_event_synchronize(hal_event event, uint64_t timeout_ns);
int32_t mutant_elapsed_ns(hal_event start, hal_event end, int64_t *out_ns);
int32_t mutant_enqueued(hal_stream stream, int32_t status);  // M69, M77: what an enqueue answers.

// ---- late.c ----
// M33: puts a launch off, with the caller's own structures; 0 when there is no place left.
int mutant_put_off(hal_stream stream, hal_kernel kernel, const hal_launch_desc *desc);
void mutant_launch_late(hal_stream stream);  // The launches of a stream that were put off.

// ---- launch.c ----
int32_t mutant_load(hal_device device, const hal_module_desc *desc, hal_module *out_module);
int32_t mutant_unload(hal_module module);
int32_t mutant_launch(hal_stream stream, hal_kernel kernel, const hal_launch_desc *desc);
int32_t mutant_copy(hal_stream stream, const hal_copy_desc *desc);
int32_t mutant_fill(hal_stream stream, const hal_memory_ref *target, const void *pattern,
                    uint32_t pattern_bytes);
int32_t mutant_copy_2d(hal_stream stream, const hal_copy_2d_desc *desc);

// ---- work.c ----
extern atomic_uint mutant_launches_waiting;  // Enqueued and not finished.
extern atomic_int mutant_is_dropping;        // M31: operations do nothing.
void mutant_copy_late(void);                 // M22: the downloads that were put off.
int32_t mutant_run(kit_device *device, kit_operation *operation);

// ---- system.c ----
typedef enum {
  MUTANT_STREAM,
  MUTANT_EVENT,
  MUTANT_MEMORY,
  MUTANT_MODULE,
  MUTANT_KINDS
} mutant_kind;

// M63: 1 when another thread makes such an object right now; its handle is this one's too.
int mutant_takes_last(mutant_kind kind, uint64_t *out_handle);
void mutant_gave(mutant_kind kind, int32_t status, uint64_t handle);
void mutant_share_arguments(hal_launch_desc *desc);  // M105: all launches use one place.
const void *mutant_share_pattern(const void *pattern, uint32_t pattern_bytes);
int mutant_waits_already(uint64_t handle);  // M106: another thread waits for it.
void mutant_waited(uint64_t handle);
void mutant_recorded(hal_event event);  // M107
int mutant_is_foreign(hal_event event);
int mutant_memory_is_short(hal_device device, uint64_t bytes);  // M66
int mutant_keeps_freed(hal_memory memory);                      // M109: a free that does nothing.
void mutant_refused(int32_t status);                            // M109: notes an allocation's end.
int mutant_is_tired(int32_t status);  // M110: a launch ended so; 1: it does nothing from now on.
int mutant_loses_device(int32_t *out_status);  // 1: the host asked for it; M67 tells nobody.
void mutant_leaks_later(void);                 // M111: a stream was created.
int mutant_is_used_up(void);                   // M74: an event was created.
extern uint64_t mutant_operation_limit;  // Operations before the device is lost; 0: never lost.
int32_t mutant_felt(int32_t status);  // M108: what a call answers after another thread's failure.

// ---- image.c ----
void mutant_change_image(uint8_t *image, uint64_t bytes);

// ---- honest.c, tile.c, matrix.c ----
int32_t mutant_run_honestly(const vil_operation *operation);
int mutant_tile(void *context, const vil_operation *operation);  // A vil_tile_hook.
int mutant_matrix(const vil_operation *operation);               // 1 when it did the operation.

#endif  // CONFORMANCE_MUTANTS_MUTANT_H_
