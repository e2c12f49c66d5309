/* Removes duplicates: host scalars that are equal for all inputs, and instructions with the same
 * op, attributes and operands. */
#include <stdlib.h>
#include <string.h>

#include "interp/passes/passes.h"
#include "serialize/fields.h"

/* ---------------------------------------------------------------- host scalars */

static bool same_bounds(const ir_value *left, const ir_value *right) {
  return left->min.present == right->min.present && left->max.present == right->max.present &&
         (!left->min.present || left->min.value == right->min.value) &&
         (!left->max.present || left->max.value == right->max.value);
}

/* Returns the value of an earlier node in the chain that computes the same size; else IR_NONE. */
static uint32_t same_value(draft *draft, const draft_node *node) {
  const ir_int_scalar *op = node->ins.op;
  ir_int_or_vid mine = {.vid = op->out, .present = true};
  for (const draft_node *i = draft->chains[node->chain].first; i != node; i = i->next) {
    if (i->ins.op_type != IR_OP_INT_SCALAR) continue;
    const ir_int_scalar *other = i->ins.op;
    ir_int_or_vid its = {.vid = other->out, .present = true};
    const ir_value *value = &draft->ir.values.items[op->out],
                   *other_value = &draft->ir.values.items[other->out];
    if (value->type == other_value->type && same_bounds(value, other_value) &&
        same_size(size_of(draft->sizes, &mine), size_of(draft->sizes, &its)))
      return other->out;
  }
  return IR_NONE;
}

static uint32_t join_values(draft *draft) {
  uint32_t done = 0;
  for (draft_node *n = draft_first(draft, 0), *next; n; n = next) {
    next = draft_next(draft, n);
    if (n->ins.op_type != IR_OP_INT_SCALAR) continue;
    uint32_t to = same_value(draft, n);
    if (to == IR_NONE) continue;
    draft->value_alias[((const ir_int_scalar *)n->ins.op)->out] = to;
    draft_unlink(draft, n);
    done++;
  }
  return done;
}

/* ---------------------------------------------------------------- instructions */

static bool same_table(const draft *draft, const ir_table *table, const void *left,
                       const void *right);

static bool same_vector(const draft *draft, const ir_field *field, const void *left,
                        const void *right) {
  ir_vector mine = vector_at(field, left), its = vector_at(field, right);
  size_t item = vector_item_size(field);
  if (mine.count != its.count) return false;
  for (uint32_t i = 0; i < mine.count; i++) {
    const char *a = (const char *)mine.items + i * item, *b = (const char *)its.items + i * item;
    bool same = field->kind == IR_FIELD_TABLES ? same_table(draft, field->table, a, b)
                : field->kind == IR_FIELD_INT_OR_VIDS
                    ? same_size(size_of(draft->sizes, (const void *)a),
                                size_of(draft->sizes, (const void *)b))
                    : memcmp(a, b, item) == 0;
    if (!same) return false;
  }
  return true;
}

static size_t field_bytes(const ir_field *field) {
  switch (field->kind) {
    case IR_FIELD_BOOL:
      return sizeof(bool);
    case IR_FIELD_I64:
    case IR_FIELD_U64:
    case IR_FIELD_F64:
      return 8;
    default:
      return 4;
  }
}

static bool same_int_or_vid(const draft *draft, const ir_int_or_vid *left,
                            const ir_int_or_vid *right) {
  if (left->present != right->present) return false;
  return !left->present || same_size(size_of(draft->sizes, left), size_of(draft->sizes, right));
}

static bool same_float_or_vid(const ir_float_or_vid *left, const ir_float_or_vid *right) {
  if (left->present != right->present || left->vid != right->vid) return false;
  return memcmp(&left->literal, &right->literal, sizeof left->literal) == 0;
}

static bool same_field(const draft *draft, const ir_field *field, const void *left,
                       const void *right) {
  const void *mine = (const char *)left + field->offset, *its = (const char *)right + field->offset;
  if (field->flags & IR_OUT) return true;
  if (field_is_vector(field->kind)) return same_vector(draft, field, left, right);
  switch (field->kind) {
    case IR_FIELD_INT_OR_VID:
      return same_int_or_vid(draft, mine, its);
    case IR_FIELD_FLOAT_OR_VID:
      return same_float_or_vid(mine, its);
    case IR_FIELD_OPT_I32:
      return ((const ir_opt_i32 *)mine)->present == ((const ir_opt_i32 *)its)->present &&
             ((const ir_opt_i32 *)mine)->value == ((const ir_opt_i32 *)its)->value;
    case IR_FIELD_OPT_I64:
      return ((const ir_opt_i64 *)mine)->present == ((const ir_opt_i64 *)its)->present &&
             ((const ir_opt_i64 *)mine)->value == ((const ir_opt_i64 *)its)->value;
    case IR_FIELD_OPT_F64:
      return ((const ir_opt_f64 *)mine)->present == ((const ir_opt_f64 *)its)->present &&
             memcmp(&((const ir_opt_f64 *)mine)->value, &((const ir_opt_f64 *)its)->value, 8) == 0;
    case IR_FIELD_STRING:
    case IR_FIELD_TABLE:
    case IR_FIELD_UNION:
      return false;
    default:
      return memcmp(mine, its, field_bytes(field)) == 0;
  }
}

static bool same_table(const draft *draft, const ir_table *table, const void *left,
                       const void *right) {
  for (uint32_t i = 0; i < table->n_fields; i++)
    if (!same_field(draft, &table->fields[i], left, right)) return false;
  return true;
}

/* True if the results have the same dtypes and shapes, and the same optional ones are present. */
static bool same_results(const draft *draft, const draft_node *left, const draft_node *right) {
  operand_iter a = operands_of(&left->ins), b = operands_of(&right->ins);
  for (;;) {
    bool more = next_operand(&a);
    if (more != next_operand(&b)) return false;
    if (!more) return true;
    if (!(a.operand.flags & IR_OUT)) continue;
    if (a.operand.field != b.operand.field ||
        draft_type(draft, a.operand.tid) != draft_type(draft, b.operand.tid) ||
        !draft_same_shape(draft, a.operand.tid, b.operand.tid))
      return false;
  }
}

static bool can_join(const draft_node *node) {
  const op_info *info = &op_table[node->ins.op_type];
  return !info->is_host && !info->is_control && node->ins.op_type != IR_OP_RANDOM;
}

static void replace_results(draft *draft, const draft_node *node, const draft_node *by) {
  operand_iter iter = operands_of(&by->ins);
  for (operand_iter i = operands_of(&node->ins); next_operand(&i) && next_operand(&iter);)
    if (i.operand.flags & IR_OUT) draft_replace(draft, i.operand.tid, iter.operand.tid);
}

/* Returns an earlier node in the chain that computes the same; else NULL. Searches the readers of
 * the first operand, because an equal node must be one of them. */
static const draft_node *find_equal(const draft *draft, const draft_node *node) {
  uint32_t x = first_slot(&node->ins, false);
  if (x == IR_NONE) return NULL;
  const draft_slot *slot = &draft->slots[x];
  for (uint32_t i = 0; i < slot->n_readers; i++) {
    const draft_node *earlier = slot->readers[i];
    if (earlier != node && earlier->chain == node->chain && earlier->order < node->order &&
        earlier->ins.op_type == node->ins.op_type && same_results(draft, node, earlier) &&
        same_table(draft, ir_op_tables[node->ins.op_type], node->ins.op, earlier->ins.op))
      return earlier;
  }
  return NULL;
}

static bool is_kept(const draft *draft, const draft_node *node) {
  for (operand_iter i = operands_of(&node->ins); next_operand(&i);)
    if ((i.operand.flags & IR_OUT) && draft->slots[i.operand.tid].kept) return true;
  return false;
}

uint32_t join_equal(draft *draft, const pass_env *env) {
  uint32_t order = 0, done = join_values(draft);
  (void)env;
  for (draft_node *n = draft_first(draft, 0); n; n = draft_next(draft, n)) n->order = order++;
  for (draft_node *n = draft_first(draft, 0), *next; n && !draft->no_memory; n = next) {
    next = draft_next(draft, n);
    const draft_node *by = can_join(n) && !is_kept(draft, n) ? find_equal(draft, n) : NULL;
    if (!by) continue;
    replace_results(draft, n, by);
    done++;
  }
  return done;
}
