/* Records EmbeddingBag. */
#include "ops/embedding_bag.h"

#include "backend/cpu/kernels/embedding_bag.h"
#include "cpu_ops.h"

static const kbag_kind kinds[] = {
    [IR_EMBEDDING_BAG_KIND_SUM] = KBAG_SUM,
    [IR_EMBEDDING_BAG_KIND_MEAN] = KBAG_MEAN,
    [IR_EMBEDDING_BAG_KIND_MAX] = KBAG_MAX,
};

clave_status cpu_embedding_bag(cpu_recorder *recorder, const node *node) {
  embedding_bag_desc desc;
  describe_embedding_bag(node, &desc);
  return cpu_launch(recorder, embedding_bag,
                    &(embedding_bag_args){.kind = kinds[desc.kind],
                                          .weight = cpu_operand(recorder, desc.weight),
                                          .indices = cpu_operand(recorder, desc.indices),
                                          .offsets = cpu_operand(recorder, desc.offsets),
                                          .factors = cpu_operand(recorder, desc.factors),
                                          .out = cpu_operand(recorder, desc.out),
                                          .skips = desc.skips,
                                          .skipped = desc.skipped});
}
