/* Direct convolutions by groups of work-items: kernels_cl/conv/conv_groups.cl. Cuts out into tiles
 * that lose little at its edges and whose inputs fit local memory. */
#include "backend/opencl/ops/conv/conv.h"

#include "backend/opencl/ops/families.h"
#include "backend/opencl/ops/parts.h"
#include "opencl_ops.h"

enum {
  STAGE_BYTES =
      16 << 10,    /* staged at once, where a channel has no more: several groups have room */
  STAGE_TAPS = 512 /* products that are one sum, at most, but for those of one channel */
};

/* What a group makes: channels by cells; 1: of depthwise convolutions. */
typedef struct conv_block {
  int64_t outputs, positions;
} conv_block;

/* How a block of out is made. */
typedef struct tiling {
  int outputs, lanes, positions;   /* of a work-item; work-items side by side along positions */
  int64_t tile_rows, tile_columns; /* of out */
  int64_t seen_rows, seen_columns; /* of x, that a tile sees */
  int64_t tiles;                   /* of a slice */
  int64_t some;                    /* channels at a time; of depthwise ones slices; 0: none fits */
} tiling;

static bool is_depthwise(conv_block b) { return b.outputs == 1; }

static int64_t seen(const conv_dim *d, int64_t tile) {
  return (tile - 1) * d->stride + (d->kernel - 1) * d->dilation + 1;
}

static int64_t element_bytes(const conv_form *f) { return f->x->t.type == DTYPE_F64 ? 8 : 4; }

static int64_t taps_of(const conv_form *f) { return f->dims[1].kernel * f->dims[2].kernel; }

/* Bytes of local memory for one channel. */
static int64_t channel_bytes(const conv_form *f, conv_block b, const tiling *t) {
  int64_t weights = is_depthwise(b) ? 0 : taps_of(f) * (b.outputs + 1);
  return (t->seen_rows * t->seen_columns + weights) * element_bytes(f);
}

static int64_t count_staged(const cl_recorder *s, const conv_form *f, conv_block b,
                            const tiling *t) {
  const int64_t room = (int64_t)recorder_traits(s)->local_memory, one = channel_bytes(f, b, t);
  if (is_depthwise(b)) return f->dims[0].kernel * one <= room ? f->dims[0].kernel : 0;
  if (one > room) return 0;
  int64_t most = max_i64(min_i64(min_i64(room, STAGE_BYTES) / one, STAGE_TAPS / taps_of(f)), 1);
  return ceil_div(f->channels, max_i64(ceil_div(f->channels, most), 1));
}

/* Tiles of a power of two of columns: of those that fit the one with the fewest, and then that sees
 * the least. */
static tiling plan_tiling(const cl_recorder *s, const conv_form *f, conv_block b) {
  const conv_dim *y = &f->dims[1], *x = &f->dims[2];
  tiling best = {0};
  for (int64_t columns = 4; columns <= b.positions; columns *= 2) {
    tiling t = {.tile_rows = b.positions / columns, .tile_columns = columns};
    t.outputs = b.outputs >= 32 ? 8 : b.outputs > 1 ? 4 : 1;
    t.lanes = (int)(LOCAL_SIZE * t.outputs / b.outputs);
    t.positions = (int)(b.positions / t.lanes);
    t.seen_rows = seen(y, t.tile_rows);
    t.seen_columns = seen(x, columns);
    t.tiles = ceil_div(y->out, t.tile_rows) * ceil_div(x->out, columns);
    t.some = count_staged(s, f, b, &t);
    bool fewer =
        t.tiles < best.tiles || (t.tiles == best.tiles &&
                                 t.seen_rows * t.seen_columns < best.seen_rows * best.seen_columns);
    if (t.some > 0 && (best.some == 0 || fewer)) best = t;
  }
  return best;
}

static int64_t count_blocks(const conv_form *f, conv_block b) {
  return is_depthwise(b) ? 1 : ceil_div(f->outputs, b.outputs);
}

static int64_t count_groups(const conv_form *f, conv_block b, const tiling *t) {
  return t->tiles * f->images * f->dims[0].out * f->groups * count_blocks(f, b);
}

/* ---------------------------------------------------------------- variants */

/* parameters: outputs and positions of a block. */
static conv_block block_of(const kernel_variant *variant) {
  return (conv_block){.outputs = variant->parameters[0], .positions = variant->parameters[1]};
}

static bool takes_block(const void *conv, const kernel_variant *variant) {
  const conv_problem *p = conv;
  const conv_block b = block_of(variant);
  return is_depthwise(b) <= (p->f.channels == 1) &&
         recorder_takes_groups(p->s, count_blocks(&p->f, b)) &&
         plan_tiling(p->s, &p->f, b).some > 0;
}

/* About how long it takes, to compare blocks by: the products of a group, those beyond the edges of
 * out, too, the loads for each, and how often all units have a group to make. */
static double cost_of_block(const void *conv, const kernel_variant *variant) {
  const conv_problem *p = conv;
  const conv_form *f = &p->f;
  const conv_block b = block_of(variant);
  if (!takes_block(conv, variant)) return ON_REQUEST;
  const tiling t = plan_tiling(p->s, f, b);
  const int64_t made = is_depthwise(b) ? f->outputs : b.outputs;
  const double products = (double)(made * b.positions * f->channels),
               loads = 1.0 / t.outputs + 1.0 / t.positions;
  return products * (1 + loads) *
         (double)ceil_div(count_groups(f, b, &t), recorder_traits(p->s)->compute_units);
}

static const kernel_variant block_variants[] = {
    {"32x64", takes_block, .cost_of = cost_of_block, .parameters = {32, 64}},
    {"64x32", takes_block, .cost_of = cost_of_block, .parameters = {64, 32}},
    {"16x64", takes_block, .cost_of = cost_of_block, .parameters = {16, 64}},
    {"8x128", takes_block, .cost_of = cost_of_block, .parameters = {8, 128}},
    {"4x256", takes_block, .cost_of = cost_of_block, .parameters = {4, 256}},
    {"1x64", takes_block, .cost_of = cost_of_block, .parameters = {1, 64}},
    {"1x256", takes_block, .cost_of = cost_of_block, .parameters = {1, 256}}};

static variants blocks_for(const conv_problem *p) {
  return (variants){.family = "conv groups",
                    .rows = block_variants,
                    .n = sizeof block_variants / sizeof *block_variants,
                    .problem = p};
}

bool conv_groups_usable(const void *conv, const kernel_variant *variant) {
  const conv_problem *p = conv;
  const conv_form *f = &p->f;
  const dtype t = f->x->t.type;
  const variants blocks = blocks_for(p);
  (void)variant;
  return !recorder_traits(p->s)->is_cpu && !f->transposed && dtype_is_float(t) &&
         f->out->t.type == t && f->channels > 0 && recorder_takes_groups(p->s, f->groups) &&
         variant_by_cost(&blocks) != NULL;
}

/* ---------------------------------------------------------------- launches */

static kernel_params kernel_of(const conv_form *f) {
  const conv_dim *z = &f->dims[0], *y = &f->dims[1], *x = &f->dims[2];
  return (kernel_params){.kernel_z = z->kernel,
                         .kernel_y = y->kernel,
                         .kernel_x = x->kernel,
                         .stride_z = z->stride,
                         .stride_y = y->stride,
                         .stride_x = x->stride,
                         .pad_z = z->padding,
                         .pad_y = y->padding,
                         .pad_x = x->padding,
                         .dilation_z = z->dilation,
                         .dilation_y = y->dilation,
                         .dilation_x = x->dilation};
}

static volumes_params volumes_of(const conv_form *f, const tiling *t) {
  const conv_dim *z = &f->dims[0], *y = &f->dims[1], *x = &f->dims[2];
  return (volumes_params){.groups = f->groups,
                          .n_outputs = f->outputs,
                          .channels = f->channels,
                          .in_depth = z->in,
                          .in_rows = y->in,
                          .in_columns = x->in,
                          .out_depth = z->out,
                          .out_rows = y->out,
                          .out_columns = x->out,
                          .tile_rows = t->tile_rows,
                          .tile_columns = t->tile_columns,
                          .seen_rows = t->seen_rows,
                          .seen_columns = t->seen_columns};
}

static int64_t channels_of_part(const conv_form *f, const tiling *t, int64_t n_parts) {
  return ceil_div(ceil_div(f->channels, n_parts), t->some) * t->some;
}

/* The channels of a group of work-items, cut in parts. */
static int64_t count_parts(cl_recorder *s, const conv_form *f, conv_block b, const tiling *t,
                           const tuning_key *key) {
  enum { OF_A_UNIT = 8 }; /* groups */
  if (is_depthwise(b)) return 1;
  const int64_t n = choose_parts(s, "conv parts", key, count_groups(f, b, t), OF_A_UNIT,
                                 f->channels / t->some, tensor_numel(&f->out->t));
  return ceil_div(f->channels, channels_of_part(f, t, n)); /* none is empty */
}

/* out as a product of the weight and cells: (images, channels, cells). */
static matmul_form product_of(const conv_form *f) {
  matmul_form p = {.bias = f->bias, .out = f->out, .bias_m = 1, .alpha = 1, .beta = 1};
  p.batches = f->images;
  p.m = f->groups * f->outputs;
  p.n = f->dims[0].out * f->dims[1].out * f->dims[2].out;
  return p;
}

static void take_arguments(launch *l, const conv_form *f, arg_buffer weight, conv_block b,
                           const tiling *t, int64_t n_parts) {
  const size_t bytes = (size_t)(t->some * element_bytes(f));
  const arg_local cells = local_arg((size_t)(t->seen_rows * t->seen_columns) * bytes);
  if (is_depthwise(b))
    launch_args(l, &(conv_groups_depthwise_args){.x = buffer_arg(f->x),
                                                 .weight = weight,
                                                 .bias = optional_arg(f->bias),
                                                 .out = buffer_arg(f->out),
                                                 .volumes = volumes_of(f, t),
                                                 .kernel = kernel_of(f),
                                                 .cells = cells});
  else
    launch_args(l, &(conv_groups_args){
                       .x = buffer_arg(f->x),
                       .weight = weight,
                       .bias = optional_arg(f->bias),
                       .out = buffer_arg(f->out),
                       .parts = n_parts > 1 ? scratch_arg(0) : absent_arg(),
                       .n_parts = n_parts,
                       .part_channels = channels_of_part(f, t, n_parts),
                       .part_size = tensor_numel(&f->out->t),
                       .some = t->some,
                       .volumes = volumes_of(f, t),
                       .kernel = kernel_of(f),
                       .cells = cells,
                       .factors = local_arg((size_t)(taps_of(f) * (b.outputs + 1)) * bytes)});
}

clave_status conv_groups(const void *conv) {
  const conv_problem *p = conv;
  cl_recorder *s = p->s;
  const conv_form *f = &p->f;
  const tuning_key key = conv_key(s, f);
  const variants blocks = blocks_for(p);
  const conv_block b = block_of(recorder_choose(s, &blocks, &key));
  arg_buffer weight;
  dtype weight_type;
  TRY(conv_weight(p, 0, &weight, &weight_type));
  const tiling t = plan_tiling(s, f, b);
  /* parts would lie where a weight in scratch memory does */
  const int64_t n_parts = weight.value.kind == VALUE_SCRATCH ? 1 : count_parts(s, f, b, &t, &key);
  if (n_parts > 1) TRY(begin_parts(s, n_parts, tensor_numel(&f->out->t), f->x->t.type));
  launch l;
  launch_begin(&l, s, p->n);
  launch_dtype(&l, "X_TYPE", f->x->t.type);
  launch_dtype(&l, "W_TYPE", weight_type);
  launch_compute(&l, f->x->t.type);
  launch_define(&l, "HAS_BIAS", f->bias != NULL);
  launch_define(&l, "LANES", t.lanes);
  launch_define(&l, "POSITIONS", t.positions);
  if (!is_depthwise(b)) launch_define(&l, "OUTPUTS", t.outputs);
  launch_define(&l, "IN_PARTS", n_parts > 1);
  take_arguments(&l, f, weight, b, &t, n_parts);
  if (n_parts == 1) launch_epilogue(&l);
  size_t tiles = (size_t)(t.tiles * f->images * f->dims[0].out);
  size_t global[3] = {tiles * LOCAL_SIZE, (size_t)count_blocks(f, b),
                      (size_t)(f->groups * n_parts)},
         local[3] = {LOCAL_SIZE, 1, 1};
  TRY(launch_run(&l, 3, global, local));
  const matmul_form as_product = product_of(f);
  return n_parts > 1 ? add_parts(s, p->n, &as_product, n_parts) : NULL;
}
