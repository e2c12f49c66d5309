/* Where nodes run, asked without a session and of one. Run from the project's root. */
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

static uint32_t count_nodes(const clave_program *p) {
  clave_method_info m = {.size = sizeof m};
  good(clave_program_method(p, 0, &m));
  return m.n_nodes;
}

static void expect_same(const clave_placement *a, const clave_placement *b, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    clave_placement_info x = get(a, i), y = get(b, i);
    assert_string_equal(x.op, y.op);
    assert_string_equal(x.name, y.name);
    assert_string_equal(x.where, y.where);
    assert_int_equal(x.supported, y.supported);
    assert_int_equal(x.reason != NULL, y.reason != NULL);
    if (x.reason) assert_string_equal(x.reason, y.reason);
  }
}

/* What is said before is what a session then does, fused or not; both outlive what they are of. */
static void check_device(const char *name, bool unfused) {
  clave_device *device;
  clave_program *p;
  clave_session *s;
  clave_placement *before, *after;
  clave_session_options o = {.size = sizeof o, .unfused = unfused};
  good(clave_device_open(name, NULL, &device));
  good(clave_program_load(MNIST, NULL, &p));
  good(clave_program_supported(p, device, &o, &before));
  good(clave_session_create(p, device, &o, &s));
  good(clave_session_placement(s, &after));
  uint32_t n = count_nodes(p), fused = 0, there = 0;
  clave_session_destroy(s);
  clave_program_destroy(p);
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
  clave_program *p;
  clave_placement *places;
  good(clave_device_open("cpu", NULL, &device));
  good(clave_program_load(MNIST, NULL, &p));
  good(clave_program_supported(p, device, NULL, &places));
  for (uint32_t i = 0, n = count_nodes(p); i < n; i++) {
    clave_node_info node = {.size = sizeof node};
    good(clave_program_node(p, NULL, i, &node));
    assert_string_equal(get(places, i).op, node.op);
    assert_string_equal(get(places, i).name, node.name);
  }
  clave_placement_destroy(places);
  clave_program_destroy(p);
  clave_device_destroy(device);
}

/* A device that cannot run the first kernel that it is asked to prepare. */
static clave_status (*real_prepare)(stream *s, const recording *r, void **state);
static int n_prepared;
static clave_status refuse_first(stream *s, const recording *r, void **state) {
  return n_prepared++ ? real_prepare(s, r, state) : UNSUPPORTED("the kernel is too large");
}

static void test_moved_in_a_run(void **state) {
  (void)state;
  clave_device *device;
  clave_program *p;
  clave_session *s;
  clave_placement *places;
  float image[28 * 28] = {1};
  clave_tensor x = clave_tensor_make(CLAVE_F32, 4, (int64_t[]){1, 1, 28, 28}, image);
  if (clave_devices_hint()) skip();
  good(clave_device_open("opencl", NULL, &device));
  backend_vtable refusing = *device->set.backends[0]->vt;
  backend_building building = *refusing.building;
  real_prepare = building.prepare;
  building.prepare = refuse_first;
  refusing.building = &building;
  device->set.backends[0]->vt = &refusing;
  good(clave_program_load(MNIST, NULL, &p));
  good(clave_session_create(p, device, NULL, &s));
  good(clave_session_set_input(s, NULL, 0, &x));
  for (int run = 0; run < 2; run++) {
    uint32_t moved = 0, there = 0;
    good(clave_session_run(s, NULL));
    good(clave_session_placement(s, &places));
    for (uint32_t i = 0, n = count_nodes(p); i < n; i++) {
      clave_placement_info info = get(places, i);
      bool is_moved = info.reason && strcmp(info.reason, "the kernel is too large") == 0;
      assert_int_equal(info.supported, !is_moved);
      moved += is_moved && strcmp(info.where, "cpu") == 0;
      there += strcmp(info.where, "opencl") == 0;
    }
    assert_int_equal(moved, 1); /* others may be fused into it */
    assert_true(there > 0);
    clave_placement_destroy(places);
  }
  clave_session_destroy(s);
  clave_program_destroy(p);
  clave_device_destroy(device);
}

static void test_bad_calls(void **state) {
  (void)state;
  clave_device *device;
  clave_program *p;
  clave_placement *places;
  clave_placement_info info = {.size = sizeof info};
  clave_session_options o = {0};
  good(clave_device_open("cpu", NULL, &device));
  good(clave_program_load(MNIST, NULL, &p));
  expect_too_small(clave_program_supported(p, device, &o, &places), "clave_session_options", 0);
  assert_null(places);
  good(clave_program_supported(p, device, NULL, &places));
  expect_invalid(clave_placement_get(places, "backward", 0, &info), "'forward'");
  expect_invalid(clave_placement_get(places, NULL, count_nodes(p), &info), "of a method with");
  info.size = 0;
  expect_too_small(clave_placement_get(places, NULL, 0, &info), "clave_placement_info", 0);
  clave_placement_destroy(places);
  clave_placement_destroy(NULL);
  clave_program_destroy(p);
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
