#ifndef INTERP_TUNE_MEASURE_H
#define INTERP_TUNE_MEASURE_H
/* Measuring the variants of a node. */
#include "interp/tune/operands.h"

/* Measures one choice of a node, the recordings of which `choice` describes. *winner: its index;
 * *ratio: how much of the time by rule it takes. *good: how many gave right results; 0: the rule's
 * does not, or fails. Void where tuner->is_stopped. */
clave_status tune_measure(tuner *tuner, const tune_job *job, tune_node *node,
                          const variant_choice *choice, int *winner, double *ratio,
                          int *good) STATUS_CHECK;

#endif
