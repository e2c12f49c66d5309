/* Conversations share a pool only if all session options are equal; padding of the struct does not
 * matter. Methods have the names of the pool's program. */
#include "api/expect.h"
#include "clave_llm.h"
#include "llm/page_pool.h"

#define TINYLM "examples/tinylm/tinylm.clv"

static bool never(void *ctx) {
  (void)ctx;
  return false;
}

static void ignore(void *ctx, const char *what, int done, int total) {
  (void)ctx;
  (void)what;
  (void)done;
  (void)total;
}

static int anything;

static const clave_session_options plain = {.size = sizeof plain},
                                   different[] = {{.memory_budget = 64 << 20},
                                                  {.poison = true},
                                                  {.profile = true},
                                                  {.fast = true},
                                                  {.progress = ignore},
                                                  {.progress_ctx = &anything},
                                                  {.unfused = true},
                                                  {.unchecked = true},
                                                  {.cancel = never},
                                                  {.cancel_ctx = &anything},
                                                  {.seed = 1},
                                                  {.warm_up = CLAVE_WARM_UP_BACKGROUND},
                                                  {.allow_custom_kernels = true},
                                                  {.wide = 1},
                                                  {.strict = 1}};
enum { N = sizeof different / sizeof *different };

typedef struct fixture {
  clave_device *device;
  clave_llm *llm;
} fixture;

static int set_up(void **state) {
  static fixture fixture;
  const clave_llm_options options = {.size = sizeof options};
  good(clave_device_open("cpu", NULL, &fixture.device));
  good(clave_llm_load(TINYLM, fixture.device, &options, &fixture.llm));
  *state = &fixture;
  return 0;
}

static int tear_down(void **state) {
  fixture *fixture = *state;
  clave_llm_destroy(fixture->llm);
  clave_device_destroy(fixture->device);
  return 0;
}

static page_pool *take(const fixture *fixture, clave_session_options options) {
  page_pool *pool;
  options.size = sizeof options;
  good(page_pool_acquire(fixture->llm, &options, &pool));
  return pool;
}

static void test_each_option_tells_pools_apart(void **state) {
  const fixture *fixture = *state;
  page_pool *first = take(fixture, plain), *pools[N];
  for (int i = 0; i < N; i++) {
    pools[i] = take(fixture, different[i]);
    assert_ptr_not_equal(pools[i], first);
    for (int k = 0; k < i; k++) assert_ptr_not_equal(pools[i], pools[k]);
  }
  for (int i = 0; i < N; i++) {
    assert_ptr_equal(take(fixture, different[i]), pools[i]);
    page_pool_release(fixture->llm, pools[i]);
    page_pool_release(fixture->llm, pools[i]);
  }
  page_pool_release(fixture->llm, first);
  assert_null(fixture->llm->pools);
}

static void test_padding_does_not_matter(void **state) {
  const fixture *fixture = *state;
  clave_session_options options;
  page_pool *first = take(fixture, plain), *again;
  memset(&options, 0xA5, sizeof options);
  options.size = sizeof options;
  options.memory_budget = options.seed = 0;
  options.poison = options.profile = options.fast = options.unfused = options.unchecked =
      options.allow_custom_kernels = false;
  options.wide = options.strict = 0;
  options.progress = NULL;
  options.cancel = NULL;
  options.progress_ctx = options.cancel_ctx = NULL;
  options.warm_up = plain.warm_up;
  good(page_pool_acquire(fixture->llm, &options, &again));
  assert_ptr_equal(first, again);
  page_pool_release(fixture->llm, first);
  page_pool_release(fixture->llm, again);
}

/* Sessions of a program find a method by the address of its name, without comparing text. */
static void test_names_are_those_of_the_paged_program(void **state) {
  const fixture *fixture = *state;
  clave_method_info info = {.size = sizeof info};
  assert_non_null(fixture->llm->paged);
  good(clave_program_method(fixture->llm->paged, 0, &info));
  assert_int_equal(fixture->llm->n_methods, 1);
  assert_ptr_equal(fixture->llm->methods[0].name, info.name);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_option_tells_pools_apart),
                                     cmocka_unit_test(test_names_are_those_of_the_paged_program),
                                     cmocka_unit_test(test_padding_does_not_matter)};
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
