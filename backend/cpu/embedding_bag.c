/* EmbeddingBag. */
#include "backend/cpu/kernels/embedding_bag.h"

#include "cpu_ops.h"

static const kbag_kind kinds[] = {
    [IR_EMBEDDING_BAG_KIND_SUM] = KBAG_SUM,
    [IR_EMBEDDING_BAG_KIND_MEAN] = KBAG_MEAN,
    [IR_EMBEDDING_BAG_KIND_MAX] = KBAG_MAX,
};

clave_status cpu_embedding_bag(cpu_stream *s, const node *n) {
  const ir_embedding_bag *op = n->instruction->op;
  embedding_bags p = {.kind = kinds[op->kind],
                      .weight = cpu_tensor(n, op->weight),
                      .indices = cpu_tensor(n, op->indices),
                      .offsets = cpu_tensor(n, op->offsets),
                      .out = cpu_tensor(n, op->out),
                      .skips = op->padding_idx.present,
                      .skipped = op->padding_idx.value};
  if (op->weights != IR_NONE) p.factors = cpu_tensor(n, op->weights);
  kernel_embedding_bag(&s->kernel, &p);
  return NULL;
}
