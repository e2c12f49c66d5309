#ifndef TEST_TOKENIZER_VOCAB_OF_H
#define TEST_TOKENIZER_VOCAB_OF_H
/* Makes vocabularies of a few pieces, and returns the pieces into which a model splits a text. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tokenizer/model.h"

static inline span text_of(const char *text) { return (span){text, strlen(text)}; }

static inline vocab *vocab_of(const char *const *pieces, uint32_t n) {
  vocab *vocab;
  assert_null(vocab_create(n, &vocab));
  for (uint32_t i = 0; i < n; i++) assert_null(vocab_add(vocab, i, text_of(pieces[i]), NULL));
  return vocab;
}
#define VOCAB_OF(...)                          \
  vocab_of((const char *const[]){__VA_ARGS__}, \
           sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))

static inline void expect_ids(const token_model *model, span span, const uint32_t *want, size_t n) {
  id_list ids = {0};
  assert_null(model->encode(model, span, &ids));
  assert_int_equal(ids.count, n);
  for (size_t i = 0; i < n; i++) assert_int_equal(ids.items[i], want[i]);
  id_list_free(&ids);
}
#define EXPECT_IDS(m, s, ...)                                \
  expect_ids(m, text_of(s), (const uint32_t[]){__VA_ARGS__}, \
             sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

static inline void expect_error(clave_status st, const char *message) {
  assert_string_equal(status_message(st), message);
  status_free(st);
}

static inline void expect_no_ids(const token_model *model, const char *text, const char *message) {
  id_list ids = {0};
  expect_error(model->encode(model, text_of(text), &ids), message);
  id_list_free(&ids);
}

#endif
