/* Planning one instruction: its sizes, where its operands and results lie, and the copies and
 * transfers it needs. */
#include "interp/plan/op.h"

#include <stdlib.h>

#include "interp/plan/control.h"
#include "interp/plan/operands.h"
#include "interp/plan/storage.h"
#include "interp/scalar.h"

/* The slot's bytes stay until the current command. */
static void keep(schedule *p, uint32_t tid, int b) {
  uint32_t i = p->storages[p->now[tid].storage].block[b];
  if (i == NO_INDEX || p->blocks[i].part) return;
  if (p->blocks[i].a.last < p->n_commands) p->blocks[i].a.last = p->n_commands;
}

/* ---------------------------------------------------------------- results */

/* Where a slot that an op on backend b writes lies: a body's result where it is wanted, if that
 * fits. */
static clave_status result_place(schedule *p, uint32_t tid, int b, uint32_t last_use, bool bf16,
                                 location *out) {
  const storage *wanted = p->target[tid] == NO_INDEX ? NULL : &p->storages[p->target[tid]];
  size_t bytes;
  TRY(known_bytes(&p->types[tid], &bytes));
  if (!wanted || wanted->home != b || wanted->bytes != bytes) {
    tensor kept = p->types[tid];
    if (bf16) kept.type = DTYPE_BF16;
    return new_place(p, &kept, b, last_use, out);
  }
  *out = (location){p->target[tid], p->types[tid]};
  tensor_set_contiguous(&out->t);
  return NULL;
}

/* A view becomes a copy where strides cannot express it, and into outputs, which alias nothing. */
static clave_status plan_view(planner *l, uint32_t index, const rule_context *c) {
  schedule *p = l->p;
  const ir_instruction *ins = &l->g->instructions[index];
  uint32_t result = first_slot(ins, true), last_use = l->g->last_use[result];
  location x = p->now[first_slot(ins, false)], out = {x.storage, p->types[result]};
  bool expressible = op_table[ins->op_type].view(c, ins->op, &x.t, &out.t);
  if (expressible && !is_slot(l->x->prog, result, SLOT_OUTPUT)) {
    storage *g = &p->storages[x.storage];
    g->last_use = later_use(g->last_use, last_use);
    set_location(p, result, out);
    return NULL;
  }
  location from = expressible ? out : x, made, to;
  int b = schedule_home(p, x.storage);
  TRY(materialize(l, x.storage, b, index));
  TRY(new_place(p, &p->types[result], b, last_use, &made));
  to = made;
  to.t = from.t;
  tensor_set_contiguous(&to.t);
  set_location(p, result, made);
  return add_copy(l, b, index, from, to, NO_INDEX);
}

static bool state_is_updated(const graph *g, uint32_t tid) {
  for (uint32_t i = 0; i < g->method->updates.count; i++)
    if (g->method->updates.items[i].state == tid) return true;
  return false;
}

/* How many operands of an instruction lie in a storage. */
static int count_sharing(const schedule *p, const ir_instruction *ins, uint32_t in) {
  int n = 0;
  for (operand_iter i = operands_of(ins); next_operand(&i);)
    n += !(i.o.flags & IR_OUT) && p->now[i.o.tid].storage == in;
  return n;
}

/* In place only if no other operand lies in the same bytes, and nothing later reads the old value
 * through any view. */
static bool can_reuse(const planner *l, uint32_t index, uint32_t x, uint32_t out) {
  const schedule *p = l->p;
  if (count_sharing(p, &l->g->instructions[index], p->now[x].storage) > 1) return false;
  const storage *g = &p->storages[p->now[x].storage];
  const tensor *t = &p->now[x].t;
  if (g->fixed || g->home != l->m->where[index] || (g->last_use != NO_INDEX && g->last_use > index))
    return false;
  if (!tensor_is_contiguous(t) || t->offset != 0 ||
      (size_t)tensor_numel(t) * dtype_size(t->type) != g->bytes)
    return false;
  if (p->blocks[g->block[g->home]].kind != BLOCK_STATE) return true;
  return !is_slot(l->x->prog, out, SLOT_OUTPUT) && state_is_updated(l->g, g->slot);
}

static clave_status plan_reuse(planner *l, uint32_t index, const operand *o) {
  schedule *p = l->p;
  uint8_t b = l->m->where[index];
  uint32_t last_use = l->g->last_use[o->tid];
  location x = p->now[o->reuses], made = {NO_INDEX, p->types[o->tid]};
  tensor_set_contiguous(&made.t);
  if (!can_reuse(l, index, o->reuses, o->tid)) {
    TRY(result_place(p, o->tid, b, last_use, false, &made));
    TRY(add_copy(l, b, index, x, made, NO_INDEX));
  } else {
    uint32_t in = p->storages[x.storage].block[b], slot = p->storages[x.storage].slot;
    TRY(add_storage(p, p->storages[x.storage].bytes, b, slot, &made.storage));
    p->storages[made.storage].block[b] = in;
    p->storages[made.storage].last_use = last_use;
  }
  set_location(p, o->tid, made);
  return NULL;
}

static clave_status place_result(planner *l, uint32_t index, const operand *o) {
  if (o->reuses != IR_NONE) return plan_reuse(l, index, o);
  location made;
  TRY(result_place(l->p, o->tid, l->m->where[index], l->g->last_use[o->tid], l->keeps_bf16[o->tid],
                   &made));
  set_location(l->p, o->tid, made);
  return NULL;
}

/* ---------------------------------------------------------------- instructions */

static clave_status plan_op(planner *l, uint32_t index) {
  const ir_instruction *ins = &l->g->instructions[index];
  uint8_t b = l->m->where[index];
  bool all_empty = true;
  for (operand_iter i = operands_of(ins); next_operand(&i);)
    if (!(i.o.flags & IR_OUT)) TRY(materialize_operand(l, index, b, &i.o));
  for (operand_iter i = operands_of(ins); next_operand(&i);) {
    if (!(i.o.flags & IR_OUT)) continue;
    TRY(place_result(l, index, &i.o));
    all_empty = all_empty && tensor_numel(&l->p->types[i.o.tid]) == 0;
  }
  if (all_empty) return NULL;
  command c = {.kind = COMMAND_RUN, .backend = b, .instruction = index, .rebind = NO_INDEX};
  for (operand_iter i = operands_of(ins); next_operand(&i);) {
    keep(l->p, i.o.tid, b);
    const location *at = &l->p->now[i.o.tid];
    put_operand(l, i.o.tid, &at->t, at->storage);
  }
  TRY(record_instruction(l, b, ins, &l->m->cache[b][index], &c.recorded));
  return add_command(l->p, c);
}

clave_status plan_instruction(planner *l, uint32_t index) {
  const ir_instruction *ins = &l->g->instructions[index];
  const op_info *info = &op_table[ins->op_type];
  schedule *p = l->p;
  if (info->is_host) return scalar_run(&l->x->prog->ir, ins, p->values);
  if (l->m->where[index] == WHERE_CONTROL) return plan_control(l, index);
  TRY(resolve_operands(l, ins));
  if (ins->op_type == IR_OP_CUSTOM) TRY(resolve_bodies(l, index));
  rule_context c = {&l->x->prog->ir, p->types, p->values};
  TRY(rule_sizes(&c, ins));
  if (info->is_view) return plan_view(l, index, &c);
  if (is_kept_decoded(l, ins)) return import_slot(l, ((const ir_dequantize *)ins->op)->out);
  if (ins->op_type != IR_OP_ITEM) return plan_op(l, index);
  uint32_t x = p->now[first_slot(ins, false)].storage;
  return materialize(l, x, schedule_home(p, x), index);
}

/* ---------------------------------------------------------------- state */

static int home_of_state(const planner *l, uint32_t tid) {
  return l->x->state_home[tid - first_state(l->x->prog)];
}

/* Is the value already the state's own bytes? */
static bool in_state(const planner *l, uint32_t state, location v) {
  const storage *g = &l->p->storages[v.storage];
  uint32_t i = g->block[home_of_state(l, state)];
  return i != NO_INDEX && l->p->blocks[i].kind == BLOCK_STATE && g->slot == state &&
         v.t.offset == 0 && tensor_is_contiguous(&v.t);
}

/* Values that lie in a state's bytes move out first, so that states can swap. */
static clave_status stage_update(planner *l, const ir_state_update *u, location *v) {
  schedule *p = l->p;
  int home = home_of_state(l, u->state);
  TRY(import_slot(l, u->state));
  TRY(import_slot(l, u->value));
  *v = p->now[u->value];
  if (in_state(l, u->state, *v)) {
    v->storage = NO_INDEX;
    return NULL;
  }
  TRY(materialize(l, v->storage, home, l->g->n));
  if (p->blocks[p->storages[v->storage].block[home]].kind != BLOCK_STATE) return NULL;
  location made, from = *v;
  TRY(new_place(p, &from.t, home, l->g->n, &made));
  *v = made;
  return add_copy(l, home, l->g->n, from, made, NO_INDEX);
}

static clave_status write_state(planner *l, uint32_t state, location v) {
  if (v.storage == NO_INDEX) return NULL;
  int home = home_of_state(l, state);
  location to = l->p->at[state];
  to.t = v.t;
  tensor_set_contiguous(&to.t);
  TRY(materialize(l, v.storage, home, l->g->n));
  return add_copy(l, home, l->g->n, v, to, NO_INDEX);
}

clave_status plan_updates(planner *l) {
  const ir_state_updates *u = &l->g->method->updates;
  if (!u->count) return NULL;
  location *values = calloc(u->count, sizeof *values);
  clave_status st = values ? NULL : status_no_memory();
  for (uint32_t i = 0; i < u->count && !st; i++) st = stage_update(l, &u->items[i], &values[i]);
  for (uint32_t i = 0; i < u->count && !st; i++) st = write_state(l, u->items[i].state, values[i]);
  free(values);
  return st;
}
