/* Elementwise nodes that make codes of 8 bits: read from their last step backward. */
#include "backend/cpu/requantise.h"

#include <math.h>
#include <string.h>

#include "cpu_ops.h"

/* An operand of a step of the form. */
typedef const elementwise_operand *operand_ref;

/* A number for all channels, or an input of one for each. */
typedef struct factor {
  int input; /* -1: none */
  float number;
} factor;

typedef struct term {
  int input;
  float zero;
  factor scale, bias;
} term;

typedef struct pattern {
  const elementwise_form *f;
  tensor shapes[1 + MAX_STEP_INPUTS]; /* as the form's, of dimensions that are counted below */
  int first;                          /* 0, 1, 2: out's first one is of images, channels, the row */
  int64_t images, channels, row;
  term terms[2];
  int n_terms;
  dtype type;
  float low, high, inverse, zero, least, greatest;
  bool takes_step;              /* whether there may be a step between the terms and `low` */
  const elementwise_step *step; /* it, or NULL */
} pattern;

/* ---------------------------------------------------------------- operands */

/* The step that an operand is the result of, if it is of this kind and of floats. */
static const elementwise_step *step_of(const elementwise_form *f, operand_ref o,
                                       ir_step_kind kind) {
  if (o->source != IR_OPERAND_SOURCE_STEP) return NULL;
  const elementwise_step *s = &f->steps[o->index];
  return s->kind == kind && s->type == DTYPE_F32 && s->operand_type == DTYPE_F32 ? s : NULL;
}

static bool take_number(operand_ref o, float *x) {
  if (!is_number(o) || o->compute != DTYPE_F32 || isnan(o->f)) return false;
  *x = (float)o->f;
  return true;
}

/* Whether an input has out's elements, or one for each channel. */
static bool has_strides(const pattern *p, int input, int64_t image, int64_t channel, int64_t row) {
  const tensor *t = &p->shapes[1 + input], *out = &p->shapes[0];
  int64_t want[] = {image, channel, row};
  for (int i = out->rank - 1; i >= 0; i--) {
    int64_t *step = &want[p->first + i < 2 ? p->first + i : 2];
    if (t->dims[i] != 1 && t->strides[i] != *step) return false;
    *step *= out->dims[i];
  }
  return true;
}
static bool is_whole(const pattern *p, int input) {
  return has_strides(p, input, p->channels * p->row, p->row, 1);
}
static bool is_of_channels(const pattern *p, operand_ref o) {
  return o->source == IR_OPERAND_SOURCE_INPUT && p->f->inputs[o->index]->t.type == DTYPE_F32 &&
         has_strides(p, (int)o->index, 0, 1, 0);
}

/* A sum or product with a factor: which it is, and what the other operand is. */
static bool take_factor(const pattern *p, operand_ref *o, ir_step_kind kind, factor *x) {
  const elementwise_step *s = step_of(p->f, *o, kind);
  for (int k = 0; s && k < 2; k++) {
    bool is_given = take_number(&s->operands[k], &x->number);
    if (!is_given && is_of_channels(p, &s->operands[k])) {
      x->input = (int)s->operands[k].index;
      is_given = true;
    }
    if (!is_given) continue;
    *o = &s->operands[1 - k];
    return true;
  }
  return false;
}

/* ---------------------------------------------------------------- the pattern */

static bool is_source(dtype t) { return t == DTYPE_I32 || t == DTYPE_I8 || t == DTYPE_U8; }

static bool take_source(const pattern *p, operand_ref o, int *input) {
  dtype want = DTYPE_F32;
  if (o->source == IR_OPERAND_SOURCE_STEP) {
    const elementwise_step *s = &p->f->steps[o->index];
    if (s->kind != IR_STEP_KIND_CAST || s->type != DTYPE_F32 || !is_source(s->operand_type))
      return false;
    want = s->operand_type;
    o = &s->operands[0];
  }
  if (o->source != IR_OPERAND_SOURCE_INPUT) return false;
  *input = (int)o->index;
  return p->f->inputs[o->index]->t.type == want && is_whole(p, *input);
}

static bool take_term(const pattern *p, operand_ref o, term *t) {
  *t = (term){.scale = {-1, 1}, .bias = {-1, 0}};
  (void)take_factor(p, &o, IR_STEP_KIND_ADD, &t->bias);
  (void)take_factor(p, &o, IR_STEP_KIND_MUL, &t->scale);
  const elementwise_step *s = step_of(p->f, o, IR_STEP_KIND_SUB);
  if (s && take_number(&s->operands[1], &t->zero)) o = &s->operands[0];
  return take_source(p, o, &t->input);
}

static bool take_terms(pattern *p, operand_ref o) {
  p->n_terms = 1;
  if (take_term(p, o, &p->terms[0])) return true;
  const elementwise_step *s = step_of(p->f, o, IR_STEP_KIND_ADD);
  p->n_terms = 2;
  return s && take_term(p, &s->operands[0], &p->terms[0]) &&
         take_term(p, &s->operands[1], &p->terms[1]);
}

/* clamp(x, low, high), or relu(x). */
static bool take_clamp(const pattern *p, operand_ref *o, float *low, float *high) {
  const elementwise_step *s = step_of(p->f, *o, IR_STEP_KIND_CLAMP);
  *low = -INFINITY;
  *high = INFINITY;
  if (s && (!take_number(&s->operands[1], low) || !take_number(&s->operands[2], high)))
    return false;
  if (!s && (s = step_of(p->f, *o, IR_STEP_KIND_RELU))) *low = 0;
  if (s) *o = &s->operands[0];
  return true;
}

/* A step of one operand that may be NULL. */
static void take_step(pattern *p, operand_ref *o) {
  const elementwise_step *s =
      (*o)->source == IR_OPERAND_SOURCE_STEP ? &p->f->steps[(*o)->index] : NULL;
  p->step = NULL;
  if (!p->takes_step || !s || s->n_operands != 1 || s->result != STEP_SAME ||
      s->type != DTYPE_F32 || s->operand_type != DTYPE_F32)
    return;
  p->step = s;
  *o = &s->operands[0];
}

/* What is limited, and by what. */
static bool take_limited(pattern *p, operand_ref o) {
  if (!take_clamp(p, &o, &p->low, &p->high)) return false;
  take_step(p, &o);
  return take_terms(p, o);
}

static bool take_codes(pattern *p, operand_ref o) {
  factor zero = {-1, 0}, inverse = {-1, 1};
  if (!take_clamp(p, &o, &p->least, &p->greatest)) return false;
  (void)take_factor(p, &o, IR_STEP_KIND_ADD, &zero);
  const elementwise_step *s = step_of(p->f, o, IR_STEP_KIND_ROUND);
  if (!s) return false;
  o = &s->operands[0];
  (void)take_factor(p, &o, IR_STEP_KIND_MUL, &inverse);
  p->zero = zero.number;
  p->inverse = inverse.number;
  return zero.input < 0 && inverse.input < 0 && take_limited(p, o);
}

/* What follows, monotone, limits as much as the first clamp: that does nothing more. */
static void drop_clamp(pattern *p) {
  if (!(p->inverse > 0)) return;
  if (rintf(p->low * p->inverse) + p->zero <= p->least) p->low = -INFINITY;
  if (rintf(p->high * p->inverse) + p->zero >= p->greatest) p->high = INFINITY;
}

/* first: of the pattern, whose shapes are given. */
static void begin_pattern(const elementwise_form *f, int first, pattern *p) {
  const tensor *out = &p->shapes[0];
  int64_t sizes[] = {1, 1, 1};
  for (int i = 0; i < out->rank; i++) sizes[first + i < 2 ? first + i : 2] *= out->dims[i];
  p->f = f;
  p->first = first;
  p->images = sizes[0];
  p->channels = sizes[1];
  p->row = sizes[2];
  p->type = f->steps[f->n_steps - 1].type;
  p->inverse = 1; /* of what makes no codes these are not used, and are not left to chance */
  p->zero = p->least = p->greatest = 0;
  p->takes_step = false;
}

static bool find_pattern(const elementwise_form *f, int first, pattern *p) {
  const elementwise_step *last = &f->steps[f->n_steps - 1];
  begin_pattern(f, first, p);
  const bool is_found =
      f->n > 0 && last->kind == IR_STEP_KIND_CAST && last->operand_type == DTYPE_F32 &&
      (p->type == DTYPE_I8 || p->type == DTYPE_U8) && take_codes(p, &last->operands[0]);
  if (is_found) drop_clamp(p);
  return is_found;
}

/* ---------------------------------------------------------------- recording */

static requantise_factor factor_of(cpu_recorder *r, const pattern *p, const factor *x) {
  if (x->input < 0) return (requantise_factor){.number = x->number};
  return (requantise_factor){.of_channel = cpu_operand(r, p->f->inputs[x->input]).data};
}

static requantise_term term_of(cpu_recorder *r, const pattern *p, const term *t) {
  const ktensor x = cpu_operand(r, p->f->inputs[t->input]);
  return (requantise_term){.x = x.data,
                           .type = x.type,
                           .zero = t->zero,
                           .scale = factor_of(r, p, &t->scale),
                           .bias = factor_of(r, p, &t->bias)};
}

static requantise_args arguments(cpu_recorder *r, const pattern *p) {
  requantise_args a = {.type = p->type,
                       .low = p->low,
                       .high = p->high,
                       .inverse = p->inverse,
                       .zero = p->zero,
                       .least = p->least,
                       .greatest = p->greatest,
                       .images = p->images,
                       .channels = p->channels,
                       .row = p->row};
  for (int k = 0; k < p->n_terms; k++) a.terms[k] = term_of(r, p, &p->terms[k]);
  return a;
}

clave_status record_requantise(cpu_recorder *r, const elementwise_form *f, bool *done) {
  pattern p;
  const int rank = f->shapes[0].rank;
  memcpy(p.shapes, f->shapes, sizeof p.shapes);
  *done = rank >= 1 && rank <= 3 && find_pattern(f, 3 - rank, &p);
  if (!*done) return NULL;
  requantise_args a = arguments(r, &p);
  a.out = cpu_operand(r, f->out).data;
  return cpu_launch(r, requantise, &a);
}

/* Makes the first term that of the op's result, which is input 0. False: not one of them is. */
static bool put_result_first(pattern *p) {
  const term other = p->terms[1];
  const bool is_second = p->n_terms == 2 && other.input == 0;
  if ((p->terms[0].input == 0) == is_second) return false;
  if (!is_second) return true;
  p->terms[1] = p->terms[0];
  p->terms[0] = other;
  return true;
}

bool take_requantise(cpu_recorder *r, const elementwise_form *f, requantise_args *out) {
  pattern p;
  p.shapes[0] = f->out->t;
  for (int k = 0; k < f->n_inputs; k++)
    p.shapes[1 + k] = broadcast_operand(f->inputs[k], &f->out->t).t;
  if (!find_pattern(f, 0, &p) || !put_result_first(&p)) return false;
  *out = arguments(r, &p);
  out->terms[0].x = NULL;
  return true;
}

/* A number that a step has beside the result of step `before`. */
static bool has_number(const elementwise_form *f, int step, ir_step_kind kind, float *x) {
  const elementwise_step *s = &f->steps[step];
  return s->kind == kind && s->type == DTYPE_F32 &&
         s->operands[0].source == IR_OPERAND_SOURCE_STEP &&
         s->operands[0].index == (uint32_t)step - 1 && take_number(&s->operands[1], x);
}

bool take_decoded(cpu_recorder *r, const elementwise_form *f, requantise_args *out, float *zero,
                  float *scale) {
  elementwise_form codes = *f;
  int last = f->n_steps - 1;
  *zero = 0;
  if (last < 2 || !has_number(f, last, IR_STEP_KIND_MUL, scale)) return false;
  if (has_number(f, last - 1, IR_STEP_KIND_SUB, zero)) last--;
  const elementwise_step *s = &f->steps[--last];
  if (last < 1 || s->kind != IR_STEP_KIND_CAST || s->type != DTYPE_F32 ||
      s->operands[0].source != IR_OPERAND_SOURCE_STEP || s->operands[0].index != (uint32_t)last - 1)
    return false;
  codes.n_steps = last;
  return take_requantise(r, &codes, out);
}

/* ---------------------------------------------------------------- rows */

/* t as (rows, columns), where that is one row for all or rows side by side. */
static bool as_rows(const tensor *t, tensor *out) {
  const int last = t->rank - 1;
  int64_t rows = 1, step = 0;
  for (int i = last - 1; i >= 0; i--) {
    if (t->dims[i] == 1) continue;
    if (rows == 1) step = t->strides[i];
    if (t->strides[i] != step * rows) return false;
    rows *= t->dims[i];
  }
  *out = (tensor){.type = t->type,
                  .rank = 2,
                  .dims = {rows, t->dims[last]},
                  .strides = {step, t->strides[last]}};
  return true;
}

static bool find_rows(const elementwise_form *f, pattern *p) {
  const elementwise_step *last = &f->steps[f->n_steps - 1];
  const elementwise_operand result = {.source = IR_OPERAND_SOURCE_STEP,
                                      .index = (uint32_t)f->n_steps - 1};
  begin_pattern(f, 0, p);
  p->takes_step = true;
  if (p->type == DTYPE_F32) return f->n > 0 && take_limited(p, &result);
  const bool makes_codes = f->n > 0 && last->kind == IR_STEP_KIND_CAST &&
                           last->operand_type == DTYPE_F32 &&
                           (p->type == DTYPE_I8 || p->type == DTYPE_U8);
  if (!makes_codes || !take_codes(p, &last->operands[0])) return false;
  drop_clamp(p);
  return true;
}

bool take_rows(cpu_recorder *r, const elementwise_form *f, requantise_args *out,
               const elementwise_step **step) {
  pattern p;
  if (!as_rows(&f->out->t, &p.shapes[0])) return false;
  for (int k = 0; k < f->n_inputs; k++) {
    const bound_tensor x = broadcast_operand(f->inputs[k], &f->out->t);
    if (!as_rows(&x.t, &p.shapes[1 + k])) return false;
  }
  if (!find_rows(f, &p) || !put_result_first(&p)) return false;
  *step = p.step;
  *out = arguments(r, &p);
  out->terms[0].x = NULL;
  return true;
}
