/* Convolution and its transpose: kernels_cl/conv.cl. Images, and of large volumes their slices, are
 * taken in tiles whose padded copies fit a cache. */
#include "backend/opencl/families.h"
#include "backend/opencl/gemm.h"
#include "opencl_ops.h"

enum { TILE_BYTES = 4 << 20, WIDEN_CHUNK = 64 };

/* One spatial dimension. */
typedef struct conv_dim {
  int64_t size, out, kernel, stride, pad, dilation;
  int64_t plane; /* of one phase */
  int64_t lead;  /* transposed: padding in front of a plane; else `pad` is */
  int64_t step;  /* transposed: taps from one to the next of the same phase */
} conv_dim;

typedef struct convolution {
  const bound_tensor *x, *weight, *bias, *out;
  const ir_i32s *stride, *padding, *dilation;
  bool transposed;
  conv_dim z, y, c;                            /* slices, rows, columns; missing ones are 1 */
  int64_t images, groups, channels, n_outputs; /* channels and outputs of one group */
  bool from_x, widen, by_row, outputs_first;
  int outputs, vectors, width; /* the kernel's tile */
} convolution;

/* Images [image, image + images), slices [out, out + out_slices) of their outputs, which need
 * slices [in, in + slices) of the input. */
typedef struct tile {
  int64_t image, images, out, out_slices, in, slices;
} tile;

static int64_t common_divisor(int64_t a, int64_t b) {
  return b == 0 ? a : common_divisor(b, a % b);
}

static void lay_out(conv_dim *d, bool transposed) {
  if (!transposed) {
    int64_t needed = (d->out - 1) * d->stride + (d->kernel - 1) * d->dilation + 1;
    d->plane = ceil_div(max_i64(needed, d->stride), d->stride);
    return;
  }
  d->step = d->stride / common_divisor(d->stride, d->dilation);
  d->lead = max_i64((d->kernel - 1) * d->dilation - d->pad, 0) / d->stride;
  d->plane = d->lead + max_i64(d->size, ceil_div(d->out, d->stride) + ceil_div(d->pad, d->stride));
}

static conv_dim read_dim(const convolution *v, int which) {
  const tensor *x = &v->x->t;
  int d = x->rank - SPATIAL_DIMS + which, i = d - 2;
  conv_dim c = {.size = 1, .out = 1, .kernel = 1, .stride = 1, .dilation = 1};
  if (i >= 0)
    c = (conv_dim){.size = x->dims[d],
                   .out = v->out->t.dims[d],
                   .kernel = v->weight->t.dims[d],
                   .stride = v->stride->items[i],
                   .pad = v->padding->items[i],
                   .dilation = v->dilation->items[i]};
  lay_out(&c, v->transposed);
  return c;
}

static bool is_plain(const conv_dim *d, bool transposed) {
  return transposed ? d->plane == d->size : d->pad == 0 && d->stride == 1;
}

/* Outputs of one phase in a row or column of them. */
static int64_t phase_size(const convolution *v, const conv_dim *d) {
  return v->transposed ? ceil_div(d->out, min_i64(d->stride, d->out)) : d->out;
}

/* OUTPUTS * VECTORS sums have to stay in registers: of CPUs with vectors of 16 floats there are 32,
 * of others mostly 16. Vectors are cut out of output rows, or follow each other over the padded
 * width, whichever loses less at the ends of rows (stores like the first better). */
static void choose_kernel_tile(const cl_recorder *s, convolution *v) {
  const device_traits *t = recorder_traits(s);
  bool is_cpu = t->is_cpu && !dtype_is_int(v->x->t.type);
  int64_t columns = phase_size(v, &v->c);
  bool narrow = columns <= 8, few = is_cpu && t->vector_width < 16;
  v->outputs = v->n_outputs >= 8 && !(is_cpu && (narrow || few)) ? 8 : v->n_outputs >= 4 ? 4 : 1;
  v->width = !is_cpu ? 1 : narrow || few ? 8 : 16;
  v->vectors = !is_cpu ? 2 : v->outputs == 1 ? 8 : few ? 3 : narrow ? 4 : 2;
  int64_t cut = ceil_div(columns, v->width) * v->width;
  v->by_row = 10 * cut <= 11 * v->c.plane;
  int64_t image = v->channels * v->y.size * v->c.size,
          weights = v->n_outputs * v->channels * v->y.kernel * v->c.kernel;
  v->outputs_first = weights < image;
}

static void complete_conv(const cl_recorder *s, convolution *v) {
  v->z = read_dim(v, 0);
  v->y = read_dim(v, 1);
  v->c = read_dim(v, 2);
  v->images = v->x->t.dims[0];
  v->channels = v->x->t.dims[1] / v->groups;
  v->n_outputs = v->out->t.dims[1] / v->groups;
  dtype t = v->x->t.type;
  v->widen = t != DTYPE_F32 && t != DTYPE_F64 && t != DTYPE_I64;
  v->from_x = !v->widen && is_plain(&v->y, v->transposed) && is_plain(&v->c, v->transposed);
  if (v->from_x) v->y.plane = v->y.size;
  if (v->from_x) v->c.plane = v->c.size;
  choose_kernel_tile(s, v);
}

static void begin_conv(launch *l, cl_recorder *s, const node *n, const convolution *v) {
  launch_begin(l, s, n);
  launch_dtype(l, "X_TYPE", v->x->t.type);
  launch_compute(l, v->x->t.type);
}

/* The number of phases of the planes. */
static int64_t phase_count(const convolution *v) {
  return v->transposed ? 1 : v->y.stride * v->c.stride;
}

/* Elements of one slice of all channels of an image. */
static int64_t slice_size(const convolution *v) {
  return v->groups * v->channels * phase_count(v) * v->y.plane * v->c.plane;
}

/* Images [first, first + count) of a dense tensor. */
static bound_tensor take_images(const bound_tensor *t, int64_t first, int64_t count) {
  bound_tensor part = *t;
  int64_t size = t->t.dims[0] ? tensor_numel(&t->t) / t->t.dims[0] : 0;
  part.t.dims[0] = count;
  part.t.offset += first * size;
  return part;
}

static clave_status pad_planes(cl_recorder *s, const node *n, const convolution *v, const tile *p) {
  bound_tensor x = take_images(v->x, p->image, p->images);
  int64_t items = v->c.plane > 0 ? p->images * p->slices * slice_size(v) / v->c.plane : 0;
  launch l;
  begin_conv(&l, s, n, v);
  if (items * v->c.plane > INT32_MAX / 2) launch_wide(&l);
  launch_args(&l, &(conv_pad_planes_args){.x = buffer_arg(&x),
                                          .planes = scratch_arg(0),
                                          .items = items,
                                          .depth = v->z.size,
                                          .first_slice = p->in,
                                          .slices = p->slices,
                                          .rows = v->y.size,
                                          .columns = v->c.size,
                                          .stride_y = v->transposed ? 1 : v->y.stride,
                                          .stride_x = v->transposed ? 1 : v->c.stride,
                                          .pad_y = v->transposed ? v->y.lead : v->y.pad,
                                          .pad_x = v->transposed ? v->c.lead : v->c.pad,
                                          .plane_rows = v->y.plane,
                                          .plane_columns = v->c.plane});
  return launch_loops(&l, items, 1, v->c.plane);
}

static clave_status widen(cl_recorder *s, const node *n, const convolution *v, int64_t offset) {
  int64_t items = tensor_numel(&v->weight->t);
  launch l;
  begin_conv(&l, s, n, v);
  launch_args(&l, &(conv_widen_args){
                      .weight = buffer_arg(v->weight), .out = scratch_arg(offset), .items = items});
  return launch_loops(&l, ceil_div(items, WIDEN_CHUNK), 1, WIDEN_CHUNK);
}

/* How far it is from a tap to the next one of the same phase, in the rows or columns of a plane. */
static int64_t skip_of(const convolution *v, const conv_dim *d) {
  return (v->transposed ? -d->step : 1) * d->dilation / d->stride;
}

/* Kernel sizes and depth; how planes are walked from tap to tap, the strides, and what transposed
 * convolutions gather by. */
static taps_params taps_of(const convolution *v) {
  const conv_dim *z = &v->z, *y = &v->y, *x = &v->c;
  return (taps_params){.kernel_z = z->kernel,
                       .kernel_y = y->kernel,
                       .kernel_x = x->kernel,
                       .stride_z = z->stride,
                       .pad_z = z->pad,
                       .dilation_z = z->dilation,
                       .skip_y = skip_of(v, y),
                       .skip_x = skip_of(v, x),
                       .phase_y = y->dilation % y->stride,
                       .phase_x = x->dilation % x->stride,
                       .stride_y = y->stride,
                       .stride_x = x->stride,
                       .pad_y = y->pad,
                       .pad_x = x->pad,
                       .dilation_y = y->dilation,
                       .dilation_x = x->dilation,
                       .step_y = y->step,
                       .step_x = x->step,
                       .lead_y = y->lead,
                       .lead_x = x->lead};
}

static void define_class(launch *l, const convolution *v) {
  launch_define(l, "OUTPUTS", v->outputs);
  launch_define(l, "VECTORS", v->vectors);
  launch_define(l, "W", v->width);
  launch_define(l, "HAS_BIAS", v->bias != NULL);
  launch_define(l, "FROM_X", v->from_x);
  launch_define(l, "BY_ROW", v->by_row);
  launch_define(l, "STRIDED", phase_count(v) != 1);
  launch_define(l, "OUTPUTS_FIRST", v->outputs_first);
  launch_define(l, "TRANSPOSED", v->transposed);
}

/* Work-items of a tile. */
static int64_t count_items(const convolution *v, const tile *p) {
  int64_t rows = phase_size(v, &v->y), columns = phase_size(v, &v->c), parts = 1;
  if (v->transposed) parts = min_i64(v->y.stride, v->y.out) * min_i64(v->c.stride, v->c.out);
  int64_t positions = (rows - 1) * v->c.plane + columns;
  int64_t n_vectors =
      v->by_row ? rows * ceil_div(columns, v->width) : ceil_div(positions, v->width);
  return p->images * v->groups * p->out_slices * parts * ceil_div(v->n_outputs, v->outputs) *
         ceil_div(n_vectors, v->vectors);
}

/* weight_offset < 0: the weight tensor itself. */
static clave_status multiply(cl_recorder *s, const node *n, const convolution *v, const tile *p,
                             int64_t weight_offset) {
  bound_tensor x = take_images(v->x, p->image, p->images),
               out = take_images(v->out, p->image, p->images);
  int64_t items = count_items(v, p);
  launch l;
  begin_conv(&l, s, n, v);
  define_class(&l, v);
  if (p->images * p->slices * slice_size(v) > INT32_MAX / 2) launch_wide(&l);
  launch_args(&l, &(conv_direct_args){.x = v->from_x ? buffer_arg(&x) : scratch_arg(0),
                                      .weight = weight_offset < 0 ? buffer_arg(v->weight)
                                                                  : scratch_arg(weight_offset),
                                      .bias = optional_arg(v->bias),
                                      .out = buffer_arg(&out),
                                      .items = items,
                                      .groups = v->groups,
                                      .n_outputs = v->n_outputs,
                                      .channels = v->channels,
                                      .out_depth = v->z.out,
                                      .first_out = p->out,
                                      .out_slices = p->out_slices,
                                      .out_rows = v->y.out,
                                      .out_columns = v->c.out,
                                      .first_slice = p->in,
                                      .slices = p->slices,
                                      .plane_rows = v->y.plane,
                                      .plane_columns = v->c.plane,
                                      .taps = taps_of(v)});
  int64_t taps = v->z.kernel * v->y.kernel * v->c.kernel;
  return launch_loops(&l, items, 1, v->channels * taps * v->outputs * v->vectors);
}

/* The input slices that outputs [p->out, p->out + p->out_slices) need. */
static void find_slices(const convolution *v, tile *p) {
  const conv_dim *z = &v->z;
  int64_t last = p->out + p->out_slices - 1, reach = (z->kernel - 1) * z->dilation, from, to;
  if (v->transposed) {
    from = ceil_div(max_i64(p->out + z->pad - reach, 0), z->stride);
    to = (last + z->pad) / z->stride;
  } else {
    from = max_i64(p->out * z->stride - z->pad, 0);
    to = last * z->stride - z->pad + reach;
  }
  to = min_i64(to, z->size - 1);
  p->in = min_i64(from, z->size);
  p->slices = max_i64(to - p->in + 1, 0);
}

/* How much is taken at once: whole images, or slices of one, a few times what a slice needs around
 * it at least. */
static tile first_tile(const convolution *v, int64_t item) {
  int64_t slice = max_i64(slice_size(v) * item, 1), image = slice * v->z.size;
  tile p = {.images = v->images, .out_slices = v->z.out};
  if (v->from_x) {
    p.slices = v->z.size;
    return p;
  }
  p.images = min_i64(max_i64(TILE_BYTES / image, 1), v->images);
  int64_t reach = (v->z.kernel - 1) * v->z.dilation + 1,
          slices = max_i64(TILE_BYTES / slice, 4 * reach);
  if (image > TILE_BYTES && slices < v->z.size)
    p.out_slices = v->transposed ? slices * v->z.stride : max_i64(ceil_div(slices, v->z.stride), 1);
  p.out_slices = min_i64(p.out_slices, v->z.out);
  return p;
}

/* Input slices of the largest tile. */
static int64_t most_slices(const convolution *v, tile p) {
  int64_t most = 0;
  for (p.out = 0; p.out < v->z.out; p.out += p.out_slices) {
    find_slices(v, &p);
    most = max_i64(most, p.slices);
  }
  return most;
}

static clave_status run_tiles(cl_recorder *s, const node *n, const convolution *v, const tile *size,
                              int64_t weight_offset) {
  for (int64_t image = 0; image < v->images; image += size->images)
    for (int64_t out = 0; out < v->z.out; out += size->out_slices) {
      tile p = {.image = image,
                .images = min_i64(size->images, v->images - image),
                .out = out,
                .out_slices = min_i64(size->out_slices, v->z.out - out),
                .slices = size->slices};
      if (!v->from_x) {
        find_slices(v, &p);
        TRY(pad_planes(s, n, v, &p));
      }
      TRY(multiply(s, n, v, &p, weight_offset));
    }
  return NULL;
}

/* ---------------------------------------------------------------- pointwise */

static bool is_pointwise_dim(const conv_dim *d) {
  return d->kernel == 1 && d->stride == 1 && d->pad == 0;
}

/* One tap, at its place: a product of matrices, which is faster on CPUs. */
static bool is_pointwise(const cl_recorder *s, const convolution *v) {
  dtype t = v->x->t.type;
  return recorder_traits(s)->is_cpu && !v->transposed && v->groups == 1 && v->channels > 0 &&
         dtype_is_float(t) && t != DTYPE_F64 && is_pointwise_dim(&v->z) &&
         is_pointwise_dim(&v->y) && is_pointwise_dim(&v->c);
}

/* Of each image, the weight (outputs, channels) by its planes (channels, positions); of images of
 * one position all of them (images, channels) by the transposed weight. */
static clave_status run_pointwise(cl_recorder *s, const node *n, const convolution *v) {
  int64_t positions = v->z.size * v->y.size * v->c.size;
  gemm g = {.s = s, .node = n, .bias = v->bias, .out = v->out, .alpha = 1, .beta = 1};
  g.k = v->channels;
  if (positions == 1) {
    g.a = v->x;
    g.b = v->weight;
    g.m = v->images;
    g.n = v->n_outputs;
    g.a_m = g.b_n = v->channels;
    g.a_k = g.b_k = g.bias_n = g.batches = 1;
    return gemm_record(&g);
  }
  g.a = v->weight;
  g.b = v->x;
  g.m = v->n_outputs;
  g.n = g.b_k = positions;
  g.a_m = v->channels;
  g.a_k = g.b_n = g.bias_m = 1;
  g.batches = v->images;
  g.batch_a = g.batch_bias = (tensor){.rank = 1, .dims = {v->images}};
  g.batch_b = (tensor){.rank = 1, .dims = {v->images}, .strides = {v->channels * positions}};
  return gemm_record(&g);
}

/* ---------------------------------------------------------------- the op */

static clave_status run_conv(cl_recorder *s, const node *n, convolution *v) {
  complete_conv(s, v);
  if (tensor_numel(&v->out->t) == 0) return NULL;
  if (is_pointwise(s, v)) return run_pointwise(s, n, v);
  bool wide = v->x->t.type == DTYPE_F64 || dtype_is_int(v->x->t.type);
  int64_t item = wide ? 8 : 4;
  tile p = first_tile(v, item);
  int64_t planes = v->from_x ? 0 : p.images * most_slices(v, p) * slice_size(v),
          slack = v->vectors * v->width, weight_offset = v->widen ? planes + slack : -1;
  int64_t elements = planes + slack + (v->widen ? tensor_numel(&v->weight->t) : 0);
  if (!v->from_x) TRY(recorder_scratch(s, (size_t)(elements * item)));
  if (v->widen) TRY(widen(s, n, v, weight_offset));
  return run_tiles(s, n, v, &p, weight_offset);
}

clave_status opencl_conv(cl_recorder *s, const node *n) {
  const ir_conv *op = n->instruction->op;
  convolution v = {.x = &n->tensors[op->x],
                   .weight = &n->tensors[op->weight],
                   .bias = operand_of(n, op->bias),
                   .out = &n->tensors[op->out],
                   .stride = &op->stride,
                   .padding = &op->padding,
                   .dilation = &op->dilation,
                   .groups = op->groups};
  return run_conv(s, n, &v);
}

clave_status opencl_conv_transpose(cl_recorder *s, const node *n) {
  const ir_conv_transpose *op = n->instruction->op;
  convolution v = {.x = &n->tensors[op->x],
                   .weight = &n->tensors[op->weight],
                   .bias = operand_of(n, op->bias),
                   .out = &n->tensors[op->out],
                   .stride = &op->stride,
                   .padding = &op->padding,
                   .dilation = &op->dilation,
                   .transposed = true,
                   .groups = op->groups};
  return run_conv(s, n, &v);
}
