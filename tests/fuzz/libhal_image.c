// Signatures of module images: any bytes are read or refused, and what was read can be asked and
// checked without touching memory that is not there.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "hal/loader.h"

static void use(const hal_image *image, uint32_t kernel, uint64_t seed) {
  hal_kernel_facts facts = {.size = sizeof(facts)};
  if (hal_image_kernel(image, kernel, &facts) != HAL_OK || strlen(facts.name) > 63) abort();
  if (facts.argument_count > 4096) return;
  hal_argument *arguments = calloc(facts.argument_count + 1, sizeof(*arguments));
  uint64_t *required = calloc(facts.argument_count + 1, sizeof(*required));
  if (arguments == NULL || required == NULL) abort();
  for (uint32_t i = 0; i < facts.argument_count; ++i) {
    hal_parameter_facts parameter = {.size = sizeof(parameter)};
    if (hal_image_parameter(image, kernel, i, &parameter) != HAL_OK) abort();
    if (strlen(parameter.name) > 63) abort();
    arguments[i].kind = parameter.argument_kind;
    arguments[i].scalar = i % 2 == 0 ? seed : 7;
    arguments[i].buffer = (hal_memory_ref){.memory = 1 + i, .bytes = 1 << 20};
  }
  uint64_t workspace = 0;
  char reason[64];
  const int32_t status = hal_image_check(image, kernel, arguments, facts.argument_count, required,
                                         &workspace, reason, sizeof(reason));
  if (status == HAL_OK && workspace % 256 != 0) abort();
  free(arguments);
  free(required);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  hal_image *image = NULL;
  char reason[512] = "";
  if (hal_image_read(data, bytes, &image, reason, sizeof(reason)) != HAL_OK) {
    if (image != NULL || reason[0] == '\0') abort();
    return 0;
  }
  hal_image_facts facts = {.size = sizeof(facts)};
  if (hal_image_info(image, &facts) != HAL_OK) abort();
  for (uint32_t i = 0; i < facts.kernel_count && i < 64; ++i) {
    use(image, i, bytes * 0x9E3779B97F4A7C15u);
  }
  hal_image_free(image);
  return 0;
}
