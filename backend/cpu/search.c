/* SearchSorted. */
#include "ops/search.h"

#include "backend/cpu/kernels/search.h"
#include "cpu_ops.h"

clave_status cpu_search_sorted(cpu_recorder *r, const node *n) {
  search_form f;
  describe_search_sorted(n, &f);
  return cpu_launch(r, search_sorted,
                    &(search_args){.boundaries = cpu_operand(r, f.boundaries),
                                   .x = cpu_operand(r, f.x),
                                   .sorter = cpu_operand(r, f.sorter),
                                   .out = cpu_operand(r, f.out),
                                   .n_x = f.n_x,
                                   .per_row = f.per_row,
                                   .n = f.n,
                                   .shared = f.shared,
                                   .right = f.right});
}
