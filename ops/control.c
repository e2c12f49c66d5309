/* If, While, Scan: checks the chains that they run. Tensors bound to a chain's args and results
 * must have the types of those args and results. While: condition_chain's only result is one BOOL
 * element; body_chain's results are its next args. Scan: body_chain's args are the carries, one
 * step of each of xs (axis 0), then args; its results are the carries, then one step of each of the
 * remaining results. */
#include "ops/rule_checks.h"

int control_chains(const ir_instruction *ins, uint32_t chains[2]) {
  const ir_if *branch = ins->op;
  const ir_while *loop = ins->op;
  const ir_scan *scan = ins->op;
  const ir_custom *custom = ins->op;
  switch (ins->op_type) {
    case IR_OP_IF:
      chains[0] = branch->then_chain;
      chains[1] = branch->else_chain;
      return 2;
    case IR_OP_WHILE:
      chains[0] = loop->condition_chain;
      chains[1] = loop->body_chain;
      return 2;
    case IR_OP_SCAN:
      chains[0] = scan->body_chain;
      return 1;
    case IR_OP_CUSTOM:
      chains[0] = custom->reference_chain;
      return 1;
    default:
      return 0;
  }
}

bool is_loop(const ir_instruction *ins) {
  return ins->op_type == IR_OP_WHILE || ins->op_type == IR_OP_SCAN;
}

const ir_u32s *control_results(const ir_instruction *ins) {
  const ir_if *branch = ins->op;
  const ir_while *loop = ins->op;
  const ir_scan *scan = ins->op;
  const ir_custom *custom = ins->op;
  switch (ins->op_type) {
    case IR_OP_IF:
      return &branch->results;
    case IR_OP_WHILE:
      return &loop->results;
    case IR_OP_SCAN:
      return &scan->results;
    default:
      return &custom->results;
  }
}

static clave_status find_chain(const rule_context *context, uint32_t index, const char *what,
                               const ir_chain **out) {
  if (index >= context->program->chains.count)
    return INVALID("%s is %u, the program has %u chains", what, index,
                   context->program->chains.count);
  *out = &context->program->chains.items[index];
  return NULL;
}

/* Checks that tensors [from, from + tids.count) of the chain's list `inner` have the types of
 * tids, without axis 0 if `step`. */
static clave_status op_control_bind_tensors(const rule_context *context, const ir_u32s *inner,
                                            uint32_t from, const ir_u32s *tids, bool step,
                                            const char *what) {
  for (uint32_t i = 0; i < tids->count; i++) {
    if (from + i >= inner->count)
      return INVALID("the chain's %s: expected at least %u, got %u", what, from + tids->count,
                     inner->count);
    tensor want = *rule_tensor(context, tids->items[i]);
    if (step) {
      if (want.rank == 0)
        return INVALID("tensor %u has rank 0, so there is nothing to scan", tids->items[i]);
      want.rank--;
      for (int k = 0; k < want.rank; k++) want.dims[k] = want.dims[k + 1];
    }
    TRY(status_while(rule_expect_like(context, inner->items[from + i], what, &want), "chain %s %u",
                     what, from + i));
  }
  return NULL;
}

static clave_status check_count(const ir_u32s *inner, uint32_t want, const char *what) {
  return inner->count == want
             ? NULL
             : INVALID("the chain's %s: expected %u, got %u", what, want, inner->count);
}

clave_status rule_body(const rule_context *context, uint32_t index, const char *name,
                       const ir_u32s *args, const ir_u32s *results) {
  const ir_chain *chain = NULL;
  TRY(find_chain(context, index, name, &chain));
  TRY(check_count(&chain->args, args->count, "args"));
  TRY(check_count(&chain->results, results->count, "results"));
  TRY(op_control_bind_tensors(context, &chain->args, 0, args, false, "args"));
  return op_control_bind_tensors(context, &chain->results, 0, results, false, "results");
}

static clave_status check_predicate(const rule_context *context, const ir_if *op) {
  if ((op->condition == IR_NONE) == (op->predicate == IR_NONE))
    return INVALID("expected a condition or a predicate, one of both");
  if (op->predicate != IR_NONE)
    return rule_expect(context, op->predicate, "predicate", DTYPE_BOOL, 0, NULL);
  if (context->program->values.items[op->condition].type != IR_VALUE_TYPE_BOOL)
    return INVALID("condition: expected a bool, got value %u", op->condition);
  return NULL;
}

/* During a run, only the branch that the condition selects is checked, because the other one may
 * have results of other sizes. */
clave_status rule_if(const rule_context *context, const void *op) {
  const ir_if *branch = op;
  TRY(check_predicate(context, branch));
  const scalar_value *condition =
      branch->condition == IR_NONE ? NULL : &context->values[branch->condition];
  const bool known = condition && condition->known;
  if (!known || condition->i)
    TRY(status_while(
        rule_body(context, branch->then_chain, "then_chain", &branch->args, &branch->results),
        "then_chain"));
  if (known && condition->i) return NULL;
  return status_while(
      rule_body(context, branch->else_chain, "else_chain", &branch->args, &branch->results),
      "else_chain");
}

static clave_status check_condition(const rule_context *context, const ir_while *op) {
  const ir_chain *chain = NULL;
  TRY(find_chain(context, op->condition_chain, "condition_chain", &chain));
  TRY(check_count(&chain->args, op->args.count, "args"));
  TRY(check_count(&chain->results, 1, "results"));
  TRY(op_control_bind_tensors(context, &chain->args, 0, &op->args, false, "args"));
  return rule_expect(context, chain->results.items[0], "results", DTYPE_BOOL, 0, NULL);
}

clave_status rule_while(const rule_context *context, const void *op) {
  const ir_while *loop = op;
  if (loop->results.count != loop->args.count) {
    return INVALID("results: expected %u like args, got %u", loop->args.count, loop->results.count);
  }
  TRY(status_while(check_condition(context, loop), "condition_chain"));
  TRY(op_control_bind_tensors(context, &loop->results, 0, &loop->args, false, "results"));
  return status_while(
      rule_body(context, loop->body_chain, "body_chain", &loop->args, &loop->results),
      "body_chain");
}

/* Checks that axis 0 of all scanned inputs and outputs has the same length. */
static clave_status check_length(const rule_context *context, const ir_u32s *tids, uint32_t from,
                                 int64_t *length) {
  for (uint32_t i = from; i < tids->count; i++) {
    const tensor *tensor = rule_tensor(context, tids->items[i]);
    if (tensor->rank == 0)
      return INVALID("tensor %u: expected an axis to scan, got rank 0", tids->items[i]);
    if (!dim_matches(tensor->dims[0], *length)) {
      return INVALID("tensor %u: expected %lld steps, got %lld", tids->items[i], (long long)*length,
                     (long long)tensor->dims[0]);
    }
    *length = dim_known(*length, tensor->dims[0]);
  }
  return NULL;
}

clave_status rule_scan(const rule_context *context, const void *op) {
  const ir_scan *scan = op;
  const ir_chain *body = NULL;
  uint32_t n_carries = scan->carries.count;
  int64_t length = DIM_UNKNOWN;
  TRY(find_chain(context, scan->body_chain, "body_chain", &body));
  if (scan->results.count < n_carries)
    return INVALID("results: expected at least one for each of the %u carries, got %u", n_carries,
                   scan->results.count);
  if (scan->xs.count == 0) return INVALID("there are no xs, so the number of steps is unknown");
  TRY(check_length(context, &scan->xs, 0, &length));
  TRY(check_length(context, &scan->results, n_carries, &length));
  TRY(op_control_bind_tensors(context, &scan->results, 0, &scan->carries, false, "results"));
  TRY(op_control_bind_tensors(context, &body->args, 0, &scan->carries, false, "args"));
  TRY(op_control_bind_tensors(context, &body->args, n_carries, &scan->xs, true, "args"));
  TRY(op_control_bind_tensors(context, &body->args, n_carries + scan->xs.count, &scan->args, false,
                              "args"));
  TRY(check_count(&body->args, n_carries + scan->xs.count + scan->args.count, "args"));
  TRY(check_count(&body->results, scan->results.count, "results"));
  TRY(op_control_bind_tensors(context, &body->results, 0, &scan->carries, false, "results"));
  if (scan->results.count == n_carries) return NULL;
  ir_u32s ys = {scan->results.items + n_carries, scan->results.count - n_carries};
  return op_control_bind_tensors(context, &body->results, n_carries, &ys, true, "results");
}
