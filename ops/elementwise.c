/* Elementwise: a list of steps over broadcast inputs, each checked against its row of step_table.
 */
#include "ops/elementwise.h"

#include <string.h>

#include "ops/rule_checks.h"

typedef struct step_check {
  const rule_context *c;
  const ir_elementwise *op;
  dtype first;    /* of input 0 */
  uint32_t index; /* of the step */
  const ir_step *step;
  const step_info *info;
} step_check;

/* Only inputs and steps have a dtype of their own; immediates and values take that of the step's
 * operands. */
static bool has_own_dtype(const ir_operand *o) {
  return o->source == IR_OPERAND_SOURCE_INPUT || o->source == IR_OPERAND_SOURCE_STEP;
}

static dtype own_dtype(const step_check *k, const ir_operand *o) {
  if (o->source == IR_OPERAND_SOURCE_STEP) return k->op->steps.items[o->index].dtype;
  return o->index == 0 ? k->first : rule_tensor(k->c, k->op->inputs.items[o->index])->type;
}

static clave_status check_reference(const step_check *k, int which, const ir_operand *o) {
  uint32_t limit = UINT32_MAX;
  const char *what = "immediate";
  if (o->source == IR_OPERAND_SOURCE_INPUT) limit = k->op->inputs.count, what = "input";
  if (o->source == IR_OPERAND_SOURCE_STEP) limit = k->index, what = "earlier step";
  if (o->source == IR_OPERAND_SOURCE_VALUE) limit = k->c->program->values.count, what = "value";
  if ((uint32_t)o->source >= IR_OPERAND_SOURCE_COUNT)
    return INVALID("operand %d has an unknown source", which);
  return o->index < limit ? NULL
                          : INVALID("operand %d is %s %u of %u", which, what, o->index, limit);
}

/* May a host scalar of this type stand where tensors of dtype t do? */
static bool value_fits(ir_value_type v, dtype t) {
  if (t == DTYPE_BOOL) return v == IR_VALUE_TYPE_BOOL;
  return v != IR_VALUE_TYPE_FLOAT || dtype_is_float(t);
}

static clave_status check_operand(const step_check *k, int which, const ir_operand *o, dtype want) {
  if (has_own_dtype(o)) {
    dtype is = own_dtype(k, o);
    return is == want ? NULL
                      : INVALID("operand %d: expected %s, got %s", which, dtype_name(want),
                                dtype_name(is));
  }
  if (o->source == IR_OPERAND_SOURCE_VALUE) {
    bool fits = value_fits(k->c->program->values.items[o->index].type, want);
    return fits ? NULL
                : INVALID("operand %d is value %u, which does not fit %s", which, o->index,
                          dtype_name(want));
  }
  if (o->source == IR_OPERAND_SOURCE_FLOAT) {
    return dtype_is_float(want) ? NULL
                                : INVALID("operand %d: expected one of %s, got a float immediate",
                                          which, dtype_name(want));
  }
  if (int_fits(want, o->i)) return NULL;
  return INVALID("operand %d: expected one of %s, got the integer immediate %lld", which,
                 dtype_name(want), (long long)o->i);
}

/* The dtype that the operands from `first` on share. */
static clave_status find_dtype(const step_check *k, uint32_t first, dtype *out) {
  for (uint32_t i = first; i < k->step->operands.count; i++) {
    const ir_operand *o = &k->step->operands.items[i];
    if (!has_own_dtype(o)) continue;
    *out = own_dtype(k, o);
    return NULL;
  }
  *out = k->step->dtype;
  bool known = k->info->result == STEP_SAME || k->info->result == STEP_WHERE;
  return known ? NULL : INVALID("at least one operand must be an input or a step");
}

static clave_status check_dtypes(const step_check *k, dtype t) {
  const step_info *info = k->info;
  bool takes = dtype_is_float(t) ? info->takes_float
               : dtype_is_int(t) ? info->takes_int
               : t == DTYPE_BOOL ? info->takes_bool
                                 : info->result == STEP_CAST;
  if (!takes) return INVALID("operands are %s, which this step does not take", dtype_name(t));
  if (info->result == STEP_CAST) return NULL;
  dtype want = info->result == STEP_BOOL ? DTYPE_BOOL : t;
  if (k->step->dtype == want) return NULL;
  return INVALID("result: expected %s, got %s", dtype_name(want), dtype_name(k->step->dtype));
}

static clave_status check_step(const step_check *k) {
  const ir_operand *o = k->step->operands.items;
  if (k->step->operands.count != (uint32_t)k->info->arity) {
    return INVALID("operands: expected %d, got %u", k->info->arity, k->step->operands.count);
  }
  for (int i = 0; i < k->info->arity; i++) TRY(check_reference(k, i, &o[i]));
  int first = k->info->result == STEP_WHERE ? 1 : 0;
  if (first == 1) TRY(check_operand(k, 0, &o[0], DTYPE_BOOL));
  dtype t = DTYPE_F32;
  TRY(find_dtype(k, (uint32_t)first, &t));
  for (int i = first; i < k->info->arity; i++) TRY(check_operand(k, i, &o[i], t));
  return check_dtypes(k, t);
}

static clave_status check_steps(const rule_context *c, const ir_elementwise *o, dtype first) {
  if (o->inputs.count > MAX_STEP_INPUTS)
    return INVALID("%u inputs, at most %d are allowed", o->inputs.count, MAX_STEP_INPUTS);
  if (o->steps.count < 1 || o->steps.count > MAX_STEPS)
    return INVALID("steps: expected 1 to %d, got %u", MAX_STEPS, o->steps.count);
  for (uint32_t i = 0; i < o->steps.count; i++) {
    const ir_step *s = &o->steps.items[i];
    if ((uint32_t)s->kind >= IR_STEP_KIND_COUNT)
      return INVALID("step %u has the unknown kind %u", i, (uint32_t)s->kind);
    if ((uint32_t)s->dtype >= DTYPE_COUNT)
      return INVALID("step %u has the unknown dtype %u", i, (uint32_t)s->dtype);
    step_check k = {c, o, first, i, s, &step_table[s->kind]};
    TRY(status_while(check_step(&k), "step %u (%s)", i, k.info->name));
  }
  return NULL;
}

clave_status rule_steps(const rule_context *c, const ir_elementwise *o, dtype first) {
  TRY(check_steps(c, o, first));
  tensor want = {.rank = 0};
  if (o->inputs.count == 0) want = *rule_tensor(c, o->out); /* a constant list fills any shape */
  for (uint32_t i = 0; i < o->inputs.count; i++)
    TRY(rule_broadcast(rule_tensor(c, o->inputs.items[i]), &want.rank, want.dims));
  want.type = o->steps.items[o->steps.count - 1].dtype;
  return rule_expect_like(c, o->out, "out", &want);
}

static uint32_t first_of(const ir_elementwise *o) {
  return o->inputs.count ? o->inputs.items[0] : o->out;
}

clave_status rule_elementwise(const rule_context *c, const void *op) {
  return rule_steps(c, op, rule_tensor(c, first_of(op))->type);
}

/* ---------------------------------------------------------------- description */

dtype compute_dtype(dtype t) {
  return t == DTYPE_F64 ? DTYPE_F64 : dtype_has_fractions(t) ? DTYPE_F32 : DTYPE_I64;
}

/* The dtype that a step's operands (of where: the last two) share. Steps of numbers alone keep it.
 */
static dtype shared_dtype(const elementwise_form *f, const ir_step *s) {
  uint32_t first = step_table[s->kind].result == STEP_WHERE ? 1 : 0;
  for (uint32_t k = first; k < s->operands.count; k++) {
    const ir_operand *o = &s->operands.items[k];
    if (o->source == IR_OPERAND_SOURCE_INPUT) return f->input_types[o->index];
    if (o->source == IR_OPERAND_SOURCE_STEP) return f->steps[o->index].type;
  }
  return s->dtype;
}

/* Integers may stand for floats; the rules let no float stand for integers. */
static elementwise_operand describe_operand(const node *n, const ir_operand *o, dtype compute) {
  elementwise_operand d = {
      .source = o->source, .index = o->index, .compute = compute, .i = o->i, .f = o->f};
  bool is_float = o->source == IR_OPERAND_SOURCE_FLOAT;
  if (o->source == IR_OPERAND_SOURCE_VALUE) {
    const scalar_value *v = &n->values[o->index];
    is_float = v->type == IR_VALUE_TYPE_FLOAT;
    d.i = v->i;
    d.f = v->f;
  }
  if (!is_float) d.f = (double)d.i;
  return d;
}

static void describe_step(const node *n, elementwise_form *f, const ir_step *s) {
  elementwise_step *d = &f->steps[f->n_steps];
  d->operand_type = shared_dtype(f, s);
  d->kind = s->kind;
  d->result = step_table[d->kind].result;
  d->type = s->dtype;
  dtype compute = compute_dtype(d->operand_type);
  d->divides = step_table[d->kind].divides && compute == DTYPE_I64;
  d->n_operands = (int)s->operands.count;
  for (int k = 0; k < d->n_operands; k++) {
    bool is_condition = k == 0 && d->result == STEP_WHERE;
    d->operands[k] = describe_operand(n, &s->operands.items[k], is_condition ? DTYPE_I64 : compute);
  }
  f->n_steps++;
}

void describe_steps(const node *n, const ir_elementwise *op, dtype first, elementwise_form *f) {
  f->out = &n->tensors[op->out];
  f->n = tensor_numel(&f->out->t);
  f->n_inputs = (int)op->inputs.count;
  f->shapes[0] = f->out->t;
  for (int k = 0; k < f->n_inputs; k++) {
    f->inputs[k] = &n->tensors[op->inputs.items[k]];
    f->input_types[k] = program_type(n, op->inputs.items[k]);
    if (k == 0 && f->input_types[0] != first) {
      f->result = *f->inputs[0];
      f->result.t.type = f->input_types[0] = first;
      f->inputs[0] = &f->result;
    }
    f->shapes[1 + k] = broadcast_operand(f->inputs[k], &f->out->t).t;
  }
  tensors_collapse(f->shapes, 1 + f->n_inputs);
  f->n_steps = 0;
  for (uint32_t k = 0; k < op->steps.count; k++) describe_step(n, f, &op->steps.items[k]);
}

void describe_elementwise(const node *n, elementwise_form *f) {
  const ir_elementwise *op = n->instruction->op;
  describe_steps(n, op, program_type(n, first_of(op)), f);
}

/* What keeps values about as large as they are, so that a rounding stays as small. */
static bool is_gentle(const elementwise_step *s) {
  return s->type == DTYPE_F32 && s->operand_type == DTYPE_F32 &&
         (s->kind == IR_STEP_KIND_ADD || s->kind == IR_STEP_KIND_MUL ||
          s->kind == IR_STEP_KIND_RELU || s->kind == IR_STEP_KIND_CLAMP ||
          s->kind == IR_STEP_KIND_SILU || s->kind == IR_STEP_KIND_SIGMOID ||
          s->kind == IR_STEP_KIND_GELU || s->kind == IR_STEP_KIND_GELU_TANH ||
          s->kind == IR_STEP_KIND_HARDSWISH || s->kind == IR_STEP_KIND_HARDSIGMOID);
}

bool elementwise_may_narrow(const elementwise_form *f, uint32_t slot) {
  for (int s = 0; s < f->n_steps; s++)
    if (!is_gentle(&f->steps[s])) return false;
  for (int k = 0; k < f->n_inputs; k++)
    if (f->inputs[k]->slot == slot && tensor_numel(&f->inputs[k]->t) != f->n) return false;
  return true;
}
