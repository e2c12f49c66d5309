/* Depthwise convolutions of 8-bit integers where the CPU adds products of bytes:
 * kernels_cl/depthwise_integer.cl. */
#include "backend/opencl/depthwise.h"
#include "backend/opencl/families.h"
#include "opencl_ops.h"

/* As in kernels_cl/depthwise_integer.cl. */
enum {
  LANES = 16,      /* outputs of a vector */
  LANE_BYTES = 16, /* of x, that four outputs see */
  MOST_STRIDE = 4,
  MOST_ROWS = 16,
  MOST_SUMS = 4096,
  TASKS = 4 /* work-items of a core, at least */
};

/* Four outputs see what lies within LANE_BYTES. */
static bool sees_few(const conv_dim *x) {
  return x->stride <= MOST_STRIDE && x->kernel <= LANE_BYTES && x->dilation <= LANE_BYTES &&
         (LANES / 4 - 1) * x->stride + (x->kernel - 1) * x->dilation < LANE_BYTES;
}

clave_status depthwise_integer_usable(cl_recorder *s, const conv_form *f, bool *usable) {
  const conv_dim *y = &f->dims[1], *x = &f->dims[2];
  dots_kind dots;
  *usable = recorder_traits(s)->is_cpu && !f->transposed && f->channels == 1 &&
            f->out->t.type != f->x->t.type && dtype_size(f->x->t.type) == 1 &&
            conv_dim_is_absent(&f->dims[0]) && y->kernel <= MOST_ROWS && sees_few(x) &&
            x->out <= MOST_SUMS &&
            max_i64(tensor_numel(&f->x->t), tensor_numel(&f->out->t)) < INT32_MAX / 2;
  if (!*usable) return NULL;
  TRY(recorder_dots(s, &dots));
  *usable = dots == DOTS_AVX512_VNNI;
  return NULL;
}

/* Output rows of a work-item. */
static int64_t block_rows(const cl_recorder *s, const conv_form *f) {
  const int64_t rows = f->dims[1].out, planes = f->images * f->groups * f->outputs,
                most = MOST_SUMS / f->dims[2].out,
                wanted = ceil_div(TASKS * (int64_t)recorder_traits(s)->compute_units, planes);
  return min_i64(most, ceil_div(rows, min_i64(wanted, rows)));
}

clave_status opencl_depthwise_integer(cl_recorder *s, const node *n, const conv_form *f) {
  const conv_dim *y = &f->dims[1], *x = &f->dims[2];
  const int64_t block = block_rows(s, f), channels = f->groups * f->outputs,
                items = f->images * channels * ceil_div(y->out, block);
  launch l;
  launch_begin(&l, s, n);
  launch_dots(&l, DOTS_AVX512_VNNI);
  launch_define(&l, "SIGNED", f->x->t.type == DTYPE_I8);
  launch_define(&l, "HAS_BIAS", f->bias != NULL);
  launch_define(&l, "SIDE_Y", (int)y->kernel);
  launch_define(&l, "SIDE_X", (int)x->kernel);
  launch_define(&l, "STRIDE", (int)x->stride);
  launch_define(&l, "DILATION", (int)x->dilation);
  launch_define(&l, "ROLLS", y->stride == 1 && y->dilation == 1);
  launch_args(&l, &(conv_depthwise_integer_args){.x = buffer_arg(f->x),
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
                                                 .left = x->padding,
                                                 .stride_y = y->stride,
                                                 .dilation_y = y->dilation,
                                                 .padding = f->padding_value});
  launch_epilogue_of_result(&l);
  return launch_loops(&l, items, 1, block * x->out * y->kernel);
}
