/* Few words are sorted as runs, which are then merged two by two. Many words are sorted by digits
 * of 8 bits, the lowest first (LSD radix sort). A digit that all words share is only counted. */
#include "backend/cpu/kernels/sort_words.h"

#include <string.h>

#include "base/counts.h"

enum { RUN = 16, MAX_MERGED = 112, DIGIT_BITS = 8 };

static uint32_t high_half(uint64_t word) { return (uint32_t)(word >> 32); }

/* ---------------------------------------------------------------- merging */

/* Sorts a run. A word's position is the number of words before it: all pairs are compared, without
 * branches. */
static void rank_run(const uint64_t *from, int64_t n, uint64_t *to) {
  uint32_t keys[RUN], ranks[RUN] = {0};
  for (int64_t i = 0; i < RUN; i++) keys[i] = i < n ? high_half(from[i]) : UINT32_MAX;
#pragma GCC unroll 16
  for (int i = 0; i < RUN; i++) {
    for (int j = 0; j < i; j++) ranks[j] += keys[i] < keys[j];
    for (int j = i + 1; j < RUN; j++) ranks[j] += keys[i] <= keys[j];
  }
  for (int64_t i = 0; i < n; i++) to[ranks[i]] = from[i];
}

/* Merges the sorted a and b, which are contiguous. */
static void merge_two(const uint64_t *a, int64_t n_a, int64_t n_b, uint64_t *to) {
  const uint64_t *end_a = a + n_a, *b = end_a, *end_b = b + n_b;
  while (a < end_a && b < end_b) {
    const uint64_t first = *a, second = *b,
                   take = high_half(second) < high_half(first); /* selected without a branch */
    *to++ = first ^ ((first ^ second) & (0 - take));
    a += 1 - take;
    b += take;
  }
  memcpy(to, a, (size_t)(end_a - a) * sizeof *a);
  memcpy(to + (end_a - a), b, (size_t)(end_b - b) * sizeof *b);
}

static uint64_t *merge_sort(uint64_t *a, uint64_t *b, int64_t n) {
  for (int64_t i = 0; i < n; i += RUN) rank_run(a + i, min_i64(RUN, n - i), b + i);
  uint64_t *swap = a;
  a = b;
  b = swap;
  for (int64_t length = RUN; length < n; length *= 2) {
    for (int64_t i = 0; i < n; i += 2 * length) {
      const int64_t n_a = min_i64(length, n - i);
      merge_two(a + i, n_a, min_i64(length, n - i - n_a), b + i);
    }
    swap = a;
    a = b;
    b = swap;
  }
  return a;
}

/* ---------------------------------------------------------------- digits */

typedef struct digit_pass {
  const uint64_t *from;
  uint64_t *to;
  int64_t n, shares;
  int shift;        /* bit of the word at which the digit begins */
  uint32_t *counts; /* (shares, SORT_DIGITS): words of a share with a digit; then their places */
} digit_pass;

static int64_t sort_words_share_begin(const digit_pass *pass, int64_t share) {
  return share_begin(pass->n, pass->shares, share);
}

static int sort_words_digit_of(uint64_t word, int shift) {
  return (int)(word >> shift & (SORT_DIGITS - 1));
}

static void sort_words_count_shares(void *ctx, int64_t begin, int64_t end) {
  const digit_pass *pass = ctx;
  for (int64_t share = begin; share < end; share++) {
    uint32_t *counts = pass->counts + share * SORT_DIGITS;
    memset(counts, 0, SORT_DIGITS * sizeof *counts);
    const int64_t stop = sort_words_share_begin(pass, share + 1);
    for (int64_t i = sort_words_share_begin(pass, share); i < stop; i++)
      counts[sort_words_digit_of(pass->from[i], pass->shift)]++;
  }
}

static void move_shares(void *ctx, int64_t begin, int64_t end) {
  const digit_pass *pass = ctx;
  for (int64_t share = begin; share < end; share++) {
    uint32_t *next = pass->counts + share * SORT_DIGITS;
    const int64_t stop = sort_words_share_begin(pass, share + 1);
    for (int64_t i = sort_words_share_begin(pass, share); i < stop; i++) {
      const uint64_t word = pass->from[i];
      pass->to[next[sort_words_digit_of(word, pass->shift)]++] = word;
    }
  }
}

/* Replaces counts by destinations: ordered by digit, then by share. Returns false if all words
 * share a digit. */
static bool place_digits(const digit_pass *pass) {
  uint32_t sum = 0;
  for (int digit = 0; digit < SORT_DIGITS; digit++) {
    const uint32_t before = sum;
    for (int64_t share = 0; share < pass->shares; share++) {
      uint32_t *count = &pass->counts[share * SORT_DIGITS + digit], n = *count;
      *count = sum;
      sum += n;
    }
    if (sum - before == pass->n) return false;
  }
  return true;
}

static void sort_words_run_pass(digit_pass *pass, const sort_pool *pool, kernel_body body) {
  if (pool)
    pool->ctx->parallel_for(pool->ctx->pool, pass->shares, 1, body, pass);
  else
    body(pass, 0, 1);
}

static uint64_t *digit_sort(uint64_t *a, uint64_t *b, int64_t n, const sort_pool *pool) {
  uint32_t own[SORT_DIGITS];
  for (int shift = 32; shift < 64; shift += DIGIT_BITS) {
    digit_pass pass = {.from = a,
                       .to = b,
                       .n = n,
                       .shares = pool ? pool->shares : 1,
                       .shift = shift,
                       .counts = pool ? pool->counts : own};
    sort_words_run_pass(&pass, pool, sort_words_count_shares);
    if (!place_digits(&pass)) continue;
    sort_words_run_pass(&pass, pool, move_shares);
    uint64_t *swap = a;
    a = b;
    b = swap;
  }
  return a;
}

uint64_t *sort_words(uint64_t *a, uint64_t *b, int64_t n, const sort_pool *pool) {
  return n <= MAX_MERGED ? merge_sort(a, b, n) : digit_sort(a, b, n, pool);
}
