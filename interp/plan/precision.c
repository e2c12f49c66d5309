/* Which values of F32 a session in fast precision keeps as BF16: those that an op makes and ops
 * read which all can have them so, on one device (backend.takes_narrow), where nothing else sees
 * them. Half the bytes are moved then, and what multiplies pairs of BF16 reads them as they are. */
#include "interp/plan/precision.h"

#include "interp/plan/operands.h"
#include "interp/plan/storage.h"
#include "interp/scalar.h"

enum {
  LEAST = 4096,  /* elements: fewer stay in the first-level cache */
  MOST_VIEWS = 8 /* one of the other, that are followed to a constant */
};

static bool is_known(const planner *l, bool present, uint32_t vid) {
  return !present || vid == IR_NONE || l->p->values[vid].known;
}

/* Sizes that host ops of the method between instruction `index` and `end` compute of known ones:
 * the same as when they are planned. What is wrong with them is said then. */
static void compute_sizes(planner *l, uint32_t index, uint32_t end) {
  for (uint32_t i = index + 1; i < end; i++) {
    const ir_instruction *ins = &l->g->instructions[i];
    const ir_int_scalar *o = ins->op;
    if (ins->op_type == IR_OP_INT_SCALAR && l->g->parent[i] == NO_INDEX &&
        is_known(l, o->a.present, o->a.vid) && is_known(l, o->b.present, o->b.vid))
      status_free(scalar_run(&l->x->prog->ir, ins, l->p->values));
  }
}

static bool has_known_dims(const planner *l, uint32_t tid, tensor *t) {
  const ir_tensor *d = &l->x->prog->ir.tensors.items[tid];
  for (uint32_t i = 0; i < d->shape.count; i++) {
    const ir_int_or_vid *v = &d->shape.items[i];
    if (v->vid != IR_NONE && !l->p->values[v->vid].known) return false;
    t->dims[i] = v->vid == IR_NONE ? v->literal : l->p->values[v->vid].i;
    if (t->dims[i] < 0) return false;
  }
  tensor_set_contiguous(t);
  return true;
}

static bool find_operand(const planner *l, uint32_t tid, int views, bound_tensor *out);

/* A view of a constant that is planned later. views: of it that were followed. */
static bool find_view(const planner *l, uint32_t tid, int views, bound_tensor *out) {
  const rule_context c = {&l->x->prog->ir, l->p->types, l->p->values};
  const uint32_t i = l->g->writer[tid];
  if (views == MOST_VIEWS || i == NO_INDEX || l->g->parent[i] != NO_INDEX) return false;
  const ir_instruction *ins = &l->g->instructions[i];
  bound_tensor x;
  tensor to = l->p->types[tid];
  if (!op_table[ins->op_type].is_view || !is_slot(l->x->prog, tid, SLOT_TEMPORARY) ||
      !find_operand(l, first_slot(ins, false), views + 1, &x) || !x.is_constant ||
      !has_known_dims(l, tid, &to) || !op_table[ins->op_type].view(&c, ins->op, &x.t, &to))
    return false;
  *out = (bound_tensor){.t = to, .slot = tid, .is_constant = true, .constant = x.constant};
  return true;
}

/* An operand as it is, or will be: of a later instruction as the program has it. */
static bool find_operand(const planner *l, uint32_t tid, int views, bound_tensor *out) {
  const location *at = &l->p->now[tid];
  const bool is_constant = is_slot(l->x->prog, tid, SLOT_CONSTANT) && !l->p->is_lean;
  *out = (bound_tensor){.t = l->p->types[tid],
                        .slot = tid,
                        .is_constant = is_constant,
                        .constant = is_constant ? tid : NO_INDEX};
  if (at->storage == NO_INDEX && !is_constant && find_view(l, tid, views, out)) return true;
  if (at->storage == NO_INDEX) return has_known_dims(l, tid, &out->t);
  const storage *g = &l->p->storages[at->storage];
  out->t = at->t;
  out->is_constant = holds_constant(l, g) && !l->p->is_lean;
  out->constant = g->slot;
  return true;
}

/* An instruction of the method itself, on backend b, that reads its operands where they lie: how it
 * is done depends on which of them are constants, and copies are none. */
static bool takes_narrow(planner *l, uint32_t index, int b, uint32_t tid) {
  const ir_instruction *ins = &l->g->instructions[index];
  backend *be = l->x->devices.backends[b];
  const node n = {.instruction = ins, .tensors = l->operands, .values = l->p->values};
  if (l->m->where[index] != b || l->g->parent[index] != NO_INDEX) return false;
  for (operand_iter i = operands_of(ins); next_operand(&i);) {
    bound_tensor *x = &l->operands[i.o.tid];
    if (!find_operand(l, i.o.tid, 0, x) || !lies_as_read(&i.o, &x->t)) return false;
  }
  return be->vt->precision->takes_narrow(be, &n, tid);
}

static bool reads(const ir_instruction *ins, uint32_t tid) {
  for (operand_iter i = operands_of(ins); next_operand(&i);)
    if (i.o.tid == tid && !(i.o.flags & IR_OUT)) return true;
  return false;
}

bool keeps_narrow(planner *l, uint32_t index, uint32_t tid) {
  const uint8_t b = l->m->where[index];
  const uint32_t last = l->g->last_use[tid];
  if (!l->x->options.fast || l->x->options.wide || l->x->observer ||
      !l->x->devices.backends[b]->vt->precision)
    return false;
  if (l->p->types[tid].type != DTYPE_F32 || !is_slot(l->x->prog, tid, SLOT_TEMPORARY) ||
      l->p->target[tid] != NO_INDEX || last == NO_INDEX || last >= l->g->n ||
      tensor_numel(&l->p->types[tid]) < LEAST)
    return false;
  if (!takes_narrow(l, index, b, tid)) return false;
  compute_sizes(l, index, last);
  for (uint32_t i = index + 1; i <= last; i++)
    if (reads(&l->g->instructions[i], tid) && !takes_narrow(l, i, b, tid)) return false;
  return true;
}
