// The streams of a device, live ones and those that drain after their destroy.
#include <stdlib.h>

#include "kit_state.h"

void kit_stream_list(kit_stream *stream) {
  kit_device *device = stream->object.device;
  kit_retain(stream);
  pthread_mutex_lock(&device->lock);
  stream->next = device->streams;
  device->streams = stream;
  pthread_mutex_unlock(&device->lock);
}

// Drops the list's reference too.
void kit_stream_unlist(kit_stream *stream) {
  kit_device *device = stream->object.device;
  pthread_mutex_lock(&device->lock);
  kit_stream **at = &device->streams;
  while (*at != NULL && *at != stream) {
    at = &(*at)->next;
  }
  bool found = *at != NULL;
  if (found) {
    *at = stream->next;
  }
  pthread_mutex_unlock(&device->lock);
  if (found) {
    kit_release(stream);
  }
}

// Takes the streams of a device, live or draining, each with a reference. NULL without memory.
kit_stream **kit_device_streams(kit_device *device, size_t *out_count) {
  pthread_mutex_lock(&device->lock);
  size_t count = 0;
  for (kit_stream *s = device->streams; s != NULL; s = s->next) {
    ++count;
  }
  kit_stream **streams = malloc((count + 1) * sizeof(*streams));
  size_t taken = 0;
  for (kit_stream *s = device->streams; streams != NULL && s != NULL; s = s->next) {
    kit_retain(s);  // A stream leaves the list before its last reference goes.
    streams[taken++] = s;
  }
  pthread_mutex_unlock(&device->lock);
  *out_count = taken;
  return streams;
}

void kit_device_each_stream(kit_device *device, void (*visit)(kit_stream *stream)) {
  size_t count = 0;
  kit_stream **streams = kit_device_streams(device, &count);
  for (size_t i = 0; i < count; ++i) {
    visit(streams[i]);
    kit_release(streams[i]);
  }
  free(streams);
}
