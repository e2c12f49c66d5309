/* The offset planner against its definition: blocks alive together never overlap, chunks respect
 * the limit, the total stays near the lower bound, and the same blocks give the same plan. */
#include <cmocka.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "interp/plan/arena.h"

static uint32_t next_random(uint32_t *s) { return *s = *s * 1664525u + 1013904223u; }

static void fill_blocks(arena_block *b, arena_block **list, size_t n, uint32_t seed) {
  for (size_t i = 0; i < n; i++) {
    uint32_t first = next_random(&seed) % 200;
    b[i] = (arena_block){.bytes = next_random(&seed) % 5000,
                         .first = first,
                         .last = first + next_random(&seed) % 20};
    if (next_random(&seed) % 20 == 0) b[i].last = UINT32_MAX;
    list[i] = &b[i];
  }
}

static void check_disjoint(const arena_block *b, size_t n, size_t alignment,
                           const arena_layout *l) {
  for (size_t i = 0; i < n; i++) {
    assert_true(b[i].chunk < l->n_chunks);
    assert_true(b[i].offset % alignment == 0);
    assert_true(b[i].offset + b[i].bytes <= l->chunk_bytes[b[i].chunk]);
    for (size_t k = 0; k < i; k++) {
      bool together = b[i].first <= b[k].last && b[k].first <= b[i].last;
      bool apart = b[i].chunk != b[k].chunk || b[i].offset + b[i].bytes <= b[k].offset ||
                   b[k].offset + b[k].bytes <= b[i].offset;
      assert_true(!together || apart);
    }
  }
}

static size_t live_peak(const arena_block *b, size_t n) {
  size_t peak = 0;
  for (uint32_t t = 0; t < 240; t++) {
    size_t sum = 0;
    for (size_t i = 0; i < n; i++)
      if (b[i].first <= t && t <= b[i].last) sum += b[i].bytes;
    if (sum > peak) peak = sum;
  }
  return peak;
}

static void test_random_blocks(void **state) {
  (void)state;
  enum { N = 300 };
  static arena_block b[N];
  arena_block *list[N];
  for (uint32_t seed = 0; seed < 30; seed++) {
    arena_layout l;
    size_t limit = seed % 2 ? 20000 : SIZE_MAX / 2, total = 0;
    fill_blocks(b, list, N, seed);
    assert_null(arena_place(list, N, 64, limit, &l));
    check_disjoint(b, N, 64, &l);
    for (uint32_t c = 0; c < l.n_chunks; c++) {
      assert_true(l.chunk_bytes[c] <= limit);
      total += l.chunk_bytes[c];
    }
    assert_true(total <= live_peak(b, N) * 3 / 2 + 64 * N);
    arena_layout_free(&l);
  }
}

static void test_same_plan_twice(void **state) {
  (void)state;
  enum { N = 100 };
  static arena_block a[N], b[N];
  arena_block *list[N];
  arena_layout l;
  fill_blocks(a, list, N, 7);
  assert_null(arena_place(list, N, 64, SIZE_MAX / 2, &l));
  arena_layout_free(&l);
  fill_blocks(b, list, N, 7);
  assert_null(arena_place(list, N, 64, SIZE_MAX / 2, &l));
  arena_layout_free(&l);
  for (size_t i = 0; i < N; i++)
    assert_true(a[i].offset == b[i].offset && a[i].chunk == b[i].chunk);
}

static void test_limits(void **state) {
  (void)state;
  arena_layout l;
  arena_block big = {.bytes = 1001}, empty = {.bytes = 0};
  arena_block *list[] = {&big}, *nothing[] = {&empty};
  clave_status st = arena_place(list, 1, 1, 1000, &l);
  assert_int_equal(status_code_of(st), STATUS_NO_MEMORY);
  status_free(st);
  assert_null(arena_place(list, 0, 64, 1000, &l));
  assert_int_equal(l.n_chunks, 0);
  assert_null(arena_place(nothing, 1, 64, 1000, &l));
  arena_layout_free(&l);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_random_blocks),
      cmocka_unit_test(test_same_plan_twice),
      cmocka_unit_test(test_limits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
