// Signatures of module images, the checks of arguments, and launches of plans.
#include "files.h"
#include "hal/loader.h"
#include "ports/fake.c"
#include "signature_form.h"

static char reason[512];

static hal_image *read_small(const char *name) {
  uint64_t bytes = 0;
  unsigned char *data = read_file(name, &bytes);
  hal_image *image = NULL;
  reason[0] = '\0';
  const int32_t status = hal_image_read(data, bytes, &image, reason, sizeof(reason));
  if (status != HAL_OK) fprintf(stderr, "%s\n", reason);
  EQUAL(status, HAL_OK);
  free(data);
  return image;
}

static hal_image *small(void) {
  return read_small("tests/fuzz/corpus/libhal_image/small.hvil");
}

static hal_argument buffer(hal_memory memory, uint64_t offset, uint64_t bytes) {
  return (hal_argument){.kind = HAL_ARGUMENT_BUFFER,
                        .buffer = {.memory = memory, .offset_bytes = offset, .bytes = bytes}};
}

static hal_argument number(uint32_t kind, int64_t value) {
  return (hal_argument){.kind = kind, .scalar = (uint64_t)value};
}

static void an_image_tells_its_kernels(void) {
  hal_image *image = small();
  hal_image_facts facts = {.size = sizeof(facts)};
  EQUAL(hal_image_info(image, &facts), HAL_OK);
  EQUAL(facts.kind, HAL_IMAGE_VIL);
  EQUAL(facts.kernel_count, 3);
  EQUAL(facts.program_count, 3);
  CONTAINS(facts.format, "vil.v1");
  uint32_t index = 9;
  EQUAL(hal_image_find(image, "mark", &index), HAL_OK);
  EQUAL(hal_image_find(image, "none", &index), HAL_ERROR_NOT_FOUND);
  EQUAL(index, 1);
  hal_kernel_facts kernel = {.size = sizeof(kernel)};
  EQUAL(hal_image_kernel(image, index, &kernel), HAL_OK);
  CONTAINS(kernel.name, "mark");
  EQUAL(kernel.argument_count, 2);
  EQUAL(kernel.workspace_count, 1);
  EQUAL(kernel.takes_grid, 1);
  EQUAL(hal_image_kernel(image, 3, &kernel), HAL_ERROR_OUT_OF_RANGE);
  hal_parameter_facts parameter = {.size = sizeof(parameter)};
  EQUAL(hal_image_parameter(image, 2, 3, &parameter), HAL_OK);
  CONTAINS(parameter.name, "b");
  EQUAL(parameter.kind, HAL_SIGNATURE_BUFFER);
  EQUAL(parameter.dtype, HAL_DTYPE_F32);
  EQUAL(parameter.access, HAL_ACCESS_WRITE);
  EQUAL(parameter.alias, 0);
  EQUAL(parameter.argument_kind, HAL_ARGUMENT_BUFFER);
  EQUAL(hal_image_parameter(image, 2, 4, &parameter), HAL_OK);
  EQUAL(parameter.argument_kind, HAL_ARGUMENT_F64);
  EQUAL(hal_image_parameter(image, 2, 5, &parameter), HAL_ERROR_OUT_OF_RANGE);
  hal_image_free(image);
}

static void an_envelope_carries_the_same_signature(void) {
  hal_image *image = read_small("tests/fuzz/corpus/libhal_image/envelope.himg");
  hal_image_facts facts = {.size = sizeof(facts)};
  EQUAL(hal_image_info(image, &facts), HAL_OK);
  EQUAL(facts.kind, HAL_IMAGE_ENVELOPE);
  EQUAL(facts.kernel_count, 3);
  EQUAL(strcmp(facts.format, "source.c"), 0);
  hal_image_free(image);
}

static void a_caller_with_a_smaller_struct_gets_what_fits(void) {
  hal_image *image = small();
  hal_image_facts facts = {.size = offsetof(hal_image_facts, features), .features = 77};
  EQUAL(hal_image_info(image, &facts), HAL_OK);
  EQUAL(facts.kernel_count, 3);
  EQUAL(facts.features, 77);
  facts.size = 4;
  EQUAL(hal_image_info(image, &facts), HAL_ERROR_INVALID_VALUE);
  hal_image_free(image);
}

static int32_t check(const hal_image *image, uint32_t kernel, const hal_argument *arguments,
                     uint32_t count) {
  reason[0] = '\0';
  return hal_image_check(image, kernel, arguments, count, NULL, NULL, reason, sizeof(reason));
}

static void wrong_arguments_are_refused_with_both_values(void) {
  hal_image *image = small();
  hal_argument add[3] = {buffer(1, 0, 400), number(HAL_ARGUMENT_I64, 100),
                         number(HAL_ARGUMENT_I32, 5)};
  EQUAL(check(image, 0, add, 3), HAL_OK);
  EQUAL(check(image, 0, add, 2), HAL_ERROR_INVALID_VALUE);
  CONTAINS(reason, "add takes 3 arguments, 2 are given");
  EQUAL(check(image, 3, add, 3), HAL_ERROR_OUT_OF_RANGE);
  add[2].kind = HAL_ARGUMENT_F32;
  EQUAL(check(image, 0, add, 3), HAL_ERROR_INVALID_VALUE);
  CONTAINS(reason, "argument 2 of add, value, is an i32, given is an f32");
  add[2].kind = HAL_ARGUMENT_I32;
  add[1].scalar = 101;
  EQUAL(check(image, 0, add, 3), HAL_ERROR_OUT_OF_RANGE);
  CONTAINS(reason, "add needs 404 bytes in data, given are 400");
  add[1].scalar = 50;
  add[0].buffer.offset_bytes = 2;
  EQUAL(check(image, 0, add, 3), HAL_ERROR_INVALID_VALUE);
  CONTAINS(reason, "not a multiple of its 4-byte elements");
  add[0].buffer.offset_bytes = 0;
  add[1].scalar = (uint64_t)-1;
  EQUAL(check(image, 0, add, 3), HAL_ERROR_INVALID_VALUE);
  CONTAINS(reason, "negative");
  add[1].scalar = (uint64_t)1 << 62;
  EQUAL(check(image, 0, add, 3), HAL_ERROR_INVALID_VALUE);
  CONTAINS(reason, "overflows");
  hal_image_free(image);
}

static void overlapping_arguments_are_refused_unless_they_are_an_alias(void) {
  hal_image *image = small();
  hal_argument alias[5] = {buffer(1, 0, 64), number(HAL_ARGUMENT_I64, 2),
                           number(HAL_ARGUMENT_I64, 2), buffer(1, 64, 64),
                           number(HAL_ARGUMENT_F64, 0)};
  uint64_t required[5] = {9, 9, 9, 9, 9}, workspace = 9;
  EQUAL(hal_image_check(image, 2, alias, 5, required, &workspace, NULL, 0), HAL_OK);
  EQUAL(required[0], 16);
  EQUAL(required[1], 0);
  EQUAL(required[3], 10);  // min(16, 9 - 2 / 2 + 2 % 3)
  EQUAL(workspace, 0);
  alias[3].buffer.offset_bytes = 60;
  EQUAL(check(image, 2, alias, 5), HAL_ERROR_INVALID_VALUE);
  CONTAINS(reason, "a (bytes 0 + 64) and b (bytes 60 + 64) overlap");
  alias[3].buffer.memory = 2;
  EQUAL(check(image, 2, alias, 5), HAL_OK);
  alias[3].buffer = alias[0].buffer;
  EQUAL(check(image, 2, alias, 5), HAL_OK);
  alias[3].buffer.bytes = 63;
  EQUAL(check(image, 2, alias, 5), HAL_ERROR_INVALID_VALUE);
  hal_image_free(image);
}

static void a_damaged_image_names_the_byte(void) {
  uint64_t bytes = 0;
  unsigned char *data = read_file("tests/fuzz/corpus/libhal_image/small.hvil", &bytes);
  hal_image *image = NULL;
  EQUAL(hal_image_read(data, 47, &image, reason, sizeof(reason)), HAL_ERROR_INVALID_MODULE);
  CONTAINS(reason, "47 bytes");
  EQUAL(hal_image_read(data, bytes - 8, &image, reason, sizeof(reason)), HAL_ERROR_INVALID_MODULE);
  CONTAINS(reason, "byte 8");
  data[31] = 0x80;
  EQUAL(hal_image_read(data, bytes, &image, reason, sizeof(reason)), HAL_ERROR_INVALID_MODULE);
  CONTAINS(reason, "features 0x80");
  data[31] = 0;
  data[0] = 'X';
  EQUAL(hal_image_read(data, bytes, &image, reason, sizeof(reason)), HAL_ERROR_INVALID_MODULE);
  CONTAINS(reason, "neither HVIL nor HIMG");
  EQUAL(hal_image_read(NULL, 0, &image, reason, sizeof(reason)), HAL_ERROR_INVALID_MODULE);
  TRUE(image == NULL);
  free(data);
}

static int64_t value_of(const unsigned char *code, uint32_t bytes) {
  int64_t value = -77;
  EQUAL(hal_expression_check(code, bytes, NULL, 0) == NULL, 1);
  return hal_expression_value(code, bytes, NULL, &value) == NULL ? value : -99;
}

// The code of `a operation b`.
static int64_t apply(int64_t a, unsigned char operation, int64_t b) {
  unsigned char code[19] = {1};
  memcpy(code + 1, &a, 8);
  code[9] = 1;
  memcpy(code + 10, &b, 8);
  code[18] = operation;
  return value_of(code, sizeof(code));
}

static void expressions_floor_and_check(void) {
  enum { ADD = 3, SUB, MUL, DIV, MOD, CEILDIV, MIN, MAX };
  EQUAL(apply(-7, DIV, 2), -4);
  EQUAL(apply(-7, MOD, 2), 1);
  EQUAL(apply(7, MOD, -2), -1);
  EQUAL(apply(-7, CEILDIV, 2), -3);
  EQUAL(apply(7, CEILDIV, 2), 4);
  EQUAL(apply(7, CEILDIV, -2), -3);
  EQUAL(apply(-3, MIN, 2), -3);
  EQUAL(apply(-3, MAX, 2), 2);
  EQUAL(apply(1, DIV, 0), -99);
  EQUAL(apply(INT64_MIN, MOD, -1), 0);
  EQUAL(apply(INT64_MIN, DIV, -1), -99);
  EQUAL(apply(INT64_MIN, CEILDIV, -1), -99);
  EQUAL(apply(INT64_MAX, ADD, 1), -99);
  EQUAL(apply(INT64_MIN, SUB, 1), -99);
  EQUAL(apply(INT64_MAX, MUL, 2), -99);
  const unsigned char symbol[3] = {2, 0, 0};
  TRUE(hal_expression_check(symbol, 3, NULL, 0) != NULL);
  TRUE(hal_expression_check(symbol, 2, NULL, 0) != NULL);
  TRUE(hal_expression_check(NULL, 0, NULL, 0) != NULL);
}

// ---- Plans ----

typedef struct bench {
  hal_port *port;
  hal_device device;
  hal_stream stream;
  hal_module module;
  hal_pool *pool;
  hal_image *image;
} bench;

static bench set_up(void) {
  bench b = {0};
  EQUAL(hal_port_open_entry(hal_port_entry, NULL, &b.port, reason, sizeof(reason)), HAL_OK);
  EQUAL(hal_device_open(b.port, 0, &b.device), HAL_OK);
  EQUAL(hal_stream_create(b.port, b.device, 0, &b.stream), HAL_OK);
  EQUAL(hal_pool_create(b.port, b.device, NULL, &b.pool), HAL_OK);
  const hal_module_desc desc = {
      .size = sizeof(desc), .format = "vil.v1", .image = "x", .image_bytes = 1};
  EQUAL(hal_module_load(b.port, b.device, &desc, &b.module), HAL_OK);
  b.image = small();
  return b;
}

static void tear_down(bench *b) {
  hal_image_free(b->image);
  EQUAL(hal_pool_destroy(b->pool), HAL_OK);
  EQUAL(hal_device_close(b->port, b->device, 0), HAL_OK);
  EQUAL(hal_port_close(b->port, 0), HAL_OK);
}

static hal_plan *plan_of(bench *b, const char *name) {
  uint32_t index = 0;
  hal_kernel kernel = 0;
  hal_plan *plan = NULL;
  EQUAL(hal_image_find(b->image, name, &index), HAL_OK);
  EQUAL(hal_module_get_kernel(b->port, b->module, name, &kernel), HAL_OK);
  EQUAL(hal_plan_create(b->port, kernel, b->image, index, b->pool, &plan), HAL_OK);
  return plan;
}

static void a_plan_runs_with_its_workspace(void) {
  bench b = set_up();
  hal_plan *plan = plan_of(&b, "mark");
  hal_memory_ref out;
  EQUAL(hal_pool_alloc(b.pool, b.stream, 4, &out), HAL_OK);
  hal_argument arguments[2] = {{.kind = HAL_ARGUMENT_BUFFER, .buffer = out},
                               number(HAL_ARGUMENT_I32, 1234)};
  for (int i = 0; i < 3; ++i) {
    EQUAL(hal_plan_launch(plan, b.stream, arguments, 2, NULL), HAL_OK);
  }
  int32_t value = 0;
  const hal_copy_desc copy = {
      .size = sizeof(copy), .kind = HAL_COPY_DEVICE_TO_HOST, .source = out, .host_target = &value};
  EQUAL(hal_transfer_copy(b.port, b.stream, &copy), HAL_OK);
  EQUAL(hal_stream_synchronize(b.port, b.stream, 1000000000), HAL_OK);
  EQUAL(value, 1234);
  hal_pool_stats stats = {.size = sizeof(stats)};
  EQUAL(hal_pool_stats_read(b.pool, &stats), HAL_OK);
  EQUAL(stats.live_count, 1);
  EQUAL(stats.miss_count, 1);
  EQUAL(stats.hit_count, 3);
  EQUAL(hal_plan_launch(plan, b.stream, arguments, 1, NULL), HAL_ERROR_INVALID_VALUE);
  hal_error error = {.size = sizeof(error)};
  EQUAL(hal_port_last_error(b.port, &error), HAL_OK);
  CONTAINS(error.text, "mark takes 2 arguments, 1 are given");
  hal_plan_free(plan);
  tear_down(&b);
}

static int32_t first_of(bench *b, hal_memory_ref ref) {
  int32_t value = 0;
  ref.bytes = sizeof(value);
  const hal_copy_desc copy = {
      .size = sizeof(copy), .kind = HAL_COPY_DEVICE_TO_HOST, .source = ref, .host_target = &value};
  EQUAL(hal_transfer_copy(b->port, b->stream, &copy), HAL_OK);
  EQUAL(hal_stream_synchronize(b->port, b->stream, 1000000000), HAL_OK);
  return value;
}

static void a_recorded_plan_keeps_its_workspace_and_takes_new_arguments(void) {
  bench b = set_up();
  hal_plan *plan = plan_of(&b, "mark");
  hal_memory_ref out;
  hal_graph graph = 0;
  EQUAL(hal_pool_alloc(b.pool, b.stream, 4, &out), HAL_OK);
  hal_argument arguments[2] = {{.kind = HAL_ARGUMENT_BUFFER, .buffer = out},
                               number(HAL_ARGUMENT_I32, 7)};
  EQUAL(hal_graph_begin(b.port, b.stream), HAL_OK);
  EQUAL(hal_plan_launch(plan, b.stream, arguments, 2, NULL), HAL_OK);
  EQUAL(hal_graph_end(b.port, b.stream, &graph), HAL_OK);
  hal_pool_stats stats = {.size = sizeof(stats)};
  EQUAL(hal_pool_stats_read(b.pool, &stats), HAL_OK);
  EQUAL(stats.hit_count + stats.miss_count, 1);  // The workspace is the graph's own.
  EQUAL(hal_graph_launch(b.port, graph, b.stream), HAL_OK);
  EQUAL(first_of(&b, out), 7);
  arguments[1].scalar = 8;
  EQUAL(hal_plan_update(plan, graph, 0, arguments, 2), HAL_OK);
  EQUAL(hal_graph_launch(b.port, graph, b.stream), HAL_OK);
  EQUAL(first_of(&b, out), 8);
  EQUAL(hal_plan_update(plan, graph, 1, arguments, 2), HAL_ERROR_OUT_OF_RANGE);
  EQUAL(hal_plan_update(plan, graph, 0, arguments, 1), HAL_ERROR_INVALID_VALUE);
  EQUAL(hal_graph_destroy(b.port, graph), HAL_OK);
  hal_memory_figures figures = {.size = sizeof(figures)};
  EQUAL(hal_memory_stats(b.port, b.device, &figures), HAL_OK);
  EQUAL(figures.in_use_bytes, stats.reserved_bytes);
  hal_plan_free(plan);
  tear_down(&b);
}

static void a_plan_with_workspaces_needs_a_pool(void) {
  bench b = set_up();
  hal_plan *plan = NULL;
  EQUAL(hal_plan_create(b.port, 3, b.image, 1, NULL, &plan), HAL_ERROR_INVALID_VALUE);
  EQUAL(hal_plan_create(b.port, 1, b.image, 9, NULL, &plan), HAL_ERROR_INVALID_VALUE);
  EQUAL(hal_plan_create(b.port, 1, b.image, 0, NULL, &plan), HAL_OK);
  hal_image_free(b.image);  // The plan keeps the signature.
  b.image = NULL;
  const hal_argument arguments[3] = {buffer(0, 0, 4), number(HAL_ARGUMENT_I64, 1),
                                     number(HAL_ARGUMENT_I32, 1)};
  EQUAL(hal_plan_launch(plan, b.stream, arguments, 3, NULL), HAL_ERROR_INVALID_HANDLE);
  hal_plan_free(plan);
  tear_down(&b);
}

int main(void) {
  an_image_tells_its_kernels();
  an_envelope_carries_the_same_signature();
  a_caller_with_a_smaller_struct_gets_what_fits();
  wrong_arguments_are_refused_with_both_values();
  overlapping_arguments_are_refused_unless_they_are_an_alias();
  a_damaged_image_names_the_byte();
  expressions_floor_and_check();
  a_plan_runs_with_its_workspace();
  a_recorded_plan_keeps_its_workspace_and_takes_new_arguments();
  a_plan_with_workspaces_needs_a_pool();
  return 0;
}
