/* SentencePiece's file: errors are reported, and damaged data is not used. test_sentencepiece.py
 * checks the ids. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/protobuf.h"
#include "clave_tokenizer.h"
#include "test/tokenizer/proto_writer.h"
#include "test/tokenizer/random.h"
#include "test/tokenizer/vocab_of.h"
#include "tokenizer/charsmap.h"
#include "tokenizer/sentencepiece.h"

enum { UNIGRAM = 1, BPE = 2 };

static clave_status create(const text *file, clave_tokenizer **out) {
  char *exact = malloc(file->size + 1); /* an exact block, so that sanitizers see overruns */
  assert_non_null(exact);
  if (file->size > 0) memcpy(exact, file->data, file->size);
  clave_status st = clave_tokenizer_create(exact, file->size, NULL, out);
  free(exact);
  return st;
}

/* Calls every function with a tokenizer from a damaged file. */
static void use(const clave_tokenizer *tokenizer) {
  static const char in[] = " abA[x]CC\xC3\xA9 a\xFF<s>ab";
  clave_tokenizer_info info = {.size = sizeof info};
  clave_ids ids;
  assert_null(clave_tokenizer_get_info(tokenizer, &info));
  clave_encode_options options = {sizeof options, true, true, CLAVE_SPECIAL_MATCH};
  assert_null(clave_tokenizer_encode(tokenizer, in, sizeof in - 1, &options, &ids));
  for (uint32_t id = 0; id < info.n_ids + 1 && id < 300; id++) {
    char *out;
    size_t size;
    status_free(clave_tokenizer_decode(tokenizer, &id, 1, false, &out, &size));
    clave_text_free(out);
  }
  clave_ids_free(&ids);
}

static bool try_file(const text *file) {
  clave_tokenizer *tokenizer;
  clave_status st = create(file, &tokenizer);
  bool good = st == NULL;
  if (good) {
    use(tokenizer);
  } else {
    assert_null(tokenizer);
    assert_true(strlen(status_message(st)) > 10);
  }
  status_free(st);
  clave_tokenizer_destroy(tokenizer);
  return good;
}

static void test_valid(void **state) {
  (void)state;
  for (uint64_t algorithm = 1; algorithm <= 4; algorithm++) {
    text file = {0};
    clave_tokenizer *tokenizer;
    put_model(&file, algorithm, false);
    assert_null(create(&file, &tokenizer));
    clave_ids ids;
    assert_null(clave_tokenizer_encode(tokenizer, "aA[x]C", 6, NULL, &ids));
    if (algorithm <= 2) {
      assert_int_equal(ids.count, 3);
      assert_int_equal(ids.items[0], 4);
      assert_int_equal(ids.items[1], 7);
      assert_int_equal(ids.items[2], 3);
    }
    clave_ids_free(&ids);
    assert_int_equal(clave_tokenizer_find(tokenizer, "[x]"), 3);
    clave_tokenizer_destroy(tokenizer);
    text_free(&file);
  }
}

/* ---------------------------------------------------------------- threads */

enum { N_THREADS = 4, N_ROUNDS = 20, TEXT_SIZE = 9000 };

typedef struct sharer {
  const clave_tokenizer *tokenizer;
  const char *in; /* TEXT_SIZE bytes */
  clave_ids ids;
} sharer;

static void *encode_often(void *data) {
  sharer *sharer = data;
  for (int i = 0; i < N_ROUNDS; i++) {
    clave_ids_free(&sharer->ids);
    status_free(
        clave_tokenizer_encode(sharer->tokenizer, sharer->in, TEXT_SIZE, NULL, &sharer->ids));
  }
  return NULL;
}

static void test_threads(void **state) {
  (void)state;
  static char in[TEXT_SIZE];
  uint64_t seed = 5;
  for (size_t i = 0; i < sizeof in; i++) in[i] = "ab Ax["[random_below(&seed, 6)];
  for (uint64_t algorithm = 1; algorithm <= 4; algorithm++) {
    text file = {0};
    clave_tokenizer *tokenizer;
    pthread_t threads[N_THREADS];
    sharer sharers[N_THREADS] = {0};
    put_model(&file, algorithm, true);
    assert_null(create(&file, &tokenizer));
    for (int i = 0; i < N_THREADS; i++) {
      sharers[i] = (sharer){.tokenizer = tokenizer, .in = in};
      assert_int_equal(pthread_create(&threads[i], NULL, encode_often, &sharers[i]), 0);
    }
    for (int i = 0; i < N_THREADS; i++) {
      (void)pthread_join(threads[i], NULL);
      assert_int_equal(sharers[i].ids.count, sharers[0].ids.count);
      assert_memory_equal(sharers[i].ids.items, sharers[0].ids.items,
                          sharers[0].ids.count * sizeof(uint32_t));
    }
    assert_true(sharers[0].ids.count > 1000);
    for (int i = 0; i < N_THREADS; i++) clave_ids_free(&sharers[i].ids);
    clave_tokenizer_destroy(tokenizer);
    text_free(&file);
  }
}

static void test_truncated(void **state) {
  (void)state;
  for (uint64_t algorithm = 1; algorithm <= 2; algorithm++) {
    text file = {0};
    put_model(&file, algorithm, false);
    size_t size = file.size, n_good = 0;
    for (file.size = 0; file.size < size; file.size++) n_good += try_file(&file);
    assert_true(n_good < 12); /* truncated files are valid only where a piece or a spec ends */
    text_free(&file);
  }
}

static void test_damaged(void **state) {
  (void)state;
  uint64_t seed = 1;
  text file = {0};
  put_model(&file, UNIGRAM, true);
  for (int round = 0; round < 4000; round++) {
    char saved[3];
    uint32_t at[3];
    for (int i = 0; i < 3; i++) {
      at[i] = random_below(&seed, i ? 300 : (uint32_t)file.size);
      saved[i] = file.data[at[i]];
      if (i == 0 || round % 3 == 0) file.data[at[i]] = (char)random_below(&seed, 256);
    }
    (void)try_file(&file);
    for (int i = 3; i-- > 0;) file.data[at[i]] = saved[i];
  }
  assert_true(try_file(&file));
  text_free(&file);
}

static void expect_message(text *file, const char *message) {
  clave_tokenizer *tokenizer;
  expect_error(create(file, &tokenizer), message);
  assert_null(tokenizer);
  text_free(file);
}

static void test_wrong_pieces(void **state) {
  (void)state;
  text text = {0};
  put_piece(&text, "a", 0, SPM_NORMAL);
  expect_message(&text, "the model has no unknown piece; SentencePiece model");
  put_trainer(&text, BPE, false);
  expect_message(&text, "the model has no pieces; SentencePiece model");
  put_piece(&text, "a", NAN, SPM_NORMAL);
  expect_message(&text, "the score of the piece is not a number; piece 0; SentencePiece model");
  put_piece(&text, "", 0, SPM_NORMAL);
  expect_message(&text, "the piece is empty; piece 0; SentencePiece model");
  put_piece(&text, "\xC3", 0, SPM_NORMAL);
  expect_message(&text, "the piece is not valid UTF-8; piece 0; SentencePiece model");
  put_piece(&text, "a", 0, SPM_UNKNOWN);
  put_piece(&text, "b", 0, SPM_NORMAL);
  put_piece(&text, "b", 0, SPM_NORMAL);
  expect_message(&text, "\"b\" is also piece 1; piece 2; SentencePiece model");
  put_piece(&text, "a", 0, SPM_UNKNOWN);
  put_piece(&text, "b", 0, SPM_UNKNOWN);
  expect_message(
      &text, "piece 0 is also an unknown piece: expected only one; piece 1; SentencePiece model");
  put_piece(&text, "<0x0a>", 0, SPM_BYTE);
  put_trainer(&text, BPE, true);
  expect_message(&text, "a byte piece must be written as <0x41>; piece 0; SentencePiece model");
  put_piece(&text, "<0x0A>", 0, SPM_BYTE);
  expect_message(&text,
                 "a byte piece, but the model has no byte fallback; piece 0; SentencePiece model");
  put_piece(&text, "a", 0, SPM_UNKNOWN);
  put_trainer(&text, BPE, true);
  expect_message(&text, "the model has byte fallback but no piece <0x00>; SentencePiece model");
  put_piece(&text, "a", 0, SPM_UNKNOWN);
  put_trainer(&text, 9, false);
  expect_message(&text, "model_type: expected 1 to 4, got 9; SentencePiece model");
}

static void test_wrong_fields(void **state) {
  (void)state;
  text text = {0};
  put_varint(&text, 1 << 3 | 2);
  put_varint(&text, UINT64_MAX);
  expect_message(
      &text, "the file ends within a field; byte 11 of a message of 11 bytes; SentencePiece model");
  put_bytes(&text, 1, text_of("\x0D\1\2"));
  expect_message(
      &text,
      "the file ends within a field; byte 1 of a message of 3 bytes; piece 0; SentencePiece model");
  put_bytes(&text, 1, text_of("\x0C"));
  expect_message(&text,
                 "field 1 has the unsupported wire type 4; byte 1; piece 0; SentencePiece model");
  put_bytes(&text, 1, text_of("\x02\x01"));
  expect_message(&text, "invalid field number 0; byte 1; piece 0; SentencePiece model");
  put_bytes(&text, 1, text_of("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF"));
  expect_message(&text, "a varint has more than 10 bytes; byte 10; piece 0; SentencePiece model");
}

static void test_wrong_charsmap(void **state) {
  (void)state;
  text good = {0};
  charsmap *charsmap;
  span out = {0};
  put_charsmap(&good);
  assert_null(charsmap_create((span){good.data, good.size}, &charsmap));
  assert_int_equal(charsmap_longest(charsmap, text_of("AB"), &out), 1);
  assert_int_equal(out.size, 1);
  assert_int_equal(charsmap_shortest(charsmap, text_of("CA"), &out), 1);
  assert_int_equal(out.size, 0);
  assert_int_equal(charsmap_longest(charsmap, text_of("BA"), &out), 0);
  assert_int_equal(charsmap_longest(charsmap, text_of(""), &out), 0);
  assert_int_equal(charsmap_unchanged(charsmap, text_of("xyA")), 2);
  assert_int_equal(charsmap_unchanged(charsmap, text_of("xy z")), 2);
  assert_int_equal(charsmap_unchanged(charsmap, text_of("xy\xC3\xA9")), 1); /* a mark may follow */
  assert_int_equal(charsmap_unchanged(charsmap, text_of("")), 0);
  charsmap_destroy(charsmap);
  for (size_t size = 0; size < good.size - 1; size++) {
    clave_status st = charsmap_create((span){good.data, size}, &charsmap);
    assert_non_null(st);
    assert_null(charsmap);
    status_free(st);
  }
  good.data[4 + 2] = 0x7F; /* the root's offset */
  expect_error(charsmap_create((span){good.data, good.size}, &charsmap),
               "charsmap: node 0 points to unit 8128, outside the 512 units");
  good.data[4 + 2] = 4;
  good.data[4 + 4 * 5] = 2; /* where 'A' leads */
  expect_error(charsmap_create((span){good.data, good.size}, &charsmap),
               "charsmap: the text of a rule is at 2, outside the 2 bytes of texts");
  text_free(&good);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_valid),          cmocka_unit_test(test_threads),
      cmocka_unit_test(test_truncated),      cmocka_unit_test(test_damaged),
      cmocka_unit_test(test_wrong_pieces),   cmocka_unit_test(test_wrong_fields),
      cmocka_unit_test(test_wrong_charsmap),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
