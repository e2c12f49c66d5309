/* Runs the reference of a custom op on the CPU backend, on copies of the operands. The results of
 * the op's kernels are compared with it. A reference is a chain of plain ops, which run one by one
 * and write each result to a new buffer. */
#include "interp/check/reference.h"

#include <stdlib.h>
#include <string.h>

#include "interp/scalar.h"

typedef struct reference_run {
  const checking *checking;
  const oracle *oracle;
  const program *prog;
  tensor *types;        /* owned (n_slots) */
  scalar_value *values; /* owned (n_values) */
  bound_tensor *at;     /* owned (n_slots + 2): locations of slots; the last two are for copies */
  buffer **made;        /* owned */
  size_t n_made, cap_made;
  device_fault fault; /* the first that a node found */
} reference_run;

/* ---------------------------------------------------------------- memory */

static clave_status reference_take_buffer(reference_run *run, buffer *copy) {
  if (!array_reserve(&run->made, &run->cap_made, run->n_made + 1, sizeof(buffer *))) {
    run->oracle->cpu->vt->buffer_destroy(run->oracle->cpu, copy);
    return status_no_memory();
  }
  run->made[run->n_made++] = copy;
  return NULL;
}

/* Allocates memory for a tensor of this type. */
static clave_status make_place(reference_run *run, uint32_t slot, const tensor *tensor,
                               bound_tensor *out) {
  size_t bytes;
  *out = (bound_tensor){.tensor = *tensor, .slot = slot};
  tensor_set_contiguous(&out->tensor);
  TRY(known_bytes(tensor, &bytes));
  TRY(run->oracle->cpu->vt->buffer_create(run->oracle->cpu, bytes, &out->buf));
  return reference_take_buffer(run, out->buf);
}

static clave_status reference_bind_constant(reference_run *run, uint32_t tid) {
  bound_tensor *tensor = &run->at[tid];
  size_t bytes;
  if (tensor->buf || tid >= run->prog->ir.constants.count) return NULL;
  *tensor = (bound_tensor){.tensor = run->types[tid], .slot = tid};
  TRY(known_bytes(&tensor->tensor, &bytes));
  if (!bytes) return NULL;
  TRY(run->oracle->cpu->vt->buffer_wrap(run->oracle->cpu, run->prog->constants[tid], bytes, false,
                                        &tensor->buf));
  return reference_take_buffer(run, tensor->buf);
}

/* ---------------------------------------------------------------- one node */

static clave_status run_recorded_here(reference_run *run, const recording *recording) {
  const backend_vtable *vt = run->oracle->cpu->vt;
  run_operands now = {.tensors = run->at, .random = run->checking->session->random};
  void *state = NULL;
  device_fault fault = {0};
  TRY(vt->buffer_create(run->oracle->cpu, recording->scratch_bytes, &now.scratch));
  clave_status st = vt->run(run->oracle->queue, recording, &state, &now, run->checking->number);
  if (!st) st = vt->finish(run->oracle->queue, &fault);
  vt->state_destroy(run->oracle->queue, state);
  vt->buffer_destroy(run->oracle->cpu, now.scratch);
  if (!run->fault.present) run->fault = fault;
  return st;
}

/* Runs a node whose operands are in run->at. */
static clave_status run_node(reference_run *run, const ir_instruction *ins) {
  void *cache = NULL;
  recording *recording;
  const node node = {
      .instruction = ins, .tensors = run->at, .values = run->values, .cache = &cache};
  TRY(run->oracle->cpu->vt->record(run->oracle->cpu, &node, false, &recording));
  clave_status st = run_recorded_here(run, recording);
  run->oracle->cpu->vt->recording_destroy(run->oracle->cpu, recording);
  return st;
}

static clave_status copy_tensor(reference_run *run, bound_tensor from, bound_tensor to) {
  const ir_copy op = {.x = slot_count(run->prog), .out = slot_count(run->prog) + 1};
  const ir_instruction copy = {.op_type = IR_OP_COPY, .op = (void *)&op, .name = ""};
  if (tensor_numel(&from.tensor) == 0) return NULL;
  run->at[op.x] = from;
  run->at[op.out] = to;
  run->at[op.x].slot = op.x;
  run->at[op.out].slot = op.out;
  return run_node(run, &copy);
}

/* Replaces an operand that must be dense and is not by a dense copy, also for later readers. */
static clave_status make_dense(reference_run *run, const operand *operand) {
  bound_tensor *tensor = &run->at[operand->tid], made;
  bool good = operand->flags & IR_DENSE
                  ? tensor_is_contiguous(&tensor->tensor)
                  : !(operand->flags & IR_ROWS) || tensor_rows_contiguous(&tensor->tensor);
  if (good) return NULL;
  TRY(make_place(run, operand->tid, &tensor->tensor, &made));
  TRY(copy_tensor(run, *tensor, made));
  *tensor = made;
  return NULL;
}

static clave_status resolve_size(reference_run *run, uint32_t tid) {
  const ir_int_or_vids *shape = &run->prog->ir.tensors.items[tid].shape;
  tensor *tensor = &run->types[tid];
  size_t bytes;
  for (uint32_t i = 0; i < shape->count; i++) {
    const ir_int_or_vid *value = &shape->items[i];
    tensor->dims[i] = value->vid == IR_NONE ? value->literal : run->values[value->vid].i;
    if (tensor->dims[i] < 0) return INVALID("dimension %u is negative", i);
  }
  return known_bytes(tensor, &bytes);
}

static clave_status run_view(reference_run *run, const ir_instruction *ins,
                             const rule_context *context) {
  uint32_t x = first_slot(ins, false), out = first_slot(ins, true);
  bound_tensor *from = &run->at[x], *to = &run->at[out];
  *to = *from;
  to->slot = out;
  to->tensor = run->types[out];
  if (op_table[ins->op_type].view(context, ins->op, &from->tensor, &to->tensor)) return NULL;
  TRY(make_place(run, out, &run->types[out], to));
  bound_tensor same = *to; /* the destination, with x's shape */
  same.tensor = from->tensor;
  tensor_set_contiguous(&same.tensor);
  return copy_tensor(run, *from, same);
}

static clave_status reference_place_result(reference_run *run, const operand *operand) {
  TRY(make_place(run, operand->tid, &run->types[operand->tid], &run->at[operand->tid]));
  if (operand->reuses == IR_NONE) return NULL;
  return copy_tensor(run, run->at[operand->reuses], run->at[operand->tid]);
}

static clave_status run_op(reference_run *run, const ir_instruction *ins) {
  bool all_empty = true;
  for (operand_iter i = operands_of(ins); next_operand(&i);)
    if (!(i.operand.flags & IR_OUT)) TRY(make_dense(run, &i.operand));
  for (operand_iter i = operands_of(ins); next_operand(&i);) {
    if (!(i.operand.flags & IR_OUT)) continue;
    TRY(reference_place_result(run, &i.operand));
    all_empty = all_empty && tensor_numel(&run->types[i.operand.tid]) == 0;
  }
  return all_empty ? NULL : run_node(run, ins);
}

static clave_status reference_run_instruction(reference_run *run, const ir_instruction *ins) {
  const op_info *info = &op_table[ins->op_type];
  const rule_context context = {&run->prog->ir, run->types, run->values};
  if (info->is_host) return scalar_run(&run->prog->ir, ins, run->values);
  for (operand_iter i = operands_of(ins); next_operand(&i);)
    TRY(i.operand.flags & IR_OUT ? resolve_size(run, i.operand.tid)
                                 : reference_bind_constant(run, i.operand.tid));
  TRY(rule_sizes(&context, ins));
  return info->is_view ? run_view(run, ins, &context) : run_op(run, ins);
}

/* ---------------------------------------------------------------- the chain */

static clave_status reference_bind_args(reference_run *run, const ir_custom *op,
                                        const ir_chain *chain) {
  for (uint32_t i = 0; i < chain->args.count; i++) {
    uint32_t arg = chain->args.items[i];
    run->at[arg] = run->checking->copy[op->args.items[i]];
    run->at[arg].slot = arg;
    TRY(resolve_size(run, arg));
  }
  return NULL;
}

static bool same_dims(const tensor *left, const tensor *right) {
  return left->rank == right->rank &&
         memcmp(left->dims, right->dims, sizeof *left->dims * (size_t)left->rank) == 0;
}

/* Copies the results to the memory in which they are compared. */
static clave_status copy_results(reference_run *run, const ir_custom *op, const ir_chain *chain) {
  for (uint32_t i = 0; i < chain->results.count; i++) {
    TRY(reference_bind_constant(run, chain->results.items[i]));
    const bound_tensor *from = &run->at[chain->results.items[i]];
    const bound_tensor *to = &run->checking->copy[op->results.items[i]];
    if (!same_dims(&from->tensor, &to->tensor)) {
      char is[128], should[128];
      return INVALID("%s: result %u has shape %s, and the reference computes shape %s", op->target,
                     i, tensor_shape_text(&to->tensor, is, sizeof is),
                     tensor_shape_text(&from->tensor, should, sizeof should));
    }
    TRY(copy_tensor(run, *from, *to));
  }
  return NULL;
}

static clave_status reference_run_chain(reference_run *run, const ir_custom *op) {
  const ir_chain *chain = &run->prog->ir.chains.items[op->reference_chain];
  TRY(reference_bind_args(run, op, chain));
  for (uint32_t i = 0; i < chain->instructions.count; i++) {
    const ir_instruction *ins = &chain->instructions.items[i];
    TRY(status_while(reference_run_instruction(run, ins), "node %u of the reference (%s)", i,
                     ins->name));
  }
  return copy_results(run, op, chain);
}

static clave_status reference_begin(reference_run *run) {
  size_t slots = slot_count(run->prog), values = run->prog->ir.values.count;
  run->types = calloc(slots + 1, sizeof *run->types);
  run->values = calloc(values + 1, sizeof *run->values);
  run->at = calloc(slots + 2, sizeof *run->at);
  if (!run->types || !run->values || !run->at) return status_no_memory();
  memcpy(run->types, run->prog->types, slots * sizeof *run->types);
  if (values) memcpy(run->values, run->checking->nd->values, values * sizeof *run->values);
  return NULL;
}

clave_status run_reference(const checking *checking, device_fault *fault) {
  reference_run run = {
      .checking = checking, .oracle = checking->session->oracle, .prog = checking->session->prog};
  clave_status st = reference_begin(&run);
  if (!st) st = reference_run_chain(&run, checking->nd->instruction->op);
  for (size_t i = 0; i < run.n_made; i++)
    run.oracle->cpu->vt->buffer_destroy(run.oracle->cpu, run.made[i]);
  free(run.made);
  free(run.at);
  free(run.values);
  free(run.types);
  *fault = run.fault;
  return st;
}
