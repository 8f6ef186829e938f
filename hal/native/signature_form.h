// A module image's signature as libhal keeps it. Inside libhal only.
#ifndef HAL_NATIVE_SIGNATURE_FORM_H_
#define HAL_NATIVE_SIGNATURE_FORM_H_

#include <stdatomic.h>

#include "port_object.h"

enum {
  HAL_EXPRESSION_STACK = 16,
  HAL_EXPRESSION_BYTES = 512,
  HAL_WORKSPACE_ALIGNMENT = 256,
};

// One argument of a kernel.
typedef struct hal_parameter {
  const char *name;
  uint32_t required_bytes;  // Expression of a buffer, else none.
  uint32_t alias;           // Argument of the kernel, or none.
  uint8_t kind;             // HAL_SIGNATURE_*.
  uint8_t dtype;
  uint8_t access;
  uint8_t element_bytes;
  uint32_t argument_kind;  // HAL_ARGUMENT_*.
} hal_parameter;

typedef struct hal_expression {
  uint32_t offset;
  uint32_t bytes;
} hal_expression;

typedef struct hal_kernel_signature {
  const char *name;
  uint32_t first_parameter;
  uint32_t parameter_count;
  uint32_t first_workspace;
  uint32_t workspace_count;
  uint32_t launch_count;
  uint32_t takes_grid;
} hal_kernel_signature;

struct hal_image {
  atomic_uint user_count;
  uint32_t kind;
  uint32_t program_count;
  uint64_t features;
  char format[64];
  unsigned char *section;  // Copy of the signature section; names and code point into it.
  const unsigned char *code;
  hal_expression *expressions;
  uint32_t *workspaces;  // Expression of each workspace's length.
  hal_parameter *parameters;
  hal_kernel_signature *kernels;
  uint32_t kernel_count;
};

// A text about what is wrong, as it is put together.
typedef struct hal_problem {
  char text[320];
} hal_problem;

// Writes the text and returns `status`.
int32_t hal_problem_set(hal_problem *problem, int32_t status, const char *format, ...)
    HAL_PRINTF(3, 4);

// Checks an expression's code against a kernel: depth, operators, and that each symbol is a symbol
// argument. Returns NULL or what is wrong.
const char *hal_expression_check(const unsigned char *code, uint32_t bytes,
                                 const hal_parameter *parameters, uint32_t parameter_count);
// Computes a checked expression over a launch's arguments. Returns NULL or what is wrong.
const char *hal_expression_value(const unsigned char *code, uint32_t bytes,
                                 const hal_argument *arguments, int64_t *out_value);

// Reads the signature section; fills all of `image` that comes from it.
int32_t hal_signature_read(hal_image *image, const unsigned char *section, uint32_t bytes,
                           uint64_t section_offset, hal_problem *problem);
// Frees what hal_signature_read made.
void hal_signature_free(hal_image *image);

// Checks a launch's arguments: see hal_image_check. Both outputs may be NULL.
int32_t hal_signature_check(const hal_image *image, const hal_kernel_signature *kernel,
                            const hal_argument *arguments, uint32_t argument_count,
                            uint64_t *out_required_bytes, uint64_t *out_workspace_bytes,
                            hal_problem *problem);

// Little-endian numbers at any address.
static inline uint32_t hal_read_u16(const unsigned char *at) {
  return (uint32_t)at[0] | (uint32_t)at[1] << 8;
}
static inline uint32_t hal_read_u32(const unsigned char *at) {
  return hal_read_u16(at) | hal_read_u16(at + 2) << 16;
}
static inline uint64_t hal_read_u64(const unsigned char *at) {
  return hal_read_u32(at) | (uint64_t)hal_read_u32(at + 4) << 32;
}

#endif  // HAL_NATIVE_SIGNATURE_FORM_H_
