// Ports of a driver: modules. The programs of a device that were used last are kept, by their text.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver_state.h"

enum { KEPT = 32 };

static void drop_code(kit_compiled *compiled) {
  const kit_driver *driver = kit_the_driver();
  for (uint32_t i = 0; driver->function_drop != NULL && i < compiled->program.function_count; ++i) {
    if (compiled->functions[i].entry != NULL) {
      driver->function_drop(&compiled->functions[i]);
    }
  }
  if (compiled->program.code != NULL) {
    driver->program_drop(&compiled->program);
  }
}

static void end_program(kit_compiled *compiled) {
  if (kit_driver_enter(compiled->found) == HAL_OK) {
    drop_code(compiled);
    kit_driver_leave();
  }
  pthread_mutex_destroy(&compiled->lock);
  free(compiled->text);
  free(compiled);
}

void kit_compiled_release(kit_compiled *compiled) {
  pthread_mutex_t *lock = &compiled->found->lock;
  pthread_mutex_lock(lock);
  bool is_last = --compiled->references == 0;
  pthread_mutex_unlock(lock);
  if (is_last) {
    end_program(compiled);
  }
}

// ---- What is kept ----

static bool is_same(const kit_compiled *compiled, const kit_source *source) {
  if (compiled->text_bytes != source->text_bytes ||
      compiled->program.function_count != vil_module_program_count(source->module) ||
      memcmp(compiled->text, source->text, source->text_bytes) != 0) {
    return false;
  }
  for (uint32_t i = 0; i < compiled->program.function_count; ++i) {
    char name[160];
    kit_source_function(source->module, i, name, sizeof(name));
    if (strcmp(name, compiled->functions[i].name) != 0) {
      return false;
    }
  }
  return true;
}

// Gives a reference, or NULL. What is found becomes the first one.
static kit_compiled *find(kit_found *found, const kit_source *source) {
  pthread_mutex_lock(&found->lock);
  kit_compiled **place = &found->kept;
  while (*place != NULL && !is_same(*place, source)) {
    place = &(*place)->next;
  }
  kit_compiled *compiled = *place;
  if (compiled != NULL) {
    *place = compiled->next;
    compiled->next = found->kept;
    found->kept = compiled;
    ++compiled->references;
  }
  pthread_mutex_unlock(&found->lock);
  return compiled;
}

static void keep(kit_found *found, kit_compiled *compiled) {
  pthread_mutex_lock(&found->lock);
  ++compiled->references;
  compiled->next = found->kept;
  found->kept = compiled;
  kit_compiled **last = &found->kept;
  for (int i = 0; i < KEPT && *last != NULL; ++i) {
    last = &(*last)->next;
  }
  kit_compiled *ended = *last;
  *last = NULL;
  pthread_mutex_unlock(&found->lock);
  if (ended != NULL) {
    kit_compiled_release(ended);
  }
}

// ---- Compiling ----

// The constant `enum { NAME_bytes = N };` of the source.
static uint32_t near_bytes_of(const kit_source *source, const char *name) {
  char line[200];
  snprintf(line, sizeof(line), "enum { %.160s_bytes = ", name);
  const char *found =
      source->text_bytes == 0 ? NULL : memmem(source->text, source->text_bytes, line, strlen(line));
  return found == NULL ? 0 : (uint32_t)strtoul(found + strlen(line), NULL, 10);
}

static kit_compiled *create(kit_found *found, const kit_source *source) {
  uint32_t count = vil_module_program_count(source->module);
  kit_compiled *made = calloc(1, sizeof(*made) + count * sizeof(kit_function));
  char *text = malloc(source->text_bytes + 1);
  if (made == NULL || text == NULL) {
    free(made);
    free(text);
    return NULL;
  }
  memcpy(text, source->text, source->text_bytes);
  text[source->text_bytes] = '\0';
  made->text = text;
  made->text_bytes = source->text_bytes;
  made->found = found;
  made->references = 1;
  pthread_mutex_init(&made->lock, NULL);
  made->program =
      (kit_program){.device = found->data, .function_count = count, .functions = made->functions};
  for (uint32_t i = 0; i < count; ++i) {
    kit_function *function = &made->functions[i];
    kit_source_function(source->module, i, function->name, sizeof(function->name));
    function->near_bytes = near_bytes_of(source, function->name);
  }
  return made;
}

static int32_t build(const kit_source *source, kit_program *program) {
  const kit_driver *driver = kit_the_driver();
  int32_t status = driver->compile(source, program);
  for (uint32_t i = 0; status == HAL_OK && i < program->function_count; ++i) {
    status = driver->find(program, &program->functions[i]);
  }
  return status;
}

static int32_t compile(kit_found *found, const kit_source *source, kit_compiled **out) {
  kit_compiled *made = create(found, source);
  if (made == NULL) {
    return kit_fail(HAL_ERROR_OUT_OF_MEMORY, "no host memory for a module");
  }
  kit_source ended = *source;
  ended.text = made->text;  // With a NUL at its end.
  int32_t status = kit_driver_enter(found);
  if (status == HAL_OK) {
    status = build(&ended, &made->program);
    kit_driver_leave();
  }
  if (status != HAL_OK) {
    hal_error saved;
    kit_error_save(&saved);
    end_program(made);
    kit_error_restore(&saved);
    return status;
  }
  keep(found, made);
  *out = made;
  return HAL_OK;
}

int32_t kit_driver_module_open(kit_device *device, const hal_module_desc *desc,
                               vil_module **out_module, void **out_data) {
  kit_found *found = kit_found_at(device->index);
  kit_source source;
  int32_t status = kit_source_read(device, desc, &source);
  if (status != HAL_OK) {
    return status;
  }
  kit_compiled *compiled = find(found, &source);
  if (compiled == NULL) {
    status = compile(found, &source, &compiled);
  }
  if (status != HAL_OK) {
    vil_module_free(source.module);
    return status;
  }
  *out_module = source.module;
  *out_data = compiled;
  return HAL_OK;
}

void kit_driver_module_close(void *data) {
  kit_compiled_release(data);
}
