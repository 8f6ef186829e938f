// M33: launches that are put off until somebody waits for their stream.
#include "mutant.h"

enum { LATE_LIMIT = 64 };

// M33: the caller's own structures, read when somebody waits for the stream.
static struct {
  hal_stream stream;
  hal_kernel kernel;
  const hal_launch_desc *desc;
} late[LATE_LIMIT];
static atomic_uint late_count;

void mutant_launch_late(hal_stream stream) {
  unsigned count = atomic_load(&late_count);
  for (unsigned i = 0; i < count; ++i) {
    if (late[i].stream == stream && late[i].desc != NULL) {
      const hal_launch_desc *desc = late[i].desc;
      late[i].desc = NULL;
      kit_launch_launch(stream, late[i].kernel, desc);
    }
  }
}

int mutant_put_off(hal_stream stream, hal_kernel kernel, const hal_launch_desc *desc) {
  unsigned place = atomic_fetch_add(&late_count, 1);
  if (place >= LATE_LIMIT) {
    return 0;
  }
  late[place].stream = stream;
  late[place].kernel = kernel;
  late[place].desc = desc;
  return 1;
}
