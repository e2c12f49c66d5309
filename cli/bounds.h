#ifndef CLI_BOUNDS_H
#define CLI_BOUNDS_H
/* How far apart two right computations of a node's results may be.
 *
 * With rounding, a sum of n terms t_i comes out as sum t_i (1 + e_i), where |e_i| <= c sqrt(n) u
 * but for a probability of exp(-c^2 / 2), whatever the order of the additions (Higham and Mary, A
 * new approach to probabilistic rounding error analysis, SIAM J. Sci. Comput. 41(5), 2019). What
 * such e_i do to a result is measured: the CPU backend computes the node once more from operands
 * that are moved by s last places, up and down at random, and again the other way round, and
 * reach_i is how far that moves element i (small-sample condition estimates: Kenney and Laub, SIAM
 * J. Sci. Comput. 15(1), 1994). s is what OpenCL C allows a function of f32 and f64 (section
 * "relative error as ULPs"), 16; of 16-bit floats, which are computed in f32 and rounded, 2; of
 * 8-bit ones 1; in fast precision, where some kernels round operands to BF16 and others do not,
 * operands of F32 and F16 are moved by 2^-7 of their size, twice of which is more than six
 * deviations of that rounding. So for an element w of a result with n terms, and eps the distance
 * from 1 to the next number of its dtype:
 *
 *   bound = s eps |w| + 2 (1 + sqrt(n) eps(computed) / (s eps)) max(reach, the usual reach)
 *
 * The usual reach, the median of those that moved, is also for elements that did not: constants,
 * which passes may have computed, are not moved. Integers and bools may differ only where they
 * moved, and by as much. */
#include "cli/values.h"

/* How far elements moved in runs on moved operands. All zero: not measured. */
typedef struct reach {
  float *by; /* owned, one per element; infinite: to or from what is no number */
  double usual;
} reach;

typedef struct difference {
  bool found;                    /* beyond the bound */
  uint64_t element;              /* the worst, row-major: beyond its bound by the largest factor */
  double got, expected, allowed; /* of that element */
  double largest;                /* difference of any element; infinite where one is no number */
} difference;

/* Last places that an element of a node's results is moved by: s, and sqrt(n) more. 0: it stays. */
double places_of(clave_dtype type, double terms);
/* Moves the floats of a contiguous tensor; the opposite pattern moves each the other way. */
void move_elements(const clave_tensor *tensor, double places, bool opposite);

/* Adds how far `moved` is from `from`. False: out of memory. */
bool widen_reach(reach *reach, const clave_tensor *from, const clave_tensor *moved);
void free_reach(reach *reach);

bool same_form(const clave_tensor *left, const clave_tensor *right); /* dtype and dims */
/* Of the same form. terms: n; factor: of the reach, 2 for one node. */
difference compare_tensors(const clave_tensor *got, const clave_tensor *expected,
                           const reach *reach, double terms, double factor);
/* NaN equals NaN, of any bits. */
bool same_elements(const clave_tensor *left, const clave_tensor *right);

#endif
