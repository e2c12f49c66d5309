/* Operand walks: over every op with each of its fields filled, and over ops whose operands nest. */
#include "ops/fixture.h"

/* What a walk saw: slot numbers in order, and how many of them were written. */
typedef struct seen {
  uint32_t ids[FIXTURE_SLOTS];
  uint32_t count, written, stop_after;
} seen;

static seen see_operands(const ir_instruction *ins) {
  seen s = {.count = 0};
  for (operand_iter i = operands_of(ins); next_operand(&i);) {
    if (i.o.flags & IR_OUT) s.written++;
    s.ids[s.count++] = i.o.tid;
  }
  return s;
}

static bool see_value(void *ctx, uint32_t vid, bool written) {
  seen *s = ctx;
  if (written) s->written++;
  s->ids[s->count++] = vid;
  return s->count != s->stop_after;
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

static void fill_field(filled *f, const ir_field *d) {
  char *at = f->op.bytes + d->offset;
  uint32_t out = d->flags & IR_OUT ? 1 : 0;
  if (d->kind == IR_FIELD_TID) {
    *(uint32_t *)(void *)at = f->tids++;
    f->tids_out += out;
  } else if (d->kind == IR_FIELD_VID) {
    *(uint32_t *)(void *)at = f->vids++;
    f->vids_out += out;
  } else if (d->kind == IR_FIELD_TIDS) {
    uint32_t *pair = &f->pairs[f->tids];
    pair[0] = f->tids, pair[1] = f->tids + 1;
    *(ir_u32s *)(void *)at = (ir_u32s){pair, 2};
    f->tids += 2;
    f->tids_out += 2 * out;
  } else if (d->kind == IR_FIELD_INT_OR_VID) {
    *(ir_int_or_vid *)(void *)at = val(f->vids++);
  } else if (d->kind == IR_FIELD_FLOAT_OR_VID) {
    *(ir_float_or_vid *)(void *)at = (ir_float_or_vid){0, f->vids++, true};
  }
}

static void every_op(void **state) {
  (void)state;
  for (int op_type = 1; op_type < IR_OP_COUNT; op_type++) {
    const ir_table *t = ir_op_tables[op_type];
    filled f;
    memset(&f, 0, sizeof f);
    assert_true(t->size <= sizeof f.op.bytes);
    for (uint32_t i = 0; i < t->n_fields; i++) fill_field(&f, &t->fields[i]);
    ir_instruction ins = {(ir_op)op_type, f.op.bytes, ""};
    seen tensors = see_operands(&ins), values = {.count = 0};
    assert_true(for_each_value(&ins, see_value, &values));
    assert_int_equal(tensors.count, f.tids);
    assert_int_equal(tensors.written, f.tids_out);
    assert_int_equal(values.count, f.vids);
    assert_int_equal(values.written, f.vids_out);
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
  operand o = {.reuses = IR_NONE};
  for (operand_iter i = operands_of(&ins); next_operand(&i);)
    if (i.o.reuses != IR_NONE) o = i.o;
  assert_int_equal(o.tid, 5);
  assert_int_equal(o.reuses, 3);
  assert_string_equal(o.field, "out");
}

static void absent_operands_are_skipped(void **state) {
  (void)state;
  ir_layer_norm op = {.x = 1, .weight = IR_NONE, .bias = IR_NONE, .out = 2};
  ir_instruction ins = {IR_OP_LAYER_NORM, &op, ""};
  seen tensors = see_operands(&ins);
  assert_int_equal(tensors.count, 2);
  assert_int_equal(tensors.ids[1], 2);
  ir_cat empty = {.out = 7}; /* of no tensors */
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
