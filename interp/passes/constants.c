/* Folds constants: computes tensors that depend only on constants, on the CPU backend, unless a
 * large tensor would be made from small constants. Views of constants stay views. Elementwise nodes
 * read a tensor whose elements are all the same number as an immediate. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "interp/passes/passes.h"

enum {
  SMALL = 1 << 20, /* bytes: maximum size of a result larger than the constants it is made from */
  TINY = 1 << 16,  /* bytes: maximum size of a slice of a constant that is stored as a new constant,
                      so that kernels need no dense copy */
  NARROW = 1 << 10 /* bytes: maximum size of 8-bit constants that may be widened */
};

typedef struct folding {
  draft *draft;
  bool *known;      /* by slot: depends only on constants */
  uint32_t n_known; /* length of the arrays indexed by slot */
  uint64_t *given;  /* by slot: bytes of the constants that the slot is computed from */
  bool *narrow;     /* by slot: a constant that the slot is computed from has 8-bit numbers */
  uint32_t *slots;  /* slots to compute */
  uint32_t n;
} folding;

static uint64_t fixed_bytes_of(const draft *draft, uint32_t tid) {
  tensor tensor;
  size_t n;
  return draft_fixed(draft, tid, &tensor) && tensor_bytes(&tensor, &n) ? n : UINT64_MAX;
}

static bool is_slot_known(const folding *folding, uint32_t tid) {
  return tid < folding->n_known && folding->known[tid];
}

/* ---------------------------------------------------------------- known tensors */

static bool no_values(void *ctx, uint32_t vid, bool written) {
  (void)ctx;
  (void)vid;
  (void)written;
  return false;
}

static bool is_known_node(const folding *folding, const draft_node *node) {
  tensor tensor;
  const op_info *info = &op_table[node->ins.op_type];
  if (info->is_host || info->is_control || node->ins.op_type == IR_OP_RANDOM) return false;
  if (!for_each_value(&node->ins, no_values, NULL)) return false;
  for (operand_iter i = operands_of(&node->ins); next_operand(&i);) {
    bool out = (i.operand.flags & IR_OUT) != 0;
    if (out ? !draft_fixed(folding->draft, i.operand.tid, &tensor) : !folding->known[i.operand.tid])
      return false;
  }
  return true;
}

static void note_known(folding *folding, const draft_node *node) {
  uint64_t given = 0;
  bool narrow = false;
  for (operand_iter i = operands_of(&node->ins); next_operand(&i);) {
    if (i.operand.flags & IR_OUT) continue;
    given += folding->given[i.operand.tid];
    narrow = narrow || folding->narrow[i.operand.tid];
  }
  for (operand_iter i = operands_of(&node->ins); next_operand(&i);) {
    if (!(i.operand.flags & IR_OUT)) continue;
    folding->known[i.operand.tid] = true;
    folding->given[i.operand.tid] = given;
    folding->narrow[i.operand.tid] = narrow;
  }
}

static void find_known(folding *folding) {
  draft *draft = folding->draft;
  for (uint32_t i = 0; i < folding->n_known; i++) {
    const draft_slot *slot = &draft->slots[i];
    if (slot->kind != SLOT_CONSTANT) continue;
    folding->known[i] = !slot->tensor.encoding;
    folding->given[i] = fixed_bytes_of(draft, i);
    bool is_8_bit = dtype_size(slot->tensor.dtype) == 1 && slot->tensor.dtype != DTYPE_BOOL;
    folding->narrow[i] = is_8_bit && folding->given[i] > NARROW;
  }
  for (draft_node *n = draft_first(draft, 0); n; n = draft_next(draft, n))
    if (is_known_node(folding, n)) note_known(folding, n);
}

/* ---------------------------------------------------------------- choice of nodes to compute */

static bool stays_view(const draft_node *node, uint64_t bytes) {
  switch (node->ins.op_type) {
    case IR_OP_RESHAPE:
    case IR_OP_PERMUTE:
    case IR_OP_EXPAND:
    case IR_OP_FULL:
    case IR_OP_COPY:
      return true;
    default:
      return op_table[node->ins.op_type].is_view && bytes > TINY;
  }
}

static bool is_worth_it(const folding *folding, const draft_node *node) {
  for (operand_iter i = operands_of(&node->ins); next_operand(&i);) {
    if (!(i.operand.flags & IR_OUT)) continue;
    uint64_t bytes = fixed_bytes_of(folding->draft, i.operand.tid),
             given = folding->given[i.operand.tid];
    if (stays_view(node, bytes) ||
        (bytes > given && (bytes > SMALL || folding->narrow[i.operand.tid])))
      return false;
  }
  return true;
}

/* True if the slot is an output, or is read by a node that does not depend only on constants. */
static bool is_read_outside(const folding *folding, uint32_t tid) {
  const draft_slot *slot = &folding->draft->slots[tid];
  bool needed = slot->kept > 0;
  for (uint32_t i = 0; i < slot->n_readers && !needed; i++)
    needed = !is_slot_known(folding, result_of(slot->readers[i]));
  return needed;
}

static bool has_known_result(const folding *folding, const draft_node *node) {
  return result_of(node) != IR_NONE && !op_table[node->ins.op_type].is_control &&
         is_slot_known(folding, result_of(node));
}

/* Visits nodes from last to first. If a result is not worth computing, its operands may be. */
static void choose_in_chain(folding *folding, const draft_chain *chain) {
  for (draft_node *n = chain->last; n; n = n->prev) {
    if (!has_known_result(folding, n)) continue;
    bool needed = false;
    for (operand_iter i = operands_of(&n->ins); next_operand(&i);)
      needed = needed || ((i.operand.flags & IR_OUT) && is_read_outside(folding, i.operand.tid));
    if (!needed) continue;
    bool worth = is_worth_it(folding, n);
    for (operand_iter i = operands_of(&n->ins); next_operand(&i);) {
      if (!(i.operand.flags & IR_OUT)) continue;
      if (!worth) folding->known[i.operand.tid] = false;
      if (worth && is_read_outside(folding, i.operand.tid))
        folding->slots[folding->n++] = i.operand.tid;
    }
  }
}

/* Visits bodies before the chains that run them, which have smaller numbers. */
static void choose_all(folding *folding) {
  for (uint32_t c = folding->draft->ir.chains.count; c-- > 0;)
    choose_in_chain(folding, &folding->draft->chains[c]);
}

/* ---------------------------------------------------------------- replacing */

static uint32_t add_full(draft *draft, draft_node *before, uint32_t like, const void *element) {
  dtype type = draft_type(draft, like);
  uint32_t out = draft_slot_like(draft, like, before->ins.name);
  ir_full *op = draft_add(draft, before, IR_OP_FULL);
  op->out = out;
  if (dtype_is_float(type)) {
    op->value = (ir_float_or_vid){element_of(type, element, 0), IR_NONE, true};
  } else {
    int64_t i =
        type == DTYPE_I64 ? *(const int64_t *)element : (int64_t)element_of(type, element, 0);
    op->int_value = literal_size(i);
  }
  draft_note(draft, before);
  return out;
}

/* True if all elements are the same number, which is not NaN, of a dtype that Full supports. */
static bool is_one_number(const tensor *tensor, const void *data) {
  return !dtype_is_stored(tensor->type) && is_uniform(tensor, data) &&
         !isnan(element_of(tensor->type, data, 0));
}

/* Adds a copy, because results of methods and bodies must be written by an instruction. */
static uint32_t add_constant_copy(draft *draft, draft_node *before, uint32_t x) {
  uint32_t out = draft_slot_like(draft, x, before->ins.name);
  ir_copy *op = draft_add(draft, before, IR_OP_COPY);
  *op = (ir_copy){.x = x, .out = out};
  draft_note(draft, before);
  return out;
}

static bool replace_slot(folding *folding, uint32_t tid, const void *data) {
  tensor tensor;
  draft *draft = folding->draft;
  draft_node *node = draft->slots[tid].writer;
  if (!node || !draft_fixed(draft, tid, &tensor)) return false;
  const ir_int_or_vids *shape = &draft->slots[tid].tensor.shape;
  uint32_t to = is_one_number(&tensor, data) ? add_full(draft, node, tid, data)
                                             : draft_constant(draft, tensor.type, shape->items,
                                                              tensor.rank, node->ins.name, data);
  if (to != IR_NONE && !draft_can_replace(draft, to, tid)) to = add_constant_copy(draft, node, to);
  if (to == IR_NONE) return false;
  draft_replace(draft, tid, to);
  return true;
}

static uint32_t compute_chosen(folding *folding, const pass_env *env) {
  uint32_t done = 0;
  program *program;
  void **outputs = calloc((size_t)folding->n + 1, sizeof *outputs);
  bool good = outputs != NULL;
  for (uint32_t i = 0; i < folding->n && good; i++)
    good = (outputs[i] =
                calloc(1, (size_t)fixed_bytes_of(folding->draft, folding->slots[i]) + 1)) != NULL;
  clave_status st = good ? draft_extract(folding->draft, folding->slots, folding->n, &program)
                         : status_no_memory();
  if (!st) st = env->evaluate(env->ctx, program, outputs);
  for (uint32_t i = 0; i < folding->n && !st; i++)
    done += replace_slot(folding, folding->slots[i], outputs[i]);
  for (uint32_t i = 0; i < folding->n && outputs; i++) free(outputs[i]);
  free(outputs);
  status_free(st); /* if the computation failed, nothing is replaced */
  return done;
}

uint32_t fold_constants(draft *draft, const pass_env *env) {
  size_t n = (size_t)draft->n_slots + 1;
  folding folding = {.draft = draft, .n_known = draft->n_slots};
  folding.known = draft_alloc(draft, n, sizeof *folding.known);
  folding.given = draft_alloc(draft, n, sizeof *folding.given);
  folding.narrow = draft_alloc(draft, n, sizeof *folding.narrow);
  folding.slots = draft_alloc(draft, n, sizeof *folding.slots);
  if (draft->no_memory || !env->evaluate) return 0;
  find_known(&folding);
  choose_all(&folding);
  return folding.n ? compute_chosen(&folding, env) : 0;
}

/* ---------------------------------------------------------------- immediates */

/* True if the node's result has the same shape without input `i`. */
static bool shape_without(const draft *draft, const ir_elementwise *elementwise, uint32_t i) {
  int rank = 0; /* largest rank of the other inputs */
  for (uint32_t k = 0; k < elementwise->inputs.count; k++)
    if (k != i && draft_rank(draft, elementwise->inputs.items[k]) > rank)
      rank = draft_rank(draft, elementwise->inputs.items[k]);
  if (rank < draft_rank(draft, elementwise->out)) return false;
  for (int axis = 0; axis < draft_rank(draft, elementwise->out); axis++) {
    bool found = size_is(draft_size(draft, elementwise->out, axis), 1);
    int from_end = draft_rank(draft, elementwise->out) - axis;
    for (uint32_t k = 0; k < elementwise->inputs.count && !found; k++) {
      uint32_t x = elementwise->inputs.items[k];
      found = k != i && draft_rank(draft, x) >= from_end &&
              same_size(draft_size(draft, x, -from_end), draft_size(draft, elementwise->out, axis));
    }
    if (!found) return false;
  }
  return true;
}

/* Sets *out to the number of x, if x is a Full, as an immediate; else returns false. */
static bool immediate_of(const draft *draft, uint32_t x, ir_operand *out) {
  const ir_full *full =
      draft_op(draft, draft_through(draft, x, THROUGH_RESHAPE | THROUGH_EXPAND), IR_OP_FULL);
  if (!full) return false;
  if (dtype_is_float(draft_type(draft, x)) && full->value.present && full->value.vid == IR_NONE) {
    *out = (ir_operand){.source = IR_OPERAND_SOURCE_FLOAT, .f = full->value.literal};
    return true;
  }
  *out = (ir_operand){.source = IR_OPERAND_SOURCE_INT, .i = full->int_value.literal};
  return !dtype_is_float(draft_type(draft, x)) && full->int_value.present &&
         full->int_value.vid == IR_NONE;
}

/* True if all uses of input i accept a number. They do not where the dtype would be undetermined:
 * in a cast, as a condition, or in a comparison of numbers alone. */
static bool accepts_number(const ir_elementwise *elementwise, uint32_t i) {
  for (uint32_t s = 0; s < elementwise->steps.count; s++) {
    const ir_step *step = &elementwise->steps.items[s];
    bool is_read = false, has_other = step_table[step->kind].result != STEP_BOOL;
    for (uint32_t k = 0; k < step->operands.count; k++) {
      const ir_operand *op = &step->operands.items[k];
      bool is_i = op->source == IR_OPERAND_SOURCE_INPUT && op->index == i;
      if (is_i && step->kind == IR_STEP_KIND_WHERE && k == 0) return false;
      is_read = is_read || is_i;
      has_other = has_other || (!is_i && op->source <= IR_OPERAND_SOURCE_STEP);
    }
    if (is_read && (step->operands.count < 2 || !has_other)) return false;
  }
  return true;
}

static void renumber_input(ir_operand *op, uint32_t i, ir_operand value) {
  if (op->source != IR_OPERAND_SOURCE_INPUT) return;
  if (op->index == i)
    *op = value;
  else if (op->index > i)
    op->index--;
}

/* Replaces the node by a node with the same steps, in which input i is an immediate. */
static void write_immediate(draft *draft, draft_node *node, uint32_t i, ir_operand value) {
  const ir_elementwise *elementwise = node->ins.op;
  uint32_t out = draft_slot_like(draft, elementwise->out, node->ins.name);
  uint32_t *inputs = draft_alloc(draft, elementwise->inputs.count, sizeof *inputs), count = 0;
  ir_elementwise *made = draft_add(draft, node, IR_OP_ELEMENTWISE);
  if (draft->no_memory) return;
  for (uint32_t k = 0; k < elementwise->inputs.count; k++)
    if (k != i) inputs[count++] = elementwise->inputs.items[k];
  for (uint32_t s = 0; s < elementwise->steps.count; s++)
    for (uint32_t k = 0; k < elementwise->steps.items[s].operands.count; k++)
      renumber_input(&elementwise->steps.items[s].operands.items[k], i, value);
  *made = (ir_elementwise){.inputs = {inputs, count}, .steps = elementwise->steps, .out = out};
  draft_note(draft, node);
  draft_replace(draft, elementwise->out, out);
}

static bool fold_number(draft *draft, draft_node *node) {
  const ir_elementwise *elementwise = node->ins.op;
  ir_operand value;
  if (node->ins.op_type != IR_OP_ELEMENTWISE || elementwise->inputs.count < 2) return false;
  for (uint32_t i = 0; i < elementwise->inputs.count; i++) {
    if (!immediate_of(draft, elementwise->inputs.items[i], &value) ||
        !accepts_number(elementwise, i) || !shape_without(draft, elementwise, i))
      continue;
    write_immediate(draft, node, i, value);
    return true;
  }
  return false;
}

uint32_t fold_numbers(draft *draft, const pass_env *env) {
  uint32_t done = 0;
  (void)env;
  for (uint32_t c = 0; c < draft->ir.chains.count; c++) {
    for (draft_node *n = draft->chains[c].last; n && !draft->no_memory;) {
      draft_node *after = n->next, *before = n->prev;
      bool found = fold_number(draft, n);
      done += found;
      n = !found  ? before
          : after ? after->prev
                  : draft->chains[c].last; /* so that the new node is visited, too */
    }
  }
  return done;
}
