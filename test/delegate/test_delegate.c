/* The plugin's table, payloads, and misuse by a host (delegate/clave_delegate.h). Run from the
 * project's root. */
#include <fcntl.h>
#include <sys/mman.h>

#include "clave_builder.h"
#include "test/delegate/mnist.h"

/* ---------------------------------------------------------------- the table */

static void test_register(void **state) {
  clave_delegate_register_fn get = find_register(*state);
  clave_delegate delegate = {.size = sizeof delegate};
  assert_int_equal(get(CLAVE_DELEGATE_VERSION, NULL), CLAVE_INVALID);
  assert_int_equal(get(CLAVE_DELEGATE_VERSION + 1, &delegate), CLAVE_UNSUPPORTED);
  assert_int_equal(get(0, &delegate), CLAVE_UNSUPPORTED);
  assert_null(delegate.open);
  assert_int_equal(get(CLAVE_DELEGATE_VERSION, &delegate), CLAVE_OK);
  assert_int_equal(delegate.size, sizeof delegate);
  assert_int_equal(delegate.version, CLAVE_DELEGATE_VERSION);
  assert_string_equal(delegate.library, clave_version());
  delegate = (clave_delegate){.size = offsetof(clave_delegate, observe)};
  assert_int_equal(get(CLAVE_DELEGATE_VERSION, &delegate), CLAVE_INVALID);
  assert_null(delegate.open);
}

/* A newer host finds NULL in fields that the plugin lacks; nothing after its table changes. */
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

/* Borrowed bytes are released when the program and its instances are destroyed, copied ones at
 * once. Results are the same at any alignment. */
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
  parts parts = {0};
  clave_program_info info = {.size = sizeof info};
  plain(clave_program_load(MNIST, NULL, &parts.p));
  plain(clave_program_encode(parts.p, &parts.flatbuffer, &parts.size));
  plain(clave_program_get_info(parts.p, &info));
  parts.n = info.n_constants;
  for (uint32_t i = 0; i < parts.n; i++) {
    clave_tensor_info slot = {.size = sizeof slot};
    plain(clave_program_slot(parts.p, i, &slot));
    parts.constants[i].name = slot.name;
    plain(clave_program_constant(parts.p, i, &parts.constants[i].value));
  }
  return parts;
}

static bool find_part(void *ctx, const char *name, clave_tensor *constant) {
  parts *parts = ctx;
  parts->asked++;
  for (uint32_t i = 0; i < parts->n; i++)
    if (strcmp(parts->constants[i].name, name) == 0) {
      constant->data = parts->constants[i].value.data;
      return true;
    }
  return false;
}

/* Copied constants belong to the caller again when load returns. The stride of a dimension of size
 * one is ignored. */
static void test_copied_constants(void **state) {
  (void)state;
  parts parts = take_apart();
  int odd = 0;
  for (uint32_t i = 0; i < parts.n; i++) {
    clave_tensor *tensor = &parts.constants[i].value;
    size_t bytes = clave_dtype_size(tensor->dtype);
    for (int k = 0; k < tensor->rank; k++) {
      bytes *= (size_t)tensor->dims[k];
      if (tensor->dims[k] == 1) tensor->strides[k] = 77, odd++;
    }
    tensor->data = memcpy(malloc(bytes), tensor->data, bytes);
  }
  assert_true(odd > 0);
  const clave_delegate_payload payload = {.size = sizeof payload,
                                          .format = CLAVE_DELEGATE_PROGRAM,
                                          .data = parts.flatbuffer,
                                          .data_size = parts.size,
                                          .constants = parts.constants,
                                          .n_constants = parts.n,
                                          .copy = true};
  clave_delegate_handle p;
  fine(d.load(&payload, &p));
  memset(parts.flatbuffer, 0xAA, parts.size);
  for (uint32_t i = 0; i < parts.n; i++) {
    const clave_tensor *value = &parts.constants[i].value;
    size_t bytes = clave_dtype_size(value->dtype);
    for (int k = 0; k < value->rank; k++) bytes *= (size_t)value->dims[k];
    memset(value->data, 0xAA, bytes);
    free(value->data);
  }
  clave_delegate_handle in = create(p);
  fine(d.unload(p));
  expect_scores(in);
  fine(d.destroy(in));
  free(parts.flatbuffer);
  clave_program_destroy(parts.p);
}

/* Passes all constants in the list, all by name, or half of each. */
static void test_constants_by_name(void **state) {
  (void)state;
  parts parts = take_apart();
  for (int way = 0; way < 6; way++) {
    parts.asked = 0;
    clave_delegate_payload payload = {.size = sizeof payload,
                                      .format = CLAVE_DELEGATE_PROGRAM,
                                      .data = parts.flatbuffer,
                                      .data_size = parts.size,
                                      .constants = parts.constants,
                                      .n_constants = parts.n / 2 * (uint32_t)(way % 3),
                                      .copy = way > 2,
                                      .find = find_part,
                                      .find_ctx = &parts};
    clave_delegate_handle p;
    fine(d.load(&payload, &p));
    assert_int_equal(parts.asked, parts.n - payload.n_constants);
    clave_delegate_handle in = create(p);
    fine(d.unload(p));
    expect_scores(in);
    fine(d.destroy(in));
    payload.n_constants = parts.n / 2;
    payload.find = NULL;
    expect(d.load(&payload, &p), CLAVE_INVALID, "the host has no constant of this name");
    parts.constants[1].value.dims[0]++;
    payload.n_constants = parts.n;
    expect(d.load(&payload, &p), CLAVE_INVALID, "constant 1");
    parts.constants[1].value.dims[0]--;
    float *data = parts.constants[1].value.data;
    parts.constants[1].value.data = NULL;
    expect(d.load(&payload, &p), CLAVE_INVALID, "NULL");
    parts.constants[1].value.data = data;
  }
  free(parts.flatbuffer);
  clave_program_destroy(parts.p);
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

/* Inputs in shared memory, at an offset; the host closes its descriptors at once. */
static void test_dma_buf(void **state) {
  (void)state;
  enum { BEFORE = 4096, ROOM = BEFORE + 4 * PIXELS };
  static float want[CLASSES];
  const clave_tensor tensor = clave_tensor_make(CLAVE_F32, 4, (int64_t[]){1, 1, 28, 28}, NULL);
  const int fd = memfd_create("frame", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  assert_true(fd >= 0 && ftruncate(fd, 2 * ROOM) == 0);
  char *frame = mmap(NULL, 2 * ROOM, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  assert_true(frame != MAP_FAILED);
  clave_delegate_handle in = new_mnist();
  clave_delegate_memory memory = {.size = sizeof memory,
                                  .kind = CLAVE_DELEGATE_DMA_BUF,
                                  .fd = fd,
                                  .offset = BEFORE,
                                  .bytes = 4 * PIXELS};
  expect(d.bind_input(in, NULL, 0, &tensor, &memory), CLAVE_INVALID,
         "expected a dma-buf, or shared memory");
  assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
  memory.bytes--;
  expect(d.bind_input(in, NULL, 0, &tensor, &memory), CLAVE_INVALID,
         "needs 3136 bytes, and the memory has 3135");
  memory.bytes++;
  memory.offset = 2 * ROOM - 4;
  expect(d.bind_input(in, NULL, 0, &tensor, &memory), CLAVE_INVALID,
         "are not inside the dma-buf of");
  memory.offset = BEFORE;
  fine(d.bind_input(in, NULL, 0, &tensor, &memory));
  memory.offset = ROOM;
  memory.bytes = CLASSES * 4 - 1;
  fine(d.bind_output(in, NULL, 0, &memory));
  expect(d.execute(in, NULL), CLAVE_INVALID, "has 40 bytes, and the given memory has 39");
  memory.bytes++;
  fine(d.bind_output(in, NULL, 0, &memory));
  close(fd);
  for (unsigned seed = 1; seed < 3; seed++) {
    clave_tensor value;
    fill((float *)(frame + BEFORE), PIXELS, seed);
    classify_plainly((float *)(frame + BEFORE), 1, want);
    fine(d.execute(in, NULL));
    for (int i = 0; i < CLASSES; i++)
      assert_float_equal(((float *)(frame + ROOM))[i], want[i], 1e-3f);
    fine(d.result(in, NULL, 0, &value));
    assert_true(!value.data && value.rank == 2);
  }
  fine(d.destroy(in));
  munmap(frame, 2 * ROOM);
}

/* Expects errors for values that differ from input 0 in one way each. */
static void expect_bad_values(clave_delegate_handle in, clave_tensor value,
                              const clave_delegate_memory *memory) {
  clave_tensor bad = value;
  bad.dtype = CLAVE_F16;
  expect(d.bind_input(in, NULL, 0, &bad, memory), CLAVE_INVALID, "F16");
  bad = value;
  bad.rank = 3;
  expect(d.bind_input(in, NULL, 0, &bad, memory), CLAVE_INVALID, "got F32 (1, 1, 28)");
  bad.rank = -1;
  expect(d.bind_input(in, NULL, 0, &bad, memory), CLAVE_INVALID, "got -1");
  bad = value;
  bad.dims[2] = -28;
  expect(d.bind_input(in, NULL, 0, &bad, memory), CLAVE_INVALID, "dimension 2 is -28");
  bad = value;
  bad.strides[3] = INT64_MAX;
  expect(d.bind_input(in, NULL, 0, &bad, memory), CLAVE_INVALID, "overflows");
  bad.strides[3] = -1;
  expect(d.bind_input(in, NULL, 0, &bad, memory), CLAVE_INVALID, "stride -1 of dimension 3");
}

static void test_wrong_tensors(void **state) {
  (void)state;
  static float images[PIXELS], scores[CLASSES];
  clave_delegate_handle in = new_mnist();
  clave_delegate_memory memory = at(images, sizeof images), out = at(scores, sizeof scores - 1);
  clave_tensor tensor, value = clave_tensor_make(CLAVE_F32, 4, (int64_t[]){1, 1, 28, 28}, NULL);
  expect(d.execute(in, NULL), CLAVE_INVALID, "was not given");
  expect(d.result(in, NULL, 0, &tensor), CLAVE_INVALID, "has not run");
  memory.bytes--;
  expect(d.bind_input(in, NULL, 0, &value, &memory), CLAVE_INVALID,
         "needs 3136 bytes, and the memory has 3135");
  memory = at(NULL, 4);
  expect(d.bind_input(in, NULL, 0, &value, &memory), CLAVE_INVALID, "got NULL");
  memory = at(images, sizeof images);
  memory.kind = 7;
  expect(d.bind_input(in, NULL, 0, &value, &memory), CLAVE_INVALID, "memory_kind, got 7");
  memory.kind = CLAVE_DELEGATE_DMA_BUF;
  memory.fd = -1;
  expect(d.bind_input(in, NULL, 0, &value, &memory), CLAVE_INVALID, "descriptor -1 of a dma-buf");
  expect(d.bind_output(in, NULL, 0, &memory), CLAVE_INVALID, "descriptor -1 of a dma-buf");
  memory.kind = CLAVE_DELEGATE_CL_MEM; /* the device is not an OpenCL device */
  clave_status st = d.bind_input(in, NULL, 0, &value, &memory);
  assert_non_null(st);
  d.status_free(st);
  memory.kind = CLAVE_DELEGATE_HOST;
  expect(d.bind_input(in, NULL, 1, &value, &memory), CLAVE_INVALID, "binding input 1");
  expect(d.bind_input(in, "backward", 0, &value, &memory), CLAVE_INVALID, "unknown method");
  expect(d.bind_input(in, NULL, 0, NULL, &memory), CLAVE_INVALID, "value is NULL");
  expect_bad_values(in, value, &memory);
  expect(d.set_input(in, NULL, 0, &value), CLAVE_INVALID, "the data of the tensor is NULL");
  fine(d.bind_input(in, NULL, 0, &value, &memory));
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
  clave_delegate_memory memory = at(images, PIXELS * 4), y = at(scores, CLASSES * 4);
  const clave_tensor shape = clave_tensor_make(CLAVE_F32, 4, (int64_t[]){1, 1, 28, 28}, NULL);
  memory.offset = y.offset = BEFORE * sizeof(float);
  fill(images, BEFORE + PIXELS, 3);
  classify_plainly(images + BEFORE, 1, want);
  fine(d.bind_input(in, NULL, 0, &shape, &memory));
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
