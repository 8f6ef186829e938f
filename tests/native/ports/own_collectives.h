// The small port with collectives of its own, but without all_to_all. Included after fake.c.
#ifndef HAL_TESTS_OWN_COLLECTIVES_H_
#define HAL_TESTS_OWN_COLLECTIVES_H_

#include <stddef.h>

// It has no communicators of ranks from this one on: it says so when the rank joins.
static uint32_t ranks_refused_from = UINT32_MAX;
// What it was told, a word a call: `(`, `)`, `s` or `r` with peer and offset in bytes.
static char told[512];

static void tell(const char *word, const hal_collective_desc *desc, uint64_t offset_bytes) {
  const size_t length = strlen(told);
  snprintf(told + length, sizeof(told) - length, "%s%u+%u ", word, desc->peer,
           (unsigned)offset_bytes);
}
static int32_t told_begin(void) {
  strcat(told, "( ");
  return HAL_OK;
}
static int32_t told_end(void) {
  strcat(told, ")");
  return HAL_OK;
}
static int32_t told_create(hal_device device, const hal_comm_desc *desc, hal_comm *out_comm) {
  (void)device;
  if (desc->rank >= ranks_refused_from) return HAL_ERROR_UNSUPPORTED;
  *out_comm = 100 + desc->rank;
  return HAL_OK;
}
static int32_t told_send(hal_comm comm, hal_stream stream, const hal_collective_desc *desc) {
  (void)comm, (void)stream;
  tell("s", desc, desc->source.offset_bytes);
  return HAL_OK;
}
static int32_t told_recv(hal_comm comm, hal_stream stream, const hal_collective_desc *desc) {
  (void)comm, (void)stream;
  tell("r", desc, desc->target.offset_bytes);
  return HAL_OK;
}
static int32_t told_destroy(hal_comm comm) {
  return comm >= 100 && comm < 200 ? HAL_OK : HAL_ERROR_INVALID_HANDLE;
}

static const hal_collective_table own_collective_table = {
    .size = offsetof(hal_collective_table, all_to_all),
    .comm_create = told_create,
    .comm_destroy = told_destroy,
    .send = told_send,
    .recv = told_recv,
    .group_begin = told_begin,
    .group_end = told_end};

static int32_t own_entry(uint32_t host_major, uint32_t host_minor, const hal_port_root **out_root) {
  static hal_port_root own_root;
  (void)host_major, (void)host_minor;
  own_root = root;
  own_root.collective = &own_collective_table;
  *out_root = &own_root;
  return HAL_OK;
}

#endif  // HAL_TESTS_OWN_COLLECTIVES_H_
