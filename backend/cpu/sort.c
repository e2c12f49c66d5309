/* Records Sort. */
#include "ops/sort.h"

#include "backend/cpu/kernels/sort.h"
#include "cpu_ops.h"

clave_status cpu_sort(cpu_recorder *recorder, const node *node) {
  sort_desc desc;
  describe_sort(node, &desc);
  if (desc.size > UINT32_MAX) return UNSUPPORTED("sorting rows of 2^32 elements or more");
  sort_args args = {.x = cpu_view(recorder, desc.x, &desc.rows[0]),
                    .out = cpu_view(recorder, desc.out, &desc.rows[1]),
                    .n_rows = desc.n_rows,
                    .n = desc.size,
                    .k = desc.k,
                    .descending = desc.descending};
  if (desc.indices) args.indices = cpu_view(recorder, desc.indices, &desc.rows[1]);
  return cpu_launch(recorder, sort, &args);
}
