/* Every item is taken exactly once, by any number of threads. Each thread begins with a range of
 * adjacent items. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/ranges.h"
#include "base/threads.h"

enum { MOST = 9, ITEMS = 3000 };

typedef struct taking {
  work_range ranges[MOST];
  int64_t n, n_ranges;
  int visits[ITEMS];
} taking;

static void begin_taking(taking *taking, int64_t n, int64_t n_ranges) {
  memset(taking, 0, sizeof *taking);
  taking->n = n;
  taking->n_ranges = n_ranges;
}

/* Ranges are adjacent, and their sizes differ by 1 at most. */
static void test_parts(void **state) {
  (void)state;
  for (int64_t n = 0; n < 40; n++)
    for (int64_t parts = 1; parts <= MOST; parts++) {
      assert_int_equal(range_begin(n, parts, 0), 0);
      assert_int_equal(range_begin(n, parts, parts), n);
      for (int64_t i = 0; i < parts; i++) {
        const int64_t size = range_begin(n, parts, i + 1) - range_begin(n, parts, i);
        assert_in_range(size, n / parts, n / parts + (n % parts != 0));
      }
    }
}

/* 10 items in 3 ranges (0 to 3, 4 to 6, 7 to 9): a thread takes items from the start of its own
 * range, then from the ends of the others. */
static void test_order(void **state) {
  static const int64_t expected[] = {4, 5, 6, 9, 8, 7, 3, 2, 1, 0};
  taking taking;
  int64_t at = 1, item = -1;
  (void)state;
  begin_taking(&taking, 10, 3);
  for (int i = 0; i < 10; i++) {
    assert_true(ranges_take(taking.ranges, 10, 3, 1, &at, &item));
    assert_int_equal(item, expected[i]);
  }
  assert_false(ranges_take(taking.ranges, 10, 3, 1, &at, &item));
  at = 0;
  assert_false(ranges_take(taking.ranges, 10, 3, 0, &at, &item));
}

/* Two threads that take in turns meet within the range of one. */
static void test_turns(void **state) {
  taking taking;
  int64_t at[2] = {0, 1}, item = -1;
  (void)state;
  begin_taking(&taking, 7, 2);
  for (int i = 0; i < 2; i++) { /* the owner takes 4 and 5, the other thread 6 and 3 */
    assert_true(ranges_take(taking.ranges, 7, 2, 1, &at[1], &item));
    assert_int_equal(item, 4 + i);
  }
  static const int64_t first[] = {0, 1, 2, 3, 6};
  for (int i = 0; i < 5; i++) {
    assert_true(ranges_take(taking.ranges, 7, 2, 0, &at[0], &item));
    assert_int_equal(item, first[i]);
  }
  assert_false(ranges_take(taking.ranges, 7, 2, 1, &at[1], &item));
}

static void take_all(void *ctx, int64_t begin, int64_t end) {
  taking *taking = ctx;
  for (int64_t own = begin; own < end; own++)
    for (int64_t at = own, item;
         ranges_take(taking->ranges, taking->n, taking->n_ranges, own, &at, &item);)
      __atomic_fetch_add(&taking->visits[item], 1, __ATOMIC_RELAXED);
}

static void test_threads(void **state) {
  (void)state;
  thread_pool *pool;
  taking taking;
  assert_null(thread_pool_create(4, &pool));
  for (int round = 0; round < 200; round++) {
    begin_taking(&taking, round < 100 ? ITEMS : round - 100, 1 + round % MOST);
    thread_pool_for(pool, taking.n_ranges, 1, take_all, &taking);
    for (int64_t i = 0; i < ITEMS; i++) assert_int_equal(taking.visits[i], i < taking.n);
  }
  thread_pool_destroy(pool);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_parts), cmocka_unit_test(test_order),
                                     cmocka_unit_test(test_turns), cmocka_unit_test(test_threads)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
