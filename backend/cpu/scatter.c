/* Scatter: the planner has put x's values into out. */
#include "backend/cpu/kernels/scatter.h"

#include "cpu_ops.h"

static const kscatter_kind kinds[] = {
    [IR_SCATTER_KIND_ASSIGN] = KSCATTER_ASSIGN, [IR_SCATTER_KIND_ADD] = KSCATTER_ADD,
    [IR_SCATTER_KIND_MUL] = KSCATTER_MUL,       [IR_SCATTER_KIND_MAX] = KSCATTER_MAX,
    [IR_SCATTER_KIND_MIN] = KSCATTER_MIN,
};

clave_status cpu_scatter(cpu_stream *s, const node *n) {
  const ir_scatter *op = n->instruction->op;
  ktensor index = cpu_tensor(n, op->index), source = cpu_tensor(n, op->source),
          out = cpu_tensor(n, op->out);
  kernel_scatter(&s->kernel, kinds[op->kind], cpu_axis(op->axis, out.rank), op->wrap, &index,
                 &source, &out);
  return NULL;
}
