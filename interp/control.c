/* Control ops in a plan. Their bodies are planned with everything else: a body's steps lie between
 * the op's control step and its end step, its slots and memory are the plan's own, so that bodies
 * nest and share the arena. Running them is loops.c's.
 *
 * What a body reads from outside is brought before the control step: the devices, and copies that
 * are dense. What a loop's body reads and writes elsewhere in every step (slices of the scanned and
 * the stacked tensors, the two buffers of a carry) lies in moving blocks, whose address is set
 * before each step. A body's results are written to their place if the op that makes them can, else
 * copied.
 *
 * A body in which sizes depend on data is planned late: whenever it runs, as phases behind the
 * plan's end that are forgotten after it. */
#include <stdlib.h>
#include <string.h>

#include "interp/layout.h"

/* One control op while it is planned. */
typedef struct planning {
  session *s;
  method *m;
  plan *p;
  control *c;
  uint32_t index;
  const ir_instruction *ins;
  const ir_chain *chains[2];
  int n_chains;
  const ir_u32s *results; /* of the op */
  uint32_t used;          /* bits: backends that the bodies use */
  uint32_t number;        /* of the control in the plan */
} planning;

/* ---------------------------------------------------------------- walking bodies */

static span all_bodies(const planning *l) {
  return (span){l->index + 1, l->m->bodies[l->index][1].end};
}

static bool is_inside(const planning *l, uint32_t tid) {
  uint32_t w = l->m->writer[tid];
  return w != NO_INDEX && w >= l->index && w < all_bodies(l).end;
}

/* Does an op of the body itself compute the slot? Then it can be told where to write it. */
static bool is_computed(const planning *l, int body, uint32_t tid) {
  uint32_t w = l->m->writer[tid];
  span r = l->m->bodies[l->index][body];
  return w != NO_INDEX && w != l->index && w >= r.first && w < r.end &&
         (l->m->where[w] < MAX_BACKENDS || l->m->where[w] == WHERE_CONTROL);
}

static bool is_used(const planning *l, int b) { return l->used >> b & 1; }

static uint8_t first_used(const planning *l) {
  uint8_t b = 0;
  while (!is_used(l, b)) b++;
  return b;
}

/* The backend on which a body's result is wanted: that of the op that computes it. */
static uint8_t choose_home(const planning *l, int body, uint32_t tid, uint8_t other) {
  uint32_t w = l->m->writer[tid];
  bool runs = is_computed(l, body, tid) && l->m->where[w] < MAX_BACKENDS;
  return runs ? l->m->where[w] : is_used(l, other) ? other : first_used(l);
}

/* ---------------------------------------------------------------- what comes from outside */

static clave_status bring_everywhere(planning *l, uint32_t tid) {
  TRY(touch_slot(l->s, l->m, l->p, tid));
  for (int b = 0; b < l->s->devices.count; b++)
    if (is_used(l, b)) TRY(need_storage(l->s, l->p, l->p->now[tid].storage, b, l->index));
  return NULL;
}

static clave_status hoist(planning *l, uint32_t instruction, const operand *o) {
  if ((o->flags & IR_OUT) || is_inside(l, o->tid)) return NULL;
  uint8_t where = l->m->where[instruction];
  if (where >= MAX_BACKENDS) return bring_everywhere(l, o->tid);
  placing one = {.s = l->s, .m = l->m, .p = l->p, .index = l->index, .backend = where};
  TRY(touch_slot(l->s, l->m, l->p, o->tid));
  return bring_operand(&one, o);
}

static clave_status hoist_all(planning *l) {
  span r = all_bodies(l);
  for (uint32_t i = r.first; i < r.end; i++) {
    uint32_t chains[2];
    int n = control_chains(&l->m->instructions[i], chains);
    for (operand_iter k = operands_of(&l->m->instructions[i]); next_operand(&k);)
      TRY(hoist(l, i, &k.o));
    for (int b = 0; b < n; b++) {
      const ir_u32s *results = &l->s->prog->ir.chains.items[chains[b]].results;
      for (uint32_t k = 0; k < results->count; k++)
        if (!is_inside(l, results->items[k])) TRY(bring_everywhere(l, results->items[k]));
    }
  }
  for (int b = 0; b < l->n_chains; b++)
    for (uint32_t k = 0; k < l->chains[b]->results.count; k++)
      if (!is_inside(l, l->chains[b]->results.items[k]))
        TRY(bring_everywhere(l, l->chains[b]->results.items[k]));
  return NULL;
}

/* A body's arg is the tensor itself. */
static clave_status alias(planning *l, uint32_t arg, uint32_t tid) {
  TRY(bring_everywhere(l, tid));
  storage *g = &l->p->storages[l->p->now[tid].storage];
  g->last_use = later_use(g->last_use, l->m->last_use[arg]);
  settle(l->p, arg, l->p->now[tid]);
  return NULL;
}

/* ---------------------------------------------------------------- moving blocks */

/* A storage that the loop moves, as large as one tensor of this type. */
static clave_status add_moving(plan *p, const tensor *t, uint8_t home, uint32_t last_use,
                               uint32_t *out) {
  size_t bytes;
  uint32_t blk;
  TRY(known_bytes(t, &bytes));
  TRY(add_storage(p, bytes, home, NO_INDEX, out));
  TRY(add_block(p, BLOCK_MOVING, home, bytes, &blk));
  p->storages[*out].block[home] = blk;
  p->storages[*out].last_use = last_use;
  return NULL;
}

static location at_contiguous(uint32_t where, const tensor *t) {
  location l = {where, *t};
  tensor_set_contiguous(&l.t);
  return l;
}

/* Steps along axis 0 of `whole`: the type of one, in *t. */
static clave_status add_slices(planning *l, location whole, uint8_t home, uint32_t last_use,
                               tensor *t) {
  slices *x = &l->c->slices[l->c->n_slices];
  *x = (slices){.whole = whole,
                .home = home,
                .stride = whole.t.strides[0] * (int64_t)dtype_size(whole.t.type)};
  *t = whole.t;
  t->rank--;
  t->offset = 0;
  memmove(t->dims, t->dims + 1, (size_t)t->rank * sizeof *t->dims);
  memmove(t->strides, t->strides + 1, (size_t)t->rank * sizeof *t->strides);
  TRY(add_moving(l->p, t, home, last_use, &x->storage));
  l->p->storages[x->storage].fixed = true;
  l->c->n_slices++;
  return NULL;
}

typedef struct moving_search {
  const planning *l;
  bool count;
} moving_search;

static void note_moving(void *ctx, uint32_t tid) {
  const moving_search *f = ctx;
  const plan *p = f->l->p;
  control *c = f->l->c;
  uint32_t where = p->at[tid].storage;
  if (where == NO_INDEX || !is_inside(f->l, tid)) return;
  for (int b = 0; b < MAX_BACKENDS; b++) {
    uint32_t blk = p->storages[where].block[b];
    if (blk == NO_INDEX || p->blocks[blk].kind != BLOCK_MOVING) continue;
    if (!f->count) c->moved[c->n_moved] = tid;
    c->n_moved++;
    return;
  }
}

static clave_status find_moved(planning *l) {
  for (int pass = 0; pass < 2; pass++) {
    moving_search f = {l, pass == 0};
    if (pass && !(l->c->moved = malloc((l->c->n_moved + 1) * sizeof *l->c->moved)))
      return status_no_memory();
    l->c->n_moved = 0;
    for_each_slot(l->s, l->m, (span){l->index, all_bodies(l).end}, note_moving, &f);
  }
  return NULL;
}

/* ---------------------------------------------------------------- results */

static tie *new_tie(planning *l) {
  tie *t = &l->c->ties[l->c->n_ties++];
  *t = (tie){.result = NO_INDEX, .stacked = NO_INDEX};
  return t;
}

/* Memory for result k of the op. */
static clave_status place_tie(planning *l, uint32_t k, uint8_t home, tie **out) {
  uint32_t tid = l->results->items[k];
  location made;
  tie *t = *out = new_tie(l);
  t->home = home;
  const plan *p = l->p;
  uint32_t wanted = p->target[tid];
  size_t bytes;
  TRY(known_bytes(&p->types[tid], &bytes));
  if (wanted != NO_INDEX && p->storages[wanted].bytes == bytes &&
      is_used(l, p->storages[wanted].home)) {
    t->home = p->storages[wanted].home;
    made = at_contiguous(wanted, &p->types[tid]);
  } else {
    TRY(new_place(l->p, &p->types[tid], home, l->m->last_use[tid], &made));
  }
  t->result = t->target = made.storage;
  settle(l->p, tid, made);
  return NULL;
}

/* Tells the op that computes a body's result where to write it, unless that was done for another.
 */
static bool direct(planning *l, int body, uint32_t tid, uint32_t where) {
  if (!is_computed(l, body, tid) || l->p->target[tid] != NO_INDEX) return false;
  l->p->target[tid] = where;
  return true;
}

static clave_status check_result(const planning *l, uint32_t k, uint32_t tid, const tensor *want) {
  const tensor *t = &l->p->types[tid];
  bool same = t->type == want->type && t->rank == want->rank;
  for (int i = 0; same && i < t->rank; i++) same = t->dims[i] == want->dims[i];
  char have_text[128], want_text[128];
  return same ? NULL
              : INVALID("result %u of a body has shape %s, expected %s", k,
                        tensor_shape_text(t, have_text, sizeof have_text),
                        tensor_shape_text(want, want_text, sizeof want_text));
}

static bool in_place(const plan *p, const tie *t, location r) {
  if (!t->is_carry || !tensor_is_contiguous(&r.t) || r.t.offset) return false;
  const uint32_t blk = p->storages[r.storage].block[t->home];
  return blk != NO_INDEX && blk == p->storages[t->arg].block[t->home];
}

static clave_status end_result(planning *l, int body, uint32_t k) {
  plan *p = l->p;
  tie *t = &l->c->ties[k];
  uint32_t tid = l->chains[body]->results.items[k], op_result = l->results->items[k];
  tensor want = p->types[op_result];
  if (l->ins->op_type == IR_OP_SCAN && !t->is_carry) {
    want.rank--;
    memmove(want.dims, want.dims + 1, (size_t)want.rank * sizeof *want.dims);
  }
  TRY(touch_slot(l->s, l->m, p, tid));
  TRY(check_result(l, k, tid, &want));
  location r = p->now[tid];
  if (t->stacked != NO_INDEX) { /* the slices are the carry's values, written or copied as such */
    t->written = true;
    return NULL;
  }
  t->written = r.storage == t->target || !in_place(p, t, r);
  if (r.storage == t->target || !t->written) return NULL;
  TRY(need_storage(l->s, p, r.storage, t->home, l->index));
  return add_copy(p, t->home, l->index, r, at_contiguous(t->target, &want), NO_INDEX);
}

static void begin_planning(planning *l, session *s, method *m, plan *p, control *c,
                           uint32_t index) {
  const ir_instruction *ins = &m->instructions[index];
  const ir_if *branch = ins->op;
  const ir_while *loop = ins->op;
  const ir_scan *scan = ins->op;
  uint32_t chains[2];
  *l = (planning){.s = s, .m = m, .p = p, .c = c, .index = index, .ins = ins};
  l->n_chains = control_chains(ins, chains);
  for (int b = 0; b < l->n_chains; b++) l->chains[b] = &s->prog->ir.chains.items[chains[b]];
  l->results = ins->op_type == IR_OP_IF      ? &branch->results
               : ins->op_type == IR_OP_WHILE ? &loop->results
                                             : &scan->results;
}

clave_status plan_body_end(session *s, method *m, plan *p, control *c, int body) {
  planning l;
  begin_planning(&l, s, m, p, c, c->instruction);
  if (l.ins->op_type == IR_OP_WHILE && body == 0) {
    uint32_t tid = l.chains[0]->results.items[0];
    TRY(touch_slot(s, m, p, tid));
    c->predicate = p->now[tid];
    c->predicate_home = (uint8_t)home_of(p, c->predicate.storage);
    return need_storage(s, p, c->predicate.storage, c->predicate_home, c->instruction);
  }
  for (uint32_t k = 0; k < c->n_ties; k++) TRY(end_result(&l, body, k));
  return NULL;
}

/* ---------------------------------------------------------------- bodies */

static bool waits_for_data(const method *m, span r) {
  for (uint32_t i = r.first; i < r.end; i++)
    if (m->instructions[i].op_type == IR_OP_ITEM) return true;
  return false;
}

static clave_status plan_body_steps(planning *l, int body) {
  span r = l->m->bodies[l->index][body];
  for (uint32_t i = r.first; i < r.end; i = l->m->bodies[i][1].end) {
    clave_status st = plan_instruction(l->s, l->m, l->p, i);
    if (st) return while_in_node(st, l->s, l->m, i);
  }
  return plan_body_end(l->s, l->m, l->p, l->c, body);
}

/* may_fail: the body may never run, so what is wrong with it is not said before it does. */
static clave_status plan_body(planning *l, int body, bool may_fail) {
  control *c = l->c;
  plan_mark before = mark_plan(l->p);
  span r = l->m->bodies[l->index][body];
  c->body[body].first = l->p->n_steps;
  c->late[body] = waits_for_data(l->m, r);
  if (!c->late[body]) {
    clave_status st = plan_body_steps(l, body);
    if (st && (!may_fail || status_code_of(st) == STATUS_NO_MEMORY)) return st;
    c->late[body] = st != NULL;
    if (st) rewind_plan(l->s, l->m, l->p, &before, r);
    status_free(st);
  }
  c->body[body].end = l->p->n_steps;
  return NULL;
}

/* The bodies' steps and what stays alive while they run: in a loop everything from outside until
 * the end, as the next step reads it again. */
static clave_status plan_bodies(planning *l, uint32_t from, bool may_fail) {
  control *c = l->c;
  plan *p = l->p;
  uint32_t n_blocks = p->n_blocks;
  c->step = p->n_steps;
  TRY(add_step(p, (step){.kind = STEP_CONTROL,
                         .instruction = l->index,
                         .control = l->number,
                         .rebind = NO_INDEX}));
  for (int b = 0; b < l->n_chains; b++)
    if (c->known < 0 || c->known == !b) TRY(plan_body(l, b, may_fail));
  c->end = p->n_steps;
  bool all = l->ins->op_type != IR_OP_IF || c->late[0] || c->late[1];
  for (uint32_t i = 0; i < n_blocks; i++) {
    arena_block *a = &p->blocks[i].a;
    if (all && !p->blocks[i].phase && a->last >= from && a->last < c->end) a->last = c->end;
  }
  for (uint32_t k = 0; k < c->n_ties; k++)
    TRY(need_storage(l->s, p, c->ties[k].result, c->ties[k].home, l->index));
  TRY(add_step(p, (step){.kind = STEP_END, .instruction = l->index, .rebind = NO_INDEX}));
  return find_moved(l);
}

/* ---------------------------------------------------------------- the three ops */

static clave_status plan_if(planning *l, uint32_t from) {
  const ir_if *op = l->ins->op;
  for (int b = 0; b < 2; b++)
    for (uint32_t k = 0; k < op->args.count; k++)
      TRY(alias(l, l->chains[b]->args.items[k], op->args.items[k]));
  for (uint32_t k = 0; k < op->results.count; k++) {
    tie *t;
    uint8_t other = choose_home(l, 1, l->chains[1]->results.items[k], first_used(l));
    TRY(place_tie(l, k, choose_home(l, 0, l->chains[0]->results.items[k], other), &t));
    for (int b = 0; b < 2; b++) (void)direct(l, b, l->chains[b]->results.items[k], t->result);
  }
  if (op->predicate == IR_NONE) {
    l->c->known = l->p->values[op->condition].i != 0;
  } else {
    l->c->predicate = l->p->now[op->predicate];
    l->c->predicate_home = (uint8_t)home_of(l->p, l->c->predicate.storage);
    TRY(need_storage(l->s, l->p, l->c->predicate.storage, l->c->predicate_home, l->index));
  }
  return plan_bodies(l, from, l->c->known < 0);
}

/* Carry k of a loop: its two buffers, the initial value, and what the body and a condition see of
 * it. steps: how many are run, -1 if that is not known. */
static clave_status plan_carry(planning *l, uint32_t k, uint32_t initial, int64_t steps) {
  plan *p = l->p;
  int body = l->n_chains - 1;
  uint32_t given = l->chains[body]->results.items[k], read = NO_INDEX;
  const tensor *type = &p->types[l->results->items[k]];
  location spare;
  tie *t;
  uint8_t home = (uint8_t)home_of(p, p->now[initial].storage);
  TRY(place_tie(l, k, choose_home(l, body, given, home), &t));
  t->is_carry = true;
  TRY(new_place(p, type, t->home, NO_INDEX, &spare));
  t->spare = spare.storage;
  t->first = steps > 0 && steps % 2 ? t->spare : t->result;
  TRY(need_storage(l->s, p, p->now[initial].storage, t->home, l->index));
  TRY(add_copy(p, t->home, l->index, p->now[initial], at_contiguous(t->first, type), NO_INDEX));
  for (int b = 0; b < l->n_chains; b++)
    read = later_use(read, l->m->last_use[l->chains[b]->args.items[k]]);
  if (body == 1)
    read = later_use(read, l->m->bodies[l->index][0].end); /* the condition only looks */
  TRY(add_moving(p, type, t->home, read, &t->arg));
  TRY(add_moving(p, type, t->home, l->m->last_use[given], &t->target));
  for (int b = 0; b < l->n_chains; b++)
    settle(p, l->chains[b]->args.items[k], at_contiguous(t->arg, type));
  (void)direct(l, body, given, t->target);
  return NULL;
}

static clave_status plan_while(planning *l, uint32_t from) {
  const ir_while *op = l->ins->op;
  for (uint32_t k = 0; k < op->args.count; k++) TRY(plan_carry(l, k, op->args.items[k], -1));
  return plan_bodies(l, from, false);
}

/* A scanned tensor is read in place. Where a body runs on several devices its slices must be dense,
 * as they are transferred. */
static clave_status plan_scanned(planning *l, uint32_t x, uint32_t arg) {
  plan *p = l->p;
  tensor slice;
  uint8_t home = (uint8_t)home_of(p, p->now[x].storage);
  if (!is_used(l, home)) home = first_used(l);
  placing one = {.s = l->s, .m = l->m, .p = p, .index = l->index, .backend = home};
  operand o = {.tid = x, .flags = l->used & (l->used - 1) ? IR_DENSE : 0};
  TRY(bring_operand(&one, &o));
  TRY(add_slices(l, p->now[x], home, l->m->last_use[arg], &slice));
  settle(p, arg, (location){l->c->slices[l->c->n_slices - 1].storage, slice});
  return NULL;
}

/* A stacked result whose slices are a carry's values too serves as the carry's buffer. */
static clave_status plan_stacked(planning *l, uint32_t k, uint32_t n_carries) {
  plan *p = l->p;
  uint32_t given = l->chains[0]->results.items[k];
  tensor slice;
  tie *t;
  TRY(place_tie(l, k, choose_home(l, 0, given, first_used(l)), &t));
  TRY(add_slices(l, p->now[l->results->items[k]], t->home, l->m->last_use[given], &slice));
  t->target = l->c->slices[l->c->n_slices - 1].storage;
  if (direct(l, 0, given, t->target)) return NULL;
  for (uint32_t i = 0; i < n_carries; i++) {
    tie *carry = &l->c->ties[i];
    if (l->chains[0]->results.items[i] != given || carry->home != t->home) continue;
    if (p->target[given] != carry->target) continue;
    p->target[given] = t->target;
    carry->stacked = k;
    p->storages[carry->arg].fixed = true;
    break;
  }
  return NULL;
}

static clave_status plan_scan(planning *l, uint32_t from) {
  const ir_scan *op = l->ins->op;
  const uint32_t *args = l->chains[0]->args.items;
  uint32_t n = op->carries.count;
  l->c->trips = l->p->types[op->xs.items[0]].dims[0];
  for (uint32_t k = 0; k < n; k++) TRY(plan_carry(l, k, op->carries.items[k], l->c->trips));
  for (uint32_t k = 0; k < op->xs.count; k++) TRY(plan_scanned(l, op->xs.items[k], args[n + k]));
  for (uint32_t k = 0; k < op->args.count; k++)
    TRY(alias(l, args[n + op->xs.count + k], op->args.items[k]));
  for (uint32_t k = n; k < op->results.count; k++) TRY(plan_stacked(l, k, n));
  return plan_bodies(l, from, false);
}

/* ---------------------------------------------------------------- all */

static clave_status add_control(plan *p, uint32_t index, uint32_t n_ties, uint32_t n_slices,
                                control **out) {
  TRY(grow_array((void **)&p->controls, &p->cap_controls, p->n_controls, sizeof *p->controls));
  control *c = *out = calloc(1, sizeof *c);
  if (!c) return status_no_memory();
  p->controls[p->n_controls++] = c;
  c->instruction = index;
  c->known = -1;
  c->ties = calloc(n_ties + 1, sizeof *c->ties);
  c->slices = calloc(n_slices + 1, sizeof *c->slices);
  return c->ties && c->slices ? NULL : status_no_memory();
}

/* Types of the bodies' args are known now; those of their results as soon as they are computed. */
static clave_status resolve_bodies(planning *l) {
  for (int b = 0; b < l->n_chains; b++) {
    const ir_chain *c = l->chains[b];
    for (uint32_t k = 0; k < c->args.count; k++) TRY(resolve_type(l->s, l->p, c->args.items[k]));
    for (uint32_t k = 0; k < c->results.count; k++) {
      uint32_t tid = c->results.items[k];
      if (l->m->writer[tid] != l->index && is_inside(l, tid))
        l->p->types[tid] = l->s->prog->types[tid];
    }
  }
  return NULL;
}

static void find_used_backends(planning *l) {
  span r = all_bodies(l);
  for (uint32_t i = r.first; i < r.end; i++)
    if (l->m->where[i] < MAX_BACKENDS) l->used |= 1u << l->m->where[i];
  l->used |= !l->used;
}

clave_status plan_control(session *s, method *m, plan *p, uint32_t index) {
  planning l;
  begin_planning(&l, s, m, p, NULL, index);
  const ir_scan *scan = l.ins->op_type == IR_OP_SCAN ? l.ins->op : NULL;
  uint32_t n_slices = scan ? scan->xs.count + scan->results.count : 0, from = p->n_steps;
  TRY(add_control(p, index, l.results->count, n_slices, &l.c));
  l.number = p->n_controls - 1;
  TRY(resolve_operands(s, m, p, l.ins));
  TRY(resolve_bodies(&l));
  rule_context c = {&s->prog->ir, p->types, p->values};
  TRY(op_table[l.ins->op_type].rule(&c, l.ins->op));
  find_used_backends(&l);
  TRY(hoist_all(&l));
  return scan                            ? plan_scan(&l, from)
         : l.ins->op_type == IR_OP_WHILE ? plan_while(&l, from)
                                         : plan_if(&l, from);
}
