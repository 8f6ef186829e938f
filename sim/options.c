// Options of the host: `key=value` lines, else environment variables.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

static sim_options options;

const sim_options *sim_options_now(void) {
  return &options;
}

static int32_t refuse(const char *key, const char *value, const char *allowed) {
  return kit_fail(HAL_ERROR_INVALID_VALUE, "option %s=%.200s; allowed: %s", key, value, allowed);
}

static int32_t read_switch(const char *key, const char *environment, int *out) {
  char value[300];
  if (kit_option(key, environment, value, sizeof(value)) == NULL) {
    return HAL_OK;
  }
  if (strcmp(value, "on") != 0 && strcmp(value, "off") != 0) {
    return refuse(key, value, "on, off");
  }
  *out = strcmp(value, "on") == 0;
  return HAL_OK;
}

static int32_t read_number(const char *key, double least, double *out) {
  char value[300], *end = NULL;
  if (kit_option(key, NULL, value, sizeof(value)) == NULL) {
    return HAL_OK;
  }
  errno = 0;
  double number = strtod(value, &end);
  if (end == value || *end != '\0' || errno != 0 || !(number >= least) || number > 1e15) {
    char allowed[100];
    snprintf(allowed, sizeof(allowed), "a number from %g to 1e15", least);
    return refuse(key, value, allowed);
  }
  *out = number;
  return HAL_OK;
}

static int32_t read_count(const char *key, int64_t least, int64_t *out) {
  double number = (double)*out;
  int32_t status = read_number(key, (double)least, &number);
  if (status == HAL_OK && number != (double)(int64_t)number) {
    char value[300];
    kit_option(key, NULL, value, sizeof(value));
    return refuse(key, value, "a whole number");
  }
  *out = (int64_t)number;
  return status;
}

static int32_t read_checks(uint32_t *out) {
  static const char *const names[] = {"uninitialised", "race", "bounds", "lifetime", "deadlock"};
  char value[300], word[300];
  if (kit_option("checks", "HAL_SIM_CHECKS", value, sizeof(value)) == NULL) {
    return HAL_OK;
  }
  for (const char *at = value; *at != '\0';) {
    size_t length = strcspn(at, ",");
    snprintf(word, sizeof(word), "%.*s", (int)length, at);
    uint32_t bit = strcmp(word, "all") == 0 ? 31u : 0;
    for (uint32_t i = 0; i < 5; ++i) {
      bit |= strcmp(word, names[i]) == 0 ? 1u << i : 0;
    }
    if (bit == 0) {
      return refuse("checks", value, "uninitialised, race, bounds, lifetime, deadlock, all");
    }
    *out |= bit;
    at += length + (at[length] == ',');
  }
  return HAL_OK;
}

// The trace is written when the port stops; a path that cannot be written is refused now.
static int32_t read_trace(char *out, size_t capacity) {
  if (kit_option("trace", "HAL_SIM_TRACE", out, capacity) == NULL || *out == '\0') {
    return HAL_OK;
  }
  FILE *file = fopen(out, "a");
  if (file == NULL) {
    return kit_fail(HAL_ERROR_INVALID_VALUE, "option trace=%.400s cannot be written: %s", out,
                    strerror(errno));
  }
  fclose(file);
  return HAL_OK;
}

static int32_t read_faults(sim_options *out) {
  int32_t status = read_count("fault_out_of_memory_after", 0, &out->out_of_memory_after);
  status =
      status != HAL_OK ? status : read_count("fault_device_lost_after", 0, &out->lose_device_after);
  status = status != HAL_OK ? status : read_count("fault_kernel", 1, &out->fail_kernel);
  status = status != HAL_OK ? status : read_count("fault_dead_rank", 0, &out->dead_rank);
  status = status != HAL_OK ? status : read_count("fault_late_ns", 0, &out->late_ns);
  status = status != HAL_OK ? status : read_count("fault_late_ms", 0, &out->late_ms);
  return status != HAL_OK ? status : read_number("fault_slow_link", 1, &out->slow_link);
}

int32_t sim_options_read(sim_options *out) {
  options = (sim_options){.functional = 1,
                          .deadlock_s = 10,
                          .out_of_memory_after = -1,
                          .lose_device_after = -1,
                          .dead_rank = -1,
                          .slow_link = 1};
  int32_t status = read_trace(options.trace, sizeof(options.trace));
  status = status != HAL_OK ? status
                            : read_switch("functional", "HAL_SIM_FUNCTIONAL", &options.functional);
  status = status != HAL_OK ? status : read_checks(&options.checks);
  status = status != HAL_OK ? status : read_number("deadlock_s", 0.001, &options.deadlock_s);
  status = status != HAL_OK ? status : read_faults(&options);
  *out = options;
  return status;
}
