/* SsmScan: the recurrence of state space models. */
#include "ops/ssm_scan.h"

#include "ops/rule_checks.h"

static clave_status op_ssm_scan_check_type(const rule_context *context, uint32_t tid) {
  dtype t = rule_tensor(context, tid)->type;
  if (t == DTYPE_F32 || t == DTYPE_F64) return NULL;
  return INVALID("x: expected F32 or F64, got %s", dtype_name(t));
}

/* Each group of b serves the same number of heads. */
static clave_status op_ssm_scan_check_groups(int64_t n_heads, int64_t n_groups) {
  if (n_heads == DIM_UNKNOWN || n_groups == DIM_UNKNOWN) return NULL;
  if (n_groups > 0 ? n_heads % n_groups == 0 : n_heads == 0) return NULL;
  return INVALID("x: expected a multiple of b's %lld groups as heads, got %lld",
                 (long long)n_groups, (long long)n_heads);
}

clave_status rule_ssm_scan(const rule_context *context, const void *op) {
  const ir_ssm_scan *ssm_scan = op;
  const tensor *x = rule_tensor(context, ssm_scan->x), *b = rule_tensor(context, ssm_scan->b);
  TRY(op_ssm_scan_check_type(context, ssm_scan->x));
  if (x->rank != 4) return INVALID("x: expected rank 4, got %d", x->rank);
  tensor like_b = *x, like_decay = *x, like_state = *x;
  like_b.dims[2] = like_b.dims[3] = DIM_UNKNOWN;
  TRY(rule_expect_like(context, ssm_scan->b, "b", &like_b));
  TRY(rule_expect_like(context, ssm_scan->c, "c", b));
  TRY(op_ssm_scan_check_groups(x->dims[2], b->dims[2]));
  like_decay.rank = 3;
  TRY(rule_expect_like(context, ssm_scan->log_decay, "log_decay", &like_decay));
  TRY(check_optional(context, ssm_scan->rate, "rate", x->type, 2,
                     (int64_t[]){x->dims[2], b->dims[3]}));
  like_state.dims[1] = x->dims[2];
  like_state.dims[2] = x->dims[3];
  like_state.dims[3] = b->dims[3];
  TRY(rule_expect_like(context, ssm_scan->state, "state", &like_state));
  TRY(rule_expect_like(context, ssm_scan->out, "out", x));
  return rule_expect_like(context, ssm_scan->state_out, "state_out", &like_state);
}

void describe_ssm_scan(const node *node, ssm_scan_desc *desc) {
  const ir_ssm_scan *op = node->instruction->op;
  *desc = (ssm_scan_desc){.x = &node->tensors[op->x],
                          .log_decay = &node->tensors[op->log_decay],
                          .b = &node->tensors[op->b],
                          .c = &node->tensors[op->c],
                          .rate = operand_of(node, op->rate),
                          .state = &node->tensors[op->state_out],
                          .out = &node->tensors[op->out]};
  const int64_t *values = desc->x->tensor.dims, *right = desc->b->tensor.dims;
  desc->n_batch = values[0];
  desc->length = values[1];
  desc->n_heads = values[2];
  desc->share = right[2] > 0 ? values[2] / right[2] : 1;
  desc->head_dim = values[3];
  desc->n_state = right[3];
}
