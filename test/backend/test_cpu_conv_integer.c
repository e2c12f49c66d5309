/* Compares convolutions of integers with plain sums, with the baseline instructions and with all
 * that this processor has. Kernels have one to five dimensions of taps; there are remainders of
 * words and tiles, groups, and all products at their largest. The weight is plain or in tiles;
 * codes are made from sums and from whole tensors, with and without an added tensor. */
#include "backend/cpu/kernels/conv/conv_integer.h"

#include <math.h>
#include <string.h>

#include "backend/cpu/kernels/conv/conv_integer_tiles.h"
#include "backend/cpu/kernels/elementwise/requantise.h"
#include "backend/cpu/kernels/support/features.h"
#include "backend/cpu_levels.h"
#include "backend/kernel_pool.h"

enum { MOST = 1 << 16 };

static uint32_t seed;
static int random_byte(void) {
  return seed = seed * 1664525U + 1013904223U, (int)(seed >> 20 & 255);
}

static uint8_t x[MOST];
static int8_t weight[MOST];
static int32_t bias[256], out[MOST];
static int32_t want[MOST]; /* expected sums, from find_want */

static conv_dim dim(int64_t in, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation) {
  int64_t covered = dilation * (kernel - 1) + 1;
  return (conv_dim){.in = in,
                    .out = (in + 2 * padding - covered) / stride + 1,
                    .kernel = kernel,
                    .stride = stride,
                    .padding = padding,
                    .dilation = dilation,
                    .phases = 1,
                    .tap_step = 1};
}

static int64_t element(const conv_integer_args *args, int64_t plane, const int64_t at[CONV_DIMS]) {
  const conv_dim *dim = args->conv.dims;
  for (int i = 0; i < CONV_DIMS; i++)
    if (at[i] < 0 || at[i] >= dim[i].in) return args->padding_value;
  int64_t k = ((plane * dim[0].in + at[0]) * dim[1].in + at[1]) * dim[2].in + at[2];
  return args->conv.type == DTYPE_I8 ? (int8_t)x[k] : x[k];
}

static int64_t sum_at(const conv_integer_args *args, int64_t image, int64_t output, int64_t cell) {
  const conv_args *own = &args->conv;
  const conv_dim *dim = own->dims;
  int64_t sum = 0, w = output * own->channels * dim[0].kernel * dim[1].kernel * dim[2].kernel;
  int64_t first = (image * own->groups + output / own->outputs) * own->channels;
  for (int64_t i = 0; i < own->channels; i++)
    for (int64_t z = 0; z < dim[0].kernel; z++)
      for (int64_t y = 0; y < dim[1].kernel; y++)
        for (int64_t k = 0; k < dim[2].kernel; k++, w++) {
          int64_t at[CONV_DIMS] = {cell / dim[2].out / dim[1].out, cell / dim[2].out % dim[1].out,
                                   cell % dim[2].out};
          const int64_t tap[CONV_DIMS] = {z, y, k};
          for (int n = 0; n < CONV_DIMS; n++)
            at[n] = at[n] * dim[n].stride - dim[n].padding + tap[n] * dim[n].dilation;
          sum += element(args, first + i, at) * weight[w];
        }
  return sum;
}

static int64_t result_size(const conv_args *args) {
  return args->images * args->groups * args->outputs * out_size(args);
}

static void find_want(const conv_integer_args *args) {
  const conv_args *own = &args->conv;
  int64_t cells = out_size(own), n = 0;
  assert_true(result_size(own) <= MOST);
  for (int64_t image = 0; image < own->images; image++)
    for (int64_t o = 0; o < own->groups * own->outputs; o++)
      for (int64_t cell = 0; cell < cells; cell++)
        want[n++] = (int32_t)(sum_at(args, image, o, cell) + (own->bias ? bias[o] : 0));
}

static void run(const conv_integer_args *args) {
  test_pool pool;
  run_kernel(&kernel_conv_integer, args, 3, &pool);
  free_pool(&pool);
}

static void check(const conv_integer_args *args) {
  const int64_t n = result_size(&args->conv);
  for (int64_t i = 0; i < n; i++) out[i] = -1;
  run(args);
  for (int64_t i = 0; i < n; i++) assert_int_equal(out[i], want[i]);
}

/* ---------------------------------------------------------------- codes of sums */

static float scales[256], biases[256];
static unsigned char added[MOST * sizeof(float)];

static float added_at(dtype t, int64_t i) {
  if (t == DTYPE_F32) return ((const float *)(const void *)added)[i];
  if (t == DTYPE_I32) return (float)((const int32_t *)(const void *)added)[i];
  return t == DTYPE_I8 ? (float)(int8_t)added[i] : (float)added[i];
}

static float limited(float v, float low, float high) {
  v = low > v ? low : v;
  return high < v ? high : v;
}

static float factor_at(const requantise_factor *factor, int64_t channel) {
  return factor->of_channel ? factor->of_channel[channel] : factor->number;
}

static float term_at(const requantise_term *term, float v, int64_t channel) {
  v -= term->zero;
  v *= factor_at(&term->scale, channel);
  return v + factor_at(&term->bias, channel);
}

/* Computes a code by the formula of requantise_args. */
static int code_of(const requantise_args *args, int32_t sum, int64_t i, int64_t channel) {
  float v = term_at(&args->terms[0], (float)sum, channel);
  if (args->terms[1].x) v += term_at(&args->terms[1], added_at(args->terms[1].type, i), channel);
  v = limited(v, args->low, args->high) * args->inverse;
  v = limited(rintf(v) + args->zero, args->least, args->greatest);
  return args->type == DTYPE_I8 ? (int8_t)(int)v : (uint8_t)(int)v;
}

/* Fills the n numbers that are added. t: their type. */
static void fill_codes(dtype t, int64_t n) {
  for (int i = 0; i < 256; i++) {
    scales[i] = (float)(random_byte() + 1) * 1e-5F;
    biases[i] = (float)(random_byte() - 128) * 0.01F;
  }
  for (int64_t i = 0; i < n; i++) {
    if (t == DTYPE_F32)
      ((float *)(void *)added)[i] = (float)(random_byte() - 128) * 0.3F;
    else if (t == DTYPE_I32)
      ((int32_t *)(void *)added)[i] = (random_byte() - 128) * 70001;
    else
      added[i] = (unsigned char)random_byte();
  }
}

/* which: bits that select the added tensor, if any, and the operations that have an effect. */
static requantise_args codes_of(const conv_integer_args *args, int which) {
  static const dtype types[] = {DTYPE_U8, DTYPE_I8, DTYPE_I32, DTYPE_F32};
  const bool is_signed = which & 1;
  requantise_args own = {.type = is_signed ? DTYPE_I8 : DTYPE_U8,
                         .low = which & 2 ? -1.5F : -INFINITY,
                         .high = which & 4 ? 2.75F : INFINITY,
                         .inverse = 20,
                         .zero = which & 8 ? 3 : 0,
                         .least = is_signed ? -128 : 0,
                         .greatest = is_signed ? 127 : 255,
                         .images = args->conv.images,
                         .channels = args->conv.groups * args->conv.outputs};
  own.terms[0] = (requantise_term){.type = DTYPE_I32,
                                   .zero = which & 16 ? 11 : 0,
                                   .scale = {.of_channel = scales},
                                   .bias = {.of_channel = biases}};
  own.terms[1].type = types[which >> 5 & 3];
  if (!(which & 128)) return own;
  const bool is_wide = own.terms[1].type == DTYPE_I32;
  own.terms[1].x = added;
  own.terms[1].zero = which & 8 ? 100 : 0;
  own.terms[1].scale = (requantise_factor){is_wide ? scales : NULL, 0.01F};
  own.terms[1].bias = (requantise_factor){is_wide ? biases : NULL, 0};
  return own;
}

static void check_codes(const conv_integer_args *sums, int which) {
  enum { GUARD = 64 };
  conv_integer_args args = *sums;
  const int64_t n = result_size(&args.conv), channels = args.conv.groups * args.conv.outputs,
                plane = out_size(&args.conv);
  unsigned char *codes = (unsigned char *)out;
  args.makes_codes = true;
  args.codes = codes_of(&args, which);
  fill_codes(args.codes.terms[1].type, n);
  memset(out, 0x5a, (size_t)(n + GUARD));
  run(&args);
  for (int64_t i = 0; i < n; i++) {
    const int code = code_of(&args.codes, want[i], i, i / plane % channels);
    assert_int_equal(args.codes.type == DTYPE_I8 ? (int8_t)codes[i] : codes[i], code);
  }
  for (int64_t i = n; i < n + GUARD; i++) assert_int_equal(codes[i], 0x5a);
}

/* Checks the codes decoded to floats by the kernel. */
static void check_decoded(const conv_integer_args *sums, int which) {
  conv_integer_args args = *sums;
  const int64_t n = result_size(&args.conv), channels = args.conv.groups * args.conv.outputs,
                plane = out_size(&args.conv);
  args.makes_codes = args.decodes = true;
  args.codes = codes_of(&args, which);
  args.decode_zero = which & 2 ? 3 : 0;
  args.decode_scale = 0.37F;
  fill_codes(args.codes.terms[1].type, n);
  for (int64_t i = 0; i <= n; i++) out[i] = 77;
  run(&args);
  for (int64_t i = 0; i < n; i++) {
    const float code = (float)code_of(&args.codes, want[i], i, i / plane % channels);
    float got;
    memcpy(&got, &out[i], sizeof got);
    assert_true(got == (code - args.decode_zero) * args.decode_scale);
  }
  assert_int_equal(out[n], 77);
}

/* ---------------------------------------------------------------- all of them */

static void fill(bool extremes) {
  for (int i = 0; i < MOST; i++) {
    x[i] = extremes ? 255 : (uint8_t)random_byte();
    weight[i] = extremes ? -128 : (int8_t)random_byte();
  }
  for (int i = 0; i < 256; i++) bias[i] = random_byte() * 5000 - 600000;
}

/* Checks the sums, then the codes for each operation on them and each type of the added tensor. */
static void check_all(const conv_integer_args *args, int which) {
  check(args);
  for (int k = 0; k < 4; k++) check_codes(args, which ^ k * 85);
  if (args->conv.channels > 1) check_decoded(args, which);
}

/* Does the same with the weight in tiles. */
static void check_tiles(const conv_integer_args *plain, int which) {
  conv_integer_args args = *plain;
  test_pool pool;
  run_kernel(&kernel_conv_integer_pack, &args.conv, 1, &pool);
  args.conv.packed = pool.memory[0];
  args.conv.is_packed = true;
  args.conv.weight = NULL;
  check_all(&args, which);
  free_pool(&pool);
}

/* Tests all levels of instructions. */
static void check_levels(const conv_integer_args *args, int which) {
  find_want(args);
  for (cpu_level level = CPU_PORTABLE; level <= CPU_AMX; level = next_level(level)) {
    cpu_use_at_most(level);
    check_all(args, which);
    if (args->conv.groups == 1 && args->conv.channels > 1) check_tiles(args, which);
  }
}

static void check_forms(const conv_args *forms, int n) {
  for (int i = 0; i < n; i++)
    for (int variant = 0; variant < 8; variant++) {
      conv_integer_args args = {.conv = forms[i], .padding_value = variant & 2 ? -77 : 77};
      const int which = (i * 37 + variant * 64) % 256;
      args.conv.x = x, args.conv.weight = weight, args.conv.out = out;
      args.conv.bias = variant & 1 ? bias : NULL;
      args.conv.type = variant & 2 ? DTYPE_I8 : DTYPE_U8;
      fill(variant & 4);
      check_levels(&args, which);
    }
}

static conv_args form(int64_t images, int64_t groups, int64_t channels, int64_t outputs, conv_dim z,
                      conv_dim y, conv_dim x) {
  return (conv_args){.images = images,
                     .groups = groups,
                     .channels = channels,
                     .outputs = outputs,
                     .dims = {z, y, x}};
}

static void test_most_sums(void **state) {
  (void)state;
  const conv_dim one = dim(1, 1, 1, 0, 1);
  const conv_args forms[] = {
      form(2, 1, 3, 5, one, dim(9, 3, 1, 1, 1), dim(11, 3, 1, 1, 1)),
      form(3, 2, 2, 7, one, dim(12, 3, 2, 1, 2), dim(13, 2, 3, 0, 5)),
      form(2, 6, 1, 1, one, dim(7, 5, 1, 2, 1), dim(70, 5, 1, 2, 1)),
      /* rows of more than ROW_BLOCK */
      form(2, 3, 1, 2, one, dim(6, 3, 2, 1, 2), dim(600, 9, 2, 4, 1)),
      /* more than MAX_TERMS taps */
      form(1, 2, 1, 1, one, dim(12, 9, 1, 4, 1), dim(12, 8, 1, 3, 1)),
      form(0, 3, 1, 2, one, one, one),
      form(1, 1, 129, 66, one, one, dim(9, 1, 1, 0, 1)),
      form(1, 1, 2, 3, dim(4, 3, 1, 2, 1), dim(5, 2, 2, 0, 1), dim(6, 3, 1, 1, 1)),
      /* strides beyond what taps span */
      form(1, 2, 2, 3, dim(4, 2, 3, 1, 1), dim(23, 2, 5, 1, 3), dim(9, 3, 200000, 100000, 2)),
      form(70, 1, 8, 4, one, one, one),
      form(1, 1, 700, 2, one, dim(3, 3, 1, 1, 1), dim(3, 3, 1, 1, 1)),
  };
  check_forms(forms, (int)(sizeof forms / sizeof forms[0]));
}

/* Depthwise rows that do not fill vectors, windows that exceed the planes, and whole tiles. */
static void test_more_sums(void **state) {
  (void)state;
  const conv_dim one = dim(1, 1, 1, 0, 1);
  const conv_args forms[] = {
      form(2, 5, 1, 1, one, dim(9, 3, 1, 1, 1), dim(23, 3, 1, 1, 1)),
      form(1, 7, 1, 1, one, dim(15, 3, 2, 1, 1), dim(37, 3, 2, 1, 1)),
      form(1, 4, 1, 1, one, dim(3, 5, 1, 4, 1), dim(3, 5, 1, 4, 1)),
      form(1, 3, 1, 2, one, dim(20, 3, 3, 2, 2), dim(66, 3, 4, 1, 1)),
      form(1, 1, 4, 11, one, one, dim(200, 1, 1, 0, 1)),
      /* k is whole steps of AMX; there are more tiles than tasks */
      form(1, 2, 64, 40, one, one, dim(100, 1, 1, 0, 1)),
      form(1, 1, 4, 2, one, dim(70, 3, 1, 0, 1), dim(70, 3, 1, 0, 1)),
      /* pairs of strips and one more output; two blocks of channels; phases, images */
      form(1, 1, 64, 33, one, dim(3, 3, 1, 1, 1), dim(37, 3, 1, 1, 1)),
      form(1, 1, 66, 18, one, dim(3, 3, 2, 1, 1), dim(61, 3, 2, 1, 1)),
      form(2, 1, 6, 49, one, dim(9, 1, 2, 0, 1), dim(40, 2, 3, 1, 2)),
  };
  check_forms(forms, (int)(sizeof forms / sizeof forms[0]));
}

/* Whole tiles and vectors of 16 have the same codes if the scaled sums do not fit into 32 bits. */
static void test_codes_of_large_sums(void **state) {
  (void)state;
  static const float scales[] = {1e12F, -1e12F, 1, 0.01F, NAN, INFINITY};
  int32_t sums[REQUANTISE_TILE];
  for (int i = 0; i < REQUANTISE_TILE; i++) sums[i] = (i - 32) * 37 * (i % 3 ? 1 : 1000000);
  for (size_t k = 0; k < 2 * sizeof scales / sizeof *scales; k++) {
    const requantise_args args = {
        .terms = {{.type = DTYPE_I32, .scale = {.number = scales[k / 2]}}},
        .type = DTYPE_U8,
        .low = -INFINITY,
        .high = INFINITY,
        .inverse = 0.5F,
        .zero = k % 2 ? 7 : 0,
        .greatest = 255};
    unsigned char whole[REQUANTISE_TILE], some[REQUANTISE_TILE], *codes = whole;
    const void *none = NULL;
    requantise_sums(&args, 0, 1, REQUANTISE_TILE, sums, &none, &codes);
    for (int i = 0; i < REQUANTISE_TILE; i += 16) {
      int32_t sixteen[REQUANTISE_TILE] = {0};
      memcpy(sixteen, sums + i, 16 * sizeof *sums);
      codes = some;
      requantise_sums(&args, 0, 1, 16, sixteen, &none, &codes);
      assert_memory_equal(some, whole + i, 16);
    }
    for (int i = 0; i < REQUANTISE_TILE && scales[k / 2] == 1e12F; i++)
      assert_int_equal(whole[i], sums[i] > 0 ? 255 : sums[i] < 0 ? 0 : args.zero);
  }
}

/* ---------------------------------------------------------------- codes of whole tensors */

/* Writes element i of the first term's tensor and returns its value. */
static int32_t put_first(void *to, dtype t, int64_t i) {
  const bool is_wide = t == DTYPE_F32 || t == DTYPE_I32;
  const int32_t v = (random_byte() - (t == DTYPE_U8 ? 0 : 128)) * (is_wide ? 300 : 1);
  if (t == DTYPE_F32)
    ((float *)to)[i] = (float)v;
  else if (t == DTYPE_I32)
    ((int32_t *)to)[i] = v;
  else
    ((uint8_t *)to)[i] = (uint8_t)v;
  return v;
}

/* Checks three images of five channels with `row` elements. */
static void check_tensor(dtype first, int64_t row, int which) {
  _Alignas(float) static unsigned char firsts[3 * 5 * 300 * sizeof(float)];
  const conv_integer_args shape = {.conv = {.images = 3, .groups = 1, .outputs = 5}};
  const int64_t n = 3 * 5 * row;
  unsigned char *codes = (unsigned char *)out;
  requantise_args args = codes_of(&shape, which);
  args.terms[0].x = firsts, args.terms[0].type = first;
  args.row = row, args.out = codes;
  fill_codes(args.terms[1].type, n);
  for (int64_t i = 0; i < n; i++) want[i] = put_first(firsts, first, i);
  codes[n] = 0x5a;
  kernel_fault fault = {0};
  test_pool pool = {0};
  const kernel_context ctx = make_context(&pool, &fault);
  assert_true(kernel_requantise.run(&ctx, &args));
  for (int64_t i = 0; i < n; i++) {
    const int code = code_of(&args, want[i], i, i / row % 5);
    assert_int_equal(args.type == DTYPE_I8 ? (int8_t)codes[i] : codes[i], code);
  }
  assert_int_equal(codes[n], 0x5a);
}

/* Rows have fewer than 16 elements, multiples of 16, a remainder, or more elements than a block. */
static void test_codes_of_tensors(void **state) {
  (void)state;
  static const dtype types[] = {DTYPE_U8, DTYPE_I8, DTYPE_I32, DTYPE_F32};
  static const int64_t rows[] = {1, 16, 37, 300};
  for (cpu_level level = CPU_PORTABLE; level <= CPU_AMX; level = next_level(level)) {
    cpu_use_at_most(level);
    for (int i = 0; i < 16; i++)
      for (int which = 0; which < 256; which += 17) check_tensor(types[i / 4], rows[i % 4], which);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_most_sums), cmocka_unit_test(test_more_sums),
      cmocka_unit_test(test_codes_of_large_sums), cmocka_unit_test(test_codes_of_tensors)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
