/* Convolutions of images in float with outputs in lanes, for CPUs: kernels_cl/conv/conv_lanes.cl.
 * Images with padding are copied with it, a few at a time, as is what a strided kernel of one
 * element sees. */
#include "backend/opencl/ops/conv/conv.h"

#include "backend/opencl/ops/families.h"
#include "backend/opencl/ops/gemm/gemm.h"
#include "opencl_ops.h"

enum {
  CELLS = 64,           /* the most positions of a work-item */
  CHAIN = 64,           /* products in a row before their sum is added to others */
  MOST_WIDE = 14,       /* positions at once, whose sums are 28 of 32 registers */
  TASKS = 4,            /* work-items of a core, at least, so that all end at about the same time */
  COPY_BYTES = 4 << 20, /* of images that are copied at once */
  LEAST_OUTPUTS = 16,   /* that fill lanes well enough */
  SMALL_PLANE = 64,     /* positions that fill lanes badly */
  MEDIUM_PLANE = 256,   /* of which a deep sum is made no slower */
  DEEP = 256,           /* channels of such a sum, where there are as many outputs or more */
  LARGE_COPY = 16 * 1024 /* elements of a plane */
};

static int64_t reach_of(const conv_dim *d) {
  return (d->out - 1) * d->stride + (d->kernel - 1) * d->dilation + 1;
}
static int64_t count_positions(const conv_form *f) { return f->dims[1].out * f->dims[2].out; }
static int64_t count_taps(const conv_form *f) { return f->dims[1].kernel * f->dims[2].kernel; }
static bool is_padded(const conv_form *f) {
  return f->dims[1].padding > 0 || f->dims[2].padding > 0;
}
/* Inputs that one element sees a stride apart are copied: each would be a line of the cache or page
 * of its own. */
static bool skips_inputs(const conv_form *f) {
  return count_taps(f) == 1 && (f->dims[1].stride > 1 || f->dims[2].stride > 1);
}
static bool copies(const conv_form *f) { return is_padded(f) || skips_inputs(f); }

/* Of x, for a kernel of one element, what it sees alone is copied: so far apart. */
static int64_t apart(const conv_form *f, int d) { return skips_inputs(f) ? f->dims[d].stride : 1; }
/* Rows or columns of a plane that is read. */
static int64_t plane_size(const conv_form *f, int d) {
  return copies(f) ? ceil_div(reach_of(&f->dims[d]), apart(f, d)) : f->dims[d].in;
}
static int64_t image_floats(const conv_form *f) {
  return f->channels * plane_size(f, 1) * plane_size(f, 2);
}

/* The weight as b of a product, (channels and taps, outputs). */
static gemm weight_of(cl_recorder *s, const node *n, const conv_form *f) {
  const int64_t k = f->channels * count_taps(f);
  gemm g = {.s = s, .node = n};
  g.f = (matmul_form){.b = f->weight, .n = f->outputs, .k = k, .b_k = 1, .b_n = k};
  return g;
}

/* Wide padding between whose outputs there are few would make large copies. */
static bool has_large_copies(const conv_form *f) {
  const int64_t in = f->dims[1].in * f->dims[2].in;
  return is_padded(f) && (double)reach_of(&f->dims[1]) * (double)reach_of(&f->dims[2]) >
                             LARGE_COPY + 4 * ((double)in + (double)count_positions(f));
}

bool conv_lanes_usable(const void *conv, const kernel_variant *variant) {
  const conv_problem *p = conv;
  const conv_form *f = &p->f;
  const dtype w = f->weight->t.type;
  const gemm g = weight_of(p->s, NULL, f);
  (void)variant;
  return !f->transposed && f->groups == 1 && f->x->t.type == DTYPE_F32 &&
         f->out->t.type == DTYPE_F32 && (w == DTYPE_F32 || w == DTYPE_F16 || w == DTYPE_BF16) &&
         conv_dim_is_absent(&f->dims[0]) && !has_large_copies(f) && gemm_panels_usable(&g) &&
         image_floats(f) < INT32_MAX / 2 && count_positions(f) < INT32_MAX / 2;
}

bool conv_lanes_suit(const conv_form *f) {
  const int64_t positions = count_positions(f);
  if (f->outputs < LEAST_OUTPUTS) return false;
  if (is_padded(f) || positions < SMALL_PLANE) return true;
  for (const conv_dim *d = f->dims; d < f->dims + SPATIAL_DIMS; d++)
    if (d->stride > 1 || d->kernel > 1) return true;
  return positions < MEDIUM_PLANE && (f->channels > f->outputs || f->channels >= DEEP);
}

/* ---------------------------------------------------------------- launches */

/* Positions at once: about as many as the others of a row. */
static int64_t positions_at_once(const cl_recorder *s, const conv_form *f) {
  const bool wide = recorder_traits(s)->vector_width == 16;
  const int64_t columns = f->dims[2].out,
                most = wide ? MOST_WIDE : gemm_panel_rows(recorder_traits(s)),
                tiles = ceil_div(columns, most);
  return ceil_div(columns, tiles);
}

/* Positions of a work-item: whole rows where those are short, else of what is made at once. */
static int64_t cells_each(const cl_recorder *s, const conv_form *f, int64_t images,
                          int64_t panels) {
  const int64_t wanted = TASKS * (int64_t)recorder_traits(s)->compute_units,
                columns = f->dims[2].out, positions = count_positions(f),
                chunks = max_i64(ceil_div(positions, CELLS), ceil_div(wanted, panels * images)),
                each = ceil_div(positions, chunks),
                unit = columns > CELLS ? positions_at_once(s, f) : columns;
  return min_i64(ceil_div(each, unit), CELLS / unit) * unit;
}

static clave_status copy_images(cl_recorder *s, const node *n, const conv_form *f,
                                const bound_tensor *x, int64_t images) {
  const conv_dim *y = &f->dims[1], *c = &f->dims[2];
  const int64_t items = images * f->channels * plane_size(f, 1);
  launch l;
  launch_begin(&l, s, n);
  launch_dtype(&l, "X_TYPE", DTYPE_F32);
  launch_compute(&l, DTYPE_F32);
  launch_args(&l, &(conv_pad_planes_args){.x = buffer_arg(x),
                                          .planes = scratch_arg(0),
                                          .items = items,
                                          .depth = 1,
                                          .first_slice = 0,
                                          .slices = 1,
                                          .rows = y->in,
                                          .columns = c->in,
                                          .stride_y = apart(f, 1),
                                          .stride_x = apart(f, 2),
                                          .phases_y = 1,
                                          .phases_x = 1,
                                          .pad_y = y->padding,
                                          .pad_x = c->padding,
                                          .plane_rows = plane_size(f, 1),
                                          .plane_columns = plane_size(f, 2),
                                          .padding = 0});
  return launch_loops(&l, items, 1, plane_size(f, 2));
}

/* Images [first, first + images), of which x or the copies are read. */
static clave_status multiply(cl_recorder *s, const node *n, const conv_form *f, arg_buffer weight,
                             int64_t first, int64_t images) {
  const conv_dim *y = &f->dims[1], *c = &f->dims[2];
  const bound_tensor x = take_images(f->x, first, images);
  const int64_t columns = plane_size(f, 2), rows = plane_size(f, 1),
                width = 2 * (int64_t)recorder_traits(s)->vector_width,
                panels = ceil_div(f->outputs, width), each = cells_each(s, f, images, panels),
                stride = c->stride / apart(f, 2);
  if (copies(f)) TRY(copy_images(s, n, f, &x, images));
  launch l;
  launch_begin(&l, s, n);
  launch_dtype(&l, "B_TYPE", f->weight->t.type);
  launch_define(&l, "WIDTH", (int)recorder_traits(s)->vector_width);
  launch_define(&l, "HAS_BIAS", f->bias != NULL);
  launch_define(&l, "M", (int)positions_at_once(s, f));
  launch_define(&l, "STRIDE", stride <= 2 ? (int)stride : 0);
  launch_define(&l, "POINTWISE", count_taps(f) == 1);
  launch_define(&l, "CELLS", CELLS);
  launch_args(&l, &(conv_lanes_args){.x = copies(f) ? scratch_arg(0) : buffer_arg(&x),
                                     .weight = weight,
                                     .bias = optional_arg(f->bias),
                                     .out = buffer_arg(f->out),
                                     .channels = f->channels,
                                     .n_outputs = f->outputs,
                                     .kernel_y = y->kernel,
                                     .kernel_x = c->kernel,
                                     .tap_row = y->dilation * columns,
                                     .tap_column = c->dilation,
                                     .row = y->stride / apart(f, 1) * columns,
                                     .column = stride,
                                     .plane = rows * columns,
                                     .image = rows * columns * f->channels,
                                     .positions = count_positions(f),
                                     .out_columns = c->out,
                                     .cells_each = each,
                                     .block = max_i64(CHAIN / count_taps(f), 1),
                                     .first_image = first});
  launch_epilogue_of_part(&l, first + images == f->images);
  size_t global[3] = {(size_t)ceil_div(count_positions(f), each), (size_t)panels, (size_t)images},
         local[3] = {1, 1, 1};
  return launch_run(&l, 3, global, local);
}

/* Where each output sees one input at its own position, an image is one long row. */
static void join_rows(conv_form *f) {
  conv_dim *y = &f->dims[1], *x = &f->dims[2];
  if (count_taps(f) > 1 || is_padded(f) || y->stride > 1 || x->stride > 1) return;
  x->in = x->out *= y->out;
  y->in = y->out = 1;
}

clave_status conv_lanes(const void *conv) {
  const conv_problem *p = conv;
  cl_recorder *s = p->s;
  const node *n = p->n;
  conv_form joined = p->f;
  const conv_form *f = &joined;
  join_rows(&joined);
  const int64_t bytes = image_floats(f) * (int64_t)sizeof(float),
                most = copies(f) ? max_i64(COPY_BYTES / bytes, 1) : f->images,
                images = min_i64(most, f->images);
  const gemm g = weight_of(s, n, f);
  arg_buffer weight;
  TRY(gemm_b_panels(&g, &weight));
  if (copies(f)) TRY(recorder_scratch(s, (size_t)(images * bytes)));
  for (int64_t first = 0; first < f->images; first += images)
    TRY(multiply(s, n, f, weight, first, min_i64(images, f->images - first)));
  return NULL;
}
