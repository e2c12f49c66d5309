/* Recurrent networks as a Scan over the time steps, of which a few are unrolled instead. */
#include "import/emit_rnn.h"

#include "import/emit_scan.h"

enum { UNROLLED = 4, STATES = 2 };

/* The operands that the steps of a layer share, with transposed weights */
typedef struct rnn_context {
  const rnn_layer *layer;
  value *r; /* (hidden, gates * hidden) */
  number hidden;
  int n_states;
} rnn_context;

/* ---------------------------------------------------------------- activations */

static value *scaled_by(importer *im, value *input, double alpha, double beta) {
  return emit_binary_float(im, "add", emit_binary_float(im, "mul", input, alpha), beta);
}

static value *rnn_activate(importer *im, const rnn_layer *layer, int i, value *input) {
  const rnn_activation *activation = &layer->activations[i];
  const double alpha = activation->alpha, beta = activation->beta;
  if (!input) return NULL;
  if (layer->clip > 0 && i < 2) {
    input = emit_binary_float(im, "maximum", input, -layer->clip);
    input = emit_binary_float(im, "minimum", input, layer->clip);
  }
  value *zero = value_of_float(im, input->type, 0);
  switch (activation->function) {
    case RNN_SIGMOID:
      return emit_unary(im, "sigmoid", input);
    case RNN_TANH:
      return emit_unary(im, "tanh", input);
    case RNN_RELU:
      return emit_unary(im, "relu", input);
    case RNN_AFFINE:
      return scaled_by(im, input, alpha, beta);
    case RNN_LEAKY_RELU:
      return emit_binary_float(im, "leaky_relu", input, alpha);
    case RNN_THRESHOLDED_RELU:
      return emit_where(im, emit_binary(im, "ge", input, value_of_float(im, input->type, alpha)),
                        input, zero);
    case RNN_SCALED_TANH:
      return emit_binary_float(
          im, "mul", emit_unary(im, "tanh", emit_binary_float(im, "mul", input, beta)), alpha);
    case RNN_HARD_SIGMOID:
      input = emit_binary_float(im, "maximum", scaled_by(im, input, alpha, beta), 0);
      return emit_binary_float(im, "minimum", input, 1);
    case RNN_ELU:
      return emit_binary_float(im, "elu", input, alpha);
    case RNN_SOFTSIGN:
      return emit_binary(im, "div", input,
                         emit_binary_float(im, "add", emit_unary(im, "abs", input), 1));
    case RNN_SOFTPLUS: /* max(x, 0) + log1p(exp(-|x|)) */
      zero = emit_unary(im, "exp", emit_unary(im, "neg", emit_unary(im, "abs", input)));
      return emit_binary(im, "add", emit_unary(im, "relu", input), emit_unary(im, "log1p", zero));
  }
  return NULL;
}

/* ---------------------------------------------------------------- cells */

/* Returns gates first to end - 1 of input: (..., gates * hidden), along an axis. */
static value *gates_of(importer *im, const rnn_context *context, value *input, int axis, int first,
                       int end) {
  return emit_slice(im, input, axis, number_mul(im, context->hidden, number_int(first)),
                    number_mul(im, context->hidden, number_int(end)));
}

/* input + the peephole of gate i * cell */
static value *with_peephole(importer *im, const rnn_context *context, value *input, int i,
                            value *cell) {
  value *peephole = context->layer->peephole;
  if (!peephole) return input;
  return emit_binary(im, "add", input,
                     emit_binary(im, "mul", gates_of(im, context, peephole, 0, i, i + 1), cell));
}

static void lstm_cell(importer *im, const rnn_context *context, value *input, value **states) {
  const rnn_layer *layer = context->layer;
  value *gates = emit_matmul(im, states[0], context->r, input, 1, 1), *parts[4], *cell = states[1];
  for (int i = 0; i < 4; i++) parts[i] = gates_of(im, context, gates, 1, i, i + 1);
  value *in = rnn_activate(im, layer, 0, with_peephole(im, context, parts[0], 0, cell)), *forget;
  if (layer->input_forget)
    forget = emit_binary_float(im, "add", emit_unary(im, "neg", in), 1);
  else
    forget = rnn_activate(im, layer, 0, with_peephole(im, context, parts[2], 2, cell));
  value *added = emit_binary(im, "mul", in, rnn_activate(im, layer, 1, parts[3]));
  cell = emit_binary(im, "add", emit_binary(im, "mul", forget, cell), added);
  value *out = rnn_activate(im, layer, 0, with_peephole(im, context, parts[1], 1, cell));
  states[0] = emit_binary(im, "mul", out, rnn_activate(im, layer, 2, cell));
  states[1] = cell;
}

static void gru_cell(importer *im, const rnn_context *context, value *input, value **states) {
  const rnn_layer *layer = context->layer;
  const bool linear = layer->linear_before_reset;
  value *h = states[0], *r = linear ? context->r : gates_of(im, context, context->r, 1, 0, 2);
  value *inputs = gates_of(im, context, input, 1, 0, 2),
        *new_input = gates_of(im, context, input, 1, 2, 3);
  value *products = emit_matmul(im, h, r, linear ? layer->r_bias : inputs, 1, 1), *sums = products;
  if (linear) sums = emit_binary(im, "add", gates_of(im, context, products, 1, 0, 2), inputs);
  sums = rnn_activate(im, layer, 0, sums);
  value *update = gates_of(im, context, sums, 1, 0, 1),
        *reset = gates_of(im, context, sums, 1, 1, 2), *candidate;
  if (linear) {
    candidate = emit_binary(im, "mul", reset, gates_of(im, context, products, 1, 2, 3));
    candidate = emit_binary(im, "add", candidate, new_input);
  } else {
    candidate = emit_matmul(im, emit_binary(im, "mul", reset, h),
                            gates_of(im, context, context->r, 1, 2, 3), new_input, 1, 1);
  }
  candidate = rnn_activate(im, layer, 1, candidate);
  value *kept = emit_binary(im, "mul", update, emit_binary(im, "sub", h, candidate));
  states[0] = emit_binary(im, "add", kept, candidate);
}

/* Replaces the states by the next ones, which are the old ones in padding. Returns the output. */
static value *rnn_step(importer *im, const rnn_context *context, value *input, value *valid,
                       value **states) {
  value *old[STATES] = {states[0], states[1]};
  if (context->layer->kind == RNN_LSTM)
    lstm_cell(im, context, input, states);
  else if (context->layer->kind == RNN_GRU)
    gru_cell(im, context, input, states);
  else
    states[0] =
        rnn_activate(im, context->layer, 0, emit_matmul(im, states[0], context->r, input, 1, 1));
  if (!valid || !states[0]) return states[0];
  value *out = emit_where(im, valid, states[0], value_of_float(im, states[0]->type, 0));
  for (int i = 0; i < context->n_states; i++) states[i] = emit_where(im, valid, states[i], old[i]);
  return out;
}

/* ---------------------------------------------------------------- time */

static value *unrolled(importer *im, const rnn_context *context, value *input, value *valid,
                       value **states) {
  value *outs[UNROLLED];
  const int64_t steps = input->dims[0].i;
  for (int64_t t = 0; t < steps && import_ok(im); t++) {
    value *now = valid ? emit_select(im, valid, 0, number_int(t)) : NULL;
    outs[t] = rnn_step(im, context, emit_select(im, input, 0, number_int(t)), now, states);
    outs[t] = emit_unsqueeze(im, outs[t], 0);
  }
  return import_ok(im) ? emit_cat(im, outs, (int)steps, 0) : NULL;
}

static value *rnn_scan_step(void *ctx, importer *im, value *const *xs, value **states) {
  const rnn_context *context = ctx;
  return rnn_step(im, context, xs[0], context->layer->valid ? xs[1] : NULL, states);
}

static value *scanned(importer *im, rnn_context *context, value *input, value *valid,
                      value **states) {
  value *xs[] = {input, valid};
  const scan_call call = {"step",        xs,     states, valid ? 2 : 1, context->n_states,
                          rnn_scan_step, context};
  return emit_scan_steps(im, &call);
}

/* Makes the tensors that the steps read in the scope of the layer, so that no step makes them. */
static bool prepare_operands(importer *im, rnn_context *context) {
  const rnn_layer *layer = context->layer;
  value *const optional[] = {layer->r_bias, layer->peephole, layer->valid, layer->c};
  for (size_t i = 0; i < sizeof optional / sizeof *optional; i++)
    if (optional[i] && !emit_prepare(im, optional[i])) return false;
  return emit_prepare(im, context->r) && emit_prepare(im, layer->h);
}

value *emit_rnn(importer *im, const rnn_layer *layer, value **last_h, value **last_c) {
  *last_h = *last_c = NULL;
  if (!layer->x || !layer->w || !layer->r || !layer->h || !import_ok(im)) return NULL;
  rnn_context context = {.layer = layer,
                         .r = emit_transpose(im, layer->r, 0, 1),
                         .hidden = layer->r->dims[1],
                         .n_states = layer->kind == RNN_LSTM ? 2 : 1};
  value *bias = layer->w_bias, *valid = layer->valid, *states[STATES] = {layer->h, layer->c};
  if (layer->r_bias && !(layer->kind == RNN_GRU && layer->linear_before_reset))
    bias = bias ? emit_binary(im, "add", bias, layer->r_bias) : layer->r_bias;
  value *x = emit_matmul(im, layer->x, emit_transpose(im, layer->w, 0, 1), bias, 1, 1);
  if (layer->reverse) {
    x = emit_flip(im, x, 0);
    valid = valid ? emit_flip(im, valid, 0) : NULL;
  }
  if (!x || !prepare_operands(im, &context)) return NULL;
  const bool few = !x->dims[0].id && x->dims[0].i > 0 && x->dims[0].i <= UNROLLED;
  value *out =
      few ? unrolled(im, &context, x, valid, states) : scanned(im, &context, x, valid, states);
  *last_h = states[0];
  *last_c = states[1];
  return layer->reverse ? emit_flip(im, out, 0) : out;
}
