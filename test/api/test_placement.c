/* Tests the placement of nodes, queried before a session exists and from a session. Run from the
 * project's root. */
#include <cmocka.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "api/internal.h"
#include "test/api/expect.h"

#define MNIST "examples/mnist/mnist.clv"

static clave_placement_info get(const clave_placement *places, uint32_t index) {
  clave_placement_info info = {.size = sizeof info};
  good(clave_placement_get(places, NULL, index, &info));
  return info;
}

static uint32_t count_nodes(const clave_program *program) {
  clave_method_info info = {.size = sizeof info};
  good(clave_program_method(program, 0, &info));
  return info.n_nodes;
}

static void expect_same(const clave_placement *left, const clave_placement *right, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    clave_placement_info left_info = get(left, i), right_info = get(right, i);
    assert_string_equal(left_info.op, right_info.op);
    assert_string_equal(left_info.name, right_info.name);
    assert_string_equal(left_info.where, right_info.where);
    assert_int_equal(left_info.supported, right_info.supported);
    assert_int_equal(left_info.reason != NULL, right_info.reason != NULL);
    if (left_info.reason) assert_string_equal(left_info.reason, right_info.reason);
  }
}

/* The placement predicted for a program equals that of the session, fused or not. Both outlive the
 * program, the session and the device. */
static void check_device(const char *name, bool unfused) {
  clave_device *device;
  clave_program *program;
  clave_session *session;
  clave_placement *before, *after;
  clave_session_options options = {.size = sizeof options, .unfused = unfused};
  good(clave_device_open(name, NULL, &device));
  good(clave_program_load(MNIST, NULL, &program));
  good(clave_program_supported(program, device, &options, &before));
  good(clave_session_create(program, device, &options, &session));
  good(clave_session_placement(session, &after));
  uint32_t n = count_nodes(program), fused = 0, there = 0;
  clave_session_destroy(session);
  clave_program_destroy(program);
  clave_device_destroy(device);
  expect_same(before, after, n);
  for (uint32_t i = 0; i < n; i++) {
    clave_placement_info info = get(before, i);
    assert_true(info.supported && !info.reason);
    fused += strcmp(info.where, "fused") == 0;
    there += strcmp(info.where, name) == 0;
  }
  assert_true(there > 0);
  if (unfused) assert_int_equal(fused, 0);
  clave_placement_destroy(before);
  clave_placement_destroy(after);
}

static void test_before_and_in_a_session(void **state) {
  (void)state;
  for (int unfused = 0; unfused < 2; unfused++) {
    check_device("cpu", unfused);
    if (!clave_devices_hint()) check_device("opencl", unfused);
  }
}

static void test_ops_are_those_of_the_program(void **state) {
  (void)state;
  clave_device *device;
  clave_program *program;
  clave_placement *places;
  good(clave_device_open("cpu", NULL, &device));
  good(clave_program_load(MNIST, NULL, &program));
  good(clave_program_supported(program, device, NULL, &places));
  for (uint32_t i = 0, n = count_nodes(program); i < n; i++) {
    clave_node_info node = {.size = sizeof node};
    good(clave_program_node(program, NULL, i, &node));
    assert_string_equal(get(places, i).op, node.op);
    assert_string_equal(get(places, i).name, node.name);
  }
  clave_placement_destroy(places);
  clave_program_destroy(program);
  clave_device_destroy(device);
}

/* Simulates a device on which the first kernel to be prepared fails. */
static clave_status (*real_prepare)(stream *stream, const recording *recording, void **state);
static int n_prepared;
static clave_status refuse_first(stream *stream, const recording *recording, void **state) {
  return n_prepared++ ? real_prepare(stream, recording, state)
                      : UNSUPPORTED("the kernel is too large");
}

/* Records like a device that has no other kernel for the node. */
static clave_status (*real_record)(backend *, const node *, bool, recording **);
static clave_status record_last(backend *backend, const node *node, bool fast, recording **out) {
  clave_status st = real_record(backend, node, fast, out);
  if (!st) (*out)->is_refused = true;
  return st;
}

static void test_moved_in_a_run(void **state) {
  (void)state;
  clave_device *device;
  clave_program *program;
  clave_session *session;
  clave_placement *places;
  float image[28 * 28] = {1};
  clave_tensor tensor = clave_tensor_make(CLAVE_F32, 4, (int64_t[]){1, 1, 28, 28}, image);
  if (clave_devices_hint()) skip();
  good(clave_device_open("opencl", NULL, &device));
  backend_vtable refusing = *device->set.backends[0]->vt;
  backend_building building = *refusing.building;
  real_prepare = building.prepare;
  building.prepare = refuse_first;
  refusing.building = &building;
  real_record = refusing.record;
  refusing.record = record_last;
  device->set.backends[0]->vt = &refusing;
  good(clave_program_load(MNIST, NULL, &program));
  good(clave_session_create(program, device, NULL, &session));
  good(clave_session_set_input(session, NULL, 0, &tensor));
  for (int run = 0; run < 2; run++) {
    uint32_t moved = 0, there = 0;
    good(clave_session_run(session, NULL));
    good(clave_session_placement(session, &places));
    for (uint32_t i = 0, n = count_nodes(program); i < n; i++) {
      clave_placement_info info = get(places, i);
      bool is_moved = info.reason && strcmp(info.reason, "the kernel is too large") == 0;
      assert_int_equal(info.supported, !is_moved);
      moved += is_moved && strcmp(info.where, "cpu") == 0;
      there += strcmp(info.where, "opencl") == 0;
    }
    assert_int_equal(moved, 1); /* other nodes may be fused into it */
    assert_true(there > 0);
    clave_placement_destroy(places);
  }
  clave_session_destroy(session);
  clave_program_destroy(program);
  clave_device_destroy(device);
}

static void test_bad_calls(void **state) {
  (void)state;
  clave_device *device;
  clave_program *program;
  clave_placement *places;
  clave_placement_info info = {.size = sizeof info};
  clave_session_options options = {0};
  good(clave_device_open("cpu", NULL, &device));
  good(clave_program_load(MNIST, NULL, &program));
  expect_too_small(clave_program_supported(program, device, &options, &places),
                   "clave_session_options", 0);
  assert_null(places);
  good(clave_program_supported(program, device, NULL, &places));
  expect_invalid(clave_placement_get(places, "backward", 0, &info), "'forward'");
  expect_invalid(clave_placement_get(places, NULL, count_nodes(program), &info),
                 "is out of range: the method has");
  info.size = 0;
  expect_too_small(clave_placement_get(places, NULL, 0, &info), "clave_placement_info", 0);
  clave_placement_destroy(places);
  clave_placement_destroy(NULL);
  clave_program_destroy(program);
  clave_device_destroy(device);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_before_and_in_a_session),
      cmocka_unit_test(test_ops_are_those_of_the_program),
      cmocka_unit_test(test_moved_in_a_run),
      cmocka_unit_test(test_bad_calls),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
