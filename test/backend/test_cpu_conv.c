/* Convolutions in float against sums in double, with what every processor has and with all that
 * this one has: those of one element (kernels/pointwise.c), those with outputs in lanes
 * (kernels/conv_direct.c) and what follows them where they are stored. Sizes around those of tiles,
 * panels and blocks, groups, images, strides, padding, depth; numbers of threads; weights of 16
 * bits; a batch, channels and outputs of none; and all of that with operands rounded to BF16. */
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

enum { MOST_OUT = 1 << 17, MOST_WEIGHT = 1 << 17, MOST_OUTPUTS = 256, GUARD = 1024 };

static float weight[MOST_WEIGHT], bias[MOST_OUTPUTS], added[MOST_OUT];
static float out[MOST_OUT + GUARD], other[MOST_OUT + GUARD], followed[MOST_OUT + GUARD];
static double sums[MOST_OUT]; /* products of weight and x, without what follows */

static uint32_t seed;
/* Uniform in [-2, 2). */
static float draw(void) {
  seed = seed * 1664525U + 1013904223U;
  return (float)(seed >> 8) / (1 << 22) - 2;
}

static conv_dim dim_of(int64_t in, int64_t kernel, int64_t stride, int64_t padding) {
  const int64_t room = in + 2 * padding - kernel;
  return (conv_dim){in, room < 0 ? 0 : room / stride + 1, kernel, stride, padding, 1, 1, 1};
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
                     .tail = conv_tail_none};
}

static int64_t result_size(const conv_args *p) {
  return p->images * p->groups * p->outputs * out_size(p);
}
static int64_t x_size(const conv_args *p) {
  return p->images * p->groups * p->channels * in_size(p);
}
static int64_t weight_size(const conv_args *p) {
  return p->groups * p->outputs * p->channels * kernel_size(p);
}
/* Bytes of the results and of the guard. */
static size_t written_bytes(const conv_args *p) {
  return (size_t)(result_size(p) + GUARD) * sizeof *out;
}

/* x on its own, so that a read beyond its end is found. */
static float *draw_numbers(conv_args *p) {
  const int64_t n = x_size(p);
  float *made = malloc((size_t)(n > 0 ? n : 1) * sizeof *made);
  assert_non_null(made);
  assert_true(result_size(p) <= MOST_OUT && p->groups * p->outputs <= MOST_OUTPUTS);
  assert_true(weight_size(p) <= MOST_WEIGHT);
  seed = 1;
  for (int64_t i = 0; i < n; i++) made[i] = draw();
  for (int64_t i = 0; i < weight_size(p); i++) weight[i] = draw();
  for (int i = 0; i < MOST_OUTPUTS; i++) bias[i] = draw();
  for (int64_t i = 0; i < result_size(p); i++) added[i] = draw();
  p->x = made;
  return made;
}

static void run(const kernel_desc *pack, const kernel_desc *k, conv_args *p, int n_threads) {
  p->way = find_way(p, true);
  for (int64_t i = 0; i < result_size(p) + GUARD; i++) out[i] = -99;
  run_packed_kernel(pack, k, p, &p->packed, n_threads);
}

/* ---------------------------------------------------------------- the oracle */

static double *widen(const conv_args *p, const float *x, int64_t n) {
  double *wide = malloc((size_t)(n > 0 ? n : 1) * sizeof *wide);
  assert_non_null(wide);
  for (int64_t i = 0; i < n; i++)
    wide[i] = (double)(p->rounds ? bf16_to_f32(f32_to_bf16(x[i])) : x[i]);
  return wide;
}

static int64_t input_of(const conv_dim *d, int64_t at, int64_t tap) {
  return at * d->stride - d->padding + tap * d->dilation;
}
static bool is_inside(const conv_dim *d, int64_t at) { return at >= 0 && at < d->in; }

static void add_row(const conv_dim *d, int64_t tap, double w, const double *row, double *to) {
  for (int64_t i = 0; i < d->out; i++) {
    const int64_t from = input_of(d, i, tap);
    if (is_inside(d, from)) to[i] += w * row[from];
  }
}

/* Adds what one tap of one channel, x, has of all outputs of a plane. */
static void add_tap(const conv_args *p, const int64_t tap[], double w, const double *x,
                    double *to) {
  const conv_dim *d = p->dims;
  for (int64_t z = 0; z < d[0].out; z++)
    for (int64_t y = 0; y < d[1].out; y++, to += d[2].out) {
      const int64_t plane = input_of(&d[0], z, tap[0]), row = input_of(&d[1], y, tap[1]);
      if (is_inside(&d[0], plane) && is_inside(&d[1], row))
        add_row(&d[2], tap[2], w, x + (plane * d[1].in + row) * d[2].in, to);
    }
}

static void add_channel(const conv_args *p, const double *w, const double *x, double *to) {
  const conv_dim *d = p->dims;
  for (int64_t z = 0; z < d[0].kernel; z++)
    for (int64_t y = 0; y < d[1].kernel; y++)
      for (int64_t i = 0; i < d[2].kernel; i++, w++)
        add_tap(p, (const int64_t[]){z, y, i}, *w, x, to);
}

/* Of the operands as they are, or rounded where p->rounds. */
static void find_sums(const conv_args *p) {
  double *x = widen(p, p->x, x_size(p)), *w = widen(p, weight, weight_size(p));
  const int64_t outputs = p->groups * p->outputs;
  memset(sums, 0, (size_t)result_size(p) * sizeof *sums);
  for (int64_t plane = 0; plane < p->images * outputs; plane++) {
    const int64_t output = plane % outputs, group = output / p->outputs;
    const int64_t first = (plane / outputs * p->groups + group) * p->channels;
    for (int64_t c = 0; c < p->channels; c++)
      add_channel(p, w + (output * p->channels + c) * kernel_size(p), x + (first + c) * in_size(p),
                  sums + plane * out_size(p));
  }
  free(x);
  free(w);
}

static double want_at(const conv_args *p, int64_t n) {
  const double sum = sums[n] +
                     (p->bias ? (double)bias[n / out_size(p) % (p->groups * p->outputs)] : 0) +
                     (p->tail.added ? (double)added[n] : 0);
  return fmin(fmax(sum, (double)p->tail.low), (double)p->tail.high);
}

static void check_outputs(const conv_args *p) {
  const double terms = (double)(p->channels * kernel_size(p)) + 2;
  for (int64_t n = 0; n < result_size(p); n++) {
    const double want = want_at(p, n), off = fabs((double)out[n] - want);
    if (!(off <= FLT_EPSILON * (2 * terms + 4 * fabs(want))))
      fail_msg("element %lld: %g, expected %g", (long long)n, (double)out[n], want);
  }
  for (int64_t n = 0; n < GUARD; n++) assert_true(out[result_size(p) + n] == -99);
}

/* The same bits by several threads. */
static void check_tail(const kernel_desc *pack, const kernel_desc *k, conv_args *p) {
  run(pack, k, p, 1);
  check_outputs(p);
  memcpy(other, out, written_bytes(p));
  for (int threads = 2; threads <= 7; threads += 5) {
    run(pack, k, p, threads);
    assert_memory_equal(out, other, written_bytes(p));
  }
}

/* The same bits as by lists of steps over all of `other`. */
static void check_steps(const kernel_desc *pack, const kernel_desc *k, conv_args p) {
  const int64_t n = result_size(&p);
  for (int i = 0; i < FOLLOWED_LISTS && n > 0; i++) {
    p.steps = followed_list(i, n, out_size(&p), added);
    run(pack, k, &p, 2);
    memcpy(followed, other, written_bytes(&p));
    follow(p.steps, followed);
    assert_memory_equal(out, followed, written_bytes(&p));
  }
}

/* With all that may follow; rounded ones, whose kernels end alike, with most of it. */
static void check_tails(const kernel_desc *pack, const kernel_desc *k, conv_args p) {
  if (!p.rounds) {
    check_tail(pack, k, &p);
    check_steps(pack, k, p);
  }
  p.tail.added = added;
  check_tail(pack, k, &p);
  if (p.rounds) return;
  p.tail.low = 0, p.bias = NULL;
  check_tail(pack, k, &p);
  p.tail.high = 6, p.tail.added = NULL;
  check_tail(pack, k, &p);
}

static bool may_round(const kernel_desc *k, const conv_args *p) {
  return k == &kernel_conv_direct || conv_rounds(p);
}

/* By all levels of instructions, and rounded where it can be. */
static void check_form(const kernel_desc *pack, const kernel_desc *k, conv_args p) {
  float *x = draw_numbers(&p);
  conv_args rounded = p;
  rounded.rounds = true;
  for (int i = 0; i < 2; i++) {
    find_sums(i ? &rounded : &p);
    for (cpu_level level = CPU_PORTABLE; level <= CPU_AMX; level = next_level(level)) {
      cpu_use_at_most(level);
      if (!i || may_round(k, &p)) check_tails(pack, k, i ? rounded : p);
    }
  }
  free(x);
}

/* ---------------------------------------------------------------- of one element */

static void check_pointwise(int64_t images, int64_t groups, int64_t channels, int64_t outputs,
                            int64_t cells) {
  conv_args p = form(images, groups, channels, outputs, one(), dim_of(cells, 1, 1, 0));
  const conv_part part = {
      .p = &p, .d = {whole_window(&p.dims[0]), whole_window(&p.dims[1]), whole_window(&p.dims[2])}};
  for (cpu_level level = CPU_PORTABLE; level <= CPU_AMX && cells >= 32; level = next_level(level)) {
    cpu_use_at_most(level);
    assert_true(pointwise_fits(&part) && conv_rounds(&p) == !conv_is_depthwise(&p));
  }
  check_form(&kernel_conv_pack, &kernel_conv, p);
}

static void test_pointwise(void **state) {
  (void)state;
  static const int64_t cells[] = {1, 7, 8, 9, 31, 32, 33, 48, 49, 63, 196, 257, 600};
  for (size_t i = 0; i < sizeof cells / sizeof *cells; i++) {
    check_pointwise(1, 1, 5, 13, cells[i]);
    check_pointwise(2, 2, 65, 7, cells[i]);
  }
  check_pointwise(2, 1, 131, 25, 100);
  check_pointwise(1, 1, 600, 200, 40); /* more weight than the cache keeps */
  check_pointwise(3, 1, 64, 1, 64);
  check_pointwise(1, 3, 1, 4, 35);
  check_pointwise(0, 1, 4, 4, 64);
  check_pointwise(1, 1, 0, 4, 64);
  check_form(&kernel_conv_pack, &kernel_conv,
             form(1, 1, 4, 5, dim_of(3, 1, 1, 1), dim_of(40, 1, 1, 2))); /* padded: not in place */
}

/* ---------------------------------------------------------------- with outputs in lanes */

static void check_lanes(conv_args p) {
  check_form(&kernel_conv_direct_pack, &kernel_conv_direct, p);
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
  assert_false(conv_is_direct(&far)); /* whose planes would be copied with all that padding */
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

/* Output n: of the one input that it sees. */
static double want_spread(const conv_args *p, int64_t n) {
  const conv_dim *d = p->dims;
  const int64_t outputs = p->groups * p->outputs, plane = n / out_size(p);
  const int64_t output = plane % p->outputs, product = plane / p->outputs,
                group = plane % outputs / p->outputs;
  int64_t at[CONV_DIMS];
  split_index(n % out_size(p), d[1].out, d[2].out, at);
  double sum = p->bias ? (double)bias[group * p->outputs + output] : 0;
  for (int64_t c = 0; c < p->channels; c++) {
    const float x = ((const float *)p->x)[(product * p->channels + c) * in_size(p) +
                                          at[1] / d[1].stride * d[2].in + at[2] / 2];
    const float w = weight[(((group * p->channels + c) * p->outputs + output) * d[1].kernel +
                            at[1] % d[1].stride) *
                               2 +
                           at[2] % 2];
    sum += (double)bf16_to_f32(f32_to_bf16(x)) * (double)bf16_to_f32(f32_to_bf16(w));
  }
  return sum;
}

static void check_spread(int64_t images, int64_t groups, int64_t channels, int64_t outputs,
                         int64_t rows, int64_t columns, int64_t stride) {
  conv_args p = form(images, groups, channels, outputs,
                     (conv_dim){rows, rows * stride, stride, stride, 0, 1, stride, stride},
                     (conv_dim){columns, columns * 2, 2, 2, 0, 1, 2, 2});
  p.transposed = p.rounds = true;
  assert_true(conv_amx_takes_transposed(&p));
  float *x = draw_numbers(&p);
  for (int i = 0; i < 2; i++, p.bias = NULL) {
    run(&kernel_conv_direct_pack, &kernel_conv_direct, &p, 1);
    for (int64_t n = 0; n < result_size(&p); n++) {
      const double want = want_spread(&p, n), off = fabs((double)out[n] - want);
      if (!(off <= FLT_EPSILON * (2 * (double)channels + 4 * fabs(want))))
        fail_msg("element %lld: %g, expected %g", (long long)n, (double)out[n], want);
    }
    for (int64_t n = 0; n < GUARD; n++) assert_true(out[result_size(&p) + n] == -99);
    memcpy(other, out, written_bytes(&p));
    run(&kernel_conv_direct_pack, &kernel_conv_direct, &p, 7);
    assert_memory_equal(out, other, written_bytes(&p));
  }
  free(x);
}

static void test_spread(void **state) {
  (void)state;
  cpu_use_at_most(CPU_AMX);
  if (!cpu_has_amx()) skip(); /* they are products of patches there */
  check_spread(1, 1, 33, 16, 4, 8, 2);
  check_spread(2, 2, 12, 17, 7, 7, 2);
  check_spread(1, 1, 64, 33, 1, 300, 1);
  check_spread(1, 1, 70, 5, 3, 35, 2);
  check_spread(3, 1, 13, 1, 5, 10, 3);
  conv_args p = form(1, 1, 16, 16, dim_of(6, 2, 1, 0), dim_of(8, 2, 2, 0));
  p.transposed = p.rounds = true;
  assert_false(conv_amx_takes_transposed(&p)); /* whose outputs see several inputs */
}

/* ---------------------------------------------------------------- other weights */

/* Halves of BF16 are the upper bits of floats. */
static void test_narrow_weight(void **state) {
  static uint16_t halves[MOST_WEIGHT];
  (void)state;
  conv_args p = form(1, 2, 24, 35, dim_of(9, 3, 2, 1), dim_of(12, 3, 2, 1));
  float *x = draw_numbers(&p);
  for (int64_t i = 0; i < weight_size(&p); i++) {
    uint32_t bits;
    memcpy(&bits, &weight[i], sizeof bits);
    halves[i] = (uint16_t)(bits >> 16);
    bits &= 0xffff0000;
    memcpy(&weight[i], &bits, sizeof bits);
  }
  p.weight = halves;
  p.weight_type = DTYPE_BF16;
  find_sums(&p);
  check_tail(&kernel_conv_direct_pack, &kernel_conv_direct, &p);
  p.rounds = true;
  find_sums(&p);
  check_tail(&kernel_conv_direct_pack, &kernel_conv_direct, &p);
  p.dims[1] = one(), p.dims[2] = dim_of(108, 1, 1, 0);
  assert_true(conv_rounds(&p));
  find_sums(&p);
  check_tail(&kernel_conv_pack, &kernel_conv, &p);
  free(x);
}

/* What is no number stays that whatever follows; infinities are limited. */
static void check_special(const kernel_desc *pack, const kernel_desc *k, conv_args p, bool rounds) {
  p.rounds = rounds && may_round(k, &p);
  float *x = draw_numbers(&p);
  for (int64_t i = 0; i < weight_size(&p); i++) weight[i] = fabsf(weight[i]) + 1;
  p.tail.low = 0, p.tail.high = 6;
  x[0] = NAN, x[in_size(&p) - 1] = INFINITY;
  run(pack, k, &p, 2);
  const int64_t last = out_size(&p) - 1;
  assert_true(isnan(out[0]));
  assert_true(out[last] == 6);
  x[in_size(&p) - 1] = -INFINITY;
  run(pack, k, &p, 2);
  assert_true(out[last] == 0);
  free(x);
}

/* An infinity beside what an output sees. */
static void check_beside(conv_args p, int64_t at, bool rounds) {
  p.rounds = rounds;
  float *x = draw_numbers(&p);
  x[at] = INFINITY;
  run(&kernel_conv_direct_pack, &kernel_conv_direct, &p, 1);
  assert_true(isfinite(out[0]) && isinf(out[1]));
  free(x);
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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_pointwise),     cmocka_unit_test(test_windows),
      cmocka_unit_test(test_lane_shapes),   cmocka_unit_test(test_spread),
      cmocka_unit_test(test_narrow_weight), cmocka_unit_test(test_special)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
