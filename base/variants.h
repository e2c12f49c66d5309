#ifndef BASE_VARIANTS_H
#define BASE_VARIANTS_H
/* The choice of a kernel. A family whose op can be computed or split in several ways has one table
 * of variants. The row that a tuning table names runs, else the usable row with the lowest cost. */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/* One way to run an op. problem: the family's argument, for one node on one device. */
typedef struct kernel_variant kernel_variant;
struct kernel_variant {
  const char *name; /* stored in tuning tables on disk, so its meaning must not change */
  /* True if the variant can run the problem. NULL if it always can. */
  bool (*is_usable)(const void *problem, const kernel_variant *variant);
  /* Cost relative to the family's other rows: an order found by measurement, or a model of the
   * problem's sizes. Among equal costs the first row wins. cost_of: the cost for a problem, or NULL
   * to use `cost`. */
  double cost;
  double (*cost_of)(const void *problem, const kernel_variant *variant);
  /* Records the kernel's launch, after the row's parameters were copied to the problem. NULL if the
   * rows only parametrise one kernel. */
  clave_status (*record)(const void *problem);
  /* True if the variant can read and write tensors that fast precision stores as BF16. NULL if it
   * never can. */
  bool (*accepts_bf16)(const void *problem);
  int64_t parameters[3]; /* sizes of its blocks, tiles or splits; the family defines them */
};
/* The cost of a row that only a tuning table selects. */
#define ON_REQUEST INFINITY

typedef struct variants {
  const char *family;
  const kernel_variant *rows; /* (n) */
  int n;
  const void *problem;
  bool changes_rounding; /* the rounding of results depends on the row, even on the CPU backend */
  const kernel_variant *const *excluded; /* (n_excluded): rows whose kernels the device refused */
  int n_excluded;
} variants;

static inline bool variant_is_usable(const variants *all, const kernel_variant *variant) {
  for (int i = 0; i < all->n_excluded; i++)
    if (all->excluded[i] == variant) return false;
  return !variant->is_usable || variant->is_usable(all->problem, variant);
}

/* Returns the usable row of the lowest cost, or NULL if no row is usable except on request. A
 * family whose callers do not check for NULL has a row that runs any problem. */
const kernel_variant *variant_by_cost(const variants *all);

#endif
