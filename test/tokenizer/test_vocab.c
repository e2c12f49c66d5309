/* Compares the vocabulary, the list of ids and the trie with simple implementations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "test/tokenizer/random.h"
#include "test/tokenizer/vocab_of.h"
#include "tokenizer/trie.h"

static void test_vocab(void **state) {
  (void)state;
  vocab *vocab;
  bool is_new;
  assert_null(vocab_create(0, &vocab));
  assert_int_equal(vocab_find(vocab, text_of("a")), VOCAB_NONE);
  assert_null(vocab_add(vocab, 7, text_of("a"), &is_new));
  assert_true(is_new);
  assert_null(vocab_add(vocab, 3, (span){"a\0b", 3}, NULL));
  assert_null(vocab_add(vocab, 4, (span){NULL, 0}, NULL));
  assert_null(vocab_add(vocab, 5, text_of("a"), &is_new));
  assert_false(is_new);
  assert_int_equal(vocab_size(vocab), 8);
  assert_int_equal(vocab_find(vocab, text_of("a")), 7);
  assert_int_equal(vocab_find(vocab, (span){"a\0b", 3}), 3);
  assert_int_equal(vocab_find(vocab, (span){"a\0c", 3}), VOCAB_NONE);
  assert_int_equal(vocab_find(vocab, text_of("")), 4);
  assert_false(vocab_has(vocab, 0));
  assert_false(vocab_has(vocab, 8));
  assert_null(vocab_piece(vocab, 0).data);
  assert_int_equal(vocab_piece(vocab, 5).size, 1);
  expect_error(vocab_add(vocab, 5, text_of("x"), NULL), "id 5 is given twice");
  expect_error(vocab_add(vocab, VOCAB_MAX, text_of("x"), NULL),
               "id 4194304 is too large: expected an id below 4194304");
  expect_error(vocab_add(vocab, 9, (span){"", VOCAB_MAX_PIECE + 1}, NULL),
               "token 9 has 65537 bytes: expected at most 65536");
  vocab_destroy(vocab);
}

static void test_vocab_grows(void **state) {
  (void)state;
  vocab *vocab;
  char piece[32];
  assert_null(vocab_create(10, &vocab));
  for (uint32_t i = 0; i < 50000; i++) {
    (void)snprintf(piece, sizeof piece, "piece %u", i * 7919u);
    assert_null(vocab_add(vocab, 50000 - i, text_of(piece), NULL));
  }
  for (uint32_t i = 0; i < 50000; i++) {
    (void)snprintf(piece, sizeof piece, "piece %u", i * 7919u);
    assert_int_equal(vocab_find(vocab, text_of(piece)), 50000 - i);
    assert_memory_equal(vocab_piece(vocab, 50000 - i).data, piece, strlen(piece));
  }
  vocab_destroy(vocab);
}

static void test_ids(void **state) {
  (void)state;
  id_list list = {0};
  for (uint32_t i = 0; i < 1000; i++) id_list_append(&list, i * 3);
  assert_int_equal(list.count, 1000);
  for (uint32_t i = 0; i < 1000; i++) assert_int_equal(list.items[i], i * 3);
  id_list_free(&list);
  assert_null(list.items);
}

/* Tests random keys of few letters, so that many share prefixes, and some of any bytes. */
static void test_trie(void **state) {
  (void)state;
  enum { N = 3000 };
  static char bytes[N][12];
  static span keys[N];
  static uint32_t values[N];
  uint64_t seed = 1;
  for (uint32_t i = 0; i < N; i++) {
    keys[i] = (span){bytes[i], 1 + random_below(&seed, 12)};
    for (size_t j = 0; j < keys[i].size; j++)
      bytes[i][j] = (char)(i % 4 ? 'a' + random_below(&seed, 4) : random_below(&seed, 256));
    values[i] = i;
  }
  trie trie;
  assert_null(trie_create(keys, values, N, &trie));
  for (uint32_t i = 0; i < N; i++) {
    size_t want = 0;
    uint32_t want_value = 0, value = TRIE_NONE;
    for (uint32_t j = 0; j < N; j++) {
      if (keys[j].size > keys[i].size || keys[j].size <= want) continue;
      if (memcmp(keys[j].data, keys[i].data, keys[j].size) != 0) continue;
      want = keys[j].size;
      want_value = j;
    }
    assert_int_equal(trie_longest(&trie, keys[i], &value), want);
    assert_int_equal(value, want_value);
  }
  trie_destroy(&trie);
  uint32_t value = 5;
  assert_null(trie_create(NULL, NULL, 0, &trie));
  assert_int_equal(trie_longest(&trie, text_of("a"), &value), 0);
  trie_destroy(&trie);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_vocab),
      cmocka_unit_test(test_vocab_grows),
      cmocka_unit_test(test_ids),
      cmocka_unit_test(test_trie),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
