/* Convolutions with a kernel of one element where it is, which are products of matrices. */
#include "backend/opencl/pointwise.h"

#include "backend/opencl/families.h"
#include "backend/opencl/gemm.h"

static bool is_pointwise_dim(const conv_dim *d) {
  return d->kernel == 1 && d->stride == 1 && d->padding == 0;
}

bool pointwise_usable(cl_recorder *s, const conv_form *f) {
  const dtype t = f->x->t.type;
  const gemm g = {.s = s, .f = {.k = f->channels}};
  if (f->weight->t.encoding.kind && !gemm_packed_usable(&g)) return false;
  return !f->transposed && f->groups == 1 && f->channels > 0 && dtype_is_float(t) &&
         t != DTYPE_F64 && is_pointwise_dim(&f->dims[0]) && is_pointwise_dim(&f->dims[1]) &&
         is_pointwise_dim(&f->dims[2]);
}

static int64_t count_positions(const conv_form *f) {
  return f->dims[0].in * f->dims[1].in * f->dims[2].in;
}

/* Of each image, the weight (outputs, channels) by its planes (channels, positions). `weight` is
 * what the product points to. */
static gemm planes_product(cl_recorder *s, const node *n, const conv_form *f,
                           bound_tensor *weight) {
  const int64_t positions = count_positions(f);
  gemm g = {.s = s, .node = n};
  *weight = *f->weight;
  if (weight->t.encoding.kind) {
    g.codes = f->weight;
    weight->t.encoding = (encoding){0};
    weight->t.type = DTYPE_F32;
  }
  matmul_form *m = &g.f;
  *m = (matmul_form){.k = f->channels, .bias = f->bias, .out = f->out, .alpha = 1, .beta = 1};
  m->a = weight;
  m->b = f->x;
  m->m = f->outputs;
  m->n = m->b_k = positions;
  m->a_m = f->channels;
  m->a_k = m->b_n = m->bias_m = 1;
  m->batches = f->images;
  m->batch_a = m->batch_bias = (tensor){.rank = 1, .dims = {f->images}};
  m->batch_b = (tensor){.rank = 1, .dims = {f->images}, .strides = {f->channels * positions}};
  return g;
}

/* Of all images of one position, (images, channels), by the transposed weight. */
static gemm images_product(cl_recorder *s, const node *n, const conv_form *f) {
  gemm g = {.s = s, .node = n};
  matmul_form *m = &g.f;
  *m = (matmul_form){.k = f->channels, .bias = f->bias, .out = f->out, .alpha = 1, .beta = 1};
  m->a = f->x;
  m->b = f->weight;
  m->m = f->images;
  m->n = f->outputs;
  m->a_m = m->b_n = f->channels;
  m->a_k = m->b_k = m->bias_n = m->batches = 1;
  return g;
}

static gemm product_of(cl_recorder *s, const node *n, const conv_form *f, bound_tensor *weight) {
  const bool by_images = count_positions(f) == 1 && !f->weight->t.encoding.kind;
  return by_images ? images_product(s, n, f) : planes_product(s, n, f, weight);
}

clave_status pointwise_takes_pairs(cl_recorder *s, const conv_form *f, bool *out,
                                   amx_kind *planes) {
  bound_tensor weight;
  *out = false;
  *planes = AMX_NONE;
  if (!pointwise_usable(s, f)) return NULL;
  gemm g = product_of(s, NULL, f, &weight);
  TRY(gemm_takes_pairs(&g, out));
  g = planes_product(s, NULL, f, &weight);
  g.pairs = *out;
  TRY(gemm_choose_amx(&g));
  *planes = g.amx;
  return NULL;
}

clave_status opencl_pointwise(cl_recorder *s, const node *n, const conv_form *f) {
  bound_tensor weight;
  const gemm g = product_of(s, n, f, &weight);
  return gemm_record(&g);
}

/* ---------------------------------------------------------------- planes where they lie */

enum {
  CACHED_X = 32 << 10,       /* bytes of x that the first-level cache keeps beside a panel */
  CACHED_WORDS = 128 << 10,  /* of pairs: that the second-level cache does */
  CACHED_WEIGHT = 256 << 10, /* that the second-level cache keeps beside planes */
  TASK_PANELS = 8,           /* columns of a work-item, in tiles */
  TASKS = 4,                 /* of a core, at least, so that all end at about the same time */
  TASK_WORK = 32 * 1024      /* multiplications of a work-item of few panels, at least */
};

static int64_t tile_columns(const cl_recorder *s) {
  return 2 * (int64_t)recorder_traits(s)->vector_width;
}

/* How it is cut into work-items. */
typedef struct cutting {
  int64_t columns, block; /* of a work-item; whose inputs are cached */
  int64_t panels, each;   /* of the weight; of a work-item */
  size_t floats;          /* of local memory: words of a block */
} cutting;

static cutting cut(cl_recorder *s, const conv_form *f, bool pairs, amx_kind amx) {
  const int64_t tile = tile_columns(s),
                rows = amx ? 2 * AMX_ROWS : gemm_panel_rows(recorder_traits(s)),
                positions = count_positions(f),
                wanted = TASKS * (int64_t)recorder_traits(s)->compute_units;
  const int64_t k = pairs ? ceil_div(f->channels, 2) : f->channels,
                words = amx ? ceil_div(k, AMX_ROWS) * AMX_ROWS : k;
  cutting c = {.panels = ceil_div(f->outputs, rows)};
  c.block = (pairs ? CACHED_WORDS : CACHED_X) / (int64_t)sizeof(float) / words / tile * tile;
  c.block = min_i64(max_i64(c.block, tile), TASK_PANELS * tile);
  const int64_t most = ceil_div(TASK_PANELS * tile, c.block),
                across = ceil_div(positions, most * c.block);
  c.columns = ceil_div(ceil_div(positions, across), c.block) * c.block;
  int64_t down = ceil_div(f->outputs * words * (int64_t)sizeof(float), CACHED_WEIGHT);
  if (f->images * across < wanted) {
    const int64_t work = f->outputs * words * min_i64(c.columns, positions);
    down = max_i64(
        down, min_i64(ceil_div((pairs ? 1 : 2) * wanted, f->images * across), work / TASK_WORK));
  }
  c.each = ceil_div(c.panels, max_i64(1, min_i64(down, c.panels)));
  if (amx) c.panels *= 2, c.each *= 2;
  c.floats =
      pairs ? (size_t)(words * (c.block + tile)) : 1; /* few positions: halves of two tiles */
  return c;
}

bool planes_usable(cl_recorder *s, const conv_form *f, bool pairs, amx_kind amx) {
  const device_traits *t = recorder_traits(s);
  return t->is_cpu && pointwise_usable(s, f) && f->x->t.type == DTYPE_F32 &&
         f->out->t.type == DTYPE_F32 && f->weight->is_constant &&
         count_positions(f) >= tile_columns(s) / 2 &&
         cut(s, f, pairs, amx).floats * sizeof(float) <= t->local_memory;
}

clave_status opencl_planes(cl_recorder *s, const node *n, const conv_form *f, bool pairs) {
  bound_tensor weight;
  arg_buffer panels;
  gemm g = planes_product(s, n, f, &weight);
  g.pairs = pairs;
  if (g.pairs) recorder_rounds(s, ROUNDS_TO_BF16);
  TRY(gemm_choose_amx(&g));
  const cutting c = cut(s, f, g.pairs, g.amx);
  TRY(gemm_a_panels(&g, 0, &panels));
  launch l;
  launch_begin(&l, s, n);
  launch_define(&l, "WIDTH", (int)recorder_traits(s)->vector_width);
  launch_pairs(&l, g.pairs);
  launch_define(&l, "AMX", (int)g.amx);
  launch_dtype(&l, "X_TYPE", f->x->t.type);
  launch_dtype(&l, "OUT_TYPE", f->out->t.type);
  launch_define(&l, "HAS_BIAS", f->bias != NULL);
  launch_define(&l, "MOST_BLOCK", TASK_PANELS * (int)tile_columns(s));
  launch_args(&l, &(conv_pointwise_args){.x = buffer_arg(f->x),
                                         .weight = panels,
                                         .bias = optional_arg(f->bias),
                                         .out = buffer_arg(f->out),
                                         .channels = f->channels,
                                         .n_outputs = f->outputs,
                                         .positions = count_positions(f),
                                         .columns_each = c.columns,
                                         .block = c.block,
                                         .panels_each = c.each,
                                         .words = local_arg(sizeof(float) * c.floats)});
  launch_epilogue(&l);
  size_t global[3] = {(size_t)ceil_div(count_positions(f), c.columns),
                      (size_t)ceil_div(c.panels, c.each), (size_t)f->images},
         local[3] = {1, 1, 1};
  return launch_run(&l, 3, global, local);
}
