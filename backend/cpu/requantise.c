/* Recognises elementwise nodes that make 8-bit codes, step by step from the last one. */
#include "backend/cpu/requantise.h"

#include <math.h>
#include <string.h>

#include "cpu_ops.h"

/* An operand of one of the steps. */
typedef const elementwise_operand *operand_ref;

/* A number for all channels, or an input with one number per channel. */
typedef struct factor {
  int input; /* -1 if it is a number */
  float number;
} factor;

typedef struct term {
  int input;
  float zero;
  factor scale, bias;
} term;

typedef struct pattern {
  const elementwise_desc *desc;
  tensor shapes[1 + MAX_STEP_INPUTS]; /* the shapes of desc, with the rank of out's view */
  int first; /* role of out's first dimension: 0 images, 1 channels, 2 row */
  int64_t images, channels, row;
  term terms[2];
  int n_terms;
  dtype type;
  float low, high, inverse, zero, least, greatest;
  bool accepts_step; /* a step may come between the sum of the terms and the limit `low` */
  const elementwise_step *step; /* the step found there, or NULL */
} pattern;

/* ---------------------------------------------------------------- operands */

/* Returns the step that computes an operand if it is of this kind and all F32, otherwise NULL. */
static const elementwise_step *step_of(const elementwise_desc *desc, operand_ref o,
                                       ir_step_kind kind) {
  if (o->source != IR_OPERAND_SOURCE_STEP) return NULL;
  const elementwise_step *step = &desc->steps[o->index];
  return step->kind == kind && step->type == DTYPE_F32 && step->operand_type == DTYPE_F32 ? step
                                                                                          : NULL;
}

static bool cpu_requantise_match_number(operand_ref o, float *values) {
  if (!is_number(o) || o->compute != DTYPE_F32 || isnan(o->f)) return false;
  *values = (float)o->f;
  return true;
}

/* True if an input has these strides per image, channel and element of a row (0: broadcast). */
static bool has_strides(const pattern *pattern, int input, int64_t image, int64_t channel,
                        int64_t row) {
  const tensor *shape = &pattern->shapes[1 + input], *out = &pattern->shapes[0];
  int64_t want[] = {image, channel, row};
  for (int i = out->rank - 1; i >= 0; i--) {
    int64_t *step = &want[pattern->first + i < 2 ? pattern->first + i : 2];
    if (shape->dims[i] != 1 && shape->strides[i] != *step) return false;
    *step *= out->dims[i];
  }
  return true;
}
static bool cpu_requantise_is_whole(const pattern *pattern, int input) {
  return has_strides(pattern, input, pattern->channels * pattern->row, pattern->row, 1);
}
static bool is_of_channels(const pattern *pattern, operand_ref o) {
  return o->source == IR_OPERAND_SOURCE_INPUT &&
         pattern->desc->inputs[o->index]->tensor.type == DTYPE_F32 &&
         has_strides(pattern, (int)o->index, 0, 1, 0);
}

/* Matches a sum or product with a factor. Sets the factor, and *ref to the other operand. */
static bool match_factor(const pattern *pattern, operand_ref *ref, ir_step_kind kind,
                         factor *factor) {
  const elementwise_step *step = step_of(pattern->desc, *ref, kind);
  for (int k = 0; step && k < 2; k++) {
    bool is_given = cpu_requantise_match_number(&step->operands[k], &factor->number);
    if (!is_given && is_of_channels(pattern, &step->operands[k])) {
      factor->input = (int)step->operands[k].index;
      is_given = true;
    }
    if (!is_given) continue;
    *ref = &step->operands[1 - k];
    return true;
  }
  return false;
}

/* ---------------------------------------------------------------- the pattern */

static bool is_source(dtype t) { return t == DTYPE_I32 || t == DTYPE_I8 || t == DTYPE_U8; }

static bool match_source(const pattern *pattern, operand_ref o, int *input) {
  dtype want = DTYPE_F32;
  if (o->source == IR_OPERAND_SOURCE_STEP) {
    const elementwise_step *step = &pattern->desc->steps[o->index];
    if (step->kind != IR_STEP_KIND_CAST || step->type != DTYPE_F32 ||
        !is_source(step->operand_type))
      return false;
    want = step->operand_type;
    o = &step->operands[0];
  }
  if (o->source != IR_OPERAND_SOURCE_INPUT) return false;
  *input = (int)o->index;
  return pattern->desc->inputs[o->index]->tensor.type == want &&
         cpu_requantise_is_whole(pattern, *input);
}

static bool match_term(const pattern *pattern, operand_ref o, term *addend) {
  *addend = (term){.scale = {-1, 1}, .bias = {-1, 0}};
  (void)match_factor(pattern, &o, IR_STEP_KIND_ADD, &addend->bias);
  (void)match_factor(pattern, &o, IR_STEP_KIND_MUL, &addend->scale);
  const elementwise_step *step = step_of(pattern->desc, o, IR_STEP_KIND_SUB);
  if (step && cpu_requantise_match_number(&step->operands[1], &addend->zero))
    o = &step->operands[0];
  return match_source(pattern, o, &addend->input);
}

static bool match_terms(pattern *pattern, operand_ref o) {
  pattern->n_terms = 1;
  if (match_term(pattern, o, &pattern->terms[0])) return true;
  const elementwise_step *step = step_of(pattern->desc, o, IR_STEP_KIND_ADD);
  pattern->n_terms = 2;
  return step && match_term(pattern, &step->operands[0], &pattern->terms[0]) &&
         match_term(pattern, &step->operands[1], &pattern->terms[1]);
}

/* Matches clamp(x, low, high) or relu(x). Without either, the limits are infinite. */
static bool match_clamp(const pattern *pattern, operand_ref *ref, float *low, float *high) {
  const elementwise_step *step = step_of(pattern->desc, *ref, IR_STEP_KIND_CLAMP);
  *low = -INFINITY;
  *high = INFINITY;
  if (step && (!cpu_requantise_match_number(&step->operands[1], low) ||
               !cpu_requantise_match_number(&step->operands[2], high)))
    return false;
  if (!step && (step = step_of(pattern->desc, *ref, IR_STEP_KIND_RELU))) *low = 0;
  if (step) *ref = &step->operands[0];
  return true;
}

/* Matches an optional step of one operand; sets pattern->step to it or NULL. */
static void cpu_requantise_match_step(pattern *pattern, operand_ref *ref) {
  const elementwise_step *step =
      (*ref)->source == IR_OPERAND_SOURCE_STEP ? &pattern->desc->steps[(*ref)->index] : NULL;
  pattern->step = NULL;
  if (!pattern->accepts_step || !step || step->n_operands != 1 || step->result != STEP_SAME ||
      step->type != DTYPE_F32 || step->operand_type != DTYPE_F32)
    return;
  pattern->step = step;
  *ref = &step->operands[0];
}

/* Matches terms, an optional step and a clamp. */
static bool match_limited(pattern *pattern, operand_ref o) {
  if (!match_clamp(pattern, &o, &pattern->low, &pattern->high)) return false;
  cpu_requantise_match_step(pattern, &o);
  return match_terms(pattern, o);
}

static bool cpu_requantise_match_codes(pattern *pattern, operand_ref o) {
  factor zero = {-1, 0}, inverse = {-1, 1};
  if (!match_clamp(pattern, &o, &pattern->least, &pattern->greatest)) return false;
  (void)match_factor(pattern, &o, IR_STEP_KIND_ADD, &zero);
  const elementwise_step *step = step_of(pattern->desc, o, IR_STEP_KIND_ROUND);
  if (!step) return false;
  o = &step->operands[0];
  (void)match_factor(pattern, &o, IR_STEP_KIND_MUL, &inverse);
  pattern->zero = zero.number;
  pattern->inverse = inverse.number;
  return zero.input < 0 && inverse.input < 0 && match_limited(pattern, o);
}

/* Removes limits of the first clamp that the final one implies: all steps between are monotone. */
static void drop_clamp(pattern *pattern) {
  if (!(pattern->inverse > 0)) return;
  if (rintf(pattern->low * pattern->inverse) + pattern->zero <= pattern->least)
    pattern->low = -INFINITY;
  if (rintf(pattern->high * pattern->inverse) + pattern->zero >= pattern->greatest)
    pattern->high = INFINITY;
}

/* Begins a pattern whose shapes the caller has set. first: see pattern. */
static void begin_pattern(const elementwise_desc *desc, int first, pattern *pattern) {
  const tensor *out = &pattern->shapes[0];
  int64_t sizes[] = {1, 1, 1};
  for (int i = 0; i < out->rank; i++) sizes[first + i < 2 ? first + i : 2] *= out->dims[i];
  pattern->desc = desc;
  pattern->first = first;
  pattern->images = sizes[0];
  pattern->channels = sizes[1];
  pattern->row = sizes[2];
  pattern->type = desc->steps[desc->n_steps - 1].type;
  pattern->inverse = 1; /* unused defaults for patterns that make no codes */
  pattern->zero = pattern->least = pattern->greatest = 0;
  pattern->accepts_step = false;
}

static bool cpu_requantise_find_pattern(const elementwise_desc *desc, int first, pattern *pattern) {
  const elementwise_step *last = &desc->steps[desc->n_steps - 1];
  begin_pattern(desc, first, pattern);
  const bool is_found = desc->n > 0 && last->kind == IR_STEP_KIND_CAST &&
                        last->operand_type == DTYPE_F32 &&
                        (pattern->type == DTYPE_I8 || pattern->type == DTYPE_U8) &&
                        cpu_requantise_match_codes(pattern, &last->operands[0]);
  if (is_found) drop_clamp(pattern);
  return is_found;
}

/* ---------------------------------------------------------------- recording */

static requantise_factor factor_of(cpu_recorder *recorder, const pattern *pattern,
                                   const factor *factor) {
  if (factor->input < 0) return (requantise_factor){.number = factor->number};
  return (requantise_factor){.of_channel =
                                 cpu_operand(recorder, pattern->desc->inputs[factor->input]).data};
}

static requantise_term term_of(cpu_recorder *recorder, const pattern *pattern, const term *term) {
  const ktensor ktensor = cpu_operand(recorder, pattern->desc->inputs[term->input]);
  return (requantise_term){.x = ktensor.data,
                           .type = ktensor.type,
                           .zero = term->zero,
                           .scale = factor_of(recorder, pattern, &term->scale),
                           .bias = factor_of(recorder, pattern, &term->bias)};
}

static requantise_args cpu_requantise_arguments(cpu_recorder *recorder, const pattern *pattern) {
  requantise_args args = {.type = pattern->type,
                          .low = pattern->low,
                          .high = pattern->high,
                          .inverse = pattern->inverse,
                          .zero = pattern->zero,
                          .least = pattern->least,
                          .greatest = pattern->greatest,
                          .images = pattern->images,
                          .channels = pattern->channels,
                          .row = pattern->row};
  for (int k = 0; k < pattern->n_terms; k++)
    args.terms[k] = term_of(recorder, pattern, &pattern->terms[k]);
  return args;
}

clave_status record_requantise(cpu_recorder *recorder, const elementwise_desc *desc, bool *done) {
  pattern pattern;
  const int rank = desc->shapes[0].rank;
  memcpy(pattern.shapes, desc->shapes, sizeof pattern.shapes);
  *done = rank >= 1 && rank <= 3 && cpu_requantise_find_pattern(desc, 3 - rank, &pattern);
  if (!*done) return NULL;
  requantise_args args = cpu_requantise_arguments(recorder, &pattern);
  args.out = cpu_operand(recorder, desc->out).data;
  return cpu_launch(recorder, requantise, &args);
}

/* Orders the terms so that the first reads the op's result, which is input 0. Returns false unless
 * exactly one term reads it. */
static bool put_result_first(pattern *pattern) {
  const term other = pattern->terms[1];
  const bool is_second = pattern->n_terms == 2 && other.input == 0;
  if ((pattern->terms[0].input == 0) == is_second) return false;
  if (!is_second) return true;
  pattern->terms[1] = pattern->terms[0];
  pattern->terms[0] = other;
  return true;
}

bool match_requantise(cpu_recorder *recorder, const elementwise_desc *desc, requantise_args *out) {
  pattern pattern;
  pattern.shapes[0] = desc->out->tensor;
  for (int k = 0; k < desc->n_inputs; k++)
    pattern.shapes[1 + k] = broadcast_operand(desc->inputs[k], &desc->out->tensor).tensor;
  if (!cpu_requantise_find_pattern(desc, 0, &pattern) || !put_result_first(&pattern)) return false;
  *out = cpu_requantise_arguments(recorder, &pattern);
  out->terms[0].x = NULL;
  return true;
}

/* Returns true if a step combines the result of the step before with a number. */
static bool has_number(const elementwise_desc *desc, int step, ir_step_kind kind, float *values) {
  const elementwise_step *elementwise_step = &desc->steps[step];
  return elementwise_step->kind == kind && elementwise_step->type == DTYPE_F32 &&
         elementwise_step->operands[0].source == IR_OPERAND_SOURCE_STEP &&
         elementwise_step->operands[0].index == (uint32_t)step - 1 &&
         cpu_requantise_match_number(&elementwise_step->operands[1], values);
}

bool match_decoded(cpu_recorder *recorder, const elementwise_desc *desc, requantise_args *out,
                   float *zero, float *scale) {
  elementwise_desc codes = *desc;
  int last = desc->n_steps - 1;
  *zero = 0;
  if (last < 2 || !has_number(desc, last, IR_STEP_KIND_MUL, scale)) return false;
  if (has_number(desc, last - 1, IR_STEP_KIND_SUB, zero)) last--;
  const elementwise_step *step = &desc->steps[--last];
  if (last < 1 || step->kind != IR_STEP_KIND_CAST || step->type != DTYPE_F32 ||
      step->operands[0].source != IR_OPERAND_SOURCE_STEP ||
      step->operands[0].index != (uint32_t)last - 1)
    return false;
  codes.n_steps = last;
  return match_requantise(recorder, &codes, out);
}

/* ---------------------------------------------------------------- rows */

/* Views `to` as (rows, columns). Returns false if its leading dimensions have no common stride;
 * that stride is 0 for a single row that is broadcast. */
static bool as_rows(const tensor *to, tensor *out) {
  const int last = to->rank - 1;
  int64_t rows = 1, step = 0;
  for (int i = last - 1; i >= 0; i--) {
    if (to->dims[i] == 1) continue;
    if (rows == 1) step = to->strides[i];
    if (to->strides[i] != step * rows) return false;
    rows *= to->dims[i];
  }
  *out = (tensor){.type = to->type,
                  .rank = 2,
                  .dims = {rows, to->dims[last]},
                  .strides = {step, to->strides[last]}};
  return true;
}

static bool cpu_requantise_find_rows(const elementwise_desc *desc, pattern *pattern) {
  const elementwise_step *last = &desc->steps[desc->n_steps - 1];
  const elementwise_operand result = {.source = IR_OPERAND_SOURCE_STEP,
                                      .index = (uint32_t)desc->n_steps - 1};
  begin_pattern(desc, 0, pattern);
  pattern->accepts_step = true;
  if (pattern->type == DTYPE_F32) return desc->n > 0 && match_limited(pattern, &result);
  const bool makes_codes = desc->n > 0 && last->kind == IR_STEP_KIND_CAST &&
                           last->operand_type == DTYPE_F32 &&
                           (pattern->type == DTYPE_I8 || pattern->type == DTYPE_U8);
  if (!makes_codes || !cpu_requantise_match_codes(pattern, &last->operands[0])) return false;
  drop_clamp(pattern);
  return true;
}

bool match_rows(cpu_recorder *recorder, const elementwise_desc *desc, requantise_args *out,
                const elementwise_step **step) {
  pattern pattern;
  if (!as_rows(&desc->out->tensor, &pattern.shapes[0])) return false;
  for (int k = 0; k < desc->n_inputs; k++) {
    const bound_tensor tensor = broadcast_operand(desc->inputs[k], &desc->out->tensor);
    if (!as_rows(&tensor.tensor, &pattern.shapes[1 + k])) return false;
  }
  if (!cpu_requantise_find_rows(desc, &pattern) || !put_result_first(&pattern)) return false;
  *step = pattern.step;
  *out = cpu_requantise_arguments(recorder, &pattern);
  out->terms[0].x = NULL;
  return true;
}
