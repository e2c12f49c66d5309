/* What is computed twice is computed once: host scalars that are the same for every input, and
 * instructions of the same op, attributes and operands. */
#include <stdlib.h>
#include <string.h>

#include "interp/passes/passes.h"
#include "serialize/fields.h"

/* ---------------------------------------------------------------- host scalars */

static bool same_bounds(const ir_value *a, const ir_value *b) {
  return a->min.present == b->min.present && a->max.present == b->max.present &&
         (!a->min.present || a->min.value == b->min.value) &&
         (!a->max.present || a->max.value == b->max.value);
}

/* The first node of the chain that computes the same as n, which stands later. */
static uint32_t same_value(draft *d, const draft_node *n) {
  const ir_int_scalar *o = n->ins.op;
  ir_int_or_vid mine = {.vid = o->out, .present = true};
  for (const draft_node *i = d->chains[n->chain].first; i != n; i = i->next) {
    if (i->ins.op_type != IR_OP_INT_SCALAR) continue;
    const ir_int_scalar *other = i->ins.op;
    ir_int_or_vid its = {.vid = other->out, .present = true};
    const ir_value *a = &d->ir.values.items[o->out], *b = &d->ir.values.items[other->out];
    if (a->type == b->type && same_bounds(a, b) &&
        same_size(size_of(d->sizes, &mine), size_of(d->sizes, &its)))
      return other->out;
  }
  return IR_NONE;
}

static uint32_t join_values(draft *d) {
  uint32_t done = 0;
  for (draft_node *n = draft_first(d, 0), *next; n; n = next) {
    next = draft_next(d, n);
    if (n->ins.op_type != IR_OP_INT_SCALAR) continue;
    uint32_t to = same_value(d, n);
    if (to == IR_NONE) continue;
    d->value_alias[((const ir_int_scalar *)n->ins.op)->out] = to;
    draft_unlink(d, n);
    done++;
  }
  return done;
}

/* ---------------------------------------------------------------- instructions */

static bool same_table(const draft *d, const ir_table *t, const void *a, const void *b);

static bool same_vector(const draft *d, const ir_field *f, const void *a, const void *b) {
  ir_vector x = vector_at(f, a), y = vector_at(f, b);
  size_t item = vector_item_size(f);
  if (x.count != y.count) return false;
  for (uint32_t i = 0; i < x.count; i++) {
    const char *p = (const char *)x.items + i * item, *q = (const char *)y.items + i * item;
    bool same = f->kind == IR_FIELD_TABLES        ? same_table(d, f->table, p, q)
                : f->kind == IR_FIELD_INT_OR_VIDS ? same_size(size_of(d->sizes, (const void *)p),
                                                              size_of(d->sizes, (const void *)q))
                                                  : memcmp(p, q, item) == 0;
    if (!same) return false;
  }
  return true;
}

static size_t field_bytes(const ir_field *f) {
  switch (f->kind) {
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

static bool same_int_or_vid(const draft *d, const ir_int_or_vid *a, const ir_int_or_vid *b) {
  if (a->present != b->present) return false;
  return !a->present || same_size(size_of(d->sizes, a), size_of(d->sizes, b));
}

static bool same_float_or_vid(const ir_float_or_vid *a, const ir_float_or_vid *b) {
  if (a->present != b->present || a->vid != b->vid) return false;
  return memcmp(&a->literal, &b->literal, sizeof a->literal) == 0;
}

static bool same_field(const draft *d, const ir_field *f, const void *a, const void *b) {
  const void *p = (const char *)a + f->offset, *q = (const char *)b + f->offset;
  if (f->flags & IR_OUT) return true;
  if (field_is_vector(f->kind)) return same_vector(d, f, a, b);
  switch (f->kind) {
    case IR_FIELD_INT_OR_VID:
      return same_int_or_vid(d, p, q);
    case IR_FIELD_FLOAT_OR_VID:
      return same_float_or_vid(p, q);
    case IR_FIELD_OPT_I32:
      return ((const ir_opt_i32 *)p)->present == ((const ir_opt_i32 *)q)->present &&
             ((const ir_opt_i32 *)p)->value == ((const ir_opt_i32 *)q)->value;
    case IR_FIELD_OPT_I64:
      return ((const ir_opt_i64 *)p)->present == ((const ir_opt_i64 *)q)->present &&
             ((const ir_opt_i64 *)p)->value == ((const ir_opt_i64 *)q)->value;
    case IR_FIELD_OPT_F64:
      return ((const ir_opt_f64 *)p)->present == ((const ir_opt_f64 *)q)->present &&
             memcmp(&((const ir_opt_f64 *)p)->value, &((const ir_opt_f64 *)q)->value, 8) == 0;
    case IR_FIELD_STRING:
    case IR_FIELD_TABLE:
    case IR_FIELD_UNION:
      return false;
    default:
      return memcmp(p, q, field_bytes(f)) == 0;
  }
}

static bool same_table(const draft *d, const ir_table *t, const void *a, const void *b) {
  for (uint32_t i = 0; i < t->n_fields; i++)
    if (!same_field(d, &t->fields[i], a, b)) return false;
  return true;
}

/* Results of the same dtype and shape, one by one; an op may leave some out. */
static bool same_results(const draft *d, const draft_node *a, const draft_node *b) {
  operand_iter i = operands_of(&a->ins), k = operands_of(&b->ins);
  for (;;) {
    bool more = next_operand(&i);
    if (more != next_operand(&k)) return false;
    if (!more) return true;
    if (!(i.o.flags & IR_OUT)) continue;
    if (i.o.field != k.o.field || draft_type(d, i.o.tid) != draft_type(d, k.o.tid) ||
        !draft_same_shape(d, i.o.tid, k.o.tid))
      return false;
  }
}

static bool can_join(const draft_node *n) {
  const op_info *info = &op_table[n->ins.op_type];
  return !info->is_host && !info->is_control && n->ins.op_type != IR_OP_RANDOM;
}

static void replace_results(draft *d, const draft_node *n, const draft_node *by) {
  operand_iter k = operands_of(&by->ins);
  for (operand_iter i = operands_of(&n->ins); next_operand(&i) && next_operand(&k);)
    if (i.o.flags & IR_OUT) draft_replace(d, i.o.tid, k.o.tid);
}

/* The node that computes the same and stands before n in its chain: one that reads what it reads
 * first. */
static const draft_node *find_equal(const draft *d, const draft_node *n) {
  uint32_t x = first_slot(&n->ins, false);
  if (x == IR_NONE) return NULL;
  const draft_slot *s = &d->slots[x];
  for (uint32_t i = 0; i < s->n_readers; i++) {
    const draft_node *o = s->readers[i];
    if (o != n && o->chain == n->chain && o->order < n->order && o->ins.op_type == n->ins.op_type &&
        same_results(d, n, o) && same_table(d, ir_op_tables[n->ins.op_type], n->ins.op, o->ins.op))
      return o;
  }
  return NULL;
}

static bool is_kept(const draft *d, const draft_node *n) {
  for (operand_iter i = operands_of(&n->ins); next_operand(&i);)
    if ((i.o.flags & IR_OUT) && d->slots[i.o.tid].kept) return true;
  return false;
}

uint32_t join_equal(draft *d, const pass_env *env) {
  uint32_t order = 0, done = join_values(d);
  (void)env;
  for (draft_node *n = draft_first(d, 0); n; n = draft_next(d, n)) n->order = order++;
  for (draft_node *n = draft_first(d, 0), *next; n && !d->no_memory; n = next) {
    next = draft_next(d, n);
    const draft_node *by = can_join(n) && !is_kept(d, n) ? find_equal(d, n) : NULL;
    if (!by) continue;
    replace_results(d, n, by);
    done++;
  }
  return done;
}
