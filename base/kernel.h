#ifndef BASE_KERNEL_H
#define BASE_KERNEL_H
/* All that a CPU kernel file may include: tensors as pointers with sizes and strides, a
 * parallel-for, and the record of data errors. A compiled executable takes the kernel files it
 * needs together with this. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/dtype.h"

enum { KERNEL_MAX_RANK = 8 };

/* One operand. data points at element [0, ..., 0]; strides are in elements and may be 0 or
 * negative. */
typedef struct ktensor {
  void *data;
  dtype type;
  int rank;
  int64_t dims[KERNEL_MAX_RANK];
  int64_t strides[KERNEL_MAX_RANK];
} ktensor;

/* The first data error of a run: an index out of range, an integer division by zero, or rows that
 * do not fit into a cache. */
typedef enum kernel_fault_kind {
  KERNEL_FAULT_NONE = 0,
  KERNEL_FAULT_INDEX = 1,
  KERNEL_FAULT_DIVISION = 2,
  KERNEL_FAULT_ROWS = 3
} kernel_fault_kind;
typedef struct kernel_fault {
  kernel_fault_kind kind;
  int64_t value;     /* the index that was out of range; of rows the position */
  int64_t low, high; /* it should have been in [low, high]; how many new rows, and of the cache */
} kernel_fault;

/* Runs body(ctx, begin, end) over sub-ranges of [0, n), each at least `grain` long except the last,
 * on the pool's threads; returns when all are done. */
typedef void (*kernel_body)(void *ctx, int64_t begin, int64_t end);
typedef struct kernel_context {
  void (*parallel_for)(void *pool, int64_t n, int64_t grain, kernel_body body, void *ctx);
  void *pool;
  int n_threads;
  kernel_fault *fault;                        /* first writer wins; use kernel_fault_set */
  void *(*scratch)(void *pool, size_t bytes); /* 64-byte aligned memory valid until the kernel
                                                 returns; NULL = out of memory */
} kernel_context;

static inline int64_t ktensor_numel(const ktensor *t) {
  int64_t n = 1;
  for (int i = 0; i < t->rank; i++) n *= t->dims[i];
  return n;
}

/* Records a fault unless one is already there (safe from several threads). */
static inline void kernel_fault_set(kernel_fault *f, kernel_fault_kind kind, int64_t value,
                                    int64_t low, int64_t high) {
  int expected = KERNEL_FAULT_NONE;
  if (__atomic_compare_exchange_n((int *)&f->kind, &expected, (int)kind, false, __ATOMIC_RELAXED,
                                  __ATOMIC_RELAXED)) {
    f->value = value;
    f->low = low;
    f->high = high;
  }
}

#endif
