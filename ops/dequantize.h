#ifndef OPS_DEQUANTIZE_H
#define OPS_DEQUANTIZE_H
/* Rows of an encoded constant as plain floats: all, or those that an index tensor selects. */
#include "ops/node.h"

/* out[p] is row index[p] of x, or row p without an index; out is contiguous (n_picks, row). */
typedef struct dequantize_desc {
  const bound_tensor *x, *index, *out; /* index: NULL for all rows */
  tensor places;                       /* index's dims and strides, collapsed, offset 0 */
  int64_t rows, row, n_picks;          /* row: elements per row */
} dequantize_desc;
void describe_dequantize(const node *node, dequantize_desc *desc);
/* Describes an IndexSelect of an encoded x. */
void describe_picked_rows(const node *node, dequantize_desc *desc);

/* Describes an embedding lookup whose table is also packed as the b operand of a matmul, if the
 * packed panels hold its elements bit for bit. Sets *as_b to x as that matmul sees it. Returns
 * false if x is no such table. */
bool describe_panel_rows(const node *node, dequantize_desc *desc, bound_tensor *as_b);

#endif
