// Loaded copies of shared objects: found, checked, shared, started and stopped. Inside libhal only.
#ifndef HAL_NATIVE_LIBRARY_H_
#define HAL_NATIVE_LIBRARY_H_

#include <sys/types.h>

#include "port_object.h"

// One loaded copy of a shared object, or a port that is linked in. It is never unloaded or freed.
struct hal_library {
  hal_library *next;
  char *path;  // "" for a port that is linked in.
  dev_t file_device;
  ino_t file_number;
  hal_port_entry_fn entry;
  const hal_port_root *root;
  uint32_t user_count;  // Open port objects on it.
  int is_started;       // libhal called port.init and not yet port.shutdown.
  int is_of_parent;     // It was started in the process that forked this one.
  int is_held;          // A port object starts and stops it by itself (HAL_OPEN_NO_INIT).
  char *hcd_text;       // What it was started with.
  uint64_t hcd_bytes;
  char *options;
  hal_host host;
  _Atomic(hal_port *) logger;  // Whose log function gets its lines.
};

// Held while libraries are searched, started and stopped.
void hal_library_lock(void);
void hal_library_unlock(void);

// Finds or loads a copy that can serve a port opened with `desc`: a running one with the same HCD
// and options, an idle one, or a new one. Caller holds the lock.
int32_t hal_library_find(const char *path, const hal_open_desc *desc, hal_library **out_library,
                         char *reason, uint64_t capacity);
// The same for a port that is linked in.
int32_t hal_library_find_entry(hal_port_entry_fn entry, const hal_open_desc *desc,
                               hal_library **out_library, char *reason, uint64_t capacity);

// Adds a port object to a library; the first one starts the port. Caller holds the lock.
int32_t hal_library_join(hal_library *library, hal_port *port, const hal_open_desc *desc,
                         char *reason, uint64_t capacity);
// Takes a port object away; the last one stops the port. Caller holds the lock.
int32_t hal_library_leave(hal_library *library, hal_port *port, uint64_t timeout_ns);

// Asks the entry for its root and checks what it hands over.
int32_t hal_handshake(hal_port_entry_fn entry, const hal_port_root **out_root, char *reason,
                      uint64_t capacity);

// Tells why a file cannot be a shared object for this machine; HAL_OK when it can.
int32_t hal_elf_check(const char *path, char *reason, uint64_t capacity);

#endif  // HAL_NATIVE_LIBRARY_H_
