/* Discrete Fourier transforms: kernels_cl/fft.cl. The tables of roots are made first. Then rows are
 * loaded, transformed by the passes and stored, as many at once as fit POINTS_AT_ONCE. */
#include "ops/fft.h"

#include "backend/opencl/ops/families.h"
#include "opencl_ops.h"

/* A CPU runs all passes over ROW_WIDTH rows in its cache, then over the next ones. A GPU, or a CPU
 * with few or long rows, runs each pass over all rows. */
enum { POINTS_AT_ONCE = 1 << 22, ROW_WIDTH = 16, FEW_ROWS = 3, LONG_ROW = 1 << 16 };

typedef struct transforming {
  cl_recorder *recorder;
  const node *node;
  fft_desc desc;
  tensor kept[2], over[2]; /* [0]: of x; [1]: of out */
  int radices[FFT_MAX_PASSES], n_passes;
  /* Offsets in scratch memory, in reals. Each pass reads a buffer and writes the other one of its
   * pair: spectrum and other_spectrum, work and other_work. */
  int64_t roots, chirp, spectrum, work, other_spectrum, other_work;
  int64_t rows_at_once;
  int64_t items; /* work-items that run all passes; 0 if each pass is a launch */
} transforming;

static int64_t reserve_points(int64_t *reals, int64_t points) {
  int64_t at = *reals;
  *reals += 2 * points;
  return at;
}

static int64_t opencl_fft_count_items(const transforming *transforming) {
  const device_traits *traits = recorder_traits(transforming->recorder);
  if (!traits->is_cpu || transforming->desc.n_rows <= FEW_ROWS ||
      transforming->desc.plan.length > LONG_ROW)
    return 0;
  return min_i64(ceil_div(transforming->desc.n_rows, ROW_WIDTH),
                 4 * (int64_t)traits->compute_units);
}

static clave_status opencl_fft_lay_out(transforming *transforming) {
  const fft_desc *desc = &transforming->desc;
  int64_t length = desc->plan.length, reals = 0;
  split_rows(desc->rows, 2, transforming->kept, transforming->over);
  transforming->n_passes = fft_passes(&desc->plan, transforming->radices);
  transforming->items = opencl_fft_count_items(transforming);
  transforming->rows_at_once = max_i64(1, min_i64(desc->n_rows, POINTS_AT_ONCE / length));
  if (transforming->items > 0) transforming->rows_at_once = transforming->items * ROW_WIDTH;
  transforming->roots = reserve_points(&reals, length);
  transforming->chirp = reserve_points(&reals, desc->chirp ? desc->n : 0);
  transforming->spectrum = reserve_points(&reals, desc->chirp ? length : 0);
  transforming->other_spectrum = reserve_points(&reals, desc->chirp ? length : 0);
  transforming->work = reserve_points(&reals, transforming->rows_at_once * length);
  transforming->other_work = reserve_points(&reals, transforming->rows_at_once * length);
  return recorder_scratch(transforming->recorder, (size_t)reals * dtype_size(desc->x->tensor.type));
}

static void opencl_fft_begin(launch *launch, const transforming *transforming, int width) {
  launch_begin(launch, transforming->recorder, transforming->node);
  launch_dtype(launch, "TYPE", transforming->desc.x->tensor.type);
  launch_compute(launch, transforming->desc.x->tensor.type);
  launch_define(launch, "KIND", (int)transforming->desc.kind);
  launch_define(launch, "CHIRP", transforming->desc.chirp);
  launch_define(launch, "INVERSE", transforming->desc.inverse && !transforming->desc.chirp);
  launch_define(launch, "W", width);
  if (transforming->rows_at_once * transforming->desc.plan.length > INT32_MAX / 4)
    launch_wide(launch);
}

/* ---------------------------------------------------------------- passes */

static clave_status launch_pass(const transforming *transforming, int radix, int64_t stride,
                                int64_t rows, int64_t from, int64_t to) {
  launch launch;
  int64_t length = transforming->desc.plan.length, items = rows * length / radix;
  opencl_fft_begin(&launch, transforming, 1);
  launch_define(&launch, "RADIX", radix);
  launch_args(&launch, &(fft_pass_args){.from = scratch_arg(from),
                                        .to = scratch_arg(to),
                                        .roots = scratch_arg(transforming->roots),
                                        .items = items,
                                        .length = length,
                                        .stride = stride});
  return launch_loops(&launch, items, 1, 4 * radix);
}

/* Runs all passes. *data: offset of the rows; *other: of a second buffer. Passes swap the two. */
static clave_status launch_passes(const transforming *transforming, int64_t rows, int64_t *data,
                                  int64_t *other) {
  int64_t stride = 1;
  for (int i = 0; i < transforming->n_passes; i++) {
    TRY(launch_pass(transforming, transforming->radices[i], stride, rows, *data, *other));
    stride *= transforming->radices[i];
    int64_t swap = *data;
    *data = *other;
    *other = swap;
  }
  return NULL;
}

/* ---------------------------------------------------------------- tables */

static clave_status launch_roots(const transforming *transforming) {
  launch launch;
  int64_t length = transforming->desc.plan.length;
  opencl_fft_begin(&launch, transforming, 1);
  launch_args(&launch, &(fft_roots_args){
                           .roots = scratch_arg(transforming->roots),
                           .n = length,
                           .inverse = transforming->desc.inverse && !transforming->desc.chirp});
  return launch_loops(&launch, length, 1, 16);
}

static clave_status launch_chirp(transforming *transforming) {
  launch launch;
  int64_t length = transforming->desc.plan.length;
  opencl_fft_begin(&launch, transforming, 1);
  launch_args(&launch, &(fft_chirp_args){.chirp = scratch_arg(transforming->chirp),
                                         .spectrum = scratch_arg(transforming->spectrum),
                                         .n = transforming->desc.n,
                                         .length = length,
                                         .inverse = transforming->desc.inverse});
  TRY(launch_loops(&launch, length, 1, 16));
  return launch_passes(transforming, 1, &transforming->spectrum, &transforming->other_spectrum);
}

/* ---------------------------------------------------------------- rows */

static fft_in_params opencl_fft_input_of(const transforming *transforming) {
  const fft_desc *desc = &transforming->desc;
  return (fft_in_params){.x = buffer_arg(desc->x),
                         .chirp = desc->chirp ? scratch_arg(transforming->chirp) : absent_arg(),
                         .row_dims = dims_arg(&transforming->kept[0]),
                         .x_strides = strides_arg(&transforming->kept[0]),
                         .x_stride = transforming->over[0].strides[0],
                         .x_pair = desc->pair[0],
                         .n_rows = desc->n_rows,
                         .n = desc->n,
                         .n_in = desc->n_in,
                         .length = desc->plan.length};
}

static fft_out_params output_of(const transforming *transforming) {
  const fft_desc *desc = &transforming->desc;
  return (fft_out_params){.out = buffer_arg(desc->out),
                          .out_strides = strides_arg(&transforming->kept[1]),
                          .out_stride = transforming->over[1].strides[0],
                          .out_pair = desc->pair[1],
                          .n_out = desc->n_out,
                          .scale = desc->scale};
}

static clave_status launch_load(const transforming *transforming, int64_t first_row, int64_t rows) {
  launch launch;
  int64_t items = rows * transforming->desc.plan.length;
  opencl_fft_begin(&launch, transforming, 1);
  launch_args(&launch, &(fft_load_args){.fft_in = opencl_fft_input_of(transforming),
                                        .to = scratch_arg(transforming->work),
                                        .first_row = first_row,
                                        .items = items});
  return launch_loops(&launch, items, 1, 8);
}

static clave_status launch_multiply(const transforming *transforming, int64_t rows) {
  launch launch;
  int64_t items = rows * transforming->desc.plan.length;
  opencl_fft_begin(&launch, transforming, 1);
  launch_args(&launch, &(fft_multiply_args){.data = scratch_arg(transforming->work),
                                            .spectrum = scratch_arg(transforming->spectrum),
                                            .length = transforming->desc.plan.length,
                                            .items = items});
  return launch_loops(&launch, items, 1, 8);
}

static clave_status opencl_fft_launch_store(const transforming *transforming, int64_t first_row,
                                            int64_t rows) {
  launch launch;
  int64_t items = rows * transforming->desc.n_out;
  opencl_fft_begin(&launch, transforming, 1);
  launch_args(&launch,
              &(fft_store_args){.from = scratch_arg(transforming->work),
                                .chirp = transforming->desc.chirp ? scratch_arg(transforming->chirp)
                                                                  : absent_arg(),
                                .fft_out = output_of(transforming),
                                .row_dims = dims_arg(&transforming->kept[0]),
                                .n_rows = transforming->desc.n_rows,
                                .n = transforming->desc.n,
                                .length = transforming->desc.plan.length,
                                .first_row = first_row,
                                .items = items});
  return launch_loops(&launch, items, 1, 8);
}

static clave_status launch_some(transforming *transforming, int64_t first_row, int64_t rows) {
  TRY(launch_load(transforming, first_row, rows));
  TRY(launch_passes(transforming, rows, &transforming->work, &transforming->other_work));
  if (transforming->desc.chirp) {
    TRY(launch_multiply(transforming, rows));
    TRY(launch_passes(transforming, rows, &transforming->work, &transforming->other_work));
  }
  return opencl_fft_launch_store(transforming, first_row, rows);
}

static radix_params radices_of(const fft_plan *plan) {
  return (radix_params){.fours = plan->count[0],
                        .twos = plan->count[1],
                        .threes = plan->count[2],
                        .fives = plan->count[3],
                        .sevens = plan->count[4],
                        .elevens = plan->count[5],
                        .thirteens = plan->count[6]};
}

static bool has_odd_radix(const transforming *transforming) {
  return transforming->radices[transforming->n_passes > 0 ? transforming->n_passes - 1 : 0] % 2 !=
         0; /* odd radices come last */
}

static clave_status launch_whole_rows(const transforming *transforming) {
  launch launch;
  opencl_fft_begin(&launch, transforming, ROW_WIDTH);
  launch_define(&launch, "ODD", has_odd_radix(transforming));
  launch_args(&launch, &(fft_rows_args){.fft_in = opencl_fft_input_of(transforming),
                                        .fft_out = output_of(transforming),
                                        .radix = radices_of(&transforming->desc.plan),
                                        .roots = scratch_arg(transforming->roots),
                                        .spectrum = transforming->desc.chirp
                                                        ? scratch_arg(transforming->spectrum)
                                                        : absent_arg(),
                                        .work = scratch_arg(transforming->work),
                                        .items = transforming->items});
  return launch_loops(&launch, transforming->items, 1,
                      8 * ROW_WIDTH * transforming->desc.plan.length);
}

clave_status opencl_fft(cl_recorder *recorder, const node *node) {
  transforming transforming = {.recorder = recorder, .node = node};
  describe_fft(node, &transforming.desc);
  if (transforming.desc.n_rows == 0) return NULL;
  TRY(opencl_fft_lay_out(&transforming));
  TRY(launch_roots(&transforming));
  if (transforming.desc.chirp) TRY(launch_chirp(&transforming));
  if (transforming.items > 0) return launch_whole_rows(&transforming);
  for (int64_t row = 0; row < transforming.desc.n_rows; row += transforming.rows_at_once)
    TRY(launch_some(&transforming, row,
                    min_i64(transforming.rows_at_once, transforming.desc.n_rows - row)));
  return NULL;
}
