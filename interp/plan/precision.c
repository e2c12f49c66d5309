/* Chooses the F32 values that a fast session stores as BF16: values whose producer and readers run
 * on one device and all support it (backend_precision.supports_bf16), and that nothing else reads.
 * This halves the memory traffic, and kernels that multiply pairs of BF16 read the values directly.
 *
 * The values of a section of instructions are chosen before the section is planned. The pass
 * predicts how the planner will place each slot: results are contiguous, views have their strides,
 * and an operand that an op cannot read in place is a dense copy. */
#include "interp/plan/precision.h"

#include <stdlib.h>

#include "interp/plan/operands.h"
#include "interp/plan/storage.h"
#include "interp/scalar.h"

enum {
  MIN_ELEMENTS = 4096, /* elements; smaller values stay F32, because they fit the L1 cache */
  MAX_VIEWS = 8        /* longest chain of views that is followed to a constant */
};

/* The state of choosing the values of one section. */
typedef struct precision_pass {
  planner *planner;
  bound_tensor *expected; /* (n_slots) owned: predicted placement of slots */
  bool *is_expected;      /* (n_slots) owned */
  bound_tensor *queried; /* (n_slots) owned: operands of the node that is passed to supports_bf16 */
} precision_pass;

/* ---------------------------------------------------------------- sizes */

static bool precision_is_known(const planner *planner, bool present, uint32_t vid) {
  return !present || vid == IR_NONE || planner->schedule->values[vid].known;
}

/* Computes the integer host ops of the method itself, from `first` on, whose operands are known.
 * The planner computes them again later, and then reports their errors. */
static void compute_sizes(planner *planner, uint32_t first) {
  for (uint32_t i = first; i < planner->graph->n; i++) {
    const ir_instruction *ins = &planner->graph->instructions[i];
    const ir_int_scalar *op = ins->op;
    if (ins->op_type == IR_OP_INT_SCALAR && planner->graph->parent[i] == NO_INDEX &&
        precision_is_known(planner, op->a.present, op->a.vid) &&
        precision_is_known(planner, op->b.present, op->b.vid))
      status_free(scalar_run(&planner->executable->prog->ir, ins, planner->schedule->values));
  }
}

static bool has_known_dims(const planner *planner, uint32_t tid, tensor *tensor) {
  const ir_tensor *declared = &planner->executable->prog->ir.tensors.items[tid];
  for (uint32_t i = 0; i < declared->shape.count; i++) {
    const ir_int_or_vid *value = &declared->shape.items[i];
    if (value->vid != IR_NONE && !planner->schedule->values[value->vid].known) return false;
    tensor->dims[i] =
        value->vid == IR_NONE ? value->literal : planner->schedule->values[value->vid].i;
    if (tensor->dims[i] < 0) return false;
  }
  tensor_set_contiguous(tensor);
  return true;
}

/* ---------------------------------------------------------------- operands */

static bool precision_find_operand(const precision_pass *pass, uint32_t tid, int views,
                                   bound_tensor *out);

/* Finds a view of a constant that is not planned yet. views: number of views followed so far. */
static bool find_view(const precision_pass *pass, uint32_t tid, int views, bound_tensor *out) {
  const planner *planner = pass->planner;
  const rule_context context = {&planner->executable->prog->ir, planner->schedule->types,
                                planner->schedule->values};
  const uint32_t i = planner->graph->writer[tid];
  if (views == MAX_VIEWS || i == NO_INDEX || planner->graph->parent[i] != NO_INDEX) return false;
  const ir_instruction *ins = &planner->graph->instructions[i];
  bound_tensor operand;
  tensor to = planner->schedule->types[tid];
  if (!op_table[ins->op_type].is_view || !is_slot(planner->executable->prog, tid, SLOT_TEMPORARY) ||
      !precision_find_operand(pass, first_slot(ins, false), views + 1, &operand) ||
      !operand.is_constant || !has_known_dims(planner, tid, &to) ||
      !op_table[ins->op_type].view(&context, ins->op, &operand.tensor, &to))
    return false;
  *out =
      (bound_tensor){.tensor = to, .slot = tid, .is_constant = true, .constant = operand.constant};
  return true;
}

/* Finds an operand as the planner has placed it or as predicted. For results of instructions that
 * the walk has not reached, it uses the program's type. */
static bool precision_find_operand(const precision_pass *pass, uint32_t tid, int views,
                                   bound_tensor *out) {
  const planner *planner = pass->planner;
  const location *at = &planner->schedule->now[tid];
  const bool is_constant =
      is_slot(planner->executable->prog, tid, SLOT_CONSTANT) && !planner->schedule->low_memory;
  if (pass->is_expected[tid]) {
    *out = pass->expected[tid];
    return true;
  }
  *out = (bound_tensor){.tensor = planner->schedule->types[tid],
                        .slot = tid,
                        .is_constant = is_constant,
                        .constant = is_constant ? tid : NO_INDEX};
  if (at->storage == NO_INDEX && !is_constant && find_view(pass, tid, views, out)) return true;
  if (at->storage == NO_INDEX) return has_known_dims(planner, tid, &out->tensor);
  const storage *storage = &planner->schedule->storages[at->storage];
  out->tensor = at->t;
  out->is_constant = holds_constant(planner, storage) && !planner->schedule->low_memory;
  out->constant = storage->slot;
  return true;
}

static void expect(precision_pass *pass, const bound_tensor *tensor) {
  pass->expected[tensor->slot] = *tensor;
  pass->is_expected[tensor->slot] = true;
}

/* ---------------------------------------------------------------- decisions */

/* True if the instruction belongs to the method itself, runs on backend b, reads its operands in
 * place and supports the slot as BF16. Operands must be read in place, because support may depend
 * on which of them are constants, and a copy is not a constant. */
static bool supports_bf16(const precision_pass *pass, uint32_t index, int b, uint32_t tid) {
  const planner *planner = pass->planner;
  const ir_instruction *ins = &planner->graph->instructions[index];
  backend *be = planner->executable->devices.backends[b];
  const node node = {.instruction = ins,
                     .tensors = pass->queried,
                     .types = planner->schedule->types,
                     .values = planner->schedule->values};
  if (planner->where[index] != b || planner->graph->parent[index] != NO_INDEX) return false;
  for (operand_iter i = operands_of(ins); next_operand(&i);) {
    bound_tensor *tensor = &pass->queried[i.operand.tid];
    if (!precision_find_operand(pass, i.operand.tid, 0, tensor) ||
        !stored_as_read(&i.operand, &tensor->tensor))
      return false;
  }
  return be->vt->precision->supports_bf16(be, &node, tid);
}

static bool reads(const ir_instruction *ins, uint32_t tid) {
  for (operand_iter i = operands_of(ins); next_operand(&i);)
    if (i.operand.tid == tid && !(i.operand.flags & IR_OUT)) return true;
  return false;
}

/* True if the slot can be stored as BF16. tensor: the slot's tensor in the program. */
static bool precision_keeps_bf16(const precision_pass *pass, uint32_t index, uint32_t tid,
                                 const tensor *tensor) {
  const planner *planner = pass->planner;
  const uint8_t b = planner->where[index];
  const uint32_t last = planner->graph->last_use[tid];
  if (!planner->executable->devices.backends[b]->vt->precision || tensor->type != DTYPE_F32 ||
      !is_slot(planner->executable->prog, tid, SLOT_TEMPORARY) ||
      planner->schedule->target[tid] != NO_INDEX || last == NO_INDEX || last >= planner->graph->n ||
      tensor_numel(tensor) < MIN_ELEMENTS)
    return false;
  if (!supports_bf16(pass, index, b, tid)) return false;
  for (uint32_t i = index + 1; i <= last; i++)
    if (reads(&planner->graph->instructions[i], tid) && !supports_bf16(pass, i, b, tid))
      return false;
  return true;
}

/* ---------------------------------------------------------------- the walk */

/* Predicts what plan_view does. */
static void expect_view(precision_pass *pass, const ir_instruction *ins) {
  const planner *planner = pass->planner;
  const rule_context context = {&planner->executable->prog->ir, planner->schedule->types,
                                planner->schedule->values};
  const uint32_t result = first_slot(ins, true);
  bound_tensor operand,
      out = {.tensor = planner->schedule->types[result], .slot = result, .constant = NO_INDEX};
  if (!precision_find_operand(pass, first_slot(ins, false), 0, &operand) ||
      !has_known_dims(planner, result, &out.tensor))
    return;
  tensor to = out.tensor;
  if (op_table[ins->op_type].view(&context, ins->op, &operand.tensor, &to) &&
      !is_slot(planner->executable->prog, result, SLOT_OUTPUT))
    out = (bound_tensor){.tensor = to,
                         .slot = result,
                         .is_constant = operand.is_constant,
                         .constant = operand.constant};
  expect(pass, &out);
}

/* Predicts what materialize_operand does. */
static void expect_copies(precision_pass *pass, const ir_instruction *ins) {
  for (operand_iter i = operands_of(ins); next_operand(&i);) {
    bound_tensor tensor;
    if ((i.operand.flags & IR_OUT) || !precision_find_operand(pass, i.operand.tid, 0, &tensor) ||
        stored_as_read(&i.operand, &tensor.tensor))
      continue;
    tensor_set_contiguous(&tensor.tensor);
    tensor.is_constant = false;
    tensor.constant = NO_INDEX;
    expect(pass, &tensor);
  }
}

static void expect_results(precision_pass *pass, uint32_t index, const ir_instruction *ins) {
  planner *planner = pass->planner;
  for (operand_iter i = operands_of(ins); next_operand(&i);) {
    bound_tensor out = {.tensor = planner->schedule->types[i.operand.tid],
                        .slot = i.operand.tid,
                        .constant = NO_INDEX};
    if (!(i.operand.flags & IR_OUT) || !has_known_dims(planner, i.operand.tid, &out.tensor))
      continue;
    planner->keeps_bf16[i.operand.tid] =
        i.operand.reuses == IR_NONE &&
        precision_keeps_bf16(pass, index, i.operand.tid, &out.tensor);
    if (planner->keeps_bf16[i.operand.tid]) out.tensor.type = DTYPE_BF16;
    expect(pass, &out);
  }
}

static void expect_instruction(precision_pass *pass, uint32_t index) {
  planner *planner = pass->planner;
  const ir_instruction *ins = &planner->graph->instructions[index];
  const ir_dequantize *decoded = ins->op;
  bound_tensor kept = {.is_constant = true};
  if (op_table[ins->op_type].is_host) {
    if (ins->op_type != IR_OP_SCALAR) return;
    status_free(scalar_run(&planner->executable->prog->ir, ins, planner->schedule->values));
    compute_sizes(planner, index + 1);
  } else if (op_table[ins->op_type].is_view) {
    expect_view(pass, ins);
  } else if (is_kept_decoded(planner, ins)) {
    kept.tensor = planner->schedule->types[decoded->out];
    kept.slot = kept.constant = decoded->out;
    if (has_known_dims(planner, kept.slot, &kept.tensor)) expect(pass, &kept);
  } else {
    expect_copies(pass, ins);
    expect_results(pass, index, ins);
  }
}

bool assigns_precision(const planner *planner) {
  bool any = false;
  for (int b = 0; b < planner->executable->devices.count; b++)
    any = any || planner->executable->devices.backends[b]->vt->precision;
  return any && planner->executable->options.fast && !planner->executable->options.wide &&
         !planner->executable->observer;
}

static bool ends_section(const planner *planner, uint32_t index) {
  return planner->where[index] == WHERE_CONTROL ||
         planner->graph->instructions[index].op_type == IR_OP_ITEM;
}

clave_status assign_precision(planner *planner, uint32_t first, uint32_t end, uint32_t *next) {
  const size_t n = slot_count(planner->executable->prog);
  precision_pass pass = {.planner = planner,
                         .expected = malloc(n * sizeof *pass.expected + 1),
                         .is_expected = calloc(n + 1, sizeof *pass.is_expected),
                         .queried = malloc(n * sizeof *pass.queried + 1)};
  const bool is_good = pass.expected && pass.is_expected && pass.queried;
  uint32_t i = first;
  if (is_good) compute_sizes(planner, first);
  for (; is_good && i < end && !ends_section(planner, i); i = planner->graph->bodies[i][1].end)
    expect_instruction(&pass, i);
  *next = i < end ? planner->graph->bodies[i][1].end : end;
  free(pass.expected);
  free(pass.is_expected);
  free(pass.queried);
  return is_good ? NULL : status_no_memory();
}
