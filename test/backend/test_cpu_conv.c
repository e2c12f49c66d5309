/* Convolutions in float against sums in double, with what every processor has and with all that
 * this one has: those of one element (kernels/pointwise.c), those with outputs in lanes
 * (kernels/conv_direct.c) and what follows them where they are stored. Sizes around those of tiles,
 * panels and blocks, groups, images, strides, padding, depth; numbers of threads; weights of 16
 * bits; a batch, channels and outputs of none; and all of that with operands rounded to BF16. */
#include <float.h>
#include <math.h>

#include "backend/cpu/kernels/conv.h"
#include "backend/cpu/kernels/conv_direct.h"
#include "backend/cpu/kernels/conv_spread_tiles.h"
#include "backend/cpu/kernels/features.h"
#include "backend/cpu/kernels/pointwise.h"
#include "backend/followed.h"

enum { MOST_OUT = 1 << 17, MOST_WEIGHT = 1 << 17, MOST_OUTPUTS = 256, GUARD = 64 };

static float weight[MOST_WEIGHT], bias[MOST_OUTPUTS], added[MOST_OUT];
static float out[MOST_OUT + GUARD], other[MOST_OUT + GUARD], followed[MOST_OUT + GUARD];

static bool rounds; /* where it can be */

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

/* x on its own, so that a read beyond its end is found. */
static float *draw_numbers(conv_args *p) {
  const int64_t n = p->images * p->groups * p->channels * in_size(p);
  float *made = malloc((size_t)(n > 0 ? n : 1) * sizeof *made);
  assert_non_null(made);
  assert_true(result_size(p) <= MOST_OUT && p->groups * p->outputs <= MOST_OUTPUTS);
  assert_true(p->groups * p->outputs * p->channels * kernel_size(p) <= MOST_WEIGHT);
  seed = 1;
  for (int64_t i = 0; i < n; i++) made[i] = draw();
  for (int i = 0; i < MOST_WEIGHT; i++) weight[i] = draw();
  for (int i = 0; i < MOST_OUTPUTS; i++) bias[i] = draw();
  for (int i = 0; i < MOST_OUT; i++) added[i] = draw();
  p->x = made;
  return made;
}

static void run(const kernel_desc *pack, const kernel_desc *k, conv_args *p, int n_threads) {
  for (int64_t i = 0; i < MOST_OUT + GUARD; i++) out[i] = -99;
  run_packed_kernel(pack, k, p, &p->packed, n_threads);
}

/* ---------------------------------------------------------------- the oracle */

static int64_t input_of(const conv_dim *d, int64_t at, int64_t tap) {
  return at * d->stride - d->padding + tap * d->dilation;
}

static double rounded(const conv_args *p, float x) {
  return (double)(p->rounds ? bf16_to_f32(f32_to_bf16(x)) : x);
}

/* One channel's part of an output at `at`. */
static double sum_of_channel(const conv_args *p, const float *x, const float *w,
                             const int64_t at[]) {
  const conv_dim *d = p->dims;
  double sum = 0;
  for (int64_t z = 0; z < d[0].kernel; z++)
    for (int64_t y = 0; y < d[1].kernel; y++)
      for (int64_t i = 0; i < d[2].kernel; i++, w++) {
        const int64_t from[] = {input_of(&d[0], at[0], z), input_of(&d[1], at[1], y),
                                input_of(&d[2], at[2], i)};
        bool inside = true;
        for (int k = 0; k < CONV_DIMS; k++) inside &= from[k] >= 0 && from[k] < d[k].in;
        if (inside)
          sum += rounded(p, *w) * rounded(p, x[(from[0] * d[1].in + from[1]) * d[2].in + from[2]]);
      }
  return sum;
}

static double want_at(const conv_args *p, int64_t n) {
  const int64_t outputs = p->groups * p->outputs, plane = n / out_size(p);
  const int64_t output = plane % outputs, group = output / p->outputs;
  const float *x =
      (const float *)p->x + (plane / outputs * p->groups + group) * p->channels * in_size(p);
  const float *w = weight + output * p->channels * kernel_size(p);
  double sum = p->bias ? (double)bias[output] : 0;
  int64_t at[CONV_DIMS];
  split_index(n % out_size(p), p->dims[1].out, p->dims[2].out, at);
  for (int64_t c = 0; c < p->channels; c++, x += in_size(p), w += kernel_size(p))
    sum += sum_of_channel(p, x, w, at);
  if (p->tail.added) sum += (double)added[n];
  return fmin(fmax(sum, (double)p->tail.low), (double)p->tail.high);
}

static void check_outputs(const conv_args *p) {
  const double terms = (double)(p->channels * kernel_size(p)) + 2;
  for (int64_t n = 0; n < result_size(p); n++) {
    const double want = want_at(p, n), off = fabs((double)out[n] - want);
    if (!(off <= FLT_EPSILON * (2 * terms + 4 * fabs(want))))
      fail_msg("element %lld: %g, expected %g", (long long)n, (double)out[n], want);
  }
  for (int64_t n = result_size(p); n < MOST_OUT + GUARD; n++) assert_true(out[n] == -99);
}

/* The same bits by several threads. */
static void check_tail(const kernel_desc *pack, const kernel_desc *k, conv_args *p) {
  run(pack, k, p, 1);
  check_outputs(p);
  memcpy(other, out, sizeof out);
  for (int threads = 2; threads <= 7; threads += 5) {
    run(pack, k, p, threads);
    assert_memory_equal(out, other, sizeof out);
  }
}

/* The same bits as by lists of steps over all of `other`. */
static void check_steps(const kernel_desc *pack, const kernel_desc *k, conv_args p) {
  const int64_t n = result_size(&p);
  for (int i = 0; i < FOLLOWED_LISTS && n > 0; i++) {
    p.steps = followed_list(i, n, out_size(&p), added);
    run(pack, k, &p, 2);
    memcpy(followed, other, sizeof other);
    follow(p.steps, followed);
    assert_memory_equal(out, followed, sizeof out);
  }
}

/* With all that may follow; rounded ones, whose kernels end alike, with most of it. */
static void check_form(const kernel_desc *pack, const kernel_desc *k, conv_args p) {
  p.rounds = rounds && (k == &kernel_conv_direct || conv_rounds(&p));
  float *x = draw_numbers(&p);
  if (!p.rounds) {
    check_tail(pack, k, &p);
    check_steps(pack, k, p);
  }
  p.tail.added = added;
  check_tail(pack, k, &p);
  if (p.rounds) {
    free(x);
    return;
  }
  p.tail.low = 0, p.bias = NULL;
  check_tail(pack, k, &p);
  p.tail.high = 6, p.tail.added = NULL;
  check_tail(pack, k, &p);
  free(x);
}

/* ---------------------------------------------------------------- of one element */

static void check_pointwise(int64_t images, int64_t groups, int64_t channels, int64_t outputs,
                            int64_t cells) {
  conv_args p = form(images, groups, channels, outputs, one(), dim_of(cells, 1, 1, 0));
  const conv_part part = {
      .p = &p, .d = {whole_window(&p.dims[0]), whole_window(&p.dims[1]), whole_window(&p.dims[2])}};
  if (cells >= 32) assert_true(pointwise_fits(&part) && conv_rounds(&p) == !conv_is_depthwise(&p));
  check_form(&kernel_conv_pack, &kernel_conv, p);
}

static void check_pointwise_sizes(void) {
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

static void check_windows(void) {
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

static void check_lane_shapes(void) {
  conv_args far = form(1, 1, 2, 16, dim_of(3, 2, 200000, 100000), dim_of(4, 2, 200000, 100000));
  assert_false(
      conv_is_direct(&far, false)); /* whose planes would be copied with all that padding */
  far.dims[1] = dim_of(3, 2, 3, 1), far.dims[2] = dim_of(4, 2, 3, 1);
  assert_true(conv_is_direct(&far, false));
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

static void test_sizes(void **state) {
  (void)state;
  for (cpu_level level = CPU_PORTABLE; level <= CPU_AMX; level++) {
    cpu_use_at_most(level);
    for (int i = 0; i < 2; i++) {
      rounds = i == 1;
      check_pointwise_sizes();
      check_windows();
      check_lane_shapes();
    }
  }
  rounds = false;
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
    sum += rounded(p, x) * rounded(p, w);
  }
  return sum;
}

static void check_spread(int64_t images, int64_t groups, int64_t channels, int64_t outputs,
                         int64_t rows, int64_t columns, int64_t stride) {
  conv_args p = form(images, groups, channels, outputs,
                     (conv_dim){rows, rows * stride, stride, stride, 0, 1, stride, stride},
                     (conv_dim){columns, columns * 2, 2, 2, 0, 1, 2, 2});
  p.transposed = p.rounds = true;
  assert_true(conv_is_spread(&p));
  float *x = draw_numbers(&p);
  for (int i = 0; i < 2; i++, p.bias = NULL) {
    run(&kernel_conv_direct_pack, &kernel_conv_direct, &p, 1);
    for (int64_t n = 0; n < result_size(&p); n++) {
      const double want = want_spread(&p, n), off = fabs((double)out[n] - want);
      if (!(off <= FLT_EPSILON * (2 * (double)channels + 4 * fabs(want))))
        fail_msg("element %lld: %g, expected %g", (long long)n, (double)out[n], want);
    }
    for (int64_t n = result_size(&p); n < MOST_OUT + GUARD; n++) assert_true(out[n] == -99);
    memcpy(other, out, sizeof out);
    run(&kernel_conv_direct_pack, &kernel_conv_direct, &p, 7);
    assert_memory_equal(out, other, sizeof out);
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
  assert_false(conv_is_spread(&p)); /* whose outputs see several inputs */
}

/* ---------------------------------------------------------------- other weights */

/* Halves of BF16 are the upper bits of floats. */
static void test_narrow_weight(void **state) {
  static uint16_t halves[MOST_WEIGHT];
  (void)state;
  conv_args p = form(1, 2, 24, 35, dim_of(9, 3, 2, 1), dim_of(12, 3, 2, 1));
  float *x = draw_numbers(&p);
  for (int i = 0; i < MOST_WEIGHT; i++) {
    uint32_t bits;
    memcpy(&bits, &weight[i], sizeof bits);
    halves[i] = (uint16_t)(bits >> 16);
    bits &= 0xffff0000;
    memcpy(&weight[i], &bits, sizeof bits);
  }
  p.weight = halves;
  p.weight_type = DTYPE_BF16;
  check_tail(&kernel_conv_direct_pack, &kernel_conv_direct, &p);
  p.rounds = true;
  check_tail(&kernel_conv_direct_pack, &kernel_conv_direct, &p);
  p.dims[1] = one(), p.dims[2] = dim_of(108, 1, 1, 0);
  assert_true(conv_rounds(&p));
  check_tail(&kernel_conv_pack, &kernel_conv, &p);
  free(x);
}

/* What is no number stays that whatever follows; infinities are limited. */
static void check_special(const kernel_desc *pack, const kernel_desc *k, conv_args p) {
  p.rounds = rounds && (k == &kernel_conv_direct || conv_rounds(&p));
  float *x = draw_numbers(&p);
  for (int i = 0; i < MOST_WEIGHT; i++) weight[i] = fabsf(weight[i]) + 1;
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
static void check_beside(conv_args p, int64_t at) {
  p.rounds = rounds;
  float *x = draw_numbers(&p);
  x[at] = INFINITY;
  run(&kernel_conv_direct_pack, &kernel_conv_direct, &p, 1);
  assert_true(isfinite(out[0]) && isinf(out[1]));
  free(x);
}

static void test_special(void **state) {
  (void)state;
  for (int i = 0; i < 2 * (CPU_AMX + 1); i++) {
    cpu_use_at_most((cpu_level)(i / 2));
    rounds = i % 2 == 1;
    check_special(&kernel_conv_pack, &kernel_conv, form(1, 1, 5, 17, one(), dim_of(50, 1, 1, 0)));
    check_special(&kernel_conv_direct_pack, &kernel_conv_direct,
                  form(1, 1, 5, 17, dim_of(9, 3, 2, 0), dim_of(9, 3, 2, 0)));
    check_beside(form(1, 1, 5, 17, one(), dim_of(50, 3, 1, 0)), 3);
    check_beside(form(1, 1, 35, 17, one(), dim_of(50, 3, 2, 0)), 3);
    check_special(&kernel_conv_pack, &kernel_conv,
                  form(1, 1, 5, 3, dim_of(9, 3, 2, 0), dim_of(9, 3, 2, 0)));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_sizes), cmocka_unit_test(test_spread),
                                     cmocka_unit_test(test_narrow_weight),
                                     cmocka_unit_test(test_special)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
