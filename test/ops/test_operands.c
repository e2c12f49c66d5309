/* Tests operand walks over every op with each of its fields filled, and over nested operands. */
#include "ops/fixture.h"

/* The slot numbers that a walk visited, in order, and how many of them were written. */
typedef struct seen {
  uint32_t ids[FIXTURE_SLOTS];
  uint32_t count, written, stop_after;
} seen;

static seen see_operands(const ir_instruction *ins) {
  seen seen = {.count = 0};
  for (operand_iter i = operands_of(ins); next_operand(&i);) {
    if (i.operand.flags & IR_OUT) seen.written++;
    seen.ids[seen.count++] = i.operand.tid;
  }
  return seen;
}

static bool see_value(void *ctx, uint32_t vid, bool written) {
  seen *seen = ctx;
  if (written) seen->written++;
  seen->ids[seen->count++] = vid;
  return seen->count != seen->stop_after;
}

/* An op's struct with ascending ids in every slot field, two in each vector of slots. */
typedef struct filled {
  union {
    max_align_t align;
    char bytes[512];
  } op;
  uint32_t tids, vids, tids_out, vids_out;
  uint32_t pairs[FIXTURE_SLOTS];
  ir_int_or_vid ints[2];
} filled;

static void fill_field(filled *filled, const ir_field *field) {
  char *at = filled->op.bytes + field->offset;
  uint32_t out = field->flags & IR_OUT ? 1 : 0;
  if (field->kind == IR_FIELD_TID) {
    *(uint32_t *)(void *)at = filled->tids++;
    filled->tids_out += out;
  } else if (field->kind == IR_FIELD_VID) {
    *(uint32_t *)(void *)at = filled->vids++;
    filled->vids_out += out;
  } else if (field->kind == IR_FIELD_TIDS) {
    uint32_t *pair = &filled->pairs[filled->tids];
    pair[0] = filled->tids, pair[1] = filled->tids + 1;
    *(ir_u32s *)(void *)at = (ir_u32s){pair, 2};
    filled->tids += 2;
    filled->tids_out += 2 * out;
  } else if (field->kind == IR_FIELD_INT_OR_VID) {
    *(ir_int_or_vid *)(void *)at = val(filled->vids++);
  } else if (field->kind == IR_FIELD_FLOAT_OR_VID) {
    *(ir_float_or_vid *)(void *)at = (ir_float_or_vid){0, filled->vids++, true};
  }
}

static void every_op(void **state) {
  (void)state;
  for (int op_type = 1; op_type < IR_OP_COUNT; op_type++) {
    const ir_table *table = ir_op_tables[op_type];
    filled filled;
    memset(&filled, 0, sizeof filled);
    assert_true(table->size <= sizeof filled.op.bytes);
    for (uint32_t i = 0; i < table->n_fields; i++) fill_field(&filled, &table->fields[i]);
    ir_instruction ins = {(ir_op)op_type, filled.op.bytes, ""};
    seen tensors = see_operands(&ins), values = {.count = 0};
    assert_true(for_each_value(&ins, see_value, &values));
    assert_int_equal(tensors.count, filled.tids);
    assert_int_equal(tensors.written, filled.tids_out);
    assert_int_equal(values.count, filled.vids);
    assert_int_equal(values.written, filled.vids_out);
    for (uint32_t i = 0; i < tensors.count; i++) assert_int_equal(tensors.ids[i], i);
    for (uint32_t i = 0; i < values.count; i++) assert_int_equal(values.ids[i], i);
  }
}

static void every_op_has_a_row(void **state) {
  (void)state;
  for (int i = 1; i < IR_OP_COUNT; i++) {
    const op_info *info = &op_table[i];
    assert_string_equal(info->name, ir_op_names[i]);
    assert_ptr_equal(info->table, ir_op_tables[i]);
    assert_non_null(info->rule);
    assert_int_equal(info->view != NULL, info->is_view);
    assert_in_range(info->since, 1, IR_SCHEMA_VERSION);
    assert_string_equal(info->table->name, ir_op_enum.values[i - 1].name);
  }
  for (int i = 0; i < IR_STEP_KIND_COUNT; i++) {
    assert_string_equal(step_table[i].name, ir_step_kind_enum.values[i].name);
    assert_in_range(step_table[i].arity, 1, MAX_STEP_ARITY);
  }
}

static void values_of_steps(void **state) {
  (void)state;
  ir_operand operands[3] = {{.source = IR_OPERAND_SOURCE_INPUT, .index = 9},
                            {.source = IR_OPERAND_SOURCE_VALUE, .index = 4},
                            {.source = IR_OPERAND_SOURCE_VALUE, .index = 2}};
  ir_step steps[2] = {{.operands = {operands, 2}}, {.operands = {operands + 2, 1}}};
  ir_elementwise op = {.inputs = TIDS(7), .steps = {steps, 2}, .out = 8};
  ir_instruction ins = {IR_OP_ELEMENTWISE, &op, ""};
  seen values = {.count = 0};
  assert_true(for_each_value(&ins, see_value, &values));
  assert_int_equal(values.count, 2);
  assert_int_equal(values.ids[0], 4);
  assert_int_equal(values.ids[1], 2);
  assert_int_equal(values.written, 0);
}

static void values_of_shapes(void **state) {
  (void)state;
  ir_reshape op = {.shape = INTS(lit(2), val(5), val(6))};
  ir_instruction ins = {IR_OP_RESHAPE, &op, ""};
  seen values = {.count = 0};
  assert_true(for_each_value(&ins, see_value, &values));
  assert_int_equal(values.count, 2);
  assert_int_equal(values.ids[1], 6);
  values = (seen){.stop_after = 1};
  assert_false(for_each_value(&ins, see_value, &values));
  assert_int_equal(values.count, 1);
}

static void reuse_names_the_operand(void **state) {
  (void)state;
  ir_slice_update op = {.x = 3, .update = 4, .out = 5};
  ir_instruction ins = {IR_OP_SLICE_UPDATE, &op, ""};
  operand operand = {.reuses = IR_NONE};
  for (operand_iter i = operands_of(&ins); next_operand(&i);)
    if (i.operand.reuses != IR_NONE) operand = i.operand;
  assert_int_equal(operand.tid, 5);
  assert_int_equal(operand.reuses, 3);
  assert_string_equal(operand.field, "out");
}

static void absent_operands_are_skipped(void **state) {
  (void)state;
  ir_layer_norm op = {.x = 1, .weight = IR_NONE, .bias = IR_NONE, .out = 2};
  ir_instruction ins = {IR_OP_LAYER_NORM, &op, ""};
  seen tensors = see_operands(&ins);
  assert_int_equal(tensors.count, 2);
  assert_int_equal(tensors.ids[1], 2);
  ir_cat empty = {.out = 7}; /* no tensors */
  tensors = see_operands(&(ir_instruction){IR_OP_CAT, &empty, ""});
  assert_int_equal(tensors.count, 1);
  assert_int_equal(tensors.ids[0], 7);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_op),
      cmocka_unit_test(every_op_has_a_row),
      cmocka_unit_test(values_of_steps),
      cmocka_unit_test(values_of_shapes),
      cmocka_unit_test(reuse_names_the_operand),
      cmocka_unit_test(absent_operands_are_skipped),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
