/* Records SearchSorted. */
#include "ops/search.h"

#include "backend/cpu/kernels/search.h"
#include "cpu_ops.h"

clave_status cpu_search_sorted(cpu_recorder *recorder, const node *node) {
  search_desc desc;
  describe_search_sorted(node, &desc);
  return cpu_launch(recorder, search_sorted,
                    &(search_args){.boundaries = cpu_operand(recorder, desc.boundaries),
                                   .x = cpu_operand(recorder, desc.x),
                                   .sorter = cpu_operand(recorder, desc.sorter),
                                   .out = cpu_operand(recorder, desc.out),
                                   .n_x = desc.n_x,
                                   .per_row = desc.per_row,
                                   .n = desc.n,
                                   .shared = desc.shared,
                                   .right = desc.right});
}
