/* Tests which tokens the sampler keeps, its errors, and that equal seeds choose equal ids
 * everywhere. test_sampler.py tests its distributions. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "clave_llm.h"

enum { VOCAB = 1000 };

static clave_sampler *make(clave_sampler_options options) {
  clave_sampler *sampler;
  options.size = sizeof options;
  clave_status st = clave_sampler_create(&options, &sampler);
  assert_null(st);
  return sampler;
}

static uint32_t sample(clave_sampler *sampler, const float *logits, size_t n) {
  uint32_t id;
  clave_status st = clave_sampler_sample(sampler, logits, n, NULL, 0, &id);
  if (st) fail_msg("%s", clave_status_message(st));
  return id;
}

static void expect_error(clave_status st, const char *part) {
  assert_non_null(st);
  assert_int_equal(clave_status_code(st), CLAVE_INVALID);
  if (!strstr(clave_status_message(st), part)) fail_msg("%s", clave_status_message(st));
  clave_status_free(st);
}

/* Logits in no order, distinct. */
static void fill(float *logits) {
  for (int i = 0; i < VOCAB; i++) logits[i] = (float)(i * 617 % VOCAB) / 100 - 5;
}

static void test_greedy(void **state) {
  (void)state;
  float logits[] = {1, 3, -2, 3, 2}, same[] = {-INFINITY, -INFINITY, -3}, zeros[] = {-0.0F, 0};
  clave_sampler *sampler = make((clave_sampler_options){.top_k = 1, .top_p = 0.1F, .seed = 7});
  assert_int_equal(sample(sampler, logits, 5), 1);
  assert_int_equal(sample(sampler, logits, 1), 0);
  assert_int_equal(sample(sampler, same, 3), 2);
  assert_int_equal(sample(sampler, zeros, 2), 0);
  logits[4] = INFINITY;
  assert_int_equal(sample(sampler, logits, 5), 4);
  clave_sampler_destroy(sampler);
}

/* Draws many times, counts the draws of each id and returns the number of different ids. A large
 * vocabulary gets fewer draws: each reads all of it, and the tests keep at most 20 ids that are
 * about equally likely. */
static int draw(clave_sampler_options options, const float *logits, size_t n, int *counts) {
  clave_sampler *sampler = make(options);
  const int draws = n < VOCAB ? 20000 : 1000;
  int different = 0;
  memset(counts, 0, n * sizeof *counts);
  for (int i = 0; i < draws; i++) different += counts[sample(sampler, logits, n)]++ == 0;
  clave_sampler_destroy(sampler);
  return different;
}

static void test_top_k(void **state) {
  (void)state;
  static int counts[VOCAB];
  float logits[VOCAB];
  fill(logits);
  for (uint32_t k = 1; k <= 20; k++) {
    clave_sampler_options options = {.temperature = 50, .top_k = k, .seed = k};
    assert_int_equal(draw(options, logits, VOCAB, counts), k);
    for (int i = 0; i < VOCAB; i++)
      assert_int_equal(counts[i] > 0, i * 617 % VOCAB >= VOCAB - (int)k);
  }
  /* Ties are broken by the smallest ids. */
  for (int i = 0; i < VOCAB; i++) logits[i] = i % 2 ? 1 : -1;
  assert_int_equal(
      draw((clave_sampler_options){.temperature = 1, .top_k = 3}, logits, VOCAB, counts), 3);
  assert_true(counts[1] && counts[3] && counts[5]);
  assert_int_equal(
      draw((clave_sampler_options){.temperature = 1, .top_k = VOCAB + 5}, logits, 4, counts), 4);
}

static void test_top_p(void **state) {
  (void)state;
  static int counts[8];
  /* Probabilities 0.5, 0.25, 0.125, ... */
  float logits[8];
  for (int i = 0; i < 8; i++) logits[i] = -(float)(i < 7 ? i : 6) * logf(2);
  clave_sampler_options options = {.temperature = 1, .top_p = 0.4F};
  assert_int_equal(draw(options, logits, 8, counts), 1);
  options.top_p = 0.51F;
  assert_int_equal(draw(options, logits, 8, counts), 2);
  options.top_p = 0.76F;
  assert_int_equal(draw(options, logits, 8, counts), 3);
  options.top_p = 0.999F;
  assert_int_equal(draw(options, logits, 8, counts), 8);
  options.top_p = 1;
  assert_int_equal(draw(options, logits, 8, counts), 8);
  /* top-k applies first; the likeliest two of the remaining three have 6/7 */
  options.top_k = 3;
  options.top_p = 0.85F;
  assert_int_equal(draw(options, logits, 8, counts), 2);
}

static void test_min_p(void **state) {
  (void)state;
  static int counts[8];
  float logits[8];
  for (int i = 0; i < 8; i++) logits[i] = -(float)i * logf(2);
  clave_sampler_options options = {.temperature = 1, .min_p = 0.2F};
  assert_int_equal(draw(options, logits, 8, counts), 3);
  options.min_p = 1;
  assert_int_equal(draw(options, logits, 8, counts), 1);
  logits[5] = logits[0]; /* as likely as the likeliest, so it is kept */
  assert_int_equal(draw(options, logits, 8, counts), 2);
}

static void test_infinities(void **state) {
  (void)state;
  static int counts[4];
  float logits[] = {INFINITY, 3, INFINITY, -INFINITY};
  clave_sampler_options options = {.temperature = 2, .top_p = 0.999F};
  assert_int_equal(draw(options, logits, 4, counts), 2);
  assert_true(counts[0] > 9000 && counts[2] > 9000);
  float low[] = {-INFINITY, -1000, -INFINITY, -1000};
  assert_int_equal(draw(options, low, 4, counts), 2);
}

static void test_penalties(void **state) {
  (void)state;
  const float logits[] = {2, -1, 1.5F, 1.9F};
  const uint32_t seen[] = {0, 0, 3, 0, 77};
  static const struct {
    clave_sampler_options o;
    uint32_t want;
  } rows[] = {
      {{.repetition_penalty = 1}, 0},
      {{.repetition_penalty = 1.5F}, 2},                        /* 1.33 -1 1.5 1.27 */
      {{.presence_penalty = 0.3F}, 0},                          /* 1.7 . 1.5 1.6 */
      {{.frequency_penalty = 0.3F}, 3},                         /* 1.1 . 1.5 1.6 */
      {{.frequency_penalty = 0.3F, .penalty_window = 2}, 3},    /* 1.7 . 1.5 1.9 */
      {{.repetition_penalty = 1.5F, .penalty_window = 1}, 0},   /* an id beyond the vocabulary */
      {{.presence_penalty = 2, .repetition_penalty = 0.1F}, 0}, /* 18 . 1.5 17 */
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    clave_sampler *sampler = make(rows[i].o);
    for (int twice = 0; twice < 2; twice++) {
      uint32_t id;
      clave_status st = clave_sampler_sample(sampler, logits, 4, seen, 5, &id);
      assert_null(st);
      if (id != rows[i].want) fail_msg("row %zu: %u", i, id);
    }
    clave_sampler_destroy(sampler);
  }
}

/* A penalty makes an unlikely token less likely, not likelier. */
static void test_penalty_of_negative_logits(void **state) {
  (void)state;
  const float logits[] = {-1, -1.5F};
  const uint32_t seen[] = {0};
  uint32_t id;
  clave_sampler *sampler = make((clave_sampler_options){.repetition_penalty = 2});
  assert_null(clave_sampler_sample(sampler, logits, 2, seen, 1, &id));
  assert_int_equal(id, 1);
  clave_sampler_destroy(sampler);
}

static void test_bias(void **state) {
  (void)state;
  const float logits[] = {2, -1, 1.5F, 1.9F};
  const clave_logit_bias bias[] = {{0, -INFINITY}, {3, -0.5F}, {1, 1}};
  clave_sampler *sampler = make((clave_sampler_options){.bias = bias, .n_bias = 3});
  uint32_t id;
  assert_int_equal(sample(sampler, logits, 4), 2);
  expect_error(clave_sampler_sample(sampler, logits, 3, NULL, 0, &id), "bias of id 3");
  clave_sampler_destroy(sampler);
}

static void test_bad_logits(void **state) {
  (void)state;
  float logits[] = {1, NAN, 2}, none[] = {-INFINITY, -INFINITY};
  uint32_t id;
  for (int i = 0; i < 2; i++) {
    clave_sampler *sampler = make((clave_sampler_options){.temperature = (float)i});
    expect_error(clave_sampler_sample(sampler, logits, 3, NULL, 0, &id), "id 1 is not a number");
    expect_error(clave_sampler_sample(sampler, none, 2, NULL, 0, &id), "no token is possible");
    expect_error(clave_sampler_sample(sampler, none, 0, NULL, 0, &id), "got 0");
    clave_sampler_destroy(sampler);
  }
}

static void test_bad_options(void **state) {
  (void)state;
  const clave_logit_bias bias = {5, NAN}, endless = {6, INFINITY};
  static const struct {
    const char *name;
    clave_sampler_options o;
  } rows[] = {
      {"repetition_penalty", {.repetition_penalty = -1}},
      {"repetition_penalty", {.repetition_penalty = INFINITY}},
      {"presence_penalty", {.presence_penalty = NAN}},
      {"frequency_penalty", {.frequency_penalty = INFINITY}},
      {"temperature", {.temperature = -0.1F}},
      {"temperature", {.temperature = NAN}},
      {"top_p", {.top_p = 1.5F}},
      {"top_p", {.top_p = NAN}},
      {"min_p", {.min_p = -1}},
  };
  clave_sampler *sampler;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    clave_sampler_options options = rows[i].o;
    options.size = sizeof options;
    expect_error(clave_sampler_create(&options, &sampler), rows[i].name);
    assert_null(sampler);
  }
  clave_sampler_options biased = {.size = sizeof biased, .bias = &bias, .n_bias = 1};
  expect_error(clave_sampler_create(&biased, &sampler), "bias of id 5");
  biased.bias = &endless;
  expect_error(clave_sampler_create(&biased, &sampler), "bias of id 6");
  clave_sampler_destroy(NULL);
}

/* Expects the ids of test_sampler.py's reference, so a compiler or processor that rounds
 * differently is detected. */
static void test_repeatable(void **state) {
  (void)state;
  static const uint32_t want[2][8] = {{423, 760, 940, 982, 585, 880, 713, 799},
                                      {68, 141, 658, 666, 115, 290, 679, 559}};
  float logits[VOCAB];
  fill(logits);
  static const clave_sampler_options options[2] = {
      {.temperature = 0.7F, .seed = 1234567890123},
      {.temperature = 1.3F, .top_k = 200, .top_p = 0.9F, .min_p = 0.02F, .seed = 5}};
  for (int k = 0; k < 2; k++) {
    clave_sampler *sampler = make(options[k]);
    for (int i = 0; i < 8; i++) assert_int_equal(sample(sampler, logits, VOCAB), want[k][i]);
    clave_sampler_destroy(sampler);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_greedy),
      cmocka_unit_test(test_top_k),
      cmocka_unit_test(test_top_p),
      cmocka_unit_test(test_min_p),
      cmocka_unit_test(test_infinities),
      cmocka_unit_test(test_penalties),
      cmocka_unit_test(test_penalty_of_negative_logits),
      cmocka_unit_test(test_bias),
      cmocka_unit_test(test_bad_logits),
      cmocka_unit_test(test_bad_options),
      cmocka_unit_test(test_repeatable),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
