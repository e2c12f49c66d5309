/* Tests refusals of the rules that no other test checks (ci/messages lists the untested ones). */
#include <math.h>

#include "test/ops/fixture.h"

/* Decoders refuse enum values without a name, but a program made in memory may have one. */
static void unknown_kinds(void **state) {
  (void)state;
  fixture_reset();
  uint32_t x = slot(DTYPE_F32, 2, 3, 4), i = slot(DTYPE_I64, 2, 3, 4);
  ir_cumulate cumulate = {.kind = IR_CUMULATE_KIND_COUNT, .x = x, .out = x};
  expect_bad(IR_OP_CUMULATE, &cumulate, "cumulate kind");
  ir_embedding_bag bag = {.kind = IR_EMBEDDING_BAG_KIND_COUNT, .weight = x, .indices = i};
  expect_bad(IR_OP_EMBEDDING_BAG, &bag, "embedding bag kind");
  ir_random random = {.kind = IR_RANDOM_KIND_COUNT, .out = x};
  expect_bad(IR_OP_RANDOM, &random, "random kind");
  ir_reduce reduce = {.kind = IR_REDUCE_KIND_COUNT, .x = x, .out = x};
  expect_bad(IR_OP_REDUCE, &reduce, "reduce kind");
  ir_arg_reduce arg = {.kind = IR_ARG_REDUCE_KIND_COUNT, .x = x, .out = i};
  expect_bad(IR_OP_ARG_REDUCE, &arg, "arg reduce kind");
  ir_scatter scatter = {.kind = IR_SCATTER_KIND_COUNT, .x = x, .index = i, .source = x, .out = x};
  expect_bad(IR_OP_SCATTER, &scatter, "scatter kind");
  uint32_t image = slot(DTYPE_F32, 4, 1, 1, 2, 2), grid = slot(DTYPE_F32, 4, 1, 2, 2, 2);
  ir_upsample upsample = {.x = image, .mode = IR_UPSAMPLE_MODE_COUNT, .out = image};
  expect_bad(IR_OP_UPSAMPLE, &upsample, "upsample mode");
  ir_grid_sample sample = {.x = image, .grid = grid, .out = image};
  sample.mode = IR_GRID_SAMPLE_MODE_COUNT;
  expect_bad(IR_OP_GRID_SAMPLE, &sample, "grid_sample mode");
  sample.mode = IR_GRID_SAMPLE_MODE_NEAREST;
  sample.padding = IR_GRID_SAMPLE_PADDING_COUNT;
  expect_bad(IR_OP_GRID_SAMPLE, &sample, "grid_sample padding");
}

static void attention_numbers(void **state) {
  (void)state;
  fixture_reset();
  uint32_t q = slot(DTYPE_F32, 3, 2, 5, 8), none = slot(DTYPE_F32, 3, 0, 5, 8);
  ir_attention a = {.q = q, .k = q, .v = q, .mask = IR_NONE, .out = q};
  expect_good(IR_OP_ATTENTION, &a);
  a.scale = (ir_opt_f64){INFINITY, true};
  expect_bad(IR_OP_ATTENTION, &a, "scale: expected a finite number, got inf");
  a.k = a.v = none;
  expect_bad(IR_OP_ATTENTION, &a, "k has no heads, q has 2");
}

static void embedding_bags(void **state) {
  (void)state;
  fixture_reset();
  uint32_t weight = slot(DTYPE_F32, 2, 10, 4), list = slot(DTYPE_I64, 1, 6),
           table = slot(DTYPE_I64, 2, 2, 3), each = slot(DTYPE_F32, 1, 6);
  ir_embedding_bag b = {.kind = IR_EMBEDDING_BAG_KIND_MEAN,
                        .weight = weight,
                        .indices = list,
                        .offsets = slot(DTYPE_I64, 1, 2),
                        .weights = IR_NONE,
                        .out = slot(DTYPE_F32, 2, 2, 4)};
  expect_good(IR_OP_EMBEDDING_BAG, &b);
  b.weights = each;
  expect_bad(IR_OP_EMBEDDING_BAG, &b, "weights: expected none except for the kind sum, got some");
  b.indices = table;
  expect_bad(IR_OP_EMBEDDING_BAG, &b, "indices: expected rank 1, got 2");
  b.indices = list;
  b.offsets = table;
  expect_bad(IR_OP_EMBEDDING_BAG, &b, "offsets: expected rank 1, got 2");
}

static void random_ranges(void **state) {
  (void)state;
  fixture_reset();
  ir_random r = {.kind = IR_RANDOM_KIND_INTEGER, .out = slot(DTYPE_I64, 1, 4)};
  r.low = r.high = (ir_int_or_vid){.vid = IR_NONE};
  expect_bad(IR_OP_RANDOM, &r, "the kind is integer, so low and high are needed");
  r.low = lit(3), r.high = lit(3);
  expect_bad(IR_OP_RANDOM, &r, "low and high: expected low < high, got 3 and 3");
  r.high = lit(4);
  expect_good(IR_OP_RANDOM, &r);
}

static void views(void **state) {
  (void)state;
  fixture_reset();
  uint32_t x = slot(DTYPE_F32, 2, 3, 4), flat = slot(DTYPE_F32, 1, 12);
  ir_diagonal d = {.x = x, .axis1 = 1, .axis2 = -1, .out = slot(DTYPE_F32, 1, 3)};
  expect_bad(IR_OP_DIAGONAL, &d, "axis1 and axis2 are both 1");
  d.axis1 = 0;
  expect_good(IR_OP_DIAGONAL, &d);
  ir_as_strided s = {.x = flat, .shape = INTS(lit(3)), .strides = INTS(lit(4)), .offset = lit(0)};
  s.out = slot(DTYPE_F32, 1, 3);
  expect_good(IR_OP_AS_STRIDED, &s);
  s.offset = lit(4);
  expect_bad(IR_OP_AS_STRIDED, &s, "elements 4 to 12 of x, which has 12");
  s.strides = (ir_int_or_vids)INTS(lit(INT64_MAX));
  expect_bad(IR_OP_AS_STRIDED, &s, "strides reach beyond 64 bits");
  ir_unfold u = {.x = x, .axis = 1, .size = lit(5), .step = lit(1), .out = slot(DTYPE_F32, 1, 3)};
  expect_bad(IR_OP_UNFOLD, &u, "size is 5, axis 1 has 4");
}

static void sizes(void **state) {
  (void)state;
  fixture_reset();
  uint32_t empty = slot(DTYPE_F32, 1, 0), half = slot(DTYPE_F32, 1, 1);
  fix.tensors[half].dims[0] = INT64_MAX / 2 + 1;
  ir_cat cat = {.xs = TIDS(half, half), .out = half};
  expect_bad(IR_OP_CAT, &cat, "makes axis 0 too large");
  ir_pad pad = {.x = empty,
                .before = INTS(lit(1)),
                .after = INTS(lit(0)),
                .mode = IR_PAD_MODE_REPLICATE,
                .out = half};
  expect_bad(IR_OP_PAD, &pad, "replicate padding of an empty dimension");
  uint32_t i = slot(DTYPE_I64, 1, 2);
  ir_ravel_index ravel = {.indices = TIDS(i, i), .sizes = INTS(lit(INT64_MAX), lit(2)), .out = i};
  expect_bad(IR_OP_RAVEL_INDEX, &ravel, "sizes have too many positions");
}

static void images(void **state) {
  (void)state;
  fixture_reset();
  uint32_t image = slot(DTYPE_F32, 4, 1, 1, 2, 2), larger = slot(DTYPE_F32, 4, 1, 1, 3, 3),
           volume = slot(DTYPE_F32, 5, 1, 1, 2, 2, 2), grid = slot(DTYPE_F32, 5, 1, 2, 2, 2, 3);
  ir_upsample u = {.x = image, .mode = IR_UPSAMPLE_MODE_LINEAR, .antialias = true, .out = larger};
  expect_bad(IR_OP_UPSAMPLE, &u, "out: expected one changed size at a time, got 2");
  ir_grid_sample g = {
      .x = volume, .grid = grid, .mode = IR_GRID_SAMPLE_MODE_BICUBIC, .out = volume};
  expect_bad(IR_OP_GRID_SAMPLE, &g, "bicubic is for 2 spatial dimensions, x has 3");
}

static void ssm_scans(void **state) {
  (void)state;
  fixture_reset();
  uint32_t x = slot(DTYPE_F32, 4, 2, 5, 6, 4), b = slot(DTYPE_F32, 4, 2, 5, 3, 8),
           h = slot(DTYPE_F32, 4, 2, 6, 4, 8), half = slot(DTYPE_F16, 4, 2, 5, 6, 4),
           decay = slot(DTYPE_F32, 3, 2, 5, 6), rate = slot(DTYPE_F32, 2, 6, 8);
  ir_ssm_scan s = {.x = x,
                   .log_decay = decay,
                   .b = b,
                   .c = b,
                   .rate = rate,
                   .state = h,
                   .out = x,
                   .state_out = h};
  expect_good(IR_OP_SSM_SCAN, &s);
  s.rate = h;
  expect_bad(IR_OP_SSM_SCAN, &s, "rate: expected F32 (6, 8), got F32 (2, 6, 4, 8)");
  s.rate = IR_NONE, s.log_decay = x;
  expect_bad(IR_OP_SSM_SCAN, &s, "log_decay: expected F32 (2, 5, 6), got F32 (2, 5, 6, 4)");
  s.log_decay = decay, s.state = x;
  expect_bad(IR_OP_SSM_SCAN, &s, "state: expected F32 (2, 6, 4, 8), got F32 (2, 5, 6, 4)");
  s.state = h, s.x = half;
  expect_bad(IR_OP_SSM_SCAN, &s, "x: expected F32 or F64, got F16");
  s.x = decay;
  expect_bad(IR_OP_SSM_SCAN, &s, "x: expected rank 4, got 3");
  s.x = x, s.b = s.c = slot(DTYPE_F32, 4, 2, 5, 4, 8);
  expect_bad(IR_OP_SSM_SCAN, &s, "x: expected a multiple of b's 4 groups as heads, got 6");
  s.b = s.c = slot(DTYPE_F32, 4, 2, 5, 0, 8);
  expect_bad(IR_OP_SSM_SCAN, &s, "x: expected a multiple of b's 0 groups as heads, got 6");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(unknown_kinds),  cmocka_unit_test(attention_numbers),
      cmocka_unit_test(embedding_bags), cmocka_unit_test(random_ranges),
      cmocka_unit_test(views),          cmocka_unit_test(sizes),
      cmocka_unit_test(images),         cmocka_unit_test(ssm_scans),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
