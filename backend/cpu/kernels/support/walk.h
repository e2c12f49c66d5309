#ifndef BACKEND_CPU_KERNELS_SUPPORT_WALK_H
#define BACKEND_CPU_KERNELS_SUPPORT_WALK_H
/* Walks a shape in row-major order, keeping the element offset of each of up to WALK_MAX operands
 * with its own strides. */
#include "base/kernel.h"

enum { WALK_MAX = 9 };

typedef struct walk {
  int rank, n;
  const int64_t *dims;              /* (rank) */
  const int64_t *strides[WALK_MAX]; /* (rank) each */
  int64_t index[KERNEL_MAX_RANK];
  int64_t offset[WALK_MAX];
} walk;

/* Adds an operand; before walk_seek. */
static inline void walk_add(walk *w, const int64_t *strides) { w->strides[w->n++] = strides; }

/* Moves to position `flat`. */
static inline void walk_seek(walk *w, int64_t flat) {
  for (int k = 0; k < w->n; k++) w->offset[k] = 0;
  for (int d = w->rank - 1; d >= 0; d--) {
    w->index[d] = w->dims[d] > 0 ? flat % w->dims[d] : 0;
    if (w->dims[d] > 0) flat /= w->dims[d];
    for (int k = 0; k < w->n; k++) w->offset[k] += w->index[d] * w->strides[k][d];
  }
}

/* Moves to the next position; after the last one, back to the first. */
static inline void walk_next(walk *w) {
  for (int d = w->rank - 1; d >= 0; d--) {
    if (++w->index[d] < w->dims[d]) {
      for (int k = 0; k < w->n; k++) w->offset[k] += w->strides[k][d];
      return;
    }
    for (int k = 0; k < w->n; k++) w->offset[k] -= (w->dims[d] - 1) * w->strides[k][d];
    w->index[d] = 0;
  }
}

/* Drops dims of 1 and merges neighbours that all n operands can walk as one; returns the new rank.
 */
int merge_dims(int rank, int64_t *dims, int n, int64_t *const *strides);

/* The product of the first n dims. */
static inline int64_t product_of(const int64_t *dims, int n) {
  int64_t p = 1;
  for (int i = 0; i < n; i++) p *= dims[i];
  return p;
}

#endif
