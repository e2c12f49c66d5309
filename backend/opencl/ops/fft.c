/* Discrete Fourier transforms: kernels_cl/fft.cl. Tables of roots first; then rows, as many at once
 * as scratch memory of a reasonable size holds, are loaded, go through the passes and are stored.
 */
#include "ops/fft.h"

#include "backend/opencl/ops/families.h"
#include "opencl_ops.h"

/* A CPU takes ROW_WIDTH rows through all passes, in its cache; a GPU, or a CPU of few or long rows,
 * all rows pass by pass. */
enum { POINTS_AT_ONCE = 1 << 22, ROW_WIDTH = 16, FEW_ROWS = 3, LONG_ROW = 1 << 16 };

typedef struct transforming {
  cl_recorder *s;
  const node *n;
  fft_form f;
  tensor kept[2], over[2]; /* of x and out */
  int radices[FFT_MAX_PASSES], n_passes;
  /* Places in scratch memory, in reals. spectrum and work change hands with the buffers beside them
   * from pass to pass. */
  int64_t roots, chirp, spectrum, work, beside_spectrum, beside_work;
  int64_t rows_at_once;
  int64_t items; /* work-items that take rows through all passes; 0: pass by pass */
} transforming;

static int64_t take_points(int64_t *reals, int64_t points) {
  int64_t at = *reals;
  *reals += 2 * points;
  return at;
}

static int64_t count_items(const transforming *t) {
  const device_traits *traits = recorder_traits(t->s);
  if (!traits->is_cpu || t->f.n_rows <= FEW_ROWS || t->f.plan.length > LONG_ROW) return 0;
  return min_i64(ceil_div(t->f.n_rows, ROW_WIDTH), 4 * (int64_t)traits->compute_units);
}

static clave_status lay_out(transforming *t) {
  const fft_form *f = &t->f;
  int64_t length = f->plan.length, reals = 0;
  split_rows(f->rows, 2, t->kept, t->over);
  t->n_passes = fft_passes(&f->plan, t->radices);
  t->items = count_items(t);
  t->rows_at_once = max_i64(1, min_i64(f->n_rows, POINTS_AT_ONCE / length));
  if (t->items > 0) t->rows_at_once = t->items * ROW_WIDTH;
  t->roots = take_points(&reals, length);
  t->chirp = take_points(&reals, f->chirp ? f->n : 0);
  t->spectrum = take_points(&reals, f->chirp ? length : 0);
  t->beside_spectrum = take_points(&reals, f->chirp ? length : 0);
  t->work = take_points(&reals, t->rows_at_once * length);
  t->beside_work = take_points(&reals, t->rows_at_once * length);
  return recorder_scratch(t->s, (size_t)reals * dtype_size(f->x->t.type));
}

static void begin(launch *l, const transforming *t, int width) {
  launch_begin(l, t->s, t->n);
  launch_dtype(l, "TYPE", t->f.x->t.type);
  launch_compute(l, t->f.x->t.type);
  launch_define(l, "KIND", (int)t->f.kind);
  launch_define(l, "CHIRP", t->f.chirp);
  launch_define(l, "INVERSE", t->f.inverse && !t->f.chirp);
  launch_define(l, "W", width);
  if (t->rows_at_once * t->f.plan.length > INT32_MAX / 4) launch_wide(l);
}

/* ---------------------------------------------------------------- passes */

static clave_status launch_pass(const transforming *t, int radix, int64_t stride, int64_t rows,
                                int64_t from, int64_t to) {
  launch l;
  int64_t length = t->f.plan.length, items = rows * length / radix;
  begin(&l, t, 1);
  launch_define(&l, "RADIX", radix);
  launch_args(&l, &(fft_pass_args){.from = scratch_arg(from),
                                   .to = scratch_arg(to),
                                   .roots = scratch_arg(t->roots),
                                   .items = items,
                                   .length = length,
                                   .stride = stride});
  return launch_loops(&l, items, 1, 4 * radix);
}

/* *data: where the rows are; *beside: another buffer of their size. */
static clave_status launch_passes(const transforming *t, int64_t rows, int64_t *data,
                                  int64_t *beside) {
  int64_t stride = 1;
  for (int i = 0; i < t->n_passes; i++) {
    TRY(launch_pass(t, t->radices[i], stride, rows, *data, *beside));
    stride *= t->radices[i];
    int64_t swap = *data;
    *data = *beside;
    *beside = swap;
  }
  return NULL;
}

/* ---------------------------------------------------------------- tables */

static clave_status launch_roots(const transforming *t) {
  launch l;
  int64_t length = t->f.plan.length;
  begin(&l, t, 1);
  launch_args(
      &l, &(fft_roots_args){
              .roots = scratch_arg(t->roots), .n = length, .inverse = t->f.inverse && !t->f.chirp});
  return launch_loops(&l, length, 1, 16);
}

static clave_status launch_chirp(transforming *t) {
  launch l;
  int64_t length = t->f.plan.length;
  begin(&l, t, 1);
  launch_args(&l, &(fft_chirp_args){.chirp = scratch_arg(t->chirp),
                                    .spectrum = scratch_arg(t->spectrum),
                                    .n = t->f.n,
                                    .length = length,
                                    .inverse = t->f.inverse});
  TRY(launch_loops(&l, length, 1, 16));
  return launch_passes(t, 1, &t->spectrum, &t->beside_spectrum);
}

/* ---------------------------------------------------------------- rows */

static fft_in_params input_of(const transforming *t) {
  const fft_form *f = &t->f;
  return (fft_in_params){.x = buffer_arg(f->x),
                         .chirp = f->chirp ? scratch_arg(t->chirp) : absent_arg(),
                         .row_dims = dims_arg(&t->kept[0]),
                         .x_strides = strides_arg(&t->kept[0]),
                         .x_step = t->over[0].strides[0],
                         .x_pair = f->pair[0],
                         .n_rows = f->n_rows,
                         .n = f->n,
                         .n_in = f->n_in,
                         .length = f->plan.length};
}

static fft_out_params output_of(const transforming *t) {
  const fft_form *f = &t->f;
  return (fft_out_params){.out = buffer_arg(f->out),
                          .out_strides = strides_arg(&t->kept[1]),
                          .out_step = t->over[1].strides[0],
                          .out_pair = f->pair[1],
                          .n_out = f->n_out,
                          .scale = f->scale};
}

static clave_status launch_load(const transforming *t, int64_t first_row, int64_t rows) {
  launch l;
  int64_t items = rows * t->f.plan.length;
  begin(&l, t, 1);
  launch_args(&l, &(fft_load_args){.fft_in = input_of(t),
                                   .to = scratch_arg(t->work),
                                   .first_row = first_row,
                                   .items = items});
  return launch_loops(&l, items, 1, 8);
}

static clave_status launch_multiply(const transforming *t, int64_t rows) {
  launch l;
  int64_t items = rows * t->f.plan.length;
  begin(&l, t, 1);
  launch_args(&l, &(fft_multiply_args){.data = scratch_arg(t->work),
                                       .spectrum = scratch_arg(t->spectrum),
                                       .length = t->f.plan.length,
                                       .items = items});
  return launch_loops(&l, items, 1, 8);
}

static clave_status launch_store(const transforming *t, int64_t first_row, int64_t rows) {
  launch l;
  int64_t items = rows * t->f.n_out;
  begin(&l, t, 1);
  launch_args(&l, &(fft_store_args){.from = scratch_arg(t->work),
                                    .chirp = t->f.chirp ? scratch_arg(t->chirp) : absent_arg(),
                                    .fft_out = output_of(t),
                                    .row_dims = dims_arg(&t->kept[0]),
                                    .n_rows = t->f.n_rows,
                                    .n = t->f.n,
                                    .length = t->f.plan.length,
                                    .first_row = first_row,
                                    .items = items});
  return launch_loops(&l, items, 1, 8);
}

static clave_status launch_some(transforming *t, int64_t first_row, int64_t rows) {
  TRY(launch_load(t, first_row, rows));
  TRY(launch_passes(t, rows, &t->work, &t->beside_work));
  if (t->f.chirp) {
    TRY(launch_multiply(t, rows));
    TRY(launch_passes(t, rows, &t->work, &t->beside_work));
  }
  return launch_store(t, first_row, rows);
}

static radix_params radices_of(const fft_plan *p) {
  return (radix_params){.fours = p->count[0],
                        .twos = p->count[1],
                        .threes = p->count[2],
                        .fives = p->count[3],
                        .sevens = p->count[4],
                        .elevens = p->count[5],
                        .thirteens = p->count[6]};
}

static bool has_odd_radix(const transforming *t) {
  return t->radices[t->n_passes > 0 ? t->n_passes - 1 : 0] % 2 != 0; /* they come last */
}

static clave_status launch_whole_rows(const transforming *t) {
  launch l;
  begin(&l, t, ROW_WIDTH);
  launch_define(&l, "ODD", has_odd_radix(t));
  launch_args(&l, &(fft_rows_args){.fft_in = input_of(t),
                                   .fft_out = output_of(t),
                                   .radix = radices_of(&t->f.plan),
                                   .roots = scratch_arg(t->roots),
                                   .spectrum = t->f.chirp ? scratch_arg(t->spectrum) : absent_arg(),
                                   .work = scratch_arg(t->work),
                                   .items = t->items});
  return launch_loops(&l, t->items, 1, 8 * ROW_WIDTH * t->f.plan.length);
}

clave_status opencl_fft(cl_recorder *s, const node *n) {
  transforming t = {.s = s, .n = n};
  describe_fft(n, &t.f);
  if (t.f.n_rows == 0) return NULL;
  TRY(lay_out(&t));
  TRY(launch_roots(&t));
  if (t.f.chirp) TRY(launch_chirp(&t));
  if (t.items > 0) return launch_whole_rows(&t);
  for (int64_t row = 0; row < t.f.n_rows; row += t.rows_at_once)
    TRY(launch_some(&t, row, min_i64(t.rows_at_once, t.f.n_rows - row)));
  return NULL;
}
