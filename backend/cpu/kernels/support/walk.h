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

/* Adds an operand. Call it before walk_seek. */
static inline void walk_add(walk *walk, const int64_t *strides) {
  walk->strides[walk->n++] = strides;
}

/* Moves to position `flat`. */
static inline void walk_seek(walk *walk, int64_t flat) {
  for (int k = 0; k < walk->n; k++) walk->offset[k] = 0;
  for (int d = walk->rank - 1; d >= 0; d--) {
    walk->index[d] = walk->dims[d] > 0 ? flat % walk->dims[d] : 0;
    if (walk->dims[d] > 0) flat /= walk->dims[d];
    for (int k = 0; k < walk->n; k++) walk->offset[k] += walk->index[d] * walk->strides[k][d];
  }
}

/* Moves to the next position; after the last one, back to the first. */
static inline void walk_next(walk *walk) {
  for (int d = walk->rank - 1; d >= 0; d--) {
    if (++walk->index[d] < walk->dims[d]) {
      for (int k = 0; k < walk->n; k++) walk->offset[k] += walk->strides[k][d];
      return;
    }
    for (int k = 0; k < walk->n; k++) walk->offset[k] -= (walk->dims[d] - 1) * walk->strides[k][d];
    walk->index[d] = 0;
  }
}

/* Removes dims of 1 and merges neighbouring dims that all n operands can walk as one. Returns the
 * new rank. */
int merge_dims(int rank, int64_t *dims, int n, int64_t *const *strides);

/* The product of the first n dims. */
static inline int64_t product_of(const int64_t *dims, int n) {
  int64_t p = 1;
  for (int i = 0; i < n; i++) p *= dims[i];
  return p;
}

#endif
