#ifndef INTERP_TUNE_MEASURE_H
#define INTERP_TUNE_MEASURE_H
/* Measuring the variants of a node. */
#include "interp/tune/operands.h"

/* Measures the variants of one choice of a node. Sets *winner to the index of the fastest, and
 * *ratio to its time divided by that of the lowest-cost variant. Sets *good to the number of
 * variants with right results; 0 if the lowest-cost variant fails or is wrong. The results are
 * invalid if tuner->is_stopped. */
clave_status tune_measure(tuner *tuner, const tune_job *job, tune_node *node,
                          const variant_choice *choice, int *winner, double *ratio,
                          int *good) STATUS_CHECK;

#endif
