/* The rule against noise: by ratios to the base in the same round, their median and how many of
 * them agree. */
#include "interp/tune/contest.h"

#include <stdlib.h>
#include <string.h>

static const double MARGIN = 0.97; /* what is not faster than so is no gain */
static const double BEHIND = 1.3;  /* what is slower than so is out after FIRST_ROUNDS */
enum { FIRST_ROUNDS = 3 };

void contest_begin(contest *c, int n, int base) {
  memset(c, 0, sizeof *c);
  c->n = n;
  c->base = base;
}

static int compare(const void *a, const void *b) {
  const double *x = a, *y = b;
  return (*x > *y) - (*x < *y);
}

/* The ratio that `share` of the rounds are below. */
static double ratio_at(const contest *c, int i, double share) {
  double ratios[CONTEST_MOST];
  int n = c->rounds;
  if (n == 0) return 1;
  for (int k = 0; k < n; k++) {
    double base = c->times[c->base][k];
    ratios[k] = base > 0 ? c->times[i][k] / base : 1;
  }
  qsort(ratios, (size_t)n, sizeof *ratios, compare);
  return ratios[(int)(share * (n - 1) + 0.5)];
}

static double median(const contest *c, int i) { return ratio_at(c, i, 0.5); }

/* Nearly all rounds agree. */
static bool wins(const contest *c, int i) {
  return median(c, i) < MARGIN && ratio_at(c, i, 0.85) < 1;
}
static bool loses(const contest *c, int i) { return ratio_at(c, i, 0.25) >= MARGIN; }

static bool is_open(const contest *c, int i) { return i != c->base && !c->is_out[i]; }

void contest_end_round(contest *c) {
  c->rounds++;
  for (int i = 0; i < c->n && c->rounds >= FIRST_ROUNDS; i++)
    if (is_open(c, i) && median(c, i) > BEHIND) c->is_out[i] = true;
}

bool contest_is_decided(const contest *c) {
  int open = 0;
  if (c->rounds == CONTEST_MOST) return true;
  for (int i = 0; i < c->n; i++) {
    if (!is_open(c, i)) continue;
    open++;
    if (c->rounds < CONTEST_LEAST || (!wins(c, i) && !loses(c, i))) return false;
  }
  return open == 0 || c->rounds >= CONTEST_LEAST;
}

int contest_winner(const contest *c, double *ratio) {
  int best = c->base;
  *ratio = 1;
  for (int i = 0; i < c->n && c->rounds >= CONTEST_LEAST; i++) {
    if (!is_open(c, i) || !wins(c, i) || median(c, i) >= *ratio) continue;
    best = i;
    *ratio = median(c, i);
  }
  return best;
}
