/* IndexSelect, Gather, Index and RavelIndex. */
#include "ops/index.h"

#include <string.h>

#include "backend/cpu/dequantize.h"
#include "backend/cpu/kernels/index.h"
#include "backend/cpu/panel_rows.h"
#include "cpu_ops.h"

static pick_list picks_of(cpu_recorder *r, const pick_form *f) {
  pick_list p = {.n = f->n, .wrap = f->wrap};
  for (int k = 0; k < f->n; k++) p.index[k] = cpu_view(r, f->indices[k], &f->index[k]);
  memcpy(p.sizes, f->sizes, sizeof p.sizes);
  memcpy(p.steps, f->steps, sizeof p.steps);
  return p;
}

static clave_status launch_pick(cpu_recorder *r, const pick_form *f) {
  return cpu_launch(r, index_pick,
                    &(index_pick_args){.picks = picks_of(r, f),
                                       .x = cpu_view(r, f->x, &f->front),
                                       .back = cpu_layout(&f->back),
                                       .out = cpu_operand(r, f->out).data});
}

clave_status cpu_index_select(cpu_recorder *r, const node *n) {
  dequantize_form rows;
  bound_tensor as_b;
  pick_form f;
  if (describe_panel_rows(n, &rows, &as_b)) return cpu_panel_rows(r, &rows, &as_b);
  describe_index_select(n, &f);
  return f.x->t.encoding.kind ? cpu_pick_rows(r, n) : launch_pick(r, &f);
}

clave_status cpu_index(cpu_recorder *r, const node *n) {
  pick_form f;
  describe_index(n, &f);
  return launch_pick(r, &f);
}

clave_status cpu_ravel_index(cpu_recorder *r, const node *n) {
  pick_form f;
  describe_ravel_index(n, &f);
  return cpu_launch(
      r, index_ravel,
      &(index_ravel_args){.picks = picks_of(r, &f), .out = cpu_operand(r, f.out).data});
}

clave_status cpu_gather(cpu_recorder *r, const node *n) {
  gather_form f;
  describe_gather(n, &f);
  return cpu_launch(r, gather,
                    &(gather_args){.x = cpu_view(r, f.x, &f.x_places),
                                   .index = cpu_view(r, f.index, &f.index_places),
                                   .out = cpu_operand(r, f.out).data,
                                   .size = f.size,
                                   .step = f.step});
}
