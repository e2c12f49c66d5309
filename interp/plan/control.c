/* Control ops in a schedule. Their bodies are planned with everything else: a body's commands lie
 * between the op's control command and its end, its slots and memory are the schedule's own, so
 * that bodies nest and share the arena. Running them is run/control_flow.c's.
 *
 * What a body reads from outside is materialized before the control command: the devices, and
 * copies that are dense. What a loop's body reads and writes elsewhere in every iteration (slices
 * of the scanned and the stacked tensors, the two buffers of what is carried) lies in rebased
 * blocks, whose address is set before each iteration. A body's results are written to their place
 * if the op that makes them can, else copied.
 *
 * A body in which sizes depend on data is late: it is a schedule of its own, made when it runs. */
#include "interp/plan/control.h"

#include <stdlib.h>
#include <string.h>
#include "interp/plan/op.h"
#include "interp/plan/operands.h"
#include "interp/plan/storage.h"

/* One control op while it is planned. */
typedef struct control_planner {
  planner *l;
  const graph *g; /* the planner's */
  schedule *p;    /* the planner's */
  control *c;
  uint32_t number; /* of the control in the schedule */
  uint32_t index;
  const ir_instruction *ins;
  const ir_chain *chains[2];
  int n_chains;
  const ir_u32s *results; /* of the op */
  uint32_t used;          /* bits: backends that the bodies use */
} control_planner;

/* ---------------------------------------------------------------- walking bodies */

static range all_bodies(const control_planner *cp) {
  return (range){cp->index + 1, cp->g->bodies[cp->index][1].end};
}

static bool is_inside(const control_planner *cp, uint32_t tid) {
  uint32_t w = cp->g->writer[tid];
  return w != NO_INDEX && w >= cp->index && w < all_bodies(cp).end;
}

/* Does an op of the body itself compute the slot? Then it can be told where to write it. */
static bool is_computed(const control_planner *cp, int body, uint32_t tid) {
  uint32_t w = cp->g->writer[tid];
  range r = cp->g->bodies[cp->index][body];
  return w != NO_INDEX && w != cp->index && w >= r.first && w < r.end &&
         (cp->l->m->where[w] < MAX_BACKENDS || cp->l->m->where[w] == WHERE_CONTROL);
}

static bool is_used(const control_planner *cp, int b) { return cp->used >> b & 1; }

static uint8_t first_used(const control_planner *cp) {
  uint8_t b = 0;
  while (!is_used(cp, b)) b++;
  return b;
}

/* The backend on which a body's result is wanted: that of the op that computes it. */
static uint8_t choose_home(const control_planner *cp, int body, uint32_t tid, uint8_t other) {
  uint32_t w = cp->g->writer[tid];
  bool runs = is_computed(cp, body, tid) && cp->l->m->where[w] < MAX_BACKENDS;
  return runs ? cp->l->m->where[w] : is_used(cp, other) ? other : first_used(cp);
}

/* ---------------------------------------------------------------- what comes from outside */

static clave_status materialize_everywhere(control_planner *cp, uint32_t tid) {
  TRY(import_slot(cp->l, tid));
  for (int b = 0; b < cp->l->x->devices.count; b++)
    if (is_used(cp, b)) TRY(materialize(cp->l, cp->p->now[tid].storage, b, cp->index));
  return NULL;
}

static clave_status hoist(control_planner *cp, uint32_t instruction, const operand *o) {
  if ((o->flags & IR_OUT) || is_inside(cp, o->tid)) return NULL;
  uint8_t where = cp->l->m->where[instruction];
  if (where >= MAX_BACKENDS) return materialize_everywhere(cp, o->tid);
  TRY(import_slot(cp->l, o->tid));
  return materialize_operand(cp->l, cp->index, where, o);
}

static clave_status hoist_all(control_planner *cp) {
  range r = all_bodies(cp);
  for (uint32_t i = r.first; i < r.end; i++) {
    uint32_t chains[2];
    int n = control_chains(&cp->g->instructions[i], chains);
    for (operand_iter k = operands_of(&cp->g->instructions[i]); next_operand(&k);)
      TRY(hoist(cp, i, &k.o));
    for (int b = 0; b < n; b++) {
      const ir_u32s *results = &cp->l->x->prog->ir.chains.items[chains[b]].results;
      for (uint32_t k = 0; k < results->count; k++)
        if (!is_inside(cp, results->items[k])) TRY(materialize_everywhere(cp, results->items[k]));
    }
  }
  for (int b = 0; b < cp->n_chains; b++)
    for (uint32_t k = 0; k < cp->chains[b]->results.count; k++)
      if (!is_inside(cp, cp->chains[b]->results.items[k]))
        TRY(materialize_everywhere(cp, cp->chains[b]->results.items[k]));
  return NULL;
}

/* A body's arg is the tensor itself. */
static clave_status alias(control_planner *cp, uint32_t arg, uint32_t tid) {
  TRY(materialize_everywhere(cp, tid));
  storage *g = &cp->p->storages[cp->p->now[tid].storage];
  g->last_use = later_use(g->last_use, cp->g->last_use[arg]);
  set_location(cp->p, arg, cp->p->now[tid]);
  return NULL;
}

/* ---------------------------------------------------------------- rebased blocks */

/* A storage that is elsewhere in every iteration, as large as one tensor of this type. */
static clave_status add_rebased(schedule *p, const tensor *t, uint8_t home, uint32_t last_use,
                                uint32_t *out) {
  size_t bytes;
  uint32_t blk;
  TRY(known_bytes(t, &bytes));
  TRY(add_storage(p, bytes, home, NO_INDEX, out));
  TRY(add_block(p, BLOCK_REBASED, home, bytes, NO_INDEX, &blk));
  p->storages[*out].block[home] = blk;
  p->storages[*out].last_use = last_use;
  return NULL;
}

static location at_contiguous(uint32_t where, const tensor *t) {
  location l = {where, *t};
  tensor_set_contiguous(&l.t);
  return l;
}

/* Slices along axis 0 of `whole`: the type of one, in *t. */
static clave_status add_slices(control_planner *cp, location whole, uint8_t home, uint32_t last_use,
                               tensor *t) {
  slices *x = &cp->c->slices[cp->c->n_slices];
  *x = (slices){.whole = whole,
                .home = home,
                .stride = whole.t.strides[0] * (int64_t)dtype_size(whole.t.type)};
  *t = whole.t;
  t->rank--;
  t->offset = 0;
  memmove(t->dims, t->dims + 1, (size_t)t->rank * sizeof *t->dims);
  memmove(t->strides, t->strides + 1, (size_t)t->rank * sizeof *t->strides);
  TRY(add_rebased(cp->p, t, home, last_use, &x->storage));
  cp->p->storages[x->storage].fixed = true;
  cp->c->n_slices++;
  return NULL;
}

static bool is_rebased(const control_planner *cp, uint32_t tid) {
  const schedule *p = cp->p;
  uint32_t in = p->at[tid].storage;
  if (in == NO_INDEX || !is_inside(cp, tid)) return false;
  for (int b = 0; b < MAX_BACKENDS; b++) {
    uint32_t i = p->storages[in].block[b];
    if (i != NO_INDEX && p->blocks[i].kind == BLOCK_REBASED) return true;
  }
  return false;
}

static clave_status find_rebased(control_planner *cp) {
  control *c = cp->c;
  const range all = {cp->index, all_bodies(cp).end};
  uint32_t n = 0;
  for (slot_iter i = slots_of(cp->g, all); next_slot(&i);) n += is_rebased(cp, i.tid);
  c->rebased = malloc((n + 1) * sizeof *c->rebased);
  if (!c->rebased) return status_no_memory();
  for (slot_iter i = slots_of(cp->g, all); next_slot(&i);)
    if (is_rebased(cp, i.tid)) c->rebased[c->n_rebased++] = i.tid;
  return NULL;
}

/* ---------------------------------------------------------------- results */

static body_result *new_result(control_planner *cp) {
  body_result *t = &cp->c->results[cp->c->n_results++];
  *t = (body_result){.result = NO_INDEX, .stacked = NO_INDEX};
  return t;
}

/* Memory for result k of the op. */
static clave_status place_body_result(control_planner *cp, uint32_t k, uint8_t home,
                                      body_result **out) {
  uint32_t tid = cp->results->items[k];
  location made;
  body_result *t = *out = new_result(cp);
  t->home = home;
  const schedule *p = cp->p;
  uint32_t wanted = p->target[tid];
  size_t bytes;
  TRY(known_bytes(&p->types[tid], &bytes));
  if (wanted != NO_INDEX && p->storages[wanted].bytes == bytes &&
      is_used(cp, p->storages[wanted].home)) {
    t->home = p->storages[wanted].home;
    made = at_contiguous(wanted, &p->types[tid]);
  } else {
    TRY(new_place(cp->p, &p->types[tid], home, cp->g->last_use[tid], &made));
  }
  t->result = t->target = made.storage;
  set_location(cp->p, tid, made);
  return NULL;
}

/* Tells the op that computes a body's result where to write it, unless that was done for another.
 */
static bool direct(control_planner *cp, int body, uint32_t tid, uint32_t where) {
  if (!is_computed(cp, body, tid) || cp->p->target[tid] != NO_INDEX) return false;
  cp->p->target[tid] = where;
  return true;
}

static clave_status check_result(const control_planner *cp, uint32_t k, uint32_t tid,
                                 const tensor *want) {
  const tensor *t = &cp->p->types[tid];
  bool same = t->type == want->type && t->rank == want->rank;
  for (int i = 0; same && i < t->rank; i++) same = t->dims[i] == want->dims[i];
  char have_text[128], want_text[128];
  return same ? NULL
              : INVALID("result %u of a body: expected shape %s, got %s", k,
                        tensor_shape_text(want, want_text, sizeof want_text),
                        tensor_shape_text(t, have_text, sizeof have_text));
}

static bool in_place(const schedule *p, const body_result *t, location r) {
  if (!t->is_carried || !tensor_is_contiguous(&r.t) || r.t.offset) return false;
  const uint32_t blk = p->storages[r.storage].block[t->home];
  return blk != NO_INDEX && blk == p->storages[t->arg].block[t->home];
}

static clave_status end_result(control_planner *cp, int body, uint32_t k) {
  schedule *p = cp->p;
  body_result *t = &cp->c->results[k];
  uint32_t tid = cp->chains[body]->results.items[k], op_result = cp->results->items[k];
  tensor want = p->types[op_result];
  if (cp->ins->op_type == IR_OP_SCAN && !t->is_carried) {
    want.rank--;
    memmove(want.dims, want.dims + 1, (size_t)want.rank * sizeof *want.dims);
  }
  TRY(import_slot(cp->l, tid));
  TRY(check_result(cp, k, tid, &want));
  location r = p->now[tid];
  if (t->stacked != NO_INDEX) { /* the slices are what is carried, written or copied as such */
    t->written = true;
    return NULL;
  }
  t->written = r.storage == t->target || !in_place(p, t, r);
  if (r.storage == t->target || !t->written) return NULL;
  TRY(materialize(cp->l, r.storage, t->home, cp->index));
  return add_copy(cp->l, t->home, cp->index, r, at_contiguous(t->target, &want), NO_INDEX);
}

static control_planner planner_of(planner *l, uint32_t number) {
  control *c = l->p->controls[number];
  const ir_instruction *ins = &l->g->instructions[c->instruction];
  uint32_t chains[2];
  control_planner cp = {.l = l,
                        .g = l->g,
                        .p = l->p,
                        .c = c,
                        .number = number,
                        .index = c->instruction,
                        .ins = ins,
                        .n_chains = control_chains(ins, chains),
                        .results = control_results(ins)};
  for (int b = 0; b < cp.n_chains; b++) cp.chains[b] = &l->x->prog->ir.chains.items[chains[b]];
  return cp;
}

clave_status plan_body_end(planner *l, uint32_t number, int body) {
  control_planner cp = planner_of(l, number);
  control *c = cp.c;
  if (cp.ins->op_type == IR_OP_WHILE && body == 0) {
    uint32_t tid = cp.chains[0]->results.items[0];
    TRY(import_slot(l, tid));
    c->predicate = l->p->now[tid];
    c->predicate_home = (uint8_t)schedule_home(l->p, c->predicate.storage);
    return materialize(l, c->predicate.storage, c->predicate_home, c->instruction);
  }
  for (uint32_t k = 0; k < c->n_results; k++) TRY(end_result(&cp, body, k));
  return NULL;
}

/* ---------------------------------------------------------------- bodies */

static bool waits_for_data(const graph *g, range r) {
  for (uint32_t i = r.first; i < r.end; i++)
    if (g->instructions[i].op_type == IR_OP_ITEM) return true;
  return false;
}

static clave_status plan_body_commands(control_planner *cp, int body) {
  range r = cp->g->bodies[cp->index][body];
  for (uint32_t i = r.first; i < r.end; i = cp->g->bodies[i][1].end)
    TRY(while_in_node(plan_instruction(cp->l, i), cp->g, i));
  return plan_body_end(cp->l, cp->number, body);
}

/* Later ops may move a slot before the body is planned. */
static clave_status keep_locations(control_planner *cp) {
  if (cp->c->now) return NULL;
  size_t n = slot_count(cp->l->x->prog);
  cp->c->now = malloc((n + 1) * sizeof *cp->c->now);
  if (!cp->c->now) return status_no_memory();
  memcpy(cp->c->now, cp->p->now, n * sizeof *cp->c->now);
  return NULL;
}

/* may_fail: the body may never run, so what is wrong with it is not said before it does. */
static clave_status plan_body(control_planner *cp, int body, bool may_fail) {
  control *c = cp->c;
  schedule_mark before = schedule_marked(cp->p);
  range r = cp->g->bodies[cp->index][body];
  c->body[body].first = cp->p->n_commands;
  c->late[body] = waits_for_data(cp->g, r);
  if (!c->late[body]) {
    clave_status st = plan_body_commands(cp, body);
    if (st && (!may_fail || status_code_of(st) == STATUS_NO_MEMORY)) return st;
    c->late[body] = st != NULL;
    if (st) schedule_rewind(cp->p, cp->g, &before, r);
    status_free(st);
  }
  c->body[body].end = cp->p->n_commands;
  return c->late[body] ? keep_locations(cp) : NULL;
}

/* The bodies' commands and what stays alive while they run: in a loop everything from outside until
 * the end, as the next iteration reads it again. */
static clave_status plan_bodies(control_planner *cp, uint32_t from, bool may_fail) {
  control *c = cp->c;
  schedule *p = cp->p;
  uint32_t n_blocks = p->n_blocks;
  c->begin = p->n_commands;
  TRY(add_command(p, (command){.kind = COMMAND_CONTROL,
                               .instruction = cp->index,
                               .control = cp->number,
                               .rebind = NO_INDEX}));
  for (int b = 0; b < cp->n_chains; b++)
    if (c->known < 0 || c->known == !b) TRY(plan_body(cp, b, may_fail));
  c->end = p->n_commands;
  bool all = is_loop(cp->ins) || c->late[0] || c->late[1];
  for (uint32_t i = 0; i < n_blocks; i++) {
    arena_block *a = &p->blocks[i].a;
    if (all && !p->blocks[i].part && a->last >= from && a->last < c->end) a->last = c->end;
  }
  for (uint32_t k = 0; k < c->n_results; k++)
    TRY(materialize(cp->l, c->results[k].result, c->results[k].home, cp->index));
  TRY(add_command(p, (command){.kind = COMMAND_END, .instruction = cp->index, .rebind = NO_INDEX}));
  return find_rebased(cp);
}

/* ---------------------------------------------------------------- the ops */

static clave_status plan_if(control_planner *cp, uint32_t from) {
  const ir_if *op = cp->ins->op;
  for (int b = 0; b < 2; b++)
    for (uint32_t k = 0; k < op->args.count; k++)
      TRY(alias(cp, cp->chains[b]->args.items[k], op->args.items[k]));
  for (uint32_t k = 0; k < op->results.count; k++) {
    body_result *t;
    uint8_t other = choose_home(cp, 1, cp->chains[1]->results.items[k], first_used(cp));
    TRY(place_body_result(cp, k, choose_home(cp, 0, cp->chains[0]->results.items[k], other), &t));
    for (int b = 0; b < 2; b++) (void)direct(cp, b, cp->chains[b]->results.items[k], t->result);
  }
  if (op->predicate == IR_NONE) {
    cp->c->known = cp->p->values[op->condition].i != 0;
  } else {
    cp->c->predicate = cp->p->now[op->predicate];
    cp->c->predicate_home = (uint8_t)schedule_home(cp->p, cp->c->predicate.storage);
    TRY(materialize(cp->l, cp->c->predicate.storage, cp->c->predicate_home, cp->index));
  }
  return plan_bodies(cp, from, cp->c->known < 0);
}

/* A custom op that no device has a kernel for: its reference is a body that runs once. */
static clave_status plan_reference(control_planner *cp, uint32_t from) {
  const ir_custom *op = cp->ins->op;
  for (uint32_t k = 0; k < op->args.count; k++)
    TRY(alias(cp, cp->chains[0]->args.items[k], op->args.items[k]));
  for (uint32_t k = 0; k < op->results.count; k++) {
    body_result *t;
    uint32_t given = cp->chains[0]->results.items[k];
    TRY(place_body_result(cp, k, choose_home(cp, 0, given, first_used(cp)), &t));
    (void)direct(cp, 0, given, t->result);
  }
  cp->c->known = 1;
  return plan_bodies(cp, from, false);
}

/* What a loop carries as number k: its two buffers, the initial value, and what the body and a
 * condition see of it. trips: how many iterations are run, -1 if that is not known. */
static clave_status plan_carried(control_planner *cp, uint32_t k, uint32_t initial, int64_t trips) {
  schedule *p = cp->p;
  int body = cp->n_chains - 1;
  uint32_t given = cp->chains[body]->results.items[k], read = NO_INDEX;
  const tensor *type = &p->types[cp->results->items[k]];
  location spare;
  body_result *t;
  uint8_t home = (uint8_t)schedule_home(p, p->now[initial].storage);
  TRY(place_body_result(cp, k, choose_home(cp, body, given, home), &t));
  t->is_carried = true;
  TRY(new_place(p, type, t->home, NO_INDEX, &spare));
  t->spare = spare.storage;
  t->first = trips > 0 && trips % 2 ? t->spare : t->result;
  TRY(materialize(cp->l, p->now[initial].storage, t->home, cp->index));
  TRY(add_copy(cp->l, t->home, cp->index, p->now[initial], at_contiguous(t->first, type),
               NO_INDEX));
  for (int b = 0; b < cp->n_chains; b++)
    read = later_use(read, cp->g->last_use[cp->chains[b]->args.items[k]]);
  if (body == 1)
    read = later_use(read, cp->g->bodies[cp->index][0].end); /* the condition only looks */
  TRY(add_rebased(p, type, t->home, read, &t->arg));
  TRY(add_rebased(p, type, t->home, cp->g->last_use[given], &t->target));
  for (int b = 0; b < cp->n_chains; b++)
    set_location(p, cp->chains[b]->args.items[k], at_contiguous(t->arg, type));
  (void)direct(cp, body, given, t->target);
  location whole = at_contiguous(t->result, type);
  return record_copy(cp->l, t->home, &whole.t, &whole.t, &t->copied);
}

static clave_status plan_while(control_planner *cp, uint32_t from) {
  const ir_while *op = cp->ins->op;
  for (uint32_t k = 0; k < op->args.count; k++) TRY(plan_carried(cp, k, op->args.items[k], -1));
  return plan_bodies(cp, from, false);
}

/* A scanned tensor is read in place. Where a body runs on several devices its slices must be dense,
 * as they are transferred. */
static clave_status plan_scanned(control_planner *cp, uint32_t x, uint32_t arg) {
  schedule *p = cp->p;
  tensor slice;
  uint8_t home = (uint8_t)schedule_home(p, p->now[x].storage);
  if (!is_used(cp, home)) home = first_used(cp);
  operand o = {.tid = x, .flags = cp->used & (cp->used - 1) ? IR_DENSE : 0};
  TRY(materialize_operand(cp->l, cp->index, home, &o));
  TRY(add_slices(cp, p->now[x], home, cp->g->last_use[arg], &slice));
  set_location(p, arg, (location){cp->c->slices[cp->c->n_slices - 1].storage, slice});
  return NULL;
}

/* A stacked result whose slices are carried too serves as the buffer of what is carried. */
static clave_status plan_stacked(control_planner *cp, uint32_t k, uint32_t n_carried) {
  schedule *p = cp->p;
  uint32_t given = cp->chains[0]->results.items[k];
  tensor slice;
  body_result *t;
  TRY(place_body_result(cp, k, choose_home(cp, 0, given, first_used(cp)), &t));
  TRY(add_slices(cp, p->now[cp->results->items[k]], t->home, cp->g->last_use[given], &slice));
  t->target = cp->c->slices[cp->c->n_slices - 1].storage;
  if (direct(cp, 0, given, t->target)) return NULL;
  for (uint32_t i = 0; i < n_carried; i++) {
    body_result *carried = &cp->c->results[i];
    if (cp->chains[0]->results.items[i] != given || carried->home != t->home) continue;
    if (p->target[given] != carried->target) continue;
    p->target[given] = t->target;
    carried->stacked = k;
    p->storages[carried->arg].fixed = true;
    break;
  }
  return NULL;
}

static clave_status plan_scan(control_planner *cp, uint32_t from) {
  const ir_scan *op = cp->ins->op;
  const uint32_t *args = cp->chains[0]->args.items;
  uint32_t n = op->carries.count;
  cp->c->trips = cp->p->types[op->xs.items[0]].dims[0];
  for (uint32_t k = 0; k < n; k++) TRY(plan_carried(cp, k, op->carries.items[k], cp->c->trips));
  for (uint32_t k = 0; k < op->xs.count; k++) TRY(plan_scanned(cp, op->xs.items[k], args[n + k]));
  for (uint32_t k = 0; k < op->args.count; k++)
    TRY(alias(cp, args[n + op->xs.count + k], op->args.items[k]));
  for (uint32_t k = n; k < op->results.count; k++) TRY(plan_stacked(cp, k, n));
  return plan_bodies(cp, from, false);
}

/* ---------------------------------------------------------------- all */

clave_status resolve_bodies(planner *l, uint32_t index) {
  uint32_t chains[2], end = l->g->bodies[index][1].end;
  int n = control_chains(&l->g->instructions[index], chains);
  for (int b = 0; b < n; b++) {
    const ir_chain *c = &l->x->prog->ir.chains.items[chains[b]];
    for (uint32_t k = 0; k < c->args.count; k++) TRY(resolve_type(l, c->args.items[k]));
    for (uint32_t k = 0; k < c->results.count; k++) {
      uint32_t tid = c->results.items[k], w = l->g->writer[tid];
      if (w != NO_INDEX && w > index && w < end) l->p->types[tid] = l->x->prog->types[tid];
    }
  }
  return NULL;
}

static void find_used_backends(control_planner *cp) {
  range r = all_bodies(cp);
  for (uint32_t i = r.first; i < r.end; i++)
    if (cp->l->m->where[i] < MAX_BACKENDS) cp->used |= 1u << cp->l->m->where[i];
  cp->used |= !cp->used;
}

clave_status plan_control(planner *l, uint32_t index) {
  const ir_instruction *ins = &l->g->instructions[index];
  const ir_scan *scan = ins->op_type == IR_OP_SCAN ? ins->op : NULL;
  uint32_t n_slices = scan ? scan->xs.count + scan->results.count : 0, from = l->p->n_commands;
  uint32_t number;
  TRY(add_control(l->p, index, control_results(ins)->count, n_slices, &number));
  control_planner cp = planner_of(l, number);
  TRY(resolve_operands(l, ins));
  TRY(resolve_bodies(l, index));
  rule_context c = {&l->x->prog->ir, l->p->types, l->p->values};
  TRY(op_table[ins->op_type].rule(&c, ins->op));
  find_used_backends(&cp);
  TRY(hoist_all(&cp));
  return scan                          ? plan_scan(&cp, from)
         : ins->op_type == IR_OP_WHILE ? plan_while(&cp, from)
         : ins->op_type == IR_OP_IF    ? plan_if(&cp, from)
                                       : plan_reference(&cp, from);
}
