/* Dtypes for storage only: some ops accept them, and every other refuses them by name. */
#include <stdio.h>

#include "ops/fixture.h"

static const dtype stored[] = {DTYPE_U16, DTYPE_U32, DTYPE_U64, DTYPE_F8_E4M3, DTYPE_F8_E5M2};
enum { N_STORED = sizeof stored / sizeof *stored };

/* An op with slot 0 in every tensor field: the dtype is refused before other checks. */
static void every_other_op_refuses(void **state) {
  (void)state;
  int refused = 0;
  uint32_t none[1] = {0};
  for (int k = 0; k < N_STORED; k++) {
    fixture_reset();
    (void)slot(stored[k], 1, 3);
    for (int op_type = 1; op_type < IR_OP_COUNT; op_type++) {
      const op_info *info = &op_table[op_type];
      union {
        max_align_t align;
        char bytes[512];
      } op = {.bytes = {0}};
      bool has_tensor = false;
      for (uint32_t i = 0; i < info->table->n_fields; i++) {
        const ir_field *field = &info->table->fields[i];
        has_tensor |= field->kind == IR_FIELD_TID || field->kind == IR_FIELD_TIDS;
        if (field->kind == IR_FIELD_TIDS)
          *(ir_u32s *)(void *)(op.bytes + field->offset) = (ir_u32s){none, 1};
      }
      bool accepts =
          info->moves || info->is_view || info->is_control || op_type == IR_OP_ELEMENTWISE;
      if (accepts || !has_tensor) continue;
      char text[80];
      snprintf(text, sizeof text, "is %s, which is only moved and cast", dtype_name(stored[k]));
      expect_bad((ir_op)op_type, op.bytes, text);
      refused++;
    }
  }
  assert_in_range(refused, 30 * N_STORED, IR_OP_COUNT * N_STORED);
}

static void what_moves_takes_them(void **state) {
  (void)state;
  for (int k = 0; k < N_STORED; k++) {
    fixture_reset();
    dtype t = stored[k];
    uint32_t x = slot(t, 2, 3, 4), two = slot(t, 2, 6, 4), row = slot(t, 2, 2, 4),
             wide = slot(t, 2, 3, 6), i = slot(DTYPE_I64, 1, 2), places = slot(DTYPE_I64, 2, 3, 4),
             flat = slot(t, 1, 12), turned = slot(t, 2, 4, 3);
    expect_good(IR_OP_COPY, &(ir_copy){.x = x, .out = x});
    expect_good(IR_OP_CAT, &(ir_cat){.xs = TIDS(x, x), .axis = 0, .out = two});
    expect_good(IR_OP_RESHAPE, &(ir_reshape){.x = x, .shape = INTS(lit(12)), .out = flat});
    expect_good(IR_OP_PERMUTE, &(ir_permute){.x = x, .dims = I32S(1, 0), .out = turned});
    expect_good(IR_OP_TRIANGLE, &(ir_triangle){.x = x, .out = x});
    expect_good(IR_OP_INDEX_SELECT, &(ir_index_select){.x = x, .index = i, .out = row});
    expect_good(IR_OP_INDEX, &(ir_index){.x = x, .indices = TIDS(i), .axes = I32S(0), .out = row});
    expect_good(IR_OP_GATHER, &(ir_gather){.x = x, .index = places, .out = x});
    ir_slice_update update = {.x = x, .update = row, .start = lit(1), .out = x};
    expect_good(IR_OP_SLICE_UPDATE, &update);
    expect_good(IR_OP_INDEX_COPY, &(ir_index_copy){.x = x, .index = i, .source = row, .out = x});
    ir_pad pad = {.x = x,
                  .before = INTS(lit(0), lit(1)),
                  .after = INTS(lit(0), lit(1)),
                  .value = 7,
                  .out = wide};
    expect_good(IR_OP_PAD, &pad);
    ir_scatter scatter = {.x = x, .index = places, .source = x, .out = x};
    expect_good(IR_OP_SCATTER, &scatter);
    scatter.kind = IR_SCATTER_KIND_ADD;
    expect_bad(IR_OP_SCATTER, &scatter, "x is ");
    uint32_t one = slot(t, 0);
    ir_item item = {.x = one, .out = int_value(false, 0)};
    expect_bad(IR_OP_ITEM, &item, "which is only moved and cast");
  }
}

static void padding_fits(void **state) {
  (void)state;
  static const struct {
    dtype type;
    double value;
    bool fits;
  } rows[] = {{DTYPE_U16, 65535, true},   {DTYPE_U16, 65536, false},  {DTYPE_U16, -1, false},
              {DTYPE_U16, 0.5, false},    {DTYPE_U32, 0x1p32, false}, {DTYPE_U32, 0x1p31, true},
              {DTYPE_U64, 0x1p62, true},  {DTYPE_U64, -1, false},     {DTYPE_U64, 0x1p63, false},
              {DTYPE_F8_E4M3, 0.3, true}, {DTYPE_F8_E5M2, -1e9, true}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    fixture_reset();
    ir_pad pad = {.x = slot(rows[i].type, 1, 3),
                  .before = INTS(lit(1)),
                  .after = INTS(lit(0)),
                  .value = rows[i].value,
                  .out = slot(rows[i].type, 1, 4)};
    if (rows[i].fits)
      expect_good(IR_OP_PAD, &pad);
    else
      expect_bad(IR_OP_PAD, &pad, "does not fit");
  }
}

static ir_elementwise one_step(ir_step *step, uint32_t *inputs, uint32_t n, uint32_t out) {
  return (ir_elementwise){.inputs = {inputs, n}, .steps = {step, 1}, .out = out};
}

static void steps_cast_alone(void **state) {
  (void)state;
  ir_operand operands[3] = {{.source = IR_OPERAND_SOURCE_INPUT},
                            {.source = IR_OPERAND_SOURCE_INPUT, .index = 1},
                            {.source = IR_OPERAND_SOURCE_INPUT, .index = 1}};
  for (int k = 0; k < N_STORED; k++) {
    fixture_reset();
    uint32_t inputs[2] = {slot(stored[k], 1, 5), slot(stored[k], 1, 5)}, f = slot(DTYPE_F32, 1, 5),
             truth = slot(DTYPE_BOOL, 1, 5);
    ir_step s = {.kind = IR_STEP_KIND_CAST, .dtype = DTYPE_F32, .operands = {operands, 1}};
    ir_elementwise e = one_step(&s, inputs, 1, f);
    expect_good(IR_OP_ELEMENTWISE, &e);
    s.dtype = stored[k];
    e = one_step(&s, &f, 1, inputs[0]);
    expect_good(IR_OP_ELEMENTWISE, &e);
    for (int kind = 0; kind < IR_STEP_KIND_COUNT; kind++) {
      const step_info *info = &step_table[kind];
      if (info->result == STEP_CAST) continue;
      uint32_t where[2] = {truth, inputs[0]};
      bool chooses = info->result == STEP_WHERE;
      s = (ir_step){.kind = (ir_step_kind)kind,
                    .dtype = info->result == STEP_BOOL ? DTYPE_BOOL : stored[k],
                    .operands = {operands, (uint32_t)info->arity}};
      e = one_step(&s, chooses ? where : inputs, 2, info->result == STEP_BOOL ? truth : inputs[0]);
      if (!chooses) operands[2].index = 0;
      expect_bad(IR_OP_ELEMENTWISE, &e, "which this step does not accept");
      operands[2].index = 1;
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_other_op_refuses),
      cmocka_unit_test(what_moves_takes_them),
      cmocka_unit_test(padding_fits),
      cmocka_unit_test(steps_cast_alone),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
