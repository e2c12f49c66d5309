/* Compares Winograd convolutions with sums in double, with the baseline instructions and with all
 * that this processor has, for remainders of tiles, lanes and panels, groups, all kinds of padding.
 * Errors are compared with the bound that direct sums have in the op cases (test/cases/conv.py),
 * and with errors of direct sums of the same numbers. Also numbers of threads and infinite
 * inputs. */
#include <float.h>
#include <math.h>

#include "backend/cpu/kernels/conv/conv.h"
#include "backend/cpu/kernels/conv/winograd.h"
#include "backend/cpu/kernels/support/features.h"
#include "backend/cpu_levels.h"
#include "backend/followed.h"

enum { MAX_X = 1 << 19, MAX_WEIGHT = 1 << 18, MAX_OUT = 1 << 18, MAX_OUTPUTS = 256, TAPS = 9 };
enum { GUARD = 1024 };

static float x[MAX_X], weight[MAX_WEIGHT], bias[MAX_OUTPUTS];
static float out[MAX_OUT + GUARD], other[MAX_OUT], added[MAX_OUT], followed[MAX_OUT];
static double want[MAX_OUT];

static uint32_t seed;
/* Uniform in [0, 1). */
static double draw(void) {
  seed = seed * 1664525U + 1013904223U;
  return (double)(seed >> 8) / (1 << 24);
}
/* Random numbers as in the op cases: uniform in [-2, 2), or normal of the same variance, 4/3. */
static float uniform(void) { return (float)(4 * draw() - 2); }
static float normal(void) {
  double sum = -6;
  for (int i = 0; i < 12; i++) sum += draw();
  return (float)(sum * sqrt(4. / 3));
}

static void fill(float (*next)(void)) {
  seed = 1;
  for (int i = 0; i < MAX_X; i++) x[i] = next();
  for (int i = 0; i < MAX_WEIGHT; i++) weight[i] = next();
  for (int i = 0; i < MAX_OUTPUTS; i++) bias[i] = next();
  for (int i = 0; i < MAX_OUT; i++) added[i] = next();
}

static int64_t result_size(const winograd_args *args) {
  return args->images * args->groups * args->outputs * args->out_rows * args->out_columns;
}
static size_t result_bytes(const winograd_args *args) {
  return (size_t)result_size(args) * sizeof *out;
}

static double sum_at(const winograd_args *args, int64_t image, int64_t output, int64_t y,
                     int64_t i) {
  int64_t size = args->in_rows * args->in_columns;
  const float *from = (const float *)args->x +
                      (image * args->groups + output / args->outputs) * args->channels * size;
  const float *weights = (const float *)args->weight + output * args->channels * TAPS;
  double sum = args->bias ? (double)((const float *)args->bias)[output] : 0;
  for (int64_t c = 0; c < args->channels; c++, from += size)
    for (int64_t tap = 0; tap < TAPS; tap++, weights++) {
      int64_t row = y - args->top + tap / 3, column = i - args->left + tap % 3;
      bool inside = row >= 0 && row < args->in_rows && column >= 0 && column < args->in_columns;
      sum += (double)*weights * (inside ? (double)from[row * args->in_columns + column] : 0);
    }
  return sum;
}

static void find_want(const winograd_args *args) {
  int64_t n = 0;
  assert_true(result_size(args) <= MAX_OUT);
  for (int64_t image = 0; image < args->images; image++)
    for (int64_t o = 0; o < args->groups * args->outputs; o++)
      for (int64_t y = 0; y < args->out_rows; y++)
        for (int64_t i = 0; i < args->out_columns; i++) want[n++] = sum_at(args, image, o, y, i);
}

static void run_tiles(winograd_args *args, int n_threads) {
  const int64_t n = result_size(args);
  for (int64_t i = 0; i < n + GUARD; i++) out[i] = -99;
  run_packed_kernel(&kernel_winograd_pack, &kernel_winograd, args, &args->packed, n_threads);
  for (int64_t i = n; i < n + GUARD; i++) assert_true(out[i] == -99);
}

static conv_dim dim_of(int64_t in, int64_t out_columns, int64_t kernel, int64_t padding) {
  return (conv_dim){in, out_columns, kernel, 1, padding, 1, 1, 1};
}

/* Computes the convolution directly, to `other`. */
static void run_direct(const winograd_args *args) {
  conv_args own = {.x = args->x,
                   .weight = args->weight,
                   .bias = args->bias,
                   .out = other,
                   .type = DTYPE_F32,
                   .weight_type = DTYPE_F32,
                   .is_packed = true,
                   .images = args->images,
                   .groups = args->groups,
                   .channels = args->channels,
                   .outputs = args->outputs,
                   .dims = {dim_of(1, 1, 1, 0), dim_of(args->in_rows, args->out_rows, 3, args->top),
                            dim_of(args->in_columns, args->out_columns, 3, args->left)},
                   .epilogue = conv_epilogue_none};
  run_packed_kernel(&kernel_conv_pack, &kernel_conv, &own, &own.packed, 1);
}

/* Returns the error that the op cases allow a direct sum, for numbers up to 2. */
static double bound(const winograd_args *args, double size) {
  double terms = (double)(args->channels * TAPS) + 1, eps = FLT_EPSILON;
  return 8 * eps * size + 2 * 1.5 * (eps * terms + 4 * eps * sqrt(terms));
}

typedef struct errors {
  double rms;  /* errors' over outputs', in units of FLT_EPSILON / 2 */
  double most; /* in parts of the bound */
} errors;

static errors errors_of(const winograd_args *args, const float *got) {
  errors errors = {0};
  double squares = 0, size = 0;
  int64_t n = result_size(args);
  for (int64_t i = 0; i < n; i++) {
    double error = fabs((double)got[i] - want[i]);
    squares += error * error;
    size += want[i] * want[i];
    errors.most = fmax(errors.most, error / bound(args, fabs(want[i])));
    assert_true(isfinite(error));
  }
  if (n > 0) errors.rms = sqrt(squares / size) / (FLT_EPSILON / 2);
  return errors;
}

/* ---------------------------------------------------------------- shapes */

static winograd_args form(int64_t images, int64_t groups, int64_t channels, int64_t outputs) {
  return (winograd_args){.x = x,
                         .weight = weight,
                         .bias = bias,
                         .out = out,
                         .weight_type = DTYPE_F32,
                         .images = images,
                         .groups = groups,
                         .channels = channels,
                         .outputs = outputs,
                         .epilogue = conv_epilogue_none};
}

/* Describes a convolution padded by `top` and `left` before, `bottom` and `right` after the
 * image. */
static winograd_args sized(winograd_args args, int64_t rows, int64_t columns, int64_t top,
                           int64_t left, int64_t bottom, int64_t right) {
  args.in_rows = rows, args.in_columns = columns, args.top = top, args.left = left;
  args.out_rows = rows + top + bottom - 2;
  args.out_columns = columns + left + right - 2;
  return args;
}

/* Computes the same results and their epilogue in `other`. */
static void check_epilogue(winograd_args args) {
  args.epilogue = (conv_epilogue){.low = -1, .high = 2};
  run_tiles(&args, 2);
  for (int64_t i = 0; i < result_size(&args); i++)
    assert_true(out[i] == fminf(fmaxf(other[i], -1), 2));
  args.epilogue.added = added;
  run_tiles(&args, 2);
  for (int64_t i = 0; i < result_size(&args); i++)
    assert_true(out[i] == fminf(fmaxf(other[i] + added[i], -1), 2));
}

/* Checks that results have the bits of steps that are applied to all of `other` afterwards. */
static void check_steps(winograd_args args) {
  const int64_t n = result_size(&args);
  for (int i = 0; i < FOLLOWED_ALONE && n > 0; i++) {
    args.steps = followed_list(i, n, n, added);
    run_tiles(&args, 2);
    memcpy(followed, other, result_bytes(&args));
    follow(args.steps, followed);
    assert_memory_equal(out, followed, result_bytes(&args));
  }
}

static void check_level(winograd_args args) {
  for (args.tile = 2; args.tile <= 4; args.tile += 2) {
    run_tiles(&args, 1);
    errors errors = errors_of(&args, out);
    if (errors.most > 1) fail_msg("tiles of %d: %g of the bound", (int)args.tile, errors.most);
    memcpy(other, out, result_bytes(&args));
    for (int threads = 2; threads <= 9; threads += threads == 2 ? 1 : 6) {
      run_tiles(&args, threads);
      assert_memory_equal(out, other, result_bytes(&args));
    }
    check_epilogue(args);
    check_steps(args);
  }
}

static void check_shape(winograd_args args) {
  find_want(&args);
  for (cpu_level level = CPU_PORTABLE; level <= CPU_AMX; level = next_level(level)) {
    cpu_use_at_most(level);
    check_level(args);
  }
}

static void test_shapes(void **state) {
  (void)state;
  fill(uniform);
  const winograd_args whole = form(1, 1, 64, 16);
  winograd_args bare = sized(form(2, 1, 70, 21), 6, 9, 1, 1, 1, 1);
  bare.bias = NULL;
  const winograd_args forms[] = {
      sized(whole, 12, 12, 1, 1, 1, 1),
      sized(whole, 7, 7, 1, 1, 1, 1),
      sized(whole, 3, 3, 0, 0, 0, 0),
      sized(whole, 1, 1, 1, 1, 1, 1),
      sized(whole, 5, 70, 0, 1, 0, 1),
      sized(whole, 9, 13, 2, 0, 0, 2),
      sized(whole, 2, 3, 5, 6, 5, 6),
      sized(whole, 0, 4, 2, 1, 2, 1),
      sized(form(3, 1, 67, 50), 9, 7, 1, 1, 1, 1),
      sized(form(2, 2, 64, 17), 8, 10, 1, 1, 1, 1),
      sized(form(1, 1, 130, 33), 14, 14, 1, 1, 1, 1),
      sized(form(0, 1, 64, 16), 5, 5, 1, 1, 1, 1),
      sized(form(1, 1, 64, 16), 2, 9, 0, 0, 0, 0),
      sized(form(1, 1, 64, 16), 33, 61, 1, 1, 1, 1),
      bare,
  };
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) check_shape(forms[i]);
}

/* ---------------------------------------------------------------- errors */

/* Checks that errors are within the bound and within these multiples of a direct sum's. */
static void check_errors(winograd_args args) {
  static const double multiples[] = {[2] = 1.4, [4] = 4.2};
  run_direct(&args);
  errors direct = errors_of(&args, other);
  print_message("%3d channels: %.1f directly", (int)args.channels, direct.rms);
  for (args.tile = 2; args.tile <= 4; args.tile += 2) {
    run_tiles(&args, 1);
    errors errors = errors_of(&args, out);
    print_message(", %.1f by tiles of %d, %.2f of the bound", errors.rms, (int)args.tile,
                  errors.most);
    assert_true(errors.most < 1);
    assert_true(errors.rms < multiples[args.tile] * direct.rms);
    assert_true(errors.rms > direct.rms); /* otherwise the table of variants is out of date */
    memcpy(other, out, result_bytes(&args));
    run_tiles(&args, 3); /* threads share several blocks of many channels */
    assert_memory_equal(out, other, result_bytes(&args));
  }
  print_message("\n");
}

static void test_errors(void **state) {
  (void)state;
  fill(normal);
  for (int64_t channels = 64; channels <= 512; channels *= 2) {
    const winograd_args args = sized(form(1, 1, channels, 16), 28, 28, 1, 1, 1, 1);
    find_want(&args);
    for (cpu_level level = CPU_PORTABLE; level <= CPU_AMX; level = next_level(level)) {
      cpu_use_at_most(level);
      check_errors(args);
    }
  }
}

/* ---------------------------------------------------------------- other weights */

/* Stores the weight as BF16, which are the upper bits of floats. */
static void make_halves(uint16_t *to) {
  for (int64_t i = 0; i < MAX_WEIGHT; i++) {
    uint32_t bits;
    memcpy(&bits, &weight[i], sizeof bits);
    to[i] = (uint16_t)(bits >> 16);
    bits &= 0xffff0000;
    memcpy(&weight[i], &bits, sizeof bits);
  }
}

/* Encodes the weight as Q8_0 blocks: a scale of 2^-6 in F16, and 32 bytes. */
static void make_codes(uint8_t *to) {
  for (int64_t i = 0; i < MAX_WEIGHT; i += 32, to += 34) {
    to[0] = 0, to[1] = 0x24;
    for (int k = 0; k < 32; k++) {
      const int code = (int)(weight[i + k] * 60);
      to[2 + k] = (uint8_t)code;
      weight[i + k] = (float)code / 64;
    }
  }
}

/* Checks that codes have the same results as the floats that they encode, also in tiles that are
 * computed directly. */
static void check_weights(winograd_args args) {
  for (args.tile = 2; args.tile <= 4; args.tile += 2) {
    winograd_args plain = args;
    plain.weight = weight, plain.weight_type = DTYPE_F32, plain.encoding = (encoding){0};
    run_tiles(&plain, 1);
    memcpy(other, out, result_bytes(&args));
    run_tiles(&args, 2);
    assert_memory_equal(out, other, result_bytes(&args));
  }
}

static void test_weights(void **state) {
  static uint16_t halves[MAX_WEIGHT];
  static uint8_t codes[MAX_WEIGHT / 32 * 34];
  (void)state;
  winograd_args args = sized(form(1, 2, 64, 20), 9, 10, 1, 1, 1, 1);
  fill(uniform);
  x[17 * 90 + 33] = INFINITY;
  make_halves(halves);
  args.weight = halves, args.weight_type = DTYPE_BF16;
  check_weights(args);
  make_codes(codes);
  args.weight = codes, args.weight_type = DTYPE_F32, args.encoding.kind = ENCODING_BLOCKS;
  args.encoding.axis = 1;
  assert_true(block_format_find("Q8_0", &args.encoding.format));
  check_weights(args);
}

/* ---------------------------------------------------------------- infinity and NaN */

/* Checks that an output is infinite or NaN if the direct sum is, and else within the bound. */
static void check_special(winograd_args *args) {
  find_want(args);
  for (args->tile = 2; args->tile <= 4; args->tile += 2) {
    run_tiles(args, 2);
    for (int64_t i = 0; i < result_size(args); i++) {
      const float exact = (float)want[i];
      if (isnan(exact))
        assert_true(isnan(out[i]));
      else if (isinf(exact))
        assert_true(out[i] == exact);
      else
        assert_true(fabs((double)out[i] - want[i]) <= bound(args, fabs(want[i])));
    }
  }
}

static void test_special(void **state) {
  (void)state;
  winograd_args args = sized(form(2, 1, 64, 20), 11, 10, 1, 1, 1, 1);
  int64_t plane = 11 * 10;
  fill(uniform);
  x[3 * plane + 45] = INFINITY;
  check_special(&args);
  x[5 * plane + 47] = -INFINITY;
  x[(64 + 9) * plane + 0] = NAN;
  x[(64 + 63) * plane + plane - 1] = INFINITY;
  check_special(&args);
  fill(uniform);
  weight[7 * 64 * TAPS + 5] = INFINITY; /* a separate output */
  check_special(&args);
  fill(uniform);
  for (int64_t i = 0; i < plane; i++) x[7 * plane + i] = i % 10 == 4 && i / 10 == 5 ? 3e38F : 0;
  for (int64_t o = 0; o < 20; o++) /* direct sums are finite, but factors overflow */
    for (int tap = 0; tap < TAPS; tap++) weight[(o * 64 + 7) * TAPS + tap] = tap == 4 ? 1 : 0;
  find_want(&args);
  args.tile = 4;
  run_tiles(&args, 2);
  for (int64_t i = 0; i < result_size(&args); i++) assert_true(isfinite(out[i]));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_shapes), cmocka_unit_test(test_errors),
                                     cmocka_unit_test(test_weights),
                                     cmocka_unit_test(test_special)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
