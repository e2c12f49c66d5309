/* Elementwise: the steps of a description as the kernel's. */
#include "ops/elementwise.h"

#include <string.h>

#include "backend/cpu/elementwise.h"
#include "backend/cpu/requantise.h"
#include "cpu_ops.h"
#include "ops/epilogue.h"

/* Kernel step kinds by schema step kind. */
#define FLOAT_KIND(NAME, name, arity, result, expression) [IR_STEP_KIND_##NAME] = FLOAT_STEP_##NAME,
#define INT_KIND(NAME, name, arity, result, expression) [IR_STEP_KIND_##NAME] = INT_STEP_##NAME,
static const uint8_t float_kinds[IR_STEP_KIND_COUNT] = {STEPS_FLOAT(FLOAT_KIND)};
static const uint8_t int_kinds[IR_STEP_KIND_COUNT] = {STEPS_INT(INT_KIND)};

static const kstep_form forms[] = {[STEP_SAME] = KSTEP_MAP,
                                   [STEP_BOOL] = KSTEP_BOOL,
                                   [STEP_CAST] = KSTEP_CAST,
                                   [STEP_WHERE] = KSTEP_WHERE};

static void set_operand(elementwise_args *e, kstep *to, int k, const elementwise_operand *o) {
  kstep_operand *at = &to->operands[k];
  if (!is_number(o)) {
    at->source = o->source == IR_OPERAND_SOURCE_INPUT ? KSTEP_INPUT : KSTEP_STEP;
    at->index = (uint8_t)o->index;
    return;
  }
  *at = (kstep_operand){KSTEP_CONSTANT, (uint8_t)e->head.n_constants++};
  if (o->compute == DTYPE_I64)
    to->constants[k].i = o->i;
  else
    to->constants[k].f = o->f;
}

static void add_step(elementwise_args *e, const elementwise_step *s) {
  kstep *to = &e->steps[e->head.n_steps++];
  bool is_int = compute_dtype(s->operand_type) == DTYPE_I64;
  *to = (kstep){.form = (uint8_t)forms[s->result],
                .kind = is_int ? int_kinds[s->kind] : float_kinds[s->kind],
                .divides = s->divides,
                .operand_type = (uint8_t)s->operand_type,
                .type = (uint8_t)s->type,
                .arity = (uint8_t)s->n_operands};
  for (int k = 0; k < s->n_operands; k++) set_operand(e, to, k, &s->operands[k]);
}

elementwise_args elementwise_arguments(cpu_recorder *r, const elementwise_form *f) {
  elementwise_args e = {.head = {.n_inputs = f->n_inputs,
                                 .n = f->n,
                                 .out = cpu_operand(r, f->out).data,
                                 .out_type = f->out->t.type}};
  for (int k = 0; k < f->n_inputs; k++) {
    tensor t = f->shapes[1 + k];
    tensors_collapse(&t, 1);
    e.inputs[k] = cpu_view(r, f->inputs[k], &t);
  }
  for (int k = 0; k < f->n_steps; k++) add_step(&e, &f->steps[k]);
  return e;
}

bool short_steps(cpu_recorder *r, const elementwise_form *f, short_elementwise_args *out) {
  if (f->n_inputs > SHORT_INPUTS || f->n_steps > SHORT_STEPS) return false;
  const elementwise_args e = elementwise_arguments(r, f);
  out->head = e.head;
  memcpy(out->inputs, e.inputs, sizeof out->inputs);
  memcpy(out->steps, e.steps, sizeof out->steps);
  return true;
}

static clave_status launch_steps(cpu_recorder *r, const elementwise_form *f) {
  bool is_requantised;
  TRY(record_requantise(r, f, &is_requantised));
  if (is_requantised) return NULL;
  short_elementwise_args few;
  if (short_steps(r, f, &few)) return cpu_launch(r, short_elementwise, &few);
  const elementwise_args e = elementwise_arguments(r, f);
  return cpu_launch(r, elementwise, &e);
}

clave_status cpu_elementwise(cpu_recorder *r, const node *n) {
  elementwise_form f;
  describe_elementwise(n, &f);
  return launch_steps(r, &f);
}

bool elementwise_supports_bf16(cpu_recorder *r, const node *n, uint32_t slot) {
  elementwise_form f;
  describe_elementwise(n, &f);
  (void)r;
  return elementwise_may_narrow(&f, slot);
}

/* In place: every element of out is read before it is written. */
clave_status cpu_epilogue(cpu_recorder *r, const node *n) {
  elementwise_form f;
  return describe_epilogue(n, &f) ? launch_steps(r, &f) : NULL;
}
