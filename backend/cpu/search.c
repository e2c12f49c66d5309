/* SearchSorted. */
#include "backend/cpu/kernels/search.h"

#include "cpu_ops.h"

clave_status cpu_search_sorted(cpu_stream *s, const node *n) {
  const ir_search_sorted *op = n->instruction->op;
  ktensor b = cpu_tensor(n, op->boundaries), x = cpu_tensor(n, op->x), out = cpu_tensor(n, op->out);
  ksearch k = {.boundaries = &b, .x = &x, .out = &out, .right = op->right};
  k.n = b.dims[b.rank - 1];
  k.per_row = x.rank > 0 ? x.dims[x.rank - 1] : 1;
  k.shared = b.rank == 1;
  if (op->sorter != IR_NONE) k.sorter = cpu_tensor(n, op->sorter).data;
  kernel_search(&s->kernel, &k);
  return NULL;
}
