/* Kernel binaries that a device is opened with: in the place of sources where they are its own,
 * left alone where they are not, and never wrong results, however they are damaged. */
#include <unistd.h>

#include "backend/opencl/program/binaries.h"
#include "backend/opencl_fixture.h"

static char path[64];
static uint64_t *saved; /* owned */
static size_t saved_size;

static session open_with(const void *data, size_t size) {
  session s;
  opencl_options o = {.message = take_note, .binaries = data, .binaries_size = size};
  notes[0] = 0;
  good(opencl_backend_create(device_index, &o, &s.device));
  good(s.device->vt->stream_create(s.device, &s.stream));
  return s;
}

static clave_status fill_with(session *s) {
  bound_tensor out = vector_of(s, DTYPE_F32, 100, NULL);
  clave_status st = fill(s, &out, 5);
  if (!st) check_filled(s, &out, 5);
  s->device->vt->buffer_destroy(s->device, out.buf);
  return st;
}

static cl_program no_source(cl_context c, cl_uint n, const char **texts, const size_t *sizes,
                            cl_int *code) {
  (void)c, (void)n, (void)texts, (void)sizes;
  *code = CL_OUT_OF_RESOURCES;
  return NULL;
}

/* A device whose driver takes no sources. */
static cl_functions forbid_sources(session *s) {
  cl_device *d = (cl_device *)s->device;
  cl_functions all = *d->cl;
  all.clCreateProgramWithSource = no_source;
  return all;
}

static void test_saved(void **state) {
  (void)state;
  file_map m;
  session s = open_with(NULL, 0);
  bad(opencl_save_binaries(s.device, path), "has no kernel binaries: nothing ran there");
  assert_false(file_exists(path));
  good(fill_with(&s));
  good(opencl_save_binaries(s.device, path));
  bad(opencl_save_binaries(s.device, "/nowhere/at/all"), "/nowhere/at/all");
  close_session(&s);
  good(file_map_open(path, &m));
  saved_size = m.size;
  saved = malloc(m.size);
  memcpy(saved, m.data, m.size);
  file_map_close(&m);
}

static void test_no_source_is_built(void **state) {
  (void)state;
  session s = open_with(saved, saved_size);
  const cl_functions all = forbid_sources(&s);
  ((cl_device *)s.device)->cl = &all;
  good(fill_with(&s));
  assert_string_equal(notes, "");
  good(opencl_save_binaries(s.device, path)); /* what was taken is given on */
  close_session(&s);
  session other = open_with(NULL, 0);
  ((cl_device *)other.device)->cl = &all;
  bad(fill_with(&other), "clCreateProgramWithSource");
  close_session(&other);
}

static void test_another_device(void **state) {
  (void)state;
  saved[1] ^= 1; /* of the platform's key */
  session s = open_with(saved, saved_size);
  assert_non_null(strstr(notes, "kernel binaries are for "));
  assert_non_null(strstr(notes, "not for this device, driver and processor"));
  good(fill_with(&s));
  close_session(&s);
  saved[1] ^= 1;
}

static void refuse(const void *data, size_t size, const char *part) {
  backend *b;
  opencl_options o = {.binaries = data, .binaries_size = size};
  bad(opencl_backend_create(device_index, &o, &b), part);
  assert_null(b);
}

static void test_refused(void **state) {
  (void)state;
  unsigned char *bytes = (unsigned char *)saved;
  refuse(saved, 100, "100 bytes hold none");
  refuse(saved, 0, "0 bytes hold none");
  refuse(bytes + 1, saved_size - 1, "no multiple of 8 bytes");
  refuse(saved, saved_size - 8, "not as many as they say");
  bytes[7]++;
  refuse(saved, saved_size, "none of this version");
  bytes[7]--;
  uint64_t *entry = saved + (saved_size - (size_t)saved[3]) / 8; /* its size stands first */
  const uint64_t own = *entry;
  *entry = saved[3] - 8 + 1;
  refuse(saved, saved_size, "does not end within them");
  *entry = own;
}

/* Each byte that says how the rest is to be read, and some of the rest. */
static void test_damaged(void **state) {
  (void)state;
  unsigned char *bytes = (unsigned char *)saved;
  int n_refused = 0, n_built = 0;
  for (size_t at = 0; at < saved_size; at += at < 400 ? 7 : saved_size / 16) {
    backend *b;
    opencl_options o = {.message = take_note, .binaries = saved, .binaries_size = saved_size};
    bytes[at] ^= 0x55;
    clave_status st = opencl_backend_create(device_index, &o, &b);
    if (st) {
      n_refused++;
    } else {
      session s = {.device = b};
      good(b->vt->stream_create(b, &s.stream));
      good(fill_with(&s));
      close_session(&s);
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
