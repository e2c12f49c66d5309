/* Iterates over the tensors and values of an instruction, using only the field descriptors. */
#include <string.h>

#include "ops/ops.h"

/* Layout of all vectors of tables, generated as {<type> *items; uint32_t count;}. */
typedef struct table_vector {
  char *items;
  uint32_t count;
} table_vector;
_Static_assert(sizeof(table_vector) == sizeof(ir_steps) &&
                   offsetof(table_vector, count) == offsetof(ir_steps, count),
               "vectors of tables are {items, count}");

static const void *field_at(const void *table, const ir_field *field) {
  return (const char *)table + field->offset;
}

static uint32_t read_u32(const void *memory) {
  uint32_t v;
  memcpy(&v, memory, sizeof v);
  return v;
}

static table_vector read_vector(const void *memory) {
  table_vector vector;
  memcpy(&vector, memory, sizeof vector);
  return vector;
}

static uint32_t reused_tid(const ir_table *table, const void *op, const char *name) {
  for (uint32_t i = 0; name && i < table->n_fields; i++) {
    if (strcmp(table->fields[i].name, name) == 0) return read_u32(field_at(op, &table->fields[i]));
  }
  return IR_NONE;
}

/* Returns the address of slot number `item` of a field, NULL if none exists. */
static const uint32_t *slot_of_field(const void *op, const ir_field *field, uint32_t item) {
  const uint32_t *at = field_at(op, field);
  if (field->kind == IR_FIELD_TID) return item || *at == IR_NONE ? NULL : at;
  if (field->kind != IR_FIELD_TIDS) return NULL;
  const ir_u32s *tids = field_at(op, field);
  return item < tids->count && tids->items[item] != IR_NONE ? &tids->items[item] : NULL;
}

bool next_operand(operand_iter *iter) {
  const ir_table *table = ir_op_tables[iter->ins->op_type];
  for (; iter->field < table->n_fields; iter->field++, iter->item = 0) {
    const ir_field *field = &table->fields[iter->field];
    const uint32_t *at = slot_of_field(iter->ins->op, field, iter->item);
    if (!at) continue;
    iter->operand =
        (operand){*at, field->flags & (IR_OUT | IR_DENSE | IR_ROWS | IR_ENCODED | IR_COUNTS),
                  field->name, reused_tid(table, iter->ins->op, field->reuses), at};
    iter->item++;
    return true;
  }
  return false;
}

uint32_t first_slot(const ir_instruction *ins, bool written) {
  for (operand_iter i = operands_of(ins); next_operand(&i);)
    if (((i.operand.flags & IR_OUT) != 0) == written) return i.operand.tid;
  return IR_NONE;
}

typedef struct value_walk {
  bool (*visit)(void *ctx, uint32_t vid, bool written);
  void *ctx;
} value_walk;

static bool op_operands_visit_value(const value_walk *walk, uint32_t vid, bool written) {
  return vid == IR_NONE || walk->visit(walk->ctx, vid, written);
}

static bool walk_ints(const value_walk *walk, const ir_int_or_vids *values) {
  for (uint32_t i = 0; i < values->count; i++) {
    if (!op_operands_visit_value(walk, values->items[i].vid, false)) return false;
  }
  return true;
}

static bool walk_table(const value_walk *walk, const ir_table *ir_table, const void *table);

static bool walk_tables(const value_walk *walk, const ir_table *table, table_vector vector) {
  for (uint32_t i = 0; i < vector.count; i++) {
    if (!walk_table(walk, table, vector.items + i * table->size)) return false;
  }
  return true;
}

static bool walk_field(const value_walk *walk, const ir_field *field, const void *at) {
  switch (field->kind) {
    case IR_FIELD_VID:
      return op_operands_visit_value(walk, read_u32(at), (field->flags & IR_OUT) != 0);
    case IR_FIELD_INT_OR_VID:
      return op_operands_visit_value(walk, ((const ir_int_or_vid *)at)->vid, false);
    case IR_FIELD_FLOAT_OR_VID:
      return op_operands_visit_value(walk, ((const ir_float_or_vid *)at)->vid, false);
    case IR_FIELD_INT_OR_VIDS:
      return walk_ints(walk, at);
    case IR_FIELD_TABLES:
      return walk_tables(walk, field->table, read_vector(at));
    default:
      return true;
  }
}

static bool walk_table(const value_walk *walk, const ir_table *ir_table, const void *table) {
  if (ir_table == &ir_operand_table) {
    const ir_operand *op = table;
    if (op->source == IR_OPERAND_SOURCE_VALUE && !op_operands_visit_value(walk, op->index, false))
      return false;
  }
  for (uint32_t i = 0; i < ir_table->n_fields; i++) {
    if (!walk_field(walk, &ir_table->fields[i], field_at(table, &ir_table->fields[i])))
      return false;
  }
  return true;
}

bool for_each_value(const ir_instruction *ins, bool (*visit)(void *ctx, uint32_t vid, bool written),
                    void *ctx) {
  value_walk walk = {visit, ctx};
  return walk_table(&walk, ir_op_tables[ins->op_type], ins->op);
}
