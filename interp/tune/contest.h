#ifndef INTERP_CONTEST_H
#define INTERP_CONTEST_H
/* Finds the fastest of several variants. Each round measures every variant once, and times are
 * compared within a round, so that other load on the machine affects all variants alike. */
#include <stdbool.h>

#include "base/tuning.h"

enum { CONTEST_MIN = 9, CONTEST_MAX = 25 }; /* rounds */

typedef struct contest {
  int n, base;               /* the variant that wins unless another is faster by more than noise */
  int rounds;                /* completed rounds */
  bool is_out[MAX_VARIANTS]; /* no longer measured: much slower, or cannot run */
  double times[MAX_VARIANTS][CONTEST_MAX];
} contest;

void contest_begin(contest *contest, int n, int base);
/* Call this when `times` has the times of this round for all variants that are not out. */
void contest_end_round(contest *contest);
/* True if more rounds would not change the winner, or the maximum is reached. */
bool contest_is_decided(const contest *contest);
/* Returns the winner. Sets *ratio to its time divided by that of base. */
int contest_winner(const contest *contest, double *ratio);

#endif
