// Uses a chip from C, without Python: opens a port by its path, loads a VIL module from a file,
// adds a number to an array on the device and reads it back.
//
// usage: add PORT.so MODULE.hvil
#include <stdio.h>
#include <stdlib.h>

#include "hal/loader.h"

enum { COUNT = 1000 };
static const uint64_t SECOND_NS = 1000000000;

static hal_port *port;

// Ends the program when a call failed, with the port's own words.
static void check(int32_t status, const char *call) {
  if (status == HAL_OK) return;
  hal_error error = {.size = sizeof(error)};
  const int is_known = hal_port_last_error(port, &error) == HAL_OK;
  fprintf(stderr, "%s: %s: %s\n", call, hal_status_text(status), is_known ? error.text : "");
  exit(1);
}
#define CHECK(call) check(call, #call)

static void *read_whole(const char *path, uint64_t *out_bytes) {
  FILE *file = fopen(path, "rb");
  void *bytes = malloc(1 << 20);
  if (file == NULL || bytes == NULL) {
    fprintf(stderr, "%s cannot be read\n", path);
    exit(1);
  }
  *out_bytes = fread(bytes, 1, 1 << 20, file);
  fclose(file);
  return bytes;
}

// Copies between host memory and the buffer, in the order of the stream.
static void copy(hal_stream stream, uint32_t kind, hal_memory_ref ref, float *host) {
  const hal_copy_desc desc = {.size = sizeof(desc),
                              .kind = kind,
                              .source = ref,
                              .target = ref,
                              .host_source = host,
                              .host_target = host};
  CHECK(hal_transfer_copy(port, stream, &desc));
}

// Loads the module twice over: the port gets the program, libhal the signature that it checks
// arguments with.
static hal_plan *load(hal_device device, const char *path, const char *name, hal_pool *pool) {
  char reason[512];
  uint64_t bytes = 0;
  void *data = read_whole(path, &bytes);
  hal_image *image = NULL;
  if (hal_image_read(data, bytes, &image, reason, sizeof(reason)) != HAL_OK) {
    fprintf(stderr, "%s: %s\n", path, reason);
    exit(1);
  }
  const hal_module_desc desc = {
      .size = sizeof(desc), .format = "vil.v1", .image = data, .image_bytes = bytes};
  hal_module module = 0;
  hal_kernel kernel = 0;
  uint32_t index = 0;
  hal_plan *plan = NULL;
  CHECK(hal_module_load(port, device, &desc, &module));
  CHECK(hal_module_get_kernel(port, module, name, &kernel));
  CHECK(hal_image_find(image, name, &index));
  CHECK(hal_plan_create(port, kernel, image, index, pool, &plan));
  hal_image_free(image);
  free(data);
  return plan;
}

int main(int argument_count, char **arguments) {
  if (argument_count != 3) {
    fprintf(stderr, "usage: %s PORT.so MODULE.hvil\n", arguments[0]);
    return 2;
  }
  char reason[512];
  if (hal_port_open(arguments[1], NULL, &port, reason, sizeof(reason)) != HAL_OK) {
    fprintf(stderr, "%s\n", reason);
    return 1;
  }
  hal_device device = 0;
  hal_stream stream = 0;
  hal_pool *pool = NULL;
  hal_memory_ref data;
  CHECK(hal_device_open(port, 0, &device));
  CHECK(hal_stream_create(port, device, 0, &stream));
  CHECK(hal_pool_create(port, device, NULL, &pool));
  CHECK(hal_pool_alloc(pool, stream, COUNT * sizeof(float), &data));
  hal_plan *plan = load(device, arguments[2], "add", pool);

  float values[COUNT];
  for (int i = 0; i < COUNT; ++i) values[i] = (float)i;
  const hal_argument add[3] = {
      {.kind = HAL_ARGUMENT_BUFFER, .buffer = data},
      {.kind = HAL_ARGUMENT_I64, .scalar = COUNT},
      {.kind = HAL_ARGUMENT_F32, .scalar = 0x3F000000},  // The bits of 0.5f.
  };
  copy(stream, HAL_COPY_HOST_TO_DEVICE, data, values);
  CHECK(hal_plan_launch(plan, stream, add, 3, NULL));
  copy(stream, HAL_COPY_DEVICE_TO_HOST, data, values);
  CHECK(hal_stream_synchronize(port, stream, 10 * SECOND_NS));

  int wrong = 0;
  for (int i = 0; i < COUNT; ++i) wrong += values[i] != (float)i + 0.5f;
  char name[64] = "";
  uint64_t name_bytes = 0;
  CHECK(hal_device_get_str(port, device, "device.name", sizeof(name), name, &name_bytes));
  printf("%s: %d of %d elements are right\n", name, COUNT - wrong, COUNT);

  hal_plan_free(plan);
  CHECK(hal_pool_free(pool, stream, &data));
  CHECK(hal_pool_destroy(pool));
  CHECK(hal_device_close(port, device, SECOND_NS));
  CHECK(hal_port_close(port, SECOND_NS));
  return wrong != 0;
}
