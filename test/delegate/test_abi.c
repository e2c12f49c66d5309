/* A process that links nothing of clave opens the plugin like a host of the first release. Today's
 * structs have the members of the first release at the same offsets. Run from the project's
 * root. */
#include "test/delegate/plugin.h"
#include "test/delegate/release_1/host.h"

#define FIELD(type, member) \
  {#type "." #member, (long)offsetof(type, member), (long)sizeof((type *)0)->member},
#define WHOLE(type) {#type, 0, (long)sizeof(type)},
#define VALUE(number) {#number, (long)(number), 0},
static const layout_row today[] = {
#include "test/delegate/release_1/layout.def"
};

static void test_layout(void **state) {
  (void)state;
  assert_int_equal(release_1_rows, sizeof today / sizeof *today);
  for (size_t i = 0; i < release_1_rows; i++) {
    const layout_row *then = &release_1_layout[i];
    assert_string_equal(then->name, today[i].name);
    if (then->value != today[i].value || then->size != today[i].size)
      fail_msg("%s was %ld with %ld bytes, is %ld with %ld", then->name, then->value, then->size,
               today[i].value, today[i].size);
  }
}

static void test_old_host(void **state) {
  (void)state;
  size_t size;
  void *clv = read_file("examples/mnist/mnist.clv", &size);
  char path[4096];
  plugin_path(path, sizeof path);
  for (int again = 0; again < 2; again++) {
    const char *wrong = run_release_1_host(path, clv, size);
    if (wrong) fail_msg("%s", wrong);
  }
  free(clv);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_layout),
      cmocka_unit_test(test_old_host),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
