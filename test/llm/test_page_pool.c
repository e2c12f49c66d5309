/* Conversations share a pool where all session options are the same, whatever lies in the padding
 * of the struct, and where one differs they do not. Methods have the names of the pool's program.
 */
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
  static fixture f;
  const clave_llm_options o = {.size = sizeof o};
  good(clave_device_open("cpu", NULL, &f.device));
  good(clave_llm_load(TINYLM, f.device, &o, &f.llm));
  *state = &f;
  return 0;
}

static int tear_down(void **state) {
  fixture *f = *state;
  clave_llm_destroy(f->llm);
  clave_device_destroy(f->device);
  return 0;
}

static page_pool *take(const fixture *f, clave_session_options o) {
  page_pool *p;
  o.size = sizeof o;
  good(page_pool_take(f->llm, &o, &p));
  return p;
}

static void test_each_option_tells_pools_apart(void **state) {
  const fixture *f = *state;
  page_pool *first = take(f, plain), *pools[N];
  for (int i = 0; i < N; i++) {
    pools[i] = take(f, different[i]);
    assert_ptr_not_equal(pools[i], first);
    for (int k = 0; k < i; k++) assert_ptr_not_equal(pools[i], pools[k]);
  }
  for (int i = 0; i < N; i++) {
    assert_ptr_equal(take(f, different[i]), pools[i]);
    page_pool_give(f->llm, pools[i]);
    page_pool_give(f->llm, pools[i]);
  }
  page_pool_give(f->llm, first);
  assert_null(f->llm->pools);
}

static void test_padding_does_not_matter(void **state) {
  const fixture *f = *state;
  clave_session_options o;
  page_pool *first = take(f, plain), *again;
  memset(&o, 0xA5, sizeof o);
  o.size = sizeof o;
  o.memory_budget = o.seed = 0;
  o.poison = o.profile = o.fast = o.unfused = o.unchecked = o.allow_custom_kernels = false;
  o.wide = o.strict = 0;
  o.progress = NULL;
  o.cancel = NULL;
  o.progress_ctx = o.cancel_ctx = NULL;
  o.warm_up = plain.warm_up;
  good(page_pool_take(f->llm, &o, &again));
  assert_ptr_equal(first, again);
  page_pool_give(f->llm, first);
  page_pool_give(f->llm, again);
}

/* Sessions of a program find a method by the address of its name without a look at the text. */
static void test_names_are_those_of_the_paged_program(void **state) {
  const fixture *f = *state;
  clave_method_info m = {.size = sizeof m};
  assert_non_null(f->llm->paged);
  good(clave_program_method(f->llm->paged, 0, &m));
  assert_int_equal(f->llm->n_methods, 1);
  assert_ptr_equal(f->llm->methods[0].name, m.name);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_option_tells_pools_apart),
                                     cmocka_unit_test(test_names_are_those_of_the_paged_program),
                                     cmocka_unit_test(test_padding_does_not_matter)};
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
