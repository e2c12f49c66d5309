#ifndef OPS_WORK_H
#define OPS_WORK_H
/* Work of a node: arithmetic operations on elements of any dtype, where a multiply-add counts as
 * two, and the bytes that it reads and writes. The formulas are attributes of the ops (`flops` and
 * `bytes` in serialize/schema.fbs; docs/reference/ops.md). They count:
 *
 *   - matmul, convolution and attention: only multiply-adds, including those of padding, as
 *     torch.utils.flop_counter does; sums start at the bias. Attention counts the pairs of a query
 *     and a key that sizes and positions allow; masks are ignored.
 *   - elementwise steps, sums, extremes, comparisons: one per element, whatever the function, and
 *     none for copies and casts.
 *   - bytes: each operand once, as stored (encoded weights by their codes), without the repetition
 *     of broadcasting; only the part of tables and caches that is read or written. */
#include "ops/node.h"

/* The values of an operand that determines the amount of work (IR_COUNTS), contiguous. */
typedef struct work_counts {
  uint32_t tid;
  dtype type; /* I32 or I64 */
  int64_t n;
  const void *items;
} work_counts;

typedef struct work_node {
  const node *node;          /* its tensors have strides */
  const work_counts *counts; /* (n_counts) the known ones; the maximum is assumed for the others */
  int n_counts;
} work_node;

typedef struct op_work {
  double flops; /* negative if unknown (custom kernels) */
  double bytes;
} op_work;
op_work measure_work(const work_node *node);

/* Generated table, indexed by ir_op (build/gen/work_table.c). */
typedef struct work_formula {
  bool is_known;
  bool counts;                            /* true if the values of some operands determine the
                                             work */
  double (*flops)(const work_node *node); /* NULL if there are none */
  double (*bytes)(const work_node *node); /* NULL for all bytes of each operand */
} work_formula;
extern const work_formula work_table[IR_OP_COUNT];

/* ---- building blocks of the formulas; an absent tensor has no elements ---- */
double work_elements(const work_node *node, uint32_t tid);
double work_dim(const work_node *node, uint32_t tid, int axis);  /* axis may be negative */
double work_dims(const work_node *node, uint32_t tid, int from); /* product of dims [from, rank) */
double work_product(const ir_i32s *list);               /* product of the list's integers */
double work_steps(const ir_steps *steps);               /* steps other than copies and casts */
double work_has(const work_node *node, uint32_t tid);   /* 1 if the operand is present, else 0 */
double work_log2(const work_node *node, double n);      /* log2(n), 0 for n <= 1 */
double work_bytes(const work_node *node, uint32_t tid); /* bytes of the distinct elements */
double work_bytes_all(const work_node *node, const ir_u32s *tids);
/* Returns the bytes of n elements of the tensor, or of all elements if it has fewer. */
double work_part(const work_node *node, uint32_t tid, double n);
/* Returns the bytes read and written in a cache, its scales or pages. */
double work_rows(const work_node *node, uint32_t tid);
double work_pairs(const work_node *node);        /* pairs of a query and a key, over all heads */
double work_grouped_rows(const work_node *node); /* rows of a that belong to a group */
double work_groups(const work_node *node, uint32_t tid);         /* bytes of groups with rows */
double work_reduced(const work_node *node, ir_reduce_kind kind); /* operations per element of x */
double work_taps(const work_node *node);   /* elements of x per element of out */
double work_fft(const work_node *node);    /* 5 n log2 n, half of it for real numbers */
double work_linalg(const work_node *node); /* textbook counts, usual iterations */

#endif
