/* Convolutions of images by tiles of pairs: kernels_cl/conv_tiles.cl. Images are copied as planes
 * of words, a few at a time. */
#include "backend/opencl/conv_tiles.h"

#include "backend/opencl/families.h"
#include "backend/opencl/gemm.h"
#include "opencl_ops.h"

/* As in the kernel. */
enum { STRIP = 2 * AMX_ROWS, MOST_COLUMNS = 256, SOME = 16, MOST_TAPS = 64 };
enum {
  FEW_CHANNELS = 12,
  LEAST_PLANE = 16,     /* positions: fewer are not read where they lie (planes_usable) */
  TASKS = 4,            /* of a core, at least, so that all end at about the same time */
  COPY_BYTES = 4 << 20, /* of images that are copied at once */
  SAME_SETS = 1024,     /* words from a row of a tile to the next whose lines displace each other */
  SLACK = STRIP         /* words that a tile reads behind the last */
};

typedef struct tiled {
  const node *n;
  const conv_form *f;
  amx_kind amx;
  bool by_rows;                            /* words are of two neighbours of a row */
  conv_dim y, x;                           /* of a transposed one, those that its product has */
  int64_t outputs, spread;                 /* rows of the weight; of them, of an output */
  int64_t words, taps;                     /* of channels, in whole tiles; of the kernel */
  int64_t phases[2], rows, columns, plane; /* of the planes of words */
  int64_t strips, rows_each, columns_each; /* of outputs; of a work-item */
} tiled;

static int64_t image_words(const tiled *t) {
  return t->phases[0] * t->phases[1] * t->words * t->plane;
}

/* What a work-item makes: several whole rows, or a part of one. */
static void cut(const cl_recorder *s, tiled *t) {
  const int64_t across = ceil_div(t->x.out, MOST_COLUMNS),
                most = across > 1 ? 1 : max_i64(MOST_COLUMNS / t->columns, 1),
                wanted = ceil_div(TASKS * (int64_t)recorder_traits(s)->compute_units,
                                  t->f->images * t->strips),
                down = min_i64(max_i64(ceil_div(t->y.out, most), wanted), t->y.out);
  t->columns_each = ceil_div(t->x.out, across);
  t->rows_each = ceil_div(t->y.out, down);
}

/* Few channels, of which most of a tile would be zeros. */
static bool is_by_rows(const conv_form *f) {
  const conv_dim *x = &f->dims[2];
  return !f->transposed && f->channels < FEW_CHANNELS && x->kernel > 1 && x->dilation == 1 &&
         (x->stride == 1 || (x->stride % 2 == 0 && x->stride <= MOST_TAPS));
}

static conv_dim product_dim(const conv_form *f, int i) {
  const conv_dim *d = &f->dims[i];
  const int64_t size = f->transposed ? d->in : d->out;
  return f->transposed || is_by_rows(f) ? (conv_dim){size, size, 1, 1, 0, 1, 1, 1} : *d;
}

/* In whole tiles. */
static int64_t words_of(const conv_form *f) {
  const int64_t words = is_by_rows(f)
                            ? f->channels * f->dims[1].kernel * ceil_div(f->dims[2].kernel, 2)
                            : ceil_div(f->channels, 2);
  return ceil_div(words, AMX_ROWS) * AMX_ROWS;
}

static tiled plan(const cl_recorder *s, const node *n, const conv_form *f) {
  const int64_t spread = f->transposed ? f->dims[1].kernel * f->dims[2].kernel : 1;
  tiled t = {.n = n,
             .f = f,
             .y = product_dim(f, 1),
             .x = product_dim(f, 2),
             .outputs = f->outputs * spread,
             .spread = spread,
             .by_rows = is_by_rows(f),
             .words = words_of(f)};
  t.taps = t.y.kernel * t.x.kernel;
  t.phases[0] = conv_dim_phases(&t.y);
  t.phases[1] = conv_dim_phases(&t.x);
  t.rows = conv_dim_phase_size(&t.y);
  t.columns = conv_dim_phase_size(&t.x);
  t.strips = ceil_div(t.outputs, STRIP);
  t.plane = t.rows * t.columns;
  if (t.plane % SAME_SETS == 0) t.plane += AMX_ROWS;
  cut(s, &t);
  return t;
}

static int64_t weight_words(const tiled *t) {
  return ceil_div(t->outputs, AMX_ROWS) * AMX_ROWS * t->words * t->taps;
}

/* Whether a transposed one's outputs see one input each, and a strip has all of an input's. */
static bool is_spread(const conv_form *f) {
  bool apart = f->dims[2].in <= MOST_COLUMNS;
  for (const conv_dim *d = f->dims + 1; d < f->dims + SPATIAL_DIMS; d++)
    apart = apart && d->kernel == d->stride && d->padding == 0 && d->dilation == 1 &&
            d->out == d->in * d->stride;
  return apart && AMX_ROWS % (f->dims[1].kernel * f->dims[2].kernel) == 0;
}

static bool takes_sizes(const cl_recorder *s, const conv_form *f) {
  const int64_t taps = f->dims[1].kernel * f->dims[2].kernel,
                at_once = is_by_rows(f) ? f->dims[2].kernel : taps;
  if (!conv_dim_is_absent(&f->dims[0]) || f->groups != 1 || f->channels == 1 ||
      f->channels * taps < LEAST_ROUNDED_K || at_once > MOST_TAPS ||
      (f->transposed && !is_spread(f)) || (f->channels < FEW_CHANNELS && !is_by_rows(f)) ||
      tensor_numel(&f->out->t) == 0)
    return false;
  const tiled t = plan(s, NULL, f);
  return image_words(&t) < INT32_MAX / 4 && weight_words(&t) < INT32_MAX / 4;
}

clave_status conv_tiles_usable(cl_recorder *s, const conv_form *f, bool *out) {
  const dtype w = f->weight->t.type;
  amx_kind amx;
  *out = false;
  if (!recorder_is_fast(s) || !recorder_traits(s)->is_cpu || f->x->t.type != DTYPE_F32 ||
      f->out->t.type != DTYPE_F32 || (w != DTYPE_F32 && w != DTYPE_F16 && w != DTYPE_BF16) ||
      f->weight->t.encoding.kind || !recorder_takes_form(s, f->weight) || !takes_sizes(s, f))
    return NULL;
  TRY(recorder_amx(s, &amx));
  return amx ? recorder_has_pairs(s, out) : NULL;
}

bool conv_tiles_suit(const conv_form *f) {
  if (f->dims[1].out * f->dims[2].out < LEAST_PLANE) return true;
  for (const conv_dim *d = f->dims; d < f->dims + SPATIAL_DIMS; d++)
    if (d->stride > 1 || d->kernel > 1) return true;
  return false;
}

/* ---------------------------------------------------------------- launches */

/* All kernels are of one program. */
static void begin(launch *l, cl_recorder *s, const tiled *t) {
  launch_begin(l, s, t->n);
  launch_pairs(l, true);
  launch_define(l, "AMX", (int)t->amx);
  launch_dtype(l, "W_TYPE", t->f->weight->t.type);
  launch_dtype(l, "X_TYPE", t->f->x->t.type);
  launch_dtype(l, "OUT_TYPE", t->f->out->t.type);
  launch_define(l, "BY_ROWS", t->by_rows);
  launch_define(l, "SPREAD", (int)t->spread);
  launch_define(l, "HAS_BIAS", t->f->bias != NULL);
}

static clave_status fill_form(cl_recorder *s, const void *ctx) {
  const tiled *t = ctx;
  const conv_form *f = t->f;
  const bool turned = f->transposed;
  const int64_t kernel_x = f->dims[2].kernel, row_step = f->channels * f->dims[1].kernel * kernel_x,
                rows = t->by_rows ? row_step / kernel_x : f->channels;
  const int64_t items = ceil_div(t->outputs, AMX_ROWS) * AMX_ROWS;
  launch l;
  begin(&l, s, t);
  launch_args(&l, &(conv_tiles_pack_args){.weight = buffer_arg(t->f->weight),
                                          .packed = scratch_arg(0),
                                          .items = items,
                                          .n = rows,
                                          .all = t->words,
                                          .n_outputs = t->outputs,
                                          .taps = t->taps,
                                          .kernel_x = kernel_x,
                                          .row_step = turned ? 1 : row_step,
                                          .channel_step = turned ? t->outputs : t->taps});
  return launch_loops(&l, items, 1, t->words * t->taps);
}

static clave_status pack_weight(cl_recorder *s, const tiled *t, arg_buffer *weight) {
  const form_request f = {.x = t->f->weight,
                          .kind = FORM_CONV_PAIR_TILES,
                          .size = {t->outputs, t->by_rows ? t->f->dims[2].kernel : 0,
                                   t->f->transposed ? 0 : t->taps}, /* its axes lie otherwise */
                          .bytes = sizeof(float) * (size_t)weight_words(t),
                          .fill = fill_form,
                          .ctx = t};
  int number;
  TRY(recorder_form(s, &f, &number));
  *weight = form_arg(number);
  return NULL;
}

static clave_status make_words(cl_recorder *s, const tiled *t, const bound_tensor *x,
                               int64_t images) {
  const conv_dim *y = &t->y, *c = &t->x;
  const int64_t items = images * t->phases[0] * t->rows * (t->words / SOME);
  launch l;
  begin(&l, s, t);
  launch_args(&l, &(conv_tiles_words_args){.x = buffer_arg(x),
                                           .words = scratch_arg(0),
                                           .items = items,
                                           .images = images,
                                           .channels = t->f->channels,
                                           .in_rows = y->in,
                                           .in_columns = c->in,
                                           .pad_y = y->padding,
                                           .pad_x = c->padding,
                                           .step_y = y->stride,
                                           .step_x = c->stride,
                                           .phases_y = t->phases[0],
                                           .phases_x = t->phases[1],
                                           .rows = t->rows,
                                           .columns = t->columns,
                                           .plane = t->plane});
  return launch_loops(&l, items, 1, SOME * t->columns * t->phases[1]);
}

static clave_status make_row_words(cl_recorder *s, const tiled *t, const bound_tensor *x,
                                   int64_t images) {
  const conv_dim *y = &t->f->dims[1], *c = &t->f->dims[2];
  const int64_t parts = ceil_div(t->words, ceil_div(c->kernel, 2)), items = images * parts * y->out;
  launch l;
  begin(&l, s, t);
  launch_args(&l, &(conv_tiles_row_words_args){.x = buffer_arg(x),
                                               .words = scratch_arg(0),
                                               .items = items,
                                               .channels = t->f->channels,
                                               .all = t->words,
                                               .in_rows = y->in,
                                               .in_columns = c->in,
                                               .pad_y = y->padding,
                                               .pad_x = c->padding,
                                               .step_y = y->stride,
                                               .step_x = c->stride,
                                               .kernel_y = y->kernel,
                                               .kernel_x = c->kernel,
                                               .dilation_y = y->dilation,
                                               .rows = t->rows,
                                               .columns = t->columns,
                                               .plane = t->plane});
  return launch_loops(&l, items, 1, c->out * ceil_div(c->kernel, 2));
}

/* Images [first, first + images), of which x has the words. */
static clave_status multiply(cl_recorder *s, const tiled *t, arg_buffer weight, int64_t first,
                             int64_t images) {
  const conv_form *f = t->f;
  const conv_dim *y = &t->y, *c = &t->x;
  const int64_t items =
      images * t->strips * ceil_div(y->out, t->rows_each) * ceil_div(c->out, t->columns_each);
  launch l;
  begin(&l, s, t);
  launch_args(&l, &(conv_tiles_args){.words = scratch_arg(0),
                                     .weight = weight,
                                     .bias = optional_arg(f->bias),
                                     .out = buffer_arg(f->out),
                                     .items = items,
                                     .all = t->words,
                                     .n_rows = t->outputs,
                                     .kernel_y = y->kernel,
                                     .kernel_x = c->kernel,
                                     .dilation_y = y->dilation,
                                     .dilation_x = c->dilation,
                                     .step_y = y->stride,
                                     .step_x = c->stride,
                                     .phases_y = t->phases[0],
                                     .phases_x = t->phases[1],
                                     .columns = t->columns,
                                     .plane = t->plane,
                                     .out_rows = y->out,
                                     .out_columns = c->out,
                                     .spread_y = f->transposed ? f->dims[1].kernel : 1,
                                     .spread_x = f->transposed ? f->dims[2].kernel : 1,
                                     .rows_each = t->rows_each,
                                     .columns_each = t->columns_each,
                                     .strips_first = image_words(t) > weight_words(t),
                                     .first_image = first});
  launch_epilogue_of_part(&l, first + images == f->images);
  return launch_run(&l, 1, &(size_t){(size_t)items}, &(size_t){1});
}

clave_status conv_tiles(cl_recorder *s, const node *n, const conv_form *f) {
  tiled t = plan(s, n, f);
  const int64_t bytes = image_words(&t) * (int64_t)sizeof(float),
                images = min_i64(max_i64(COPY_BYTES / bytes, 1), f->images);
  arg_buffer weight;
  TRY(recorder_amx(s, &t.amx));
  recorder_rounds(s, ROUNDS_TO_BF16);
  TRY(pack_weight(s, &t, &weight));
  TRY(recorder_scratch(s, (size_t)(images * bytes) + SLACK * sizeof(float)));
  for (int64_t first = 0; first < f->images; first += images) {
    const int64_t some = min_i64(images, f->images - first);
    const bound_tensor x = take_images(f->x, first, some);
    TRY((t.by_rows ? make_row_words : make_words)(s, &t, &x, some));
    TRY(multiply(s, &t, weight, first, some));
  }
  return NULL;
}
