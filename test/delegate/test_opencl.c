/* Tests a host with its own OpenCL objects: ops that its device lacks, and cl_mems bound at an
 * offset. Run from the project's root. */
#include <math.h>

#include "test/delegate/mnist.h"

#include "test/api/opencl_host.h"

/* A device that lacks an op reports so, and also that clave runs it on the CPU backend. */
static void test_what_a_device_lacks(void **state) {
  (void)state;
  static const uint32_t index[] = {0, 1, 2};
  clave_delegate_field fields[] = {
      {.name = "a", .kind = CLAVE_DELEGATE_READS, .n = 1, .tensors = &index[0]},
      {.name = "b", .kind = CLAVE_DELEGATE_READS, .n = 1, .tensors = &index[1]},
      {.name = "out", .kind = CLAVE_DELEGATE_WRITES, .n = 1, .tensors = &index[2]}};
  clave_delegate_tensor tensors[] = {
      {"a", CLAVE_SLOT_INPUT, CLAVE_F32, 2, {3, 3}, {0}, NULL},
      {"b", CLAVE_SLOT_INPUT, CLAVE_F32, 2, {3, 2}, {0}, NULL},
      {"y", CLAVE_SLOT_OUTPUT, CLAVE_F32, 2, {3, 2}, {0}, NULL},
  };
  const clave_delegate_node nodes[] = {{"TriangularSolve", "", fields, 3},
                                       {"Matmul", "", fields, 3}};
  const clave_delegate_graph graph = {
      .size = sizeof graph, .tensors = tensors, .n_tensors = 3, .nodes = nodes, .n_nodes = 2};
  const clave_delegate_device_options options = {.size = sizeof options, .device = "opencl"};
  clave_delegate_handle opencl;
  clave_delegate_answer answer[2];
  fine(d.open(&options, &opencl));
  fine(d.query(opencl, &graph, answer));
  assert_false(answer[0].supported);
  assert_string_equal(answer[0].where, "cpu");
  assert_string_equal(answer[0].reason,
                      "the op has no OpenCL kernel and runs only on the CPU backend");
  assert_true(answer[1].supported);
  assert_string_equal(answer[1].where, "opencl");
  assert_string_equal(answer[1].reason, "");
  fine(d.close(opencl));
  fine(d.query(device, &graph, answer));
  assert_true(answer[0].supported && answer[1].supported);
}

/* Nothing outside of the tensors is read or written. */
static void test_memory_at_an_offset(void **state) {
  (void)state;
  enum { BEFORE = 1024, AFTER = 512, SCORES = CLASSES * 4 };
  static float image[PIXELS], want[CLASSES];
  uint8_t got[BEFORE + SCORES + AFTER], untouched[BEFORE];
  cl_context context = new_context();
  cl_command_queue queue = new_queue(context, 0);
  cl_mem x = new_buffer(context, CL_MEM_READ_WRITE, BEFORE + sizeof image, NULL);
  cl_mem y = new_buffer(context, CL_MEM_READ_WRITE, sizeof got, NULL);
  const clave_delegate_device_options options = {
      .size = sizeof options, .cl_context = context, .cl_device = host_device, .cl_queue = queue};
  const clave_tensor shape = clave_tensor_make(CLAVE_F32, 4, (int64_t[]){1, 1, 28, 28}, NULL);
  clave_delegate_memory in = at(x, sizeof image), out = at(y, SCORES);
  clave_delegate_handle opencl, p, instance;
  clave_tensor result;
  size_t size;
  int released = 0;
  char *bytes = read_file(MNIST, &size);
  in.kind = out.kind = CLAVE_DELEGATE_CL_MEM;
  in.offset = out.offset = BEFORE;
  fill(image, PIXELS, 4);
  classify_plainly(image, 1, want);
  memset(got, 0xA5, sizeof got);
  memset(untouched, 0xA5, sizeof untouched);
  write_to(queue, x, BEFORE, image, sizeof image);
  write_to(queue, y, 0, got, sizeof got);
  p = load_clv(bytes, size, true, &released);
  fine(d.open(&options, &opencl));
  fine(d.create(p, opencl, NULL, &instance));
  fine(d.bind_input(instance, NULL, 0, &shape, &in));
  fine(d.bind_output(instance, NULL, 0, &out));
  fine(d.execute(instance, NULL));
  fine(d.result(instance, NULL, 0, &result));
  assert_null(result.data);
  read_from(queue, y, 0, got, sizeof got);
  for (int i = 0; i < CLASSES; i++) {
    float score;
    memcpy(&score, got + BEFORE + 4 * i, 4);
    assert_true(fabsf(score - want[i]) < 1e-3f);
  }
  assert_memory_equal(got, untouched, BEFORE);
  assert_memory_equal(got + BEFORE + SCORES, untouched, AFTER);
  fine(d.destroy(instance));
  fine(d.unload(p));
  fine(d.close(opencl));
  right(cl.clReleaseMemObject(x));
  right(cl.clReleaseMemObject(y));
  right(cl.clReleaseCommandQueue(queue));
  right(cl.clReleaseContext(context));
  free(bytes);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_what_a_device_lacks),
      cmocka_unit_test(test_memory_at_an_offset),
  };
  return find_host_device() ? cmocka_run_group_tests(tests, open_all, close_all) : 0;
}
