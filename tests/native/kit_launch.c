// Modules and launches of the kit, with the fence on.
#include "kit_fixture.h"
#include "kit_image.h"

static int32_t start(void) {
  kit_host_fence(1);
  kit_host_threads(2);
  return HAL_OK;
}

static const kit_port port = {
    PLAIN_TEXTS,
    .hcd_default = "execution.limits.grid_max\t[64,8,4]\nexecution.limits.scratch_bytes_max\t256\n",
    .hooks = {.start = start, .device_count = two_devices, .device_facts = plain_facts},
};

static hal_device device;

static int32_t load(const void *image, uint64_t bytes, const char *format, hal_module *out) {
  hal_module_desc desc = {
      .size = sizeof(desc), .format = format, .image = image, .image_bytes = bytes};
  return kit_module_load(device, &desc, out);
}

static hal_kernel kernel_of(hal_module module, const char *name) {
  hal_kernel kernel = 0;
  EQUAL(kit_module_get_kernel(module, name, &kernel), HAL_OK);
  return kernel;
}

// The three arguments of both kernels.
typedef struct call {
  hal_argument arguments[3];
  hal_launch_desc desc;
} call;

static void prepare(call *out, int64_t count, int32_t value, hal_memory memory, uint64_t bytes) {
  *out = (call){.arguments = {{.kind = HAL_ARGUMENT_I64, .scalar = (uint64_t)count},
                              {.kind = HAL_ARGUMENT_I32, .scalar = (uint32_t)value},
                              {.kind = HAL_ARGUMENT_BUFFER, .buffer = {memory, 0, bytes}}}};
  out->desc = (hal_launch_desc){.size = sizeof(out->desc),
                                .grid = {4, 4, 4},
                                .argument_count = 3,
                                .arguments = out->arguments};
}

static void test_damaged_images_are_refused(void) {
  hal_module module = 7;
  EQUAL(load(kit_image, sizeof(kit_image), "vil.v9", &module), HAL_ERROR_UNSUPPORTED);
  EQUAL(load("nonsense", 8, "vil.v1", &module), HAL_ERROR_INVALID_MODULE);
  uint8_t damaged[sizeof(kit_image)];
  memcpy(damaged, kit_image, sizeof(damaged));
  damaged[60] ^= 0xFF;
  EQUAL(load(damaged, sizeof(damaged), "vil.v1", &module), HAL_ERROR_INVALID_MODULE);
  EQUAL(module, 7);
  EQUAL(load(kit_image, sizeof(kit_image), "vil.v1", &module), HAL_OK);
  hal_kernel kernel = 7;
  EQUAL(kit_module_get_kernel(module, "none", &kernel), HAL_ERROR_NOT_FOUND);
  EQUAL(kernel, 7);
  kernel = kernel_of(module, "mark");
  TRUE(kernel == kernel_of(module, "mark"));
  int64_t count = 0;
  EQUAL(kit_module_kernel_info(kernel, HAL_KERNEL_INFO_ARGUMENT_COUNT, &count), HAL_OK);
  EQUAL(count, 3);
  EQUAL(kit_module_unload(module), HAL_OK);
  EQUAL(kit_module_unload(module), HAL_ERROR_INVALID_HANDLE);
  EQUAL(kit_module_kernel_info(kernel, HAL_KERNEL_INFO_ARGUMENT_COUNT, &count),
        HAL_ERROR_INVALID_HANDLE);
}

static void test_each_program_runs_once(hal_kernel kernel, hal_stream stream) {
  hal_memory memory = allocate(device, 256, HAL_MEMORY_FLAG_ZERO);
  int32_t back[64] = {0};
  call given;
  prepare(&given, 64, 41, memory, 256);
  given.desc.grid[2] = 3;
  EQUAL(kit_launch_launch(stream, kernel, &given.desc), HAL_OK);
  memset(&given, 0xFF, sizeof(given));  // Arguments were copied at enqueue.
  EQUAL(copy_to_host(stream, memory, 0, back, 256), HAL_OK);
  EQUAL(kit_stream_synchronize(stream, SECOND), HAL_OK);
  for (int i = 0; i < 64; ++i) {
    EQUAL(back[i], i < 48 ? 41 : 0);
  }
  EQUAL(kit_memory_free(memory), HAL_OK);
}

static void test_wrong_launches_are_refused(hal_kernel kernel, hal_stream stream) {
  hal_memory memory = allocate(device, 256, HAL_MEMORY_FLAG_ZERO);
  call given;
  prepare(&given, 64, 1, memory, 256);
  given.desc.argument_count = 2;
  EQUAL(kit_launch_launch(stream, kernel, &given.desc), HAL_ERROR_INVALID_VALUE);
  prepare(&given, 64, 1, memory, 256);
  given.arguments[1].kind = HAL_ARGUMENT_F32;
  EQUAL(kit_launch_launch(stream, kernel, &given.desc), HAL_ERROR_INVALID_VALUE);
  prepare(&given, 64, 1, memory, 252);  // Smaller than the kernel needs.
  EQUAL(kit_launch_launch(stream, kernel, &given.desc), HAL_ERROR_OUT_OF_RANGE);
  prepare(&given, 64, 1, memory, 260);
  EQUAL(kit_launch_launch(stream, kernel, &given.desc), HAL_ERROR_OUT_OF_RANGE);
  prepare(&given, 63, 1, memory, 252);
  given.arguments[2].buffer.offset_bytes = 2;
  EQUAL(kit_launch_launch(stream, kernel, &given.desc), HAL_ERROR_INVALID_VALUE);
  prepare(&given, 64, 1, memory, 256);
  given.desc.grid[2] = 5;
  EQUAL(kit_launch_launch(stream, kernel, &given.desc), HAL_ERROR_OUT_OF_RANGE);
  prepare(&given, 64, 1, memory, 256);
  given.desc.scratch_bytes = 257;
  EQUAL(kit_launch_launch(stream, kernel, &given.desc), HAL_ERROR_OUT_OF_RANGE);
  prepare(&given, 64, 1, memory ^ 1, 256);
  EQUAL(kit_launch_launch(stream, kernel, &given.desc), HAL_ERROR_INVALID_HANDLE);
  EQUAL(kit_stream_synchronize(stream, SECOND), HAL_OK);
  int32_t back[64];
  EQUAL(copy_to_host(stream, memory, 0, back, 256), HAL_OK);
  EQUAL(kit_stream_synchronize(stream, SECOND), HAL_OK);
  for (int i = 0; i < 64; ++i) {
    EQUAL(back[i], 0);
  }
  uint64_t native = 0;
  EQUAL(kit_memory_native_handle(memory, &native), HAL_ERROR_UNSUPPORTED);  // Fenced.
  EQUAL(kit_memory_free(memory), HAL_OK);
}

static void test_launches_outlive_their_module(void) {
  hal_module module = 0;
  hal_stream stream = 0;
  hal_event gate = 0;
  EQUAL(load(kit_image, sizeof(kit_image), "vil.v1", &module), HAL_OK);
  EQUAL(kit_stream_create(device, 0, &stream), HAL_OK);
  EQUAL(kit_event_create(device, HAL_EVENT_FLAG_HOST, &gate), HAL_OK);
  hal_memory memory = allocate(device, 256, 0);
  int32_t back[64] = {0};
  call given;
  prepare(&given, 64, -9, memory, 256);
  EQUAL(kit_stream_wait_event(stream, gate), HAL_OK);
  EQUAL(kit_launch_launch(stream, kernel_of(module, "mark"), &given.desc), HAL_OK);
  EQUAL(copy_to_host(stream, memory, 0, back, 256), HAL_OK);
  EQUAL(kit_module_unload(module), HAL_OK);
  EQUAL(kit_memory_free(memory), HAL_OK);
  EQUAL(kit_event_signal(gate, HAL_OK), HAL_OK);
  EQUAL(kit_stream_synchronize(stream, SECOND), HAL_OK);
  EQUAL(back[63], -9);
}

static void test_a_program_that_fails_makes_its_stream_sticky(hal_kernel broken) {
  hal_stream stream = 0;
  EQUAL(kit_stream_create(device, 0, &stream), HAL_OK);
  hal_memory memory = allocate(device, 64, 0);
  call given;
  prepare(&given, 64, 1, memory, 64);  // Programs from 16 on store beyond the range.
  EQUAL(fill_with(stream, memory, 0, 64, 0, 1), HAL_OK);
  EQUAL(kit_launch_launch(stream, broken, &given.desc), HAL_OK);
  EQUAL(kit_stream_synchronize(stream, SECOND), HAL_ERROR_EXECUTION_FAILED);
  EQUAL(last_error().operation_id, 2);
  TRUE(last_error().text[0] != '\0');
  EQUAL(kit_launch_launch(stream, broken, &given.desc), HAL_ERROR_EXECUTION_FAILED);
}

int main(void) {
  device = open_port(&port);
  hal_module module = 0;
  hal_stream stream = 0;
  test_damaged_images_are_refused();
  EQUAL(load(kit_image, sizeof(kit_image), "vil.v1", &module), HAL_OK);
  EQUAL(kit_stream_create(device, 0, &stream), HAL_OK);
  test_each_program_runs_once(kernel_of(module, "mark"), stream);
  test_wrong_launches_are_refused(kernel_of(module, "mark"), stream);
  test_launches_outlive_their_module();
  test_a_program_that_fails_makes_its_stream_sticky(kernel_of(module, "broken"));
  EQUAL(kit_port_shutdown(SECOND), HAL_OK);
  return 0;
}
