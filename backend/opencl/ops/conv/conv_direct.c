/* Convolutions of any kind, integers and transposed ones among them: kernels_cl/conv/conv.cl.
 * Images, and of large volumes their slices, are taken in tiles whose padded copies fit a cache. */
#include "backend/opencl/ops/conv/conv.h"

#include "backend/opencl/ops/families.h"
#include "opencl_ops.h"

enum { TILE_BYTES = 4 << 20, EXACT_TAPS = 512 /* BLOCK */ };

/* A spatial dimension and that of the planes that the kernel reads. */
typedef struct plane_dim {
  conv_dim d;
  int64_t size; /* of one phase of the strides */
  int64_t lead; /* transposed: padding in front of a plane; else `padding` is */
} plane_dim;

typedef struct convolution {
  conv_form f;
  plane_dim z, y, c; /* slices, rows, columns */
  bool integer, from_x, by_row, outputs_first;
  dtype compute;     /* what launch_compute makes the kernel's numbers of */
  dtype weight_type; /* of what the kernel reads */
  arg_buffer weight;
  int outputs, vectors, width; /* the kernel's tile */
} convolution;

/* Images [image, image + images), slices [out, out + out_slices) of their outputs, which need
 * slices [in, in + slices) of the input. */
typedef struct tile {
  int64_t image, images, out, out_slices, in, slices;
} tile;

static plane_dim lay_out(const conv_dim *d, bool transposed) {
  plane_dim p = {.d = *d};
  if (transposed) {
    p.lead = max_i64((d->kernel - 1) * d->dilation - d->padding, 0) / d->stride;
    p.size = p.lead + max_i64(d->in, ceil_div(d->out, d->stride) + ceil_div(d->padding, d->stride));
  } else {
    p.size = conv_dim_phase_size(d);
  }
  return p;
}

static bool is_plain(const plane_dim *p, bool transposed) {
  return transposed ? p->size == p->d.in : p->d.padding == 0 && p->d.stride == 1;
}

/* Outputs of one phase in a row or column of them. */
static int64_t phase_size(const plane_dim *p) { return ceil_div(p->d.out, p->d.phases); }

/* OUTPUTS * VECTORS sums have to stay in registers: of CPUs with vectors of 16 floats there are 32,
 * of others mostly 16. */
static void choose_kernel_tile(const cl_recorder *s, convolution *v) {
  const device_traits *t = recorder_traits(s);
  bool is_cpu = t->is_cpu && !dtype_is_int(v->compute);
  bool narrow = phase_size(&v->c) <= 8, few = is_cpu && t->vector_width < 16;
  v->outputs = v->f.outputs >= 8 && !(is_cpu && (narrow || few)) ? 8 : v->f.outputs >= 4 ? 4 : 1;
  v->width = !is_cpu ? 1 : narrow || few ? 8 : 16;
  v->vectors = !is_cpu ? 2 : v->outputs == 1 ? 8 : few ? 3 : narrow ? 4 : 2;
}

/* Vectors are cut out of output rows, or follow each other over the padded width, whichever loses
 * less at the ends of rows (stores like the first better). */
static void choose_walk(convolution *v) {
  int64_t cut = ceil_div(phase_size(&v->c), v->width) * v->width;
  v->by_row = 10 * cut <= 11 * v->c.size;
  int64_t image = v->f.channels * v->y.d.in * v->c.d.in,
          weights = v->f.outputs * v->f.channels * v->y.d.kernel * v->c.d.kernel;
  v->outputs_first = weights < image;
}

static convolution plan_conv(const cl_recorder *s, const conv_form *f) {
  convolution v = {.f = *f};
  v.z = lay_out(&f->dims[0], f->transposed);
  v.y = lay_out(&f->dims[1], f->transposed);
  v.c = lay_out(&f->dims[2], f->transposed);
  dtype t = f->x->t.type;
  v.integer = f->out->t.type != t;
  v.weight_type = f->weight->t.type;
  v.compute = v.integer && f->dims[1].kernel * f->dims[2].kernel <= EXACT_TAPS ? DTYPE_F32 : t;
  bool converts = t != DTYPE_F32 && t != DTYPE_F64 && t != DTYPE_I64;
  v.from_x = !converts && is_plain(&v.y, f->transposed) && is_plain(&v.c, f->transposed);
  if (v.from_x) v.y.size = v.y.d.in;
  if (v.from_x) v.c.size = v.c.d.in;
  choose_kernel_tile(s, &v);
  return v;
}

/* parameters: by_row, outputs_first. */
static double cost_of_walk(const void *conv, const kernel_variant *variant) {
  const convolution *c = conv;
  return variant->parameters[0] == c->by_row && variant->parameters[1] == c->outputs_first
             ? 0
             : ON_REQUEST;
}

static const kernel_variant walk_variants[] = {
    {"padded", .cost_of = cost_of_walk, .parameters = {false, false}},
    {"padded, outputs first", .cost_of = cost_of_walk, .parameters = {false, true}},
    {"by row", .cost_of = cost_of_walk, .parameters = {true, false}},
    {"by row, outputs first", .cost_of = cost_of_walk, .parameters = {true, true}}};

static void choose_walk_variant(cl_recorder *s, convolution *v) {
  tuning_key k = conv_key(s, &v->f);
  tuning_key_int(&k, "width", v->width);
  choose_walk(v);
  const variants all = {.family = "conv walk",
                        .rows = walk_variants,
                        .n = sizeof walk_variants / sizeof *walk_variants,
                        .problem = v};
  const int64_t *walk = recorder_choose(s, &all, &k)->parameters;
  v->by_row = walk[0];
  v->outputs_first = walk[1];
}

/* ---------------------------------------------------------------- planes */

static void begin_conv(launch *l, cl_recorder *s, const node *n, const convolution *v) {
  launch_begin(l, s, n);
  launch_dtype(l, "X_TYPE", v->f.x->t.type);
  launch_dtype(l, "W_TYPE", v->weight_type);
  launch_compute(l, v->compute);
  launch_define(l, "INTEGER", v->integer);
}

/* Phases of the planes, of one dimension. */
static int64_t plane_phases(const convolution *v, const conv_dim *d) {
  return v->f.transposed ? 1 : conv_dim_phases(d);
}

static int64_t phase_count(const convolution *v) {
  return plane_phases(v, &v->y.d) * plane_phases(v, &v->c.d);
}

/* Elements of one slice of all channels of an image. */
static int64_t slice_size(const convolution *v) {
  return v->f.groups * v->f.channels * phase_count(v) * v->y.size * v->c.size;
}

static clave_status pad_planes(cl_recorder *s, const node *n, const convolution *v, const tile *p) {
  bound_tensor x = take_images(v->f.x, p->image, p->images);
  int64_t items = v->c.size > 0 ? p->images * p->slices * slice_size(v) / v->c.size : 0;
  launch l;
  begin_conv(&l, s, n, v);
  if (items * v->c.size > INT32_MAX / 2) launch_wide(&l);
  launch_args(&l, &(conv_pad_planes_args){.x = buffer_arg(&x),
                                          .planes = scratch_arg(0),
                                          .items = items,
                                          .depth = v->z.d.in,
                                          .first_slice = p->in,
                                          .slices = p->slices,
                                          .rows = v->y.d.in,
                                          .columns = v->c.d.in,
                                          .stride_y = v->f.transposed ? 1 : v->y.d.stride,
                                          .stride_x = v->f.transposed ? 1 : v->c.d.stride,
                                          .phases_y = plane_phases(v, &v->y.d),
                                          .phases_x = plane_phases(v, &v->c.d),
                                          .pad_y = v->f.transposed ? v->y.lead : v->y.d.padding,
                                          .pad_x = v->f.transposed ? v->c.lead : v->c.d.padding,
                                          .plane_rows = v->y.size,
                                          .plane_columns = v->c.size,
                                          .padding = v->f.padding_value});
  return launch_loops(&l, items, 1, v->c.size);
}

/* How far it is from a tap to the next one of the same phase, in the rows or columns of a plane. */
static int64_t skip_of(const convolution *v, const conv_dim *d) {
  return (v->f.transposed ? -1 : 1) * d->tap_step * d->dilation / d->stride;
}

/* Kernel sizes and depth; how planes are walked from tap to tap, the strides, what transposed
 * convolutions gather by, and what is around x. */
static taps_params taps_of(const convolution *v) {
  const conv_dim *z = &v->z.d, *y = &v->y.d, *x = &v->c.d;
  return (taps_params){.kernel_z = z->kernel,
                       .kernel_y = y->kernel,
                       .kernel_x = x->kernel,
                       .stride_z = z->stride,
                       .pad_z = z->padding,
                       .dilation_z = z->dilation,
                       .skip_y = skip_of(v, y),
                       .skip_x = skip_of(v, x),
                       .phase_y = y->dilation % y->stride,
                       .phase_x = x->dilation % x->stride,
                       .stride_y = v->f.transposed ? y->stride : plane_phases(v, y),
                       .stride_x = v->f.transposed ? x->stride : plane_phases(v, x),
                       .pad_y = y->padding,
                       .pad_x = x->padding,
                       .dilation_y = y->dilation,
                       .dilation_x = x->dilation,
                       .step_y = y->tap_step,
                       .step_x = x->tap_step,
                       .lead_y = v->y.lead,
                       .lead_x = v->c.lead,
                       .padding = v->f.padding_value};
}

static void define_class(launch *l, const convolution *v) {
  launch_define(l, "OUTPUTS", v->outputs);
  launch_define(l, "VECTORS", v->vectors);
  launch_define(l, "W", v->width);
  launch_define(l, "HAS_BIAS", v->f.bias != NULL);
  launch_define(l, "FROM_X", v->from_x);
  launch_define(l, "BY_ROW", v->by_row);
  launch_define(l, "STRIDED", phase_count(v) != 1);
  launch_define(l, "OUTPUTS_FIRST", v->outputs_first);
  launch_define(l, "TRANSPOSED", v->f.transposed);
}

/* Work-items of a tile. */
static int64_t count_items(const convolution *v, const tile *p) {
  int64_t rows = phase_size(&v->y), columns = phase_size(&v->c),
          parts = v->y.d.phases * v->c.d.phases;
  int64_t positions = (rows - 1) * v->c.size + columns;
  int64_t n_vectors =
      v->by_row ? rows * ceil_div(columns, v->width) : ceil_div(positions, v->width);
  return p->images * v->f.groups * p->out_slices * parts * ceil_div(v->f.outputs, v->outputs) *
         ceil_div(n_vectors, v->vectors);
}

static clave_status multiply(cl_recorder *s, const node *n, const convolution *v, const tile *p) {
  bound_tensor x = take_images(v->f.x, p->image, p->images),
               out = take_images(v->f.out, p->image, p->images);
  int64_t items = count_items(v, p);
  launch l;
  begin_conv(&l, s, n, v);
  define_class(&l, v);
  if (p->images * p->slices * slice_size(v) > INT32_MAX / 2) launch_wide(&l);
  launch_args(&l, &(conv_direct_args){.x = v->from_x ? buffer_arg(&x) : scratch_arg(0),
                                      .weight = v->weight,
                                      .bias = optional_arg(v->f.bias),
                                      .out = buffer_arg(&out),
                                      .items = items,
                                      .groups = v->f.groups,
                                      .n_outputs = v->f.outputs,
                                      .channels = v->f.channels,
                                      .out_depth = v->z.d.out,
                                      .first_out = p->out,
                                      .out_slices = p->out_slices,
                                      .out_rows = v->y.d.out,
                                      .out_columns = v->c.d.out,
                                      .first_slice = p->in,
                                      .slices = p->slices,
                                      .plane_rows = v->y.size,
                                      .plane_columns = v->c.size,
                                      .taps = taps_of(v)});
  if (p->images == v->f.images && p->out_slices == v->z.d.out) launch_epilogue(&l);
  int64_t taps = v->z.d.kernel * v->y.d.kernel * v->c.d.kernel;
  return launch_loops(&l, items, 1, v->f.channels * taps * v->outputs * v->vectors);
}

/* The input slices that outputs [p->out, p->out + p->out_slices) need. */
static void find_slices(const convolution *v, tile *p) {
  const conv_dim *z = &v->z.d;
  int64_t last = p->out + p->out_slices - 1, reach = (z->kernel - 1) * z->dilation, from, to;
  if (v->f.transposed) {
    from = ceil_div(max_i64(p->out + z->padding - reach, 0), z->stride);
    to = (last + z->padding) / z->stride;
  } else {
    from = max_i64(p->out * z->stride - z->padding, 0);
    to = last * z->stride - z->padding + reach;
  }
  to = min_i64(to, z->in - 1);
  p->in = min_i64(from, z->in);
  p->slices = max_i64(to - p->in + 1, 0);
}

/* How much is taken at once: whole images, or slices of one, a few times what a slice needs around
 * it at least. */
static tile first_tile(const convolution *v, int64_t item) {
  int64_t slice = max_i64(slice_size(v) * item, 1), image = slice * v->z.d.in;
  tile p = {.images = v->f.images, .out_slices = v->z.d.out};
  if (v->from_x) {
    p.slices = v->z.d.in;
    return p;
  }
  p.images = min_i64(max_i64(TILE_BYTES / image, 1), v->f.images);
  int64_t reach = (v->z.d.kernel - 1) * v->z.d.dilation + 1,
          slices = max_i64(TILE_BYTES / slice, 4 * reach);
  if (image > TILE_BYTES && slices < v->z.d.in)
    p.out_slices =
        v->f.transposed ? slices * v->z.d.stride : max_i64(ceil_div(slices, v->z.d.stride), 1);
  p.out_slices = min_i64(p.out_slices, v->z.d.out);
  return p;
}

/* Input slices of the largest tile. */
static int64_t most_slices(const convolution *v, tile p) {
  int64_t most = 0;
  for (p.out = 0; p.out < v->z.d.out; p.out += p.out_slices) {
    find_slices(v, &p);
    most = max_i64(most, p.slices);
  }
  return most;
}

static clave_status run_tiles(cl_recorder *s, const node *n, const convolution *v,
                              const tile *size) {
  for (int64_t image = 0; image < v->f.images; image += size->images)
    for (int64_t out = 0; out < v->z.d.out; out += size->out_slices) {
      tile p = {.image = image,
                .images = min_i64(size->images, v->f.images - image),
                .out = out,
                .out_slices = min_i64(size->out_slices, v->z.d.out - out),
                .slices = size->slices};
      if (!v->from_x) {
        find_slices(v, &p);
        TRY(pad_planes(s, n, v, &p));
      }
      TRY(multiply(s, n, v, &p));
    }
  return NULL;
}

/* ---------------------------------------------------------------- the variant */

bool conv_direct_tile_usable(const void *conv, const kernel_variant *variant) {
  const conv_problem *p = conv;
  const convolution by_rule = plan_conv(p->s, &p->f);
  const int64_t outputs = variant->parameters[0], vectors = variant->parameters[1],
                width = variant->parameters[2];
  return (width == 1) == (by_rule.width == 1) && outputs <= p->f.outputs &&
         (outputs != by_rule.outputs || vectors != by_rule.vectors || width != by_rule.width);
}

clave_status conv_direct(const void *conv) {
  const conv_problem *p = conv;
  cl_recorder *s = p->s;
  convolution v = plan_conv(s, &p->f);
  if (p->parameters[0]) {
    v.outputs = (int)p->parameters[0];
    v.vectors = (int)p->parameters[1];
    v.width = (int)p->parameters[2];
  }
  choose_walk_variant(s, &v);
  bool wide = v.compute == DTYPE_F64 || dtype_is_int(v.compute);
  tile first = first_tile(&v, wide ? 8 : 4);
  int64_t elements = v.vectors * v.width;
  if (!v.from_x) elements += first.images * most_slices(&v, first) * slice_size(&v);
  if (!v.from_x) TRY(recorder_scratch(s, (size_t)(elements * (wide ? 8 : 4))));
  TRY(conv_weight(p, elements, &v.weight, &v.weight_type));
  return run_tiles(s, p->n, &v, &first);
}
