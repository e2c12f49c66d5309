#ifndef OPS_MATMUL_H
#define OPS_MATMUL_H
/* Matrix products:
 *  out[z][m][n] = alpha * sum_k a[z][m][k] * b[z][k][n] + beta * bias[z][m][n] */
#include "ops/node.h"

/* out is contiguous. Batch dimensions over which b does not change are folded into the rows if the
 * strides of a and bias allow it. A product with one output column is described as one output row,
 * with the operands transposed. */
typedef struct matmul_desc {
  const bound_tensor *a, *b, *bias, *out; /* bias: NULL if absent or beta is 0 */
  dtype type;                             /* dtype of a, bias and out in the program */
  int64_t m, n, k;
  int64_t a_m, a_k, b_k, b_n, bias_m, bias_n; /* strides in elements */
  tensor batch_a, batch_b, batch_bias;        /* leading dimensions, collapsed together */
  int64_t batches;
  double alpha, beta;
} matmul_desc;
void describe_matmul(const node *node, matmul_desc *desc);
/* Products of two F32 operands with a smaller k are not rounded to BF16. Outer products, of
 * positions and frequencies for example, need all digits and would not get faster. */
enum { MIN_ROUNDED_K = 16 };
/* True if fast precision may round a and b to BF16: both are F32, F16 or BF16, and k is at least
 * MIN_ROUNDED_K if b is F32. */
bool matmul_may_round(const matmul_desc *desc);

/* out[t][n] = sum_k a[t][k] * b[e][k][n], where e is the group of row t. */
typedef struct grouped_matmul_desc {
  /* a: (rows, k), b: (groups, k, n), encoded (groups, n, k), ends: (groups), out: (rows, n) */
  const bound_tensor *a, *b, *ends, *out;
  int64_t rows, groups, n, k, b_n, b_k;
} grouped_matmul_desc;
void describe_grouped_matmul(const node *node, grouped_matmul_desc *desc);

/* out[m][n] = bias[n] + sum_k a[m][k] * b[n][k] over integers. All operands are contiguous. */
typedef struct integer_matmul_desc {
  const bound_tensor *a, *b, *bias, *out; /* bias: NULL if absent */
  int64_t m, n, k;
} integer_matmul_desc;
void describe_matmul_integer(const node *node, integer_matmul_desc *desc);

#endif
