/* Depthwise convolutions in float with kernels of 3x3 and 5x5: kernels_cl/depthwise.cl by strips of
 * planes, depthwise_lanes.cl with planes in the lanes of vectors. */
#include "backend/opencl/depthwise.h"

#include "backend/opencl/families.h"
#include "opencl_ops.h"

enum {
  ROWS = 4,               /* of outputs that are made at once */
  NARROW = 8,             /* columns for which vectors of so many lanes do */
  CELLS = 4096,           /* of a work-item, about, which a cache keeps for the steps behind */
  TASKS = 4,              /* work-items of a core, at least */
  LANES = 16,             /* planes at a time, in lanes */
  ROUNDED = 512,          /* outputs of a row that is rounded, at most, as in the kernels */
  AT_ONCE = 8,            /* outputs of a row that are summed at once, at most, in lanes */
  TURNED_3 = 8,           /* columns: wider rows of 3 taps are made faster where they lie */
  TURNED_5 = 32,          /* the same of 5 taps, */
  TURNED_5_NARROW = 16,   /* and of BF16 */
  TURNED_BYTES = 96 << 10 /* of a work-item: they stay in the second-level cache */
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

bool depthwise_usable(const cl_recorder *s, const conv_form *f) {
  const device_traits *t = recorder_traits(s);
  const conv_dim *y = &f->dims[1], *x = &f->dims[2];
  return t->is_cpu && f->groups > 1 && f->channels == 1 && !f->transposed &&
         f->x->t.type == DTYPE_F32 && f->out->t.type == DTYPE_F32 &&
         f->weight->t.type == DTYPE_F32 && !f->weight->t.encoding.kind &&
         conv_dim_is_absent(&f->dims[0]) && is_small(y) && is_small(x) && x->kernel == y->kernel &&
         x->stride == y->stride &&
         max_i64(tensor_numel(&f->x->t), tensor_numel(&f->out->t)) < INT32_MAX / 2;
}

bool depthwise_takes_narrow(const conv_form *f) { return f->dims[2].out <= ROUNDED; }

static bool is_narrow(const conv_form *f) { return f->x->t.is_narrow || f->out->t.is_narrow; }

static void begin_depthwise(launch *l, cl_recorder *s, const node *n, const conv_form *f) {
  launch_begin(l, s, n);
  launch_compute(l, DTYPE_F32);
  launch_dtype(l, "X_TYPE", f->x->t.type);
  launch_dtype(l, "OUT_TYPE", f->out->t.type);
  launch_pairs(l, is_narrow(f));
  launch_define(l, "SIDE", (int)f->dims[2].kernel);
  launch_define(l, "STRIDE", (int)f->dims[2].stride);
  launch_define(l, "HAS_BIAS", f->bias != NULL);
}

static int lanes_of_rows(const cl_recorder *s, const conv_form *f) {
  if (f->x->t.is_narrow) return 16;
  return f->dims[2].out <= NARROW || recorder_traits(s)->vector_width < 16 ? 8 : 16;
}

clave_status opencl_depthwise(cl_recorder *s, const node *n, const conv_form *f) {
  const conv_dim *y = &f->dims[1], *x = &f->dims[2];
  const int64_t block = block_rows(s, f), channels = f->groups * f->outputs;
  const int64_t items = f->images * channels * ceil_div(y->out, block);
  launch l;
  begin_depthwise(&l, s, n, f);
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

/* ---------------------------------------------------------------- in lanes */

static int64_t seen(const conv_dim *d, int64_t n) { return (n - 1) * d->stride + d->kernel; }

/* Vectors of a turned row. */
static int64_t pitch_of(const conv_dim *x) { return max_i64(seen(x, x->out), x->padding + x->in); }

/* Floats of the rows that some rows of outputs see, and of their sums. */
static int64_t turned_floats(const conv_form *f, int64_t rows) {
  const conv_dim *y = &f->dims[1], *x = &f->dims[2];
  return LANES * (seen(y, rows) * pitch_of(x) + rows * x->out + LANES);
}

/* Output rows of a work-item; 0: not one fits. */
static int64_t turned_rows(const cl_recorder *s, const conv_form *f) {
  const device_traits *t = recorder_traits(s);
  const int64_t rows = f->dims[1].out, parts = f->images * ceil_div(f->groups, LANES),
                most = min_i64((int64_t)t->local_memory, TURNED_BYTES) / (int64_t)sizeof(float);
  const int64_t one = turned_floats(f, 1), more = turned_floats(f, 2) - one;
  if (one > most) return 0;
  const int64_t fit = 1 + (most - one) / more,
                wanted = ceil_div(TASKS * (int64_t)t->compute_units, parts);
  const int64_t blocks = max_i64(ceil_div(rows, fit), min_i64(wanted, ceil_div(rows, ROWS)));
  return ceil_div(rows, blocks);
}

bool depthwise_lanes_usable(const cl_recorder *s, const conv_form *f) {
  return depthwise_usable(s, f) && recorder_traits(s)->vector_width >= LANES && f->outputs == 1 &&
         turned_rows(s, f) > 0;
}

bool depthwise_lanes_suit(const conv_form *f) {
  const int64_t of_5 = f->x->t.is_narrow ? TURNED_5_NARROW : TURNED_5;
  return f->groups >= LANES && f->dims[2].out <= (f->dims[2].kernel == 3 ? TURNED_3 : of_5);
}

clave_status opencl_depthwise_lanes(cl_recorder *s, const node *n, const conv_form *f) {
  const conv_dim *y = &f->dims[1], *x = &f->dims[2];
  const int64_t block = turned_rows(s, f),
                items = f->images * ceil_div(f->groups, LANES) * ceil_div(y->out, block);
  launch l;
  begin_depthwise(&l, s, n, f);
  launch_define(&l, "N", (int)ceil_div(x->out, ceil_div(x->out, AT_ONCE)));
  launch_args(&l, &(conv_depthwise_lanes_args){
                      .x = buffer_arg(f->x),
                      .weight = buffer_arg(f->weight),
                      .bias = optional_arg(f->bias),
                      .out = buffer_arg(f->out),
                      .items = items,
                      .channels = f->groups,
                      .block = block,
                      .in_rows = y->in,
                      .in_columns = x->in,
                      .out_rows = y->out,
                      .out_columns = x->out,
                      .top = y->padding,
                      .left = x->padding,
                      .pitch = pitch_of(x),
                      .memory = local_arg(sizeof(float) * (size_t)turned_floats(f, block))});
  launch_epilogue(&l);
  const size_t global = (size_t)items, local = 1;
  return launch_run(&l, 1, &global, &local);
}
