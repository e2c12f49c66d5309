#ifndef INTERP_CONTEST_H
#define INTERP_CONTEST_H
/* Finds the fastest of several variants. Each round measures every variant once, so that other load
 * on the machine affects all alike, and times are compared within a round. */
#include <stdbool.h>

#include "base/tuning.h"

enum { CONTEST_LEAST = 9, CONTEST_MOST = 25 }; /* rounds */

typedef struct contest {
  int n, base; /* the variant that wins unless another is faster by more than noise */
  int rounds;  /* completed rounds */
  bool is_out[MOST_VARIANTS]; /* no longer measured: much slower, or cannot run */
  double times[MOST_VARIANTS][CONTEST_MOST];
} contest;

void contest_begin(contest *contest, int n, int base);
/* Call when the times of this round of all variants that are not out are in `times`. */
void contest_end_round(contest *contest);
/* True if more rounds would not change the winner, or the maximum is reached. */
bool contest_is_decided(const contest *contest);
/* Returns the winner. Sets *ratio to its time divided by that of base. */
int contest_winner(const contest *contest, double *ratio);

#endif
