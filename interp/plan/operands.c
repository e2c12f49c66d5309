/* Operands of instructions while they are planned: their sizes, where ops read them, and what is
 * recorded of them. */
#include "interp/plan/operands.h"

#include "interp/plan/storage.h"

clave_status resolve_type(planner *l, uint32_t tid) {
  const ir_tensor *d = &l->x->prog->ir.tensors.items[tid];
  tensor *t = &l->p->types[tid];
  for (uint32_t i = 0; i < d->shape.count; i++) {
    const ir_int_or_vid *v = &d->shape.items[i];
    int64_t n = v->vid == IR_NONE ? v->literal : l->p->values[v->vid].i;
    if (n < 0)
      return INVALID("dimension %u of '%s' is %lld; sizes are not negative", i, d->name,
                     (long long)n);
    t->dims[i] = n;
  }
  size_t bytes;
  return status_while(known_bytes(t, &bytes), "'%s'", d->name);
}

clave_status resolve_operands(planner *l, const ir_instruction *ins) {
  for (operand_iter i = operands_of(ins); next_operand(&i);)
    TRY(i.o.flags & IR_OUT ? resolve_type(l, i.o.tid) : import_slot(l, i.o.tid));
  return NULL;
}

clave_status record_instruction(planner *l, int b, const ir_instruction *ins, void **cache,
                                recording **out) {
  backend *be = l->x->devices.backends[b];
  const node n = {.instruction = ins,
                  .tensors = l->operands,
                  .types = l->p->types,
                  .values = l->p->values,
                  .cache = cache};
  if (l->x->observer) TRY(l->x->observer->see(l->x->observer->ctx, b, &n));
  TRY(be->vt->record(be, &n, l->x->options.fast, out));
  hold_first(*out);
  size_t *scratch = &l->p->scratch_bytes[b];
  if (*scratch < (*out)->scratch_bytes) *scratch = (*out)->scratch_bytes;
  return NULL;
}

/* A lean schedule shows no constants, so that no packed weights are requested. */
void put_operand(planner *l, uint32_t slot, const tensor *t, uint32_t of) {
  const storage *g = of == NO_INDEX ? NULL : &l->p->storages[of];
  const bool is_constant = g && holds_constant(l, g) && !l->p->is_lean;
  l->operands[slot] = (bound_tensor){.t = *t,
                                     .slot = slot,
                                     .is_constant = is_constant,
                                     .constant = g ? g->slot : NO_INDEX,
                                     .is_multiplied = is_constant && l->x->is_multiplied[g->slot]};
}

clave_status record_copy(planner *l, int b, const tensor *x, const tensor *out,
                         recording **recorded) {
  put_operand(l, l->x->copy.x, x, NO_INDEX);
  put_operand(l, l->x->copy.out, out, NO_INDEX);
  return record_instruction(l, b, &l->x->copy_instruction, &l->x->copy_cache[b], recorded);
}

clave_status add_copy(planner *l, int b, uint32_t index, location x, location out,
                      uint32_t rebind) {
  command c = {.kind = COMMAND_COPY,
               .backend = (uint8_t)b,
               .instruction = index,
               .x = x,
               .out = out,
               .rebind = rebind};
  if (tensor_numel(&x.t) == 0) return NULL;
  TRY(record_copy(l, b, &x.t, &out.t, &c.recorded));
  return add_command(l->p, c);
}

bool is_kept_decoded(const planner *l, const ir_instruction *ins) {
  const ir_dequantize *o = ins->op;
  return ins->op_type == IR_OP_DEQUANTIZE && !l->p->is_lean &&
         is_slot(l->x->prog, o->out, SLOT_TEMPORARY) && l->p->target[o->out] == NO_INDEX;
}

bool lies_as_read(const operand *o, const tensor *t) {
  if (o->flags & IR_DENSE) return tensor_is_contiguous(t);
  return !(o->flags & IR_ROWS) || tensor_rows_contiguous(t);
}

clave_status materialize_operand(planner *l, uint32_t index, int b, const operand *o) {
  schedule *p = l->p;
  TRY(materialize(l, p->now[o->tid].storage, b, index));
  const tensor *t = &p->now[o->tid].t;
  if (lies_as_read(o, t)) return NULL;
  location made;
  TRY(new_place(p, t, b, l->g->last_use[o->tid], &made));
  TRY(add_copy(l, b, index, p->now[o->tid], made, o->tid));
  p->now[o->tid] = made;
  return NULL;
}
