// A small stack of the generated layers over a port that answers what the test tells it to. It
// takes the place of libhal's own layer.c, so that the generated code is tested alone.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layer.h"

#define EXPORT __attribute__((visibility("default")))

// ---- What the port answers, and what it saw ----

EXPORT int32_t port_answer = 0;
EXPORT uint32_t port_calls = 0;
EXPORT int32_t port_saw_zeroed_out = 0;

static int32_t get_info(uint32_t key, uint64_t capacity, char *out_text, uint64_t *out_bytes) {
  (void)key;
  port_calls++;
  if (port_answer != HAL_OK) return port_answer;
  if (capacity >= 4) memcpy(out_text, "abc", 4);
  *out_bytes = 4;
  return HAL_OK;
}

static int32_t alloc(hal_device device, const hal_memory_desc *desc, hal_memory *out_memory) {
  (void)device;
  (void)desc;
  port_calls++;
  if (port_answer == HAL_OK && out_memory != NULL) *out_memory = 77;
  return port_answer;
}

static int32_t stats(hal_device device, hal_memory_figures *out_stats) {
  (void)device;
  port_calls++;
  port_saw_zeroed_out = out_stats->total_bytes == 0 && out_stats->free_bytes == 0;
  return port_answer;
}

static int32_t launch(hal_stream stream, hal_kernel kernel, const hal_launch_desc *desc) {
  (void)stream;
  (void)kernel;
  (void)desc;
  port_calls++;
  return port_answer;
}

static const hal_port_table port_table = {.size = sizeof(hal_port_table), .get_info = get_info};
static const hal_memory_table memory_table = {
    .size = sizeof(hal_memory_table), .alloc = alloc, .stats = stats};
// A table of an older build: it ends before its second function.
static const hal_launch_table launch_table = {.size = sizeof(hal_launch_table), .launch = launch};
static hal_memory_table short_table;

static hal_port_root root = {
    .size = sizeof(hal_port_root),
    .abi_major = HAL_ABI_MAJOR,
    .abi_minor = HAL_ABI_MINOR,
    .name = "stack",
    .vendor = "test",
    .version = "1",
    .build_id = "",
    .port = &port_table,
    .memory = &memory_table,
    .launch = &launch_table,
};

// ---- What libhal supplies to the layers ----

EXPORT char refused_rule[32];
EXPORT char refused_detail[512];
EXPORT char absent_call[64];
EXPORT char failed_call[64];

int32_t hal_layer_refuse(hal_layer *self, const char *call, const char *rule, int32_t status,
                         const char *text, const char *detail, ...) {
  (void)self;
  (void)call;
  (void)text;
  snprintf(refused_rule, sizeof(refused_rule), "%s", rule);
  va_list values;
  va_start(values, detail);
  vsnprintf(refused_detail, sizeof(refused_detail), detail, values);
  va_end(values);
  return status;
}

int32_t hal_layer_absent(hal_layer *self, const char *call) {
  (void)self;
  snprintf(absent_call, sizeof(absent_call), "%s", call);
  return HAL_ERROR_UNSUPPORTED;
}

int32_t hal_layer_failed(hal_layer *self, const char *call, int32_t status) {
  (void)self;
  snprintf(failed_call, sizeof(failed_call), "%s", call);
  return status;
}

// ---- The stack ----

EXPORT char traced[4096];

static void keep_line(void *user, const char *line) {
  (void)user;
  snprintf(traced, sizeof(traced), "%s", line);
}

static hal_entries entries;
static const hal_trace_sink sink = {keep_line, NULL};
static hal_layer layers[5];
static hal_port_head head;

// Builds trace over validate over forward over mutate over direct. `rule` is broken where it is
// checked; NULL breaks none. `memory_bytes` cuts the memory table, 0 keeps it whole.
EXPORT hal_port *stack_open(const char *rule_id, uint64_t memory_bytes) {
  const hal_rule *rule = rule_id != NULL ? hal_rule_find(rule_id) : NULL;
  if (rule_id != NULL && rule == NULL) return NULL;
  short_table = memory_table;
  short_table.size = memory_bytes;
  root.memory = memory_bytes != 0 ? &short_table : &memory_table;
  hal_entries_read(&entries, &root);
  const int host = rule != NULL && rule->checked_by == HAL_BY_HOST;
  layers[0] = (hal_layer){&hal_trace_calls, &layers[1], NULL, (void *)&sink};
  layers[1] = (hal_layer){&hal_validate_calls, &layers[2], NULL, host ? (void *)rule : NULL};
  layers[2] = (hal_layer){&hal_forward_calls, &layers[3], NULL, NULL};
  layers[3] = (hal_layer){rule != NULL && !host ? &hal_mutate_calls : &hal_forward_calls,
                          &layers[4], NULL, (void *)rule};
  layers[4] = (hal_layer){&hal_direct_calls, NULL, NULL, &entries};
  head.top = &layers[0];
  port_calls = 0;
  port_answer = HAL_OK;
  refused_rule[0] = refused_detail[0] = absent_call[0] = failed_call[0] = traced[0] = '\0';
  return (hal_port *)&head;
}

EXPORT int32_t stack_has(uint32_t function) {
  return hal_entries_have(&entries, function);
}
EXPORT const char *stack_function(uint32_t function) {
  return hal_functions[function].call;
}
EXPORT const char *stack_status(int32_t status) {
  return hal_status_name(status);
}
