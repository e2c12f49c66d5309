/* Convolution: kernels_cl/conv.cl. Images are taken in portions whose padded copies fit a cache. */
#include "backend/opencl/families.h"
#include "opencl_ops.h"

enum { PORTION_BYTES = 4 << 20, WIDEN_CHUNK = 64 };

/* One spatial dimension. */
typedef struct conv_dim {
  int64_t size, out, kernel, stride, pad, dilation;
  int64_t plane; /* of one phase */
} conv_dim;

typedef struct convolution {
  const bound_tensor *x, *weight, *bias, *out;
  conv_dim y, c;                               /* rows, columns; 1-d: one row */
  int64_t images, groups, channels, n_outputs; /* channels and outputs of one group */
  bool from_x, widen, by_row, outputs_first;
  int outputs, vectors, width; /* the kernel's tile */
} convolution;

static conv_dim read_dim(const convolution *v, const ir_conv *op, int spatial, int which) {
  if (which < 0) return (conv_dim){1, 1, 1, 1, 0, 1, 1};
  const tensor *x = &v->x->t, *w = &v->weight->t;
  int d = x->rank - spatial + which;
  conv_dim c = {.size = x->dims[d],
                .out = v->out->t.dims[d],
                .kernel = w->dims[d],
                .stride = op->stride.items[which],
                .pad = op->padding.items[which],
                .dilation = op->dilation.items[which]};
  int64_t needed = (c.out - 1) * c.stride + (c.kernel - 1) * c.dilation + 1;
  c.plane = ceil_div(max_i64(needed, c.stride), c.stride);
  return c;
}

static bool is_plain(const conv_dim *d) { return d->pad == 0 && d->stride == 1; }

/* OUTPUTS * VECTORS sums have to stay in registers. Vectors are cut out of output rows, or follow
 * each other over the padded width, whichever loses less at the ends of rows (stores like the first
 * better). */
static void choose_tile(const cl_stream *s, convolution *v) {
  bool is_cpu = stream_traits(s)->is_cpu, narrow = v->c.out <= 8;
  v->outputs = v->n_outputs >= 8 && !(is_cpu && narrow) ? 8 : v->n_outputs >= 4 ? 4 : 1;
  v->width = !is_cpu ? 1 : narrow ? 8 : 16;
  v->vectors = !is_cpu ? 2 : v->outputs == 1 ? 8 : narrow ? 4 : 2;
  int64_t cut = ceil_div(v->c.out, v->width) * v->width;
  v->by_row = 10 * cut <= 11 * v->c.plane;
  int64_t image = v->channels * v->y.size * v->c.size,
          weights = v->n_outputs * v->channels * v->y.kernel * v->c.kernel;
  v->outputs_first = weights < image;
}

static convolution read_conv(const cl_stream *s, const node *n) {
  const ir_conv *op = n->instruction->op;
  convolution v = {.x = &n->tensors[op->x],
                   .weight = &n->tensors[op->weight],
                   .bias = operand_of(n, op->bias),
                   .out = &n->tensors[op->out]};
  int spatial = v.x->t.rank - 2;
  v.y = read_dim(&v, op, spatial, spatial - 2);
  v.c = read_dim(&v, op, spatial, spatial - 1);
  v.images = v.x->t.dims[0];
  v.groups = op->groups;
  v.channels = v.weight->t.dims[1];
  v.n_outputs = v.weight->t.dims[0] / op->groups;
  v.widen = v.x->t.type == DTYPE_F16 || v.x->t.type == DTYPE_BF16;
  v.from_x = !v.widen && is_plain(&v.y) && is_plain(&v.c);
  if (v.from_x) v.y.plane = v.y.size;
  if (v.from_x) v.c.plane = v.c.size;
  choose_tile(s, &v);
  return v;
}

static void begin_conv(launch *l, cl_stream *s, const node *n, const char *kernel,
                       const convolution *v) {
  launch_begin(l, s, n, "conv", kernel);
  launch_dtype(l, "X_TYPE", v->x->t.type);
  launch_compute(l, v->x->t.type);
}

static int64_t spread_rows(const convolution *v) {
  return v->groups * v->channels * v->y.stride * v->c.stride * v->y.plane;
}

/* Images [first, first + count) of a dense tensor. */
static bound_tensor take_images(const bound_tensor *t, int64_t first, int64_t count) {
  bound_tensor part = *t;
  int64_t size = t->t.dims[0] ? tensor_numel(&t->t) / t->t.dims[0] : 0;
  part.t.dims[0] = count;
  part.t.offset += first * size;
  return part;
}

static clave_status spread(cl_stream *s, const node *n, const convolution *v, const bound_tensor *x,
                           cl_mem planes) {
  int64_t items = x->t.dims[0] * spread_rows(v);
  launch l;
  begin_conv(&l, s, n, "conv_spread", v);
  if (items * v->c.plane > INT32_MAX / 2) launch_wide(&l);
  launch_buffer(&l, x);
  launch_memory(&l, planes, 0);
  launch_int(&l, items);
  launch_int(&l, v->y.size);
  launch_int(&l, v->c.size);
  launch_int(&l, v->y.stride);
  launch_int(&l, v->c.stride);
  launch_int(&l, v->y.pad);
  launch_int(&l, v->c.pad);
  launch_int(&l, v->y.plane);
  launch_int(&l, v->c.plane);
  return launch_loops(&l, items, 1, v->c.plane);
}

static clave_status widen(cl_stream *s, const node *n, const convolution *v, cl_mem memory,
                          int64_t offset) {
  int64_t items = tensor_numel(&v->weight->t);
  launch l;
  begin_conv(&l, s, n, "conv_widen", v);
  launch_buffer(&l, v->weight);
  launch_memory(&l, memory, offset);
  launch_int(&l, items);
  return launch_loops(&l, ceil_div(items, WIDEN_CHUNK), 1, WIDEN_CHUNK);
}

/* skip and phase of both dimensions, then their strides: how planes are walked from tap to tap. */
static void launch_taps(launch *l, const convolution *v) {
  const conv_dim *y = &v->y, *c = &v->c;
  launch_int(l, y->kernel);
  launch_int(l, c->kernel);
  launch_int(l, y->dilation / y->stride);
  launch_int(l, c->dilation / c->stride);
  launch_int(l, y->dilation % y->stride);
  launch_int(l, c->dilation % c->stride);
  launch_int(l, y->stride);
  launch_int(l, c->stride);
}

/* weight_offset < 0: the weight tensor itself. */
static clave_status multiply(cl_stream *s, const node *n, const convolution *v,
                             const bound_tensor *x, const bound_tensor *out, cl_mem scratch,
                             int64_t weight_offset) {
  int64_t positions = (v->y.out - 1) * v->c.plane + v->c.out;
  int64_t n_vectors =
      v->by_row ? v->y.out * ceil_div(v->c.out, v->width) : ceil_div(positions, v->width);
  int64_t position_blocks = ceil_div(n_vectors, v->vectors),
          output_blocks = ceil_div(v->n_outputs, v->outputs);
  int64_t items = x->t.dims[0] * v->groups * output_blocks * position_blocks;
  launch l;
  begin_conv(&l, s, n, "conv_direct", v);
  launch_define(&l, "OUTPUTS", v->outputs);
  launch_define(&l, "VECTORS", v->vectors);
  launch_define(&l, "W", v->width);
  launch_define(&l, "HAS_BIAS", v->bias != NULL);
  launch_define(&l, "FROM_X", v->from_x);
  launch_define(&l, "BY_ROW", v->by_row);
  launch_define(&l, "STRIDED", v->y.stride != 1 || v->c.stride != 1);
  launch_define(&l, "OUTPUTS_FIRST", v->outputs_first);
  if (x->t.dims[0] * spread_rows(v) * v->c.plane > INT32_MAX / 2) launch_wide(&l);
  if (v->from_x)
    launch_buffer(&l, x);
  else
    launch_memory(&l, scratch, 0);
  if (weight_offset < 0)
    launch_buffer(&l, v->weight);
  else
    launch_memory(&l, scratch, weight_offset);
  launch_optional(&l, v->bias);
  launch_buffer(&l, out);
  launch_int(&l, items);
  launch_int(&l, v->groups);
  launch_int(&l, v->n_outputs);
  launch_int(&l, v->channels);
  launch_int(&l, v->y.out);
  launch_int(&l, v->c.out);
  launch_int(&l, v->y.plane);
  launch_int(&l, v->c.plane);
  launch_taps(&l, v);
  int64_t work = v->channels * v->y.kernel * v->c.kernel * v->outputs * v->vectors;
  return launch_loops(&l, items, 1, work);
}

clave_status opencl_conv(cl_stream *s, const node *n) {
  convolution v = read_conv(s, n);
  int64_t item = v.x->t.type == DTYPE_F64 ? 8 : 4,
          image = v.from_x ? 0 : spread_rows(&v) * v.c.plane;
  int64_t portion =
      v.from_x ? v.images : min_i64(max_i64(PORTION_BYTES / max_i64(image * item, 1), 1), v.images);
  int64_t slack = v.vectors * v.width, weight_offset = v.widen ? portion * image + slack : -1;
  int64_t elements = portion * image + slack + (v.widen ? tensor_numel(&v.weight->t) : 0);
  cl_mem scratch = NULL;
  if (!v.from_x) TRY(stream_scratch(s, (size_t)(elements * item), &scratch));
  if (v.widen) TRY(widen(s, n, &v, scratch, weight_offset));
  for (int64_t first = 0; first < v.images; first += portion) {
    int64_t count = min_i64(portion, v.images - first);
    bound_tensor x = take_images(v.x, first, count), out = take_images(v.out, first, count);
    if (!v.from_x) TRY(spread(s, n, &v, &x, scratch));
    TRY(multiply(s, n, &v, &x, &out, scratch, weight_offset));
  }
  return NULL;
}
