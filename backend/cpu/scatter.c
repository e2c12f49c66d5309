/* Scatter: the planner has put x's values into out. */
#include "backend/cpu/scatter.h"

#include "backend/cpu/kernels/scatter.h"
#include "cpu_ops.h"

static const kscatter_kind kinds[] = {
    [IR_SCATTER_KIND_ASSIGN] = KSCATTER_ASSIGN, [IR_SCATTER_KIND_ADD] = KSCATTER_ADD,
    [IR_SCATTER_KIND_MUL] = KSCATTER_MUL,       [IR_SCATTER_KIND_MAX] = KSCATTER_MAX,
    [IR_SCATTER_KIND_MIN] = KSCATTER_MIN,
};

clave_status cpu_launch_scatter(cpu_recorder *r, const scatter_form *f) {
  return cpu_launch(r, scatter,
                    &(scatter_args){.kind = kinds[f->kind],
                                    .wrap = f->wrap,
                                    .index = cpu_view(r, &f->index, &f->front[SCATTER_INDEX]),
                                    .source = cpu_view(r, f->source, &f->front[SCATTER_SOURCE]),
                                    .out = cpu_view(r, f->out, &f->front[SCATTER_OUT]),
                                    .source_back = cpu_layout(&f->back[SCATTER_SOURCE]),
                                    .out_back = cpu_layout(&f->back[SCATTER_OUT]),
                                    .n = f->n,
                                    .size = f->size,
                                    .index_step = f->step[SCATTER_INDEX],
                                    .source_step = f->step[SCATTER_SOURCE],
                                    .out_step = f->step[SCATTER_OUT]});
}

clave_status cpu_scatter(cpu_recorder *r, const node *n) {
  scatter_form f;
  describe_scatter(n, &f);
  return cpu_launch_scatter(r, &f);
}
