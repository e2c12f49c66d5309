/* Rules of reductions, normalisation, linear algebra, convolution, pooling, indexing, updates,
 * attention and control flow: accepted ops, and messages for the others. Attention over caches is
 * in test_rules_attention.c. */
#include <math.h>

#include "ops/fixture.h"

static void reductions(void **state) {
  (void)state;
  fixture_reset();
  uint32_t x = slot(DTYPE_F32, 3, 2, -1, 4), i = slot(DTYPE_I32, 2, 2, 3),
           b = slot(DTYPE_BOOL, 2, 2, 3);
  ir_reduce r = {
      .kind = IR_REDUCE_KIND_MEAN, .x = x, .axes = I32S(-1, 0), .out = slot(DTYPE_F32, 1, 7)};
  expect_good(IR_OP_REDUCE, &r);
  r.keepdim = true;
  expect_bad(IR_OP_REDUCE, &r, "out: expected F32 (1, ?, 1), got F32 (7)");
  r.axes = (ir_i32s)I32S(0, -3);
  expect_bad(IR_OP_REDUCE, &r, "axis 0 is listed twice");
  r.axes = (ir_i32s)I32S(3);
  expect_bad(IR_OP_REDUCE, &r, "axis 3 out of range for rank 3");
  ir_reduce all = {.kind = IR_REDUCE_KIND_ALL, .x = i, .out = slot(DTYPE_BOOL, 0)};
  expect_good(IR_OP_REDUCE, &all);
  all.kind = IR_REDUCE_KIND_SUM;
  expect_bad(IR_OP_REDUCE, &all, "out: expected I32 (), got BOOL ()");
  all.x = b;
  expect_bad(IR_OP_REDUCE, &all, "x: expected a float or integer dtype, got BOOL");
  all.kind = IR_REDUCE_KIND_MAX;
  expect_good(IR_OP_REDUCE, &all);
  all.kind = IR_REDUCE_KIND_STD, all.x = i;
  expect_bad(IR_OP_REDUCE, &all, "x: expected a float dtype, got I32");
  r = (ir_reduce){.kind = IR_REDUCE_KIND_VAR, .x = x, .correction = INFINITY, .out = x};
  expect_bad(IR_OP_REDUCE, &r, "correction: expected a finite number, got inf");
  r = (ir_reduce){.kind = IR_REDUCE_KIND_MIN,
                  .x = slot(DTYPE_F32, 2, 0, 3),
                  .axes = I32S(0),
                  .out = slot(DTYPE_F32, 1, 3)};
  expect_bad(IR_OP_REDUCE, &r, "x: expected no reduced dimension of size 0, got shape (0, 3)");
  r.kind = IR_REDUCE_KIND_SUM;
  expect_good(IR_OP_REDUCE, &r);
  r = (ir_reduce){.kind = (ir_reduce_kind)40, .x = x, .out = x};
  expect_bad(IR_OP_REDUCE, &r, "kind 40 is unknown");
}

static void reductions_to_indices(void **state) {
  (void)state;
  fixture_reset();
  ir_arg_reduce a = {.x = slot(DTYPE_F32, 2, 2, 3), .out = slot(DTYPE_I64, 0)};
  expect_good(IR_OP_ARG_REDUCE, &a);
  a.axis = (ir_opt_i32){-1, true};
  expect_bad(IR_OP_ARG_REDUCE, &a, "out: expected I64 (2), got I64 ()");
  a.keepdim = true, a.out = slot(DTYPE_I64, 2, 2, 1);
  expect_good(IR_OP_ARG_REDUCE, &a);
  a.out = slot(DTYPE_I32, 2, 2, 1);
  expect_bad(IR_OP_ARG_REDUCE, &a, "expected I64 (2, 1)");
  a.x = slot(DTYPE_F32, 1, 0), a.axis.present = false;
  expect_bad(IR_OP_ARG_REDUCE, &a, "no reduced dimension of size 0");
  ir_cumulate cum = {
      .x = slot(DTYPE_I64, 1, 4), .axis = 0, .out = slot(DTYPE_I64, 1, 4), .indices = IR_NONE};
  expect_good(IR_OP_CUMULATE, &cum);
  cum.axis = 1;
  expect_bad(IR_OP_CUMULATE, &cum, "axis 1 out of range for rank 1");
  ir_softmax s = {.x = slot(DTYPE_F16, 2, 3, 4), .axis = 5, .out = slot(DTYPE_F16, 2, 3, 4)};
  expect_bad(IR_OP_SOFTMAX, &s, "axis 5 out of range for rank 2");
  s.axis = -2;
  expect_good(IR_OP_SOFTMAX, &s);
  s.x = slot(DTYPE_I32, 2, 3, 4);
  expect_bad(IR_OP_SOFTMAX, &s, "x: expected a float dtype, got I32");
}

static void norms(void **state) {
  (void)state;
  fixture_reset();
  uint32_t x = slot(DTYPE_F32, 3, 2, 6, 4), w4 = slot(DTYPE_F32, 1, 4), w6 = slot(DTYPE_F32, 1, 6),
           w64 = slot(DTYPE_F32, 2, 6, 4);
  ir_layer_norm l = {.x = x, .weight = w64, .bias = IR_NONE, .n_axes = 2, .eps = 1e-5, .out = x};
  expect_good(IR_OP_LAYER_NORM, &l);
  l.bias = w4;
  expect_bad(IR_OP_LAYER_NORM, &l, "bias: expected F32 (6, 4), got F32 (4)");
  l.n_axes = 4;
  expect_bad(IR_OP_LAYER_NORM, &l, "n_axes: expected 1 to x's rank 3, got 4");
  ir_rms_norm r = {.x = x, .weight = w4, .n_axes = 1, .eps = NAN, .out = x};
  expect_bad(IR_OP_RMS_NORM, &r, "eps: expected a number, got nan");
  r.eps = 0;
  expect_good(IR_OP_RMS_NORM, &r);
  ir_group_norm g = {.x = x, .weight = w6, .bias = w6, .groups = 3, .out = x};
  expect_good(IR_OP_GROUP_NORM, &g);
  g.groups = 4;
  expect_bad(IR_OP_GROUP_NORM, &g, "groups: expected a divisor of the 6 channels, got 4");
  g.groups = 0;
  expect_bad(IR_OP_GROUP_NORM, &g, "groups: expected a divisor of the 6 channels, got 0");
  ir_batch_norm b = {.x = x, .weight = IR_NONE, .bias = IR_NONE, .mean = w6, .var = w6, .out = x};
  expect_good(IR_OP_BATCH_NORM, &b);
  b.var = w4;
  expect_bad(IR_OP_BATCH_NORM, &b, "var: expected F32 (6), got F32 (4)");
  b.x = w6;
  expect_bad(IR_OP_BATCH_NORM, &b, "x: expected rank 2 or more, got 1");
}

static void products(void **state) {
  (void)state;
  fixture_reset();
  uint32_t a = slot(DTYPE_F32, 3, 5, 2, 3), b = slot(DTYPE_F32, 4, 7, 1, 3, 4);
  ir_matmul m = {.a = a,
                 .b = b,
                 .bias = slot(DTYPE_F32, 1, 4),
                 .alpha = 1,
                 .beta = 1,
                 .out = slot(DTYPE_F32, 4, 7, 5, 2, 4)};
  expect_good(IR_OP_MATMUL, &m);
  m.bias = slot(DTYPE_F32, 5, 1, 1, 1, 1, 4);
  expect_bad(IR_OP_MATMUL, &m, "bias (1, 1, 1, 1, 4) does not broadcast to (7, 5, 2, 4)");
  m.bias = slot(DTYPE_F32, 1, 3);
  expect_bad(IR_OP_MATMUL, &m, "bias (3) does not broadcast");
  m.bias = slot(DTYPE_F64, 1, 4);
  expect_bad(IR_OP_MATMUL, &m, "bias: expected F32 like a, got F64");
  m.bias = IR_NONE, m.b = slot(DTYPE_F32, 2, 4, 4);
  expect_bad(IR_OP_MATMUL, &m, "a has 3 columns, b has 4 rows");
  m.b = slot(DTYPE_F32, 3, 4, 3, 4);
  expect_bad(IR_OP_MATMUL, &m, "shapes (5) and (4) do not broadcast; leading dimensions");
  m.b = slot(DTYPE_F64, 2, 3, 4);
  expect_bad(IR_OP_MATMUL, &m, "b: expected F32 like a, got F64");
  m.b = slot(DTYPE_F32, 1, 3);
  expect_bad(IR_OP_MATMUL, &m, "b: expected rank 2 or more, got 1");
  m.out = slot(DTYPE_F32, 3, 5, 2, 4);
  m.b = slot(DTYPE_F16, 2, 3, 4);
  expect_good(IR_OP_MATMUL, &m);
  m.b = slot(DTYPE_BF16, 2, 3, 4);
  expect_good(IR_OP_MATMUL, &m);
  m.a = slot(DTYPE_F16, 3, 5, 2, 3);
  expect_bad(IR_OP_MATMUL, &m, "b: expected F16 like a, got BF16");
  uint32_t i = slot(DTYPE_I32, 2, 2, 2);
  m = (ir_matmul){.a = i, .b = i, .bias = IR_NONE, .alpha = 0.5, .beta = 1, .out = i};
  expect_bad(IR_OP_MATMUL, &m, "alpha 0.5 does not fit I32");
  m.alpha = 2;
  expect_good(IR_OP_MATMUL, &m);
}

static void convolutions(void **state) {
  (void)state;
  fixture_reset();
  uint32_t x = slot(DTYPE_F32, 4, 2, 6, 9, -1), w = slot(DTYPE_F32, 4, 4, 3, 3, 3),
           bias = slot(DTYPE_F32, 1, 4);
  ir_conv c = {.x = x,
               .weight = w,
               .bias = bias,
               .stride = I32S(2, 1),
               .padding = I32S(1, 1),
               .dilation = I32S(2, 1),
               .groups = 2,
               .out = slot(DTYPE_F32, 4, 2, 4, 4, 17)};
  expect_good(IR_OP_CONV, &c);
  c.groups = 1;
  expect_bad(IR_OP_CONV, &c, "x: expected 3 channels as weight and groups say, got 6");
  c.groups = 3;
  expect_bad(IR_OP_CONV, &c, "groups: expected a divisor of the weight's 4 channels, got 3");
  c.groups = 2, c.stride = (ir_i32s)I32S(0, 1);
  expect_bad(IR_OP_CONV, &c, "stride: expected at least 1, got 0");
  c.stride = (ir_i32s)I32S(1);
  expect_bad(IR_OP_CONV, &c, "stride: expected 2 entries, got 1");
  c.stride = (ir_i32s)I32S(1, 1), c.dilation = (ir_i32s)I32S(6, 1);
  expect_bad(IR_OP_CONV, &c, "kernel covers 13, more than the padded size 11; spatial dimension 0");
  c.dilation = (ir_i32s)I32S(1, 1), c.padding = (ir_i32s)I32S(-1, 0);
  expect_bad(IR_OP_CONV, &c, "padding: expected at least 0, got -1");
  c.padding = (ir_i32s)I32S(0, 0);
  expect_bad(IR_OP_CONV, &c, "out: expected F32 (2, 4, 7, ?), got F32 (2, 4, 4, 17)");
  c.x = slot(DTYPE_F32, 4, 2, 6, 9, 9), c.padding = (ir_i32s)I32S(INT32_MAX, 1 << 14);
  expect_bad(IR_OP_CONV, &c,
             "x with its padding: expected at most 2251799813685247 elements, got more");
  c.padding = (ir_i32s)I32S(INT32_MAX, INT32_MAX);
  expect_bad(IR_OP_CONV, &c, "x with its padding: expected at most 2251799813685247 elements");
  c.x = x, c.padding = (ir_i32s)I32S(0, 0), c.bias = slot(DTYPE_F32, 1, 6);
  expect_bad(IR_OP_CONV, &c, "bias: expected F32 (4), got F32 (6)");
  c.weight = slot(DTYPE_F32, 3, 4, 3, 3);
  expect_bad(IR_OP_CONV, &c, "weight: expected rank 4 like x, got 3");
  c.x = c.weight = slot(DTYPE_F32, 6, 1, 1, 1, 1, 1, 1);
  expect_bad(IR_OP_CONV, &c, "x: expected rank 3 to 5, got 6");
  c.x = c.weight = slot(DTYPE_BOOL, 3, 1, 1, 1);
  expect_bad(IR_OP_CONV, &c, "x: expected a float or integer dtype, got BOOL");
}

static void integer_convolutions(void **state) {
  (void)state;
  fixture_reset();
  ir_conv_integer c = {.x = slot(DTYPE_U8, 3, 2, 6, 9),
                       .weight = slot(DTYPE_I8, 3, 4, 3, 3),
                       .bias = slot(DTYPE_I32, 1, 4),
                       .stride = I32S(2),
                       .padding = I32S(1),
                       .dilation = I32S(1),
                       .groups = 2,
                       .padding_value = 255,
                       .out = slot(DTYPE_I32, 3, 2, 4, 5)};
  expect_good(IR_OP_CONV_INTEGER, &c);
  c.padding_value = -1;
  expect_bad(IR_OP_CONV_INTEGER, &c, "padding_value -1 does not fit U8");
  c.x = slot(DTYPE_I8, 3, 2, 6, 9);
  expect_good(IR_OP_CONV_INTEGER, &c);
  c.padding_value = 128;
  expect_bad(IR_OP_CONV_INTEGER, &c, "padding_value 128 does not fit I8");
  c.padding_value = 0, c.bias = slot(DTYPE_F32, 1, 4);
  expect_bad(IR_OP_CONV_INTEGER, &c, "bias: expected I32 (4), got F32 (4)");
  c.bias = IR_NONE, c.out = slot(DTYPE_I8, 3, 2, 4, 5);
  expect_bad(IR_OP_CONV_INTEGER, &c, "out: expected I32 (2, 4, 5), got I8 (2, 4, 5)");
  c.weight = slot(DTYPE_U8, 3, 4, 3, 3);
  expect_bad(IR_OP_CONV_INTEGER, &c, "weight: expected I8, got U8");
  c.x = slot(DTYPE_I32, 3, 2, 6, 9);
  expect_bad(IR_OP_CONV_INTEGER, &c, "x: expected I8 or U8, got I32");
}

static void integer_products(void **state) {
  (void)state;
  fixture_reset();
  ir_matmul_integer p = {.a = slot(DTYPE_U8, 3, 2, -1, 5),
                         .b = slot(DTYPE_I8, 2, 4, 5),
                         .bias = slot(DTYPE_I32, 1, 4),
                         .out = slot(DTYPE_I32, 3, 2, -1, 4)};
  expect_good(IR_OP_MATMUL_INTEGER, &p);
  p.a = slot(DTYPE_I8, 3, 2, 3, 5), p.bias = IR_NONE;
  expect_good(IR_OP_MATMUL_INTEGER, &p);
  p.bias = slot(DTYPE_I32, 1, 5);
  expect_bad(IR_OP_MATMUL_INTEGER, &p, "bias: expected I32 (4), got I32 (5)");
  p.bias = IR_NONE, p.out = slot(DTYPE_F32, 3, 2, 3, 4);
  expect_bad(IR_OP_MATMUL_INTEGER, &p, "out: expected I32 (2, 3, 4), got F32 (2, 3, 4)");
  p.a = slot(DTYPE_U8, 2, 3, 6);
  expect_bad(IR_OP_MATMUL_INTEGER, &p, "a has 6 columns, b has 5");
  p.b = slot(DTYPE_I8, 3, 1, 4, 6);
  expect_bad(IR_OP_MATMUL_INTEGER, &p, "b: expected rank 2, got 3");
  p.b = slot(DTYPE_U8, 2, 4, 6);
  expect_bad(IR_OP_MATMUL_INTEGER, &p, "b: expected I8, got U8");
  p.a = slot(DTYPE_I32, 2, 3, 6);
  expect_bad(IR_OP_MATMUL_INTEGER, &p, "a: expected I8 or U8, got I32");
  p.a = slot(DTYPE_U8, 1, 6);
  expect_bad(IR_OP_MATMUL_INTEGER, &p, "a: expected rank 2 or more, got 1");
}

static void transposed_convolutions(void **state) {
  (void)state;
  fixture_reset();
  ir_conv_transpose c = {.x = slot(DTYPE_F32, 4, 2, 6, 9, -1),
                         .weight = slot(DTYPE_F32, 4, 6, 4, 3, 3),
                         .bias = slot(DTYPE_F32, 1, 8),
                         .stride = I32S(3, 1),
                         .padding = I32S(1, 0),
                         .output_padding = I32S(2, 0),
                         .dilation = I32S(2, 1),
                         .groups = 2,
                         .out = slot(DTYPE_F32, 4, 2, 8, 29, 17)};
  expect_good(IR_OP_CONV_TRANSPOSE, &c);
  c.output_padding = (ir_i32s)I32S(3, 0);
  expect_bad(IR_OP_CONV_TRANSPOSE, &c,
             "output_padding: expected less than stride 3 or dilation 2, got 3");
  c.output_padding = (ir_i32s)I32S(0, 0), c.padding = (ir_i32s)I32S(15, 0);
  expect_bad(IR_OP_CONV_TRANSPOSE, &c, "padding is 15, which leaves nothing of the size 29");
  c.padding = (ir_i32s)I32S(0, 0), c.groups = 4;
  expect_bad(IR_OP_CONV_TRANSPOSE, &c,
             "groups: expected a divisor of the weight's 6 channels, got 4");
  c.groups = 3;
  expect_bad(IR_OP_CONV_TRANSPOSE, &c, "bias: expected F32 (12), got F32 (8)");
  c.groups = 2, c.bias = IR_NONE, c.stride = (ir_i32s)I32S(INT32_MAX, INT32_MAX);
  c.x = slot(DTYPE_F32, 4, 2, 6, 9, 9);
  expect_bad(IR_OP_CONV_TRANSPOSE, &c,
             "x with its padding: expected at most 2251799813685247 elements, got more");
  c.weight = slot(DTYPE_F32, 4, 8, 4, 3, 3);
  expect_bad(IR_OP_CONV_TRANSPOSE, &c, "x: expected 8 channels as weight and groups say, got 6");
}

/* torch's output sizes of max_pool1d: size, kernel, stride, padding, dilation, ceil_mode -> out. */
static void pool_sizes(void **state) {
  (void)state;
  static const int cases[][7] = {{10, 3, 2, 0, 1, 0, 4}, {10, 3, 2, 0, 1, 1, 5},
                                 {10, 3, 2, 1, 1, 0, 5}, {10, 2, 2, 1, 1, 1, 6},
                                 {5, 2, 3, 0, 1, 1, 2},  {4, 2, 3, 1, 1, 1, 2},
                                 {3, 2, 2, 1, 1, 1, 2},  {7, 3, 1, 1, 3, 0, 3},
                                 {5, 1, 3, 0, 1, 1, 2},  {2, 3, 5, 1, 1, 1, 1}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const int *index = cases[i];
    fixture_reset();
    ir_pool p = {.x = slot(DTYPE_F32, 3, 2, 3, index[0]),
                 .kernel = I32S(index[1]),
                 .stride = I32S(index[2]),
                 .padding = I32S(index[3]),
                 .dilation = I32S(index[4]),
                 .ceil_mode = index[5] == 1,
                 .out = slot(DTYPE_F32, 3, 2, 3, index[6]),
                 .indices = slot(DTYPE_I64, 3, 2, 3, index[6])};
    expect_good(IR_OP_POOL, &p);
    fix.tensors[p.out].dims[2]++;
    expect_bad(IR_OP_POOL, &p, "out: expected F32 (2, 3, ");
  }
}

static void pools(void **state) {
  (void)state;
  fixture_reset();
  uint32_t x = slot(DTYPE_F32, 3, 1, 2, 10), out = slot(DTYPE_F32, 3, 1, 2, 9);
  ir_pool p = {.kind = IR_POOL_KIND_AVG,
               .x = x,
               .kernel = I32S(2),
               .stride = I32S(1),
               .padding = I32S(0),
               .dilation = I32S(1),
               .out = out,
               .indices = IR_NONE};
  expect_good(IR_OP_POOL, &p);
  p.divisor = (ir_opt_i64){0, true};
  expect_bad(IR_OP_POOL, &p, "divisor is 0");
  p.divisor.present = false, p.dilation = (ir_i32s)I32S(2);
  expect_bad(IR_OP_POOL, &p, "dilation: expected 1 for average pooling, got 2");
  p.dilation = (ir_i32s)I32S(1), p.padding = (ir_i32s)I32S(2);
  expect_bad(IR_OP_POOL, &p, "padding: expected at most half of the kernel 2, got 2");
  p.padding = (ir_i32s)I32S(0), p.indices = slot(DTYPE_I64, 3, 1, 2, 9);
  expect_bad(IR_OP_POOL, &p, "average pooling has no indices");
  p.kind = IR_POOL_KIND_MAX, p.indices = slot(DTYPE_I32, 3, 1, 2, 9);
  expect_bad(IR_OP_POOL, &p, "indices: expected I64 (1, 2, 9), got I32 (1, 2, 9)");
  p.kernel = (ir_i32s)I32S(11), p.indices = IR_NONE;
  expect_bad(IR_OP_POOL, &p, "window does not fit the size 10");
  ir_pool none = {.kind = IR_POOL_KIND_MAX,
                  .x = slot(DTYPE_F32, 3, 1, 2, 0),
                  .kernel = I32S(1),
                  .stride = I32S(2),
                  .padding = I32S(0),
                  .dilation = I32S(1),
                  .ceil_mode = true,
                  .out = out,
                  .indices = IR_NONE};
  expect_bad(IR_OP_POOL, &none, "no window fits the size 0");
  p.x = slot(DTYPE_F32, 2, 2, 10);
  expect_bad(IR_OP_POOL, &p, "x: expected rank 3 to 5, got 2");
  p = (ir_pool){
      .kind = IR_POOL_KIND_AVG, .x = slot(DTYPE_BOOL, 3, 1, 2, 10), .out = out, .indices = IR_NONE};
  expect_bad(IR_OP_POOL, &p, "x: expected a float or integer dtype, got BOOL");
  ir_adaptive_pool a = {.kind = IR_POOL_KIND_AVG, .x = x, .out = out, .indices = IR_NONE};
  expect_good(IR_OP_ADAPTIVE_POOL, &a);
  a.out = slot(DTYPE_F32, 3, 1, 3, 9);
  expect_bad(IR_OP_ADAPTIVE_POOL, &a, "out: expected F32 (1, 2, 9), got F32 (1, 3, 9)");
  a.x = slot(DTYPE_F32, 3, 1, 3, 0);
  expect_bad(IR_OP_ADAPTIVE_POOL, &a, "spatial dimension 0 is empty");
}

static void indexing(void **state) {
  (void)state;
  fixture_reset();
  uint32_t x = slot(DTYPE_F32, 3, 5, 6, 7), i23 = slot(DTYPE_I32, 2, 2, 3),
           i3 = slot(DTYPE_I64, 1, 3), f = slot(DTYPE_F32, 1, 3);
  ir_index_select s = {.x = x, .axis = 1, .index = i23, .out = slot(DTYPE_F32, 4, 5, 2, 3, 7)};
  expect_good(IR_OP_INDEX_SELECT, &s);
  s.index = f;
  expect_bad(IR_OP_INDEX_SELECT, &s, "index: expected I32 or I64, got F32");
  s.index = slot(DTYPE_I64, 7, 1, 1, 1, 1, 1, 1, 1);
  expect_bad(IR_OP_INDEX_SELECT, &s, "out would have rank 9, at most 8");
  ir_gather g = {
      .x = x, .axis = 0, .index = slot(DTYPE_I64, 3, 9, 6, 2), .out = slot(DTYPE_F32, 3, 9, 6, 2)};
  expect_good(IR_OP_GATHER, &g);
  g.axis = 1;
  expect_bad(IR_OP_GATHER, &g, "index: expected at most x's size 5 at axis 0, got 9");
  g.index = i3;
  expect_bad(IR_OP_GATHER, &g, "index: expected rank 3 like x, got 1");
  ir_index n = {
      .x = x, .indices = TIDS(i23, i3), .axes = I32S(1, 2), .out = slot(DTYPE_F32, 3, 5, 2, 3)};
  expect_good(IR_OP_INDEX, &n);
  n.axes = (ir_i32s)I32S(0, 2), n.out = slot(DTYPE_F32, 3, 2, 3, 6);
  expect_good(IR_OP_INDEX, &n);
  n.axes = (ir_i32s)I32S(2, 0);
  expect_bad(IR_OP_INDEX, &n, "axes are not ascending: 0 after 2");
  n.axes = (ir_i32s)I32S(0);
  expect_bad(IR_OP_INDEX, &n, "axes: expected 2 entries, got 1");
  n = (ir_index){.x = x, .indices = TIDS(i3), .axes = I32S(-1), .out = slot(DTYPE_F32, 3, 5, 6, 3)};
  expect_good(IR_OP_INDEX, &n);
  n.indices = (ir_u32s)TIDS(slot(DTYPE_BOOL, 1, 7));
  expect_bad(IR_OP_INDEX, &n, "index: expected I32 or I64, got a mask (BOOL)");
  n.indices.count = 0;
  expect_bad(IR_OP_INDEX, &n, "indices is empty");
}

static void updates(void **state) {
  (void)state;
  fixture_reset();
  uint32_t x = slot(DTYPE_F32, 2, 8, 4), two = slot(DTYPE_F32, 2, 2, 4), pos = int_value(false, 0),
           at6 = int_value(true, 6), at7 = int_value(true, 7);
  ir_slice_update s = {.x = x, .update = two, .axis = 0, .start = val(pos), .out = x};
  expect_good(IR_OP_SLICE_UPDATE, &s);
  s.start = val(at6);
  expect_good(IR_OP_SLICE_UPDATE, &s);
  s.start = val(at7);
  expect_bad(IR_OP_SLICE_UPDATE, &s, "update of 2 at 7 does not fit axis 0 of size 8");
  s.start = lit(-1);
  expect_bad(IR_OP_SLICE_UPDATE, &s, "start: expected 0 or more, got -1");
  s.start = lit(INT64_MAX);
  expect_bad(IR_OP_SLICE_UPDATE, &s, "does not fit");
  s.update = slot(DTYPE_F32, 2, 9, 4), s.start = val(pos);
  expect_bad(IR_OP_SLICE_UPDATE, &s, "update of 9 at 0 does not fit");
  s.update = slot(DTYPE_F32, 2, 2, 3);
  expect_bad(IR_OP_SLICE_UPDATE, &s, "update: expected F32 (?, 4), got F32 (2, 3)");
  ir_index_copy c = {.x = x, .axis = -2, .index = slot(DTYPE_I32, 1, 2), .source = two, .out = x};
  expect_good(IR_OP_INDEX_COPY, &c);
  c.index = slot(DTYPE_I32, 1, 3);
  expect_bad(IR_OP_INDEX_COPY, &c, "source: expected F32 (3, 4), got F32 (2, 4)");
  c.index = slot(DTYPE_I32, 2, 1, 2);
  expect_bad(IR_OP_INDEX_COPY, &c, "index: expected rank 1, got 2");
}

static void transformers(void **state) {
  (void)state;
  fixture_reset();
  uint32_t q = slot(DTYPE_F32, 4, 2, 8, 5, 16), k = slot(DTYPE_F32, 4, 2, 2, -1, 16),
           v = slot(DTYPE_F32, 4, 2, 2, 9, 12);
  ir_attention a = {.q = q,
                    .k = k,
                    .v = v,
                    .mask = slot(DTYPE_BOOL, 2, 5, 9),
                    .out = slot(DTYPE_F32, 4, 2, 8, 5, 12)};
  expect_good(IR_OP_ATTENTION, &a);
  a.mask = slot(DTYPE_F32, 4, 2, 1, 5, 8);
  expect_bad(IR_OP_ATTENTION, &a, "mask (2, 1, 5, 8) does not broadcast to (2, 8, 5, 9)");
  a.mask = slot(DTYPE_I32, 2, 5, 9);
  expect_bad(IR_OP_ATTENTION, &a, "mask: expected BOOL or F32, got I32");
  a.mask = IR_NONE, a.scale = (ir_opt_f64){NAN, true};
  expect_bad(IR_OP_ATTENTION, &a, "scale: expected a finite number, got nan");
  a.k = slot(DTYPE_F32, 4, 2, 3, 9, 16), a.v = slot(DTYPE_F32, 4, 2, 3, 9, 12);
  expect_bad(IR_OP_ATTENTION, &a, "q: expected a multiple of k's 3 heads, got 8");
  a.v = slot(DTYPE_F32, 4, 2, 3, 8, 12);
  expect_bad(IR_OP_ATTENTION, &a, "v: expected F32 (2, 3, 9, ?), got F32 (2, 3, 8, 12)");
  a.k = slot(DTYPE_F32, 4, 2, 2, 9, 8);
  expect_bad(IR_OP_ATTENTION, &a, "k: expected F32 (2, ?, ?, 16), got F32 (2, 2, 9, 8)");
  ir_rope r = {.x = slot(DTYPE_F32, 4, 1, 5, 2, 6),
               .cos = slot(DTYPE_F32, 2, 5, 3),
               .sin = slot(DTYPE_F32, 2, 5, 3),
               .out = slot(DTYPE_F32, 4, 1, 5, 2, 6)};
  expect_good(IR_OP_ROPE, &r);
  r.sin = slot(DTYPE_F32, 2, 5, 6);
  expect_bad(IR_OP_ROPE, &r, "sin: expected F32 (5, 3), got F32 (5, 6)");
  r.cos = slot(DTYPE_F32, 3, 1, 5, 3), r.sin = slot(DTYPE_F32, 3, 1, 5, 3);
  expect_good(IR_OP_ROPE, &r);
  r.sin = slot(DTYPE_F32, 2, 5, 3);
  expect_bad(IR_OP_ROPE, &r, "sin: expected F32 (1, 5, 3), got F32 (5, 3)");
  r.cos = slot(DTYPE_F32, 3, 2, 5, 3);
  expect_bad(IR_OP_ROPE, &r, "cos: expected F32 (1, 5, 3), got F32 (2, 5, 3)");
  r.cos = slot(DTYPE_F32, 4, 1, 1, 5, 3);
  expect_bad(IR_OP_ROPE, &r, "cos: expected F32 (1, 5, 3), got F32 (1, 1, 5, 3)");
  r.x = slot(DTYPE_F32, 3, 5, 2, 7);
  expect_bad(IR_OP_ROPE, &r, "head_dim: expected an even number, got 7");
}

static void control_flow(void **state) {
  (void)state;
  fixture_reset();
  uint32_t a = slot(DTYPE_F32, 1, 4), b = slot(DTYPE_F32, 1, 4), flag = slot(DTYPE_BOOL, 0),
           i = slot(DTYPE_I64, 0);
  uint32_t xs = slot(DTYPE_I64, 1, 6), ys = slot(DTYPE_F32, 2, 6, 4), x7 = slot(DTYPE_I64, 1, 7);
  uint32_t yes = other_value(IR_VALUE_TYPE_BOOL), n = int_value(false, 0);
  ir_chain chains[3] = {{.args = TIDS(a), .results = TIDS(b)},
                        {.args = TIDS(a), .results = TIDS(flag)},
                        {.args = TIDS(a, i, a), .results = TIDS(b, b)}};
  fix.program.chains.items = chains;
  fix.program.chains.count = 3;
  ir_if f = {.condition = yes,
             .then_chain = 0,
             .else_chain = 0,
             .args = TIDS(a),
             .results = TIDS(b),
             .predicate = IR_NONE};
  expect_good(IR_OP_IF, &f);
  f.predicate = flag;
  expect_bad(IR_OP_IF, &f, "expected a condition or a predicate, one of both");
  f.condition = IR_NONE;
  expect_good(IR_OP_IF, &f);
  f.predicate = i;
  expect_bad(IR_OP_IF, &f, "predicate: expected BOOL (), got I64 ()");
  f.condition = yes, f.predicate = IR_NONE;
  f.else_chain = 3;
  expect_bad(IR_OP_IF, &f, "else_chain is 3, the program has 3 chains");
  f.else_chain = 1;
  expect_bad(IR_OP_IF, &f, "results: expected F32 (4), got BOOL (); chain results 0; else_chain");
  f.condition = n;
  expect_bad(IR_OP_IF, &f, "condition: expected a bool, got value 1");
  ir_while w = {.condition_chain = 1, .body_chain = 0, .args = TIDS(a), .results = TIDS(b)};
  expect_good(IR_OP_WHILE, &w);
  w.condition_chain = 0;
  expect_bad(IR_OP_WHILE, &w, "results: expected BOOL (), got F32 (4); condition_chain");
  w.results.count = 0;
  expect_bad(IR_OP_WHILE, &w, "results: expected 1 like args, got 0");
  ir_scan s = {
      .body_chain = 2, .carries = TIDS(a), .xs = TIDS(xs), .args = TIDS(a), .results = TIDS(b, ys)};
  expect_good(IR_OP_SCAN, &s);
  s.xs = (ir_u32s)TIDS(x7);
  expect_bad(IR_OP_SCAN, &s, "expected 7 steps, got 6");
  s.xs = (ir_u32s)TIDS(xs), s.results = (ir_u32s)TIDS(b);
  expect_bad(IR_OP_SCAN, &s, "the chain's results: expected 1, got 2");
  s.args.count = 0;
  expect_bad(IR_OP_SCAN, &s, "the chain's args: expected 2, got 3");
  s.xs.count = 0;
  expect_bad(IR_OP_SCAN, &s, "there are no xs, so the number of steps is unknown");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reductions),
      cmocka_unit_test(reductions_to_indices),
      cmocka_unit_test(norms),
      cmocka_unit_test(products),
      cmocka_unit_test(convolutions),
      cmocka_unit_test(integer_convolutions),
      cmocka_unit_test(integer_products),
      cmocka_unit_test(transposed_convolutions),
      cmocka_unit_test(pool_sizes),
      cmocka_unit_test(pools),
      cmocka_unit_test(indexing),
      cmocka_unit_test(updates),
      cmocka_unit_test(transformers),
      cmocka_unit_test(control_flow),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
