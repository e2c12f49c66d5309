/* Compares convolutions in float with sums in double, with the baseline instructions and with all
 * that this processor has. They cover kernels of one element (kernels/pointwise.c), outputs in
 * lanes (kernels/conv_direct.c) and their epilogues. Sizes are around those of tiles, panels and
 * blocks; there are groups, images, strides, padding, depth, numbers of threads, weights of 16
 * bits, and empty dimensions. All of it is repeated with operands rounded to BF16, and some with x,
 * out and what is added stored as BF16. */
#include <float.h>
#include <math.h>

#include "backend/conv_ways.h"
#include "backend/cpu/kernels/conv/conv.h"
#include "backend/cpu/kernels/conv/conv_amx.h"
#include "backend/cpu/kernels/conv/conv_direct.h"
#include "backend/cpu/kernels/conv/pointwise.h"
#include "backend/cpu/kernels/support/features.h"
#include "backend/cpu_levels.h"
#include "backend/followed.h"

enum { MAX_OUT = 1 << 17, MAX_WEIGHT = 1 << 17, MAX_OUTPUTS = 256, GUARD = 1024 };

static float weight[MAX_WEIGHT], bias[MAX_OUTPUTS], added[MAX_OUT];
static float out[MAX_OUT + GUARD], other[MAX_OUT + GUARD], followed[MAX_OUT + GUARD];
static double sums[MAX_OUT]; /* sums of products of weight and x, before the epilogue */

static uint32_t seed;
/* Uniform in [-2, 2). */
static float draw(void) {
  seed = seed * 1664525U + 1013904223U;
  return (float)(seed >> 8) / (1 << 22) - 2;
}

static conv_dim dim_of(int64_t in, int64_t kernel, int64_t stride, int64_t padding) {
  const int64_t capacity = in + 2 * padding - kernel;
  return (conv_dim){in, capacity < 0 ? 0 : capacity / stride + 1, kernel, stride, padding, 1, 1, 1};
}
static conv_dim one(void) { return dim_of(1, 1, 1, 0); }

static conv_args form(int64_t images, int64_t groups, int64_t channels, int64_t outputs,
                      conv_dim rows, conv_dim columns) {
  return (conv_args){.weight = weight,
                     .bias = bias,
                     .out = out,
                     .type = DTYPE_F32,
                     .weight_type = DTYPE_F32,
                     .is_packed = true,
                     .images = images,
                     .groups = groups,
                     .channels = channels,
                     .outputs = outputs,
                     .dims = {one(), rows, columns},
                     .epilogue = conv_epilogue_none};
}

static int64_t result_size(const conv_args *args) {
  return args->images * args->groups * args->outputs * out_size(args);
}
static int64_t x_size(const conv_args *args) {
  return args->images * args->groups * args->channels * in_size(args);
}
static int64_t weight_size(const conv_args *args) {
  return args->groups * args->outputs * args->channels * kernel_size(args);
}
/* Returns the bytes of the results and of the guard. */
static size_t written_bytes(const conv_args *args) {
  return (size_t)(result_size(args) + GUARD) * sizeof *out;
}

/* Returns random numbers for x in a separate block, so that a read beyond its end is found. */
static float *draw_numbers(conv_args *args) {
  const int64_t n = x_size(args);
  float *made = malloc((size_t)(n > 0 ? n : 1) * sizeof *made);
  assert_non_null(made);
  assert_true(result_size(args) <= MAX_OUT && args->groups * args->outputs <= MAX_OUTPUTS);
  assert_true(weight_size(args) <= MAX_WEIGHT);
  seed = 1;
  for (int64_t i = 0; i < n; i++) made[i] = draw();
  for (int64_t i = 0; i < weight_size(args); i++) weight[i] = draw();
  for (int i = 0; i < MAX_OUTPUTS; i++) bias[i] = draw();
  for (int64_t i = 0; i < result_size(args); i++) added[i] = draw();
  args->x = made;
  return made;
}

static void run(const kernel_desc *pack, const kernel_desc *keys, conv_args *args, int n_threads) {
  args->way = find_way(args, true);
  for (int64_t i = 0; i < result_size(args) + GUARD; i++) out[i] = -99;
  run_packed_kernel(pack, keys, args, &args->packed, n_threads);
}

/* ---------------------------------------------------------------- the oracle */

static double *widen(const conv_args *args, const float *values, int64_t n) {
  double *wide = malloc((size_t)(n > 0 ? n : 1) * sizeof *wide);
  assert_non_null(wide);
  for (int64_t i = 0; i < n; i++)
    wide[i] = (double)(args->rounds ? bf16_to_f32(f32_to_bf16(values[i])) : values[i]);
  return wide;
}

static int64_t input_of(const conv_dim *dim, int64_t at, int64_t tap) {
  return at * dim->stride - dim->padding + tap * dim->dilation;
}
static bool is_inside(const conv_dim *dim, int64_t at) { return at >= 0 && at < dim->in; }

static void add_row(const conv_dim *dim, int64_t tap, double w, const double *row, double *to) {
  for (int64_t i = 0; i < dim->out; i++) {
    const int64_t from = input_of(dim, i, tap);
    if (is_inside(dim, from)) to[i] += w * row[from];
  }
}

/* Adds the contribution of one tap of one channel, values, to all outputs of a plane. */
static void add_tap(const conv_args *args, const int64_t tap[], double w, const double *values,
                    double *to) {
  const conv_dim *dim = args->dims;
  for (int64_t z = 0; z < dim[0].out; z++)
    for (int64_t y = 0; y < dim[1].out; y++, to += dim[2].out) {
      const int64_t plane = input_of(&dim[0], z, tap[0]), row = input_of(&dim[1], y, tap[1]);
      if (is_inside(&dim[0], plane) && is_inside(&dim[1], row))
        add_row(&dim[2], tap[2], w, values + (plane * dim[1].in + row) * dim[2].in, to);
    }
}

static void add_channel(const conv_args *args, const double *weights, const double *values,
                        double *to) {
  const conv_dim *dim = args->dims;
  for (int64_t z = 0; z < dim[0].kernel; z++)
    for (int64_t y = 0; y < dim[1].kernel; y++)
      for (int64_t i = 0; i < dim[2].kernel; i++, weights++)
        add_tap(args, (const int64_t[]){z, y, i}, *weights, values, to);
}

/* Computes the sums of the operands, rounded first if args->rounds, in double. */
static void find_sums(const conv_args *args) {
  double *values = widen(args, args->x, x_size(args)),
         *weights = widen(args, weight, weight_size(args));
  const int64_t outputs = args->groups * args->outputs;
  memset(sums, 0, (size_t)result_size(args) * sizeof *sums);
  for (int64_t plane = 0; plane < args->images * outputs; plane++) {
    const int64_t output = plane % outputs, group = output / args->outputs;
    const int64_t first = (plane / outputs * args->groups + group) * args->channels;
    for (int64_t c = 0; c < args->channels; c++)
      add_channel(args, weights + (output * args->channels + c) * kernel_size(args),
                  values + (first + c) * in_size(args), sums + plane * out_size(args));
  }
  free(values);
  free(weights);
}

static double want_at(const conv_args *args, int64_t n) {
  const int64_t output = n / out_size(args) % (args->groups * args->outputs);
  double sum = sums[n] + (args->bias ? (double)bias[output] : 0) +
               (args->epilogue.added ? (double)added[n] : 0);
  if (args->epilogue.slope && sum <= 0) sum *= (double)args->epilogue.slope[output];
  return fmin(fmax(sum, (double)args->epilogue.low), (double)args->epilogue.high);
}

static void check_outputs(const conv_args *args) {
  const double terms = (double)(args->channels * kernel_size(args)) + 2;
  for (int64_t n = 0; n < result_size(args); n++) {
    const double want = want_at(args, n), off = fabs((double)out[n] - want);
    if (!(off <= FLT_EPSILON * (2 * terms + 4 * fabs(want))))
      fail_msg("element %lld: %g, expected %g", (long long)n, (double)out[n], want);
  }
  for (int64_t n = 0; n < GUARD; n++) assert_true(out[result_size(args) + n] == -99);
}

/* Checks an epilogue, and that several threads compute the same bits. */
static void check_epilogue(const kernel_desc *pack, const kernel_desc *keys, conv_args *args) {
  run(pack, keys, args, 1);
  check_outputs(args);
  memcpy(other, out, written_bytes(args));
  for (int threads = 2; threads <= 7; threads += 5) {
    run(pack, keys, args, threads);
    assert_memory_equal(out, other, written_bytes(args));
  }
}

/* Checks that results have the bits of steps that are applied to all of `other` afterwards. */
static void check_steps(const kernel_desc *pack, const kernel_desc *keys, conv_args args) {
  const int64_t n = result_size(&args);
  for (int i = 0; i < FOLLOWED_LISTS && n > 0; i++) {
    args.steps = followed_list(i, n, out_size(&args), added);
    run(pack, keys, &args, 2);
    memcpy(followed, other, written_bytes(&args));
    follow(args.steps, followed);
    assert_memory_equal(out, followed, written_bytes(&args));
  }
}

/* Tests every epilogue; for rounded operands, whose kernels end alike, most of them. */
static void check_epilogues(const kernel_desc *pack, const kernel_desc *keys, conv_args args) {
  if (!args.rounds) {
    check_epilogue(pack, keys, &args);
    check_steps(pack, keys, args);
  }
  args.epilogue.added = added;
  check_epilogue(pack, keys, &args);
  if (args.rounds) return;
  args.epilogue.low = 0, args.bias = NULL;
  check_epilogue(pack, keys, &args);
  args.epilogue.high = 6, args.epilogue.added = NULL;
  check_epilogue(pack, keys, &args);
  args.epilogue = (conv_epilogue){.added = added, .slope = bias, .low = -1, .high = 6};
  check_epilogue(pack, keys, &args);
}

static bool may_round(const kernel_desc *desc, const conv_args *args) {
  return desc == &kernel_conv_direct || conv_rounds(args);
}

/* Tests all levels of instructions, and rounded operands where they are supported. */
static void check_form(const kernel_desc *pack, const kernel_desc *keys, conv_args args) {
  float *values = draw_numbers(&args);
  conv_args rounded = args;
  rounded.rounds = true;
  for (int i = 0; i < 2; i++) {
    find_sums(i ? &rounded : &args);
    for (cpu_level level = CPU_PORTABLE; level <= CPU_AMX; level = next_level(level)) {
      cpu_use_at_most(level);
      if (!i || may_round(keys, &args)) check_epilogues(pack, keys, i ? rounded : args);
    }
  }
  free(values);
}

/* ---------------------------------------------------------------- kernels of one element */

static void check_pointwise(int64_t images, int64_t groups, int64_t channels, int64_t outputs,
                            int64_t cells) {
  conv_args args = form(images, groups, channels, outputs, one(), dim_of(cells, 1, 1, 0));
  const conv_phase phase = {
      .args = &args,
      .d = {whole_window(&args.dims[0]), whole_window(&args.dims[1]), whole_window(&args.dims[2])}};
  for (cpu_level level = CPU_PORTABLE; level <= CPU_AMX && cells >= 32; level = next_level(level)) {
    cpu_use_at_most(level);
    assert_true(pointwise_fits(&phase) && conv_rounds(&args) == !conv_is_depthwise(&args));
  }
  check_form(&kernel_conv_pack, &kernel_conv, args);
}

static void test_pointwise(void **state) {
  (void)state;
  static const int64_t cells[] = {1, 7, 8, 9, 31, 32, 33, 48, 49, 63, 196, 257, 600};
  for (size_t i = 0; i < sizeof cells / sizeof *cells; i++) {
    check_pointwise(1, 1, 5, 13, cells[i]);
    check_pointwise(2, 2, 65, 7, cells[i]);
  }
  check_pointwise(2, 1, 131, 25, 100);
  check_pointwise(1, 1, 600, 200, 40); /* a weight that is larger than the cache */
  check_pointwise(3, 1, 64, 1, 64);
  check_pointwise(1, 3, 1, 4, 35);
  check_pointwise(0, 1, 4, 4, 64);
  check_pointwise(1, 1, 0, 4, 64);
  check_form(&kernel_conv_pack, &kernel_conv,
             form(1, 1, 4, 5, dim_of(3, 1, 1, 1), dim_of(40, 1, 1, 2))); /* padded: not in place */
}

/* ---------------------------------------------------------------- with outputs in lanes */

static void check_lanes(conv_args args) {
  check_form(&kernel_conv_direct_pack, &kernel_conv_direct, args);
}

static void test_windows(void **state) {
  (void)state;
  static const int64_t sides[] = {1, 2, 3, 5, 8, 13, 26};
  for (size_t i = 0; i < sizeof sides / sizeof *sides; i++)
    for (int64_t stride = 1; stride <= 3; stride++) {
      const int64_t kernel = i % 2 ? 3 : 2;
      const conv_dim rows = dim_of(sides[i], kernel, stride, kernel - 1),
                     columns = dim_of(sides[i] + 2, 3, stride, 1);
      check_lanes(form(1 + (int64_t)i % 2, 1, 7, 17, rows, columns));
      check_lanes(form(1, 2, 33, 49, rows, columns));
    }
}

static void test_lane_shapes(void **state) {
  (void)state;
  conv_args far = form(1, 1, 2, 16, dim_of(3, 2, 200000, 100000), dim_of(4, 2, 200000, 100000));
  assert_false(conv_is_direct(&far)); /* its planes would be copied with all of the padding */
  far.dims[1] = dim_of(3, 2, 3, 1), far.dims[2] = dim_of(4, 2, 3, 1);
  assert_true(conv_is_direct(&far));
  conv_args deep = form(1, 2, 3, 20, dim_of(6, 3, 2, 1), dim_of(7, 1, 1, 0));
  deep.dims[0] = dim_of(5, 2, 2, 1);
  check_lanes(deep);
  conv_args dilated = form(2, 1, 9, 33, dim_of(12, 3, 1, 2), dim_of(11, 3, 2, 0));
  dilated.dims[1].dilation = 2, dilated.dims[1].out = 12;
  dilated.dims[2].dilation = 3, dilated.dims[2].out = 3;
  check_lanes(dilated);
  dilated.channels = 21;
  check_lanes(dilated);
  deep.channels = 35;
  check_lanes(deep);
  check_lanes(form(1, 1, 70, 64, one(), dim_of(49, 1, 1, 0)));
  check_lanes(form(2, 1, 17, 16, one(), dim_of(300, 3, 1, 1)));
  check_lanes(form(1, 1, 3, 16, dim_of(30, 7, 2, 3), dim_of(33, 7, 2, 3)));
  check_lanes(form(2, 3, 11, 40, dim_of(9, 1, 2, 0), dim_of(9, 1, 2, 0)));
  check_lanes(form(1, 1, 2, 16, dim_of(3, 2, 5, 0), dim_of(16, 4, 4, 0)));
  check_lanes(form(1, 1, 4, 18, dim_of(2, 1, 1, 3), dim_of(3, 1, 1, 4)));
  check_lanes(form(1, 1, 5, 18, dim_of(9, 1, 2, 1), dim_of(12, 1, 3, 2)));
  check_lanes(form(0, 1, 4, 18, one(), dim_of(9, 3, 1, 1)));
  check_lanes(form(1, 1, 0, 18, one(), dim_of(9, 3, 1, 1)));
  check_lanes(form(1, 1, 4, 18, dim_of(2, 3, 1, 0), dim_of(9, 3, 1, 1)));
  check_lanes(form(1, 1, 4, 18, one(), dim_of(0, 3, 1, 2)));
}

/* ---------------------------------------------------------------- transposed, by tiles */

/* Output n depends on a single input. */
static double want_spread(const conv_args *args, int64_t n) {
  const conv_dim *dim = args->dims;
  const int64_t outputs = args->groups * args->outputs, plane = n / out_size(args);
  const int64_t output = plane % args->outputs, product = plane / args->outputs,
                group = plane % outputs / args->outputs;
  int64_t at[CONV_DIMS];
  split_index(n % out_size(args), dim[1].out, dim[2].out, at);
  double sum = args->bias ? (double)bias[group * args->outputs + output] : 0;
  for (int64_t c = 0; c < args->channels; c++) {
    const float x = ((const float *)args->x)[(product * args->channels + c) * in_size(args) +
                                             at[1] / dim[1].stride * dim[2].in + at[2] / 2];
    const float w =
        weight[(((group * args->channels + c) * args->outputs + output) * dim[1].kernel +
                at[1] % dim[1].stride) *
                   2 +
               at[2] % 2];
    sum += (double)bf16_to_f32(f32_to_bf16(x)) * (double)bf16_to_f32(f32_to_bf16(w));
  }
  return sum;
}

static void check_spread(int64_t images, int64_t groups, int64_t channels, int64_t outputs,
                         int64_t rows, int64_t columns, int64_t stride) {
  conv_args args = form(images, groups, channels, outputs,
                        (conv_dim){rows, rows * stride, stride, stride, 0, 1, stride, stride},
                        (conv_dim){columns, columns * 2, 2, 2, 0, 1, 2, 2});
  args.transposed = args.rounds = true;
  assert_true(conv_amx_accepts_transposed(&args));
  float *values = draw_numbers(&args);
  for (int i = 0; i < 2; i++, args.bias = NULL) {
    run(&kernel_conv_direct_pack, &kernel_conv_direct, &args, 1);
    for (int64_t n = 0; n < result_size(&args); n++) {
      const double want = want_spread(&args, n), off = fabs((double)out[n] - want);
      if (!(off <= FLT_EPSILON * (2 * (double)channels + 4 * fabs(want))))
        fail_msg("element %lld: %g, expected %g", (long long)n, (double)out[n], want);
    }
    for (int64_t n = 0; n < GUARD; n++) assert_true(out[result_size(&args) + n] == -99);
    memcpy(other, out, written_bytes(&args));
    run(&kernel_conv_direct_pack, &kernel_conv_direct, &args, 7);
    assert_memory_equal(out, other, written_bytes(&args));
  }
  free(values);
}

static void test_spread(void **state) {
  (void)state;
  cpu_use_at_most(CPU_AMX);
  if (!cpu_has_amx()) skip(); /* without AMX they are products of patches */
  check_spread(1, 1, 33, 16, 4, 8, 2);
  check_spread(2, 2, 12, 17, 7, 7, 2);
  check_spread(1, 1, 64, 33, 1, 300, 1);
  check_spread(1, 1, 70, 5, 3, 35, 2);
  check_spread(3, 1, 13, 1, 5, 10, 3);
  conv_args args = form(1, 1, 16, 16, dim_of(6, 2, 1, 0), dim_of(8, 2, 2, 0));
  args.transposed = args.rounds = true;
  assert_false(conv_amx_accepts_transposed(&args)); /* whose outputs see several inputs */
}

/* ---------------------------------------------------------------- other weights */

/* BF16 numbers are the upper bits of floats. */
static void test_narrow_weight(void **state) {
  static uint16_t halves[MAX_WEIGHT];
  (void)state;
  conv_args args = form(1, 2, 24, 35, dim_of(9, 3, 2, 1), dim_of(12, 3, 2, 1));
  float *values = draw_numbers(&args);
  for (int64_t i = 0; i < weight_size(&args); i++) {
    uint32_t bits;
    memcpy(&bits, &weight[i], sizeof bits);
    halves[i] = (uint16_t)(bits >> 16);
    bits &= 0xffff0000;
    memcpy(&weight[i], &bits, sizeof bits);
  }
  args.weight = halves;
  args.weight_type = DTYPE_BF16;
  find_sums(&args);
  check_epilogue(&kernel_conv_direct_pack, &kernel_conv_direct, &args);
  args.rounds = true;
  find_sums(&args);
  check_epilogue(&kernel_conv_direct_pack, &kernel_conv_direct, &args);
  args.dims[1] = one(), args.dims[2] = dim_of(108, 1, 1, 0);
  assert_true(conv_rounds(&args));
  find_sums(&args);
  check_epilogue(&kernel_conv_pack, &kernel_conv, &args);
  free(values);
}

/* A NaN stays a NaN with every epilogue; infinities are clamped. */
static void check_special(const kernel_desc *pack, const kernel_desc *keys, conv_args args,
                          bool rounds) {
  args.rounds = rounds && may_round(keys, &args);
  float *values = draw_numbers(&args);
  for (int64_t i = 0; i < weight_size(&args); i++) weight[i] = fabsf(weight[i]) + 1;
  args.epilogue.low = 0, args.epilogue.high = 6;
  values[0] = NAN, values[in_size(&args) - 1] = INFINITY;
  run(pack, keys, &args, 2);
  const int64_t last = out_size(&args) - 1;
  assert_true(isnan(out[0]));
  assert_true(out[last] == 6);
  values[in_size(&args) - 1] = -INFINITY;
  run(pack, keys, &args, 2);
  assert_true(out[last] == 0);
  free(values);
}

/* An infinity next to the inputs of an output does not change the output. */
static void check_beside(conv_args args, int64_t at, bool rounds) {
  args.rounds = rounds;
  float *values = draw_numbers(&args);
  values[at] = INFINITY;
  run(&kernel_conv_direct_pack, &kernel_conv_direct, &args, 1);
  assert_true(isfinite(out[0]) && isinf(out[1]));
  free(values);
}

static void check_all_special(bool rounds) {
  const conv_dim windows = dim_of(9, 3, 2, 0);
  check_special(&kernel_conv_pack, &kernel_conv, form(1, 1, 5, 17, one(), dim_of(50, 1, 1, 0)),
                rounds);
  check_special(&kernel_conv_direct_pack, &kernel_conv_direct, form(1, 1, 5, 17, windows, windows),
                rounds);
  check_beside(form(1, 1, 5, 17, one(), dim_of(50, 3, 1, 0)), 3, rounds);
  check_beside(form(1, 1, 35, 17, one(), dim_of(50, 3, 2, 0)), 3, rounds);
  check_special(&kernel_conv_pack, &kernel_conv, form(1, 1, 5, 3, windows, windows), rounds);
}

static void test_special(void **state) {
  (void)state;
  for (cpu_level level = CPU_PORTABLE; level <= CPU_AMX; level = next_level(level)) {
    cpu_use_at_most(level);
    check_all_special(false);
    check_all_special(true);
  }
}

/* ---------------------------------------------------------------- values stored as BF16 */

static void round_all(float *values, uint16_t *stored, int64_t n) {
  for (int64_t i = 0; i < n; i++) values[i] = bf16_to_f32(stored[i] = f32_to_bf16(values[i]));
}

/* Checks that results equal the rounded results of the same values stored as F32. */
static void check_stored(conv_args args) {
  static uint16_t stored_added[MAX_OUT];
  args.rounds = true;
  float *x = draw_numbers(&args);
  uint16_t *stored_x = malloc((size_t)x_size(&args) * sizeof *stored_x);
  const uint16_t *result = (const uint16_t *)(const void *)out;
  assert_non_null(stored_x);
  round_all(x, stored_x, x_size(&args));
  round_all(added, stored_added, result_size(&args));
  args.epilogue = (conv_epilogue){.added = added, .low = -9, .high = 9};
  run(&kernel_conv_direct_pack, &kernel_conv_direct, &args, 2);
  memcpy(other, out, (size_t)result_size(&args) * sizeof *out);
  args.x = stored_x;
  args.epilogue.added = stored_added;
  args.x_type = args.out_type = args.epilogue.added_type = DTYPE_BF16;
  run(&kernel_conv_direct_pack, &kernel_conv_direct, &args, 2);
  for (int64_t i = 0; i < result_size(&args); i++)
    assert_int_equal(result[i], f32_to_bf16(other[i]));
  free(stored_x);
  free(x);
}

static void test_stored(void **state) {
  (void)state;
  for (cpu_level level = CPU_PORTABLE; level <= CPU_AMX; level = next_level(level)) {
    cpu_use_at_most(level);
    check_stored(form(2, 1, 33, 49, dim_of(9, 3, 1, 1), dim_of(19, 3, 1, 1)));
    check_stored(form(1, 2, 17, 20, dim_of(12, 3, 2, 1), dim_of(35, 3, 2, 1)));
    check_stored(form(1, 1, 13, 16, dim_of(9, 2, 3, 1), dim_of(22, 2, 3, 0)));
    check_stored(form(1, 1, 3, 33, dim_of(15, 7, 2, 3), dim_of(33, 7, 2, 3)));
    check_stored(form(2, 1, 4, 18, dim_of(9, 3, 1, 1), dim_of(40, 3, 1, 1)));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_pointwise),     cmocka_unit_test(test_windows),
      cmocka_unit_test(test_lane_shapes),   cmocka_unit_test(test_spread),
      cmocka_unit_test(test_narrow_weight), cmocka_unit_test(test_special),
      cmocka_unit_test(test_stored)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
