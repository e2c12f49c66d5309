/* The verifier's second half: methods, chains, and the flow of tensors and values. Every read
 * follows a write, everything is written once, and every op satisfies its rule.
 *
 * A chain is used once, by a method or an op. So a tensor or value is visible while the chain that
 * wrote it is open. */
#include <stdlib.h>
#include <string.h>

#include "ops/ops.h"
#include "serialize/limits.h"
#include "serialize/verify.h"

/* The last writer of a tensor or value. */
typedef struct writer {
  uint32_t method; /* index + 1; 0 if not written yet */
  uint32_t chain;
} writer;

typedef enum chain_state { CHAIN_UNUSED = 0, CHAIN_OPEN, CHAIN_DONE } chain_state;

typedef struct checker {
  const program *program;
  rule_context rules;
  scalar_value *values;   /* owned, by Vid; rules see all values as unknown */
  writer *tensors, *vids; /* owned, by Tid and Vid */
  chain_state *chains;    /* owned */
  uint32_t *used_by; /* owned, by Tid: index + 1 of the last method with it as argument or update */
  uint32_t method;   /* index + 1 of the current method */
  uint32_t chain;    /* the chain that is open */
  uint32_t outputs_written;
  int depth;
} checker;

static clave_status verify_flow_check_chain(checker *checker, uint32_t index, bool is_body);

/* ---------------------------------------------------------------- slots */

static clave_status check_tid(const checker *checker, uint32_t tid) {
  uint32_t count = checker->program->ir.tensors.count;
  return tid < count ? NULL : INVALID("tensor %u is out of range: the program has %u", tid, count);
}

static clave_status check_vid(const checker *checker, uint32_t vid) {
  uint32_t count = checker->program->ir.values.count;
  return vid < count ? NULL : INVALID("value %u is out of range: the program has %u", vid, count);
}

static bool is_visible(const checker *checker, const writer *writer) {
  return writer->method == checker->method && checker->chains[writer->chain] == CHAIN_OPEN;
}

static clave_status verify_flow_read_value(const checker *checker, uint32_t vid) {
  if (is_visible(checker, &checker->vids[vid])) return NULL;
  return INVALID("value %u ('%.200s') is read before it is set", vid,
                 checker->program->ir.values.items[vid].name);
}

static clave_status verify_flow_write_value(checker *checker, uint32_t vid) {
  if (checker->vids[vid].method == checker->method) {
    return INVALID("value %u ('%.200s') is set twice", vid,
                   checker->program->ir.values.items[vid].name);
  }
  checker->vids[vid] = (writer){checker->method, checker->chain};
  return NULL;
}

/* Checks that all values in the tensor's shape are set. */
static clave_status check_shape_values(const checker *checker, uint32_t tid) {
  const ir_tensor *tensor = &checker->program->ir.tensors.items[tid];
  for (uint32_t i = 0; i < tensor->shape.count; i++) {
    uint32_t vid = tensor->shape.items[i].vid;
    if (vid != IR_NONE)
      TRY(status_while(verify_flow_read_value(checker, vid), "dimension %u of tensor %u ('%.200s')",
                       i, tid, tensor->name));
  }
  return NULL;
}

static clave_status verify_flow_read_tensor(const checker *checker, uint32_t tid) {
  const ir_program *program = &checker->program->ir;
  slot_kind kind = program_slot_kind(program, tid);
  if (kind == SLOT_CONSTANT || kind == SLOT_STATE || is_visible(checker, &checker->tensors[tid]))
    return NULL;
  if (kind == SLOT_INPUT) return tensor_error(program, tid, "is not an input of this method");
  if (checker->tensors[tid].method == checker->method)
    return tensor_error(program, tid, "is written only inside another chain");
  return tensor_error(program, tid, "is read before it is written");
}

static clave_status slot_error(const ir_program *program, uint32_t tid, const char *expected) {
  return INVALID("tensor %u ('%.200s'): expected %s slot, got %s slot", tid,
                 program->tensors.items[tid].name, expected,
                 slot_kind_name(program_slot_kind(program, tid)));
}

static clave_status verify_flow_write_tensor(checker *checker, uint32_t tid) {
  const ir_program *program = &checker->program->ir;
  slot_kind kind = program_slot_kind(program, tid);
  if (kind != SLOT_OUTPUT && kind != SLOT_TEMPORARY)
    return slot_error(program, tid, "output or temporary");
  if (kind == SLOT_OUTPUT && checker->depth > 1)
    return tensor_error(program, tid, "is an output, which a body cannot write");
  if (checker->tensors[tid].method == checker->method)
    return tensor_error(program, tid, "is written twice");
  checker->tensors[tid] = (writer){checker->method, checker->chain};
  checker->outputs_written += kind == SLOT_OUTPUT;
  return check_shape_values(checker, tid);
}

/* ---------------------------------------------------------------- instructions */

typedef enum visit_pass { PASS_RANGES, PASS_READS, PASS_WRITES } visit_pass;

typedef struct visitor {
  checker *checker;
  visit_pass pass;
  clave_status status;
} visitor;

static clave_status visit_operand(checker *checker, const operand *operand, visit_pass pass) {
  bool written = (operand->flags & IR_OUT) != 0;
  if (pass == PASS_RANGES) return check_tid(checker, operand->tid);
  if (pass == PASS_READS && !written) return verify_flow_read_tensor(checker, operand->tid);
  if (pass == PASS_WRITES && written) return verify_flow_write_tensor(checker, operand->tid);
  return NULL;
}

static bool verify_flow_visit_value(void *ctx, uint32_t vid, bool written) {
  visitor *visitor = ctx;
  if (visitor->pass == PASS_RANGES) visitor->status = check_vid(visitor->checker, vid);
  if (visitor->pass == PASS_READS && !written)
    visitor->status = verify_flow_read_value(visitor->checker, vid);
  if (visitor->pass == PASS_WRITES && written)
    visitor->status = verify_flow_write_value(visitor->checker, vid);
  return !visitor->status;
}

static clave_status visit(checker *checker, const ir_instruction *ins, visit_pass pass) {
  visitor visitor = {checker, pass, NULL};
  if (!for_each_value(ins, verify_flow_visit_value, &visitor)) return visitor.status;
  for (operand_iter i = operands_of(ins); next_operand(&i);)
    TRY(status_while(visit_operand(checker, &i.operand, pass), "%s", i.operand.field));
  return NULL;
}

/* Checks the chains that a control op runs. The op's rule has checked that they exist and that
 * their args and results fit. */
static clave_status check_bodies(checker *checker, const ir_instruction *ins) {
  uint32_t chains[2];
  int n = control_chains(ins, chains);
  for (int i = 0; i < n; i++) TRY(verify_flow_check_chain(checker, chains[i], true));
  return NULL;
}

static clave_status check_instruction(checker *checker, const ir_instruction *ins) {
  if (strlen(ins->name) > LIMIT_NAME)
    return INVALID("expected a name of at most %d bytes, got %zu", (int)LIMIT_NAME,
                   strlen(ins->name));
  TRY(visit(checker, ins, PASS_RANGES));
  TRY(visit(checker, ins, PASS_READS));
  TRY(rule_instruction(&checker->rules, ins));
  TRY(check_bodies(checker, ins));
  return visit(checker, ins, PASS_WRITES);
}

static clave_status check_instructions(checker *checker, const ir_instructions *list) {
  for (uint32_t i = 0; i < list->count; i++) {
    const ir_instruction *ins = &list->items[i];
    clave_status st = check_instruction(checker, ins);
    const char *op = op_table[ins->op_type].name;
    if (st && ins->name[0]) return status_while(st, "node %u (%.200s, %s)", i, ins->name, op);
    if (st) return status_while(st, "node %u (%s)", i, op);
  }
  return NULL;
}

/* Binds a body's args, which are temporaries written when the body begins. */
static clave_status verify_flow_bind_args(checker *checker, const ir_chain *chain) {
  for (uint32_t i = 0; i < chain->args.count; i++) {
    uint32_t tid = chain->args.items[i];
    if (program_slot_kind(&checker->program->ir, tid) != SLOT_TEMPORARY)
      return slot_error(&checker->program->ir, tid, "temporary");
    TRY(status_while(verify_flow_write_tensor(checker, tid), "args[%u]", i));
  }
  return NULL;
}

/* Opens a chain if it exists, is unused and is not nested too deeply. */
static clave_status open_chain(checker *checker, uint32_t index) {
  const ir_chains *chains = &checker->program->ir.chains;
  if (index >= chains->count)
    return INVALID("chain %u is out of range: the program has %u", index, chains->count);
  if (checker->chains[index] != CHAIN_UNUSED) return INVALID("chain %u is used twice", index);
  if (checker->depth >= LIMIT_CHAIN_DEPTH)
    return INVALID("chains are nested deeper than %d", (int)LIMIT_CHAIN_DEPTH);
  checker->chains[index] = CHAIN_OPEN;
  checker->chain = index;
  checker->depth++;
  return NULL;
}

static clave_status walk_body(checker *checker, const ir_chain *chain) {
  TRY(verify_flow_bind_args(checker, chain));
  TRY(check_instructions(checker, &chain->instructions));
  for (uint32_t i = 0; i < chain->results.count; i++)
    TRY(status_while(verify_flow_read_tensor(checker, chain->results.items[i]), "results[%u]", i));
  return NULL;
}

static void close_chain(checker *checker, uint32_t index, uint32_t outer) {
  checker->chains[index] = CHAIN_DONE;
  checker->chain = outer;
  checker->depth--;
}

static clave_status verify_flow_check_chain(checker *checker, uint32_t index, bool is_body) {
  uint32_t outer = checker->chain;
  TRY(open_chain(checker, index));
  const ir_chain *chain = &checker->program->ir.chains.items[index];
  clave_status st =
      is_body ? walk_body(checker, chain) : check_instructions(checker, &chain->instructions);
  if (is_body) {
    st = status_while(st, "chain %u", index);
    close_chain(checker, index, outer);
  }
  return st; /* a method's own chain stays open, because its outputs and updates are read from it */
}

/* ---------------------------------------------------------------- methods */

/* Checks an argument of a method, which is either a tensor of this kind or a value. A method may
 * name a tensor only once. */
static clave_status check_argument(checker *checker, const ir_argument *argument, slot_kind kind) {
  if ((argument->tensor == IR_NONE) == (argument->value == IR_NONE))
    return INVALID("expected either a tensor or a value");
  if (argument->value != IR_NONE) return check_vid(checker, argument->value);
  TRY(check_tid(checker, argument->tensor));
  if (program_slot_kind(&checker->program->ir, argument->tensor) != kind)
    return slot_error(&checker->program->ir, argument->tensor, slot_kind_name(kind));
  if (checker->used_by[argument->tensor] == checker->method)
    return tensor_error(&checker->program->ir, argument->tensor, "appears twice");
  checker->used_by[argument->tensor] = checker->method;
  return NULL;
}

/* Binds an input: marks the slot, or the value of a scalar, as written. */
static clave_status verify_flow_bind_input(checker *checker, const ir_argument *argument) {
  TRY(check_argument(checker, argument, SLOT_INPUT));
  if (argument->value != IR_NONE) return verify_flow_write_value(checker, argument->value);
  checker->tensors[argument->tensor] = (writer){checker->method, checker->chain};
  return NULL;
}

static void bind_shape(checker *checker, uint32_t tid) {
  const ir_int_or_vids *shape = &checker->program->ir.tensors.items[tid].shape;
  for (uint32_t i = 0; i < shape->count; i++) {
    uint32_t vid = shape->items[i].vid;
    if (vid != IR_NONE) checker->vids[vid] = (writer){checker->method, checker->chain};
  }
}

/* Marks the sizes of state as known, because the session chooses them before any method runs. */
static void bind_state_sizes(checker *checker) {
  uint32_t first = checker->program->ir.constants.count + checker->program->ir.n_inputs +
                   checker->program->ir.n_outputs;
  for (uint32_t i = 0; i < checker->program->ir.n_state; i++) bind_shape(checker, first + i);
}

static clave_status verify_flow_bind_inputs(checker *checker, const ir_arguments *inputs) {
  for (uint32_t i = 0; i < inputs->count; i++) {
    const ir_argument *argument = &inputs->items[i];
    TRY(status_while(verify_flow_bind_input(checker, argument), "input '%.200s'", argument->name));
  }
  for (uint32_t i = 0; i < inputs->count; i++)
    if (inputs->items[i].tensor != IR_NONE) bind_shape(checker, inputs->items[i].tensor);
  return NULL;
}

static clave_status verify_flow_check_outputs(checker *checker, const ir_arguments *outputs) {
  uint32_t tensors = 0;
  for (uint32_t i = 0; i < outputs->count; i++) {
    const ir_argument *argument = &outputs->items[i];
    clave_status st = check_argument(checker, argument, SLOT_OUTPUT);
    if (!st)
      st = argument->value != IR_NONE ? verify_flow_read_value(checker, argument->value)
                                      : verify_flow_read_tensor(checker, argument->tensor);
    if (st) return status_while(st, "output '%.200s'", argument->name);
    tensors += argument->tensor != IR_NONE;
  }
  if (tensors == checker->outputs_written) return NULL;
  return INVALID("%u output slots are written, and the method has %u outputs",
                 checker->outputs_written, tensors);
}

/* True if dtype and shape are equal, including the values used as sizes. */
static bool same_types(const ir_program *program, uint32_t a, uint32_t b) {
  const ir_tensor *left = &program->tensors.items[a], *right = &program->tensors.items[b];
  bool same = left->dtype == right->dtype && left->shape.count == right->shape.count;
  for (uint32_t i = 0; same && i < left->shape.count; i++) {
    const ir_int_or_vid *left_size = &left->shape.items[i], *right_size = &right->shape.items[i];
    same = left_size->vid == right_size->vid &&
           (left_size->vid != IR_NONE || left_size->literal == right_size->literal);
  }
  return same;
}

static clave_status check_update(checker *checker, const ir_state_update *update) {
  const ir_program *program = &checker->program->ir;
  TRY(check_tid(checker, update->state));
  TRY(check_tid(checker, update->value));
  if (program_slot_kind(program, update->state) != SLOT_STATE)
    return tensor_error(program, update->state, "is not a state");
  if (checker->used_by[update->state] == checker->method)
    return tensor_error(program, update->state, "is updated twice");
  checker->used_by[update->state] = checker->method;
  TRY(verify_flow_read_tensor(checker, update->value));
  if (same_types(program, update->state, update->value)) return NULL;
  return tensor_error(program, update->value,
                      "differs in dtype or shape from the state that it updates");
}

static clave_status verify_flow_check_method(checker *checker, const ir_method *method) {
  checker->outputs_written = 0;
  checker->depth = 0;
  checker->chain = method->chain;
  TRY(verify_names(method->inputs.items, method->inputs.count, sizeof *method->inputs.items,
                   offsetof(ir_argument, name), "input"));
  TRY(verify_names(method->outputs.items, method->outputs.count, sizeof *method->outputs.items,
                   offsetof(ir_argument, name), "output"));
  bind_state_sizes(checker);
  TRY(verify_flow_bind_inputs(checker, &method->inputs));
  TRY(verify_flow_check_chain(checker, method->chain, false));
  TRY(verify_flow_check_outputs(checker, &method->outputs));
  for (uint32_t i = 0; i < method->updates.count; i++)
    TRY(status_while(check_update(checker, &method->updates.items[i]), "updates[%u]", i));
  checker->chains[method->chain] = CHAIN_DONE;
  return NULL;
}

/* Checks the slots of all chains' args and results, because rules read them before the chain
 * itself is walked. */
static clave_status check_chain_slots(const checker *checker) {
  const ir_chains *chains = &checker->program->ir.chains;
  for (uint32_t i = 0; i < chains->count; i++) {
    const ir_u32s *lists[2] = {&chains->items[i].args, &chains->items[i].results};
    for (int l = 0; l < 2; l++) {
      for (uint32_t n = 0; n < lists[l]->count; n++)
        TRY(status_while(check_tid(checker, lists[l]->items[n]), "chain %u", i));
    }
  }
  return NULL;
}

static clave_status check_program(checker *checker) {
  const ir_program *program = &checker->program->ir;
  if (program->methods.count == 0) return INVALID("the program has no methods");
  TRY(verify_names(program->methods.items, program->methods.count, sizeof *program->methods.items,
                   offsetof(ir_method, name), "method"));
  TRY(check_chain_slots(checker));
  for (uint32_t i = 0; i < program->methods.count; i++) {
    checker->method = i + 1;
    TRY(status_while(verify_flow_check_method(checker, &program->methods.items[i]),
                     "method '%.200s'", program->methods.items[i].name));
  }
  for (uint32_t i = 0; i < program->chains.count; i++) {
    if (checker->chains[i] == CHAIN_UNUSED) return INVALID("chain %u is not used by a method", i);
  }
  return NULL;
}

clave_status verify_flow(const program *program) {
  size_t n_tensors = (size_t)program->ir.tensors.count + 1,
         n_values = (size_t)program->ir.values.count + 1;
  checker checker = {.program = program};
  checker.values = calloc(n_values, sizeof *checker.values);
  checker.tensors = calloc(n_tensors, sizeof *checker.tensors);
  checker.vids = calloc(n_values, sizeof *checker.vids);
  checker.chains = calloc((size_t)program->ir.chains.count + 1, sizeof *checker.chains);
  checker.used_by = calloc(n_tensors, sizeof *checker.used_by);
  clave_status st = NULL;
  if (!checker.values || !checker.tensors || !checker.vids || !checker.chains || !checker.used_by)
    st = status_no_memory();
  for (uint32_t i = 0; !st && i < program->ir.values.count; i++)
    checker.values[i].type = program->ir.values.items[i].type;
  checker.rules = (rule_context){&program->ir, program->types, checker.values};
  if (!st) st = check_program(&checker);
  free(checker.values);
  free(checker.tensors);
  free(checker.vids);
  free(checker.chains);
  free(checker.used_by);
  return st;
}

clave_status verify_program(program *program) {
  TRY(verify_types(program));
  return verify_flow(program);
}
