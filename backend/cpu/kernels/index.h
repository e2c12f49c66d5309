#ifndef BACKEND_CPU_KERNELS_INDEX_H
#define BACKEND_CPU_KERNELS_INDEX_H
/* Reads at positions that tensors hold. An index out of range is recorded as a fault and
 * clamped. */
#include "base/kernel.h"

/* Positions that n index tensors select: the sum over j of index[j] * steps[j] at each place. Valid
 * indices are in [0, sizes[j]), or with `wrap` in [-sizes[j], sizes[j]). */
typedef struct pick_list {
  int n;
  bool wrap;                      /* negative indices count from the end */
  ktensor index[KERNEL_MAX_RANK]; /* all have the same dims */
  int64_t sizes[KERNEL_MAX_RANK], steps[KERNEL_MAX_RANK];
} pick_list;

/* out[front, pick, back] = x[front, position of the pick, back]; zeros where an axis is empty. */
typedef struct index_pick_args {
  pick_list picks;
  ktensor x;    /* dims and strides of the dimensions before the indexed ones */
  klayout back; /* x's dimensions after the indexed ones */
  void *out;    /* contiguous */
} index_pick_args;
KERNEL(index_pick, index_pick_args);

/* out[pick] = position of the pick: I64, contiguous. */
typedef struct index_ravel_args {
  pick_list picks;
  int64_t *out;
} index_ravel_args;
KERNEL(index_ravel, index_ravel_args);

/* out[p] = x[p + index[p] * step], index[p] in [0, size); zeros if size is 0. */
typedef struct gather_args {
  ktensor x, index; /* equal dims; x: stride 0 along the axis */
  void *out;        /* contiguous, of the same dims */
  int64_t size, step;
} gather_args;
KERNEL(gather, gather_args);

/* Returns the integer at an offset in elements. */
int64_t load_index(const ktensor *index, int64_t offset);
/* Returns the integer if it is in [0, size), size > 0; else records a fault and returns 0. */
int64_t load_row_index(const kernel_context *ctx, const ktensor *index, int64_t offset,
                       int64_t size);

#endif
