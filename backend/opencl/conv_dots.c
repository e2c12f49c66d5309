/* Convolutions of integers as dot products: the weight is packed once, x laid out in planes in each
 * run, by one launch, and multiplied by another. */
#include "backend/opencl/conv_dots.h"

#include <string.h>

#include "backend/opencl/families.h"
#include "opencl_ops.h"

/* As in kernels_cl/conv_dots.cl and amx_bytes.h. */
enum { TILE = 64, MOST_OUTPUTS = 64, MOST_TAPS = 128, LANE_OUTPUTS = 4 };
enum { BLOCK = 32, STEP_WORDS = 16, WIDE_TILE = 128, MOST_TILES_OUTPUTS = 512, TILES_DEPTH = 6 };

typedef struct dots_conv {
  const node *n;
  const conv_form *f;
  dots_kind dots;
  amx_bytes_kind tiles; /* of CPUs, where there are enough outputs for them */
  int64_t k, words, taps;
  int64_t phases[SPATIAL_DIMS], size[SPATIAL_DIMS]; /* of the planes */
  int64_t phase_bytes, plane_bytes, positions;
  bool from_x;                 /* planes: x itself */
  conv_dim dims[SPATIAL_DIMS]; /* of kernels of one element: a line */
} dots_conv;

/* A kernel of one element where it is: all positions are a line. */
static bool make_line(conv_dim dims[SPATIAL_DIMS]) {
  int64_t positions = 1;
  for (int i = 0; i < SPATIAL_DIMS; i++) {
    const conv_dim *d = &dims[i];
    if (d->kernel != 1 || d->stride != 1 || d->padding != 0 || d->in != d->out) return false;
    positions *= d->in;
  }
  for (int i = 0; i < SPATIAL_DIMS; i++)
    dims[i].in = dims[i].out = i == SPATIAL_DIMS - 1 ? positions : 1;
  return true;
}

static dots_conv plan(cl_recorder *s, const node *n, const conv_form *f) {
  dots_conv c = {.n = n, .f = f, .taps = 1, .phase_bytes = 1, .from_x = true};
  int64_t phases = 1, last = 0;
  memcpy(c.dims, f->dims, sizeof c.dims);
  const bool is_line = make_line(c.dims), is_cpu = recorder_traits(s)->is_cpu;
  for (int i = 0; i < SPATIAL_DIMS; i++) {
    const conv_dim *d = &c.dims[i];
    c.taps *= d->kernel;
    c.phases[i] = conv_dim_phases(d);
    c.size[i] = conv_dim_phase_size(d);
    c.phase_bytes *= c.size[i];
    phases *= c.phases[i];
    last = last * c.size[i] + d->out - 1;
    c.from_x = c.from_x && d->stride == 1 && d->padding == 0;
  }
  c.from_x = is_cpu ? is_line : c.from_x && f->x->t.type == DTYPE_U8;
  c.k = f->channels * c.taps;
  c.words = ceil_div(c.k, 4);
  c.plane_bytes = phases * c.phase_bytes;
  c.positions = last + 1;
  return c;
}

static int64_t planes_size(const dots_conv *c) {
  const conv_form *f = c->f;
  return f->images * f->groups * f->channels * c->plane_bytes + WIDE_TILE;
}

static int64_t block_outputs(const dots_conv *c) { return ceil_div(c->f->outputs, BLOCK) * BLOCK; }

static int64_t form_words(const dots_conv *c) {
  const conv_form *f = c->f;
  return f->groups *
         (c->tiles ? block_outputs(c) * ceil_div(c->words, STEP_WORDS) * STEP_WORDS + f->outputs
                   : f->outputs * (c->words + 1));
}

static clave_status find_instructions(cl_recorder *s, dots_conv *c) {
  enum { LEAST_OUTPUTS = 8 };
  TRY(recorder_dots(s, &c->dots));
  if (!recorder_traits(s)->is_cpu || c->k == 0 || c->f->outputs < LEAST_OUTPUTS) return NULL;
  return recorder_amx_bytes(s, &c->tiles);
}

clave_status conv_dots_usable(cl_recorder *s, const conv_form *f, bool *usable, bool *fast) {
  dots_conv c = plan(s, NULL, f);
  *usable = *fast = false;
  if (f->out->t.type == f->x->t.type || !recorder_takes_form(s, f->weight)) return NULL;
  TRY(find_instructions(s, &c));
  if (c.taps > MOST_TAPS || planes_size(&c) > INT32_MAX / 2 || form_words(&c) > INT32_MAX / 2)
    return NULL;
  *usable = c.tiles || c.dots != DOTS_PORTABLE;
  *fast = *usable && (c.tiles || c.dots != DOTS_BYTES);
  return NULL;
}

static void begin(launch *l, cl_recorder *s, const dots_conv *c) {
  launch_begin(l, s, c->n);
  launch_dots(l, c->dots);
  launch_define(l, "AMX_BYTES", (int)c->tiles);
  launch_define(l, "SIGNED", c->f->x->t.type == DTYPE_I8);
}

static clave_status fill_weight(cl_recorder *s, const void *ctx) {
  const dots_conv *c = ctx;
  const int64_t items = c->f->groups * c->f->outputs;
  launch l;
  begin(&l, s, c);
  launch_args(&l, &(conv_dots_weight_args){.weight = buffer_arg(c->f->weight),
                                           .form = scratch_arg(0),
                                           .items = items,
                                           .k_size = c->k,
                                           .words = c->words});
  return launch_loops(&l, items, 1, c->k);
}

static clave_status fill_tiles(cl_recorder *s, const void *ctx) {
  const dots_conv *c = ctx;
  const int64_t items = c->f->groups * block_outputs(c);
  launch l;
  begin(&l, s, c);
  launch_args(&l, &(conv_dots_tiles_weight_args){.weight = buffer_arg(c->f->weight),
                                                 .form = scratch_arg(0),
                                                 .items = items,
                                                 .n_outputs = c->f->outputs,
                                                 .k_size = c->k,
                                                 .depth = TILES_DEPTH,
                                                 .turned = 0});
  return launch_loops(&l, items, 1, c->k);
}

static clave_status pack_weight(cl_recorder *s, const dots_conv *c, arg_buffer *form) {
  const form_request f = {.x = c->f->weight,
                          .kind = c->tiles ? FORM_CONV_TILES : FORM_CONV_DOTS,
                          .size = {c->f->groups * c->f->outputs, c->k, c->f->x->t.type},
                          .bytes = sizeof(int32_t) * (size_t)form_words(c),
                          .fill = c->tiles ? fill_tiles : fill_weight,
                          .ctx = c};
  int number;
  TRY(recorder_form(s, &f, &number));
  *form = form_arg(number);
  return NULL;
}

static clave_status lay_out(cl_recorder *s, const dots_conv *c) {
  const conv_form *f = c->f;
  const conv_dim *z = &c->dims[0], *y = &c->dims[1], *x = &c->dims[2];
  const int64_t slice = c->size[1] * c->size[2],
                items = f->images * f->groups * f->channels * c->plane_bytes / max_i64(slice, 1);
  launch l;
  begin(&l, s, c);
  launch_args(&l, &(conv_dots_planes_args){.x = buffer_arg(f->x),
                                           .planes = scratch_arg(0),
                                           .items = items,
                                           .depth = z->in,
                                           .rows = y->in,
                                           .columns = x->in,
                                           .stride_z = z->stride,
                                           .stride_y = y->stride,
                                           .stride_x = x->stride,
                                           .pad_z = z->padding,
                                           .pad_y = y->padding,
                                           .pad_x = x->padding,
                                           .phases_z = c->phases[0],
                                           .phases_y = c->phases[1],
                                           .phases_x = c->phases[2],
                                           .plane_slices = c->size[0],
                                           .plane_rows = c->size[1],
                                           .plane_columns = c->size[2],
                                           .padding = f->padding_value});
  return launch_loops(&l, items, 1, slice);
}

static geometry_params geometry(const dots_conv *c) {
  const conv_form *f = c->f;
  const conv_dim *z = &c->dims[0], *y = &c->dims[1], *x = &c->dims[2];
  return (geometry_params){.groups = f->groups,
                           .n_outputs = f->outputs,
                           .channels = f->channels,
                           .words = c->words,
                           .positions = c->positions,
                           .plane_bytes = c->plane_bytes,
                           .phase_bytes = c->phase_bytes,
                           .plane_rows = c->size[1],
                           .plane_columns = c->size[2],
                           .out_depth = z->out,
                           .out_rows = y->out,
                           .out_columns = x->out,
                           .kernel_z = z->kernel,
                           .kernel_y = y->kernel,
                           .kernel_x = x->kernel,
                           .stride_z = z->stride,
                           .stride_y = y->stride,
                           .stride_x = x->stride,
                           .dilation_z = z->dilation,
                           .dilation_y = y->dilation,
                           .dilation_x = x->dilation,
                           .phases_y = c->phases[1],
                           .phases_x = c->phases[2]};
}

static clave_status multiply_lanes(cl_recorder *s, const dots_conv *c, arg_buffer form) {
  const conv_form *f = c->f;
  const int64_t items = f->images * f->groups * ceil_div(f->outputs, LANE_OUTPUTS) * c->positions;
  launch l;
  begin(&l, s, c);
  launch_define(&l, "HAS_BIAS", f->bias != NULL);
  launch_args(&l, &(conv_dots_lanes_args){.planes = c->from_x ? buffer_arg(f->x) : scratch_arg(0),
                                          .form = form,
                                          .bias = optional_arg(f->bias),
                                          .out = buffer_arg(f->out),
                                          .items = items,
                                          .geometry = geometry(c)});
  launch_epilogue_of_result(&l);
  return launch_items(&l, items);
}

/* Outputs of a work-item: fewer where there are few tiles, several for each core. */
static int64_t choose_outputs(cl_recorder *s, const dots_conv *c) {
  enum { LEAST = 16 };
  const int64_t tiles = c->f->images * c->f->groups * ceil_div(c->positions, TILE),
                wanted = ceil_div(4 * (int64_t)recorder_traits(s)->compute_units, tiles);
  int64_t outputs = MOST_OUTPUTS;
  while (outputs > LEAST && ceil_div(c->f->outputs, outputs) < wanted) outputs /= 2;
  return min_i64(outputs, c->f->outputs);
}

static clave_status multiply(cl_recorder *s, const dots_conv *c, arg_buffer form) {
  const conv_form *f = c->f;
  const int64_t outputs = choose_outputs(s, c), items = f->images * f->groups *
                                                        ceil_div(f->outputs, outputs) *
                                                        ceil_div(c->positions, TILE);
  launch l;
  begin(&l, s, c);
  launch_define(&l, "HAS_BIAS", f->bias != NULL);
  launch_define(&l, "ROWS", f->outputs == 1 || c->dots != DOTS_AVX512_VNNI ? 1 : 4);
  launch_define(&l, "FROM_X", c->from_x);
  launch_args(&l, &(conv_dots_args){.planes = c->from_x ? buffer_arg(f->x) : scratch_arg(0),
                                    .form = form,
                                    .bias = optional_arg(f->bias),
                                    .out = buffer_arg(f->out),
                                    .items = items,
                                    .outputs = outputs,
                                    .geometry = geometry(c)});
  launch_epilogue_of_result(&l);
  return launch_loops(&l, items, 1, outputs * TILE * c->words);
}

/* All outputs of a tile of positions, whose patches are packed once, but where there are few. */
static int64_t choose_blocks(cl_recorder *s, const dots_conv *c) {
  enum { TASKS = 4 /* work-items of a core, at least */ };
  const int64_t tiles = c->f->images * c->f->groups * ceil_div(c->positions, WIDE_TILE),
                wanted = ceil_div(TASKS * (int64_t)recorder_traits(s)->compute_units, tiles),
                each = ceil_div(ceil_div(c->f->outputs, wanted), BLOCK) * BLOCK;
  return min_i64(each, MOST_TILES_OUTPUTS);
}

static clave_status multiply_tiles(cl_recorder *s, const dots_conv *c, arg_buffer form) {
  const conv_form *f = c->f;
  const int64_t outputs = choose_blocks(s, c), items = f->images * f->groups *
                                                       ceil_div(f->outputs, outputs) *
                                                       ceil_div(c->positions, WIDE_TILE);
  launch l;
  begin(&l, s, c);
  launch_define(&l, "HAS_BIAS", f->bias != NULL);
  launch_define(&l, "FROM_X", c->from_x);
  launch_args(&l, &(conv_dots_tiles_args){.planes = c->from_x ? buffer_arg(f->x) : scratch_arg(0),
                                          .form = form,
                                          .bias = optional_arg(f->bias),
                                          .out = buffer_arg(f->out),
                                          .items = items,
                                          .outputs = outputs,
                                          .geometry = geometry(c)});
  launch_epilogue_of_result(&l);
  return launch_loops(&l, items, 1, outputs * WIDE_TILE * c->words);
}

clave_status conv_dots(cl_recorder *s, const node *n, const conv_form *f) {
  dots_conv c = plan(s, n, f);
  arg_buffer form;
  TRY(find_instructions(s, &c));
  TRY(pack_weight(s, &c, &form));
  if (!c.from_x) {
    TRY(recorder_scratch(s, (size_t)planes_size(&c)));
    TRY(lay_out(s, &c));
  }
  if (c.tiles) return multiply_tiles(s, &c, form);
  return recorder_traits(s)->is_cpu ? multiply(s, &c, form) : multiply_lanes(s, &c, form);
}
