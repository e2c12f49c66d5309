/* Planning one instruction: its sizes, where its operands and results lie, and the copies and
 * transfers it needs. */
#include <stdlib.h>

#include "interp/layout.h"
#include "interp/scalar.h"

clave_status resolve_type(const session *s, plan *p, uint32_t tid) {
  const ir_tensor *d = &s->prog->ir.tensors.items[tid];
  tensor *t = &p->types[tid];
  for (uint32_t i = 0; i < d->shape.count; i++) {
    const ir_int_or_vid *v = &d->shape.items[i];
    int64_t n = v->vid == IR_NONE ? v->literal : p->values[v->vid].i;
    if (n < 0)
      return INVALID("dimension %u of '%s' is %lld; sizes are not negative", i, d->name,
                     (long long)n);
    t->dims[i] = n;
  }
  size_t bytes;
  return status_while(known_bytes(t, &bytes), "'%s'", d->name);
}

clave_status resolve_operands(session *s, method *m, plan *p, const ir_instruction *ins) {
  for (operand_iter i = operands_of(ins); next_operand(&i);)
    TRY(i.o.flags & IR_OUT ? resolve_type(s, p, i.o.tid) : touch_slot(s, m, p, i.o.tid));
  return NULL;
}

clave_status new_place(plan *p, const tensor *t, int b, uint32_t last_use, location *out) {
  size_t bytes;
  uint32_t blk;
  out->t = *t;
  tensor_set_contiguous(&out->t);
  TRY(known_bytes(t, &bytes));
  TRY(add_storage(p, bytes, (uint8_t)b, NO_INDEX, &out->storage));
  TRY(add_block(p, BLOCK_ARENA, (uint8_t)b, bytes, &blk));
  p->storages[out->storage].block[b] = blk;
  p->storages[out->storage].last_use = last_use;
  return NULL;
}

/* Where a slot that an op on backend b writes lies: a body's result where it is wanted, if that
 * fits. */
static clave_status result_place(plan *p, uint32_t tid, int b, uint32_t last_use, location *out) {
  const storage *wanted = p->target[tid] == NO_INDEX ? NULL : &p->storages[p->target[tid]];
  size_t bytes;
  TRY(known_bytes(&p->types[tid], &bytes));
  if (!wanted || wanted->home != b || wanted->bytes != bytes)
    return new_place(p, &p->types[tid], b, last_use, out);
  *out = (location){p->target[tid], p->types[tid]};
  tensor_set_contiguous(&out->t);
  return NULL;
}

clave_status add_copy(plan *p, int b, uint32_t index, location x, location out, uint32_t rebind) {
  if (tensor_numel(&x.t) == 0) return NULL;
  return add_step(p, (step){.kind = STEP_COPY,
                            .backend = (uint8_t)b,
                            .instruction = index,
                            .x = x,
                            .out = out,
                            .rebind = rebind});
}

void settle(plan *p, uint32_t tid, location l) { p->at[tid] = p->now[tid] = l; }

int home_of(const plan *p, uint32_t index) {
  return p->storages[index].home == NO_HOME ? 0 : p->storages[index].home;
}

uint32_t later_use(uint32_t a, uint32_t b) {
  if (a == NO_INDEX) return b;
  return b != NO_INDEX && b > a ? b : a;
}

/* A view becomes a copy where strides cannot express it, and into outputs, which alias nothing. */
static clave_status plan_view(const placing *l, const rule_context *c, const ir_instruction *ins) {
  plan *p = l->p;
  uint32_t result = first_slot(ins, true);
  location x = p->now[first_slot(ins, false)], out = {x.storage, p->types[result]};
  bool expressible = op_table[ins->op_type].view(c, ins->op, &x.t, &out.t);
  if (expressible && !is_output_slot(l->s, result)) {
    storage *g = &p->storages[x.storage];
    g->last_use = later_use(g->last_use, l->m->last_use[result]);
    settle(p, result, out);
    return NULL;
  }
  location from = expressible ? out : x, made, to;
  int b = home_of(p, x.storage);
  TRY(need_storage(l->s, p, x.storage, b, l->index));
  TRY(new_place(p, &p->types[result], b, l->m->last_use[result], &made));
  to = made;
  to.t = from.t;
  tensor_set_contiguous(&to.t);
  settle(p, result, made);
  return add_copy(p, b, l->index, from, to, NO_INDEX);
}

clave_status bring_operand(const placing *l, const operand *o) {
  plan *p = l->p;
  TRY(need_storage(l->s, p, p->now[o->tid].storage, l->backend, l->index));
  const tensor *t = &p->now[o->tid].t;
  bool good = o->flags & IR_DENSE ? tensor_is_contiguous(t)
                                  : !(o->flags & IR_ROWS) || tensor_rows_contiguous(t);
  if (good) return NULL;
  location made;
  TRY(new_place(p, t, l->backend, l->m->last_use[o->tid], &made));
  TRY(add_copy(p, l->backend, l->index, p->now[o->tid], made, o->tid));
  p->now[o->tid] = made;
  return NULL;
}

static void keep(plan *p, uint32_t tid, int b) {
  uint32_t blk = p->storages[p->now[tid].storage].block[b];
  if (blk == NO_INDEX || p->blocks[blk].phase) return;
  if (p->blocks[blk].a.last < p->n_steps) p->blocks[blk].a.last = p->n_steps;
}

static bool state_is_updated(const method *m, uint32_t tid) {
  for (uint32_t i = 0; i < m->ir->updates.count; i++)
    if (m->ir->updates.items[i].state == tid) return true;
  return false;
}

/* How many operands of an instruction lie in a storage. */
static int count_sharing(const plan *p, const ir_instruction *ins, uint32_t in) {
  int n = 0;
  for (operand_iter i = operands_of(ins); next_operand(&i);)
    n += !(i.o.flags & IR_OUT) && p->now[i.o.tid].storage == in;
  return n;
}

/* In place only if no other operand lies in the same bytes, and nothing later reads the old value
 * through any view. */
static bool can_reuse(const placing *l, uint32_t x, uint32_t out) {
  const plan *p = l->p;
  if (count_sharing(p, &l->m->instructions[l->index], p->now[x].storage) > 1) return false;
  const storage *g = &p->storages[p->now[x].storage];
  const tensor *t = &p->now[x].t;
  if (g->fixed || g->home != l->backend || (g->last_use != NO_INDEX && g->last_use > l->index))
    return false;
  if (!tensor_is_contiguous(t) || t->offset != 0 ||
      (size_t)tensor_numel(t) * dtype_size(t->type) != g->bytes)
    return false;
  if (p->blocks[g->block[g->home]].kind != BLOCK_STATE) return true;
  return !is_output_slot(l->s, out) && state_is_updated(l->m, g->slot);
}

static clave_status plan_reuse(const placing *l, const operand *o) {
  plan *p = l->p;
  location x = p->now[o->reuses], made = {NO_INDEX, p->types[o->tid]};
  tensor_set_contiguous(&made.t);
  if (!can_reuse(l, o->reuses, o->tid)) {
    TRY(result_place(p, o->tid, l->backend, l->m->last_use[o->tid], &made));
    TRY(add_copy(p, l->backend, l->index, x, made, NO_INDEX));
  } else {
    uint32_t blk = p->storages[x.storage].block[l->backend], slot = p->storages[x.storage].slot;
    TRY(add_storage(p, p->storages[x.storage].bytes, (uint8_t)l->backend, slot, &made.storage));
    p->storages[made.storage].block[l->backend] = blk;
    p->storages[made.storage].last_use = l->m->last_use[o->tid];
  }
  settle(p, o->tid, made);
  return NULL;
}

static clave_status place_result(const placing *l, const operand *o) {
  if (o->reuses != IR_NONE) return plan_reuse(l, o);
  location made;
  TRY(result_place(l->p, o->tid, l->backend, l->m->last_use[o->tid], &made));
  settle(l->p, o->tid, made);
  return NULL;
}

static clave_status plan_op(placing *l, const ir_instruction *ins) {
  bool all_empty = true;
  l->backend = l->m->where[l->index];
  for (operand_iter i = operands_of(ins); next_operand(&i);)
    if (!(i.o.flags & IR_OUT)) TRY(bring_operand(l, &i.o));
  for (operand_iter i = operands_of(ins); next_operand(&i);) {
    if (!(i.o.flags & IR_OUT)) continue;
    TRY(place_result(l, &i.o));
    all_empty = all_empty && tensor_numel(&l->p->types[i.o.tid]) == 0;
  }
  if (all_empty) return NULL;
  for (operand_iter i = operands_of(ins); next_operand(&i);) keep(l->p, i.o.tid, l->backend);
  return add_step(l->p, (step){.kind = STEP_RUN,
                               .backend = (uint8_t)l->backend,
                               .instruction = l->index,
                               .rebind = NO_INDEX});
}

clave_status plan_instruction(session *s, method *m, plan *p, uint32_t index) {
  const ir_instruction *ins = &m->instructions[index];
  const op_info *info = &op_table[ins->op_type];
  if (info->is_host) return scalar_run(&s->prog->ir, ins, p->values);
  if (m->where[index] == WHERE_CONTROL) return plan_control(s, m, p, index);
  placing l = {.s = s, .m = m, .p = p, .index = index};
  TRY(resolve_operands(s, m, p, ins));
  rule_context c = {&s->prog->ir, p->types, p->values};
  TRY(info->rule(&c, ins->op));
  if (ins->op_type == IR_OP_ITEM) {
    uint32_t x = p->now[((const ir_item *)ins->op)->x].storage;
    return need_storage(s, p, x, home_of(p, x), index);
  }
  return info->is_view ? plan_view(&l, &c, ins) : plan_op(&l, ins);
}

/* Is the value already the state's own bytes? */
static bool in_state(const session *s, const plan *p, uint32_t state, location v) {
  uint8_t home = s->state_home[state - first_state(s)];
  const storage *g = &p->storages[v.storage];
  uint32_t blk = g->block[home];
  return blk != NO_INDEX && p->blocks[blk].kind == BLOCK_STATE && g->slot == state &&
         v.t.offset == 0 && tensor_is_contiguous(&v.t);
}

/* Values that lie in a state's bytes move out first, so that states can swap. */
static clave_status stage_update(session *s, method *m, plan *p, const ir_state_update *u,
                                 location *v) {
  int home = s->state_home[u->state - first_state(s)];
  TRY(touch_slot(s, m, p, u->state));
  TRY(touch_slot(s, m, p, u->value));
  *v = p->now[u->value];
  if (in_state(s, p, u->state, *v)) {
    v->storage = NO_INDEX;
    return NULL;
  }
  TRY(need_storage(s, p, v->storage, home, m->n));
  if (p->blocks[p->storages[v->storage].block[home]].kind != BLOCK_STATE) return NULL;
  location made, from = *v;
  TRY(new_place(p, &from.t, home, m->n, &made));
  *v = made;
  return add_copy(p, home, m->n, from, made, NO_INDEX);
}

static clave_status write_state(session *s, method *m, plan *p, uint32_t state, location v) {
  if (v.storage == NO_INDEX) return NULL;
  int home = s->state_home[state - first_state(s)];
  location to = p->at[state];
  to.t = v.t;
  tensor_set_contiguous(&to.t);
  TRY(need_storage(s, p, v.storage, home, m->n));
  return add_copy(p, home, m->n, v, to, NO_INDEX);
}

clave_status plan_updates(session *s, method *m, plan *p) {
  const ir_state_updates *u = &m->ir->updates;
  if (!u->count) return NULL;
  location *values = calloc(u->count, sizeof *values);
  clave_status st = values ? NULL : status_no_memory();
  for (uint32_t i = 0; i < u->count && !st; i++)
    st = stage_update(s, m, p, &u->items[i], &values[i]);
  for (uint32_t i = 0; i < u->count && !st; i++)
    st = write_state(s, m, p, u->items[i].state, values[i]);
  free(values);
  return st;
}
