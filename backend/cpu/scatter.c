/* Records Scatter. The planner has already copied x to out. */
#include "backend/cpu/scatter.h"

#include "backend/cpu/kernels/scatter.h"
#include "cpu_ops.h"

static const kscatter_kind kinds[] = {
    [IR_SCATTER_KIND_ASSIGN] = KSCATTER_ASSIGN, [IR_SCATTER_KIND_ADD] = KSCATTER_ADD,
    [IR_SCATTER_KIND_MUL] = KSCATTER_MUL,       [IR_SCATTER_KIND_MAX] = KSCATTER_MAX,
    [IR_SCATTER_KIND_MIN] = KSCATTER_MIN,
};

clave_status cpu_launch_scatter(cpu_recorder *recorder, const scatter_desc *desc) {
  return cpu_launch(
      recorder, scatter,
      &(scatter_args){.kind = kinds[desc->kind],
                      .wrap = desc->wrap,
                      .index = cpu_view(recorder, &desc->index, &desc->front[SCATTER_INDEX]),
                      .source = cpu_view(recorder, desc->source, &desc->front[SCATTER_SOURCE]),
                      .out = cpu_view(recorder, desc->out, &desc->front[SCATTER_OUT]),
                      .source_back = cpu_layout(&desc->back[SCATTER_SOURCE]),
                      .out_back = cpu_layout(&desc->back[SCATTER_OUT]),
                      .n = desc->n,
                      .size = desc->size,
                      .index_stride = desc->stride[SCATTER_INDEX],
                      .source_stride = desc->stride[SCATTER_SOURCE],
                      .out_stride = desc->stride[SCATTER_OUT]});
}

clave_status cpu_scatter(cpu_recorder *recorder, const node *node) {
  scatter_desc desc;
  describe_scatter(node, &desc);
  return cpu_launch_scatter(recorder, &desc);
}
