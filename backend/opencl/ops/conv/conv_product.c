/* Convolutions with a kernel of one element where it is, which are products of matrices. */
#include "backend/opencl/ops/conv/conv.h"

#include "backend/opencl/ops/families.h"
#include "backend/opencl/ops/gemm/gemm.h"

static bool is_pointwise_dim(const conv_dim *d) {
  return d->kernel == 1 && d->stride == 1 && d->padding == 0;
}

static bool is_product(cl_recorder *s, const conv_form *f) {
  const dtype t = f->x->t.type;
  const gemm g = {.s = s, .f = {.k = f->channels}};
  if (f->weight->t.encoding.kind && !gemm_packed_usable(&g)) return false;
  return !f->transposed && f->groups == 1 && f->channels > 0 && dtype_is_float(t) &&
         t != DTYPE_F64 && is_pointwise_dim(&f->dims[0]) && is_pointwise_dim(&f->dims[1]) &&
         is_pointwise_dim(&f->dims[2]);
}

bool conv_product_usable(const void *conv, const kernel_variant *variant) {
  const conv_problem *p = conv;
  (void)variant;
  return is_product(p->s, &p->f);
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

clave_status conv_product(const void *conv) {
  const conv_problem *p = conv;
  const conv_form *f = &p->f;
  bound_tensor weight;
  const bool by_images = count_positions(f) == 1 && !f->weight->t.encoding.kind;
  const gemm g = by_images ? images_product(p->s, p->n, f) : planes_product(p->s, p->n, f, &weight);
  return gemm_record(&g);
}

/* ---------------------------------------------------------------- planes where they lie */

enum {
  CACHED_X = 32 << 10,       /* bytes of x that the first-level cache keeps beside a panel */
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
} cutting;

static cutting cut(cl_recorder *s, const conv_form *f) {
  const int64_t tile = tile_columns(s), rows = gemm_panel_rows(recorder_traits(s)),
                positions = count_positions(f),
                wanted = TASKS * (int64_t)recorder_traits(s)->compute_units;
  cutting c = {.panels = ceil_div(f->outputs, rows)};
  c.block = CACHED_X / (int64_t)sizeof(float) / f->channels / tile * tile;
  c.block = min_i64(max_i64(c.block, tile), TASK_PANELS * tile);
  const int64_t most = ceil_div(TASK_PANELS * tile, c.block),
                across = ceil_div(positions, most * c.block);
  c.columns = ceil_div(ceil_div(positions, across), c.block) * c.block;
  int64_t down = ceil_div(f->outputs * f->channels * (int64_t)sizeof(float), CACHED_WEIGHT);
  if (f->images * across < wanted) {
    const int64_t work = f->outputs * f->channels * min_i64(c.columns, positions);
    down = max_i64(down, min_i64(ceil_div(2 * wanted, f->images * across), work / TASK_WORK));
  }
  c.each = ceil_div(c.panels, max_i64(1, min_i64(down, c.panels)));
  return c;
}

bool conv_planes_usable(const void *conv, const kernel_variant *variant) {
  const conv_problem *p = conv;
  const conv_form *f = &p->f;
  (void)variant;
  return recorder_traits(p->s)->is_cpu && is_product(p->s, f) && f->x->t.type == DTYPE_F32 &&
         f->out->t.type == DTYPE_F32 && f->weight->is_constant &&
         count_positions(f) >= tile_columns(p->s) / 2;
}

clave_status conv_planes(const void *conv) {
  const conv_problem *p = conv;
  cl_recorder *s = p->s;
  const node *n = p->n;
  const conv_form *f = &p->f;
  bound_tensor weight;
  arg_buffer panels;
  const gemm g = planes_product(s, n, f, &weight);
  const cutting c = cut(s, f);
  TRY(gemm_a_panels(&g, 0, &panels));
  launch l;
  launch_begin(&l, s, n);
  launch_define(&l, "WIDTH", (int)recorder_traits(s)->vector_width);
  launch_define(&l, "HAS_BIAS", f->bias != NULL);
  launch_args(&l, &(conv_pointwise_args){.x = buffer_arg(f->x),
                                         .weight = panels,
                                         .bias = optional_arg(f->bias),
                                         .out = buffer_arg(f->out),
                                         .channels = f->channels,
                                         .n_outputs = f->outputs,
                                         .positions = count_positions(f),
                                         .columns_each = c.columns,
                                         .block = c.block,
                                         .panels_each = c.each});
  launch_epilogue(&l);
  size_t global[3] = {(size_t)ceil_div(count_positions(f), c.columns),
                      (size_t)ceil_div(c.panels, c.each), (size_t)f->images},
         local[3] = {1, 1, 1};
  return launch_run(&l, 3, global, local);
}
