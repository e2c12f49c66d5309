/* Records IndexSelect, Gather, Index and RavelIndex. */
#include "ops/index.h"

#include <string.h>

#include "backend/cpu/dequantize.h"
#include "backend/cpu/kernels/index.h"
#include "backend/cpu/panel_rows.h"
#include "cpu_ops.h"

static pick_list picks_of(cpu_recorder *recorder, const pick_desc *desc) {
  pick_list list = {.n = desc->n, .wrap = desc->wrap};
  for (int k = 0; k < desc->n; k++)
    list.index[k] = cpu_view(recorder, desc->indices[k], &desc->index[k]);
  memcpy(list.sizes, desc->sizes, sizeof list.sizes);
  memcpy(list.steps, desc->strides, sizeof list.steps);
  return list;
}

static clave_status cpu_index_launch_pick(cpu_recorder *recorder, const pick_desc *desc) {
  return cpu_launch(recorder, index_pick,
                    &(index_pick_args){.picks = picks_of(recorder, desc),
                                       .x = cpu_view(recorder, desc->x, &desc->front),
                                       .back = cpu_layout(&desc->back),
                                       .out = cpu_operand(recorder, desc->out).data});
}

clave_status cpu_index_select(cpu_recorder *recorder, const node *node) {
  dequantize_desc rows;
  bound_tensor as_b;
  pick_desc desc;
  if (describe_panel_rows(node, &rows, &as_b)) return cpu_panel_rows(recorder, &rows, &as_b);
  describe_index_select(node, &desc);
  return desc.x->tensor.encoding.kind ? cpu_pick_rows(recorder, node)
                                      : cpu_index_launch_pick(recorder, &desc);
}

clave_status cpu_index(cpu_recorder *recorder, const node *node) {
  pick_desc desc;
  describe_index(node, &desc);
  return cpu_index_launch_pick(recorder, &desc);
}

clave_status cpu_ravel_index(cpu_recorder *recorder, const node *node) {
  pick_desc desc;
  describe_ravel_index(node, &desc);
  return cpu_launch(recorder, index_ravel,
                    &(index_ravel_args){.picks = picks_of(recorder, &desc),
                                        .out = cpu_operand(recorder, desc.out).data});
}

clave_status cpu_gather(cpu_recorder *recorder, const node *node) {
  gather_desc desc;
  describe_gather(node, &desc);
  return cpu_launch(recorder, gather,
                    &(gather_args){.x = cpu_view(recorder, desc.x, &desc.x_layout),
                                   .index = cpu_view(recorder, desc.index, &desc.index_layout),
                                   .out = cpu_operand(recorder, desc.out).data,
                                   .size = desc.size,
                                   .step = desc.step});
}
