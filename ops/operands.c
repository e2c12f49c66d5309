/* Walks over the tensors and values of an instruction, driven by the field descriptors alone. */
#include <string.h>

#include "ops/ops.h"

/* The vectors of tables all have this layout: generated as {<type> *items; uint32_t count;}. */
typedef struct table_vector {
  char *items;
  uint32_t count;
} table_vector;
_Static_assert(sizeof(table_vector) == sizeof(ir_steps) &&
                   offsetof(table_vector, count) == offsetof(ir_steps, count),
               "vectors of tables are {items, count}");

static const void *field_at(const void *table, const ir_field *f) {
  return (const char *)table + f->offset;
}

static uint32_t read_u32(const void *p) {
  uint32_t v;
  memcpy(&v, p, sizeof v);
  return v;
}

static table_vector read_vector(const void *p) {
  table_vector v;
  memcpy(&v, p, sizeof v);
  return v;
}

static uint32_t reused_tid(const ir_table *t, const void *op, const char *name) {
  for (uint32_t i = 0; name && i < t->n_fields; i++) {
    if (strcmp(t->fields[i].name, name) == 0) return read_u32(field_at(op, &t->fields[i]));
  }
  return IR_NONE;
}

/* Where the slot of number `item` in a field stands; NULL: there is none. */
static const uint32_t *slot_of_field(const void *op, const ir_field *f, uint32_t item) {
  const uint32_t *at = field_at(op, f);
  if (f->kind == IR_FIELD_TID) return item || *at == IR_NONE ? NULL : at;
  if (f->kind != IR_FIELD_TIDS) return NULL;
  const ir_u32s *tids = field_at(op, f);
  return item < tids->count && tids->items[item] != IR_NONE ? &tids->items[item] : NULL;
}

bool next_operand(operand_iter *i) {
  const ir_table *t = ir_op_tables[i->ins->op_type];
  for (; i->field < t->n_fields; i->field++, i->item = 0) {
    const ir_field *f = &t->fields[i->field];
    const uint32_t *at = slot_of_field(i->ins->op, f, i->item);
    if (!at) continue;
    i->o = (operand){*at, f->flags & (IR_OUT | IR_DENSE | IR_ROWS | IR_ENCODED | IR_COUNTS),
                     f->name, reused_tid(t, i->ins->op, f->reuses), at};
    i->item++;
    return true;
  }
  return false;
}

uint32_t first_slot(const ir_instruction *ins, bool written) {
  for (operand_iter i = operands_of(ins); next_operand(&i);)
    if (((i.o.flags & IR_OUT) != 0) == written) return i.o.tid;
  return IR_NONE;
}

typedef struct value_walk {
  bool (*visit)(void *ctx, uint32_t vid, bool written);
  void *ctx;
} value_walk;

static bool visit_value(const value_walk *w, uint32_t vid, bool written) {
  return vid == IR_NONE || w->visit(w->ctx, vid, written);
}

static bool walk_ints(const value_walk *w, const ir_int_or_vids *v) {
  for (uint32_t i = 0; i < v->count; i++) {
    if (!visit_value(w, v->items[i].vid, false)) return false;
  }
  return true;
}

static bool walk_table(const value_walk *w, const ir_table *t, const void *table);

static bool walk_tables(const value_walk *w, const ir_table *t, table_vector v) {
  for (uint32_t i = 0; i < v.count; i++) {
    if (!walk_table(w, t, v.items + i * t->size)) return false;
  }
  return true;
}

static bool walk_field(const value_walk *w, const ir_field *f, const void *at) {
  switch (f->kind) {
    case IR_FIELD_VID:
      return visit_value(w, read_u32(at), (f->flags & IR_OUT) != 0);
    case IR_FIELD_INT_OR_VID:
      return visit_value(w, ((const ir_int_or_vid *)at)->vid, false);
    case IR_FIELD_FLOAT_OR_VID:
      return visit_value(w, ((const ir_float_or_vid *)at)->vid, false);
    case IR_FIELD_INT_OR_VIDS:
      return walk_ints(w, at);
    case IR_FIELD_TABLES:
      return walk_tables(w, f->table, read_vector(at));
    default:
      return true;
  }
}

static bool walk_table(const value_walk *w, const ir_table *t, const void *table) {
  if (t == &ir_operand_table) {
    const ir_operand *o = table;
    if (o->source == IR_OPERAND_SOURCE_VALUE && !visit_value(w, o->index, false)) return false;
  }
  for (uint32_t i = 0; i < t->n_fields; i++) {
    if (!walk_field(w, &t->fields[i], field_at(table, &t->fields[i]))) return false;
  }
  return true;
}

bool for_each_value(const ir_instruction *ins, bool (*visit)(void *ctx, uint32_t vid, bool written),
                    void *ctx) {
  value_walk w = {visit, ctx};
  return walk_table(&w, ir_op_tables[ins->op_type], ins->op);
}
