/* SsmScan: the recurrence of state space models. */
#include "ops/ssm_scan.h"

#include "ops/rule_checks.h"

static clave_status check_type(const rule_context *c, uint32_t tid) {
  dtype t = rule_tensor(c, tid)->type;
  if (t == DTYPE_F32 || t == DTYPE_F64) return NULL;
  return INVALID("x: expected F32 or F64, got %s", dtype_name(t));
}

/* b of one group for each so many heads. */
static clave_status check_groups(int64_t n_heads, int64_t n_groups) {
  if (n_heads == DIM_UNKNOWN || n_groups == DIM_UNKNOWN) return NULL;
  if (n_groups > 0 ? n_heads % n_groups == 0 : n_heads == 0) return NULL;
  return INVALID("x: expected a multiple of b's %lld groups as heads, got %lld",
                 (long long)n_groups, (long long)n_heads);
}

clave_status rule_ssm_scan(const rule_context *c, const void *op) {
  const ir_ssm_scan *o = op;
  const tensor *x = rule_tensor(c, o->x), *b = rule_tensor(c, o->b);
  TRY(check_type(c, o->x));
  if (x->rank != 4) return INVALID("x: expected rank 4, got %d", x->rank);
  tensor like_b = *x, like_decay = *x, like_state = *x;
  like_b.dims[2] = like_b.dims[3] = DIM_UNKNOWN;
  TRY(rule_expect_like(c, o->b, "b", &like_b));
  TRY(rule_expect_like(c, o->c, "c", b));
  TRY(check_groups(x->dims[2], b->dims[2]));
  like_decay.rank = 3;
  TRY(rule_expect_like(c, o->log_decay, "log_decay", &like_decay));
  TRY(check_optional(c, o->rate, "rate", x->type, 2, (int64_t[]){x->dims[2], b->dims[3]}));
  like_state.dims[1] = x->dims[2];
  like_state.dims[2] = x->dims[3];
  like_state.dims[3] = b->dims[3];
  TRY(rule_expect_like(c, o->state, "state", &like_state));
  TRY(rule_expect_like(c, o->out, "out", x));
  return rule_expect_like(c, o->state_out, "state_out", &like_state);
}

void describe_ssm_scan(const node *n, ssm_scan_form *f) {
  const ir_ssm_scan *op = n->instruction->op;
  *f = (ssm_scan_form){.x = &n->tensors[op->x],
                       .log_decay = &n->tensors[op->log_decay],
                       .b = &n->tensors[op->b],
                       .c = &n->tensors[op->c],
                       .rate = operand_of(n, op->rate),
                       .state = &n->tensors[op->state_out],
                       .out = &n->tensors[op->out]};
  const int64_t *x = f->x->t.dims, *b = f->b->t.dims;
  f->n_batch = x[0];
  f->length = x[1];
  f->n_heads = x[2];
  f->share = b[2] > 0 ? x[2] / b[2] : 1;
  f->head_dim = x[3];
  f->n_state = b[3];
}
