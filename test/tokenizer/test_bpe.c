/* Compares BPE with its definition: join the leftmost of the best pairs until no pair is left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "test/tokenizer/random.h"
#include "test/tokenizer/vocab_of.h"

enum { LETTERS = 10, N_PIECES = 80, LONGEST = 400 };

/* ---------------------------------------------------------------- the definition */

static uint32_t result_of(const vocab *vocab, const bpe_merge *merges, const float *scores,
                          uint32_t l, uint32_t r, double *rank) {
  char joined[2 * LONGEST];
  span range = vocab_piece(vocab, l), b = vocab_piece(vocab, r);
  for (uint32_t i = 0; merges && i < N_PIECES - LETTERS; i++) {
    *rank = i;
    if (merges[i].left == l && merges[i].right == r) return merges[i].result;
  }
  if (merges) return VOCAB_NONE;
  memcpy(joined, range.data, range.size);
  memcpy(joined + range.size, b.data, b.size);
  uint32_t id = vocab_find(vocab, (span){joined, range.size + b.size});
  if (id != VOCAB_NONE) *rank = scores ? -(double)scores[id] : id;
  return id;
}

static size_t naive(const vocab *vocab, const bpe_merge *merges, const float *scores, span range,
                    uint32_t *ids) {
  size_t n = range.size;
  for (size_t i = 0; i < n; i++) ids[i] = vocab_find(vocab, (span){range.data + i, 1});
  for (;;) {
    double best = 1e30, rank;
    size_t at = n;
    uint32_t result = 0;
    for (size_t i = 0; i + 1 < n; i++) {
      uint32_t id = result_of(vocab, merges, scores, ids[i], ids[i + 1], &rank);
      if (id == VOCAB_NONE || rank >= best) continue;
      best = rank;
      at = i;
      result = id;
    }
    if (at == n) return n;
    ids[at] = result;
    memmove(ids + at + 1, ids + at + 2, (n - at - 2) * sizeof *ids);
    n--;
  }
}

/* Returns a vocabulary of letters and of joined pieces; merge i makes joined piece i. */
static vocab *random_vocab(uint64_t *seed, bpe_merge *merges, float *scores) {
  vocab *vocab;
  assert_null(vocab_create(N_PIECES, &vocab));
  for (uint32_t id = 0; id < N_PIECES; id++) {
    char bytes[2 * LONGEST] = {(char)('a' + id)};
    span piece = {bytes, 1};
    while (id >= LETTERS) {
      bpe_merge merge = {random_below(seed, id), random_below(seed, id), id};
      span left = vocab_piece(vocab, merge.left), right = vocab_piece(vocab, merge.right);
      if (left.size + right.size > 40) continue;
      memcpy(bytes, left.data, left.size);
      memcpy(bytes + left.size, right.data, right.size);
      piece.size = left.size + right.size;
      merges[id - LETTERS] = merge;
      if (vocab_find(vocab, piece) == VOCAB_NONE) break;
    }
    assert_null(vocab_add(vocab, id, piece, NULL));
    scores[id] = (float)random_below(seed, 30) - 20; /* has ties, and is not ordered by id */
  }
  return vocab;
}

static void compare(const vocab *vocab, const bpe_options *options, uint64_t *seed) {
  static uint32_t want[LONGEST];
  char s[LONGEST];
  token_model *model;
  assert_null(bpe_create(vocab, options, &model));
  for (int round = 0; round < 150; round++) {
    span in = {s, random_below(seed, round % 3 ? 70 : LONGEST)};
    for (size_t i = 0; i < in.size; i++)
      s[i] = (char)('a' + random_below(seed, round % 5 ? LETTERS : 3));
    expect_ids(model, in, want, naive(vocab, options->merges, options->scores, in, want));
  }
  model->destroy(model);
}

static void test_definition(void **state) {
  (void)state;
  uint64_t seed = 1;
  for (int round = 0; round < 12; round++) {
    bpe_merge merges[N_PIECES];
    float scores[N_PIECES];
    vocab *vocab = random_vocab(&seed, merges, scores);
    bpe_options options = {.unknown.id = VOCAB_NONE};
    if (round % 3 == 0) options.merges = merges;
    if (round % 3 == 1) options.scores = scores;
    if (round % 2 == 0) options.symbols = BPE_BYTES;
    options.n_merges = N_PIECES - LETTERS;
    compare(vocab, &options, &seed);
    vocab_destroy(vocab);
  }
}

/* ---------------------------------------------------------------- options */

static void test_unknown(void **state) {
  (void)state;
  vocab *vocab = VOCAB_OF("<unk>", "a", "b", "ab", "B0", "B1");
  uint32_t byte_ids[256];
  memset(byte_ids, 0xFF, sizeof byte_ids);
  byte_ids['0'] = 4;
  byte_ids['1'] = 5;
  const bpe_merge merges[] = {{1, 2, 3}};
  for (int by_bytes = 0; by_bytes < 2; by_bytes++) {
    bpe_options options = {.merges = by_bytes ? NULL : merges, .n_merges = 1};
    token_model *model;
    assert_null(bpe_create(vocab, &options, &model));
    EXPECT_IDS(model, "abxya\xC3\xA9z", 3, 0, 0, 1, 0, 0);
    model->destroy(model);
    options.unknown.fuse = true;
    assert_null(bpe_create(vocab, &options, &model));
    EXPECT_IDS(model, "xxabxya\xC3\xA9z", 0, 3, 0, 1, 0);
    model->destroy(model);
    options.unknown.byte_ids = byte_ids;
    assert_null(bpe_create(vocab, &options, &model));
    EXPECT_IDS(model, "01abxya1", 4, 5, 3, 0, 1, 5);
    model->destroy(model);
    options.unknown = (unknown_rule){.id = VOCAB_NONE};
    assert_null(bpe_create(vocab, &options, &model));
    EXPECT_IDS(model, "xabyb", 3, 2);
    model->destroy(model);
  }
  vocab_destroy(vocab);
}

static void test_prefix_and_suffix(void **state) {
  (void)state;
  vocab *vocab = VOCAB_OF("a", "#b", "#c", "#b$", "#bc", "a$", "abb$");
  const bpe_merge merges[] = {{1, 2, 4}, {0, 4, 6}};
  bpe_options options = {.merges = merges,
                         .n_merges = 2,
                         .continuing_prefix = text_of("#"),
                         .word_suffix = text_of("$"),
                         .unknown.id = VOCAB_NONE};
  token_model *model;
  assert_null(bpe_create(vocab, &options, &model));
  EXPECT_IDS(model, "a", 5);
  EXPECT_IDS(model, "abcb", 6, 3);
  EXPECT_IDS(model, "bbcb", 4, 3);
  model->destroy(model);
  vocab_destroy(vocab);
}

static void test_whole_first(void **state) {
  (void)state;
  vocab *vocab = VOCAB_OF("a", "b", "c", "abc", "<s>");
  const uint8_t kinds[] = {0, 0, 0, 0, PIECE_ADDED};
  bpe_options options = {.whole_first = true, .unknown.id = VOCAB_NONE, .kinds = kinds};
  token_model *model;
  assert_null(bpe_create(vocab, &options, &model));
  EXPECT_IDS(model, "abc", 3);
  EXPECT_IDS(model, "abcc", 0, 1, 2, 2);
  expect_ids(model, text_of("<s>"), NULL, 0);
  expect_ids(model, text_of(""), NULL, 0);
  model->destroy(model);
  vocab_destroy(vocab);
}

/* User-defined pieces are never split or joined. Unused pieces are split into the pieces from which
 * they were merged. */
static void test_kinds(void **state) {
  (void)state;
  vocab *vocab = VOCAB_OF("a", "b", "c", "ab", "abc", "bc", "abcb", "<ab>");
  uint8_t kinds[] = {0, 0, 0, 0, 0, 0, 0, PIECE_USER};
  const float scores[] = {-9, -9, -9, -1, -3, -2, -4, 0};
  bpe_options options = {.scores = scores, .kinds = kinds, .unknown.fuse = true};
  token_model *model;
  assert_null(bpe_create(vocab, &options, &model));
  EXPECT_IDS(model, "abcb<ab>ab", 6, 7, 3);
  model->destroy(model);
  kinds[6] = kinds[4] = PIECE_UNUSED;
  assert_null(bpe_create(vocab, &options, &model));
  EXPECT_IDS(model, "abcb<ab>abc", 3, 2, 1, 7, 3, 2);
  model->destroy(model);
  kinds[3] = PIECE_ADDED;
  assert_null(bpe_create(vocab, &options, &model));
  EXPECT_IDS(model, "abc", 0, 5);
  model->destroy(model);
  vocab_destroy(vocab);
}

static void test_long_word(void **state) {
  (void)state;
  enum { SIZE = 1000000 };
  vocab *vocab = VOCAB_OF("a", "aa", "aaaa", "aaaaaaaa");
  bpe_options options = {.symbols = BPE_BYTES, .unknown.id = VOCAB_NONE};
  token_model *model;
  char *text = malloc(SIZE);
  id_list ids = {0};
  memset(text, 'a', SIZE);
  assert_null(bpe_create(vocab, &options, &model));
  assert_null(model->encode(model, (span){text, SIZE}, &ids));
  assert_int_equal(ids.count, SIZE / 8);
  for (size_t i = 0; i < ids.count; i++) assert_int_equal(ids.items[i], 3);
  id_list_free(&ids);
  model->destroy(model);
  vocab_destroy(vocab);
  free(text);
}

/* A pair whose second part has grown waits for its new rank, in short and in long texts. "xabc" is
 * "xa bc", although a, b was joined before x, a. */
static void test_rank_of_a_grown_pair(void **state) {
  (void)state;
  enum { X, A, B, C, BC, AB, XA, ABC, CX, MOST = 50 };
  vocab *vocab = VOCAB_OF("x", "a", "b", "c", "bc", "ab", "xa", "abc", "cx");
  const bpe_merge merges[] = {{B, C, BC}, {A, B, AB}, {X, A, XA}, {A, BC, ABC}, {C, X, CX}};
  bpe_options options = {.merges = merges, .n_merges = 5, .unknown.id = VOCAB_NONE};
  token_model *model;
  char s[4 * MOST];
  uint32_t want[2 * MOST];
  assert_null(bpe_create(vocab, &options, &model));
  for (size_t n = 0; n < MOST; n++) {
    memcpy(s + 4 * n, "xabc", 4);
    want[2 * n] = XA;
    want[2 * n + 1] = BC;
    expect_ids(model, (span){s, 4 * n + 4}, want, 2 * n + 2);
  }
  model->destroy(model);
  vocab_destroy(vocab);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_definition),
      cmocka_unit_test(test_unknown),
      cmocka_unit_test(test_prefix_and_suffix),
      cmocka_unit_test(test_whole_first),
      cmocka_unit_test(test_kinds),
      cmocka_unit_test(test_long_word),
      cmocka_unit_test(test_rank_of_a_grown_pair),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
