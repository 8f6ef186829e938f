// Records of a device's finished work, in a ring that a drain empties.
#include <stdlib.h>

#include "kit_state.h"

void kit_profile_finish(kit_profile *profile) {
  free(profile->records);
  pthread_mutex_destroy(&profile->lock);
}

void kit_profile_keep(kit_device *device, uint64_t stream, uint32_t kind,
                      const kit_operation *operation) {
  kit_profile *profile = &device->profile;
  pthread_mutex_lock(&profile->lock);
  if (profile->records == NULL || profile->count == KIT_PROFILE_RECORDS) {
    ++profile->dropped;
  } else {
    profile->records[(profile->first + profile->count++) % KIT_PROFILE_RECORDS] =
        (hal_profile_record){.stream = stream,
                             .operation_id = operation->id,
                             .kind = kind,
                             .begin_ns = operation->begin_ns,
                             .end_ns = operation->end_ns};
  }
  pthread_mutex_unlock(&profile->lock);
}
