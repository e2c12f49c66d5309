#ifndef OPS_INDEX_H
#define OPS_INDEX_H
/* Elements read at the positions that index tensors hold. */
#include "ops/node.h"

/* out[front, picks, back] = x[front, position[picks], back]. The position of a pick is the sum of
 * index[j] * strides[j]; each index is in [0, sizes[j]), or with `wrap` in [-sizes[j], sizes[j]).
 * RavelIndex returns the positions themselves: x, front and back are unused. */
typedef struct pick_desc {
  const bound_tensor *x, *out; /* out: contiguous */
  int n;                       /* number of index tensors */
  const bound_tensor *indices[MAX_RANK];
  tensor index[MAX_RANK]; /* their layouts, broadcast to one shape and collapsed together */
  int64_t sizes[MAX_RANK], strides[MAX_RANK];
  tensor front, back; /* x's dimensions before and after the picks in out, collapsed */
  int64_t n_picks;
  bool wrap;
} pick_desc;
void describe_index_select(const node *node, pick_desc *desc);
void describe_index(const node *node, pick_desc *desc);
void describe_ravel_index(const node *node, pick_desc *desc);

/* out[p] = x[q], where q is p with its coordinate on the axis replaced by index[p] < size. */
typedef struct gather_desc {
  const bound_tensor *x, *index, *out; /* out: contiguous, of the index's shape */
  tensor x_layout, index_layout; /* layouts over the index's dims, collapsed together; x_layout:
                                    stride 0 along the axis */
  int64_t n, size, step;         /* n: elements of out; size, step: of the axis in x */
} gather_desc;
void describe_gather(const node *node, gather_desc *desc);

#endif
