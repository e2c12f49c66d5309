#ifndef BASE_VARIANTS_H
#define BASE_VARIANTS_H
/* The choice of a kernel. Where an op can be computed in several ways, or a kernel be cut in
 * several, its family has one table of them, and nothing else decides: the row that a tuning table
 * names is taken, else the usable row of the lowest cost. */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/* One way to run an op. problem: what the family's functions take, of one node on one device. */
typedef struct kernel_variant kernel_variant;
struct kernel_variant {
  const char *name; /* stands in tuning tables on disk, and keeps its meaning */
  /* True if it can run the problem. NULL: it always can. */
  bool (*is_usable)(const void *problem, const kernel_variant *variant);
  /* What it costs, compared with the family's other rows: by measurement, in an order, or by a
   * model of the problem's sizes. Of equal costs the first row counts. cost_of: NULL, or the cost
   * of a problem. */
  double cost;
  double (*cost_of)(const void *problem, const kernel_variant *variant);
  /* Records it; the problem knows the row's parameters by then. NULL where the rows are numbers of
   * one kernel. */
  clave_status (*record)(const void *problem);
  /* True if it reads and writes tensors that are kept as BF16 in fast precision. NULL: it never
   * does. */
  bool (*takes_bf16)(const void *problem);
  int64_t parameters[3]; /* sizes of its blocks, tiles or parts; the family says which */
};
/* The cost of a row that only a tuning table takes. */
#define ON_REQUEST INFINITY

typedef struct variants {
  const char *family;
  const kernel_variant *rows; /* (n) */
  int n;
  const void *problem;
  bool rounds_apart; /* the last places of floats depend on the row, on the CPU backend, too */
} variants;

static inline bool variant_is_usable(const variants *all, const kernel_variant *variant) {
  return !variant->is_usable || variant->is_usable(all->problem, variant);
}

/* The usable row of the lowest cost; NULL: none is usable but on request. A family whose callers do
 * not ask has a row that runs any problem. */
const kernel_variant *variant_by_cost(const variants *all);

#endif
