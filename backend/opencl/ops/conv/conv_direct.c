/* Convolutions of any kind, also of integers and transposed: kernels_cl/conv/conv.cl. Images, or
 * slices of large volumes, are processed in tiles whose padded copies fit a cache. */
#include "backend/opencl/ops/conv/conv.h"

#include "backend/opencl/ops/families.h"
#include "opencl_ops.h"

enum { TILE_BYTES = 4 << 20, EXACT_TAPS = 512 /* BLOCK */ };

/* A spatial dimension, with the size of the padded planes that the kernel reads. */
typedef struct plane_dim {
  conv_dim d;
  int64_t size; /* size of one phase of the strides */
  int64_t lead; /* for transposed convolutions: padding before a plane, instead of `padding` */
} plane_dim;

typedef struct convolution {
  conv_desc desc;
  plane_dim z, y, x; /* slices, rows, columns */
  bool integer, from_x, by_row, outputs_first;
  dtype compute;     /* dtype passed to launch_compute */
  dtype weight_type; /* dtype that the kernel reads */
  arg_buffer weight;
  int outputs, vectors, width; /* the kernel's tile of sums */
} convolution;

/* Images [image, image + images), and output slices [out, out + out_slices) of them, which need
 * input slices [in, in + slices). */
typedef struct tile {
  int64_t image, images, out, out_slices, in, slices;
} tile;

static plane_dim opencl_conv_direct_lay_out(const conv_dim *dim, bool transposed) {
  plane_dim plane_dim = {.d = *dim};
  if (transposed) {
    plane_dim.lead = max_i64((dim->kernel - 1) * dim->dilation - dim->padding, 0) / dim->stride;
    plane_dim.size = plane_dim.lead + max_i64(dim->in, ceil_div(dim->out, dim->stride) +
                                                           ceil_div(dim->padding, dim->stride));
  } else {
    plane_dim.size = conv_dim_phase_size(dim);
  }
  return plane_dim;
}

static bool opencl_conv_direct_is_plain(const plane_dim *dim, bool transposed) {
  return dim->size == dim->d.in && (transposed || (dim->d.padding == 0 && dim->d.stride == 1));
}

/* Returns the outputs of one phase along this dimension. */
static int64_t phase_size(const plane_dim *dim) { return ceil_div(dim->d.out, dim->d.phases); }

/* Chooses the tile of sums of a work-item. Its OUTPUTS * VECTORS vectors must stay in registers:
 * CPUs with vectors of 16 floats have 32 registers, most others 16. */
static void choose_kernel_tile(const cl_recorder *recorder, convolution *convolution) {
  const device_traits *traits = recorder_traits(recorder);
  bool is_cpu = traits->is_cpu && !dtype_is_int(convolution->compute);
  bool narrow = phase_size(&convolution->x) <= 8, few = is_cpu && traits->vector_width < 16;
  convolution->outputs = convolution->desc.outputs >= 8 && !(is_cpu && (narrow || few)) ? 8
                         : convolution->desc.outputs >= 4                               ? 4
                                                                                        : 1;
  convolution->width = !is_cpu ? 1 : narrow || few ? 8 : 16;
  convolution->vectors = !is_cpu ? 2 : convolution->outputs == 1 ? 8 : few ? 3 : narrow ? 4 : 2;
}

/* Chooses how vectors cover the outputs: within output rows (by_row), whose stores are faster, or
 * over the padded width, if that wastes less at the ends of rows. Neighbouring work-items share
 * inputs if these are larger than the weight, else they share weights. */
static void opencl_conv_direct_choose_walk(convolution *convolution) {
  int64_t cut = ceil_div(phase_size(&convolution->x), convolution->width) * convolution->width;
  convolution->by_row = 10 * cut <= 11 * convolution->x.size;
  int64_t image = convolution->desc.channels * convolution->y.d.in * convolution->x.d.in,
          weights = convolution->desc.outputs * convolution->desc.channels *
                    convolution->y.d.kernel * convolution->x.d.kernel;
  convolution->outputs_first = weights < image;
}

static convolution plan_conv(const cl_recorder *recorder, const conv_desc *desc) {
  convolution convolution = {.desc = *desc};
  convolution.z = opencl_conv_direct_lay_out(&desc->dims[0], desc->transposed);
  convolution.y = opencl_conv_direct_lay_out(&desc->dims[1], desc->transposed);
  convolution.x = opencl_conv_direct_lay_out(&desc->dims[2], desc->transposed);
  dtype t = desc->x->tensor.type;
  convolution.integer = desc->out->tensor.type != t;
  convolution.weight_type = desc->weight->tensor.type;
  convolution.compute =
      convolution.integer && desc->dims[1].kernel * desc->dims[2].kernel <= EXACT_TAPS ? DTYPE_F32
                                                                                       : t;
  bool converts = t != DTYPE_F32 && t != DTYPE_F64 && t != DTYPE_I64;
  convolution.from_x = !converts && opencl_conv_direct_is_plain(&convolution.y, desc->transposed) &&
                       opencl_conv_direct_is_plain(&convolution.x, desc->transposed);
  if (convolution.from_x) convolution.y.size = convolution.y.d.in;
  if (convolution.from_x) convolution.x.size = convolution.x.d.in;
  choose_kernel_tile(recorder, &convolution);
  return convolution;
}

/* parameters: by_row, outputs_first. */
static double cost_of_walk(const void *conv, const kernel_variant *variant) {
  const convolution *convolution = conv;
  return variant->parameters[0] == convolution->by_row &&
                 variant->parameters[1] == convolution->outputs_first
             ? 0
             : ON_REQUEST;
}

static const kernel_variant walk_variants[] = {
    {"padded", .cost_of = cost_of_walk, .parameters = {false, false}},
    {"padded, outputs first", .cost_of = cost_of_walk, .parameters = {false, true}},
    {"by row", .cost_of = cost_of_walk, .parameters = {true, false}},
    {"by row, outputs first", .cost_of = cost_of_walk, .parameters = {true, true}}};

static void choose_walk_variant(cl_recorder *recorder, convolution *convolution) {
  tuning_key key = conv_key(recorder, &convolution->desc);
  tuning_key_int(&key, "width", convolution->width);
  opencl_conv_direct_choose_walk(convolution);
  const variants all = {.family = "conv walk",
                        .rows = walk_variants,
                        .n = sizeof walk_variants / sizeof *walk_variants,
                        .problem = convolution};
  const int64_t *walk = recorder_choose(recorder, &all, &key)->parameters;
  convolution->by_row = walk[0];
  convolution->outputs_first = walk[1];
}

/* ---------------------------------------------------------------- planes */

static void begin_conv(launch *launch, cl_recorder *recorder, const node *node,
                       const convolution *convolution) {
  launch_begin(launch, recorder, node);
  launch_dtype(launch, "X_TYPE", convolution->desc.x->tensor.type);
  launch_dtype(launch, "W_TYPE", convolution->weight_type);
  launch_compute(launch, convolution->compute);
  launch_define(launch, "INTEGER", convolution->integer);
}

/* Returns the phases of the planes along one dimension. */
static int64_t plane_phases(const convolution *convolution, const conv_dim *dim) {
  return convolution->desc.transposed ? 1 : conv_dim_phases(dim);
}

static int64_t phase_count(const convolution *convolution) {
  return plane_phases(convolution, &convolution->y.d) *
         plane_phases(convolution, &convolution->x.d);
}

/* Returns the elements of one slice of all channels of an image. */
static int64_t slice_size(const convolution *convolution) {
  return convolution->desc.groups * convolution->desc.channels * phase_count(convolution) *
         convolution->y.size * convolution->x.size;
}

static clave_status pad_planes(cl_recorder *recorder, const node *node,
                               const convolution *convolution, const tile *tile) {
  bound_tensor x = slice_images(convolution->desc.x, tile->image, tile->images);
  int64_t items = convolution->x.size > 0
                      ? tile->images * tile->slices * slice_size(convolution) / convolution->x.size
                      : 0;
  launch launch;
  begin_conv(&launch, recorder, node, convolution);
  if (items * convolution->x.size > INT32_MAX / 2) launch_wide(&launch);
  launch_args(
      &launch,
      &(conv_pad_planes_args){
          .x = buffer_arg(&x),
          .planes = scratch_arg(0),
          .items = items,
          .depth = convolution->z.d.in,
          .first_slice = tile->in,
          .slices = tile->slices,
          .rows = convolution->y.d.in,
          .columns = convolution->x.d.in,
          .stride_y = convolution->desc.transposed ? 1 : convolution->y.d.stride,
          .stride_x = convolution->desc.transposed ? 1 : convolution->x.d.stride,
          .phases_y = plane_phases(convolution, &convolution->y.d),
          .phases_x = plane_phases(convolution, &convolution->x.d),
          .pad_y = convolution->desc.transposed ? convolution->y.lead : convolution->y.d.padding,
          .pad_x = convolution->desc.transposed ? convolution->x.lead : convolution->x.d.padding,
          .plane_rows = convolution->y.size,
          .plane_columns = convolution->x.size,
          .padding = convolution->desc.padding_value});
  return launch_loops(&launch, items, 1, convolution->x.size);
}

/* Returns the distance between taps of the same phase, in rows or columns of a plane. */
static int64_t skip_of(const convolution *convolution, const conv_dim *dim) {
  return (convolution->desc.transposed ? -1 : 1) * dim->tap_step * dim->dilation / dim->stride;
}

/* Returns kernel sizes, distances between taps, strides, the gather steps of transposed
 * convolutions, and the padding value. */
static taps_params opencl_conv_direct_taps_of(const convolution *convolution) {
  const conv_dim *z = &convolution->z.d, *y = &convolution->y.d, *x = &convolution->x.d;
  return (taps_params){
      .kernel_z = z->kernel,
      .kernel_y = y->kernel,
      .kernel_x = x->kernel,
      .stride_z = z->stride,
      .pad_z = z->padding,
      .dilation_z = z->dilation,
      .skip_y = skip_of(convolution, y),
      .skip_x = skip_of(convolution, x),
      .phase_y = y->dilation % y->stride,
      .phase_x = x->dilation % x->stride,
      .stride_y = convolution->desc.transposed ? y->stride : plane_phases(convolution, y),
      .stride_x = convolution->desc.transposed ? x->stride : plane_phases(convolution, x),
      .pad_y = y->padding,
      .pad_x = x->padding,
      .dilation_y = y->dilation,
      .dilation_x = x->dilation,
      .step_y = y->tap_step,
      .step_x = x->tap_step,
      .lead_y = convolution->y.lead,
      .lead_x = convolution->x.lead,
      .padding = convolution->desc.padding_value};
}

static void define_class(launch *launch, const convolution *convolution) {
  launch_define(launch, "OUTPUTS", convolution->outputs);
  launch_define(launch, "VECTORS", convolution->vectors);
  launch_define(launch, "W", convolution->width);
  launch_define(launch, "HAS_BIAS", convolution->desc.bias != NULL);
  launch_define(launch, "FROM_X", convolution->from_x);
  launch_define(launch, "BY_ROW", convolution->by_row);
  launch_define(launch, "STRIDED", phase_count(convolution) != 1);
  launch_define(launch, "OUTPUTS_FIRST", convolution->outputs_first);
  launch_define(launch, "TRANSPOSED", convolution->desc.transposed);
}

/* Returns the number of work-items for a tile. */
static int64_t opencl_conv_direct_count_items(const convolution *convolution, const tile *tile) {
  int64_t rows = phase_size(&convolution->y), columns = phase_size(&convolution->x),
          n_phases = convolution->y.d.phases * convolution->x.d.phases;
  int64_t positions = (rows - 1) * convolution->x.size + columns;
  int64_t n_vectors = convolution->by_row ? rows * ceil_div(columns, convolution->width)
                                          : ceil_div(positions, convolution->width);
  return tile->images * convolution->desc.groups * tile->out_slices * n_phases *
         ceil_div(convolution->desc.outputs, convolution->outputs) *
         ceil_div(n_vectors, convolution->vectors);
}

static clave_status opencl_conv_direct_multiply(cl_recorder *recorder, const node *node,
                                                const convolution *convolution, const tile *tile) {
  bound_tensor x = slice_images(convolution->desc.x, tile->image, tile->images),
               out = slice_images(convolution->desc.out, tile->image, tile->images);
  int64_t items = opencl_conv_direct_count_items(convolution, tile);
  launch launch;
  begin_conv(&launch, recorder, node, convolution);
  define_class(&launch, convolution);
  if (tile->images * tile->slices * slice_size(convolution) > INT32_MAX / 2) launch_wide(&launch);
  launch_args(&launch,
              &(conv_direct_args){.x = convolution->from_x ? buffer_arg(&x) : scratch_arg(0),
                                  .weight = convolution->weight,
                                  .bias = optional_arg(convolution->desc.bias),
                                  .out = buffer_arg(&out),
                                  .items = items,
                                  .groups = convolution->desc.groups,
                                  .n_outputs = convolution->desc.outputs,
                                  .channels = convolution->desc.channels,
                                  .out_depth = convolution->z.d.out,
                                  .first_out = tile->out,
                                  .out_slices = tile->out_slices,
                                  .out_rows = convolution->y.d.out,
                                  .out_columns = convolution->x.d.out,
                                  .first_slice = tile->in,
                                  .slices = tile->slices,
                                  .plane_rows = convolution->y.size,
                                  .plane_columns = convolution->x.size,
                                  .taps = opencl_conv_direct_taps_of(convolution)});
  if (tile->images == convolution->desc.images && tile->out_slices == convolution->z.d.out)
    launch_epilogue(&launch);
  int64_t taps = convolution->z.d.kernel * convolution->y.d.kernel * convolution->x.d.kernel;
  return launch_loops(
      &launch, items, 1,
      convolution->desc.channels * taps * convolution->outputs * convolution->vectors);
}

/* Sets the input slices that outputs [tile->out, tile->out + tile->out_slices) need. */
static void find_slices(const convolution *convolution, tile *tile) {
  const conv_dim *z = &convolution->z.d;
  int64_t last = tile->out + tile->out_slices - 1, reach = (z->kernel - 1) * z->dilation, from, to;
  if (convolution->desc.transposed) {
    from = ceil_div(max_i64(tile->out + z->padding - reach, 0), z->stride);
    to = (last + z->padding) / z->stride;
  } else {
    from = max_i64(tile->out * z->stride - z->padding, 0);
    to = last * z->stride - z->padding + reach;
  }
  to = min_i64(to, z->in - 1);
  tile->in = min_i64(from, z->in);
  tile->slices = max_i64(to - tile->in + 1, 0);
}

/* Returns the tile size: whole images, or slices of one image, at least a few times the slices that
 * one output needs. */
static tile first_tile(const convolution *convolution, int64_t item) {
  int64_t slice = max_i64(slice_size(convolution) * item, 1), image = slice * convolution->z.d.in;
  tile tile = {.images = convolution->desc.images, .out_slices = convolution->z.d.out};
  if (convolution->from_x) {
    tile.slices = convolution->z.d.in;
    return tile;
  }
  tile.images = min_i64(max_i64(TILE_BYTES / image, 1), convolution->desc.images);
  int64_t reach = (convolution->z.d.kernel - 1) * convolution->z.d.dilation + 1,
          slices = max_i64(TILE_BYTES / slice, 4 * reach);
  if (image > TILE_BYTES && slices < convolution->z.d.in)
    tile.out_slices = convolution->desc.transposed
                          ? slices * convolution->z.d.stride
                          : max_i64(ceil_div(slices, convolution->z.d.stride), 1);
  tile.out_slices = min_i64(tile.out_slices, convolution->z.d.out);
  return tile;
}

/* Returns the input slices of the largest tile. */
static int64_t max_slices(const convolution *convolution, tile tile) {
  int64_t most = 0;
  for (tile.out = 0; tile.out < convolution->z.d.out; tile.out += tile.out_slices) {
    find_slices(convolution, &tile);
    most = max_i64(most, tile.slices);
  }
  return most;
}

static clave_status opencl_conv_direct_run_tiles(cl_recorder *recorder, const node *node,
                                                 const convolution *convolution, const tile *size) {
  for (int64_t image = 0; image < convolution->desc.images; image += size->images)
    for (int64_t out = 0; out < convolution->z.d.out; out += size->out_slices) {
      tile tile = {.image = image,
                   .images = min_i64(size->images, convolution->desc.images - image),
                   .out = out,
                   .out_slices = min_i64(size->out_slices, convolution->z.d.out - out),
                   .slices = size->slices};
      if (!convolution->from_x) {
        find_slices(convolution, &tile);
        TRY(pad_planes(recorder, node, convolution, &tile));
      }
      TRY(opencl_conv_direct_multiply(recorder, node, convolution, &tile));
    }
  return NULL;
}

/* ---------------------------------------------------------------- the variant */

bool conv_direct_tile_usable(const void *conv, const kernel_variant *variant) {
  const conv_problem *problem = conv;
  const convolution by_rule = plan_conv(problem->recorder, &problem->desc);
  const int64_t outputs = variant->parameters[0], vectors = variant->parameters[1],
                width = variant->parameters[2];
  return (width == 1) == (by_rule.width == 1) && outputs <= problem->desc.outputs &&
         (outputs != by_rule.outputs || vectors != by_rule.vectors || width != by_rule.width);
}

clave_status conv_direct(const void *conv) {
  const conv_problem *problem = conv;
  cl_recorder *recorder = problem->recorder;
  convolution convolution = plan_conv(recorder, &problem->desc);
  if (problem->parameters[0]) {
    convolution.outputs = (int)problem->parameters[0];
    convolution.vectors = (int)problem->parameters[1];
    convolution.width = (int)problem->parameters[2];
  }
  choose_walk_variant(recorder, &convolution);
  bool wide = convolution.compute == DTYPE_F64 || dtype_is_int(convolution.compute);
  tile first = first_tile(&convolution, wide ? 8 : 4);
  int64_t elements = convolution.vectors * convolution.width;
  if (!convolution.from_x)
    elements += first.images * max_slices(&convolution, first) * slice_size(&convolution);
  if (!convolution.from_x) TRY(recorder_scratch(recorder, (size_t)(elements * (wide ? 8 : 4))));
  TRY(conv_weight(problem, elements, &convolution.weight, &convolution.weight_type));
  return opencl_conv_direct_run_tiles(recorder, problem->node, &convolution, &first);
}
