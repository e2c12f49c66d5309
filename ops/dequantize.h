#ifndef OPS_DEQUANTIZE_H
#define OPS_DEQUANTIZE_H
/* Rows of an encoded constant as plain floats: all of them, or those that an index tensor names. */
#include "ops/node.h"

/* out[p] = row index[p] of x, or row p; out is contiguous (n_picks, row). */
typedef struct dequantize_form {
  const bound_tensor *x, *index, *out; /* index: NULL for all rows */
  tensor places;                       /* of index: its dims and strides, collapsed, offset 0 */
  int64_t rows, row, n_picks;          /* row: elements of one */
} dequantize_form;
void describe_dequantize(const node *node, dequantize_form *desc);
/* An IndexSelect of an encoded x. */
void describe_picked_rows(const node *node, dequantize_form *desc);

/* An IndexSelect of rows that may lie in the panels that products pack their b in: x is a constant
 * table that a product reads, plain or encoded, whose elements panels give bit for bit. *as_b: x as
 * that product has it. False: it is none. */
bool describe_panel_rows(const node *node, dequantize_form *desc, bound_tensor *as_b);

#endif
