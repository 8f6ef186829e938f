// Reads a VIL image: every offset, count, index and string is checked here and in the readers of
// its sections, so that the judge and the interpreter need not. Meaning (types, shapes, tokens) is
// the judge's: vil_check.c.
#include <stdlib.h>

#include "vil_section.h"

#define HEADER_BYTES 48u

// Where the parts of the image lie.
typedef struct layout {
  uint32_t signature, signature_bytes, table;
} layout;

static int32_t read_header(vil_module *module, layout *out, vil_reason *reason) {
  const uint8_t *image = module->image;
  if (module->bytes < HEADER_BYTES)
    return BAD("image: %llu bytes are less than a header", (unsigned long long)module->bytes);
  if (memcmp(image, "HVIL", 4) != 0) return BAD("image: offset 0: the magic is not HVIL");
  uint16_t major, minor;
  memcpy(&major, image + 4, 2);
  memcpy(&minor, image + 6, 2);
  memcpy(&module->features, image + 24, 8);
  if (major != 1) return BAD("image: offset 4: version %u.%u; this reader knows 1.0", major, minor);
  if (module->features & ~(uint64_t)VIL_KNOWN_FEATURES)
    return BAD("image: offset 24: unknown feature bits 0x%llx",
               (unsigned long long)module->features);
  if (vil_read32(image + 8) != module->bytes || vil_read32(image + 12) != HEADER_BYTES ||
      !vil_all_zero(image + 40, 8)) {
    return BAD("image: offset 8: it says %u bytes and has %llu", vil_read32(image + 8),
               (unsigned long long)module->bytes);
  }
  uint32_t bytes = (uint32_t)module->bytes, count = vil_read32(image + 36);
  *out = (layout){vil_read32(image + 16), vil_read32(image + 20), vil_read32(image + 32)};
  if (out->signature % 8 || out->signature < HEADER_BYTES || out->signature > bytes ||
      out->signature_bytes > bytes - out->signature) {
    return BAD("image: offset 16: the signature does not fit");
  }
  if (count == 0 ? out->table != 0
                 : out->table % 8 || out->table < HEADER_BYTES || out->table > bytes ||
                       (uint64_t)count * 8 > bytes - out->table) {
    return BAD("image: offset 32: the program table does not fit");
  }
  module->program_count = count;
  return HAL_OK;
}

// Reads each program and notes where it lies in `covered`.
static int32_t read_programs(vil_module *module, const layout *at, vil_table *covered,
                             vil_reason *reason) {
  const uint8_t *table = module->image + at->table;
  uint32_t all = (uint32_t)module->bytes;
  for (uint32_t i = 0; i < module->program_count; i++) {
    uint32_t offset = vil_read32(table + 8ull * i), bytes = vil_read32(table + 8ull * i + 4);
    char what[32];
    snprintf(what, sizeof(what), "program %u", i);
    if (offset % 8 || offset < HEADER_BYTES || offset > all || bytes > all - offset)
      return BAD("image: offset %u: program %u does not fit", at->table + 8 * i, i);
    covered[i] = (vil_table){offset, bytes};
    vil_section part = {
        .what = what, .base = module->image + offset, .bytes = bytes, .reason = reason};
    int32_t status = vil_read_program(&module->programs[i], &part);
    if (status) return status;
  }
  return HAL_OK;
}

static int32_t read_image(vil_module *module, vil_reason *reason) {
  layout at = {0, 0, 0};
  int32_t status = read_header(module, &at, reason);
  if (status) return status;
  uint32_t count = module->program_count, parts = count;
  module->programs = calloc(count + 1u, sizeof(vil_program));
  vil_table *covered = calloc(count + 2u, sizeof(vil_table));
  status = module->programs && covered ? read_programs(module, &at, covered, reason)
                                       : HAL_ERROR_OUT_OF_MEMORY;
  if (!status) {
    vil_section part = {.what = "signature",
                        .base = module->image + at.signature,
                        .bytes = at.signature_bytes,
                        .reason = reason};
    status = vil_read_signature(module, &part);
  }
  if (!status) {
    covered[parts++] = (vil_table){at.signature, at.signature_bytes};
    if (count) covered[parts++] = (vil_table){at.table, count * 8};
    status = vil_check_cover("image", module->image, HEADER_BYTES, (uint32_t)module->bytes, covered,
                             parts, reason);
  }
  free(covered);
  return status;
}

int32_t vil_module_read(const void *image, uint64_t bytes, vil_module **out_module, char *text,
                        size_t capacity) {
  vil_reason holder = {text, capacity}, *reason = &holder;
  if (bytes > 0xFFFFFFF0u)
    return BAD("image: %llu bytes; an image is below 4 GiB", (unsigned long long)bytes);
  vil_module *module = calloc(1, sizeof(*module));
  if (!module) return HAL_ERROR_OUT_OF_MEMORY;
  module->bytes = bytes;
  module->image = malloc(bytes + 8);
  int32_t status = HAL_ERROR_OUT_OF_MEMORY;
  if (module->image) {
    memcpy(module->image, image, bytes);
    status = read_image(module, reason);
  }
  if (status) {
    vil_module_free(module);
    return status;
  }
  *out_module = module;
  return HAL_OK;
}

void vil_module_free(vil_module *module) {
  if (!module) return;
  for (uint32_t i = 0; module->programs && i < module->program_count; i++) {
    free(module->programs[i].matches);
    free(module->programs[i].tile_at);
    free(module->programs[i].stage_first);
    free(module->programs[i].chains);
  }
  free(module->programs);
  free(module->kernels);
  free(module->image);
  free(module);
}
