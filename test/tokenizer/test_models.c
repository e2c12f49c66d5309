/* Compares Unigram with the definition of its best path; tests WordPiece, words by example. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "test/tokenizer/random.h"
#include "test/tokenizer/vocab_of.h"
#include "tokenizer/pretoken_cache.h"

enum { N_PIECES = 60, LONGEST = 300 };

/* ---------------------------------------------------------------- Unigram */

typedef struct lattice { /* the score and start of the best path to each byte */
  double score[LONGEST + 1];
  size_t start[LONGEST + 1];
  uint32_t id[LONGEST + 1];
} lattice;

/* Finds the best of all pieces that end here, the longest of equal ones. */
static void best_end(const vocab *vocab, const double *scores, span range, size_t end,
                     lattice *lattice) {
  bool found = false;
  for (size_t start = 0; start < end; start++) {
    uint32_t id = vocab_find(vocab, (span){range.data + start, end - start});
    double score = id == VOCAB_NONE ? -1e9 : scores[id];
    if (id == VOCAB_NONE && end - start > 1) continue;
    if (found && lattice->score[start] + score <= lattice->score[end]) continue;
    found = true;
    lattice->score[end] = lattice->score[start] + score;
    lattice->start[end] = start;
    lattice->id[end] = id == VOCAB_NONE ? 0 : id;
  }
}

static size_t naive(const vocab *vocab, const double *scores, span span, uint32_t *ids) {
  static lattice lattice;
  uint32_t back[LONGEST];
  size_t n = 0, count = 0;
  for (size_t end = 1; end <= span.size; end++) best_end(vocab, scores, span, end, &lattice);
  for (size_t at = span.size; at > 0; at = lattice.start[at]) back[n++] = lattice.id[at];
  while (n-- > 0) {
    bool joins = back[n] == 0 && count > 0 && ids[count - 1] == 0;
    if (!joins) ids[count++] = back[n];
  }
  return count;
}

static vocab *random_vocab(uint64_t *seed, double *scores) {
  vocab *vocab;
  assert_null(vocab_create(N_PIECES, &vocab));
  assert_null(vocab_add(vocab, 0, text_of("<unk>"), NULL));
  scores[0] = 0;
  for (uint32_t id = 1; id < N_PIECES; id++) {
    char bytes[8];
    span piece = {bytes, 1 + random_below(seed, 6)};
    for (size_t i = 0; i < piece.size; i++) bytes[i] = (char)('a' + random_below(seed, 3));
    scores[id] = -(double)random_below(seed, 8) - (double)piece.size; /* with ties */
    if (vocab_find(vocab, piece) == VOCAB_NONE) assert_null(vocab_add(vocab, id, piece, NULL));
  }
  return vocab;
}

static void test_unigram_definition(void **state) {
  (void)state;
  uint64_t seed = 1;
  for (int round = 0; round < 20; round++) {
    static uint32_t want[LONGEST];
    double scores[N_PIECES];
    char s[LONGEST];
    vocab *vocab = random_vocab(&seed, scores);
    const uint8_t kinds[N_PIECES] = {PIECE_ADDED};
    unigram_options options = {.scores = scores, .kinds = kinds};
    token_model *model;
    assert_null(unigram_create(vocab, &options, &model));
    for (int i = 0; i < 60; i++) {
      span in = {s, random_below(&seed, i % 4 ? 40 : LONGEST)};
      for (size_t j = 0; j < in.size; j++) s[j] = (char)('a' + random_below(&seed, 4));
      expect_ids(model, in, want, naive(vocab, scores, in, want));
    }
    model->destroy(model);
    vocab_destroy(vocab);
  }
}

static void test_unigram_kinds(void **state) {
  (void)state;
  vocab *vocab = VOCAB_OF("<unk>", "a", "b", "ab", "ba", "B\xC3", "B\xA9", "abab");
  const double scores[] = {0, -1, -1, -0.5, -0.6, 0, 0, -9};
  uint8_t kinds[] = {PIECE_ADDED, 0, 0, 0, 0, PIECE_ADDED, PIECE_ADDED, PIECE_USER};
  unigram_options options = {.scores = scores, .kinds = kinds};
  token_model *model;
  assert_null(unigram_create(vocab, &options, &model));
  EXPECT_IDS(model, "ababb", 7, 2);
  EXPECT_IDS(model, "ababab", 3, 7);
  EXPECT_IDS(model, "\xC3\xA9xa<unk>b", 0, 1, 0, 2);
  model->destroy(model);
  kinds[7] = kinds[3] = PIECE_UNUSED;
  uint32_t byte_ids[256];
  memset(byte_ids, 0xFF, sizeof byte_ids);
  byte_ids[0xC3] = 5;
  byte_ids[0xA9] = 6;
  options.unknown = (unknown_rule){.byte_ids = byte_ids, .id = VOCAB_NONE};
  assert_null(unigram_create(vocab, &options, &model));
  EXPECT_IDS(model, "aba\xC3\xA9", 1, 4, 5, 6);
  expect_no_ids(model, "axxb", "the vocabulary lacks \"xx\" and an unknown token");
  expect_ids(model, text_of(""), NULL, 0);
  model->destroy(model);
  vocab_destroy(vocab);
}

/* ---------------------------------------------------------------- words */

static void test_wordpiece(void **state) {
  (void)state;
  vocab *vocab =
      VOCAB_OF("[UNK]", "un", "##aff", "##able", "##a", "able", "\xC3\xA9", "##\xC3\xA9", "##");
  wordpiece_options options = {.continuing_prefix = text_of("##"), .max_characters = 10};
  token_model *model;
  assert_null(wordpiece_create(vocab, &options, &model));
  EXPECT_IDS(model, "unaffable", 1, 2, 3);
  EXPECT_IDS(model, "unaffablex", 0);
  EXPECT_IDS(model, "unaa", 1, 4, 4);
  EXPECT_IDS(model, "\xC3\xA9\xC3\xA9", 6, 7);
  EXPECT_IDS(model,
             "\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9", 6,
             7, 7, 7, 7, 7, 7, 7, 7, 7);
  EXPECT_IDS(model, "unaaaaaaaaa", 0); /* 11 characters */
  expect_ids(model, text_of(""), NULL, 0);
  model->destroy(model);
  options.unknown_id = VOCAB_NONE;
  options.continuing_prefix = text_of("@@");
  assert_null(wordpiece_create(vocab, &options, &model));
  EXPECT_IDS(model, "able", 5);
  expect_no_ids(model, "unable", "the vocabulary lacks \"unable\" and an unknown token");
  model->destroy(model);
  vocab_destroy(vocab);
}

static void test_words(void **state) {
  (void)state;
  vocab *vocab = VOCAB_OF("<unk>", "a", "\xE2\x96\x81",
                          "\xE2\x96\x81"
                          "ab",
                          "<s>");
  const uint8_t kinds[] = {0, 0, 0, 0, PIECE_ADDED};
  word_options options = {.split = true, .kinds = kinds, .unknown = {.fuse = true}};
  token_model *model;
  assert_null(word_create(vocab, &options, &model));
  EXPECT_IDS(model,
             "a\xE2\x96\x81\xE2\x96\x81"
             "ab\xE2\x96\x81x\xE2\x96\x81y\xE2\x96\x81",
             1, 2, 3, 0, 2);
  EXPECT_IDS(model, "<s>", 0);
  model->destroy(model);
  options = (word_options){.unknown.id = VOCAB_NONE};
  assert_null(word_create(vocab, &options, &model));
  EXPECT_IDS(model,
             "\xE2\x96\x81"
             "ab",
             3);
  EXPECT_IDS(model, "<s>", 4);
  expect_no_ids(model, "ab", "the vocabulary lacks \"ab\" and an unknown token");
  model->destroy(model);
  vocab_destroy(vocab);
}

/* ---------------------------------------------------------------- repeated pieces */

static void test_pretoken_cache(void **state) {
  (void)state;
  static const char *const words[] = {"a", "ab", "abab", "aaaaaaaaaaaaaaaaaaaaaaaaaaaab", "b", ""};
  vocab *vocab = VOCAB_OF("a", "b", "ab");
  bpe_options options = {.unknown.id = VOCAB_NONE};
  token_model *model;
  id_list once = {0}, again = {0};
  uint64_t seed = 7;
  assert_null(pretoken_cache_create(10));
  pretoken_cache *cache = pretoken_cache_create(100000);
  assert_non_null(cache);
  assert_null(bpe_create(vocab, &options, &model));
  for (int i = 0; i < 5000; i++) {
    span word = text_of(words[random_below(&seed, 6)]);
    assert_null(pretoken_cache_encode(cache, model, word, &again));
    assert_null(pretoken_cache_encode(NULL, model, word, &once));
  }
  assert_int_equal(once.count, again.count);
  assert_memory_equal(once.items, again.items, once.count * sizeof *once.items);
  id_list_free(&once);
  id_list_free(&again);
  pretoken_cache_destroy(cache);
  model->destroy(model);
  vocab_destroy(vocab);
}

/* Pieces that differ only in the NUL bytes at their end are distinguished. */
static clave_status encode_size(const token_model *model, span piece, id_list *out) {
  (void)model;
  id_list_append(out, (uint32_t)piece.size);
  return out->failed ? status_no_memory() : NULL;
}

static void test_pretoken_cache_of_zeros(void **state) {
  (void)state;
  const token_model model = {.encode = encode_size};
  pretoken_cache *cache = pretoken_cache_create(100000);
  id_list ids = {0};
  assert_non_null(cache);
  for (uint32_t i = 0; i < 60; i++) {
    assert_null(pretoken_cache_encode(cache, &model, (span){"a\0\0\0", 1 + i % 3}, &ids));
    assert_int_equal(ids.items[i], 1 + i % 3);
  }
  id_list_free(&ids);
  pretoken_cache_destroy(cache);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_unigram_definition), cmocka_unit_test(test_unigram_kinds),
      cmocka_unit_test(test_wordpiece),          cmocka_unit_test(test_words),
      cmocka_unit_test(test_pretoken_cache),     cmocka_unit_test(test_pretoken_cache_of_zeros),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
