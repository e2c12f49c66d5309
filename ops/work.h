#ifndef OPS_WORK_H
#define OPS_WORK_H
/* How much a node does: arithmetic operations on elements of any dtype, a multiply-add being two,
 * and bytes that it reads and writes. The formulas stand beside the ops (serialize/schema.fbs,
 * attributes `flops` and `bytes`; docs/ops.md). What they count:
 *
 *   - products, convolutions and attention: their multiply-adds alone, as
 *     torch.utils.flop_counter does, padding's too; a sum begins at the bias. Attention: of the
 *     pairs of a query and a key that it sees, where that follows from sizes and positions, not
 *     from a mask.
 *   - elementwise steps, sums, extremes, comparisons: one for each element, whatever the function,
 *     but none for copies and casts.
 *   - bytes: each operand once, as it is stored (codes of encoded weights); elements that
 *     broadcasting repeats once; of tables and caches the part that is read or written. */
#include "ops/node.h"

/* The values of an operand that decides how much is done (IR_COUNTS), contiguous. */
typedef struct work_counts {
  uint32_t tid;
  dtype type; /* I32 or I64 */
  int64_t n;
  const void *items;
} work_counts;

typedef struct work_node {
  const node *node;          /* its tensors have strides */
  const work_counts *counts; /* (n_counts) those that are known; without them the most is assumed */
  int n_counts;
} work_node;

typedef struct op_work {
  double flops; /* negative: not known (a custom kernel) */
  double bytes;
} op_work;
op_work measure_work(const work_node *node);

/* Generated, by ir_op (build/gen/work_table.c). */
typedef struct work_formula {
  bool is_known;
  bool counts;                            /* the values of some operands decide it */
  double (*flops)(const work_node *node); /* NULL: none */
  double (*bytes)(const work_node *node); /* NULL: all of each operand */
} work_formula;
extern const work_formula work_table[IR_OP_COUNT];

/* ---- what the formulas are made of; an absent tensor has no elements ---- */
double work_elements(const work_node *node, uint32_t tid);
double work_dim(const work_node *node, uint32_t tid, int axis);  /* axis may count from the end */
double work_dims(const work_node *node, uint32_t tid, int from); /* the product from there on */
double work_product(const ir_i32s *list);
double work_steps(const ir_steps *steps); /* those that compute something */
double work_has(const work_node *node, uint32_t tid);
double work_log2(const work_node *node, double n); /* 0 up to 1 */
double work_bytes(const work_node *node, uint32_t tid);
double work_bytes_all(const work_node *node, const ir_u32s *tids);
/* Of the tensor, n elements, or all if it has fewer. */
double work_part(const work_node *node, uint32_t tid, double n);
/* Of a cache, its scales or pages: rows that are read and written. */
double work_rows(const work_node *node, uint32_t tid);
double work_pairs(const work_node *node);                /* of a query and a key, all heads */
double work_grouped_rows(const work_node *node);         /* of a, that belong to a group */
double work_groups(const work_node *node, uint32_t tid); /* bytes of b's groups that have rows */
double work_reduced(const work_node *node, ir_reduce_kind kind); /* for each element */
double work_taps(const work_node *node); /* of x, for each element of Upsample and GridSample */
double work_fft(const work_node *node);  /* 5 n log2 n for n complex numbers, half for real ones */
double work_linalg(const work_node *node); /* as textbooks count; iterations: their usual number */

#endif
