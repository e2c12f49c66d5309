/* Programs whose bytes are in memory, like those in an executable, are read and run in place. Run
 * from the project's root. */
#include <cmocka.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "clave_files.h"
#include "test/api/expect.h"

#define MNIST "examples/mnist/mnist.clv"

static _Alignas(4096) unsigned char bytes[1 << 20];

static size_t read_mnist(void) {
  FILE *file = fopen(MNIST, "rb");
  assert_non_null(file);
  const size_t n = fread(bytes, 1, sizeof bytes, file);
  (void)fclose(file);
  return n;
}

/* Runs the program on an image of sevenths; stores the logits and returns the memory in use. */
static clave_memory_info run(clave_program *program, float logits[10]) {
  static float x[784];
  clave_device *device;
  clave_session *session;
  clave_tensor out;
  clave_memory_info memory = {.size = sizeof memory};
  for (int i = 0; i < 784; i++) x[i] = (float)(i % 7) / 7;
  const clave_tensor in = clave_tensor_make(CLAVE_F32, 4, (const int64_t[]){1, 1, 28, 28}, x);
  good(clave_device_open("cpu", NULL, &device));
  good(clave_session_create(program, device, NULL, &session));
  good(clave_session_set_input(session, NULL, 0, &in));
  good(clave_session_run(session, NULL));
  good(clave_session_output(session, NULL, 0, &out));
  memcpy(logits, out.data, 10 * sizeof *logits);
  good(clave_session_memory(session, &memory));
  clave_session_destroy(session);
  clave_device_destroy(device);
  return memory;
}

static void test_runs_in_place(void **state) {
  (void)state;
  clave_program *in_file, *in_memory;
  float want[10], got[10];
  good(clave_program_load(MNIST, NULL, &in_file));
  good(clave_program_load_bytes(bytes, read_mnist(), "mine", &in_memory));
  const clave_memory_info of_file = run(in_file, want), of_memory = run(in_memory, got);
  assert_memory_equal(got, want, sizeof want);
  assert_true(of_memory.constant_bytes_in_place > 0);
  assert_int_equal(of_memory.constant_bytes_in_place, of_file.constant_bytes_in_place);
  good(clave_program_check_hashes(in_memory));
  clave_program_destroy(in_file);
  clave_program_destroy(in_memory);
}

/* Constants are copied if they are not aligned. */
static void test_runs_from_anywhere(void **state) {
  (void)state;
  const size_t n = read_mnist();
  float want[10], got[10];
  clave_program *aligned, *moved;
  good(clave_program_load_bytes(bytes, n, "mine", &aligned));
  (void)run(aligned, want);
  clave_program_destroy(aligned);
  memmove(bytes + 1, bytes, n);
  good(clave_program_load_clv(bytes + 1, n, "mine", &moved));
  (void)run(moved, got);
  assert_memory_equal(got, want, sizeof want);
  clave_program_destroy(moved);
}

static void test_what_is_no_program(void **state) {
  (void)state;
  clave_program *program = (clave_program *)bytes;
  const size_t n = read_mnist();
  expect_invalid(clave_program_load_bytes(bytes, n - 1, "mine", &program), "mine");
  assert_null(program);
  expect_invalid(clave_program_load_bytes(bytes, 0, "mine", &program), "got an empty file");
  memcpy(bytes, "{\"version\": 1}", 15);
  expect_invalid(clave_program_load_bytes(bytes, 14, "mine", &program),
                 "expected a .clv, got a .json program; mine");
  memcpy(bytes, "\x1c\0\0\0TFL3", 8);
  expect_invalid(clave_program_load_bytes(bytes, 8, "mine", &program), "run past the end");
  expect_invalid(clave_program_load_clv(bytes, 8, "mine", &program), "neither a program");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_runs_in_place),
      cmocka_unit_test(test_runs_from_anywhere),
      cmocka_unit_test(test_what_is_no_program),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
