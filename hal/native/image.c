// Module images: the header of both kinds, and questions about the signature.
#include "signature_form.h"

#include <stdlib.h>
#include <string.h>

enum { HEADER_BYTES = 48, KNOWN_FEATURES = (1 << 17) - 1 };

static int32_t refuse(hal_problem *problem, uint32_t at, const char *what) {
  return hal_problem_set(problem, HAL_ERROR_INVALID_MODULE, "byte %u of the image: %s", at, what);
}

// The format's name in an envelope: printable, without spaces.
static int32_t read_format(hal_image *image, const unsigned char *bytes, uint64_t byte_count,
                           hal_problem *problem) {
  const uint64_t offset = hal_read_u32(bytes + 24);
  const uint64_t length = hal_read_u32(bytes + 28);
  const uint64_t payload = hal_read_u32(bytes + 32);
  if (offset + length > byte_count || length == 0 || length >= sizeof(image->format)) {
    return refuse(problem, 24, "the format's name does not lie in the image or is too long");
  }
  for (uint64_t i = 0; i < length; ++i) {
    const unsigned char byte = bytes[offset + i];
    if (byte <= ' ' || byte > '~') return refuse(problem, 24, "the format's name is no name");
  }
  if (payload + hal_read_u32(bytes + 36) > byte_count) {
    return refuse(problem, 32, "the payload does not lie in the image");
  }
  memcpy(image->format, bytes + offset, length);
  return HAL_OK;
}

static int32_t read_module(hal_image *image, const unsigned char *bytes, uint64_t byte_count,
                           hal_problem *problem) {
  image->features = hal_read_u64(bytes + 24);
  image->program_count = hal_read_u32(bytes + 36);
  if ((image->features & ~(uint64_t)KNOWN_FEATURES) != 0) {
    return hal_problem_set(problem, HAL_ERROR_INVALID_MODULE,
                           "byte 24 of the image: features 0x%llx, known are 0x%x",
                           (unsigned long long)image->features, (unsigned)KNOWN_FEATURES);
  }
  if (hal_read_u32(bytes + 32) + (uint64_t)image->program_count * 8 > byte_count) {
    return refuse(problem, 32, "the table of programs does not lie in the image");
  }
  memcpy(image->format, "vil.v1", sizeof("vil.v1"));
  return HAL_OK;
}

static int32_t read_image(hal_image *image, const unsigned char *bytes, uint64_t byte_count,
                          hal_problem *problem) {
  if (byte_count < HEADER_BYTES) {
    return hal_problem_set(problem, HAL_ERROR_INVALID_MODULE,
                           "the image has %llu bytes, its header alone %d",
                           (unsigned long long)byte_count, HEADER_BYTES);
  }
  const int is_vil = memcmp(bytes, "HVIL", 4) == 0;
  if (!is_vil && memcmp(bytes, "HIMG", 4) != 0) {
    return refuse(problem, 0, "it starts with neither HVIL nor HIMG");
  }
  if (hal_read_u16(bytes + 4) != 1) return refuse(problem, 4, "the major version is not 1");
  if (hal_read_u32(bytes + 8) != byte_count) {
    return hal_problem_set(problem, HAL_ERROR_INVALID_MODULE,
                           "byte 8 of the image: its length is given as %u, it has %llu bytes",
                           hal_read_u32(bytes + 8), (unsigned long long)byte_count);
  }
  if (hal_read_u32(bytes + 12) != HEADER_BYTES) return refuse(problem, 12, "header_bytes not 48");
  if (hal_read_u64(bytes + 40) != 0) return refuse(problem, 40, "a reserved field is not zero");
  image->kind = is_vil ? HAL_IMAGE_VIL : HAL_IMAGE_ENVELOPE;
  const int32_t status = is_vil ? read_module(image, bytes, byte_count, problem)
                                : read_format(image, bytes, byte_count, problem);
  if (status != HAL_OK) return status;
  const uint32_t offset = hal_read_u32(bytes + 16);
  const uint32_t length = hal_read_u32(bytes + 20);
  if (offset < HEADER_BYTES || offset % 8 != 0 || (uint64_t)offset + length > byte_count) {
    return refuse(problem, 16, "the signature does not lie in the image");
  }
  return hal_signature_read(image, bytes + offset, length, offset, problem);
}

int32_t hal_image_read(const void *bytes, uint64_t byte_count, hal_image **out_image, char *reason,
                       uint64_t capacity) {
  if ((bytes == NULL && byte_count != 0) || out_image == NULL) {
    return hal_reason(reason, capacity, HAL_ERROR_INVALID_VALUE, "bytes or out_image is NULL");
  }
  hal_image *image = calloc(1, sizeof(*image));
  if (image == NULL) return hal_reason(reason, capacity, HAL_ERROR_OUT_OF_MEMORY, "no host memory");
  atomic_init(&image->user_count, 1);
  hal_problem problem = {""};
  const int32_t status = read_image(image, bytes, byte_count, &problem);
  if (status != HAL_OK) {
    hal_image_free(image);
    return hal_reason(reason, capacity, status, "%s", problem.text);
  }
  *out_image = image;
  return HAL_OK;
}

void hal_image_free(hal_image *image) {
  if (image == NULL || atomic_fetch_sub(&image->user_count, 1) != 1) return;
  hal_signature_free(image);
  free(image);
}

// Writes the part of `facts` that the caller's struct has; it keeps its own size.
static int32_t give(void *out_facts, const void *facts, uint64_t bytes) {
  uint64_t size = 0;
  if (out_facts == NULL) return HAL_ERROR_INVALID_VALUE;
  memcpy(&size, out_facts, sizeof(size));
  if (size < sizeof(size)) return HAL_ERROR_INVALID_VALUE;
  const uint64_t shared = size < bytes ? size : bytes;
  memcpy((char *)out_facts + sizeof(size), (const char *)facts + sizeof(size),
         shared - sizeof(size));
  return HAL_OK;
}

int32_t hal_image_info(const hal_image *image, hal_image_facts *out_facts) {
  if (image == NULL) return HAL_ERROR_INVALID_VALUE;
  const hal_image_facts facts = {.kind = image->kind,
                                 .kernel_count = image->kernel_count,
                                 .features = image->features,
                                 .program_count = image->program_count,
                                 .format = image->format};
  return give(out_facts, &facts, sizeof(facts));
}

int32_t hal_image_kernel(const hal_image *image, uint32_t kernel, hal_kernel_facts *out_facts) {
  if (image == NULL) return HAL_ERROR_INVALID_VALUE;
  if (kernel >= image->kernel_count) return HAL_ERROR_OUT_OF_RANGE;
  const hal_kernel_signature *one = &image->kernels[kernel];
  const hal_kernel_facts facts = {.name = one->name,
                                  .argument_count = one->parameter_count,
                                  .workspace_count = one->workspace_count,
                                  .launch_count = one->launch_count,
                                  .takes_grid = one->takes_grid};
  return give(out_facts, &facts, sizeof(facts));
}

int32_t hal_image_parameter(const hal_image *image, uint32_t kernel, uint32_t parameter,
                            hal_parameter_facts *out_facts) {
  if (image == NULL) return HAL_ERROR_INVALID_VALUE;
  if (kernel >= image->kernel_count || parameter >= image->kernels[kernel].parameter_count) {
    return HAL_ERROR_OUT_OF_RANGE;
  }
  const hal_parameter *one = &image->parameters[image->kernels[kernel].first_parameter + parameter];
  const hal_parameter_facts facts = {.name = one->name,
                                     .kind = one->kind,
                                     .dtype = one->dtype,
                                     .access = one->access,
                                     .alias = one->alias,
                                     .argument_kind = one->argument_kind};
  return give(out_facts, &facts, sizeof(facts));
}

int32_t hal_image_find(const hal_image *image, const char *name, uint32_t *out_kernel) {
  if (image == NULL || name == NULL || out_kernel == NULL) return HAL_ERROR_INVALID_VALUE;
  for (uint32_t i = 0; i < image->kernel_count; ++i) {
    if (strcmp(image->kernels[i].name, name) != 0) continue;
    *out_kernel = i;
    return HAL_OK;
  }
  return HAL_ERROR_NOT_FOUND;
}

int32_t hal_image_check(const hal_image *image, uint32_t kernel, const hal_argument *arguments,
                        uint32_t argument_count, uint64_t *out_required_bytes,
                        uint64_t *out_workspace_bytes, char *reason, uint64_t capacity) {
  if (image == NULL || (arguments == NULL && argument_count != 0)) {
    return hal_reason(reason, capacity, HAL_ERROR_INVALID_VALUE, "image or arguments is NULL");
  }
  if (kernel >= image->kernel_count) {
    return hal_reason(reason, capacity, HAL_ERROR_OUT_OF_RANGE,
                      "kernel %u of an image that has %u kernels", kernel, image->kernel_count);
  }
  hal_problem problem = {""};
  const int32_t status =
      hal_signature_check(image, &image->kernels[kernel], arguments, argument_count,
                          out_required_bytes, out_workspace_bytes, &problem);
  return status == HAL_OK ? HAL_OK : hal_reason(reason, capacity, status, "%s", problem.text);
}
