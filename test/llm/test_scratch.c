/* Scratch memory of samplers: samplers that do not run at the same time share it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "llm/scratch.h"

static void test_taking_turns(void **state) {
  (void)state;
  scratch_pool pool = {0};
  sampler_scratch *first, *second, *again;
  assert_null(scratch_pool_init(&pool));
  assert_null(scratch_acquire(&pool, &first));
  assert_null(scratch_acquire(&pool, &second));
  assert_ptr_not_equal(first, second);
  scratch_release(&pool, first);
  assert_null(scratch_acquire(&pool, &again));
  assert_ptr_equal(again, first);
  scratch_release(&pool, second);
  scratch_release(&pool, again);
  scratch_pool_free(&pool);
}

/* A sampler's choice does not depend on another's leftovers in the scratch, nor on their size. */
static void test_shared_by_samplers(void **state) {
  (void)state;
  clave_sampler_options options = {.size = sizeof options,
                                   .temperature = 1,
                                   .top_k = 3,
                                   .top_p = 0.9F,
                                   .repetition_penalty = 1.5F,
                                   .seed = 4};
  const float logits[7] = {1, 2, 3, 2.5F, 2.5F, 1, 3}, others[4] = {9, 8, 9, 8};
  const uint32_t seen[3] = {2, 2, 6}, others_seen[2] = {0, 3};
  sampler_input in = {logits, 7, seen, 3, NULL, NULL},
                other_in = {others, 4, others_seen, 2, NULL, NULL};
  clave_sampler *sampler, *other_sampler, *alone;
  sampler_scratch scratch = {0};
  assert_null(clave_sampler_create(&options, &sampler));
  assert_null(clave_sampler_create(&options, &other_sampler));
  assert_null(clave_sampler_create(&options, &alone));
  for (int i = 0; i < 50; i++) {
    uint32_t id, other, want;
    assert_null(sampler_choose(other_sampler, &scratch, &other_in, &other));
    assert_null(sampler_choose(sampler, &scratch, &in, &id));
    assert_null(clave_sampler_sample(alone, logits, 7, seen, 3, &want));
    assert_int_equal(id, want);
  }
  sampler_scratch_free(&scratch);
  clave_sampler_destroy(sampler);
  clave_sampler_destroy(other_sampler);
  clave_sampler_destroy(alone);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_taking_turns),
                                     cmocka_unit_test(test_shared_by_samplers)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
