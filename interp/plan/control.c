/* Plans control ops. Their bodies are part of the same schedule: the commands of a body are listed
 * between the op's control command and its end command, and its slots and memory belong to the
 * schedule. So bodies nest and share the arena. run/control_flow.c runs them.
 *
 * Everything that a body reads from outside is made readable before the control command, on each
 * device that reads it, with dense copies where ops require them. Data whose address differs in
 * every iteration is in rebased blocks: slices of scanned and stacked tensors, and the two buffers
 * of carried values. Their addresses are set before each iteration. The op that computes a body's
 * result writes it to its destination if possible; else the result is copied there.
 *
 * A body whose sizes depend on data is late: it has its own schedule, made when it runs. */
#include "interp/plan/control.h"

#include <stdlib.h>
#include <string.h>
#include "interp/plan/op.h"
#include "interp/plan/operands.h"
#include "interp/plan/storage.h"

/* The state of planning one control op. */
typedef struct control_planner {
  planner *planner;
  const graph *graph; /* same as planner->graph */
  schedule *schedule; /* same as planner->schedule */
  control *control;
  uint32_t number; /* index of the control in the schedule */
  uint32_t index;
  const ir_instruction *ins;
  const ir_chain *chains[2];
  int n_chains;
  const ir_u32s *results; /* results of the op */
  uint32_t used;          /* bit mask of the backends that the bodies use */
} control_planner;

/* ---------------------------------------------------------------- walking bodies */

static range all_bodies(const control_planner *cp) {
  return (range){cp->index + 1, cp->graph->bodies[cp->index][1].end};
}

static bool is_inside(const control_planner *cp, uint32_t tid) {
  uint32_t w = cp->graph->writer[tid];
  return w != NO_INDEX && w >= cp->index && w < all_bodies(cp).end;
}

/* True if an op of the body itself computes the slot, so that the op can write it anywhere. */
static bool is_computed(const control_planner *cp, int body, uint32_t tid) {
  uint32_t w = cp->graph->writer[tid];
  range range = cp->graph->bodies[cp->index][body];
  return w != NO_INDEX && w != cp->index && w >= range.first && w < range.end &&
         (cp->planner->where[w] < MAX_BACKENDS || cp->planner->where[w] == WHERE_CONTROL);
}

static bool plan_control_is_used(const control_planner *cp, int b) { return cp->used >> b & 1; }

static uint8_t first_used(const control_planner *cp) {
  uint8_t b = 0;
  while (!plan_control_is_used(cp, b)) b++;
  return b;
}

/* Returns the backend for a body's result: the backend that computes it, else `other` or another
 * one that the bodies use. */
static uint8_t choose_home(const control_planner *cp, int body, uint32_t tid, uint8_t other) {
  uint32_t w = cp->graph->writer[tid];
  bool runs = is_computed(cp, body, tid) && cp->planner->where[w] < MAX_BACKENDS;
  return runs ? cp->planner->where[w] : plan_control_is_used(cp, other) ? other : first_used(cp);
}

/* ---------------------------------------------------------------- operands from outside */

static clave_status materialize_everywhere(control_planner *cp, uint32_t tid) {
  TRY(import_slot(cp->planner, tid));
  for (int b = 0; b < cp->planner->executable->devices.count; b++)
    if (plan_control_is_used(cp, b))
      TRY(materialize(cp->planner, cp->schedule->now[tid].storage, b, cp->index));
  return NULL;
}

static clave_status hoist(control_planner *cp, uint32_t instruction, const operand *operand) {
  if ((operand->flags & IR_OUT) || is_inside(cp, operand->tid)) return NULL;
  uint8_t where = cp->planner->where[instruction];
  if (where >= MAX_BACKENDS) return materialize_everywhere(cp, operand->tid);
  TRY(import_slot(cp->planner, operand->tid));
  return materialize_operand(cp->planner, cp->index, where, operand);
}

static clave_status hoist_all(control_planner *cp) {
  range range = all_bodies(cp);
  for (uint32_t i = range.first; i < range.end; i++) {
    uint32_t chains[2];
    int n = control_chains(&cp->graph->instructions[i], chains);
    for (operand_iter k = operands_of(&cp->graph->instructions[i]); next_operand(&k);)
      TRY(hoist(cp, i, &k.operand));
    for (int b = 0; b < n; b++) {
      const ir_u32s *results = &cp->planner->executable->prog->ir.chains.items[chains[b]].results;
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

/* Makes a body's arg an alias of `tid`, the tensor that is passed for it. */
static clave_status alias(control_planner *cp, uint32_t arg, uint32_t tid) {
  TRY(materialize_everywhere(cp, tid));
  storage *storage = &cp->schedule->storages[cp->schedule->now[tid].storage];
  storage->last_use = later_use(storage->last_use, cp->graph->last_use[arg]);
  set_location(cp->schedule, arg, cp->schedule->now[tid]);
  return NULL;
}

/* ---------------------------------------------------------------- rebased blocks */

/* Adds a rebased storage for one tensor of this type. */
static clave_status add_rebased(schedule *schedule, const tensor *tensor, uint8_t home,
                                uint32_t last_use, uint32_t *out) {
  size_t bytes;
  uint32_t blk;
  TRY(known_bytes(tensor, &bytes));
  TRY(add_storage(schedule, bytes, home, NO_INDEX, out));
  TRY(add_block(schedule, BLOCK_REBASED, home, bytes, NO_INDEX, &blk));
  schedule->storages[*out].block[home] = blk;
  schedule->storages[*out].last_use = last_use;
  return NULL;
}

static location at_contiguous(uint32_t where, const tensor *tensor) {
  location location = {where, *tensor};
  tensor_set_contiguous(&location.t);
  return location;
}

/* Adds a rebased storage for slices of `whole` along axis 0. Sets *tensor to a slice's type. */
static clave_status add_slices(control_planner *cp, location whole, uint8_t home, uint32_t last_use,
                               tensor *tensor) {
  slices *cuts = &cp->control->slices[cp->control->n_slices];
  *cuts = (slices){.whole = whole,
                   .home = home,
                   .stride = whole.t.strides[0] * (int64_t)dtype_size(whole.t.type)};
  *tensor = whole.t;
  tensor->rank--;
  tensor->offset = 0;
  memmove(tensor->dims, tensor->dims + 1, (size_t)tensor->rank * sizeof *tensor->dims);
  memmove(tensor->strides, tensor->strides + 1, (size_t)tensor->rank * sizeof *tensor->strides);
  TRY(add_rebased(cp->schedule, tensor, home, last_use, &cuts->storage));
  cp->schedule->storages[cuts->storage].fixed = true;
  cp->control->n_slices++;
  return NULL;
}

static bool is_rebased(const control_planner *cp, uint32_t tid) {
  const schedule *schedule = cp->schedule;
  uint32_t in = schedule->at[tid].storage;
  if (in == NO_INDEX || !is_inside(cp, tid)) return false;
  for (int b = 0; b < MAX_BACKENDS; b++) {
    uint32_t i = schedule->storages[in].block[b];
    if (i != NO_INDEX && schedule->blocks[i].kind == BLOCK_REBASED) return true;
  }
  return false;
}

static clave_status find_rebased(control_planner *cp) {
  control *control = cp->control;
  const range all = {cp->index, all_bodies(cp).end};
  uint32_t n = 0;
  for (slot_iter i = slots_of(cp->graph, all); next_slot(&i);) n += is_rebased(cp, i.tid);
  control->rebased = malloc((n + 1) * sizeof *control->rebased);
  if (!control->rebased) return status_no_memory();
  for (slot_iter i = slots_of(cp->graph, all); next_slot(&i);)
    if (is_rebased(cp, i.tid)) control->rebased[control->n_rebased++] = i.tid;
  return NULL;
}

/* ---------------------------------------------------------------- results */

static body_result *new_result(control_planner *cp) {
  body_result *result = &cp->control->results[cp->control->n_results++];
  *result = (body_result){.result = NO_INDEX, .stacked = NO_INDEX};
  return result;
}

/* Allocates memory for result k of the op, or uses its destination (schedule.target). */
static clave_status place_body_result(control_planner *cp, uint32_t k, uint8_t home,
                                      body_result **out) {
  uint32_t tid = cp->results->items[k];
  location made;
  body_result *result = *out = new_result(cp);
  result->home = home;
  const schedule *schedule = cp->schedule;
  uint32_t wanted = schedule->target[tid];
  size_t bytes;
  TRY(known_bytes(&schedule->types[tid], &bytes));
  if (wanted != NO_INDEX && schedule->storages[wanted].bytes == bytes &&
      plan_control_is_used(cp, schedule->storages[wanted].home)) {
    result->home = schedule->storages[wanted].home;
    made = at_contiguous(wanted, &schedule->types[tid]);
  } else {
    TRY(new_place(cp->schedule, &schedule->types[tid], home, cp->graph->last_use[tid], &made));
  }
  result->result = result->target = made.storage;
  set_location(cp->schedule, tid, made);
  return NULL;
}

/* Makes the op that computes a body's result write it to storage `where`. Returns false if no op of
 * the body computes the result, or if the result already has a destination. */
static bool set_destination(control_planner *cp, int body, uint32_t tid, uint32_t where) {
  if (!is_computed(cp, body, tid) || cp->schedule->target[tid] != NO_INDEX) return false;
  cp->schedule->target[tid] = where;
  return true;
}

static clave_status check_result(const control_planner *cp, uint32_t k, uint32_t tid,
                                 const tensor *want) {
  const tensor *have = &cp->schedule->types[tid];
  bool same = have->type == want->type && have->rank == want->rank;
  for (int i = 0; same && i < have->rank; i++) same = have->dims[i] == want->dims[i];
  char have_text[128], want_text[128];
  return same ? NULL
              : INVALID("result %u of a body: expected shape %s, got %s", k,
                        tensor_shape_text(want, want_text, sizeof want_text),
                        tensor_shape_text(have, have_text, sizeof have_text));
}

static bool in_place(const schedule *schedule, const body_result *result, location location) {
  if (!result->is_carried || !tensor_is_contiguous(&location.t) || location.t.offset) return false;
  const uint32_t blk = schedule->storages[location.storage].block[result->home];
  return blk != NO_INDEX && blk == schedule->storages[result->arg].block[result->home];
}

static clave_status end_result(control_planner *cp, int body, uint32_t k) {
  schedule *schedule = cp->schedule;
  body_result *result = &cp->control->results[k];
  uint32_t tid = cp->chains[body]->results.items[k], op_result = cp->results->items[k];
  tensor want = schedule->types[op_result];
  if (cp->ins->op_type == IR_OP_SCAN && !result->is_carried) {
    want.rank--;
    memmove(want.dims, want.dims + 1, (size_t)want.rank * sizeof *want.dims);
  }
  TRY(import_slot(cp->planner, tid));
  TRY(check_result(cp, k, tid, &want));
  location location = schedule->now[tid];
  if (result->stacked != NO_INDEX) { /* the carried value is the slice itself */
    result->written = true;
    return NULL;
  }
  result->written = location.storage == result->target || !in_place(schedule, result, location);
  if (location.storage == result->target || !result->written) return NULL;
  TRY(materialize(cp->planner, location.storage, result->home, cp->index));
  return add_copy(cp->planner, result->home, cp->index, location,
                  at_contiguous(result->target, &want), NO_INDEX);
}

static control_planner planner_of(planner *planner, uint32_t number) {
  control *control = planner->schedule->controls[number];
  const ir_instruction *ins = &planner->graph->instructions[control->instruction];
  uint32_t chains[2];
  control_planner cp = {.planner = planner,
                        .graph = planner->graph,
                        .schedule = planner->schedule,
                        .control = control,
                        .number = number,
                        .index = control->instruction,
                        .ins = ins,
                        .n_chains = control_chains(ins, chains),
                        .results = control_results(ins)};
  for (int b = 0; b < cp.n_chains; b++)
    cp.chains[b] = &planner->executable->prog->ir.chains.items[chains[b]];
  return cp;
}

clave_status plan_body_end(planner *planner, uint32_t number, int body) {
  control_planner cp = planner_of(planner, number);
  control *control = cp.control;
  if (cp.ins->op_type == IR_OP_WHILE && body == 0) {
    uint32_t tid = cp.chains[0]->results.items[0];
    TRY(import_slot(planner, tid));
    control->predicate = planner->schedule->now[tid];
    control->predicate_home = (uint8_t)schedule_home(planner->schedule, control->predicate.storage);
    return materialize(planner, control->predicate.storage, control->predicate_home,
                       control->instruction);
  }
  for (uint32_t k = 0; k < control->n_results; k++) TRY(end_result(&cp, body, k));
  return NULL;
}

/* ---------------------------------------------------------------- bodies */

static bool waits_for_data(const graph *graph, range range) {
  for (uint32_t i = range.first; i < range.end; i++)
    if (graph->instructions[i].op_type == IR_OP_ITEM) return true;
  return false;
}

static clave_status plan_body_commands(control_planner *cp, int body) {
  range range = cp->graph->bodies[cp->index][body];
  for (uint32_t i = range.first; i < range.end; i = cp->graph->bodies[i][1].end)
    TRY(while_in_node(plan_instruction(cp->planner, i), cp->graph, i));
  return plan_body_end(cp->planner, cp->number, body);
}

/* Saves the slots' locations, because later ops may move a slot before the late body is planned. */
static clave_status keep_locations(control_planner *cp) {
  if (cp->control->now) return NULL;
  size_t n = slot_count(cp->planner->executable->prog);
  cp->control->now = malloc((n + 1) * sizeof *cp->control->now);
  if (!cp->control->now) return status_no_memory();
  memcpy(cp->control->now, cp->schedule->now, n * sizeof *cp->control->now);
  return NULL;
}

/* Plans a body. may_fail: the body may never run. If planning fails, it becomes late, so that
 * errors are reported only if it runs. */
static clave_status plan_control_plan_body(control_planner *cp, int body, bool may_fail) {
  control *control = cp->control;
  schedule_mark before = schedule_marked(cp->schedule);
  range range = cp->graph->bodies[cp->index][body];
  control->body[body].first = cp->schedule->n_commands;
  control->late[body] = waits_for_data(cp->graph, range);
  if (!control->late[body]) {
    clave_status st = plan_body_commands(cp, body);
    if (st && (!may_fail || status_code_of(st) == STATUS_NO_MEMORY)) return st;
    control->late[body] = st != NULL;
    if (st) schedule_rewind(cp->schedule, cp->graph, &before, range);
    status_free(st);
  }
  control->body[body].end = cp->schedule->n_commands;
  return control->late[body] ? keep_locations(cp) : NULL;
}

/* Plans the bodies' commands, and extends the lifetime of the blocks that they read. Blocks from
 * outside live until the loop ends, because each iteration reads them. */
static clave_status plan_bodies(control_planner *cp, uint32_t from, bool may_fail) {
  control *control = cp->control;
  schedule *schedule = cp->schedule;
  uint32_t n_blocks = schedule->n_blocks;
  control->begin = schedule->n_commands;
  TRY(add_command(schedule, (command){.kind = COMMAND_CONTROL,
                                      .instruction = cp->index,
                                      .control = cp->number,
                                      .rebind = NO_INDEX}));
  for (int b = 0; b < cp->n_chains; b++)
    if (control->known < 0 || control->known == !b) TRY(plan_control_plan_body(cp, b, may_fail));
  control->end = schedule->n_commands;
  bool all = is_loop(cp->ins) || control->late[0] || control->late[1];
  for (uint32_t i = 0; i < n_blocks; i++) {
    arena_block *block = &schedule->blocks[i].a;
    if (all && !schedule->blocks[i].segment && block->last >= from && block->last < control->end)
      block->last = control->end;
  }
  for (uint32_t k = 0; k < control->n_results; k++)
    TRY(materialize(cp->planner, control->results[k].result, control->results[k].home, cp->index));
  TRY(add_command(schedule,
                  (command){.kind = COMMAND_END, .instruction = cp->index, .rebind = NO_INDEX}));
  return find_rebased(cp);
}

/* ---------------------------------------------------------------- the ops */

static clave_status plan_if(control_planner *cp, uint32_t from) {
  const ir_if *op = cp->ins->op;
  for (int b = 0; b < 2; b++)
    for (uint32_t k = 0; k < op->args.count; k++)
      TRY(alias(cp, cp->chains[b]->args.items[k], op->args.items[k]));
  for (uint32_t k = 0; k < op->results.count; k++) {
    body_result *result;
    uint8_t other = choose_home(cp, 1, cp->chains[1]->results.items[k], first_used(cp));
    TRY(place_body_result(cp, k, choose_home(cp, 0, cp->chains[0]->results.items[k], other),
                          &result));
    for (int b = 0; b < 2; b++)
      (void)set_destination(cp, b, cp->chains[b]->results.items[k], result->result);
  }
  if (op->predicate == IR_NONE) {
    cp->control->known = cp->schedule->values[op->condition].i != 0;
  } else {
    cp->control->predicate = cp->schedule->now[op->predicate];
    cp->control->predicate_home =
        (uint8_t)schedule_home(cp->schedule, cp->control->predicate.storage);
    TRY(materialize(cp->planner, cp->control->predicate.storage, cp->control->predicate_home,
                    cp->index));
  }
  return plan_bodies(cp, from, cp->control->known < 0);
}

/* Plans the reference of a custom op without a kernel for any device, as a body that runs once. */
static clave_status plan_reference(control_planner *cp, uint32_t from) {
  const ir_custom *op = cp->ins->op;
  for (uint32_t k = 0; k < op->args.count; k++)
    TRY(alias(cp, cp->chains[0]->args.items[k], op->args.items[k]));
  for (uint32_t k = 0; k < op->results.count; k++) {
    body_result *result;
    uint32_t given = cp->chains[0]->results.items[k];
    TRY(place_body_result(cp, k, choose_home(cp, 0, given, first_used(cp)), &result));
    (void)set_destination(cp, 0, given, result->result);
  }
  cp->control->known = 1;
  return plan_bodies(cp, from, false);
}

/* Plans value k that a loop carries: its two buffers, the initial value, and the args of the body
 * and of the condition. trips: number of iterations; -1 if unknown. */
static clave_status plan_carried(control_planner *cp, uint32_t k, uint32_t initial, int64_t trips) {
  schedule *schedule = cp->schedule;
  int body = cp->n_chains - 1;
  uint32_t given = cp->chains[body]->results.items[k], read = NO_INDEX;
  const tensor *type = &schedule->types[cp->results->items[k]];
  location spare;
  body_result *result;
  uint8_t home = (uint8_t)schedule_home(schedule, schedule->now[initial].storage);
  TRY(place_body_result(cp, k, choose_home(cp, body, given, home), &result));
  result->is_carried = true;
  TRY(new_place(schedule, type, result->home, NO_INDEX, &spare));
  result->spare = spare.storage;
  result->first = trips > 0 && trips % 2 ? result->spare : result->result;
  TRY(materialize(cp->planner, schedule->now[initial].storage, result->home, cp->index));
  TRY(add_copy(cp->planner, result->home, cp->index, schedule->now[initial],
               at_contiguous(result->first, type), NO_INDEX));
  for (int b = 0; b < cp->n_chains; b++)
    read = later_use(read, cp->graph->last_use[cp->chains[b]->args.items[k]]);
  if (body == 1)
    read = later_use(read, cp->graph->bodies[cp->index][0].end); /* the condition only reads it */
  TRY(add_rebased(schedule, type, result->home, read, &result->arg));
  TRY(add_rebased(schedule, type, result->home, cp->graph->last_use[given], &result->target));
  for (int b = 0; b < cp->n_chains; b++)
    set_location(schedule, cp->chains[b]->args.items[k], at_contiguous(result->arg, type));
  (void)set_destination(cp, body, given, result->target);
  location whole = at_contiguous(result->result, type);
  return record_copy(cp->planner, result->home, &whole.t, &whole.t, &result->copied);
}

static clave_status plan_while(control_planner *cp, uint32_t from) {
  const ir_while *op = cp->ins->op;
  for (uint32_t k = 0; k < op->args.count; k++) TRY(plan_carried(cp, k, op->args.items[k], -1));
  return plan_bodies(cp, from, false);
}

/* Plans a scanned tensor, which is read in place. If the body runs on several devices, its slices
 * must be dense, because they are transferred. */
static clave_status plan_scanned(control_planner *cp, uint32_t x, uint32_t arg) {
  schedule *schedule = cp->schedule;
  tensor slice;
  uint8_t home = (uint8_t)schedule_home(schedule, schedule->now[x].storage);
  if (!plan_control_is_used(cp, home)) home = first_used(cp);
  operand operand = {.tid = x, .flags = cp->used & (cp->used - 1) ? IR_DENSE : 0};
  TRY(materialize_operand(cp->planner, cp->index, home, &operand));
  TRY(add_slices(cp, schedule->now[x], home, cp->graph->last_use[arg], &slice));
  set_location(schedule, arg,
               (location){cp->control->slices[cp->control->n_slices - 1].storage, slice});
  return NULL;
}

/* Plans a stacked result. If its slices are also a carried value, they replace its buffers. */
static clave_status plan_stacked(control_planner *cp, uint32_t k, uint32_t n_carried) {
  schedule *schedule = cp->schedule;
  uint32_t given = cp->chains[0]->results.items[k];
  tensor slice;
  body_result *result;
  TRY(place_body_result(cp, k, choose_home(cp, 0, given, first_used(cp)), &result));
  TRY(add_slices(cp, schedule->now[cp->results->items[k]], result->home, cp->graph->last_use[given],
                 &slice));
  result->target = cp->control->slices[cp->control->n_slices - 1].storage;
  if (set_destination(cp, 0, given, result->target)) return NULL;
  for (uint32_t i = 0; i < n_carried; i++) {
    body_result *carried = &cp->control->results[i];
    if (cp->chains[0]->results.items[i] != given || carried->home != result->home) continue;
    if (schedule->target[given] != carried->target) continue;
    schedule->target[given] = result->target;
    carried->stacked = k;
    schedule->storages[carried->arg].fixed = true;
    break;
  }
  return NULL;
}

static clave_status plan_scan(control_planner *cp, uint32_t from) {
  const ir_scan *op = cp->ins->op;
  const uint32_t *args = cp->chains[0]->args.items;
  uint32_t n = op->carries.count;
  cp->control->trips = cp->schedule->types[op->xs.items[0]].dims[0];
  for (uint32_t k = 0; k < n; k++)
    TRY(plan_carried(cp, k, op->carries.items[k], cp->control->trips));
  for (uint32_t k = 0; k < op->xs.count; k++) TRY(plan_scanned(cp, op->xs.items[k], args[n + k]));
  for (uint32_t k = 0; k < op->args.count; k++)
    TRY(alias(cp, args[n + op->xs.count + k], op->args.items[k]));
  for (uint32_t k = n; k < op->results.count; k++) TRY(plan_stacked(cp, k, n));
  return plan_bodies(cp, from, false);
}

/* ---------------------------------------------------------------- entry points */

clave_status resolve_bodies(planner *planner, uint32_t index) {
  uint32_t chains[2], end = planner->graph->bodies[index][1].end;
  int n = control_chains(&planner->graph->instructions[index], chains);
  for (int b = 0; b < n; b++) {
    const ir_chain *chain = &planner->executable->prog->ir.chains.items[chains[b]];
    for (uint32_t k = 0; k < chain->args.count; k++)
      TRY(resolve_type(planner, chain->args.items[k]));
    for (uint32_t k = 0; k < chain->results.count; k++) {
      uint32_t tid = chain->results.items[k], w = planner->graph->writer[tid];
      if (w != NO_INDEX && w > index && w < end)
        planner->schedule->types[tid] = planner->executable->prog->types[tid];
    }
  }
  return NULL;
}

static void find_used_backends(control_planner *cp) {
  range range = all_bodies(cp);
  for (uint32_t i = range.first; i < range.end; i++)
    if (cp->planner->where[i] < MAX_BACKENDS) cp->used |= 1u << cp->planner->where[i];
  cp->used |= !cp->used;
}

clave_status plan_control(planner *planner, uint32_t index) {
  const ir_instruction *ins = &planner->graph->instructions[index];
  const ir_scan *scan = ins->op_type == IR_OP_SCAN ? ins->op : NULL;
  uint32_t n_slices = scan ? scan->xs.count + scan->results.count : 0,
           from = planner->schedule->n_commands;
  uint32_t number;
  TRY(add_control(planner->schedule, index, control_results(ins)->count, n_slices, &number));
  control_planner cp = planner_of(planner, number);
  TRY(resolve_operands(planner, ins));
  TRY(resolve_bodies(planner, index));
  rule_context context = {&planner->executable->prog->ir, planner->schedule->types,
                          planner->schedule->values};
  TRY(op_table[ins->op_type].rule(&context, ins->op));
  find_used_backends(&cp);
  TRY(hoist_all(&cp));
  return scan                          ? plan_scan(&cp, from)
         : ins->op_type == IR_OP_WHILE ? plan_while(&cp, from)
         : ins->op_type == IR_OP_IF    ? plan_if(&cp, from)
                                       : plan_reference(&cp, from);
}
