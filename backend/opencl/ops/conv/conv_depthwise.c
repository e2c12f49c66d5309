/* Depthwise convolutions in float with kernels of 3x3 and 5x5 on CPUs:
 * kernels_cl/conv/depthwise.cl. */
#include "backend/opencl/ops/conv/conv.h"

#include "backend/opencl/ops/families.h"
#include "opencl_ops.h"

enum {
  ROWS = 4,     /* of outputs that are made at once */
  NARROW = 8,   /* columns for which vectors of so many lanes do */
  CELLS = 4096, /* of a work-item, about, which a cache keeps for the steps behind */
  TASKS = 4     /* work-items of a core, at least */
};

/* Padding on both sides is less than the kernel. */
static bool is_small(const conv_dim *d) {
  int64_t behind = (d->out - 1) * d->stride + d->kernel - d->padding - d->in;
  return (d->kernel == 3 || d->kernel == 5) && (d->stride == 1 || d->stride == 2) &&
         d->dilation == 1 && d->padding < d->kernel && behind < d->kernel && d->out > 0 &&
         d->in > 0;
}

/* Output rows of a work-item. */
static int64_t block_rows(const cl_recorder *s, const conv_form *f) {
  const int64_t rows = f->dims[1].out, cells = rows * f->dims[2].out,
                planes = f->images * f->groups * f->outputs,
                wanted = ceil_div(TASKS * (int64_t)recorder_traits(s)->compute_units, planes),
                blocks = max_i64(wanted, cells / CELLS), all = ceil_div(rows, ROWS);
  return ceil_div(all, max_i64(min_i64(blocks, all), 1)) * ROWS;
}

bool conv_depthwise_usable(const void *conv, const kernel_variant *variant) {
  const conv_problem *p = conv;
  const conv_form *f = &p->f;
  const device_traits *t = recorder_traits(p->s);
  (void)variant;
  const conv_dim *y = &f->dims[1], *x = &f->dims[2];
  return t->is_cpu && f->groups > 1 && f->channels == 1 && !f->transposed &&
         f->x->t.type == DTYPE_F32 && f->out->t.type == DTYPE_F32 &&
         f->weight->t.type == DTYPE_F32 && !f->weight->t.encoding.kind &&
         conv_dim_is_absent(&f->dims[0]) && is_small(y) && is_small(x) && x->kernel == y->kernel &&
         x->stride == y->stride &&
         max_i64(tensor_numel(&f->x->t), tensor_numel(&f->out->t)) < INT32_MAX / 2;
}

static int lanes_of_rows(const cl_recorder *s, const conv_form *f) {
  return f->dims[2].out <= NARROW || recorder_traits(s)->vector_width < 16 ? 8 : 16;
}

clave_status conv_depthwise(const void *conv) {
  const conv_problem *p = conv;
  cl_recorder *s = p->s;
  const conv_form *f = &p->f;
  const conv_dim *y = &f->dims[1], *x = &f->dims[2];
  const int64_t block = block_rows(s, f), channels = f->groups * f->outputs;
  const int64_t items = f->images * channels * ceil_div(y->out, block);
  launch l;
  launch_begin(&l, s, p->n);
  launch_compute(&l, DTYPE_F32);
  launch_define(&l, "SIDE", (int)x->kernel);
  launch_define(&l, "STRIDE", (int)x->stride);
  launch_define(&l, "HAS_BIAS", f->bias != NULL);
  launch_define(&l, "W", lanes_of_rows(s, f));
  launch_define(&l, "ROWS", ROWS);
  launch_args(&l, &(conv_depthwise_args){.x = buffer_arg(f->x),
                                         .weight = buffer_arg(f->weight),
                                         .bias = optional_arg(f->bias),
                                         .out = buffer_arg(f->out),
                                         .items = items,
                                         .channels = channels,
                                         .multiplier = f->outputs,
                                         .block = block,
                                         .in_rows = y->in,
                                         .in_columns = x->in,
                                         .out_rows = y->out,
                                         .out_columns = x->out,
                                         .top = y->padding,
                                         .left = x->padding});
  launch_epilogue(&l);
  return launch_loops(&l, items, 1, block * x->out * x->kernel * y->kernel);
}
