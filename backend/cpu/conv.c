/* Conv and ConvTranspose. */
#include "ops/conv.h"

#include "backend/cpu/kernels/conv.h"
#include "cpu_ops.h"

/* The weight in panels, if it is constant. */
static clave_status pack_weight(cpu_recorder *r, const conv_form *f, conv_args *p) {
  if (!conv_packs(p) || !cpu_takes_form(r, f->weight)) return NULL;
  return cpu_form(r,
                  &(cpu_form_request){.kind = CPU_FORM_CONV,
                                      .x = f->weight,
                                      .size = f->groups,
                                      .k = &kernel_conv_pack,
                                      .args = p},
                  &p->packed);
}

static clave_status record_conv(cpu_recorder *r, const conv_form *f) {
  conv_args p = {.x = cpu_operand(r, f->x).data,
                 .weight = cpu_operand(r, f->weight).data,
                 .bias = cpu_operand(r, f->bias).data,
                 .out = cpu_operand(r, f->out).data,
                 .type = f->x->t.type,
                 .transposed = f->transposed,
                 .images = f->images,
                 .groups = f->groups,
                 .channels = f->channels,
                 .outputs = f->outputs};
  for (int i = 0; i < CONV_DIMS; i++) {
    const conv_dim *d = &f->dims[i];
    p.dims[i] = (kconv_dim){.in = d->in,
                            .out = d->out,
                            .kernel = d->kernel,
                            .stride = d->stride,
                            .padding = d->padding,
                            .dilation = d->dilation,
                            .phases = d->phases,
                            .tap_step = d->tap_step};
  }
  TRY(pack_weight(r, f, &p));
  return cpu_launch(r, conv, &p);
}

clave_status cpu_conv(cpu_recorder *r, const node *n) {
  conv_form f;
  describe_conv(n, &f);
  return record_conv(r, &f);
}

clave_status cpu_conv_transpose(cpu_recorder *r, const node *n) {
  conv_form f;
  describe_conv_transpose(n, &f);
  return record_conv(r, &f);
}
