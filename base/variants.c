/* Selects a kernel by cost. */
#include "base/variants.h"

#include <stddef.h>

const kernel_variant *variant_by_cost(const variants *all) {
  const kernel_variant *best = NULL;
  double least = ON_REQUEST;
  for (const kernel_variant *variant = all->rows; variant < all->rows + all->n; variant++) {
    const double cost = variant->cost_of ? variant->cost_of(all->problem, variant) : variant->cost;
    if (cost < least && variant_is_usable(all, variant)) {
      best = variant;
      least = cost;
    }
  }
  return best;
}
