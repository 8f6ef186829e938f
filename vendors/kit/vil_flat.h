// A bound launch for an interpreter that runs on the device: one block of bytes with all that a
// program needs, so that a shader or a firmware reads no pointer of the host. Buffers stand in it
// by the address that the port gave as kit_allocation.pointer.
//
// A step runs on `groups` work-groups, which take the program's instances in turns; each has a
// slice of an arena for its tiles. A work-group may end before it has finished, keep its state in
// its slice, and go on when it is started again: then no start is long.
//
// The block of a step, little-endian; offsets in bytes from its start, each a multiple of 8.
//   words   0  instructions: records of docs/vil.md, section 4.4
//           1  for each instruction an i64: FILL the element's bits, SREG arg the value,
//              LOOP IF END the number of the instruction at the block's other end
//           2  tiles: u32 dtype, rows, columns, stages, first stage, offset in the slice, bytes of
//           a
//              stage, 0
//           3  descriptors, 4 terms: records of section 4.3, `fill` as the element's bits
//           5  values of the program's expressions: i64
//           6  parameters: u64 address, u64 elements
//           7  a word for each work-group, 0 at first; the device's own
//           8  count of instructions, 9 of SREGs, 10 of stages of all tiles
//       11-13  grid
//       14-15  u64 bytes of a slice; the first 8 · lanes · stages are the device's for valid
//       regions
//          16  offset in the slice of VIL_FLAT_STATE bytes that are the device's own
//          17  work-groups, 18 how many have finished: the device counts
//          19  bytes back to the block of the step that must finish before; 0: none
#ifndef KIT_VIL_FLAT_H_
#define KIT_VIL_FLAT_H_

#include "vil.h"

enum { VIL_FLAT_STATE = 640 };

typedef struct vil_flat_shape {
  uint32_t lanes;   // Of a work-group.
  uint32_t groups;  // Most work-groups of a step; an even number.
} vil_flat_shape;

typedef struct vil_flat_step {
  uint64_t offset;       // Of the step's block.
  uint64_t slice_bytes;  // Arena of one work-group.
  uint32_t groups;       // 0: it runs nothing.
  uint32_t back_bytes;   // Word 19.
  uint32_t masks[4];     // Operations, functions below and from 32 on, and dtypes that it uses. The
                         // functions of SREG are left out.
} vil_flat_step;

uint64_t vil_flat_bytes(const void *launch, const vil_flat_shape *shape);

// Writes the blocks of all steps to `block`, aligned to 8; `steps` has vil_launch_steps entries.
void vil_flat_write(const void *launch, const vil_flat_shape *shape, uint8_t *block,
                    vil_flat_step *steps);

// Whether every work-group of every step has finished.
int vil_flat_is_done(const void *launch, const vil_flat_shape *shape, const uint8_t *block);

// Says what a device found: words are 1, the kind (VIL_FAULT_*), instruction, row, column, step.
void vil_flat_fault(const void *launch, const uint32_t words[6], char *text, size_t capacity);

#endif  // KIT_VIL_FLAT_H_
