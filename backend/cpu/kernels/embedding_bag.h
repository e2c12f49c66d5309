#ifndef BACKEND_CPU_KERNELS_EMBEDDING_BAG_H
#define BACKEND_CPU_KERNELS_EMBEDDING_BAG_H
/* Reductions over groups of table rows. */
#include "base/kernel.h"

typedef enum kbag_kind { KBAG_SUM, KBAG_MEAN, KBAG_MAX } kbag_kind;

/* An index or offset out of range is recorded as a fault and left out. */
typedef struct embedding_bag_args {
  kbag_kind kind;
  ktensor weight;  /* (rows, dim) */
  ktensor indices; /* (n), I32 or I64 */
  ktensor offsets; /* (bags) or more: starts in indices; the last bag ends with them */
  ktensor factors; /* (n) of weight's dtype; data is NULL if absent */
  ktensor out;     /* (bags, dim), contiguous */
  bool skips;      /* indices equal to `skipped` do not count */
  int64_t skipped;
} embedding_bag_args;
KERNEL(embedding_bag, embedding_bag_args);

#endif
