#ifndef OPS_MATMUL_H
#define OPS_MATMUL_H
/* Products of matrices:
 *   out[z][m][n] = alpha * sum_k a[z][m][k] * b[z][k][n] + beta * bias[z][m][n] */
#include "ops/node.h"

/* out is contiguous. Batches over which b does not change are rows of one product where a and the
 * bias go on in equal steps; a product with one column is that of the transposed operands, with one
 * row. */
typedef struct matmul_form {
  const bound_tensor *a, *b, *bias, *out; /* bias: NULL where beta is 0, too */
  dtype type;                             /* of a, bias and out in the program */
  int64_t m, n, k;
  int64_t a_m, a_k, b_k, b_n, bias_m, bias_n; /* strides in elements */
  tensor batch_a, batch_b, batch_bias;        /* leading dimensions, collapsed together */
  int64_t batches;
  double alpha, beta;
} matmul_form;
void describe_matmul(const node *node, matmul_form *desc);
/* Fewer products in a sum keep their digits where fewer digits would do, as outer products, of
 * positions and frequencies say: they are no faster. */
enum { LEAST_ROUNDED_K = 16 };
/* Whether a and b may be rounded to BF16 there: floats up to F32. */
bool matmul_may_round(const matmul_form *desc);

/* out[t][n] = sum_k a[t][k] * b[e][k][n], e being the group of row t. */
typedef struct grouped_matmul_form {
  const bound_tensor *a, *b, *ends, *out; /* (rows, k), (groups, k, n), (groups), (rows, n); an
                                             encoded b: (groups, n, k) */
  int64_t rows, groups, n, k, b_n, b_k;
} grouped_matmul_form;
void describe_grouped_matmul(const node *node, grouped_matmul_form *desc);

/* out[m][n] = bias[n] + sum_k a[m][k] * b[n][k], of integers; all contiguous. */
typedef struct integer_matmul_form {
  const bound_tensor *a, *b, *bias, *out; /* bias: NULL if not given */
  int64_t m, n, k;
} integer_matmul_form;
void describe_matmul_integer(const node *node, integer_matmul_form *desc);

#endif
