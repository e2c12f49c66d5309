#ifndef INTERP_CONTEST_H
#define INTERP_CONTEST_H
/* Which of several takes the least time, from measurements in turns: every round has one of each,
 * so that what else the machine does meets all alike, and times are compared within their round. */
#include <stdbool.h>

#include "base/tuning.h"

enum { CONTEST_LEAST = 9, CONTEST_MOST = 25 }; /* rounds */

typedef struct contest {
  int n, base;                /* the one that wins unless another is faster by more than noise */
  int rounds;                 /* that are whole */
  bool is_out[MOST_VARIANTS]; /* far behind, or cannot run: not measured any more */
  double times[MOST_VARIANTS][CONTEST_MOST];
} contest;

void contest_begin(contest *contest, int n, int base);
/* The round's times of all that are not out are there. */
void contest_end_round(contest *contest);
/* No more rounds would change who wins, or there were enough. */
bool contest_is_decided(const contest *contest);
/* *ratio: its time to that of base. */
int contest_winner(const contest *contest, double *ratio);

#endif
