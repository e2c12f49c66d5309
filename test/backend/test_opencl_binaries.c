/* Kernel binaries with which a device is opened replace compilation if they match the device and
 * are ignored if not. Damaged ones never cause wrong results. */
#include <unistd.h>

#include "backend/opencl/program/binaries.h"
#include "backend/opencl_fixture.h"

static char path[64];
static uint64_t *saved; /* owned */
static size_t saved_size;

static session open_with(const void *data, size_t size) {
  session session;
  opencl_options options = {.message = take_note, .binaries = data, .binaries_size = size};
  notes[0] = 0;
  good(opencl_backend_create(device_index, &options, &session.device));
  good(session.device->vt->stream_create(session.device, &session.stream));
  return session;
}

static clave_status fill_with(session *session) {
  bound_tensor out = vector_of(session, DTYPE_F32, 100, NULL);
  clave_status st = fill(session, &out, 5);
  if (!st) check_filled(session, &out, 5);
  session->device->vt->buffer_destroy(session->device, out.buf);
  return st;
}

static cl_program no_source(cl_context c, cl_uint n, const char **texts, const size_t *sizes,
                            cl_int *code) {
  (void)c, (void)n, (void)texts, (void)sizes;
  *code = CL_OUT_OF_RESOURCES;
  return NULL;
}

/* Makes the device's driver refuse to build from source. Returns the functions to restore. */
static cl_functions forbid_sources(session *session) {
  cl_device *device = (cl_device *)session->device;
  cl_functions all = *device->cl;
  all.clCreateProgramWithSource = no_source;
  return all;
}

static void test_saved(void **state) {
  (void)state;
  file_map map;
  session session = open_with(NULL, 0);
  bad(opencl_save_binaries(session.device, path), "has no kernel binaries: nothing has run on it");
  assert_false(file_exists(path));
  good(fill_with(&session));
  good(opencl_save_binaries(session.device, path));
  bad(opencl_save_binaries(session.device, "/nowhere/at/all"), "/nowhere/at/all");
  close_session(&session);
  good(file_map_open(path, &map));
  saved_size = map.size;
  saved = malloc(map.size);
  memcpy(saved, map.data, map.size);
  file_map_close(&map);
}

static void test_no_source_is_built(void **state) {
  (void)state;
  session own = open_with(saved, saved_size);
  const cl_functions all = forbid_sources(&own);
  ((cl_device *)own.device)->cl = &all;
  good(fill_with(&own));
  assert_string_equal(notes, "");
  good(opencl_save_binaries(own.device, path)); /* binaries that were read can be saved again */
  close_session(&own);
  session other = open_with(NULL, 0);
  ((cl_device *)other.device)->cl = &all;
  bad(fill_with(&other), "clCreateProgramWithSource");
  close_session(&other);
}

static void test_another_device(void **state) {
  (void)state;
  saved[1] ^= 1; /* a byte of the platform's key */
  session session = open_with(saved, saved_size);
  assert_non_null(strstr(notes, "kernel binaries are for "));
  assert_non_null(strstr(notes, "not for this device, driver and processor"));
  good(fill_with(&session));
  close_session(&session);
  saved[1] ^= 1;
}

static void refuse(const void *data, size_t size, const char *part) {
  backend *backend;
  opencl_options options = {.binaries = data, .binaries_size = size};
  bad(opencl_backend_create(device_index, &options, &backend), part);
  assert_null(backend);
}

static void test_refused(void **state) {
  (void)state;
  unsigned char *bytes = (unsigned char *)saved;
  refuse(saved, 100, "100 bytes are too few");
  refuse(saved, 0, "0 bytes are too few");
  refuse(bytes + 1, saved_size - 1, "expected data aligned to 8 bytes");
  refuse(saved, saved_size - 8, "but the header has another size");
  bytes[7]++;
  refuse(saved, saved_size, "not kernel binaries of this version");
  bytes[7]--;
  uint64_t *entry = saved + (saved_size - (size_t)saved[3]) / 8; /* its size stands first */
  const uint64_t own = *entry;
  *entry = saved[3] - 8 + 1;
  refuse(saved, saved_size, "exceeds the data");
  *entry = own;
}

/* Damages each byte that determines how the rest is parsed, and some of the rest. */
static void test_damaged(void **state) {
  (void)state;
  unsigned char *bytes = (unsigned char *)saved;
  int n_refused = 0, n_built = 0;
  for (size_t at = 0; at < saved_size; at += at < 400 ? 7 : saved_size / 16) {
    backend *backend;
    opencl_options options = {.message = take_note, .binaries = saved, .binaries_size = saved_size};
    bytes[at] ^= 0x55;
    clave_status st = opencl_backend_create(device_index, &options, &backend);
    if (st) {
      n_refused++;
    } else {
      session session = {.device = backend};
      good(backend->vt->stream_create(backend, &session.stream));
      good(fill_with(&session));
      close_session(&session);
      n_built++;
    }
    status_free(st);
    bytes[at] ^= 0x55;
  }
  assert_true(n_refused > 3 && n_built > 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_saved), cmocka_unit_test(test_no_source_is_built),
      cmocka_unit_test(test_another_device), cmocka_unit_test(test_refused),
      cmocka_unit_test(test_damaged)};
  if (!find_device()) return 0;
  snprintf(path, sizeof path, "/tmp/clave-binaries-%d", (int)getpid());
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  unlink(path);
  free(saved);
  return failed;
}
