/* Compares counts of operations and bytes with counts by hand: a multiply-add is two operations, an
 * elementwise step one. */
#include "ops/work.h"

#include "ops/fixture.h"

typedef struct counted {
  ir_op type;
  void *op;
  const work_counts *counts;
  int n_counts;
  double flops, bytes;
} counted;

static op_work work_of(const counted *counted) {
  bound_tensor tensors[FIXTURE_SLOTS] = {0};
  const ir_instruction ins = {.op_type = counted->type, .op = counted->op, .name = "node"};
  for (uint32_t i = 0; i < fix.program.tensors.count; i++)
    tensors[i] = (bound_tensor){.tensor = fix.tensors[i], .slot = i};
  const node node = {.instruction = &ins, .tensors = tensors};
  return measure_work(&(work_node){&node, counted->counts, counted->n_counts});
}

static void expect(const counted *counted) {
  const op_work work = work_of(counted);
  if (work.flops != counted->flops || work.bytes != counted->bytes) {
    print_error("%s: %.17g FLOP, %.17g bytes; expected %.17g and %.17g\n",
                op_table[counted->type].name, work.flops, work.bytes, counted->flops,
                counted->bytes);
    fail();
  }
}

#define EXPECT(ir, o, ...) expect(&(counted){.type = IR_OP_##ir, .op = (o), __VA_ARGS__})

/* ---------------------------------------------------------------- elements */

static ir_step step_of(ir_step_kind kind) { return (ir_step){.kind = kind}; }

/* All steps of a fused node count; copies and casts do not. */
static void steps_count_once(void **state) {
  (void)state;
  fixture_reset();
  uint32_t a = slot(DTYPE_F32, 2, 5, 7), b = slot(DTYPE_F32, 1, 7), out = slot(DTYPE_F16, 2, 5, 7);
  ir_step steps[] = {step_of(IR_STEP_KIND_MUL), step_of(IR_STEP_KIND_ADD),
                     step_of(IR_STEP_KIND_EXP), step_of(IR_STEP_KIND_COPY),
                     step_of(IR_STEP_KIND_CAST)};
  ir_elementwise op = {.inputs = TIDS(a, b), .steps = {steps, 5}, .out = out};
  EXPECT(ELEMENTWISE, &op, .flops = 3 * 35, .bytes = 4 * 35 + 4 * 7 + 2 * 35);
}

/* Elements that broadcasting or overlapping windows repeat are counted once. */
static void views_are_read_once(void **state) {
  (void)state;
  fixture_reset();
  uint32_t a = slot(DTYPE_F32, 2, 5, 7), b = slot(DTYPE_F32, 2, 6, 4), out = slot(DTYPE_F32, 1, 1);
  ir_step steps[] = {step_of(IR_STEP_KIND_NEG)};
  ir_elementwise op = {.inputs = TIDS(a), .steps = {steps, 1}, .out = out};
  fix.tensors[a].strides[0] = 0;
  EXPECT(ELEMENTWISE, &op, .flops = 1, .bytes = 4 * 7 + 4);
  fix.tensors[a].strides[1] = 100; /* and far apart */
  EXPECT(ELEMENTWISE, &op, .flops = 1, .bytes = 4 * 7 + 4);
  op.inputs.items[0] = b;
  fix.tensors[b].strides[0] = 1; /* windows of 4 every element: 9 elements */
  EXPECT(ELEMENTWISE, &op, .flops = 1, .bytes = 4 * 9 + 4);
  fix.tensors[b].strides[0] = -4;
  EXPECT(ELEMENTWISE, &op, .flops = 1, .bytes = 4 * 24 + 4);
}

static void nothing_is_no_work(void **state) {
  (void)state;
  fixture_reset();
  uint32_t a = slot(DTYPE_F32, 2, 0, 7), b = slot(DTYPE_F32, 2, 7, 3),
           out = slot(DTYPE_F32, 2, 0, 3), x = slot(DTYPE_F32, 2, 0, 4),
           index = slot(DTYPE_I64, 1, 0);
  ir_matmul product = {.a = a, .b = b, .bias = IR_NONE, .out = out};
  EXPECT(MATMUL, &product, .flops = 0, .bytes = 4 * 21);
  ir_index_select pick = {.x = x, .index = index, .out = x};
  EXPECT(INDEX_SELECT, &pick, .flops = 0, .bytes = 0);
}

/* ---------------------------------------------------------------- sums and norms */

static void reductions_and_norms(void **state) {
  (void)state;
  fixture_reset();
  uint32_t x = slot(DTYPE_F32, 2, 3, 8), row = slot(DTYPE_F32, 1, 8), out = slot(DTYPE_F32, 1, 3);
  ir_reduce sum = {.kind = IR_REDUCE_KIND_SUM, .x = x, .out = out};
  EXPECT(REDUCE, &sum, .flops = 24, .bytes = 4 * 27);
  sum.kind = IR_REDUCE_KIND_VAR;
  EXPECT(REDUCE, &sum, .flops = 4 * 24, .bytes = 4 * 27);
  sum.kind = IR_REDUCE_KIND_NORM2;
  EXPECT(REDUCE, &sum, .flops = 2 * 24, .bytes = 4 * 27);
  ir_softmax soft = {.x = x, .axis = 1, .out = x};
  EXPECT(SOFTMAX, &soft, .flops = 5 * 24, .bytes = 8 * 24);
  ir_layer_norm norm = {.x = x, .weight = row, .bias = row, .n_axes = 1, .out = x};
  EXPECT(LAYER_NORM, &norm, .flops = 7 * 24, .bytes = 8 * 24 + 8 * 8);
  norm.bias = IR_NONE;
  EXPECT(LAYER_NORM, &norm, .flops = 6 * 24, .bytes = 8 * 24 + 4 * 8);
  ir_rms_norm rms = {.x = x, .weight = row, .n_axes = 1, .out = x};
  EXPECT(RMS_NORM, &rms, .flops = 4 * 24, .bytes = 8 * 24 + 4 * 8);
  ir_sort sort = {.x = x, .axis = 1, .out = x, .indices = IR_NONE};
  EXPECT(SORT, &sort, .flops = 24 * 3, .bytes = 8 * 24);
}

static void transforms(void **state) {
  (void)state;
  fixture_reset();
  uint32_t c = slot(DTYPE_F32, 3, 3, 16, 2), r = slot(DTYPE_F32, 2, 3, 16),
           half = slot(DTYPE_F32, 3, 3, 9, 2);
  ir_fft op = {.x = c, .axis = -1, .kind = IR_FFT_KIND_COMPLEX, .out = c};
  EXPECT(FFT, &op, .flops = 3 * 5 * 16 * 4, .bytes = 2 * 4 * 96);
  op = (ir_fft){.x = r, .axis = 1, .kind = IR_FFT_KIND_FROM_REAL, .out = half};
  EXPECT(FFT, &op, .flops = 3 * 2.5 * 16 * 4, .bytes = 4 * 48 + 4 * 54);
  op = (ir_fft){.x = half, .axis = 1, .kind = IR_FFT_KIND_TO_REAL, .out = r};
  EXPECT(FFT, &op, .flops = 3 * 2.5 * 16 * 4, .bytes = 4 * 48 + 4 * 54);
}

static void samples(void **state) {
  (void)state;
  fixture_reset();
  uint32_t x = slot(DTYPE_F32, 4, 1, 2, 8, 6), wide = slot(DTYPE_F32, 4, 1, 2, 8, 12),
           small = slot(DTYPE_F32, 4, 1, 2, 2, 6), grid = slot(DTYPE_F32, 4, 1, 2, 6, 2);
  ir_upsample up = {.x = x, .mode = IR_UPSAMPLE_MODE_LINEAR, .out = wide};
  EXPECT(UPSAMPLE, &up, .flops = 192 * 2 * 2, .bytes = 4 * (96 + 192));
  up.mode = IR_UPSAMPLE_MODE_NEAREST;
  EXPECT(UPSAMPLE, &up, .flops = 0, .bytes = 4 * (96 + 192));
  up = (ir_upsample){.x = x, .mode = IR_UPSAMPLE_MODE_CUBIC, .antialias = true, .out = small};
  EXPECT(UPSAMPLE, &up, .flops = 24 * 2 * 16, .bytes = 4 * (96 + 24));
  ir_grid_sample at = {.x = x, .grid = grid, .mode = IR_GRID_SAMPLE_MODE_BICUBIC, .out = small};
  EXPECT(GRID_SAMPLE, &at, .flops = 24 * 2 * 16, .bytes = 4 * (96 + 24 + 24));
  at.mode = IR_GRID_SAMPLE_MODE_BILINEAR;
  EXPECT(GRID_SAMPLE, &at, .flops = 24 * 2 * 4, .bytes = 4 * (96 + 24 + 24));
}

/* ---------------------------------------------------------------- products */

static void products(void **state) {
  (void)state;
  fixture_reset();
  uint32_t a = slot(DTYPE_F32, 3, 2, 3, 5), b = slot(DTYPE_F16, 2, 5, 7),
           bias = slot(DTYPE_F32, 1, 7), out = slot(DTYPE_F32, 3, 2, 3, 7);
  ir_step steps[] = {step_of(IR_STEP_KIND_RELU)};
  ir_matmul op = {.a = a, .b = b, .bias = bias, .out = out, .epilogue = {steps, 1}};
  EXPECT(MATMUL, &op, .flops = 2 * 42 * 5 + 42, .bytes = 4 * 30 + 2 * 35 + 4 * 7 + 4 * 42);
}

/* Encoded weights count with their stored size: a Q8_0 block of 32 weights is 34 bytes. */
static void encoded_products(void **state) {
  (void)state;
  fixture_reset();
  uint32_t a = slot(DTYPE_F32, 2, 1, 64), b = slot(DTYPE_F32, 2, 6, 64),
           out = slot(DTYPE_F32, 2, 1, 6);
  uint32_t index = slot(DTYPE_I64, 1, 3), rows = slot(DTYPE_F32, 2, 3, 64);
  assert_true(encoding_parse("Q8_0", &fix.tensors[b].encoding));
  fix.tensors[b].encoding.axis = 1;
  ir_matmul op = {.a = a, .b = b, .bias = IR_NONE, .out = out, .b_transposed = true};
  EXPECT(MATMUL, &op, .flops = 2 * 6 * 64, .bytes = 4 * 64 + 6 * 2 * 34 + 4 * 6);
  ir_index_select pick = {.x = b, .axis = 0, .index = index, .out = rows};
  EXPECT(INDEX_SELECT, &pick, .flops = 0, .bytes = 3 * 2 * 34 + 8 * 3 + 4 * 192);
}

static void convolutions(void **state) {
  (void)state;
  fixture_reset();
  uint32_t x = slot(DTYPE_F32, 4, 2, 6, 8, 8), w = slot(DTYPE_F32, 4, 9, 2, 3, 5),
           out = slot(DTYPE_F32, 4, 2, 9, 8, 8);
  ir_conv conv = {.x = x, .weight = w, .bias = IR_NONE, .groups = 3, .out = out};
  EXPECT(CONV, &conv, .flops = 2 * 1152.0 * 30, .bytes = 4 * (768 + 270 + 1152));
  uint32_t back = slot(DTYPE_F32, 4, 6, 4, 3, 5), large = slot(DTYPE_F32, 4, 2, 4, 10, 12);
  ir_conv_transpose t = {.x = x, .weight = back, .bias = IR_NONE, .groups = 1, .out = large};
  EXPECT(CONV_TRANSPOSE, &t, .flops = 2 * 768.0 * 60, .bytes = 4 * (768 + 360 + 960));
  ir_pool pool = {
      .x = x, .kernel = I32S(2, 2), .out = slot(DTYPE_F32, 4, 2, 6, 4, 4), .indices = IR_NONE};
  EXPECT(POOL, &pool, .flops = 192 * 4, .bytes = 4 * (768 + 192));
}

/* Rows after the last end are in no group; groups without rows are not read. */
static void groups_of_rows(void **state) {
  (void)state;
  fixture_reset();
  uint32_t a = slot(DTYPE_F32, 2, 10, 4), b = slot(DTYPE_F32, 3, 3, 4, 5),
           ends = slot(DTYPE_I32, 1, 3), out = slot(DTYPE_F32, 2, 10, 5);
  const int32_t values[] = {4, 4, 7};
  const work_counts known = {.tid = ends, .type = DTYPE_I32, .n = 3, .items = values};
  ir_grouped_matmul op = {.a = a, .b = b, .ends = ends, .out = out};
  EXPECT(GROUPED_MATMUL, &op, .counts = &known, .n_counts = 1, .flops = 2 * 7 * 4 * 5,
         .bytes = 4 * 40 + 2 * 80 + 12 + 4 * 50);
  EXPECT(GROUPED_MATMUL, &op, .flops = 2 * 10 * 4 * 5, .bytes = 4 * 40 + 3 * 80 + 12 + 4 * 50);
}

static void matrices(void **state) {
  (void)state;
  fixture_reset();
  uint32_t x = slot(DTYPE_F64, 3, 2, 6, 6), pivots = slot(DTYPE_I32, 2, 2, 6);
  ir_linalg op = {
      .kind = IR_LINALG_KIND_LU, .x = x, .out = x, .b = pivots, .c = IR_NONE, .info = IR_NONE};
  EXPECT(LINALG, &op, .flops = 2 * 2 * 216 / 3.0, .bytes = 8 * 144 + 4 * 12);
  op.kind = IR_LINALG_KIND_CHOLESKY;
  EXPECT(LINALG, &op, .flops = 2 * 216 / 3.0, .bytes = 8 * 144 + 4 * 12);
}

/* ---------------------------------------------------------------- attention */

static void plain_attention(void **state) {
  (void)state;
  fixture_reset();
  uint32_t q = slot(DTYPE_F32, 4, 2, 4, 3, 8), k = slot(DTYPE_F32, 4, 2, 2, 5, 8),
           v = slot(DTYPE_F32, 4, 2, 2, 5, 6), out = slot(DTYPE_F32, 4, 2, 4, 3, 6);
  const double bytes = 4 * (192 + 160 + 120 + 144);
  ir_attention op = {.q = q, .k = k, .v = v, .mask = IR_NONE, .out = out};
  EXPECT(ATTENTION, &op, .flops = 2 * 8 * 15 * 14, .bytes = bytes);
  op.causal = true; /* queries see 1, 2 and 3 keys */
  EXPECT(ATTENTION, &op, .flops = 2 * 8 * 6 * 14, .bytes = bytes);
  uint32_t few = slot(DTYPE_F32, 4, 2, 2, 2, 8), values = slot(DTYPE_F32, 4, 2, 2, 2, 6);
  op.k = few;
  op.v = values; /* 1, 2 and 2 */
  EXPECT(ATTENTION, &op, .flops = 2 * 8 * 5 * 14, .bytes = 4 * (192 + 64 + 48 + 144));
}

/* Two tokens at positions 10 and 11 of a cache of 32 rows; 2 query heads share one cached head. */
static void cached_attention(void **state) {
  (void)state;
  fixture_reset();
  uint32_t q = slot(DTYPE_F32, 4, 1, 2, 2, 8), k = slot(DTYPE_F32, 4, 1, 1, 2, 8),
           at = slot(DTYPE_I64, 1, 1), cache = slot(DTYPE_F16, 4, 1, 1, 32, 8);
  const int64_t position = 10;
  const work_counts known = {.tid = at, .type = DTYPE_I64, .n = 1, .items = &position};
  ir_attention_cached op = {.q = q,
                            .k = k,
                            .v = k,
                            .position = at,
                            .key_cache = cache,
                            .value_cache = cache,
                            .key_scale = IR_NONE,
                            .value_scale = IR_NONE,
                            .out = q,
                            .key_cache_out = cache,
                            .value_cache_out = cache,
                            .sinks = IR_NONE};
  const double around = 4 * (32 + 16 + 16 + 32);
  EXPECT(ATTENTION_CACHED, &op, .counts = &known, .n_counts = 1, .flops = 2 * 2 * (11 + 12) * 16,
         .bytes = around + 2 * (2 * 8 * (12 + 2)));
  op.window = (ir_opt_i64){.value = 4, .present = true};
  EXPECT(ATTENTION_CACHED, &op, .counts = &known, .n_counts = 1, .flops = 2 * 2 * (4 + 4) * 16,
         .bytes = around + 2 * (2 * 8 * (5 + 2)));
  op.window.present = false; /* the maximum is counted: the last positions of the cache */
  EXPECT(ATTENTION_CACHED, &op, .flops = 2 * 2 * (31 + 32) * 16,
         .bytes = around + 2 * (2 * 8 * (32 + 2)));
}

/* Three tokens: two of sequence 1 at 4 and 5, one of sequence 0 at 20. */
static void paged_attention(void **state) {
  (void)state;
  fixture_reset();
  uint32_t q = slot(DTYPE_F32, 4, 1, 2, 3, 8), k = slot(DTYPE_F32, 4, 1, 1, 3, 8),
           at = slot(DTYPE_I64, 1, 3), of = slot(DTYPE_I32, 1, 3), table = slot(DTYPE_I32, 2, 2, 4),
           cache = slot(DTYPE_F32, 4, 8, 1, 16, 8);
  const int64_t positions[] = {4, 5, 20};
  const int32_t sequences[] = {1, 1, 0};
  const work_counts known[] = {{at, DTYPE_I64, 3, positions}, {of, DTYPE_I32, 3, sequences}};
  ir_attention_paged op = {.q = q,
                           .k = k,
                           .v = k,
                           .position = at,
                           .sequence = of,
                           .page_table = table,
                           .key_cache = cache,
                           .value_cache = cache,
                           .key_scale = IR_NONE,
                           .value_scale = IR_NONE,
                           .out = q,
                           .key_cache_out = cache,
                           .value_cache_out = cache,
                           .sinks = IR_NONE};
  EXPECT(ATTENTION_PAGED, &op, .counts = known, .n_counts = 2, .flops = 2 * 2 * (5 + 6 + 21) * 16,
         .bytes = 4 * (48 + 24 + 24 + 48) + 2 * (4 * 8 * (6 + 21 + 3)));
}

/* ---------------------------------------------------------------- moves */

/* Updates are in place: only the elements that change are counted. */
static void updates(void **state) {
  (void)state;
  fixture_reset();
  uint32_t x = slot(DTYPE_F32, 2, 100, 8), part = slot(DTYPE_F32, 2, 3, 8),
           index = slot(DTYPE_I64, 2, 3, 8);
  ir_slice_update slice = {.x = x, .update = part, .out = x};
  EXPECT(SLICE_UPDATE, &slice, .flops = 0, .bytes = 2 * 4 * 24);
  ir_scatter scatter = {
      .kind = IR_SCATTER_KIND_ADD, .x = x, .index = index, .source = part, .out = x};
  EXPECT(SCATTER, &scatter, .flops = 24, .bytes = 8 * 24 + 3 * 4 * 24);
  scatter.kind = IR_SCATTER_KIND_ASSIGN;
  EXPECT(SCATTER, &scatter, .flops = 0, .bytes = 8 * 24 + 2 * 4 * 24);
}

/* The operations of a user's custom kernel are unknown (-1). */
static void custom_kernels(void **state) {
  (void)state;
  fixture_reset();
  uint32_t x = slot(DTYPE_F32, 1, 6);
  ir_custom op = {.target = "mine", .args = TIDS(x), .results = TIDS(x)};
  EXPECT(CUSTOM, &op, .flops = -1, .bytes = 48);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(steps_count_once),
      cmocka_unit_test(views_are_read_once),
      cmocka_unit_test(nothing_is_no_work),
      cmocka_unit_test(reductions_and_norms),
      cmocka_unit_test(transforms),
      cmocka_unit_test(samples),
      cmocka_unit_test(products),
      cmocka_unit_test(encoded_products),
      cmocka_unit_test(convolutions),
      cmocka_unit_test(groups_of_rows),
      cmocka_unit_test(matrices),
      cmocka_unit_test(plain_attention),
      cmocka_unit_test(cached_attention),
      cmocka_unit_test(paged_attention),
      cmocka_unit_test(updates),
      cmocka_unit_test(custom_kernels),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
