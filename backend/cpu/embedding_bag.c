/* EmbeddingBag. */
#include "ops/embedding_bag.h"

#include "backend/cpu/kernels/embedding_bag.h"
#include "cpu_ops.h"

static const kbag_kind kinds[] = {
    [IR_EMBEDDING_BAG_KIND_SUM] = KBAG_SUM,
    [IR_EMBEDDING_BAG_KIND_MEAN] = KBAG_MEAN,
    [IR_EMBEDDING_BAG_KIND_MAX] = KBAG_MAX,
};

clave_status cpu_embedding_bag(cpu_recorder *r, const node *n) {
  embedding_bag_form f;
  describe_embedding_bag(n, &f);
  return cpu_launch(r, embedding_bag,
                    &(embedding_bag_args){.kind = kinds[f.kind],
                                          .weight = cpu_operand(r, f.weight),
                                          .indices = cpu_operand(r, f.indices),
                                          .offsets = cpu_operand(r, f.offsets),
                                          .factors = cpu_operand(r, f.factors),
                                          .out = cpu_operand(r, f.out),
                                          .skips = f.skips,
                                          .skipped = f.skipped});
}
