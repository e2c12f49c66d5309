/* The plugin's table, payloads, and what a host does wrong (delegate/clave_delegate.h). Run from
 * the project's root. */
#include <fcntl.h>
#include <sys/mman.h>

#include "clave_builder.h"
#include "test/delegate/mnist.h"

/* ---------------------------------------------------------------- the table */

static void test_register(void **state) {
  clave_delegate_register_fn get = find_register(*state);
  clave_delegate t = {.size = sizeof t};
  assert_int_equal(get(CLAVE_DELEGATE_VERSION, NULL), CLAVE_INVALID);
  assert_int_equal(get(CLAVE_DELEGATE_VERSION + 1, &t), CLAVE_UNSUPPORTED);
  assert_int_equal(get(0, &t), CLAVE_UNSUPPORTED);
  assert_null(t.open);
  assert_int_equal(get(CLAVE_DELEGATE_VERSION, &t), CLAVE_OK);
  assert_int_equal(t.size, sizeof t);
  assert_int_equal(t.version, CLAVE_DELEGATE_VERSION);
  assert_string_equal(t.library, clave_version());
  t = (clave_delegate){.size = offsetof(clave_delegate, observe)};
  assert_int_equal(get(CLAVE_DELEGATE_VERSION, &t), CLAVE_INVALID);
  assert_null(t.open);
}

/* A host that knows more than the plugin finds NULL there; behind its table nothing is written. */
static void test_a_newer_host(void **state) {
  struct {
    clave_delegate known;
    void (*unknown[3])(void);
    char behind[8];
  } t;
  memset(&t, 0x5A, sizeof t);
  t.known.size = offsetof(__typeof__(t), behind);
  assert_int_equal(find_register(*state)(CLAVE_DELEGATE_VERSION, &t.known), CLAVE_OK);
  for (int i = 0; i < 3; i++) assert_true(t.unknown[i] == NULL);
  assert_memory_equal(t.behind, "ZZZZZZZZ", 8);
  assert_true(t.known.observe == d.observe);
}

static void test_devices(void **state) {
  (void)state;
  int count;
  clave_device_info info = {.size = sizeof info};
  fine(d.devices_count(&count));
  assert_true(count >= 1);
  fine(d.devices_get(count - 1, &info));
  assert_string_equal(info.kind, "cpu");
  expect(d.devices_get(count, &info), CLAVE_INVALID, "device");
  fine(d.device_info(device, &info));
  assert_string_equal(info.kind, "cpu");
  assert_true((d.devices_hint() == NULL) == (count > 1));
  const clave_delegate_device_options bad = {.size = sizeof bad, .device = "opencl:no such"};
  clave_delegate_handle h = 7;
  clave_status st = d.open(&bad, &h);
  assert_non_null(st);
  assert_int_equal(h, 0);
  d.status_free(st);
  const clave_delegate_device_options half = {.size = sizeof half, .cl_context = &count};
  expect(d.open(&half, &h), CLAVE_INVALID, "together");
  const clave_delegate_device_options both = {
      .size = sizeof both, .device = "cpu", .cl_context = &count, .cl_device = &count};
  expect(d.open(&both, &h), CLAVE_INVALID, "one of them");
  const clave_delegate_device_options unsized = {.device = "cpu"};
  expect(d.open(&unsized, &h), CLAVE_INVALID, "or more, got 0");
}

/* ---------------------------------------------------------------- payloads */

/* Borrowed bytes are given back when program and instances are gone, copied ones at once. At any
 * alignment the results are the same. */
static void test_clv(void **state) {
  (void)state;
  size_t size;
  char *bytes = read_file(MNIST, &size), *moved = malloc(size + 16);
  for (int way = 0; way < 4; way++) {
    int released = 0;
    const bool copy = way % 2;
    char *given = way < 2 ? bytes : memcpy(moved + 1, bytes, size);
    clave_delegate_handle p = load_clv(given, size, copy, &released);
    assert_int_equal(released, copy);
    if (copy && way > 1) memset(moved, 0xAA, size + 16);
    clave_delegate_handle a = create(p), b = create(p);
    fine(d.unload(p));
    expect_scores(a);
    fine(d.destroy(a));
    expect_scores(b);
    assert_int_equal(released, copy);
    fine(d.destroy(b));
    assert_int_equal(released, 1);
  }
  free(moved);
  free(bytes);
}

static void test_bad_clv(void **state) {
  (void)state;
  size_t size;
  char *bytes = read_file(MNIST, &size);
  int released = 0;
  clave_delegate_handle p;
  clave_delegate_payload payload = {
      .size = sizeof payload, .data = bytes, .release = count_release, .release_ctx = &released};
  static const size_t cuts[] = {0, 1, 8, 63, 64, 100, 4096};
  for (unsigned i = 0; i < sizeof cuts / sizeof *cuts; i++) {
    payload.data_size = cuts[i];
    clave_status st = d.load(&payload, &p);
    assert_int_equal(d.status_code(st), CLAVE_INVALID);
    assert_non_null(strstr(d.status_message(st), "; payload"));
    assert_int_equal(p, 0);
    assert_int_equal(released, (int)i + 1);
    d.status_free(st);
  }
  payload.data_size = size;
  bytes[8]++; /* the container's version */
  expect(d.load(&payload, &p), CLAVE_UNSUPPORTED, "container version");
  payload.data = NULL;
  expect(d.load(&payload, &p), CLAVE_INVALID, "data is NULL");
  payload.format = 9;
  expect(d.load(&payload, &p), CLAVE_INVALID, "expected a clave_delegate_format, got 9");
  expect(d.load(NULL, &p), CLAVE_INVALID, "payload is NULL");
  payload.size = 8;
  expect(d.load(&payload, &p), CLAVE_INVALID, "or more, got 8");
  free(bytes);
}

/* MNIST as a FlatBuffers program and constants, by the public API. */
typedef struct parts {
  clave_program *p;
  void *flatbuffer;
  size_t size;
  uint32_t n;
  clave_delegate_constant constants[16];
  int asked;
} parts;

static parts take_apart(void) {
  parts t = {0};
  clave_program_info info = {.size = sizeof info};
  plain(clave_program_load(MNIST, NULL, &t.p));
  plain(clave_program_encode(t.p, &t.flatbuffer, &t.size));
  plain(clave_program_get_info(t.p, &info));
  t.n = info.n_constants;
  for (uint32_t i = 0; i < t.n; i++) {
    clave_tensor_info slot = {.size = sizeof slot};
    plain(clave_program_slot(t.p, i, &slot));
    t.constants[i].name = slot.name;
    plain(clave_program_constant(t.p, i, &t.constants[i].value));
  }
  return t;
}

static bool find_part(void *ctx, const char *name, clave_tensor *constant) {
  parts *t = ctx;
  t->asked++;
  for (uint32_t i = 0; i < t->n; i++)
    if (strcmp(t->constants[i].name, name) == 0) {
      constant->data = t->constants[i].value.data;
      return true;
    }
  return false;
}

/* Copied constants are the caller's own again when load returns, also where the stride of a
 * dimension of one, which says nothing, is another than declared. */
static void test_copied_constants(void **state) {
  (void)state;
  parts t = take_apart();
  int odd = 0;
  for (uint32_t i = 0; i < t.n; i++) {
    clave_tensor *v = &t.constants[i].value;
    size_t bytes = clave_dtype_size(v->dtype);
    for (int k = 0; k < v->rank; k++) {
      bytes *= (size_t)v->dims[k];
      if (v->dims[k] == 1) v->strides[k] = 77, odd++;
    }
    v->data = memcpy(malloc(bytes), v->data, bytes);
  }
  assert_true(odd > 0);
  const clave_delegate_payload payload = {.size = sizeof payload,
                                          .format = CLAVE_DELEGATE_PROGRAM,
                                          .data = t.flatbuffer,
                                          .data_size = t.size,
                                          .constants = t.constants,
                                          .n_constants = t.n,
                                          .copy = true};
  clave_delegate_handle p;
  fine(d.load(&payload, &p));
  memset(t.flatbuffer, 0xAA, t.size);
  for (uint32_t i = 0; i < t.n; i++) {
    const clave_tensor *v = &t.constants[i].value;
    size_t bytes = clave_dtype_size(v->dtype);
    for (int k = 0; k < v->rank; k++) bytes *= (size_t)v->dims[k];
    memset(v->data, 0xAA, bytes);
    free(v->data);
  }
  clave_delegate_handle in = create(p);
  fine(d.unload(p));
  expect_scores(in);
  fine(d.destroy(in));
  free(t.flatbuffer);
  clave_program_destroy(t.p);
}

/* All of the list, all by name, or half of each. */
static void test_constants_by_name(void **state) {
  (void)state;
  parts t = take_apart();
  for (int way = 0; way < 6; way++) {
    t.asked = 0;
    clave_delegate_payload payload = {.size = sizeof payload,
                                      .format = CLAVE_DELEGATE_PROGRAM,
                                      .data = t.flatbuffer,
                                      .data_size = t.size,
                                      .constants = t.constants,
                                      .n_constants = t.n / 2 * (uint32_t)(way % 3),
                                      .copy = way > 2,
                                      .find = find_part,
                                      .find_ctx = &t};
    clave_delegate_handle p;
    fine(d.load(&payload, &p));
    assert_int_equal(t.asked, t.n - payload.n_constants);
    clave_delegate_handle in = create(p);
    fine(d.unload(p));
    expect_scores(in);
    fine(d.destroy(in));
    payload.n_constants = t.n / 2;
    payload.find = NULL;
    expect(d.load(&payload, &p), CLAVE_INVALID, "the caller has no such constant");
    t.constants[1].value.dims[0]++;
    payload.n_constants = t.n;
    expect(d.load(&payload, &p), CLAVE_INVALID, "constant 1");
    t.constants[1].value.dims[0]--;
    float *data = t.constants[1].value.data;
    t.constants[1].value.data = NULL;
    expect(d.load(&payload, &p), CLAVE_INVALID, "NULL");
    t.constants[1].value.data = data;
  }
  free(t.flatbuffer);
  clave_program_destroy(t.p);
}

/* ---------------------------------------------------------------- wrong calls */

static void test_handles(void **state) {
  (void)state;
  clave_delegate_handle in = new_mnist(), wild[] = {1, 2, 3, ~0ull, in + 4, in ^ 3};
  expect(d.execute(0, NULL), CLAVE_INVALID, "handle 0: expected an instance, got none");
  expect(d.execute(device, NULL), CLAVE_INVALID, "expected an instance, got a device");
  expect(d.close(in), CLAVE_INVALID, "expected a device, got an instance");
  for (unsigned i = 0; i < sizeof wild / sizeof *wild; i++) {
    clave_status st = d.execute(wild[i], NULL);
    assert_int_equal(d.status_code(st), CLAVE_INVALID);
    d.status_free(st);
  }
  fine(d.destroy(0));
  fine(d.close(0));
  fine(d.unload(0));
  fine(d.destroy(in));
  expect(d.destroy(in), CLAVE_INVALID, "closed before");
  expect(d.execute(in, NULL), CLAVE_INVALID, "closed before");
  expect(d.cancel(in), CLAVE_INVALID, "closed before");
}

/* Frames in shared memory, at an offset; its descriptors are the host's, and closed at once. */
static void test_dma_buf(void **state) {
  (void)state;
  enum { BEFORE = 4096, ROOM = BEFORE + 4 * PIXELS };
  static float want[CLASSES];
  const clave_tensor x = clave_tensor_make(CLAVE_F32, 4, (int64_t[]){1, 1, 28, 28}, NULL);
  const int fd = memfd_create("frame", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  assert_true(fd >= 0 && ftruncate(fd, 2 * ROOM) == 0);
  char *frame = mmap(NULL, 2 * ROOM, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  assert_true(frame != MAP_FAILED);
  clave_delegate_handle in = new_mnist();
  clave_delegate_memory m = {.size = sizeof m,
                             .kind = CLAVE_DELEGATE_DMA_BUF,
                             .fd = fd,
                             .offset = BEFORE,
                             .bytes = 4 * PIXELS};
  expect(d.bind_input(in, NULL, 0, &x, &m), CLAVE_INVALID, "is no dma-buf, nor shared memory");
  assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
  m.bytes--;
  expect(d.bind_input(in, NULL, 0, &x, &m), CLAVE_INVALID, "needs 3136 bytes, the memory has 3135");
  m.bytes++;
  m.offset = 2 * ROOM - 4;
  expect(d.bind_input(in, NULL, 0, &x, &m), CLAVE_INVALID, "do not lie in a dma-buf of");
  m.offset = BEFORE;
  fine(d.bind_input(in, NULL, 0, &x, &m));
  m.offset = ROOM;
  m.bytes = CLASSES * 4 - 1;
  fine(d.bind_output(in, NULL, 0, &m));
  expect(d.execute(in, NULL), CLAVE_INVALID, "has 40 bytes, there is room for 39");
  m.bytes++;
  fine(d.bind_output(in, NULL, 0, &m));
  close(fd);
  for (unsigned seed = 1; seed < 3; seed++) {
    clave_tensor y;
    fill((float *)(frame + BEFORE), PIXELS, seed);
    classify_plainly((float *)(frame + BEFORE), 1, want);
    fine(d.execute(in, NULL));
    for (int i = 0; i < CLASSES; i++)
      assert_float_equal(((float *)(frame + ROOM))[i], want[i], 1e-3f);
    fine(d.result(in, NULL, 0, &y));
    assert_true(!y.data && y.rank == 2);
  }
  fine(d.destroy(in));
  munmap(frame, 2 * ROOM);
}

static void test_wrong_tensors(void **state) {
  (void)state;
  static float images[PIXELS], scores[CLASSES];
  clave_delegate_handle in = new_mnist();
  clave_delegate_memory m = at(images, sizeof images), out = at(scores, sizeof scores - 1);
  clave_tensor y, x = clave_tensor_make(CLAVE_F32, 4, (int64_t[]){1, 1, 28, 28}, NULL);
  expect(d.execute(in, NULL), CLAVE_INVALID, "was not given");
  expect(d.result(in, NULL, 0, &y), CLAVE_INVALID, "has not run");
  m.bytes--;
  expect(d.bind_input(in, NULL, 0, &x, &m), CLAVE_INVALID, "needs 3136 bytes, the memory has 3135");
  m = at(NULL, 4);
  expect(d.bind_input(in, NULL, 0, &x, &m), CLAVE_INVALID, "memory is NULL");
  m = at(images, sizeof images);
  m.kind = 7;
  expect(d.bind_input(in, NULL, 0, &x, &m), CLAVE_INVALID, "memory_kind, got 7");
  m.kind = CLAVE_DELEGATE_DMA_BUF;
  m.fd = -1;
  expect(d.bind_input(in, NULL, 0, &x, &m), CLAVE_INVALID, "descriptor -1 of a dma-buf");
  expect(d.bind_output(in, NULL, 0, &m), CLAVE_INVALID, "descriptor -1 of a dma-buf");
  m.kind = CLAVE_DELEGATE_CL_MEM; /* of a device that is no OpenCL device */
  clave_status st = d.bind_input(in, NULL, 0, &x, &m);
  assert_non_null(st);
  d.status_free(st);
  m.kind = CLAVE_DELEGATE_HOST;
  expect(d.bind_input(in, NULL, 1, &x, &m), CLAVE_INVALID, "binding input 1");
  expect(d.bind_input(in, "backward", 0, &x, &m), CLAVE_INVALID, "no method");
  expect(d.bind_input(in, NULL, 0, NULL, &m), CLAVE_INVALID, "value is NULL");
  clave_tensor bad = x;
  bad.dtype = CLAVE_F16;
  expect(d.bind_input(in, NULL, 0, &bad, &m), CLAVE_INVALID, "F16");
  bad = x;
  bad.rank = 3;
  expect(d.bind_input(in, NULL, 0, &bad, &m), CLAVE_INVALID, "got F32 (1, 1, 28)");
  bad.rank = -1;
  expect(d.bind_input(in, NULL, 0, &bad, &m), CLAVE_INVALID, "got -1");
  bad = x;
  bad.dims[2] = -28;
  expect(d.bind_input(in, NULL, 0, &bad, &m), CLAVE_INVALID, "dimension 2 is -28");
  bad = x;
  bad.strides[3] = INT64_MAX;
  expect(d.bind_input(in, NULL, 0, &bad, &m), CLAVE_INVALID, "overflows");
  bad.strides[3] = -1;
  expect(d.bind_input(in, NULL, 0, &bad, &m), CLAVE_INVALID, "stride -1 of dimension 3");
  bad = x;
  expect(d.set_input(in, NULL, 0, &bad), CLAVE_INVALID, "data is NULL");
  fine(d.bind_input(in, NULL, 0, &x, &m));
  fine(d.bind_output(in, NULL, 0, &out));
  st = d.execute(in, NULL); /* a byte too small */
  assert_int_equal(d.status_code(st), CLAVE_INVALID);
  d.status_free(st);
  fine(d.bind_output(in, NULL, 0, NULL));
  fine(d.execute(in, NULL));
  fine(d.bind_input(in, NULL, 0, NULL, NULL));
  expect(d.execute(in, NULL), CLAVE_INVALID, "was not given");
  expect(d.resize(in, "rows", 3), CLAVE_INVALID, "rows");
  expect(d.resize(in, NULL, 3), CLAVE_INVALID, "size is NULL");
  expect(d.read_state(in, 0, images, 4), CLAVE_INVALID, "state");
  expect_scores(in);
  fine(d.destroy(in));
}

/* Inputs and outputs begin where `offset` says, and nothing beside them is written. */
static void test_offsets(void **state) {
  (void)state;
  enum { BEFORE = 3 };
  static float images[BEFORE + PIXELS], scores[BEFORE + CLASSES + 1], want[CLASSES];
  clave_delegate_handle in = new_mnist();
  clave_delegate_memory x = at(images, PIXELS * 4), y = at(scores, CLASSES * 4);
  const clave_tensor shape = clave_tensor_make(CLAVE_F32, 4, (int64_t[]){1, 1, 28, 28}, NULL);
  x.offset = y.offset = BEFORE * sizeof(float);
  fill(images, BEFORE + PIXELS, 3);
  classify_plainly(images + BEFORE, 1, want);
  fine(d.bind_input(in, NULL, 0, &shape, &x));
  fine(d.bind_output(in, NULL, 0, &y));
  fine(d.execute(in, NULL));
  assert_memory_equal(scores + BEFORE, want, sizeof want);
  for (int i = 0; i < BEFORE; i++) assert_true(scores[i] == 0);
  assert_true(scores[BEFORE + CLASSES] == 0);
  fine(d.destroy(in));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_register),         cmocka_unit_test(test_a_newer_host),
      cmocka_unit_test(test_devices),          cmocka_unit_test(test_clv),
      cmocka_unit_test(test_bad_clv),          cmocka_unit_test(test_constants_by_name),
      cmocka_unit_test(test_copied_constants), cmocka_unit_test(test_handles),
      cmocka_unit_test(test_dma_buf),          cmocka_unit_test(test_wrong_tensors),
      cmocka_unit_test(test_offsets),
  };
  return cmocka_run_group_tests(tests, open_all, close_all);
}
