// Opening, sharing, refusing and closing ports, and the records of errors.
#include <dlfcn.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"
#include "hal/loader.h"

static char reason[512];

static const char *beside(const char *name) {
  static char path[1024];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 64);
  TRUE(length > 0);
  path[length] = '\0';
  snprintf(strrchr(path, '/') + 1, 64, "%s", name);
  return path;
}

static const char *fake_path(void) {
  return beside("hal_port_test_fake.so");
}

static int32_t open_path(const char *path, const hal_open_desc *desc, hal_port **out_port) {
  reason[0] = '\0';
  return hal_port_open(path, desc, out_port, reason, sizeof(reason));
}

// Writes a copy of the fake port with one byte changed, and returns its path.
static const char *damaged(long offset, unsigned char value, long bytes) {
  static char path[64];
  snprintf(path, sizeof(path), "/tmp/hal_loader_test_%ld.so", (long)getpid());
  FILE *source = fopen(fake_path(), "rb"), *target = fopen(path, "wb");
  TRUE(source != NULL && target != NULL);
  for (long at = 0; bytes < 0 || at < bytes; ++at) {
    const int byte = fgetc(source);
    if (byte == EOF) break;
    fputc(at == offset ? value : byte, target);
  }
  fclose(source);
  fclose(target);
  return path;
}

static void files_that_are_no_port_are_refused_with_the_reason(void) {
  hal_port *port = NULL;
  EQUAL(open_path("/nowhere/hal_port_none.so", NULL, &port), HAL_ERROR_NOT_FOUND);
  CONTAINS(reason, "/nowhere/hal_port_none.so: no such file");
  EQUAL(open_path("/tmp", NULL, &port), HAL_ERROR_INVALID_VALUE);
  CONTAINS(reason, "a folder");
  EQUAL(open_path("/dev/null", NULL, &port), HAL_ERROR_INVALID_VALUE);
  CONTAINS(reason, "not a file");
  EQUAL(open_path(damaged(0, 'X', -1), NULL, &port), HAL_ERROR_INVALID_VALUE);
  CONTAINS(reason, "does not start with an ELF header");
  EQUAL(open_path(damaged(-1, 0, 10), NULL, &port), HAL_ERROR_INVALID_VALUE);
  CONTAINS(reason, "does not start with an ELF header");
  EQUAL(open_path(damaged(18, 40, -1), NULL, &port), HAL_ERROR_INVALID_VALUE);
  CONTAINS(reason, "is built for 32-bit ARM (ELF machine 40)");
  EQUAL(open_path(damaged(4, 1, -1), NULL, &port), HAL_ERROR_INVALID_VALUE);
  CONTAINS(reason, "32-bit file");
  EQUAL(open_path(damaged(5, 2, -1), NULL, &port), HAL_ERROR_INVALID_VALUE);
  EQUAL(open_path(damaged(16, 1, -1), NULL, &port), HAL_ERROR_INVALID_VALUE);
  CONTAINS(reason, "not a shared object but an object file");
  EQUAL(open_path(damaged(-1, 0, 4000), NULL, &port), HAL_ERROR_INVALID_VALUE);
  CONTAINS(reason, "is cut short");
  unlink(damaged(-1, 0, 1));
  Dl_info library;  // Any shared object that is no port.
  TRUE(dladdr((void *)(uintptr_t)gnu_get_libc_version, &library) != 0);
  EQUAL(open_path(library.dli_fname, NULL, &port), HAL_ERROR_INVALID_VALUE);
  CONTAINS(reason, "no port: it does not export hal_port_entry");
  EQUAL(open_path(NULL, NULL, &port), HAL_ERROR_INVALID_VALUE);
  EQUAL(open_path(fake_path(), NULL, NULL), HAL_ERROR_INVALID_VALUE);
  TRUE(port == NULL);
}

static void descriptors_that_cannot_be_meant_are_refused(void) {
  hal_port *port = NULL;
  hal_open_desc desc = {.size = 8};
  EQUAL(open_path(fake_path(), &desc, &port), HAL_ERROR_INVALID_VALUE);
  desc = (hal_open_desc){.size = sizeof(desc), .layers = 64};
  EQUAL(open_path(fake_path(), &desc, &port), HAL_ERROR_INVALID_VALUE);
  desc = (hal_open_desc){.size = sizeof(desc), .layers = HAL_LAYER_TRACE};
  EQUAL(open_path(fake_path(), &desc, &port), HAL_ERROR_INVALID_VALUE);
  CONTAINS(reason, "trace");
  desc = (hal_open_desc){.size = sizeof(desc), .layers = HAL_LAYER_MUTATE, .break_rule = "HAL-NO"};
  EQUAL(open_path(fake_path(), &desc, &port), HAL_ERROR_INVALID_VALUE);
  CONTAINS(reason, "'HAL-NO'");
  struct {
    hal_open_desc desc;
    uint64_t more;
  } newer = {.desc = {.size = sizeof(newer), .layers = HAL_LAYER_DEFAULT}, .more = 1};
  EQUAL(open_path(fake_path(), &newer.desc, &port), HAL_ERROR_UNSUPPORTED);
  newer.more = 0;
  EQUAL(open_path(fake_path(), &newer.desc, &port), HAL_OK);
  EQUAL(hal_port_close(port, 0), HAL_OK);
}

static int lines;
static void count_line(void *user, int32_t level, const char *text) {
  (void)level;
  (void)text;
  *(int *)user += 1;
}

static void a_port_opens_works_and_closes(void) {
  hal_open_desc desc = {
      .size = sizeof(desc), .layers = HAL_LAYER_DEFAULT, .log = count_line, .log_user = &lines};
  hal_port *port = NULL;
  EQUAL(open_path(fake_path(), &desc, &port), HAL_OK);
  EQUAL(lines, 1);
  CONTAINS(hal_port_path(port), "hal_port_test_fake.so");
  EQUAL(strcmp(hal_port_raw(port)->name, "fake"), 0);
  EQUAL(hal_port_layers(port), HAL_LAYER_VALIDATE | HAL_LAYER_EMULATE);
  uint32_t count = 0;
  EQUAL(hal_port_device_count(port, &count), HAL_OK);
  EQUAL(count, 4);
  int32_t capability = -1;
  EQUAL(hal_port_capability(port, "memory.alloc", &capability), HAL_OK);
  EQUAL(capability, HAL_CAPABILITY_NATIVE);
  EQUAL(hal_port_capability(port, "operator.run", &capability), HAL_OK);
  EQUAL(capability, HAL_CAPABILITY_NONE);
  EQUAL(hal_port_capability(port, "memory.make", &capability), HAL_ERROR_NOT_FOUND);
  EQUAL(hal_port_close(port, 0), HAL_OK);
  EQUAL(hal_port_device_count(port, &count), HAL_ERROR_INVALID_STATE);
  hal_error error = {.size = sizeof(error)};
  EQUAL(hal_port_last_error(port, &error), HAL_OK);
  CONTAINS(error.text, "the port is closed");
  EQUAL(hal_port_close(port, 0), HAL_ERROR_INVALID_STATE);
  EQUAL(hal_port_close(NULL, 0), HAL_ERROR_INVALID_HANDLE);
}

static void one_file_serves_many(void) {
  hal_open_desc desc = {.size = sizeof(desc), .layers = HAL_LAYER_DEFAULT};
  hal_port *first = NULL, *second = NULL, *other = NULL;
  EQUAL(open_path(fake_path(), &desc, &first), HAL_OK);
  EQUAL(open_path(fake_path(), &desc, &second), HAL_OK);
  desc.hcd_text = "identity.name\tother\n";
  desc.hcd_bytes = strlen(desc.hcd_text);
  EQUAL(open_path(fake_path(), &desc, &other), HAL_OK);
  TRUE(hal_port_raw(first) == hal_port_raw(second));
  TRUE(hal_port_raw(first) != hal_port_raw(other));
  EQUAL(hal_port_close(first, 0), HAL_OK);
  hal_device device = 0;
  EQUAL(hal_device_open(second, 0, &device), HAL_OK);
  EQUAL(hal_device_close(second, device, 0), HAL_OK);
  EQUAL(hal_port_close(second, 0), HAL_OK);
  EQUAL(hal_port_close(other, 0), HAL_OK);
}

static void a_port_that_does_not_start_tells_why(void) {
  hal_open_desc desc = {.size = sizeof(desc), .layers = HAL_LAYER_DEFAULT, .options = "refuse=1\n"};
  hal_port *port = NULL;
  EQUAL(open_path(fake_path(), &desc, &port), HAL_ERROR_NOT_FOUND);
  CONTAINS(reason, "port.init answered NOT_FOUND: fake: no chip here");
  TRUE(port == NULL);
}

static void the_newest_record_is_the_one_that_is_read(void) {
  hal_port *port = NULL;
  EQUAL(open_path(fake_path(), NULL, &port), HAL_OK);
  hal_error error = {.size = sizeof(error)};
  hal_device device = 0;
  EQUAL(hal_device_open(port, 9, &device), HAL_ERROR_OUT_OF_RANGE);
  EQUAL(hal_port_last_error(port, &error), HAL_OK);
  CONTAINS(error.text, "fake: device index");
  EQUAL(hal_device_open(port, 0, NULL), HAL_ERROR_INVALID_VALUE);
  EQUAL(hal_port_last_error(port, &error), HAL_OK);
  EQUAL(error.status, HAL_ERROR_INVALID_VALUE);
  CONTAINS(error.text, "HAL-DEV-001");
  EQUAL(hal_device_open(port, 9, &device), HAL_ERROR_OUT_OF_RANGE);
  EQUAL(hal_port_last_error(port, &error), HAL_OK);
  CONTAINS(error.text, "fake: device index");
  EQUAL(hal_operator_enumerate(port, 1, 0, &(hal_operator_info){.size = sizeof(hal_operator_info)}),
        HAL_ERROR_UNSUPPORTED);
  EQUAL(hal_port_last_error(port, &error), HAL_OK);
  CONTAINS(error.text, "operator.enumerate");
  EQUAL(hal_port_close(port, 0), HAL_OK);
}

static void a_caller_may_start_the_port_itself(void) {
  hal_open_desc desc = {.size = sizeof(desc), .flags = HAL_OPEN_NO_INIT};
  hal_port *port = NULL;
  EQUAL(open_path(fake_path(), &desc, &port), HAL_OK);
  EQUAL(hal_port_layers(port), 0);
  EQUAL(hal_port_shutdown(port, 0), HAL_ERROR_INVALID_STATE);
  const hal_host host = {.size = sizeof(host), .abi_major = HAL_ABI_MAJOR};
  EQUAL(hal_port_init(port, &host), HAL_OK);
  EQUAL(hal_port_init(port, &host), HAL_ERROR_INVALID_STATE);
  EQUAL(hal_port_shutdown(port, 0), HAL_OK);
  EQUAL(hal_port_init(port, &host), HAL_OK);
  EQUAL(hal_port_close(port, 0), HAL_OK);  // Stops it, so that the next one can start it.
  EQUAL(open_path(fake_path(), NULL, &port), HAL_OK);
  EQUAL(hal_port_close(port, 0), HAL_OK);
}

static void a_forked_child_is_refused(void) {
  hal_port *port = NULL;
  EQUAL(open_path(fake_path(), NULL, &port), HAL_OK);
  const pid_t child = fork();
  TRUE(child >= 0);
  if (child == 0) {
    uint32_t count;
    hal_error error = {.size = sizeof(error)};
    if (hal_port_device_count(port, &count) != HAL_ERROR_INVALID_STATE) _exit(2);
    if (hal_port_last_error(port, &error) != HAL_OK) _exit(3);
    if (strstr(error.text, "fork") == NULL) _exit(4);
    hal_port *again = NULL;
    if (open_path(fake_path(), NULL, &again) != HAL_ERROR_INVALID_STATE) _exit(5);
    if (strstr(reason, "may only exec") == NULL) _exit(6);
    _exit(0);
  }
  int status = -1;
  TRUE(waitpid(child, &status, 0) == child);
  EQUAL(status, 0);
  uint32_t count = 0;
  EQUAL(hal_port_device_count(port, &count), HAL_OK);
  EQUAL(hal_port_close(port, 0), HAL_OK);
}

// ---- Ports that break the handshake ----

static hal_port_root odd_root;
static hal_port_table odd_table;
static int32_t odd_status;
static int gives_root = 1;

static int32_t odd_entry(uint32_t major, uint32_t minor, const hal_port_root **out_root) {
  (void)major;
  (void)minor;
  if (odd_status == HAL_OK && gives_root) *out_root = &odd_root;
  return odd_status;
}

static int32_t open_odd(const hal_port_root *root) {
  hal_port *port = NULL;
  odd_root = *root;
  reason[0] = '\0';
  const int32_t status = hal_port_open_entry(odd_entry, NULL, &port, reason, sizeof(reason));
  TRUE(status != HAL_OK && port == NULL);
  return status;
}

static void a_port_that_breaks_the_handshake_is_refused(void) {
  const hal_port_root good = {.size = sizeof(good),
                              .abi_major = HAL_ABI_MAJOR,
                              .abi_minor = HAL_ABI_MINOR,
                              .name = "odd",
                              .vendor = "tests",
                              .version = "1",
                              .build_id = ""};
  odd_status = HAL_ERROR_VERSION;
  EQUAL(open_odd(&good), HAL_ERROR_VERSION);
  odd_status = HAL_ERROR_OUT_OF_MEMORY;
  EQUAL(open_odd(&good), HAL_ERROR_INTERNAL);
  CONTAINS(reason, "OUT_OF_MEMORY");
  odd_status = HAL_OK;
  gives_root = 0;
  EQUAL(open_odd(&good), HAL_ERROR_INTERNAL);
  CONTAINS(reason, "gave no root");
  gives_root = 1;
  hal_port_root root = good;
  root.abi_major = HAL_ABI_MAJOR + 1;
  EQUAL(open_odd(&root), HAL_ERROR_VERSION);
  CONTAINS(reason, "speaks ABI 2.0, this host 1.x");
  root = good;
  root.size = 24;
  EQUAL(open_odd(&root), HAL_ERROR_INTERNAL);
  CONTAINS(reason, "24 bytes");
  root.size = 0;
  EQUAL(open_odd(&root), HAL_ERROR_INTERNAL);
  root = good;
  root.name = "Odd Port";
  EQUAL(open_odd(&root), HAL_ERROR_INTERNAL);
  root.name = NULL;
  EQUAL(open_odd(&root), HAL_ERROR_INTERNAL);
  root = good;
  root.port = &odd_table;
  odd_table.size = 12;
  EQUAL(open_odd(&root), HAL_ERROR_INTERNAL);
  CONTAINS(reason, "the table port says that its size is 12 bytes");
  odd_table.size = sizeof(odd_table);
  EQUAL(open_odd(&root), HAL_ERROR_UNSUPPORTED);
  CONTAINS(reason, "the port has no port.init");
}

int main(void) {
  files_that_are_no_port_are_refused_with_the_reason();
  descriptors_that_cannot_be_meant_are_refused();
  a_port_opens_works_and_closes();
  one_file_serves_many();
  a_port_that_does_not_start_tells_why();
  the_newest_record_is_the_one_that_is_read();
  a_caller_may_start_the_port_itself();
  a_forked_child_is_refused();
  a_port_that_breaks_the_handshake_is_refused();
  return 0;
}
