/* Tests lists of the C API with 0, 1, 2 and many elements. Empty arrays may be NULL. */
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "clave_builder.h"
#include "clave_files.h"
#include "clave_llm.h"
#include "expect.h"
#include "lists.h"

static char path[64];
static clave_device *cpu;
static clave_llm *llm;

static int open_all(void **state) {
  (void)state;
  (void)snprintf(path, sizeof path, "/tmp/clave_lists_%ld.safetensors", (long)getpid());
  good(clave_device_open("cpu", NULL, &cpu));
  good(clave_llm_load("examples/tinylm/tinylm.clv", cpu, NULL, &llm));
  return 0;
}

static int close_all(void **state) {
  (void)state;
  clave_llm_destroy(llm);
  clave_device_destroy(cpu);
  (void)unlink(path);
  return 0;
}

static void test_tensors_of_a_file(void **state) {
  (void)state;
  static char names[MANY][8];
  static const char *list[2 * MANY];
  static clave_tensor tensors[MANY];
  float x = 1;
  for (int i = 0; i < MANY; i++) {
    (void)snprintf(names[i], sizeof names[i], "t%d", i);
    list[i] = names[i];
    tensors[i] = clave_tensor_make(CLAVE_F32, 0, NULL, &x);
  }
  EACH_COUNT(n) {
    static const char *pairs[2 * MANY];
    for (size_t i = 0; i < 2 * n; i++) pairs[i] = names[i / 2];
    for (int described = 0; described < 2; described++) {
      clave_tensors *read;
      const uint32_t m = described ? (uint32_t)n : 0;
      good(clave_tensors_save(path, n ? list : NULL, n ? tensors : NULL, (uint32_t)n,
                              m ? pairs : NULL, m));
      good(clave_tensors_load(path, &read));
      assert_int_equal(clave_tensors_count(read), n);
      clave_tensors_destroy(read);
    }
  }
}

static void test_passes(void **state) {
  (void)state;
  clave_program *program, *made;
  good(clave_program_load("examples/mnist/mnist.clv", NULL, &program));
  const char *names[] = {"fold", "fold", "nonsense"};
  for (uint32_t n = 0; n < 3; n++) {
    clave_optimize_options options = {
        .size = sizeof options, .passes = names + 2, .n_passes = n > 0};
    if (n == 0) options.passes = names; /* no passes, which differs from the default, all passes */
    clave_status st = clave_program_optimize(program, &options, &made);
    if (n == 0) {
      good(st);
      clave_program_destroy(made);
    } else {
      expect_invalid(st, "nonsense");
    }
  }
  good(clave_program_optimize(
      program, &(clave_optimize_options){.size = sizeof(clave_optimize_options)}, &made));
  clave_program_destroy(made);
  clave_program_destroy(program);
}

static void test_constants(void **state) {
  (void)state;
  clave_program *program, *made;
  void *bytes;
  size_t size;
  good(clave_program_load("examples/mnist/mnist.clv", NULL, &program));
  good(clave_program_encode(program, &bytes, &size));
  clave_program_info info = {.size = sizeof info};
  good(clave_program_get_info(program, &info));
  static clave_tensor constants[MANY];
  for (uint32_t i = 0; i < info.n_constants; i++)
    good(clave_program_constant(program, i, &constants[i]));
  EACH_COUNT(n) {
    clave_status st = clave_program_create(bytes, size, n ? constants : NULL, n, &made);
    assert_int_equal(clave_status_code(st), CLAVE_INVALID);
    assert_null(made);
    clave_status_free(st);
  }
  good(clave_program_create(bytes, size, constants, info.n_constants, &made));
  clave_program_destroy(made);
  clave_text_free(bytes);
  clave_program_destroy(program);
}

static uint32_t first_token(const clave_llm_conversation_options *options) {
  clave_llm_conversation *conversation;
  clave_llm_token token;
  const uint32_t ids[] = {5, 6, 7};
  good(clave_llm_conversation_create(llm, options, &conversation));
  good(clave_llm_prompt(conversation, ids, 3));
  good(clave_llm_next(conversation, &token));
  const uint32_t id = token.id;
  clave_llm_conversation_destroy(conversation);
  return id;
}

static void test_stop_texts_and_biases(void **state) {
  (void)state;
  static const char *stop[MANY];
  static char texts[MANY][16];
  static clave_logit_bias bias[MANY];
  const uint32_t plain = first_token(NULL);
  for (int i = 0; i < MANY; i++) {
    (void)snprintf(texts[i], sizeof texts[i], "no such %d", i);
    stop[i] = texts[i];
    bias[i] = (clave_logit_bias){.id = 0, .bias = i % 2 ? 0.5F : -0.5F};
  }
  EACH_COUNT(n) {
    clave_sampler_options options = {
        .size = sizeof options, .bias = n ? bias : NULL, .n_bias = n - n % 2};
    clave_llm_conversation_options conversation_options = {.size = sizeof conversation_options,
                                                           .sampler = &options,
                                                           .stop = n ? stop : NULL,
                                                           .n_stop = n};
    assert_int_equal(first_token(&conversation_options), plain);
  }
}

static void test_ids(void **state) {
  (void)state;
  clave_llm_info info = {.size = sizeof info};
  good(clave_llm_get_info(llm, &info));
  static uint32_t ids[MANY];
  static double scores[MANY];
  for (int i = 0; i < MANY; i++) ids[i] = 5;
  EACH_COUNT(n) {
    char *text;
    size_t size;
    clave_llm_conversation *conversation;
    good(clave_tokenizer_decode(info.tokenizer, n ? ids : NULL, n, false, &text, &size));
    assert_int_equal(n == 0, size == 0);
    clave_text_free(text);
    good(clave_llm_conversation_create(llm, NULL, &conversation));
    if (n < info.max_context) {
      good(clave_llm_prompt(conversation, n ? ids : NULL, n));
      good(clave_llm_reset(conversation));
      good(clave_llm_score(conversation, n ? ids : NULL, n, n ? scores : NULL));
    }
    clave_llm_conversation_destroy(conversation);
  }
  clave_ids none;
  good(clave_tokenizer_encode(info.tokenizer, NULL, 0, NULL, &none));
  assert_int_equal(none.count, 0);
  clave_ids_free(&none);
}

static void test_conversations_at_once(void **state) {
  (void)state;
  enum { FEW = 9 };
  clave_llm_conversation *all[FEW];
  clave_llm_token tokens[FEW];
  size_t done = 7;
  good(clave_llm_next_each(NULL, 0, NULL, &done));
  assert_int_equal(done, 0);
  const uint32_t id = 5;
  for (int i = 0; i < FEW; i++) good(clave_llm_conversation_create(llm, NULL, &all[i]));
  for (size_t n = 1; n <= FEW; n = n < 2 ? n + 1 : n + FEW - 2) {
    for (size_t i = 0; i < n; i++) good(clave_llm_prompt(all[i], &id, 1));
    good(clave_llm_next_each(all, n, tokens, &done));
    assert_int_equal(done, n);
  }
  for (int i = 0; i < FEW; i++) clave_llm_conversation_destroy(all[i]);
}

static void test_messages(void **state) {
  (void)state;
  static clave_llm_message messages[MANY];
  for (int i = 0; i < MANY; i++)
    messages[i] = (clave_llm_message){i % 2 ? "assistant" : "user", "a", 1};
  size_t before = 0;
  EACH_COUNT(n) {
    clave_ids ids;
    clave_status st = clave_llm_chat_ids(llm, "chatml", n ? messages : NULL, n, &ids);
    if (st) {
      assert_int_not_equal(n, 1); /* fails if n is 0 or beyond the context */
      assert_true(clave_status_code(st) == CLAVE_INVALID ||
                  clave_status_code(st) == CLAVE_UNSUPPORTED);
      clave_status_free(st);
      continue;
    }
    assert_true(ids.count > before);
    before = ids.count;
    clave_ids_free(&ids);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_tensors_of_a_file),
      cmocka_unit_test(test_passes),
      cmocka_unit_test(test_constants),
      cmocka_unit_test(test_stop_texts_and_biases),
      cmocka_unit_test(test_ids),
      cmocka_unit_test(test_conversations_at_once),
      cmocka_unit_test(test_messages),
  };
  return cmocka_run_group_tests(tests, open_all, close_all);
}
