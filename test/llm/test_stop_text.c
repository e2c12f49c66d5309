/* Compares stop texts, found in random pieces of random texts, with a search in the whole text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "llm/stop_text.h"

enum { TEXT = 24, STOPS = 3, STOP = 5, ROUNDS = 20000 };

static unsigned number;
static size_t below(size_t n) {
  number = number * 1664525U + 1013904223U;
  return (number >> 8) % n;
}

static void fill(char *text, size_t n) {
  for (size_t i = 0; i < n; i++) text[i] = "ab"[below(2)];
}

/* Returns the length of the text to emit: n, or up to the (longest) stop text that ends first. */
static size_t find_end(const char *text, size_t n, const span *stops, size_t n_stops) {
  for (size_t end = 1; end <= n; end++) {
    size_t longest = 0;
    for (size_t i = 0; i < n_stops; i++) {
      size_t size = stops[i].size;
      if (size <= end && !memcmp(text + end - size, stops[i].data, size) && size > longest)
        longest = size;
    }
    if (longest) return end - longest;
  }
  return n;
}

static bool may_begin(const char *text, size_t n, const span *stops, size_t n_stops) {
  for (size_t i = 0; i < n_stops; i++) {
    if (n < stops[i].size && !memcmp(text, stops[i].data, n)) return true;
  }
  return false;
}

/* Checks that no more text is held than the longest suffix that may begin a stop text. */
static void check_held(const char *text, size_t n, const span *stops, size_t n_stops, size_t held) {
  size_t longest = 0;
  for (size_t k = 1; k <= n; k++) {
    if (may_begin(text + n - k, k, stops, n_stops)) longest = k;
  }
  assert_int_equal(held, longest);
}

static void run(const char *text, size_t n, const span *stops, size_t n_stops) {
  stop_text stop_text = {.stops = stops, .n_stops = n_stops};
  char given[TEXT];
  size_t at = 0, n_given = 0, want = find_end(text, n, stops, n_stops);
  bool found = false, end = false;
  while (!found && !end) {
    size_t piece = below(4);
    if (piece > n - at) piece = n - at;
    end = at + piece == n && below(2);
    clave_status st = stop_text_add(&stop_text, text + at, piece, end, &found);
    assert_null(st);
    memcpy(given + n_given, stop_text.released.data ? stop_text.released.data : "",
           stop_text.released.size);
    n_given += stop_text.released.size;
    at += piece;
    if (!found && !end) check_held(text, at, stops, n_stops, stop_text.held.size);
  }
  assert_int_equal(found, want < n);
  assert_int_equal(n_given, want);
  assert_memory_equal(given, text, want);
  assert_int_equal(stop_text.held.size, 0);
  stop_text_free(&stop_text);
}

static void test_random(void **state) {
  (void)state;
  for (int r = 0; r < ROUNDS; r++) {
    char text[TEXT], letters[STOPS][STOP];
    span stops[STOPS];
    size_t n = below(TEXT + 1), n_stops = below(STOPS + 1);
    fill(text, n);
    for (size_t i = 0; i < n_stops; i++) {
      stops[i] = (span){letters[i], 1 + below(STOP)};
      fill(letters[i], STOP);
    }
    run(text, n, stops, n_stops);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_random)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
