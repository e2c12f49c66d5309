/* The recording of convolutions by Winograd's method. */
#include "backend/cpu/winograd.h"

#include "backend/cpu/kernels/conv/winograd.h"
#include "backend/cpu/tail.h"

clave_status record_winograd(cpu_recorder *r, const node *n, const conv_form *f, int tile) {
  winograd_args p = {.x = cpu_operand(r, f->x).data,
                     .weight = cpu_operand(r, f->weight).data,
                     .bias = cpu_operand(r, f->bias).data,
                     .out = cpu_operand(r, f->out).data,
                     .x_type = f->x->t.type,
                     .out_type = f->out->t.type,
                     .weight_type = f->weight->t.type,
                     .encoding = f->weight->t.encoding,
                     .images = f->images,
                     .groups = f->groups,
                     .channels = f->channels,
                     .outputs = f->outputs,
                     .in_rows = f->dims[1].in,
                     .in_columns = f->dims[2].in,
                     .out_rows = f->dims[1].out,
                     .out_columns = f->dims[2].out,
                     .top = f->dims[1].padding,
                     .left = f->dims[2].padding,
                     .tile = tile};
  take_tail(r, n, 1, &p.tail, &p.steps);
  TRY(cpu_packed(r,
                 &(cpu_packed_request){.kind = CPU_PACKED_WINOGRAD,
                                       .x = f->weight,
                                       .size = {f->groups, tile, 0},
                                       .k = &kernel_winograd_pack,
                                       .args = &p},
                 &p.packed));
  return cpu_launch(r, winograd, &p);
}
