/* Compares depthwise convolutions in float with sums in double, with the baseline instructions and
 * with all that this processor has. Sizes are around those of vectors and of the rows made at once;
 * there are all paddings below the kernel's size, planes of several strips, and more planes than
 * lanes. Also numbers of threads, and weights and inputs that are infinite or NaN. */
#include <float.h>
#include <math.h>

#include "backend/conv_ways.h"
#include "backend/cpu/kernels/conv/conv.h"
#include "backend/cpu/kernels/support/features.h"
#include "backend/cpu_levels.h"
#include "backend/followed.h"

enum { MAX_OUT = 1 << 18, MAX_OUTPUTS = 38, MAX_WEIGHT = MAX_OUTPUTS * 25, GUARD = 64 };

static float weight[MAX_WEIGHT], bias[MAX_OUTPUTS], out[MAX_OUT + GUARD], other[MAX_OUT + GUARD];
static float added[MAX_OUT], followed[MAX_OUT + GUARD];

static uint32_t seed;
/* Uniform in [-2, 2). */
static float draw(void) {
  seed = seed * 1664525U + 1013904223U;
  return (float)(seed >> 8) / (1 << 22) - 2;
}

/* Describes a convolution padded by `front` before and `behind` after, in both dimensions. */
static conv_dim dim_of(int64_t in, int64_t side, int64_t stride, int64_t front, int64_t behind) {
  int64_t capacity = in + front + behind - side;
  return (conv_dim){in, capacity < 0 ? 0 : capacity / stride + 1, side, stride, front, 1, 1, 1};
}

static conv_args form(int64_t images, int64_t groups, int64_t outputs, conv_dim rows,
                      conv_dim columns) {
  return (conv_args){.weight = weight,
                     .bias = bias,
                     .out = out,
                     .type = DTYPE_F32,
                     .weight_type = DTYPE_F32,
                     .images = images,
                     .groups = groups,
                     .channels = 1,
                     .outputs = outputs,
                     .dims = {dim_of(1, 1, 1, 0, 0), rows, columns},
                     .epilogue = conv_epilogue_none};
}

static int64_t result_size(const conv_args *args) {
  return args->images * args->groups * args->outputs * out_size(args);
}

/* Returns random numbers for x in a separate block, so that a read beyond its end is found. */
static float *draw_numbers(conv_args *args) {
  int64_t n = args->images * args->groups * in_size(args);
  float *made = malloc((size_t)(n > 0 ? n : 1) * sizeof *made);
  assert_non_null(made);
  assert_true(result_size(args) <= MAX_OUT);
  seed = 1;
  for (int64_t i = 0; i < n; i++) made[i] = draw();
  for (int i = 0; i < MAX_WEIGHT; i++) weight[i] = draw();
  for (int i = 0; i < MAX_OUTPUTS; i++) bias[i] = draw();
  for (int64_t i = 0; i < result_size(args); i++) added[i] = draw();
  args->x = made;
  return made;
}

static void run(const conv_args *conv, int n_threads) {
  conv_args found = *conv, *args = &found;
  found.way = find_way(conv, false);
  test_pool pool;
  for (int64_t i = 0; i < result_size(args) + GUARD; i++) out[i] = -99;
  run_kernel(&kernel_conv, args, n_threads, &pool);
  free_pool(&pool);
}

/* Computes one output; taps outside of the image are skipped. */
static double sum_at(const conv_args *args, int64_t plane, int64_t row, int64_t column) {
  const conv_dim *y = &args->dims[1], *x = &args->dims[2];
  int64_t outputs = args->groups * args->outputs, output = plane % outputs;
  const float *from = (const float *)args->x +
                      (plane / outputs * args->groups + output / args->outputs) * in_size(args);
  double sum = args->bias ? (double)bias[output] : 0;
  for (int64_t i = 0; i < y->kernel; i++)
    for (int64_t j = 0; j < x->kernel; j++) {
      int64_t r = row * y->stride - y->padding + i, c = column * x->stride - x->padding + j;
      if (r < 0 || r >= y->in || c < 0 || c >= x->in) continue;
      sum += (double)weight[(output * y->kernel + i) * x->kernel + j] * (double)from[r * x->in + c];
    }
  return sum;
}

static void check(double want, float got, int64_t taps) {
  if (isnan(want)) {
    assert_true(isnan(got));
  } else if (isinf(want)) {
    assert_true((double)got == want);
  } else {
    assert_true(fabs((double)got - want) <= (double)(taps + 2) * FLT_EPSILON * 4 * (double)taps);
  }
}

/* Computes the same results and their epilogue in `other`. */
static void check_epilogue(conv_args args) {
  args.epilogue = (conv_epilogue){.added = added, .slope = bias, .low = -1, .high = 2};
  run(&args, 2);
  for (int64_t i = 0; i < result_size(&args); i++) {
    const float sum = other[i] + added[i],
                slope = sum > 0 ? 1 : bias[i / out_size(&args) % (args.groups * args.outputs)];
    if (isfinite(other[i])) assert_true(out[i] == fminf(fmaxf(sum * slope, -1), 2));
  }
  for (int64_t i = result_size(&args); i < result_size(&args) + GUARD; i++)
    assert_true(out[i] == -99);
}

/* Checks that results have the bits of steps that are applied to all of `other` afterwards. */
static void check_steps(conv_args args) {
  const int64_t n = result_size(&args);
  for (int i = 0; i < FOLLOWED_LISTS && n > 0; i++) {
    args.steps = followed_list(i, n, out_size(&args), added);
    run(&args, 2);
    memcpy(followed, other, (size_t)(n + GUARD) * sizeof *out);
    follow(args.steps, followed);
    assert_memory_equal(out, followed, (size_t)(n + GUARD) * sizeof *out);
  }
}

/* Checks all outputs and the guard after them, and that several threads compute the same. */
static void check_form(const conv_args *args) {
  int64_t planes = args->images * args->groups * args->outputs, n = 0;
  const size_t made = (size_t)(result_size(args) + GUARD) * sizeof *out;
  run(args, 1);
  for (int64_t plane = 0; plane < planes; plane++)
    for (int64_t y = 0; y < args->dims[1].out; y++)
      for (int64_t x = 0; x < args->dims[2].out; x++)
        check(sum_at(args, plane, y, x), out[n++], kernel_size(args));
  for (; n < result_size(args) + GUARD; n++) assert_true(out[n] == -99);
  memcpy(other, out, made);
  run(args, 5);
  assert_memory_equal(out, other, made);
  check_epilogue(*args);
  check_steps(*args);
}

static void check_sizes(int64_t side, int64_t stride) {
  static const int64_t sizes[][2] = {{1, 1},  {2, 3},   {3, 2},   {5, 7},   {7, 7},   {8, 8},
                                     {9, 9},  {4, 14},  {14, 15}, {6, 16},  {11, 17}, {3, 31},
                                     {5, 32}, {10, 33}, {13, 64}, {12, 65}, {90, 100}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    for (int64_t front = 0; front < side; front++)
      for (int64_t behind = 0; behind < side; behind += i < 9 ? 1 : 2) {
        const int64_t rows = sizes[i][0], columns = sizes[i][1];
        conv_args args = form(i % 2 + 1, 3, 1, dim_of(rows, side, stride, behind, front),
                              dim_of(columns, side, stride, front, behind));
        float *values = draw_numbers(&args);
        check_form(&args);
        free(values);
      }
}

/* Tests whole and partial groups of 16 planes, of several images, and several bands of rows. */
static void check_lanes(int64_t side, int64_t stride) {
  static const struct {
    int64_t images, groups, outputs, rows, columns;
  } all[] = {{1, 16, 1, 7, 7}, {3, 19, 1, 14, 14}, {2, 19, 2, 6, 9}, {1, 17, 1, 70, 28}};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    conv_args args = form(all[i].images, all[i].groups, all[i].outputs,
                          dim_of(all[i].rows, side, stride, side / 2, side / 2),
                          dim_of(all[i].columns, side, stride, side / 2, side / 2));
    float *values = draw_numbers(&args);
    check_form(&args);
    free(values);
  }
}

static void check_forms(void) {
  for (int64_t side = 3; side <= 5; side += 2)
    for (int64_t stride = 1; stride <= 2; stride++) {
      check_sizes(side, stride);
      conv_args args =
          form(2, 7, 2, dim_of(12, side, stride, 1, 1), dim_of(21, side, stride, 1, 1));
      float *values = draw_numbers(&args);
      check_form(&args);
      args.bias = NULL;
      check_form(&args);
      args.images = 0;
      check_form(&args);
      free(values);
      check_lanes(side, stride);
    }
}

static void test_sizes(void **state) {
  (void)state;
  for (cpu_level level = CPU_PORTABLE; level <= CPU_AMX; level = next_level(level)) {
    cpu_use_at_most(level);
    check_forms();
  }
}

/* An infinite weight whose input is outside of the image has no effect; NaN and infinities reach
 * only the outputs that read them. */
static void test_special(void **state) {
  (void)state;
  for (int64_t stride = 1; stride <= 2; stride++) {
    conv_args args = form(1, 7, 1, dim_of(9, 3, stride, 1, 1), dim_of(20, 3, stride, 1, 1));
    float *values = draw_numbers(&args);
    values[0] = NAN, values[180 + 179] = INFINITY, values[2 * 180 + 19] = -INFINITY,
    values[2 * 180 + 20] = NAN;
    check_form(&args);
    weight[3 * 9] = INFINITY, weight[4 * 9 + 5] = NAN, weight[5 * 9 + 8] = -INFINITY;
    check_form(&args);
    free(values);
  }
}

/* Tests planes with an infinite weight and many more rows than the bands in memory. */
static void test_special_and_tall(void **state) {
  (void)state;
  conv_args args = form(1, 7, 1, dim_of(1400, 3, 1, 1, 1), dim_of(9, 3, 1, 1, 1));
  float *values = draw_numbers(&args);
  weight[3 * 9] = INFINITY;
  check_form(&args);
  free(values);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_sizes), cmocka_unit_test(test_special),
                                     cmocka_unit_test(test_special_and_tall)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
