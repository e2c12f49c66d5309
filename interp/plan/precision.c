/* Which values of F32 a session in fast precision keeps as BF16: those that an op makes and ops
 * read which all support that (backend_precision.supports_bf16), on one device, where nothing else
 * sees them. Half the bytes are moved then, and kernels that multiply pairs of BF16 read them as
 * they are.
 *
 * A stretch of instructions is decided before it is planned. The pass walks it and notes for each
 * slot how planning will place it: a result contiguous, a view by its strides, an operand that the
 * op cannot read where it is as a dense copy. */
#include "interp/plan/precision.h"

#include <stdlib.h>

#include "interp/plan/operands.h"
#include "interp/plan/storage.h"
#include "interp/scalar.h"

enum {
  LEAST = 4096,  /* elements: fewer stay in the first-level cache */
  MOST_VIEWS = 8 /* one of the other, that are followed to a constant */
};

/* One stretch while it is decided. */
typedef struct precision_pass {
  planner *l;
  bound_tensor *expected; /* (n_slots) owned: how planning will place what the walk has passed */
  bool *is_expected;      /* (n_slots) owned */
  bound_tensor *shown;    /* (n_slots) owned: operands of the node that a backend is asked about */
} precision_pass;

/* ---------------------------------------------------------------- sizes */

static bool is_known(const planner *l, bool present, uint32_t vid) {
  return !present || vid == IR_NONE || l->p->values[vid].known;
}

/* Computes the sizes that integer host ops of the method itself from `first` on make of known ones.
 * Planning computes the same later, and reports what is wrong with them. */
static void compute_sizes(planner *l, uint32_t first) {
  for (uint32_t i = first; i < l->g->n; i++) {
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

/* ---------------------------------------------------------------- operands */

static bool find_operand(const precision_pass *pass, uint32_t tid, int views, bound_tensor *out);

/* A view of a constant that is planned later. views: of it that were followed. */
static bool find_view(const precision_pass *pass, uint32_t tid, int views, bound_tensor *out) {
  const planner *l = pass->l;
  const rule_context c = {&l->x->prog->ir, l->p->types, l->p->values};
  const uint32_t i = l->g->writer[tid];
  if (views == MOST_VIEWS || i == NO_INDEX || l->g->parent[i] != NO_INDEX) return false;
  const ir_instruction *ins = &l->g->instructions[i];
  bound_tensor x;
  tensor to = l->p->types[tid];
  if (!op_table[ins->op_type].is_view || !is_slot(l->x->prog, tid, SLOT_TEMPORARY) ||
      !find_operand(pass, first_slot(ins, false), views + 1, &x) || !x.is_constant ||
      !has_known_dims(l, tid, &to) || !op_table[ins->op_type].view(&c, ins->op, &x.t, &to))
    return false;
  *out = (bound_tensor){.t = to, .slot = tid, .is_constant = true, .constant = x.constant};
  return true;
}

/* An operand as it is, or will be: of an instruction that the walk has not passed as the program
 * has it. */
static bool find_operand(const precision_pass *pass, uint32_t tid, int views, bound_tensor *out) {
  const planner *l = pass->l;
  const location *at = &l->p->now[tid];
  const bool is_constant = is_slot(l->x->prog, tid, SLOT_CONSTANT) && !l->p->is_lean;
  if (pass->is_expected[tid]) {
    *out = pass->expected[tid];
    return true;
  }
  *out = (bound_tensor){.t = l->p->types[tid],
                        .slot = tid,
                        .is_constant = is_constant,
                        .constant = is_constant ? tid : NO_INDEX};
  if (at->storage == NO_INDEX && !is_constant && find_view(pass, tid, views, out)) return true;
  if (at->storage == NO_INDEX) return has_known_dims(l, tid, &out->t);
  const storage *g = &l->p->storages[at->storage];
  out->t = at->t;
  out->is_constant = holds_constant(l, g) && !l->p->is_lean;
  out->constant = g->slot;
  return true;
}

static void expect(precision_pass *pass, const bound_tensor *x) {
  pass->expected[x->slot] = *x;
  pass->is_expected[x->slot] = true;
}

/* ---------------------------------------------------------------- decisions */

/* True if the instruction is the method's own, on backend b, reads its operands where they are and
 * supports the slot as BF16: how it is done depends on which of them are constants, and copies are
 * not. */
static bool supports_bf16(const precision_pass *pass, uint32_t index, int b, uint32_t tid) {
  const planner *l = pass->l;
  const ir_instruction *ins = &l->g->instructions[index];
  backend *be = l->x->devices.backends[b];
  const node n = {
      .instruction = ins, .tensors = pass->shown, .types = l->p->types, .values = l->p->values};
  if (l->m->where[index] != b || l->g->parent[index] != NO_INDEX) return false;
  for (operand_iter i = operands_of(ins); next_operand(&i);) {
    bound_tensor *x = &pass->shown[i.o.tid];
    if (!find_operand(pass, i.o.tid, 0, x) || !lies_as_read(&i.o, &x->t)) return false;
  }
  return be->vt->precision->supports_bf16(be, &n, tid);
}

static bool reads(const ir_instruction *ins, uint32_t tid) {
  for (operand_iter i = operands_of(ins); next_operand(&i);)
    if (i.o.tid == tid && !(i.o.flags & IR_OUT)) return true;
  return false;
}

/* t: the slot's tensor as the program has it. */
static bool keeps_bf16(const precision_pass *pass, uint32_t index, uint32_t tid, const tensor *t) {
  const planner *l = pass->l;
  const uint8_t b = l->m->where[index];
  const uint32_t last = l->g->last_use[tid];
  if (!l->x->devices.backends[b]->vt->precision || t->type != DTYPE_F32 ||
      !is_slot(l->x->prog, tid, SLOT_TEMPORARY) || l->p->target[tid] != NO_INDEX ||
      last == NO_INDEX || last >= l->g->n || tensor_numel(t) < LEAST)
    return false;
  if (!supports_bf16(pass, index, b, tid)) return false;
  for (uint32_t i = index + 1; i <= last; i++)
    if (reads(&l->g->instructions[i], tid) && !supports_bf16(pass, i, b, tid)) return false;
  return true;
}

/* ---------------------------------------------------------------- the walk */

/* As plan_view does. */
static void expect_view(precision_pass *pass, const ir_instruction *ins) {
  const planner *l = pass->l;
  const rule_context c = {&l->x->prog->ir, l->p->types, l->p->values};
  const uint32_t result = first_slot(ins, true);
  bound_tensor x, out = {.t = l->p->types[result], .slot = result, .constant = NO_INDEX};
  if (!find_operand(pass, first_slot(ins, false), 0, &x) || !has_known_dims(l, result, &out.t))
    return;
  tensor to = out.t;
  if (op_table[ins->op_type].view(&c, ins->op, &x.t, &to) &&
      !is_slot(l->x->prog, result, SLOT_OUTPUT))
    out = (bound_tensor){
        .t = to, .slot = result, .is_constant = x.is_constant, .constant = x.constant};
  expect(pass, &out);
}

/* As materialize_operand does. */
static void expect_copies(precision_pass *pass, const ir_instruction *ins) {
  for (operand_iter i = operands_of(ins); next_operand(&i);) {
    bound_tensor x;
    if ((i.o.flags & IR_OUT) || !find_operand(pass, i.o.tid, 0, &x) || lies_as_read(&i.o, &x.t))
      continue;
    tensor_set_contiguous(&x.t);
    x.is_constant = false;
    x.constant = NO_INDEX;
    expect(pass, &x);
  }
}

static void expect_results(precision_pass *pass, uint32_t index, const ir_instruction *ins) {
  planner *l = pass->l;
  for (operand_iter i = operands_of(ins); next_operand(&i);) {
    bound_tensor out = {.t = l->p->types[i.o.tid], .slot = i.o.tid, .constant = NO_INDEX};
    if (!(i.o.flags & IR_OUT) || !has_known_dims(l, i.o.tid, &out.t)) continue;
    l->keeps_bf16[i.o.tid] = i.o.reuses == IR_NONE && keeps_bf16(pass, index, i.o.tid, &out.t);
    if (l->keeps_bf16[i.o.tid]) out.t.type = DTYPE_BF16;
    expect(pass, &out);
  }
}

static void expect_instruction(precision_pass *pass, uint32_t index) {
  planner *l = pass->l;
  const ir_instruction *ins = &l->g->instructions[index];
  const ir_dequantize *decoded = ins->op;
  bound_tensor kept = {.is_constant = true};
  if (op_table[ins->op_type].is_host) {
    if (ins->op_type != IR_OP_SCALAR) return;
    status_free(scalar_run(&l->x->prog->ir, ins, l->p->values));
    compute_sizes(l, index + 1);
  } else if (op_table[ins->op_type].is_view) {
    expect_view(pass, ins);
  } else if (is_kept_decoded(l, ins)) {
    kept.t = l->p->types[decoded->out];
    kept.slot = kept.constant = decoded->out;
    if (has_known_dims(l, kept.slot, &kept.t)) expect(pass, &kept);
  } else {
    expect_copies(pass, ins);
    expect_results(pass, index, ins);
  }
}

bool assigns_precision(const planner *l) {
  bool any = false;
  for (int b = 0; b < l->x->devices.count; b++)
    any = any || l->x->devices.backends[b]->vt->precision;
  return any && l->x->options.fast && !l->x->options.wide && !l->x->observer;
}

static bool ends_stretch(const planner *l, uint32_t index) {
  return l->m->where[index] == WHERE_CONTROL || l->g->instructions[index].op_type == IR_OP_ITEM;
}

clave_status assign_precision(planner *l, uint32_t first, uint32_t end, uint32_t *next) {
  const size_t n = slot_count(l->x->prog);
  precision_pass pass = {.l = l,
                         .expected = malloc(n * sizeof *pass.expected + 1),
                         .is_expected = calloc(n + 1, sizeof *pass.is_expected),
                         .shown = malloc(n * sizeof *pass.shown + 1)};
  const bool is_good = pass.expected && pass.is_expected && pass.shown;
  uint32_t i = first;
  if (is_good) compute_sizes(l, first);
  for (; is_good && i < end && !ends_stretch(l, i); i = l->g->bodies[i][1].end)
    expect_instruction(&pass, i);
  *next = i < end ? l->g->bodies[i][1].end : end;
  free(pass.expected);
  free(pass.is_expected);
  free(pass.shown);
  return is_good ? NULL : status_no_memory();
}
