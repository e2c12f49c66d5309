/* Decides by the ratio of a variant's time to the base's time in the same round: by the median of
 * these ratios, and by how many rounds agree. */
#include "interp/tune/contest.h"

#include <stdlib.h>
#include <string.h>

static const double WIN_RATIO = 0.97; /* a variant with a higher ratio does not win */
static const double MAX_RATIO = 1.3;  /* a variant with a higher ratio is out after FIRST_ROUNDS */
enum { FIRST_ROUNDS = 3 };

void contest_begin(contest *contest, int n, int base) {
  memset(contest, 0, sizeof *contest);
  contest->n = n;
  contest->base = base;
}

static int contest_compare(const void *left, const void *right) {
  const double *a = left, *b = right;
  return (*a > *b) - (*a < *b);
}

/* Returns the quantile `share` of the ratios of variant i. */
static double ratio_at(const contest *contest, int i, double share) {
  double ratios[CONTEST_MAX];
  int n = contest->rounds;
  if (n == 0) return 1;
  for (int k = 0; k < n; k++) {
    double base = contest->times[contest->base][k];
    ratios[k] = base > 0 ? contest->times[i][k] / base : 1;
  }
  qsort(ratios, (size_t)n, sizeof *ratios, contest_compare);
  return ratios[(int)(share * (n - 1) + 0.5)];
}

static double median(const contest *contest, int i) { return ratio_at(contest, i, 0.5); }

/* True if the variant is faster and nearly all rounds agree. */
static bool wins(const contest *contest, int i) {
  return median(contest, i) < WIN_RATIO && ratio_at(contest, i, 0.85) < 1;
}
static bool loses(const contest *contest, int i) { return ratio_at(contest, i, 0.25) >= WIN_RATIO; }

static bool contest_is_open(const contest *contest, int i) {
  return i != contest->base && !contest->is_out[i];
}

void contest_end_round(contest *contest) {
  contest->rounds++;
  for (int i = 0; i < contest->n && contest->rounds >= FIRST_ROUNDS; i++)
    if (contest_is_open(contest, i) && median(contest, i) > MAX_RATIO) contest->is_out[i] = true;
}

bool contest_is_decided(const contest *contest) {
  int open = 0;
  if (contest->rounds == CONTEST_MAX) return true;
  for (int i = 0; i < contest->n; i++) {
    if (!contest_is_open(contest, i)) continue;
    open++;
    if (contest->rounds < CONTEST_MIN || (!wins(contest, i) && !loses(contest, i))) return false;
  }
  return open == 0 || contest->rounds >= CONTEST_MIN;
}

int contest_winner(const contest *contest, double *ratio) {
  int best = contest->base;
  *ratio = 1;
  for (int i = 0; i < contest->n && contest->rounds >= CONTEST_MIN; i++) {
    if (!contest_is_open(contest, i) || !wins(contest, i) || median(contest, i) >= *ratio) continue;
    best = i;
    *ratio = median(contest, i);
  }
  return best;
}
