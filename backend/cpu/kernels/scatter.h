#ifndef BACKEND_CPU_KERNELS_SCATTER_H
#define BACKEND_CPU_KERNELS_SCATTER_H
/* Writes at positions that a tensor holds. */
#include "base/kernel.h"

typedef enum kscatter_kind {
  KSCATTER_ASSIGN,
  KSCATTER_ADD,
  KSCATTER_MUL,
  KSCATTER_MAX,
  KSCATTER_MIN
} kscatter_kind;

/* For every entry k < n of the axis, in this order, on every line, with i = index[line, k]:
 * out[line, i, back] = kind(out[line, i, back], source[line, k, back]) for all places of `back`. i
 * is in [0, size), or with `wrap` in [-size, size). An index out of range is recorded as a fault
 * and skipped. */
typedef struct scatter_args {
  kscatter_kind kind;
  bool wrap;
  ktensor index, source, out;                      /* lines: equal dims */
  klayout source_back, out_back;                   /* equal dims */
  int64_t n, size;                                 /* entries and destinations along the axis */
  int64_t index_stride, source_stride, out_stride; /* strides along the axis */
} scatter_args;
KERNEL(scatter, scatter_args);

#endif
