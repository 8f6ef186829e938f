// Loaded copies of shared objects. One file gives several copies when it is opened with several
// HCDs: a port keeps its state in static variables, and it can be started once a copy.
#include "library.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t watches_fork = PTHREAD_ONCE_INIT;
static hal_library *libraries;
static char fork_reason[160];

// In a child process: what the parent started is gone, for threads and device queues do not live
// through a fork. The lock may be held by a thread that does not exist here.
static void after_fork(void) {
  pthread_mutex_init(&lock, NULL);
  snprintf(fork_reason, sizeof(fork_reason),
           "the port was started in process %ld, before the fork that made this one; a child "
           "process may only exec",
           (long)getppid());
  for (hal_library *one = libraries; one != NULL; one = one->next) {
    if (one->is_started || one->is_held) one->is_of_parent = 1;
  }
  for (hal_port *port = hal_port_first(); port != NULL; port = port->next) {
    if (!hal_port_ended(port)) hal_port_end(port, fork_reason);
  }
}

static void watch_fork(void) {
  pthread_atfork(NULL, NULL, after_fork);
}

void hal_library_lock(void) {
  pthread_once(&watches_fork, watch_fork);
  pthread_mutex_lock(&lock);
}

void hal_library_unlock(void) {
  pthread_mutex_unlock(&lock);
}

// Log lines go to the port object that opened the library first, as long as it is open.
static void take_log_line(void *user, int32_t level, const char *text) {
  hal_library *library = user;
  const hal_port *port = atomic_load(&library->logger);
  if (port != NULL && port->log != NULL) port->log(port->log_user, level, text);
}

static int has_same_start(const hal_library *library, const hal_open_desc *desc) {
  const char *options = desc->options == NULL ? "" : desc->options;
  if ((library->hcd_text == NULL) != (desc->hcd_text == NULL)) return 0;
  if (strcmp(library->options == NULL ? "" : library->options, options) != 0) return 0;
  return desc->hcd_text == NULL ||
         (library->hcd_bytes == desc->hcd_bytes &&
          memcmp(library->hcd_text, desc->hcd_text, desc->hcd_bytes) == 0);
}

static int can_serve(const hal_library *library, const hal_open_desc *desc) {
  if (library->user_count == 0) return 1;
  if (library->is_held || (desc->flags & HAL_OPEN_NO_INIT) != 0) return 0;
  return has_same_start(library, desc);
}

// Copies a file to memory that has a name of its own, because the dynamic linker loads a file once.
// The descriptor stays open: the linker would take a later one of the same number for this copy.
static int copy_file(const char *path, char *reason, uint64_t capacity) {
  const int source = open(path, O_RDONLY | O_CLOEXEC);
  const int target = memfd_create("hal_port", MFD_CLOEXEC);
  char block[1 << 16];
  ssize_t got = source < 0 || target < 0 ? -1 : 1;
  while (got > 0) {
    got = read(source, block, sizeof(block));
    for (ssize_t done = 0; done < got;) {
      const ssize_t wrote = write(target, block + done, (size_t)(got - done));
      if (wrote <= 0) {
        got = -1;
        break;
      }
      done += wrote;
    }
  }
  const int problem = errno;
  if (source >= 0) close(source);
  if (got == 0) return target;
  if (target >= 0) close(target);
  hal_reason(reason, capacity, 0, "%s: a second copy for another HCD cannot be made: %s", path,
             strerror(problem));
  return -1;
}

static int32_t load_entry(const char *path, int is_copy, hal_port_entry_fn *out_entry, char *reason,
                          uint64_t capacity) {
  char copy[64];
  const char *name = path;
  if (is_copy) {
    const int file = copy_file(path, reason, capacity);
    if (file < 0) return HAL_ERROR_OUT_OF_MEMORY;
    snprintf(copy, sizeof(copy), "/proc/self/fd/%d", file);
    name = copy;
  }
  void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (handle == NULL) {
    const char *text = dlerror();
    return hal_reason(reason, capacity, HAL_ERROR_INVALID_VALUE, "%s does not load: %s", path,
                      text == NULL ? "the dynamic linker gives no reason" : text);
  }
  void *symbol = dlsym(handle, "hal_port_entry");
  if (symbol == NULL) {
    return hal_reason(reason, capacity, HAL_ERROR_INVALID_VALUE,
                      "%s is a shared object but no port: it does not export hal_port_entry", path);
  }
  memcpy(out_entry, &symbol, sizeof(symbol));
  return HAL_OK;
}

static int32_t add_library(const char *path, const struct stat *facts, hal_port_entry_fn entry,
                           hal_library **out_library, char *reason, uint64_t capacity) {
  const hal_port_root *root = NULL;
  char why[384] = "";
  const int32_t status = hal_handshake(entry, &root, why, sizeof(why));
  if (status != HAL_OK) {
    return hal_reason(reason, capacity, status, "%s%s%s", path, path[0] ? ": " : "", why);
  }
  hal_library *library = calloc(1, sizeof(*library));
  char *kept = strdup(path);
  if (library == NULL || kept == NULL) {
    free(library);
    free(kept);
    return hal_reason(reason, capacity, HAL_ERROR_OUT_OF_MEMORY, "no host memory");
  }
  library->path = kept;
  if (facts != NULL) {
    library->file_device = facts->st_dev;
    library->file_number = facts->st_ino;
  }
  library->entry = entry;
  library->root = root;
  library->next = libraries;
  libraries = library;
  *out_library = library;
  return HAL_OK;
}

static int32_t refuse_of_parent(char *reason, uint64_t capacity) {
  return hal_reason(reason, capacity, HAL_ERROR_INVALID_STATE, "%s", fork_reason);
}

int32_t hal_library_find(const char *path, const hal_open_desc *desc, hal_library **out_library,
                         char *reason, uint64_t capacity) {
  const int32_t checked = hal_elf_check(path, reason, capacity);
  if (checked != HAL_OK) return checked;
  char *full = realpath(path, NULL);
  struct stat facts;
  if (full == NULL || stat(full, &facts) != 0) {
    free(full);
    return hal_reason(reason, capacity, HAL_ERROR_NOT_FOUND, "%s: %s", path, strerror(errno));
  }
  int is_known = 0;
  for (hal_library *one = libraries; one != NULL; one = one->next) {
    const int is_same = one->path[0] != '\0' && one->file_device == facts.st_dev &&
                        one->file_number == facts.st_ino;
    is_known |= is_same || strcmp(one->path, full) == 0;
    if (!is_same) continue;
    if (one->is_of_parent || can_serve(one, desc)) {
      free(full);
      *out_library = one;
      return one->is_of_parent ? refuse_of_parent(reason, capacity) : HAL_OK;
    }
  }
  hal_port_entry_fn entry = NULL;
  int32_t status = load_entry(full, is_known, &entry, reason, capacity);
  if (status == HAL_OK) status = add_library(full, &facts, entry, out_library, reason, capacity);
  free(full);
  return status;
}

int32_t hal_library_find_entry(hal_port_entry_fn entry, const hal_open_desc *desc,
                               hal_library **out_library, char *reason, uint64_t capacity) {
  for (hal_library *one = libraries; one != NULL; one = one->next) {
    if (one->path[0] != '\0' || one->entry != entry) continue;
    *out_library = one;
    if (one->is_of_parent) return refuse_of_parent(reason, capacity);
    if (can_serve(one, desc)) return HAL_OK;
    return hal_reason(reason, capacity, HAL_ERROR_INVALID_STATE,
                      "the linked port %s runs already with another HCD or other options",
                      one->root->name);
  }
  return add_library("", NULL, entry, out_library, reason, capacity);
}

static void forget_start(hal_library *library) {
  free(library->hcd_text);
  free(library->options);
  library->hcd_text = NULL;
  library->options = NULL;
  library->hcd_bytes = 0;
}

static int32_t start(hal_library *library, hal_port *port, const hal_open_desc *desc, char *reason,
                     uint64_t capacity) {
  forget_start(library);
  if (desc->hcd_text != NULL) {
    library->hcd_text = calloc(1, desc->hcd_bytes + 1);
    if (library->hcd_text != NULL) memcpy(library->hcd_text, desc->hcd_text, desc->hcd_bytes);
    library->hcd_bytes = desc->hcd_bytes;
  }
  if (desc->options != NULL) library->options = strdup(desc->options);
  if ((desc->hcd_text != NULL && library->hcd_text == NULL) ||
      (desc->options != NULL && library->options == NULL)) {
    return hal_reason(reason, capacity, HAL_ERROR_OUT_OF_MEMORY, "no host memory for the HCD");
  }
  library->host = (hal_host){.size = sizeof(hal_host),
                             .abi_major = HAL_ABI_MAJOR,
                             .abi_minor = HAL_ABI_MINOR,
                             .log = take_log_line,
                             .user = library,
                             .hcd_text = library->hcd_text,
                             .hcd_bytes = library->hcd_bytes,
                             .options = library->options};
  atomic_store(&library->logger, port);
  const int32_t status = hal_port_init(port, &library->host);
  if (status >= 0) {
    library->is_started = 1;
    return HAL_OK;
  }
  atomic_store(&library->logger, NULL);
  hal_error error = {.size = sizeof(error)};
  const char *text = hal_port_last_error(port, &error) == HAL_OK ? error.text : "";
  return hal_reason(reason, capacity, status, "port.init answered %s%s%.*s",
                    hal_status_name(status), text[0] ? ": " : "",
                    (int)strnlen(text, sizeof(error.text)), text);
}

int32_t hal_library_join(hal_library *library, hal_port *port, const hal_open_desc *desc,
                         char *reason, uint64_t capacity) {
  const int starts = (desc->flags & HAL_OPEN_NO_INIT) == 0;
  if (starts && library->user_count == 0) {
    const int32_t status = start(library, port, desc, reason, capacity);
    if (status != HAL_OK) {
      forget_start(library);
      return status;
    }
  }
  library->is_held = !starts;
  library->user_count += 1;
  return HAL_OK;
}

// Gives the log to another open object of the library, if there is one.
static void pass_logger(hal_library *library, const hal_port *leaving) {
  hal_port *heir = NULL;
  for (hal_port *port = hal_port_first(); port != NULL; port = port->next) {
    if (port != leaving && port->library == library && !hal_port_ended(port)) heir = port;
  }
  atomic_store(&library->logger, heir);
}

int32_t hal_library_leave(hal_library *library, hal_port *port, uint64_t timeout_ns) {
  // A port object that started the port by itself may have forgotten to stop it.
  if (library->user_count == 1 && (library->is_started || library->is_held)) {
    const int32_t status = hal_port_shutdown(port, timeout_ns);
    if (status == HAL_ERROR_TIMEOUT) return status;
    library->is_started = 0;
    forget_start(library);
  }
  library->user_count -= 1;
  library->is_held = 0;
  pass_logger(library, port);
  return HAL_OK;
}
