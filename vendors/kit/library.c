// A runtime's library, opened by name, and what its error numbers mean.
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "kit_runtime.h"

static void *open_first(const kit_library *library) {
  char path[1024];
  if (library->option != NULL &&
      kit_option(library->option, library->environment, path, sizeof(path)) != NULL) {
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
  }
  void *opened = NULL;
  size_t most = sizeof(library->files) / sizeof(*library->files);
  for (size_t i = 0; i < most && library->files[i] != NULL && opened == NULL; ++i) {
    opened = dlopen(library->files[i], RTLD_NOW | RTLD_LOCAL);
  }
  return opened;
}

int32_t kit_library_open(const kit_library *library) {
  void *opened = open_first(library);
  if (opened == NULL) {
    return kit_fail(HAL_ERROR_NOT_FOUND, "no %s: %.200s. %s", library->what, dlerror(),
                    library->advice);
  }
  for (const kit_symbol *symbol = library->symbols; symbol->name != NULL; ++symbol) {
    void *found = dlsym(opened, symbol->name);
    if (found == NULL) {
      return kit_fail(HAL_ERROR_VERSION, "the %s has no %s: %s", library->what, symbol->name,
                      library->missing);
    }
    memcpy(symbol->place, &found, sizeof(found));
  }
  return HAL_OK;
}

static const kit_codes_row *row_of(const kit_codes *codes, int32_t code) {
  size_t most = sizeof(codes->rows->codes) / sizeof(*codes->rows->codes);
  for (size_t row = 0; row < codes->count; ++row) {
    for (size_t i = 0; i < most && codes->rows[row].codes[i] != 0; ++i) {
      if (codes->rows[row].codes[i] == code) {
        return &codes->rows[row];
      }
    }
  }
  return NULL;
}

int32_t kit_check(const kit_codes *codes, int32_t code, const char *call) {
  if (code == 0) {
    return HAL_OK;
  }
  const kit_codes_row *row = row_of(codes, code);
  const char *name = codes->name == NULL ? NULL : codes->name(code);
  const char *words = row == NULL ? NULL : row->words;
  return kit_fail(row == NULL ? HAL_ERROR_EXECUTION_FAILED : row->status, "%s: %s error %d%s%s%s%s",
                  call, codes->runtime, code, name == NULL ? "" : ", ", name == NULL ? "" : name,
                  words == NULL ? "" : ", ", words == NULL ? "" : words);
}
