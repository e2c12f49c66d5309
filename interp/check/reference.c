/* The reference of a custom op on the CPU backend, on copies of its operands: what its kernels are
 * compared with. A reference is a chain of plain ops, which are run one by one, each result in a
 * buffer of its own. */
#include "interp/check/reference.h"

#include <stdlib.h>
#include <string.h>

#include "interp/scalar.h"

typedef struct reference_run {
  const checking *c;
  const oracle *o;
  const program *prog;
  tensor *types;        /* owned (n_slots) */
  scalar_value *values; /* owned (n_values) */
  bound_tensor *at;     /* owned (n_slots + 2): where slots lie; the last two are a copy's */
  buffer **made;        /* owned */
  size_t n_made, cap_made;
  bool faulty;
} reference_run;

/* ---------------------------------------------------------------- memory */

static clave_status take_buffer(reference_run *k, buffer *b) {
  if (!array_reserve(&k->made, &k->cap_made, k->n_made + 1, sizeof(buffer *))) {
    k->o->cpu->vt->buffer_destroy(k->o->cpu, b);
    return status_no_memory();
  }
  k->made[k->n_made++] = b;
  return NULL;
}

/* New memory for a tensor of this type. */
static clave_status make_place(reference_run *k, uint32_t slot, const tensor *t,
                               bound_tensor *out) {
  size_t bytes;
  *out = (bound_tensor){.t = *t, .slot = slot};
  tensor_set_contiguous(&out->t);
  TRY(known_bytes(t, &bytes));
  TRY(k->o->cpu->vt->buffer_create(k->o->cpu, bytes, &out->buf));
  return take_buffer(k, out->buf);
}

static clave_status bind_constant(reference_run *k, uint32_t tid) {
  bound_tensor *b = &k->at[tid];
  size_t bytes;
  if (b->buf || tid >= k->prog->ir.constants.count) return NULL;
  *b = (bound_tensor){.t = k->types[tid], .slot = tid};
  TRY(known_bytes(&b->t, &bytes));
  if (!bytes) return NULL;
  TRY(k->o->cpu->vt->buffer_wrap(k->o->cpu, k->prog->constants[tid], bytes, false, &b->buf));
  return take_buffer(k, b->buf);
}

/* ---------------------------------------------------------------- one node */

static clave_status run_recorded_here(reference_run *k, const recording *r) {
  const backend_vtable *vt = k->o->cpu->vt;
  run_operands now = {.tensors = k->at, .random = k->c->s->random};
  void *state = NULL;
  device_fault fault = {0};
  TRY(vt->buffer_create(k->o->cpu, r->scratch_bytes, &now.scratch));
  clave_status st = vt->run(k->o->queue, r, &state, &now, k->c->number);
  if (!st) st = vt->finish(k->o->queue, &fault);
  vt->state_destroy(k->o->queue, state);
  vt->buffer_destroy(k->o->cpu, now.scratch);
  k->faulty = k->faulty || fault.present;
  return st;
}

/* The operands are in k->at. */
static clave_status run_node(reference_run *k, const ir_instruction *ins) {
  void *cache = NULL;
  recording *r;
  const node n = {.instruction = ins, .tensors = k->at, .values = k->values, .cache = &cache};
  TRY(k->o->cpu->vt->record(k->o->cpu, &n, false, &r));
  clave_status st = run_recorded_here(k, r);
  k->o->cpu->vt->recording_destroy(k->o->cpu, r);
  return st;
}

static clave_status copy_tensor(reference_run *k, bound_tensor from, bound_tensor to) {
  const ir_copy op = {.x = slot_count(k->prog), .out = slot_count(k->prog) + 1};
  const ir_instruction copy = {.op_type = IR_OP_COPY, .op = (void *)&op, .name = ""};
  if (tensor_numel(&from.t) == 0) return NULL;
  k->at[op.x] = from;
  k->at[op.out] = to;
  k->at[op.x].slot = op.x;
  k->at[op.out].slot = op.out;
  return run_node(k, &copy);
}

/* An operand that a kernel wants contiguous and that is not is copied, for later readers too. */
static clave_status make_dense(reference_run *k, const operand *o) {
  bound_tensor *b = &k->at[o->tid], made;
  bool good = o->flags & IR_DENSE ? tensor_is_contiguous(&b->t)
                                  : !(o->flags & IR_ROWS) || tensor_rows_contiguous(&b->t);
  if (good) return NULL;
  TRY(make_place(k, o->tid, &b->t, &made));
  TRY(copy_tensor(k, *b, made));
  *b = made;
  return NULL;
}

static clave_status resolve_size(reference_run *k, uint32_t tid) {
  const ir_int_or_vids *shape = &k->prog->ir.tensors.items[tid].shape;
  tensor *t = &k->types[tid];
  size_t bytes;
  for (uint32_t i = 0; i < shape->count; i++) {
    const ir_int_or_vid *v = &shape->items[i];
    t->dims[i] = v->vid == IR_NONE ? v->literal : k->values[v->vid].i;
    if (t->dims[i] < 0) return INVALID("dimension %u is negative", i);
  }
  return known_bytes(t, &bytes);
}

static clave_status run_view(reference_run *k, const ir_instruction *ins, const rule_context *c) {
  uint32_t x = first_slot(ins, false), out = first_slot(ins, true);
  bound_tensor *from = &k->at[x], *to = &k->at[out];
  *to = *from;
  to->slot = out;
  to->t = k->types[out];
  if (op_table[ins->op_type].view(c, ins->op, &from->t, &to->t)) return NULL;
  TRY(make_place(k, out, &k->types[out], to));
  bound_tensor same = *to; /* x's own shape over the new memory */
  same.t = from->t;
  tensor_set_contiguous(&same.t);
  return copy_tensor(k, *from, same);
}

static clave_status place_result(reference_run *k, const operand *o) {
  TRY(make_place(k, o->tid, &k->types[o->tid], &k->at[o->tid]));
  if (o->reuses == IR_NONE) return NULL;
  return copy_tensor(k, k->at[o->reuses], k->at[o->tid]);
}

static clave_status run_op(reference_run *k, const ir_instruction *ins) {
  bool all_empty = true;
  for (operand_iter i = operands_of(ins); next_operand(&i);)
    if (!(i.o.flags & IR_OUT)) TRY(make_dense(k, &i.o));
  for (operand_iter i = operands_of(ins); next_operand(&i);) {
    if (!(i.o.flags & IR_OUT)) continue;
    TRY(place_result(k, &i.o));
    all_empty = all_empty && tensor_numel(&k->types[i.o.tid]) == 0;
  }
  return all_empty ? NULL : run_node(k, ins);
}

static clave_status run_instruction(reference_run *k, const ir_instruction *ins) {
  const op_info *info = &op_table[ins->op_type];
  const rule_context c = {&k->prog->ir, k->types, k->values};
  if (info->is_host) return scalar_run(&k->prog->ir, ins, k->values);
  for (operand_iter i = operands_of(ins); next_operand(&i);)
    TRY(i.o.flags & IR_OUT ? resolve_size(k, i.o.tid) : bind_constant(k, i.o.tid));
  TRY(rule_sizes(&c, ins));
  return info->is_view ? run_view(k, ins, &c) : run_op(k, ins);
}

/* ---------------------------------------------------------------- the chain */

static clave_status bind_args(reference_run *k, const ir_custom *op, const ir_chain *chain) {
  for (uint32_t i = 0; i < chain->args.count; i++) {
    uint32_t arg = chain->args.items[i];
    k->at[arg] = k->c->copy[op->args.items[i]];
    k->at[arg].slot = arg;
    TRY(resolve_size(k, arg));
  }
  return NULL;
}

static bool same_dims(const tensor *a, const tensor *b) {
  return a->rank == b->rank && memcmp(a->dims, b->dims, sizeof *a->dims * (size_t)a->rank) == 0;
}

/* To where they are compared. */
static clave_status take_results(reference_run *k, const ir_custom *op, const ir_chain *chain) {
  for (uint32_t i = 0; i < chain->results.count; i++) {
    TRY(bind_constant(k, chain->results.items[i]));
    const bound_tensor *from = &k->at[chain->results.items[i]];
    const bound_tensor *to = &k->c->copy[op->results.items[i]];
    if (!same_dims(&from->t, &to->t)) {
      char is[128], should[128];
      return INVALID("%s: result %u is %s, and %s by the reference", op->target, i,
                     tensor_shape_text(&to->t, is, sizeof is),
                     tensor_shape_text(&from->t, should, sizeof should));
    }
    TRY(copy_tensor(k, *from, *to));
  }
  return NULL;
}

static clave_status run_chain(reference_run *k, const ir_custom *op) {
  const ir_chain *chain = &k->prog->ir.chains.items[op->reference_chain];
  TRY(bind_args(k, op, chain));
  for (uint32_t i = 0; i < chain->instructions.count; i++) {
    const ir_instruction *ins = &chain->instructions.items[i];
    TRY(status_while(run_instruction(k, ins), "node %u of the reference (%s)", i, ins->name));
  }
  return take_results(k, op, chain);
}

static clave_status begin(reference_run *k) {
  size_t slots = slot_count(k->prog), values = k->prog->ir.values.count;
  k->types = calloc(slots + 1, sizeof *k->types);
  k->values = calloc(values + 1, sizeof *k->values);
  k->at = calloc(slots + 2, sizeof *k->at);
  if (!k->types || !k->values || !k->at) return status_no_memory();
  memcpy(k->types, k->prog->types, slots * sizeof *k->types);
  if (values) memcpy(k->values, k->c->nd->values, values * sizeof *k->values);
  return NULL;
}

clave_status run_reference(const checking *c, bool *faulty) {
  reference_run k = {.c = c, .o = c->s->oracle, .prog = c->s->prog};
  clave_status st = begin(&k);
  if (!st) st = run_chain(&k, c->nd->instruction->op);
  for (size_t i = 0; i < k.n_made; i++) k.o->cpu->vt->buffer_destroy(k.o->cpu, k.made[i]);
  free(k.made);
  free(k.at);
  free(k.values);
  free(k.types);
  *faulty = k.faulty;
  return st;
}
