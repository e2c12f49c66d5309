/* The vocabulary, the list of ids and the trie, against what is plainly right. */
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
  vocab *v;
  bool is_new;
  assert_null(vocab_create(0, &v));
  assert_int_equal(vocab_find(v, text_of("a")), VOCAB_NONE);
  assert_null(vocab_add(v, 7, text_of("a"), &is_new));
  assert_true(is_new);
  assert_null(vocab_add(v, 3, (span){"a\0b", 3}, NULL));
  assert_null(vocab_add(v, 4, (span){NULL, 0}, NULL));
  assert_null(vocab_add(v, 5, text_of("a"), &is_new));
  assert_false(is_new);
  assert_int_equal(vocab_size(v), 8);
  assert_int_equal(vocab_find(v, text_of("a")), 7);
  assert_int_equal(vocab_find(v, (span){"a\0b", 3}), 3);
  assert_int_equal(vocab_find(v, (span){"a\0c", 3}), VOCAB_NONE);
  assert_int_equal(vocab_find(v, text_of("")), 4);
  assert_false(vocab_has(v, 0));
  assert_false(vocab_has(v, 8));
  assert_null(vocab_piece(v, 0).data);
  assert_int_equal(vocab_piece(v, 5).size, 1);
  expect_error(vocab_add(v, 5, text_of("x"), NULL), "id 5 is given twice");
  expect_error(vocab_add(v, VOCAB_MAX, text_of("x"), NULL), "id 4194304, ids are below 4194304");
  expect_error(vocab_add(v, 9, (span){"", VOCAB_MAX_PIECE + 1}, NULL),
               "token 9 has 65537 bytes, at most 65536 are");
  vocab_destroy(v);
}

static void test_vocab_grows(void **state) {
  (void)state;
  vocab *v;
  char piece[32];
  assert_null(vocab_create(10, &v));
  for (uint32_t i = 0; i < 50000; i++) {
    (void)snprintf(piece, sizeof piece, "piece %u", i * 7919u);
    assert_null(vocab_add(v, 50000 - i, text_of(piece), NULL));
  }
  for (uint32_t i = 0; i < 50000; i++) {
    (void)snprintf(piece, sizeof piece, "piece %u", i * 7919u);
    assert_int_equal(vocab_find(v, text_of(piece)), 50000 - i);
    assert_memory_equal(vocab_piece(v, 50000 - i).data, piece, strlen(piece));
  }
  vocab_destroy(v);
}

static void test_ids(void **state) {
  (void)state;
  id_list l = {0};
  for (uint32_t i = 0; i < 1000; i++) id_list_append(&l, i * 3);
  assert_int_equal(l.count, 1000);
  for (uint32_t i = 0; i < 1000; i++) assert_int_equal(l.items[i], i * 3);
  id_list_free(&l);
  assert_null(l.items);
}

/* Random keys over few letters, so that many share prefixes, and some over all bytes. */
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
  trie t;
  assert_null(trie_create(keys, values, N, &t));
  for (uint32_t i = 0; i < N; i++) {
    size_t want = 0;
    uint32_t want_value = 0, value = TRIE_NONE;
    for (uint32_t j = 0; j < N; j++) {
      if (keys[j].size > keys[i].size || keys[j].size <= want) continue;
      if (memcmp(keys[j].data, keys[i].data, keys[j].size) != 0) continue;
      want = keys[j].size;
      want_value = j;
    }
    assert_int_equal(trie_longest(&t, keys[i], &value), want);
    assert_int_equal(value, want_value);
  }
  trie_destroy(&t);
  uint32_t value = 5;
  assert_null(trie_create(NULL, NULL, 0, &t));
  assert_int_equal(trie_longest(&t, text_of("a"), &value), 0);
  trie_destroy(&t);
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
