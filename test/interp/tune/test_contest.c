/* The rule that decides a contest, on simulated times with noise. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "interp/tune/contest.h"

/* Returns a factor of noise like that of a loaded machine: mostly a few percent, at times much
 * more. */
static double noise(unsigned *seed, double most) {
  *seed = *seed * 1103515245u + 12345u;
  return most * (double)(*seed >> 8 & 0xffff) / 65536;
}

/* Holds a contest of candidates with these true times. Returns the winner. */
static int hold(const double *times, int n, int base, double loud, unsigned seed, contest *contest,
                double *ratio) {
  contest_begin(contest, n, base);
  while (!contest_is_decided(contest)) {
    double round = 1 + noise(&seed, 4 * loud); /* noise common to all */
    for (int i = 0; i < n; i++)
      if (!contest->is_out[i])
        contest->times[i][contest->rounds] = times[i] * round * (1 + noise(&seed, loud));
    contest_end_round(contest);
    assert_true(contest->rounds <= CONTEST_MAX);
  }
  return contest_winner(contest, ratio);
}

static void test_winner(void **state) {
  (void)state;
  static contest contest;
  double ratio;
  const double times[] = {100, 140, 80, 90};
  for (unsigned seed = 0; seed < 50; seed++) {
    assert_int_equal(hold(times, 4, 0, 0.05, seed, &contest, &ratio), 2);
    assert_true(ratio > 0.75 && ratio < 0.86);
  }
}

/* A candidate that is as fast, or faster by less than the margin, does not win: hardly ever among
 * many by luck, and never if the times are equal. */
static void test_no_winner(void **state) {
  (void)state;
  static contest contest;
  double ratio;
  const double equal[] = {100, 100, 100, 100, 100, 100, 100, 100},
               nearly[] = {100, 98.5, 99, 101, 99.5, 98.5};
  int won = 0;
  for (unsigned seed = 0; seed < 200; seed++) {
    assert_int_equal(hold(equal, 8, 3, 0, seed, &contest, &ratio), 3);
    won += hold(equal, 8, 3, 0.1, seed, &contest, &ratio) != 3;
    won += hold(nearly, 6, 0, 0.02, seed, &contest, &ratio) != 0;
  }
  assert_true(won < 40);
}

/* A machine that slows down between rounds changes nothing: times are compared within a round. */
static void test_drift(void **state) {
  (void)state;
  static contest contest;
  double ratio;
  contest_begin(&contest, 2, 0);
  while (!contest_is_decided(&contest)) {
    double slow = contest.rounds < 4 ? 1 : 3;
    contest.times[0][contest.rounds] = 100 * slow;
    contest.times[1][contest.rounds] = 90 * slow;
    contest_end_round(&contest);
  }
  assert_int_equal(contest_winner(&contest, &ratio), 1);
  assert_true(fabs(ratio - 0.9) < 1e-9);
}

/* One outlier decides nothing. */
static void test_outlier(void **state) {
  (void)state;
  static contest contest;
  double ratio;
  contest_begin(&contest, 2, 0);
  while (!contest_is_decided(&contest)) {
    contest.times[0][contest.rounds] = contest.rounds == 2 ? 1000 : 100;
    contest.times[1][contest.rounds] = contest.rounds == 5 ? 10 : 100;
    contest_end_round(&contest);
  }
  assert_int_equal(contest.rounds, CONTEST_MIN);
  assert_int_equal(contest_winner(&contest, &ratio), 0);
}

/* A candidate that is faster in most rounds, but slower in a third of them, does not win. */
static void test_disagreement(void **state) {
  (void)state;
  static contest contest;
  double ratio;
  contest_begin(&contest, 2, 0);
  while (!contest_is_decided(&contest)) {
    contest.times[0][contest.rounds] = 100;
    contest.times[1][contest.rounds] = contest.rounds % 3 ? 90 : 110;
    contest_end_round(&contest);
  }
  assert_int_equal(contest.rounds, CONTEST_MAX);
  assert_int_equal(contest_winner(&contest, &ratio), 0);
}

static void test_behind(void **state) {
  (void)state;
  static contest contest;
  double ratio;
  const double times[] = {100, 500, 101};
  assert_int_equal(hold(times, 3, 0, 0.01, 1, &contest, &ratio), 0);
  assert_true(contest.is_out[1]);
  assert_false(contest.is_out[0]);
  assert_false(contest.is_out[2]);
  contest_begin(&contest, 2, 0); /* nobody else can run */
  contest.is_out[1] = true;
  assert_true(contest_is_decided(&contest));
  assert_int_equal(contest_winner(&contest, &ratio), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_winner), cmocka_unit_test(test_no_winner),
      cmocka_unit_test(test_drift),  cmocka_unit_test(test_outlier),
      cmocka_unit_test(test_behind), cmocka_unit_test(test_disagreement),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
