#ifndef OPS_DEQUANTIZE_H
#define OPS_DEQUANTIZE_H
/* Decodes rows of an encoded constant: all rows, or the rows that an index tensor selects. */
#include "ops/node.h"

/* out (n_picks, row) is contiguous: out[p] is row index[p] of x, or row p if there is no index. */
typedef struct dequantize_desc {
  const bound_tensor *x, *index, *out; /* index: NULL for all rows */
  tensor places;                       /* index's dims and strides, collapsed, offset 0 */
  int64_t rows, row, n_picks;          /* row: elements per row */
} dequantize_desc;
void describe_dequantize(const node *node, dequantize_desc *desc);
/* Describes an IndexSelect of an encoded x. */
void describe_picked_rows(const node *node, dequantize_desc *desc);

/* Describes an embedding lookup whose table x is also the b operand of a matmul, so that the lookup
 * can read the panels packed for that matmul. Sets *as_b to x as the matmul sees it. Returns false
 * if no matmul reads x as b, or if decoded panels differ from x in any bit. */
bool describe_panel_rows(const node *node, dequantize_desc *desc, bound_tensor *as_b);

#endif
