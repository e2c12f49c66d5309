#ifndef OPS_INDEX_H
#define OPS_INDEX_H
/* Reading at positions that tensors hold. */
#include "ops/node.h"

/* out[front, picks, back] = x[front, positions[picks], back]: the position of a pick is the sum of
 * index[j] * steps[j], each index in [0, sizes[j]), or with `wrap` in [-sizes[j], sizes[j]).
 * RavelIndex: the positions themselves; x, front and back are not there. */
typedef struct pick_form {
  const bound_tensor *x, *out; /* out: contiguous */
  int n;                       /* index tensors */
  const bound_tensor *indices[MAX_RANK];
  tensor index[MAX_RANK]; /* their layouts: broadcast to one shape, merged together */
  int64_t sizes[MAX_RANK], steps[MAX_RANK];
  tensor front, back; /* x's dimensions in front of and behind the picks in out, merged */
  int64_t n_picks;
  bool wrap;
} pick_form;
void describe_index_select(const node *node, pick_form *desc);
void describe_index(const node *node, pick_form *desc);
void describe_ravel_index(const node *node, pick_form *desc);

/* out[p] = x[p with its place on the axis replaced by index[p]], in [0, size). */
typedef struct gather_form {
  const bound_tensor *x, *index, *out; /* out: contiguous, of the index's shape */
  tensor x_places, index_places; /* over the index's dims, merged together; x: 0 along the axis */
  int64_t n, size, step;         /* elements; of the axis in x */
} gather_form;
void describe_gather(const node *node, gather_form *desc);

#endif
