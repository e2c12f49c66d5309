/* Tests the offset planner against its definition: blocks that are alive together never overlap,
 * chunks respect the limit, the total stays near the lower bound, and the same blocks have the same
 * plan. */
#include <cmocka.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "interp/plan/arena.h"

static uint32_t next_random(uint32_t *sizes) { return *sizes = *sizes * 1664525u + 1013904223u; }

static void fill_blocks(arena_block *blocks, arena_block **list, size_t n, uint32_t seed) {
  for (size_t i = 0; i < n; i++) {
    uint32_t first = next_random(&seed) % 200;
    blocks[i] = (arena_block){.bytes = next_random(&seed) % 5000,
                              .first = first,
                              .last = first + next_random(&seed) % 20};
    if (next_random(&seed) % 20 == 0) blocks[i].last = UINT32_MAX;
    list[i] = &blocks[i];
  }
}

static void check_disjoint(const arena_block *block, size_t n, size_t alignment,
                           const arena_layout *layout) {
  for (size_t i = 0; i < n; i++) {
    assert_true(block[i].chunk < layout->n_chunks);
    assert_true(block[i].offset % alignment == 0);
    assert_true(block[i].offset + block[i].bytes <= layout->chunk_bytes[block[i].chunk]);
    for (size_t k = 0; k < i; k++) {
      bool together = block[i].first <= block[k].last && block[k].first <= block[i].last;
      bool apart = block[i].chunk != block[k].chunk ||
                   block[i].offset + block[i].bytes <= block[k].offset ||
                   block[k].offset + block[k].bytes <= block[i].offset;
      assert_true(!together || apart);
    }
  }
}

static size_t live_peak(const arena_block *block, size_t n) {
  size_t peak = 0;
  for (uint32_t t = 0; t < 240; t++) {
    size_t sum = 0;
    for (size_t i = 0; i < n; i++)
      if (block[i].first <= t && t <= block[i].last) sum += block[i].bytes;
    if (sum > peak) peak = sum;
  }
  return peak;
}

static void test_random_blocks(void **state) {
  (void)state;
  enum { N = 300 };
  static arena_block block[N];
  arena_block *list[N];
  for (uint32_t seed = 0; seed < 30; seed++) {
    arena_layout layout;
    size_t limit = seed % 2 ? 20000 : SIZE_MAX / 2, total = 0;
    fill_blocks(block, list, N, seed);
    assert_null(arena_place(list, N, 64, limit, &layout));
    check_disjoint(block, N, 64, &layout);
    for (uint32_t c = 0; c < layout.n_chunks; c++) {
      assert_true(layout.chunk_bytes[c] <= limit);
      total += layout.chunk_bytes[c];
    }
    assert_true(total <= live_peak(block, N) * 3 / 2 + 64 * N);
    arena_layout_free(&layout);
  }
}

static void test_same_plan_twice(void **state) {
  (void)state;
  enum { N = 100 };
  static arena_block first[N], second[N];
  arena_block *list[N];
  arena_layout layout;
  fill_blocks(first, list, N, 7);
  assert_null(arena_place(list, N, 64, SIZE_MAX / 2, &layout));
  arena_layout_free(&layout);
  fill_blocks(second, list, N, 7);
  assert_null(arena_place(list, N, 64, SIZE_MAX / 2, &layout));
  arena_layout_free(&layout);
  for (size_t i = 0; i < N; i++)
    assert_true(first[i].offset == second[i].offset && first[i].chunk == second[i].chunk);
}

static void test_limits(void **state) {
  (void)state;
  arena_layout layout;
  arena_block big = {.bytes = 1001}, empty = {.bytes = 0};
  arena_block *list[] = {&big}, *nothing[] = {&empty};
  clave_status st = arena_place(list, 1, 1, 1000, &layout);
  assert_int_equal(status_code_of(st), STATUS_NO_MEMORY);
  status_free(st);
  assert_null(arena_place(list, 0, 64, 1000, &layout));
  assert_int_equal(layout.n_chunks, 0);
  assert_null(arena_place(nothing, 1, 64, 1000, &layout));
  arena_layout_free(&layout);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_random_blocks),
      cmocka_unit_test(test_same_plan_twice),
      cmocka_unit_test(test_limits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
