/* The verifier's second half: methods, chains, and what flows through them. Every read follows its
 * write, every write is the only one, every op agrees with its rule.
 *
 * A chain is used once, by a method or an op. So a tensor or value is visible while the chain that
 * wrote it is open. */
#include <stdlib.h>
#include <string.h>

#include "ops/ops.h"
#include "serialize/limits.h"
#include "serialize/verify.h"

/* Who wrote a tensor or value last. */
typedef struct writer {
  uint32_t method; /* index + 1; 0: nobody yet */
  uint32_t chain;
} writer;

typedef enum chain_state { CHAIN_UNUSED = 0, CHAIN_OPEN, CHAIN_DONE } chain_state;

typedef struct checker {
  const program *p;
  rule_context rules;
  scalar_value *values;   /* owned, by Vid: none known */
  writer *tensors, *vids; /* owned, by Tid, Vid */
  chain_state *chains;    /* owned */
  uint32_t *taken;        /* owned, by Tid: last method + 1 whose argument or update it is */
  uint32_t method;        /* the current one's index + 1 */
  uint32_t chain;         /* the open one */
  uint32_t outputs_written;
  int depth;
} checker;

static clave_status check_chain(checker *k, uint32_t index, bool is_body);

/* ---------------------------------------------------------------- slots */

static clave_status check_tid(const checker *k, uint32_t tid) {
  uint32_t count = k->p->ir.tensors.count;
  return tid < count ? NULL : INVALID("tensor %u, the program has %u", tid, count);
}

static clave_status check_vid(const checker *k, uint32_t vid) {
  uint32_t count = k->p->ir.values.count;
  return vid < count ? NULL : INVALID("value %u, the program has %u", vid, count);
}

static bool is_visible(const checker *k, const writer *w) {
  return w->method == k->method && k->chains[w->chain] == CHAIN_OPEN;
}

static clave_status read_value(const checker *k, uint32_t vid) {
  if (is_visible(k, &k->vids[vid])) return NULL;
  return INVALID("value %u ('%.200s') is read before it is set", vid,
                 k->p->ir.values.items[vid].name);
}

static clave_status write_value(checker *k, uint32_t vid) {
  if (k->vids[vid].method == k->method) {
    return INVALID("value %u ('%.200s') is set twice", vid, k->p->ir.values.items[vid].name);
  }
  k->vids[vid] = (writer){k->method, k->chain};
  return NULL;
}

/* The values that stand in the tensor's shape are set. */
static clave_status check_shape_values(const checker *k, uint32_t tid) {
  const ir_tensor *t = &k->p->ir.tensors.items[tid];
  for (uint32_t i = 0; i < t->shape.count; i++) {
    uint32_t vid = t->shape.items[i].vid;
    if (vid != IR_NONE)
      TRY(status_while(read_value(k, vid), "dimension %u of tensor %u ('%.200s')", i, tid,
                       t->name));
  }
  return NULL;
}

static clave_status read_tensor(const checker *k, uint32_t tid) {
  const ir_program *p = &k->p->ir;
  slot_kind kind = program_slot_kind(p, tid);
  if (kind == SLOT_CONSTANT || kind == SLOT_STATE || is_visible(k, &k->tensors[tid])) return NULL;
  if (kind == SLOT_INPUT) return tensor_error(p, tid, "is no input of this method");
  if (k->tensors[tid].method == k->method)
    return tensor_error(p, tid, "is written inside another chain only");
  return tensor_error(p, tid, "is read before it is written");
}

static clave_status slot_error(const ir_program *p, uint32_t tid, const char *expected) {
  return INVALID("tensor %u ('%.200s'): expected %s slot, got %s slot", tid,
                 p->tensors.items[tid].name, expected, slot_kind_name(program_slot_kind(p, tid)));
}

static clave_status write_tensor(checker *k, uint32_t tid) {
  const ir_program *p = &k->p->ir;
  slot_kind kind = program_slot_kind(p, tid);
  if (kind != SLOT_OUTPUT && kind != SLOT_TEMPORARY)
    return slot_error(p, tid, "output or temporary");
  if (kind == SLOT_OUTPUT && k->depth > 1)
    return tensor_error(p, tid, "is an output, which a body cannot write");
  if (k->tensors[tid].method == k->method) return tensor_error(p, tid, "is written twice");
  k->tensors[tid] = (writer){k->method, k->chain};
  k->outputs_written += kind == SLOT_OUTPUT;
  return check_shape_values(k, tid);
}

/* ---------------------------------------------------------------- instructions */

typedef enum visit_pass { PASS_RANGES, PASS_READS, PASS_WRITES } visit_pass;

typedef struct visitor {
  checker *k;
  visit_pass pass;
  clave_status status;
} visitor;

static clave_status visit_operand(checker *k, const operand *o, visit_pass pass) {
  bool written = (o->flags & IR_OUT) != 0;
  if (pass == PASS_RANGES) return check_tid(k, o->tid);
  if (pass == PASS_READS && !written) return read_tensor(k, o->tid);
  if (pass == PASS_WRITES && written) return write_tensor(k, o->tid);
  return NULL;
}

static bool visit_value(void *ctx, uint32_t vid, bool written) {
  visitor *v = ctx;
  if (v->pass == PASS_RANGES) v->status = check_vid(v->k, vid);
  if (v->pass == PASS_READS && !written) v->status = read_value(v->k, vid);
  if (v->pass == PASS_WRITES && written) v->status = write_value(v->k, vid);
  return !v->status;
}

static clave_status visit(checker *k, const ir_instruction *ins, visit_pass pass) {
  visitor v = {k, pass, NULL};
  if (!for_each_value(ins, visit_value, &v)) return v.status;
  for (operand_iter i = operands_of(ins); next_operand(&i);)
    TRY(status_while(visit_operand(k, &i.o, pass), "%s", i.o.field));
  return NULL;
}

/* The chains that a control op runs; the op's rule has checked that they exist and fit. */
static clave_status check_bodies(checker *k, const ir_instruction *ins) {
  uint32_t chains[2];
  int n = control_chains(ins, chains);
  for (int i = 0; i < n; i++) TRY(check_chain(k, chains[i], true));
  return NULL;
}

static clave_status check_instruction(checker *k, const ir_instruction *ins) {
  if (strlen(ins->name) > LIMIT_NAME)
    return INVALID("expected a name of at most %d bytes, got %zu", (int)LIMIT_NAME,
                   strlen(ins->name));
  TRY(visit(k, ins, PASS_RANGES));
  TRY(visit(k, ins, PASS_READS));
  TRY(rule_instruction(&k->rules, ins));
  TRY(check_bodies(k, ins));
  return visit(k, ins, PASS_WRITES);
}

static clave_status check_instructions(checker *k, const ir_instructions *list) {
  for (uint32_t i = 0; i < list->count; i++) {
    const ir_instruction *ins = &list->items[i];
    clave_status st = check_instruction(k, ins);
    const char *op = op_table[ins->op_type].name;
    if (st && ins->name[0]) return status_while(st, "node %u (%.200s, %s)", i, ins->name, op);
    if (st) return status_while(st, "node %u (%s)", i, op);
  }
  return NULL;
}

/* A body's args are temporaries that are written as it begins. */
static clave_status bind_args(checker *k, const ir_chain *c) {
  for (uint32_t i = 0; i < c->args.count; i++) {
    uint32_t tid = c->args.items[i];
    if (program_slot_kind(&k->p->ir, tid) != SLOT_TEMPORARY)
      return slot_error(&k->p->ir, tid, "temporary");
    TRY(status_while(write_tensor(k, tid), "args[%u]", i));
  }
  return NULL;
}

/* What a chain's instructions may not be walked without: it is there, unused, and not too deep. */
static clave_status open_chain(checker *k, uint32_t index) {
  const ir_chains *chains = &k->p->ir.chains;
  if (index >= chains->count) return INVALID("chain %u, the program has %u", index, chains->count);
  if (k->chains[index] != CHAIN_UNUSED) return INVALID("chain %u is used twice", index);
  if (k->depth >= LIMIT_CHAIN_DEPTH)
    return INVALID("chains nested deeper than %d", (int)LIMIT_CHAIN_DEPTH);
  k->chains[index] = CHAIN_OPEN;
  k->chain = index;
  k->depth++;
  return NULL;
}

static clave_status walk_body(checker *k, const ir_chain *c) {
  TRY(bind_args(k, c));
  TRY(check_instructions(k, &c->instructions));
  for (uint32_t i = 0; i < c->results.count; i++)
    TRY(status_while(read_tensor(k, c->results.items[i]), "results[%u]", i));
  return NULL;
}

static void close_chain(checker *k, uint32_t index, uint32_t outer) {
  k->chains[index] = CHAIN_DONE;
  k->chain = outer;
  k->depth--;
}

static clave_status check_chain(checker *k, uint32_t index, bool is_body) {
  uint32_t outer = k->chain;
  TRY(open_chain(k, index));
  const ir_chain *c = &k->p->ir.chains.items[index];
  clave_status st = is_body ? walk_body(k, c) : check_instructions(k, &c->instructions);
  if (is_body) {
    st = status_while(st, "chain %u", index);
    close_chain(k, index, outer);
  }
  return st; /* a method's own chain stays open: its outputs and updates are read from it */
}

/* ---------------------------------------------------------------- methods */

/* An argument is a tensor or a value, each slot once per method and direction. */
static clave_status check_argument(checker *k, const ir_argument *a, slot_kind kind) {
  if ((a->tensor == IR_NONE) == (a->value == IR_NONE))
    return INVALID("expected a tensor or a value, one of both");
  if (a->value != IR_NONE) return check_vid(k, a->value);
  TRY(check_tid(k, a->tensor));
  if (program_slot_kind(&k->p->ir, a->tensor) != kind)
    return slot_error(&k->p->ir, a->tensor, slot_kind_name(kind));
  if (k->taken[a->tensor] == k->method) return tensor_error(&k->p->ir, a->tensor, "stands twice");
  k->taken[a->tensor] = k->method;
  return NULL;
}

/* Inputs set their slots, scalars their values, and shapes the values that stand in them. */
static clave_status bind_input(checker *k, const ir_argument *a) {
  TRY(check_argument(k, a, SLOT_INPUT));
  if (a->value != IR_NONE) return write_value(k, a->value);
  k->tensors[a->tensor] = (writer){k->method, k->chain};
  return NULL;
}

static void bind_shape(checker *k, uint32_t tid) {
  const ir_int_or_vids *shape = &k->p->ir.tensors.items[tid].shape;
  for (uint32_t i = 0; i < shape->count; i++) {
    uint32_t vid = shape->items[i].vid;
    if (vid != IR_NONE) k->vids[vid] = (writer){k->method, k->chain};
  }
}

/* What a session chose before any method runs. */
static void bind_state_sizes(checker *k) {
  uint32_t first = k->p->ir.constants.count + k->p->ir.n_inputs + k->p->ir.n_outputs;
  for (uint32_t i = 0; i < k->p->ir.n_state; i++) bind_shape(k, first + i);
}

static clave_status bind_inputs(checker *k, const ir_arguments *inputs) {
  for (uint32_t i = 0; i < inputs->count; i++) {
    const ir_argument *a = &inputs->items[i];
    TRY(status_while(bind_input(k, a), "input '%.200s'", a->name));
  }
  for (uint32_t i = 0; i < inputs->count; i++)
    if (inputs->items[i].tensor != IR_NONE) bind_shape(k, inputs->items[i].tensor);
  return NULL;
}

static clave_status check_outputs(checker *k, const ir_arguments *outputs) {
  uint32_t tensors = 0;
  for (uint32_t i = 0; i < outputs->count; i++) {
    const ir_argument *a = &outputs->items[i];
    clave_status st = check_argument(k, a, SLOT_OUTPUT);
    if (!st) st = a->value != IR_NONE ? read_value(k, a->value) : read_tensor(k, a->tensor);
    if (st) return status_while(st, "output '%.200s'", a->name);
    tensors += a->tensor != IR_NONE;
  }
  if (tensors == k->outputs_written) return NULL;
  return INVALID("%u output slots are written, %u are outputs of the method", k->outputs_written,
                 tensors);
}

/* The same sizes, and values for sizes. */
static bool same_types(const ir_program *p, uint32_t a, uint32_t b) {
  const ir_tensor *x = &p->tensors.items[a], *y = &p->tensors.items[b];
  bool same = x->dtype == y->dtype && x->shape.count == y->shape.count;
  for (uint32_t i = 0; same && i < x->shape.count; i++) {
    const ir_int_or_vid *m = &x->shape.items[i], *n = &y->shape.items[i];
    same = m->vid == n->vid && (m->vid != IR_NONE || m->literal == n->literal);
  }
  return same;
}

static clave_status check_update(checker *k, const ir_state_update *u) {
  const ir_program *p = &k->p->ir;
  TRY(check_tid(k, u->state));
  TRY(check_tid(k, u->value));
  if (program_slot_kind(p, u->state) != SLOT_STATE) return tensor_error(p, u->state, "is no state");
  if (k->taken[u->state] == k->method) return tensor_error(p, u->state, "is updated twice");
  k->taken[u->state] = k->method;
  TRY(read_tensor(k, u->value));
  if (same_types(p, u->state, u->value)) return NULL;
  return tensor_error(p, u->value, "differs in dtype or shape from the state it becomes");
}

static clave_status check_method(checker *k, const ir_method *m) {
  k->outputs_written = 0;
  k->depth = 0;
  k->chain = m->chain;
  TRY(verify_names(m->inputs.items, m->inputs.count, sizeof *m->inputs.items,
                   offsetof(ir_argument, name), "input"));
  TRY(verify_names(m->outputs.items, m->outputs.count, sizeof *m->outputs.items,
                   offsetof(ir_argument, name), "output"));
  bind_state_sizes(k);
  TRY(bind_inputs(k, &m->inputs));
  TRY(check_chain(k, m->chain, false));
  TRY(check_outputs(k, &m->outputs));
  for (uint32_t i = 0; i < m->updates.count; i++)
    TRY(status_while(check_update(k, &m->updates.items[i]), "updates[%u]", i));
  k->chains[m->chain] = CHAIN_DONE;
  return NULL;
}

/* Slots of all chains' args and results, which rules look at before the chain itself is walked. */
static clave_status check_chain_slots(const checker *k) {
  const ir_chains *chains = &k->p->ir.chains;
  for (uint32_t i = 0; i < chains->count; i++) {
    const ir_u32s *lists[2] = {&chains->items[i].args, &chains->items[i].results};
    for (int l = 0; l < 2; l++) {
      for (uint32_t n = 0; n < lists[l]->count; n++)
        TRY(status_while(check_tid(k, lists[l]->items[n]), "chain %u", i));
    }
  }
  return NULL;
}

static clave_status check_program(checker *k) {
  const ir_program *p = &k->p->ir;
  if (p->methods.count == 0) return INVALID("the program has no methods");
  TRY(verify_names(p->methods.items, p->methods.count, sizeof *p->methods.items,
                   offsetof(ir_method, name), "method"));
  TRY(check_chain_slots(k));
  for (uint32_t i = 0; i < p->methods.count; i++) {
    k->method = i + 1;
    TRY(status_while(check_method(k, &p->methods.items[i]), "method '%.200s'",
                     p->methods.items[i].name));
  }
  for (uint32_t i = 0; i < p->chains.count; i++) {
    if (k->chains[i] == CHAIN_UNUSED) return INVALID("chain %u is used by no method", i);
  }
  return NULL;
}

clave_status verify_flow(const program *p) {
  size_t n_tensors = (size_t)p->ir.tensors.count + 1, n_values = (size_t)p->ir.values.count + 1;
  checker k = {.p = p};
  k.values = calloc(n_values, sizeof *k.values);
  k.tensors = calloc(n_tensors, sizeof *k.tensors);
  k.vids = calloc(n_values, sizeof *k.vids);
  k.chains = calloc((size_t)p->ir.chains.count + 1, sizeof *k.chains);
  k.taken = calloc(n_tensors, sizeof *k.taken);
  clave_status st = NULL;
  if (!k.values || !k.tensors || !k.vids || !k.chains || !k.taken) st = status_no_memory();
  for (uint32_t i = 0; !st && i < p->ir.values.count; i++)
    k.values[i].type = p->ir.values.items[i].type;
  k.rules = (rule_context){&p->ir, p->types, k.values};
  if (!st) st = check_program(&k);
  free(k.values);
  free(k.tensors);
  free(k.vids);
  free(k.chains);
  free(k.taken);
  return st;
}

clave_status verify_program(program *p) {
  TRY(verify_types(p));
  return verify_flow(p);
}
