/* Normal forms of ops, checked here because they affect a backend's work but not its results. */
#include "ops/conv.h"
#include "ops/fixture.h"
#include "ops/matmul.h"

/* A node of the fixture's slots. */
typedef struct forms_node {
  bound_tensor tensors[FIXTURE_SLOTS];
  ir_instruction instruction;
  node n;
} forms_node;

static const node *make_node(forms_node *made, ir_op type, void *op) {
  *made = (forms_node){.instruction = {.op_type = type, .op = op, .name = "node"}};
  for (uint32_t i = 0; i < fix.program.tensors.count; i++)
    made->tensors[i] = (bound_tensor){.tensor = fix.tensors[i], .slot = i};
  made->n = (node){.instruction = &made->instruction, .tensors = made->tensors};
  return &made->n;
}

/* Describes a matmul; the form points into a static node and is valid until the next call. */
static matmul_desc form_of(uint32_t a, uint32_t b, uint32_t bias, uint32_t out, double beta) {
  static forms_node made;
  matmul_desc desc;
  ir_matmul op = {.a = a, .b = b, .bias = bias, .out = out, .alpha = 1, .beta = beta};
  describe_matmul(make_node(&made, IR_OP_MATMUL, &op), &desc);
  return desc;
}

static void expect_product(const matmul_desc *desc, int64_t batches, int64_t m, int64_t n,
                           int64_t k) {
  assert_int_equal(desc->batches, batches);
  assert_int_equal(desc->m, m);
  assert_int_equal(desc->n, n);
  assert_int_equal(desc->k, k);
  assert_int_equal(desc->batch_a.rank, desc->batch_b.rank);
  assert_int_equal(desc->batch_a.rank, desc->batch_bias.rank);
}

/* Batches that share a b become rows: all of them, or the innermost. */
static void batches_become_rows(void **state) {
  (void)state;
  fixture_reset();
  uint32_t a = slot(DTYPE_F32, 4, 2, 3, 4, 5), b = slot(DTYPE_F32, 2, 5, 6),
           out = slot(DTYPE_F32, 4, 2, 3, 4, 6), some = slot(DTYPE_F32, 4, 2, 1, 5, 6);
  matmul_desc desc = form_of(a, b, IR_NONE, out, 1);
  expect_product(&desc, 1, 24, 6, 5);
  assert_int_equal(desc.a_m, 5);
  desc = form_of(a, some, IR_NONE, out, 1);
  expect_product(&desc, 2, 12, 6, 5);
  assert_int_equal(desc.batch_a.strides[0], 60);
  assert_int_equal(desc.batch_b.strides[0], 30);
}

/* If batches have single rows, the batch's stride becomes the row stride; uneven batches stay. */
static void rows_step_evenly(void **state) {
  (void)state;
  fixture_reset();
  uint32_t a = slot(DTYPE_F32, 3, 3, 1, 5), b = slot(DTYPE_F32, 2, 5, 6),
           out = slot(DTYPE_F32, 3, 3, 1, 6), tall = slot(DTYPE_F32, 3, 3, 4, 5),
           all = slot(DTYPE_F32, 3, 3, 4, 6);
  fix.tensors[a].strides[0] = 7;
  fix.tensors[tall].strides[0] = 28;
  matmul_desc desc = form_of(a, b, IR_NONE, out, 1);
  expect_product(&desc, 1, 3, 6, 5);
  assert_int_equal(desc.a_m, 7);
  desc = form_of(tall, b, IR_NONE, all, 1);
  expect_product(&desc, 3, 4, 6, 5);
}

/* A bias that all rows share is kept when batches become rows; a beta of 0 removes the bias. */
static void bias_goes_along(void **state) {
  (void)state;
  fixture_reset();
  uint32_t a = slot(DTYPE_F32, 3, 3, 4, 5), b = slot(DTYPE_F32, 2, 5, 6),
           out = slot(DTYPE_F32, 3, 3, 4, 6), row = slot(DTYPE_F32, 1, 6),
           matrix = slot(DTYPE_F32, 2, 4, 6);
  matmul_desc desc = form_of(a, b, row, out, 1);
  expect_product(&desc, 1, 12, 6, 5);
  assert_int_equal(desc.bias_m, 0);
  assert_int_equal(desc.bias_n, 1);
  desc = form_of(a, b, matrix, out, 1);
  expect_product(&desc, 3, 4, 6, 5);
  assert_int_equal(desc.bias_m, 6);
  desc = form_of(a, b, matrix, out, 0);
  expect_product(&desc, 1, 12, 6, 5);
  assert_null(desc.bias);
}

/* A product with one column becomes one with one row, of transposed operands. */
static void a_column_is_a_row(void **state) {
  (void)state;
  fixture_reset();
  uint32_t a = slot(DTYPE_F32, 2, 4, 5), b = slot(DTYPE_F32, 2, 5, 1),
           out = slot(DTYPE_F32, 2, 4, 1), bias = slot(DTYPE_F32, 2, 4, 1);
  matmul_desc desc = form_of(a, b, bias, out, 1);
  expect_product(&desc, 1, 1, 4, 5);
  assert_int_equal(desc.a->slot, b);
  assert_int_equal(desc.b->slot, a);
  assert_int_equal(desc.b_k, 1);
  assert_int_equal(desc.b_n, 5);
  assert_int_equal(desc.bias_n, 1);
}

/* A transposed convolution with a large stride has as many phases as outputs. Taps of a phase are
 * stride / gcd(stride, dilation) apart. */
static void transposed_convolution_has_phases(void **state) {
  (void)state;
  fixture_reset();
  forms_node made;
  conv_desc desc;
  uint32_t x = slot(DTYPE_F32, 4, 2, 6, 1, 5), w = slot(DTYPE_F32, 4, 6, 4, 2, 3),
           out = slot(DTYPE_F32, 4, 2, 8, 2, 29);
  ir_conv_transpose op = {.x = x,
                          .weight = w,
                          .bias = IR_NONE,
                          .out = out,
                          .stride = I32S(3, 6),
                          .padding = I32S(0, 2),
                          .output_padding = I32S(0, 0),
                          .dilation = I32S(1, 4),
                          .groups = 2};
  describe_conv_transpose(make_node(&made, IR_OP_CONV_TRANSPOSE, &op), &desc);
  assert_int_equal(desc.channels, 3);
  assert_int_equal(desc.outputs, 4);
  assert_int_equal(desc.dims[0].kernel, 1);
  assert_int_equal(desc.dims[0].stride, 1);
  assert_int_equal(desc.dims[1].phases, 2);
  assert_int_equal(desc.dims[1].tap_step, 3);
  assert_int_equal(desc.dims[2].phases, 6);
  assert_int_equal(desc.dims[2].tap_step, 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(batches_become_rows),
      cmocka_unit_test(rows_step_evenly),
      cmocka_unit_test(bias_goes_along),
      cmocka_unit_test(a_column_is_a_row),
      cmocka_unit_test(transposed_convolution_has_phases),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
