// A host that knows one release of the ABI and nothing else: compiled against that release's
// hal/hal.h, it opens any port and uses what tier 1 requires, by the law of growth.
//
//   host PORT.so [HCD.flat] [IMAGE]     with IMAGE: a VIL module whose program main is Y = Y + Y
//
// Prints one line for each step and exits with 0, or says what was wrong and exits with 1.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hal/hal.h"

enum { COUNT = 200, BYTES = COUNT * 4 };
#define SECOND 1000000000ull

// An entry exists when it lies inside its table's size and is not NULL.
#define HAS(table, entry)                                                                      \
  ((table) != NULL &&                                                                          \
   (table)->size >= (uint64_t)((const char *)(&(table)->entry + 1) - (const char *)(table)) && \
   (table)->entry != NULL)

#define WANT(call, status) want(__LINE__, #call, call, status)

static const hal_port_root *root;

static void fail(const char *what) {
  printf("FAILED: %s\n", what);
  exit(1);
}

static void want(int line, const char *call, int32_t answer, int32_t status) {
  if (answer == status) return;
  hal_error error = {.size = sizeof(error)};
  const int has = root != NULL && HAS(root->port, last_error);
  if (has) root->port->last_error(&error);
  printf("FAILED: line %d: %s answered %d, not %d: %s\n", line, call, answer, status,
         has ? error.text : "");
  exit(1);
}

static char *read_file(const char *path, uint64_t *out_bytes) {
  FILE *file = fopen(path, "rb");
  if (file == NULL || fseek(file, 0, SEEK_END) != 0) fail(path);
  *out_bytes = (uint64_t)ftell(file);
  rewind(file);
  char *text = calloc(1, *out_bytes + 1);
  if (text == NULL || fread(text, 1, *out_bytes, file) != *out_bytes) fail(path);
  fclose(file);
  return text;
}

static void shake_hands(const char *path) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) fail(dlerror());
  void *symbol = dlsym(library, "hal_port_entry");
  if (symbol == NULL) fail("it does not export hal_port_entry");
  hal_port_entry_fn entry;
  memcpy(&entry, &symbol, sizeof(entry));
  const hal_port_root *none = NULL;
  WANT(entry(HAL_ABI_MAJOR + 1, 0, &none), HAL_ERROR_VERSION);
  if (none != NULL) fail("a root for a major that it does not speak");
  const hal_port_root *got = NULL;
  WANT(entry(HAL_ABI_MAJOR, HAL_ABI_MINOR, &got), HAL_OK);
  if (got == NULL || got->abi_major != HAL_ABI_MAJOR) fail("no root of this major");
  root = got;
  printf("root: %s speaks %u.%u\n", root->name, root->abi_major, root->abi_minor);
}

static void start(const char *hcd_path) {
  hal_host host = {.size = sizeof(host), .abi_major = HAL_ABI_MAJOR, .abi_minor = HAL_ABI_MINOR};
  if (hcd_path != NULL && hcd_path[0] != '\0') {
    host.hcd_text = read_file(hcd_path, &host.hcd_bytes);
  }
  WANT(root->port->init(&host), HAL_OK);
  uint32_t count = 0;
  WANT(root->port->device_count(&count), HAL_OK);
  if (count == 0) fail("no device");
  char name[8];
  uint64_t bytes = 0;
  WANT(root->port->get_info(HAL_PORT_INFO_NAME, sizeof(name), name, &bytes), HAL_OK);
  WANT(root->port->get_info(9999, sizeof(name), name, &bytes), HAL_ERROR_NOT_FOUND);
  const void *table = NULL;
  if (HAS(root->port, get_extension)) {
    const int32_t answer = root->port->get_extension("no.such.extension", 1, &table);
    if (answer != HAL_ERROR_NOT_FOUND && answer != HAL_ERROR_UNSUPPORTED) {
      fail("an unknown extension is there");
    }
  }
  if (table != NULL) fail("a table of an unknown extension");
  printf("started: %u devices\n", count);
}

// Copies there, on the device and back, in stream order.
static void copy_around(hal_device device, hal_stream stream, hal_memory memory) {
  static int32_t out[COUNT], in[COUNT];
  for (int i = 0; i < COUNT; ++i) out[i] = i;
  hal_memory other = 0;
  const hal_memory_desc like = {.size = sizeof(like), .bytes = BYTES};
  WANT(root->memory->alloc(device, &like, &other), HAL_OK);
  hal_copy_desc copy = {.size = sizeof(copy), .kind = HAL_COPY_HOST_TO_DEVICE};
  copy.target = (hal_memory_ref){.memory = memory, .bytes = BYTES};
  copy.host_source = out;
  WANT(root->transfer->copy(stream, &copy), HAL_OK);
  copy.kind = HAL_COPY_DEVICE_TO_DEVICE;
  copy.source = copy.target;
  copy.target.memory = other;
  WANT(root->transfer->copy(stream, &copy), HAL_OK);
  const uint32_t seven = 7;
  const hal_memory_ref head = {.memory = other, .bytes = 4};
  WANT(root->transfer->fill(stream, &head, &seven, sizeof(seven)), HAL_OK);
  copy.kind = HAL_COPY_DEVICE_TO_HOST;
  copy.source = copy.target;
  copy.host_target = in;
  WANT(root->transfer->copy(stream, &copy), HAL_OK);
  WANT(root->stream->synchronize(stream, 20 * SECOND), HAL_OK);
  for (int i = 0; i < COUNT; ++i) {
    if (in[i] != (i == 0 ? 7 : i)) fail("the bytes that came back are others");
  }
  WANT(root->memory->free(other), HAL_OK);
  WANT(root->memory->free(other), HAL_ERROR_INVALID_HANDLE);
  printf("copied\n");
}

// A struct of which the caller knows only the head, and memory behind it that is not the port's.
static void ask_with_smaller_structs(hal_device device, hal_memory memory) {
  struct {
    hal_memory_facts facts;
    uint64_t guard;
  } small;
  memset(&small, 0xA5, sizeof(small));
  small.facts.size = HAL_MEMORY_FACTS_MINIMUM;
  WANT(root->memory->info(memory, &small.facts), HAL_OK);
  if (small.facts.bytes != BYTES) fail("the length is another");
  if (small.facts.device != 0xA5A5A5A5A5A5A5A5ull) fail("a field beyond the size was written");
  hal_memory less = 0;
  struct {
    uint64_t size, bytes;
  } head = {.size = HAL_MEMORY_DESC_MINIMUM, .bytes = 64};
  WANT(root->memory->alloc(device, (const hal_memory_desc *)(const void *)&head, &less), HAL_OK);
  WANT(root->memory->free(less), HAL_OK);
  hal_memory_figures figures = {.size = sizeof(figures)};
  WANT(root->memory->stats(device, &figures), HAL_OK);
  if (figures.in_use_bytes < BYTES) fail("less is in use than was taken");
  printf("smaller structs are served\n");
}

static void order_by_events(hal_device device, hal_stream stream) {
  hal_stream second = 0;
  hal_event mark = 0, gate = 0;
  WANT(root->stream->create(device, 0, &second), HAL_OK);
  WANT(root->event->create(device, 0, &mark), HAL_OK);
  WANT(root->event->create(device, HAL_EVENT_FLAG_HOST, &gate), HAL_OK);
  WANT(root->stream->wait_event(stream, gate), HAL_OK);
  WANT(root->event->record(mark, stream), HAL_OK);
  WANT(root->stream->wait_event(second, mark), HAL_OK);
  WANT(root->event->query(mark), HAL_NOT_READY);
  WANT(root->stream->query(second), HAL_NOT_READY);
  WANT(root->event->signal(gate, HAL_OK), HAL_OK);
  WANT(root->stream->synchronize(second, 20 * SECOND), HAL_OK);
  WANT(root->event->query(mark), HAL_OK);
  WANT(root->event->destroy(gate), HAL_OK);
  WANT(root->event->destroy(mark), HAL_OK);
  WANT(root->stream->destroy(second), HAL_OK);
  printf("ordered\n");
}

static hal_argument number(uint32_t kind, uint64_t value) {
  return (hal_argument){.kind = kind, .scalar = value};
}

static void run_a_kernel(hal_device device, hal_stream stream, hal_memory memory,
                         const char *image_path) {
  static float numbers[COUNT];
  for (int i = 0; i < COUNT; ++i) numbers[i] = (float)i;
  uint64_t bytes = 0;
  char *image = read_file(image_path, &bytes);
  hal_module_desc desc = {.size = sizeof(desc), .format = "vil.v1"};
  desc.image = "no image";
  desc.image_bytes = 8;
  hal_module module = 0;
  WANT(root->module->load(device, &desc, &module), HAL_ERROR_INVALID_MODULE);
  desc.image = image;
  desc.image_bytes = bytes;
  WANT(root->module->load(device, &desc, &module), HAL_OK);
  hal_kernel kernel = 0;
  WANT(root->module->get_kernel(module, "main", &kernel), HAL_OK);
  hal_copy_desc copy = {.size = sizeof(copy), .kind = HAL_COPY_HOST_TO_DEVICE};
  copy.target = (hal_memory_ref){.memory = memory, .bytes = BYTES};
  copy.host_source = numbers;
  WANT(root->transfer->copy(stream, &copy), HAL_OK);
  hal_argument arguments[3] = {number(HAL_ARGUMENT_I64, 1), number(HAL_ARGUMENT_I64, COUNT)};
  arguments[2].kind = HAL_ARGUMENT_BUFFER;
  arguments[2].buffer = copy.target;
  const hal_launch_desc launch = {.size = sizeof(launch),
                                  .grid = {(COUNT + 63) / 64, 1, 1},
                                  .argument_count = 3,
                                  .arguments = arguments};
  WANT(root->launch->launch(stream, kernel, &launch), HAL_OK);
  copy.kind = HAL_COPY_DEVICE_TO_HOST;
  copy.source = copy.target;
  copy.host_target = numbers;
  WANT(root->transfer->copy(stream, &copy), HAL_OK);
  WANT(root->stream->synchronize(stream, 20 * SECOND), HAL_OK);
  for (int i = 0; i < COUNT; ++i) {
    if (numbers[i] != (float)(2 * i)) fail("the kernel computed something else");
  }
  WANT(root->module->unload(module), HAL_OK);
  free(image);
  printf("computed\n");
}

int main(int count, char **words) {
  if (count < 2) fail("usage: host PORT.so [HCD.flat] [IMAGE]");
  shake_hands(words[1]);
  start(count > 2 ? words[2] : NULL);
  hal_device device = 0;
  WANT(root->device->open(0, &device), HAL_OK);
  int64_t value = 0;
  WANT(root->device->get_i64(device, "device.memory_bytes", &value), HAL_OK);
  WANT(root->device->get_i64(device, "no.such.key", &value), HAL_ERROR_NOT_FOUND);
  hal_stream stream = 0;
  WANT(root->stream->create(device, 0, &stream), HAL_OK);
  hal_memory memory = 0;
  const hal_memory_desc desc = {.size = sizeof(desc), .bytes = BYTES};
  WANT(root->memory->alloc(device, &desc, &memory), HAL_OK);
  copy_around(device, stream, memory);
  ask_with_smaller_structs(device, memory);
  order_by_events(device, stream);
  if (count > 3) run_a_kernel(device, stream, memory, words[3]);
  WANT(root->memory->free(memory), HAL_OK);
  WANT(root->stream->destroy(stream), HAL_OK);
  WANT(root->device->close(device, 20 * SECOND), HAL_OK);
  WANT(root->port->shutdown(20 * SECOND), HAL_OK);
  printf("tables beyond this host's release: %s\n",
         root->size > sizeof(hal_port_root) ? "yes" : "none");
  return 0;
}
