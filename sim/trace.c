// A timeline in the trace event format (Chrome, Perfetto): a process a device, a track a stream,
// and a track for the cores, each engine, the copy engines and each link.
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

enum { MOST_SPANS = 1 << 20, MOST_TRACKS = 4096, ENGINE_TRACKS = 6 };

typedef struct span {
  uint64_t begin_ns, end_ns, stream;
  uint32_t device;
  uint32_t track;  // In `tracks`.
  char name[48];
  uint32_t programs, cores, bound;
  float busy[ENGINE_TRACKS];  // Share of the cores' time in which an engine is busy.
  char is_launch;
} span;

static struct {
  pthread_mutex_t lock;
  span *spans;
  uint64_t count, room, dropped;
  char tracks[MOST_TRACKS][32];
  uint32_t track_count;
} timeline = {.lock = PTHREAD_MUTEX_INITIALIZER};

void sim_trace_begin(void) {
  timeline.count = timeline.dropped = 0;
  timeline.track_count = 0;
}

static uint32_t track_number(const char *name) {
  uint32_t at = 0;
  while (at < timeline.track_count && strcmp(timeline.tracks[at], name) != 0) {
    ++at;
  }
  if (at == timeline.track_count && at < MOST_TRACKS) {
    snprintf(timeline.tracks[timeline.track_count++], sizeof(timeline.tracks[0]), "%.31s", name);
  }
  return at < MOST_TRACKS ? at : 0;
}

static int make_room(void) {
  if (timeline.count < timeline.room) {
    return 1;
  }
  uint64_t room = timeline.room == 0 ? 1024 : 2 * timeline.room;
  span *more = room > MOST_SPANS ? NULL : realloc(timeline.spans, room * sizeof(*more));
  if (more == NULL) {
    ++timeline.dropped;
    return 0;
  }
  timeline.spans = more;
  timeline.room = room;
  return 1;
}

void sim_trace_add(uint32_t device, uint64_t stream, const char *name, const char *track,
                   uint64_t begin_ns, uint64_t end_ns, const vil_schedule *launch) {
  pthread_mutex_lock(&timeline.lock);
  if (make_room()) {
    span *fresh = &timeline.spans[timeline.count++];
    *fresh = (span){.begin_ns = begin_ns,
                    .end_ns = end_ns,
                    .stream = stream,
                    .device = device,
                    .track = track_number(track)};
    snprintf(fresh->name, sizeof(fresh->name), "%.47s", name);
    if (launch != NULL) {
      fresh->is_launch = 1;
      fresh->programs = launch->programs > UINT32_MAX ? UINT32_MAX : (uint32_t)launch->programs;
      fresh->cores = launch->cores_used;
      fresh->bound = launch->bound;
      double whole = launch->cores_used * launch->core_ns;
      for (int engine = 1; engine < ENGINE_TRACKS && whole > 0; ++engine) {
        fresh->busy[engine] = (float)(launch->busy_ns[engine] / whole);
      }
    }
  }
  pthread_mutex_unlock(&timeline.lock);
}

static const char *const engine_tracks[ENGINE_TRACKS] = {
    "", "engine dma_in", "engine dma_out", "engine vector", "engine matrix", "engine scalar"};

// One complete event; times in microseconds with their nanoseconds. A stream's track has the kinds
// that trace readers count; what it takes of the chip stands on other tracks as `resource`.
static void write_event(FILE *file, const span *s, uint64_t track, uint64_t begin, uint64_t end,
                        uint64_t number) {
  int is_stream = track == (s->stream & 0xFFFFFF);
  const char *kind = !is_stream ? "resource" : s->is_launch ? "kernel" : "gpu_memcpy";
  fprintf(file,
          ",\n{\"ph\":\"X\",\"cat\":\"%s\",\"name\":\"%s\",\"pid\":%u,\"tid\":%" PRIu64
          ",\"ts\":%" PRIu64 ".%03u,\"dur\":%" PRIu64 ".%03u,\"args\":{\"device\":%u",
          kind, s->name, s->device, track, begin / 1000, (unsigned)(begin % 1000),
          (end - begin) / 1000, (unsigned)((end - begin) % 1000), s->device);
  if (is_stream) {
    fprintf(file, ",\"stream\":%" PRIu64 ",\"correlation\":%" PRIu64, track, number);
  }
  if (s->is_launch) {
    fprintf(file, ",\"programs\":%u,\"cores\":%u,\"bound\":\"%s\"", s->programs, s->cores,
            vil_bound_name(s->bound));
  }
  fputs("}}", file);
}

static void write_thread(FILE *file, uint32_t device, uint64_t track, const char *kind,
                         const char *name, uint64_t number) {
  fprintf(file,
          ",\n{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%u,\"tid\":%" PRIu64
          ",\"args\":{\"name\":\"%s%s",
          device, track, kind, name);
  if (number != 0) {
    fprintf(file, " %" PRIu64, number);
  }
  fputs("\"}}", file);
}

// Tracks: a stream has its handle's low bits, engines and shared things small numbers above 2^24.
static uint64_t shared_track(uint32_t number) {
  return (UINT64_C(1) << 24) + number;
}

static void name_tracks(FILE *file) {
  for (uint32_t device = 0; device < sim_device_count(); ++device) {
    fprintf(file,
            ",\n{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%u,\"args\":{\"name\":"
            "\"device %u\"}}",
            device, device);
    for (uint32_t e = 1; e < ENGINE_TRACKS; ++e) {
      write_thread(file, device, shared_track(e), "", engine_tracks[e], 0);
    }
    for (uint32_t t = 0; t < timeline.track_count; ++t) {
      write_thread(file, device, shared_track(ENGINE_TRACKS + t), "", timeline.tracks[t], 0);
    }
  }
  for (uint64_t i = 0; i < timeline.count; ++i) {
    const span *s = &timeline.spans[i];
    int seen = s->stream == 0;
    for (uint64_t k = i > 64 ? i - 64 : 0; k < i && !seen; ++k) {
      seen = timeline.spans[k].stream == s->stream && timeline.spans[k].device == s->device;
    }
    if (!seen) {
      write_thread(file, s->device, s->stream & 0xFFFFFF, "stream", "", s->stream & 0xFFFFFF);
    }
  }
}

static void write_spans(FILE *file) {
  for (uint64_t i = 0; i < timeline.count; ++i) {
    const span *s = &timeline.spans[i];
    if (s->stream != 0) {
      write_event(file, s, s->stream & 0xFFFFFF, s->begin_ns, s->end_ns, i + 1);
    }
    write_event(file, s, shared_track(ENGINE_TRACKS + s->track), s->begin_ns, s->end_ns, 0);
    for (uint32_t e = 1; e < ENGINE_TRACKS && s->is_launch; ++e) {
      uint64_t busy = (uint64_t)((double)s->busy[e] * (double)(s->end_ns - s->begin_ns));
      if (busy > 0) {
        write_event(file, s, shared_track(e), s->begin_ns, s->begin_ns + busy, 0);
      }
    }
  }
}

void sim_trace_end(void) {
  const char *path = sim_options_now()->trace;
  if (*path != '\0') {
    FILE *file = fopen(path, "w");
    if (file == NULL) {
      kit_log(HAL_LOG_ERROR, "the trace %s cannot be written: %s", path, strerror(errno));
    } else {
      fprintf(file,
              "{\"schemaVersion\":1,\"displayTimeUnit\":\"ns\",\"dropped\":%" PRIu64
              ",\n\"distributedInfo\":{\"rank\": 0},\n\"traceEvents\":[\n{"
              "\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":0,"
              "\"args\":{\"sort_index\":0}}",
              timeline.dropped);
      name_tracks(file);
      write_spans(file);
      fputs("\n]}\n", file);
      if (fclose(file) != 0) {
        kit_log(HAL_LOG_ERROR, "the trace %s cannot be written: %s", path, strerror(errno));
      }
    }
  }
  free(timeline.spans);
  timeline.spans = NULL;
  timeline.count = timeline.room = 0;
}
