#ifndef TEST_BACKEND_OPENCL_FIXTURE_H
#define TEST_BACKEND_OPENCL_FIXTURE_H
/* A device of the OpenCL backend, its tensors, and a kernel to launch. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/opencl/launch/stream.h"
#include "backend/recorded.h"

static int device_index;
static char notes[4096]; /* notes of the device */

static inline void good(clave_status st) {
  if (!st) return;
  print_error("%s\n", status_message(st));
  status_free(st);
  fail();
}
static inline void bad(clave_status st, const char *part) {
  assert_non_null(st);
  if (!strstr(status_message(st), part)) print_error("'%s' lacks '%s'\n", status_message(st), part);
  assert_non_null(strstr(status_message(st), part));
  status_free(st);
}
static inline void take_note(void *ctx, const char *line) {
  (void)ctx;
  strncat(notes, line, sizeof notes - strlen(notes) - 1);
}

typedef struct session {
  backend *device;
  stream *stream;
} session;

static inline session open_session(const char *cache_dir, const char *kernel_dir) {
  session session;
  opencl_options options = {.cache_dir = cache_dir, .kernel_dir = kernel_dir, .message = take_note};
  notes[0] = 0;
  good(opencl_backend_create(device_index, &options, &session.device));
  good(session.device->vt->stream_create(session.device, &session.stream));
  return session;
}
static inline void close_session(session *session) {
  session->device->vt->stream_destroy(session->device, session->stream);
  session->device->vt->destroy(session->device);
}

static inline bound_tensor vector_of(session *session, dtype type, int64_t n, const void *data) {
  bound_tensor tensor = {.tensor = {.type = type, .rank = 1, .dims = {n}, .strides = {1}}};
  size_t bytes = (size_t)n * dtype_size(type);
  good(session->device->vt->buffer_create(session->device, bytes, &tensor.buf));
  if (data) good(session->device->vt->write(session->stream, tensor.buf, 0, data, bytes));
  return tensor;
}
static inline void finish(session *session, device_fault *fault) {
  good(session->device->vt->finish(session->stream, fault));
}

/* Returns a recorder. expected: the recording that it fills. */
static inline cl_recorder new_recorder(session *session, recorded *expected) {
  cl_recording *made = calloc(1, sizeof *made);
  assert_non_null(made);
  *expected = (recorded){.b = session->device, .s = session->stream, .r = &made->base};
  return (cl_recorder){.device = (cl_device *)session->device, .out = made};
}

/* Records out = value, n floats, by the kernel `full`. cache: the instruction's cache. */
static inline clave_status fill_again(session *session, void **cache, bound_tensor *out,
                                      double value) {
  recorded recorded;
  cl_recorder recorder = new_recorder(session, &recorded);
  const node node = {.cache = cache};
  launch launch;
  launch_begin(&launch, &recorder, &node);
  launch_dtype(&launch, "OUT_TYPE", out->tensor.type);
  launch_compute(&launch, out->tensor.type);
  launch_args(&launch, &(full_args){.out = buffer_arg(out),
                                    .n = out->tensor.dims[0],
                                    .value = value,
                                    .int_value = (int64_t)value});
  clave_status st = launch_items(&launch, out->tensor.dims[0]);
  if (!st) st = run_recorded(&recorded, out, 0);
  free_recorded(&recorded);
  return st;
}

static inline clave_status fill(session *session, bound_tensor *out, double value) {
  void *cache = NULL;
  clave_status st = fill_again(session, &cache, out, value);
  session->device->vt->building->cache_destroy(session->device, cache);
  return st;
}

static inline void check_filled(session *session, bound_tensor *out, float value) {
  float *got = calloc((size_t)out->tensor.dims[0], sizeof *got);
  good(session->device->vt->read(session->stream, out->buf, 0, got,
                                 (size_t)out->tensor.dims[0] * sizeof *got));
  for (int64_t i = 0; i < out->tensor.dims[0]; i++) assert_true(got[i] == value);
  free(got);
}

/* Returns true if there is a device; else prints why not. */
static inline bool find_device(void) {
  const char *number = getenv("CLAVE_TEST_OPENCL"), *reason;
  const backend_info *infos;
  int count;
  device_index = number ? atoi(number) : 0;
  good(opencl_devices(&infos, &count, &reason));
  if (count == 0) printf("skipped: %s\n", reason);
  return count > 0;
}

#endif
