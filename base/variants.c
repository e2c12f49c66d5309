/* The choice of a kernel by cost. */
#include "base/variants.h"

#include <stddef.h>

const kernel_variant *variant_by_cost(const variants *all) {
  const kernel_variant *best = NULL;
  double least = ON_REQUEST;
  for (const kernel_variant *v = all->rows; v < all->rows + all->n; v++) {
    const double cost = v->cost_of ? v->cost_of(all->problem, v) : v->cost;
    if (cost < least && variant_is_usable(all, v)) {
      best = v;
      least = cost;
    }
  }
  return best;
}
