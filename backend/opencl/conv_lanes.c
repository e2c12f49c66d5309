/* Convolutions of images in float with outputs in lanes, for CPUs: kernels_cl/conv_lanes.cl.
 * Images with padding are copied with it, a few at a time. */
#include "backend/opencl/conv_lanes.h"

#include "backend/opencl/families.h"
#include "backend/opencl/gemm.h"
#include "opencl_ops.h"

enum {
  CELLS = 64,           /* the most positions of a work-item */
  CHAIN = 64,           /* products in a row before their sum is added to others */
  TASKS = 4,            /* work-items of a core, at least, so that all end at about the same time */
  COPY_BYTES = 4 << 20, /* of images that are copied at once */
  LEAST_OUTPUTS = 16,   /* that fill lanes well enough */
  SMALL_PLANE = 64,     /* positions that fill lanes badly */
  MEDIUM_PLANE = 256,   /* of which a deep sum is made no slower */
  LARGE_COPY = 16 * 1024 /* elements of a plane */
};

static int64_t reach_of(const conv_dim *d) {
  return (d->out - 1) * d->stride + (d->kernel - 1) * d->dilation + 1;
}
static int64_t count_positions(const conv_form *f) { return f->dims[1].out * f->dims[2].out; }
static bool copies(const conv_form *f) { return f->dims[1].padding > 0 || f->dims[2].padding > 0; }

/* Rows and columns of a plane that is read. */
static int64_t plane_rows(const conv_form *f) {
  return copies(f) ? reach_of(&f->dims[1]) : f->dims[1].in;
}
static int64_t plane_columns(const conv_form *f) {
  return copies(f) ? reach_of(&f->dims[2]) : f->dims[2].in;
}
static int64_t image_floats(const conv_form *f) {
  return f->channels * plane_rows(f) * plane_columns(f);
}

/* The weight as b of a product, (channels and taps, outputs). */
static gemm weight_of(cl_recorder *s, const node *n, const conv_form *f) {
  const int64_t k = f->channels * f->dims[1].kernel * f->dims[2].kernel;
  gemm g = {.s = s, .node = n};
  g.f = (matmul_form){.b = f->weight, .n = f->outputs, .k = k, .b_k = 1, .b_n = k};
  return g;
}

/* Wide padding between whose outputs there are few would make large copies. */
static bool has_large_copies(const conv_form *f) {
  const int64_t in = f->dims[1].in * f->dims[2].in;
  return copies(f) && (double)reach_of(&f->dims[1]) * (double)reach_of(&f->dims[2]) >
                          LARGE_COPY + 4 * ((double)in + (double)count_positions(f));
}

bool conv_lanes_usable(cl_recorder *s, const conv_form *f) {
  const dtype w = f->weight->t.type;
  const gemm g = weight_of(s, NULL, f);
  return !f->transposed && f->groups == 1 && f->x->t.type == DTYPE_F32 &&
         f->out->t.type == DTYPE_F32 && (w == DTYPE_F32 || w == DTYPE_F16 || w == DTYPE_BF16) &&
         conv_dim_is_absent(&f->dims[0]) && !has_large_copies(f) && gemm_panels_usable(&g) &&
         image_floats(f) < INT32_MAX / 2 && count_positions(f) < INT32_MAX / 2;
}

bool conv_lanes_suit(const conv_form *f) {
  const int64_t positions = count_positions(f);
  if (f->outputs < LEAST_OUTPUTS) return false;
  if (copies(f) || positions < SMALL_PLANE) return true;
  for (const conv_dim *d = f->dims; d < f->dims + SPATIAL_DIMS; d++)
    if (d->stride > 1 || d->kernel > 1) return true;
  return positions < MEDIUM_PLANE && f->channels > f->outputs;
}

/* ---------------------------------------------------------------- launches */

/* Positions of a work-item: whole rows where those are short. */
static int64_t cells_each(const cl_recorder *s, const conv_form *f, int64_t images,
                          int64_t panels) {
  const int64_t wanted = TASKS * (int64_t)recorder_traits(s)->compute_units,
                columns = f->dims[2].out, positions = count_positions(f),
                chunks = max_i64(ceil_div(positions, CELLS), ceil_div(wanted, panels * images)),
                each = ceil_div(positions, chunks);
  return columns > CELLS ? each : min_i64(ceil_div(each, columns), CELLS / columns) * columns;
}

/* Positions at once: about as many as the others of a row. */
static int64_t positions_at_once(const cl_recorder *s, const conv_form *f) {
  const int64_t columns = f->dims[2].out,
                tiles = ceil_div(columns, gemm_panel_rows(recorder_traits(s)));
  return ceil_div(columns, tiles);
}

static clave_status copy_images(cl_recorder *s, const node *n, const conv_form *f,
                                const bound_tensor *x, int64_t images) {
  const conv_dim *y = &f->dims[1], *c = &f->dims[2];
  const int64_t items = images * f->channels * plane_rows(f);
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
                                          .stride_y = 1,
                                          .stride_x = 1,
                                          .phases_y = 1,
                                          .phases_x = 1,
                                          .pad_y = y->padding,
                                          .pad_x = c->padding,
                                          .plane_rows = plane_rows(f),
                                          .plane_columns = plane_columns(f),
                                          .padding = 0});
  return launch_loops(&l, items, 1, plane_columns(f));
}

/* Images [first, first + images), of which x or the copies are read. */
static clave_status multiply(cl_recorder *s, const node *n, const conv_form *f, arg_buffer weight,
                             int64_t first, int64_t images) {
  const conv_dim *y = &f->dims[1], *c = &f->dims[2];
  const bound_tensor x = take_images(f->x, first, images);
  const int64_t taps = y->kernel * c->kernel, columns = plane_columns(f),
                width = 2 * (int64_t)recorder_traits(s)->vector_width,
                panels = ceil_div(f->outputs, width), each = cells_each(s, f, images, panels);
  if (copies(f)) TRY(copy_images(s, n, f, &x, images));
  launch l;
  launch_begin(&l, s, n);
  launch_dtype(&l, "B_TYPE", f->weight->t.type);
  launch_define(&l, "WIDTH", (int)recorder_traits(s)->vector_width);
  launch_define(&l, "HAS_BIAS", f->bias != NULL);
  launch_define(&l, "M", (int)positions_at_once(s, f));
  launch_define(&l, "STRIDE", c->stride <= 2 ? (int)c->stride : 0);
  launch_define(&l, "POINTWISE", taps == 1);
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
                                     .row = y->stride * columns,
                                     .column = c->stride,
                                     .plane = plane_rows(f) * columns,
                                     .positions = count_positions(f),
                                     .out_columns = c->out,
                                     .cells_each = each,
                                     .block = max_i64(CHAIN / taps, 1),
                                     .first_image = first});
  launch_epilogue_of_part(&l, first + images == f->images);
  size_t global[3] = {(size_t)ceil_div(count_positions(f), each), (size_t)panels, (size_t)images},
         local[3] = {1, 1, 1};
  return launch_run(&l, 3, global, local);
}

clave_status conv_lanes(cl_recorder *s, const node *n, const conv_form *f) {
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
