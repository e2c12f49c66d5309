/* Which epilogues are a sum and limits, and which are short. */
#include "backend/cpu/tail.h"

#include <math.h>

#include "backend/cpu/elementwise.h"
#include "ops/epilogue.h"

/* Whether an operand is the result itself (step 0), or that of the step before. */
static bool is_before(const elementwise_operand *o, int step) {
  return step == 0 ? o->source == IR_OPERAND_SOURCE_INPUT && o->index == 0
                   : o->source == IR_OPERAND_SOURCE_STEP && o->index == (uint32_t)step - 1;
}

static bool is_like_result(const elementwise_form *f, uint32_t input) {
  tensor t = f->shapes[1 + input];
  tensors_collapse(&t, 1);
  return f->input_types[input] == DTYPE_F32 && t.rank == 1 && t.dims[0] == f->n &&
         t.strides[0] == 1;
}

/* The number of the input that step 0 adds; 0: none. */
static uint32_t added_input(const elementwise_form *f) {
  const elementwise_step *s = &f->steps[0];
  if (s->kind != IR_STEP_KIND_ADD) return 0;
  for (int k = 0; k < 2; k++) {
    const elementwise_operand *other = &s->operands[1 - k];
    if (is_before(&s->operands[k], 0) && other->source == IR_OPERAND_SOURCE_INPUT &&
        other->index > 0 && is_like_result(f, other->index))
      return other->index;
  }
  return 0;
}

/* Step s, if it is one that limits what is before it. */
static bool find_limits(const elementwise_form *f, int s, conv_tail *t) {
  const elementwise_step *step = &f->steps[s];
  const elementwise_operand *o = step->operands;
  if (!is_before(&o[0], s)) return false;
  if (step->kind == IR_STEP_KIND_RELU) {
    t->low = 0;
    return true;
  }
  if (step->kind != IR_STEP_KIND_CLAMP || !is_number(&o[1]) || !is_number(&o[2]) || isnan(o[1].f) ||
      isnan(o[2].f))
    return false;
  t->low = (float)o[1].f;
  t->high = (float)o[2].f;
  return true;
}

static bool is_float(const elementwise_step *s) {
  return s->operand_type == DTYPE_F32 && s->type == DTYPE_F32;
}

/* Whether it is a sum and limits. */
static bool find_tail(cpu_recorder *r, const elementwise_form *f, conv_tail *t) {
  const uint32_t added = added_input(f);
  const int limits = added ? 1 : 0;
  conv_tail found = conv_tail_none;
  for (int s = 0; s < f->n_steps; s++)
    if (!is_float(&f->steps[s])) return false;
  if (f->n_steps > limits + 1) return false;
  if (f->n_steps > limits && !find_limits(f, limits, &found)) return false;
  if (added) {
    found.added = cpu_operand(r, f->inputs[added]).data;
    found.added_type = f->inputs[added]->t.type;
  }
  *t = found;
  return true;
}

/* steps_in_place has no room for faults, and little for buffers. */
static bool find_steps(cpu_recorder *r, const elementwise_form *f, int most_inputs,
                       short_elementwise_args *steps) {
  if (f->n_inputs > most_inputs) return false;
  for (int s = 0; s < f->n_steps; s++)
    if (f->steps[s].divides && compute_dtype(f->steps[s].operand_type) == DTYPE_I64) return false;
  short_elementwise_args e;
  if (!short_steps(r, f, &e)) return false;
  if (e.head.n_inputs + e.head.n_steps + e.head.n_constants > STACK_SLOTS) return false;
  e.head.out = e.inputs[0].data = NULL;
  *steps = e;
  return true;
}

void take_tail(cpu_recorder *r, const node *n, int most_inputs, conv_tail *tail,
               short_elementwise_args *steps) {
  elementwise_form f;
  *tail = conv_tail_none;
  *steps = (short_elementwise_args){0};
  if (!describe_epilogue(n, &f)) return;
  if (find_tail(r, &f, tail) || find_steps(r, &f, most_inputs, steps)) cpu_takes_epilogue(r);
}

void take_steps(cpu_recorder *r, const node *n, int most_inputs, short_elementwise_args *steps) {
  elementwise_form f;
  *steps = (short_elementwise_args){0};
  if (describe_epilogue(n, &f) && find_steps(r, &f, most_inputs, steps)) cpu_takes_epilogue(r);
}

bool tail_reads(const node *n, uint32_t slot) {
  for (operand_iter i = operands_of(n->instruction); next_operand(&i);)
    if (i.o.tid == slot && is_epilogue_input(&i.o)) return true;
  return false;
}
