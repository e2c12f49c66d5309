/* Sort. */
#include "ops/sort.h"

#include "backend/cpu/kernels/sort.h"
#include "cpu_ops.h"

clave_status cpu_sort(cpu_recorder *r, const node *n) {
  sort_form f;
  describe_sort(n, &f);
  if (f.size > UINT32_MAX) return UNSUPPORTED("sorting rows of 2^32 elements or more");
  sort_args args = {.x = cpu_view(r, f.x, &f.rows[0]),
                    .out = cpu_view(r, f.out, &f.rows[1]),
                    .n_rows = f.n_rows,
                    .n = f.size,
                    .k = f.k,
                    .descending = f.descending};
  if (f.indices) args.indices = cpu_view(r, f.indices, &f.rows[1]);
  return cpu_launch(r, sort, &args);
}
