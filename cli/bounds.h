#ifndef CLI_BOUNDS_H
#define CLI_BOUNDS_H
/* The bound on the difference of two correct computations of a node's results.
 *
 * With rounding, a sum of n terms t_i is computed as sum t_i (1 + e_i). For any order of additions,
 * |e_i| <= c sqrt(n) u except with a probability of exp(-c^2 / 2) (Higham and Mary, A new approach
 * to probabilistic rounding error analysis, SIAM J. Sci. Comput. 41(5), 2019).
 *
 * The effect of such e_i on a result is measured. The CPU backend computes the node again from
 * operands that are perturbed by s last places, up and down at random, and once more in the
 * opposite directions. reach_i is the resulting change of element i (small-sample condition
 * estimates: Kenney and Laub, SIAM J. Sci. Comput. 15(1), 1994).
 *
 * s is 16 for f32 and f64, the error that OpenCL C allows functions (section "relative error as
 * ULPs"); 2 for 16-bit floats, which are computed in f32 and rounded; and 1 for 8-bit floats. In
 * fast precision, where only some kernels round operands to BF16, operands of F32 and F16 are
 * perturbed by 2^-7 of their size; twice this exceeds six standard deviations of the rounding.
 * For an element w of a result with n terms, and eps the distance from 1 to the next number:
 *
 *   bound = s eps |w| + 2 (1 + sqrt(n) eps(computed) / (s eps)) max(reach, the usual reach)
 *
 * The usual reach is the median of the elements that moved. It also covers elements that did not
 * move, because constants, which passes may have computed, are not perturbed. Integers and bools
 * may differ only where they moved, and by as much. */
#include "cli/values.h"

/* The changes of results in the runs on perturbed operands. All zero if they were not measured. */
typedef struct reach {
  float *by; /* owned, one per element; infinite if one of the two values is not finite */
  double usual;
} reach;

typedef struct difference {
  bool found;                    /* some element is beyond the bound */
  uint64_t element;              /* the worst, row-major: exceeds its bound by the largest factor */
  double got, expected, allowed; /* values of that element */
  double largest; /* largest difference of all elements; infinite if one of two is NaN */
} difference;

/* Returns the last places by which elements are perturbed: s, plus a share for the sum of `terms`
 * terms. Returns 0 for dtypes that are not perturbed. */
double places_of(clave_dtype type, double terms);
/* Perturbs the floats of a contiguous tensor at random; `opposite` reverses every direction. */
void bounds_move_elements(const clave_tensor *tensor, double places, bool opposite);

/* Raises the reach to the distance of `moved` from `from`. Returns false if out of memory. */
bool widen_reach(reach *reach, const clave_tensor *from, const clave_tensor *moved);
void free_reach(reach *reach);

bool same_shape(const clave_tensor *left, const clave_tensor *right); /* equal dtype and dims */
/* Compares tensors of the same dtype and dims. terms: n; factor: scales the reach, 2 for one node.
 */
difference compare_tensors(const clave_tensor *got, const clave_tensor *expected,
                           const reach *reach, double terms, double factor);
/* True if all elements are equal bit for bit, where any NaN equals any other. */
bool same_elements(const clave_tensor *left, const clave_tensor *right);

#endif
