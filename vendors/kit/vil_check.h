// The judge's parts. Each gives HAL_OK, or HAL_ERROR_INVALID_MODULE and one line of reason.
#ifndef KIT_VIL_CHECK_H_
#define KIT_VIL_CHECK_H_

#include "vil_launch.h"

// One program under judgement.
typedef struct vil_judged {
  const vil_module *module;
  const vil_program *program;
  vil_reason *reason;
  uint32_t at;           // The instruction under judgement.
  uint16_t counters[4];  // SREGs that count the loops around it.
  int loop_depth;
} vil_judged;

// vil_judged.c: what the parts share.
// Refuses the program, or the instruction `at` of it.
__attribute__((format(printf, 2, 3))) int32_t vil_bad_program(vil_judged *judged,
                                                              const char *format, ...);
__attribute__((format(printf, 2, 3))) int32_t vil_bad_instruction(vil_judged *judged,
                                                                  const char *format, ...);

// The required features of a program as bits of the image header.
uint64_t vil_program_features(const vil_program *program);

const vil_r_tile *vil_operand_tile(const vil_program *program, const vil_instruction *at,
                                   int operand);

int32_t vil_check_types(vil_judged *judged);      // vil_types.c: fields, types, shapes, access.
int32_t vil_check_lifetimes(vil_judged *judged);  // vil_lifetime.c: tiles that overlap.
int32_t vil_check_tokens(vil_judged *judged);     // vil_lifetime.c: balance and deadlock.
int32_t vil_check_counts(vil_judged *judged,
                         const vil_limits *limits);  // vil_limits.c: sizes of tables.
int32_t vil_check_chip(vil_judged *judged, const vil_limits *limits);  // vil_limits.c.

#endif  // KIT_VIL_CHECK_H_
