/* If, While, Scan: which chains they run, and that the tensors bound to a chain's args and results
 * have the same types. While: condition_chain's only result is one BOOL element; body_chain's
 * results become its args. Scan: body_chain's args are the carries, one step of each of xs (axis
 * 0), then args; its results are the carries, then one step of each of the remaining results. */
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

static clave_status find_chain(const rule_context *c, uint32_t index, const char *what,
                               const ir_chain **out) {
  if (index >= c->program->chains.count)
    return INVALID("%s is %u, the program has %u chains", what, index, c->program->chains.count);
  *out = &c->program->chains.items[index];
  return NULL;
}

/* Tensors inside [from, from + tids.count) of the chain's list have the types of tids. step:
 * without their axis 0. */
static clave_status bind_tensors(const rule_context *c, const ir_u32s *inner, uint32_t from,
                                 const ir_u32s *tids, bool step, const char *what) {
  for (uint32_t i = 0; i < tids->count; i++) {
    if (from + i >= inner->count)
      return INVALID("the chain's %s: expected at least %u, got %u", what, from + tids->count,
                     inner->count);
    tensor want = *rule_tensor(c, tids->items[i]);
    if (step) {
      if (want.rank == 0)
        return INVALID("tensor %u has rank 0, so there is nothing to scan", tids->items[i]);
      want.rank--;
      for (int k = 0; k < want.rank; k++) want.dims[k] = want.dims[k + 1];
    }
    TRY(status_while(rule_expect_like(c, inner->items[from + i], what, &want), "chain %s %u", what,
                     from + i));
  }
  return NULL;
}

static clave_status check_count(const ir_u32s *inner, uint32_t want, const char *what) {
  return inner->count == want
             ? NULL
             : INVALID("the chain's %s: expected %u, got %u", what, want, inner->count);
}

clave_status rule_body(const rule_context *c, uint32_t index, const char *name, const ir_u32s *args,
                       const ir_u32s *results) {
  const ir_chain *chain = NULL;
  TRY(find_chain(c, index, name, &chain));
  TRY(check_count(&chain->args, args->count, "args"));
  TRY(check_count(&chain->results, results->count, "results"));
  TRY(bind_tensors(c, &chain->args, 0, args, false, "args"));
  return bind_tensors(c, &chain->results, 0, results, false, "results");
}

static clave_status check_predicate(const rule_context *c, const ir_if *o) {
  if ((o->condition == IR_NONE) == (o->predicate == IR_NONE))
    return INVALID("expected a condition or a predicate, one of both");
  if (o->predicate != IR_NONE)
    return rule_expect(c, o->predicate, "predicate", DTYPE_BOOL, 0, NULL);
  if (c->program->values.items[o->condition].type != IR_VALUE_TYPE_BOOL)
    return INVALID("condition: expected a bool, got value %u", o->condition);
  return NULL;
}

clave_status rule_if(const rule_context *c, const void *op) {
  const ir_if *o = op;
  TRY(check_predicate(c, o));
  TRY(status_while(rule_body(c, o->then_chain, "then_chain", &o->args, &o->results), "then_chain"));
  return status_while(rule_body(c, o->else_chain, "else_chain", &o->args, &o->results),
                      "else_chain");
}

static clave_status check_condition(const rule_context *c, const ir_while *o) {
  const ir_chain *chain = NULL;
  TRY(find_chain(c, o->condition_chain, "condition_chain", &chain));
  TRY(check_count(&chain->args, o->args.count, "args"));
  TRY(check_count(&chain->results, 1, "results"));
  TRY(bind_tensors(c, &chain->args, 0, &o->args, false, "args"));
  return rule_expect(c, chain->results.items[0], "results", DTYPE_BOOL, 0, NULL);
}

clave_status rule_while(const rule_context *c, const void *op) {
  const ir_while *o = op;
  if (o->results.count != o->args.count) {
    return INVALID("results: expected %u like args, got %u", o->args.count, o->results.count);
  }
  TRY(status_while(check_condition(c, o), "condition_chain"));
  TRY(bind_tensors(c, &o->results, 0, &o->args, false, "results"));
  return status_while(rule_body(c, o->body_chain, "body_chain", &o->args, &o->results),
                      "body_chain");
}

/* Axis 0 of all scanned inputs and outputs has one length. */
static clave_status check_length(const rule_context *c, const ir_u32s *tids, uint32_t from,
                                 int64_t *length) {
  for (uint32_t i = from; i < tids->count; i++) {
    const tensor *t = rule_tensor(c, tids->items[i]);
    if (t->rank == 0)
      return INVALID("tensor %u: expected an axis to scan, got rank 0", tids->items[i]);
    if (!dim_matches(t->dims[0], *length)) {
      return INVALID("tensor %u: expected %lld steps, got %lld", tids->items[i], (long long)*length,
                     (long long)t->dims[0]);
    }
    *length = dim_known(*length, t->dims[0]);
  }
  return NULL;
}

clave_status rule_scan(const rule_context *c, const void *op) {
  const ir_scan *o = op;
  const ir_chain *body = NULL;
  uint32_t n_carries = o->carries.count;
  int64_t length = DIM_UNKNOWN;
  TRY(find_chain(c, o->body_chain, "body_chain", &body));
  if (o->results.count < n_carries)
    return INVALID("results: expected at least one for each of the %u carries, got %u", n_carries,
                   o->results.count);
  if (o->xs.count == 0) return INVALID("there are no xs, so nothing tells the number of steps");
  TRY(check_length(c, &o->xs, 0, &length));
  TRY(check_length(c, &o->results, n_carries, &length));
  TRY(bind_tensors(c, &o->results, 0, &o->carries, false, "results"));
  TRY(bind_tensors(c, &body->args, 0, &o->carries, false, "args"));
  TRY(bind_tensors(c, &body->args, n_carries, &o->xs, true, "args"));
  TRY(bind_tensors(c, &body->args, n_carries + o->xs.count, &o->args, false, "args"));
  TRY(check_count(&body->args, n_carries + o->xs.count + o->args.count, "args"));
  TRY(check_count(&body->results, o->results.count, "results"));
  TRY(bind_tensors(c, &body->results, 0, &o->carries, false, "results"));
  if (o->results.count == n_carries) return NULL;
  ir_u32s ys = {o->results.items + n_carries, o->results.count - n_carries};
  return bind_tensors(c, &body->results, n_carries, &ys, true, "results");
}
