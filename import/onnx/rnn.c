/* RNN, GRU and LSTM. */
#include <string.h>

#include "base/ascii.h"
#include "base/dtype.h"
#include "import/emit_rnn.h"
#include "import/onnx/converters.h"

enum { DIRECTIONS = 2 };

/* needs_alpha: there is no default on which runtimes agree */
static const struct {
  const char *name; /* in lower case */
  rnn_function function;
  bool has_alpha, has_beta, needs_alpha;
  double alpha, beta;
} functions[] = {{"sigmoid", RNN_SIGMOID, false, false, false, 0, 0},
                 {"tanh", RNN_TANH, false, false, false, 0, 0},
                 {"relu", RNN_RELU, false, false, false, 0, 0},
                 {"affine", RNN_AFFINE, true, true, true, 0, 0},
                 {"leakyrelu", RNN_LEAKY_RELU, true, false, false, 0.01, 0},
                 {"thresholdedrelu", RNN_THRESHOLDED_RELU, true, false, true, 0, 0},
                 {"scaledtanh", RNN_SCALED_TANH, true, true, true, 0, 0},
                 {"hardsigmoid", RNN_HARD_SIGMOID, true, true, false, 0.2, 0.5},
                 {"elu", RNN_ELU, true, false, false, 1, 0},
                 {"softsign", RNN_SOFTSIGN, false, false, false, 0, 0},
                 {"softplus", RNN_SOFTPLUS, false, false, false, 0, 0}};

/* A node with what its directions share */
typedef struct rnn_node {
  node *node;
  rnn_kind kind;
  clave_dtype type; /* in which it is computed */
  int n_directions, n_gates;
  bool batch_first, reverse; /* reverse: the only direction */
  rnn_layer layer;           /* x: (time, batch, in), valid, clip, ... */
  rnn_activation activations[DIRECTIONS * RNN_ACTIVATIONS];
} rnn_node;

/* ---------------------------------------------------------------- attributes */

static bool equals_lower(const char *text, const char *lower) {
  size_t i = 0;
  while (text[i] && ascii_lower(text[i]) == lower[i]) i++;
  return !text[i] && !lower[i];
}

/* Sets the function of an activation; takes its parameters from the lists in order. */
static void read_activation(importer *im, const char *name, const double *alphas[2], int left[2],
                            rnn_activation *out) {
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
    if (!equals_lower(name, functions[i].name)) continue;
    *out = (rnn_activation){functions[i].function, functions[i].alpha, functions[i].beta};
    const bool lacks = left[0] <= 0 || (functions[i].has_beta && left[1] <= 0);
    if (functions[i].needs_alpha && lacks)
      import_unsupported(im, "activation '%s' without its parameters", functions[i].name);
    if (functions[i].has_alpha && left[0]-- > 0) out->alpha = *alphas[0]++;
    if (functions[i].has_beta && left[1]-- > 0) out->beta = *alphas[1]++;
    return;
  }
  import_unsupported(im, "activation '%.60s'", name);
}

static void read_activations(rnn_node *rnn, int per_direction) {
  static const rnn_function defaults[][RNN_ACTIVATIONS] = {
      [RNN_SIMPLE] = {RNN_TANH, RNN_TANH, RNN_TANH},
      [RNN_GRU] = {RNN_SIGMOID, RNN_TANH, RNN_TANH},
      [RNN_LSTM] = {RNN_SIGMOID, RNN_TANH, RNN_TANH}};
  double lists[2][DIRECTIONS * RNN_ACTIVATIONS];
  const double *parameters[2] = {lists[0], lists[1]};
  const int capacity = DIRECTIONS * RNN_ACTIVATIONS, n = per_direction * rnn->n_directions;
  int left[2] = {node_floats(rnn->node, "activation_alpha", lists[0], capacity),
                 node_floats(rnn->node, "activation_beta", lists[1], capacity)};
  const onnx_attribute *names = node_attribute(rnn->node, "activations");
  if (names && (int)names->strings.count != n)
    import_invalid(rnn->node->im, "activations: expected %d", n);
  for (int i = 0; i < n && import_ok(rnn->node->im); i++) {
    rnn_activation *out =
        &rnn->activations[i / per_direction * RNN_ACTIVATIONS + i % per_direction];
    out->function = defaults[rnn->kind][i % per_direction];
    if (names) read_activation(rnn->node->im, names->strings.items[i], parameters, left, out);
  }
}

static void read_rnn(node *node, rnn_node *rnn) {
  static const char *const directions[] = {"forward", "reverse", "bidirectional"};
  static const int gates[] = {[RNN_SIMPLE] = 1, [RNN_GRU] = 3, [RNN_LSTM] = 4};
  const int direction = node_choice(node, "direction", directions, 3);
  rnn->node = node;
  rnn->kind = strcmp(node->kind, "lstm") == 0  ? RNN_LSTM
              : strcmp(node->kind, "gru") == 0 ? RNN_GRU
                                               : RNN_SIMPLE;
  rnn->n_directions = direction == 2 ? 2 : 1;
  rnn->reverse = direction == 1;
  rnn->n_gates = gates[rnn->kind];
  rnn->batch_first = node->version >= 14 && node_int(node, "layout", 0);
  rnn->layer.kind = rnn->kind;
  rnn->layer.clip = node_float(node, "clip", 0);
  if (rnn->kind == RNN_GRU)
    rnn->layer.linear_before_reset = node_int(node, "linear_before_reset", 0);
  if (rnn->kind == RNN_LSTM) rnn->layer.input_forget = node_int(node, "input_forget", 0);
  read_activations(rnn, rnn->kind == RNN_LSTM ? 3 : rnn->kind == RNN_GRU ? 2 : 1);
}

/* ---------------------------------------------------------------- inputs */

/* Returns direction d of input i, whose first axis, or second if batch_first, is directions. */
static value *of_direction(rnn_node *rnn, int i, int rank, int axis, int d) {
  importer *im = rnn->node->im;
  value *x = node_input(rnn->node, i);
  if (!x) return NULL;
  if (x->rank != rank || (!x->dims[axis].id && x->dims[axis].i != rnn->n_directions)) {
    import_invalid(im, "input %d has the wrong shape", i);
    return NULL;
  }
  return emit_cast(im, emit_select(im, x, axis, number_int(d)), rnn->type);
}

/* Returns a state at the start: input i, or zeros. */
static value *initial_state(rnn_node *rnn, int i, int d, number hidden) {
  const number dims[2] = {rnn->layer.x->dims[1], hidden};
  value *given = of_direction(rnn, i, 3, rnn->batch_first, d);
  return given ? given : emit_full(rnn->node->im, rnn->type, 2, dims, number_float(0));
}

/* Returns which steps are before the end of each sequence: (time, batch, 1); NULL: all are. */
static value *valid_steps(rnn_node *rnn, value *lengths) {
  importer *im = rnn->node->im;
  const number steps = rnn->layer.x->dims[0];
  if (!lengths) return NULL;
  const number *known = value_is_constant(lengths) ? value_known(im, lengths) : NULL;
  bool all = known && !steps.id;
  for (int64_t i = 0; all && i < value_count(lengths); i++) all = known[i].i == steps.i;
  if (all) return NULL;
  value *time = emit_arange(im, CLAVE_I64, number_int(0), number_int(1), steps);
  time = emit_unsqueeze(im, emit_unsqueeze(im, time, 1), 2);
  return emit_binary(im, "lt", time, emit_unsqueeze(im, emit_cast(im, lengths, CLAVE_I64), 1));
}

/* Sets the operands of direction d. */
static void rnn_set_operands(rnn_node *rnn, int d, rnn_layer *layer) {
  importer *im = rnn->node->im;
  layer->w = of_direction(rnn, 1, 3, 0, d);
  layer->r = of_direction(rnn, 2, 3, 0, d);
  if (!layer->w || !layer->r) return;
  const number hidden = layer->r->dims[1];
  value *bias = of_direction(rnn, 3, 2, 0, d);
  if (bias) {
    const number half = number_mul(im, hidden, number_int(rnn->n_gates));
    layer->w_bias = emit_slice(im, bias, 0, number_int(0), half);
    layer->r_bias = emit_slice(im, bias, 0, half, number_mul(im, half, number_int(2)));
  }
  layer->h = initial_state(rnn, 5, d, hidden);
  if (rnn->kind == RNN_LSTM) {
    layer->c = initial_state(rnn, 6, d, hidden);
    layer->peephole = of_direction(rnn, 7, 2, 0, d);
  }
  layer->reverse = rnn->reverse || d == 1;
  memcpy(layer->activations, rnn->activations + d * RNN_ACTIVATIONS, sizeof layer->activations);
}

/* ---------------------------------------------------------------- results */

/* Joins the directions' results on a new axis; batch_first moves the batch to the front. */
static value *directions_joined(rnn_node *rnn, value *const *parts, int axis) {
  static const int batch_first[2][4] = {{1, 0, 2, 0}, {2, 0, 1, 3}};
  importer *im = rnn->node->im;
  value *rows[DIRECTIONS];
  for (int d = 0; d < rnn->n_directions; d++) rows[d] = emit_unsqueeze(im, parts[d], axis);
  value *out = emit_cat(im, rows, rnn->n_directions, 0 + axis);
  return rnn->batch_first ? emit_permute(im, out, batch_first[axis]) : out;
}

void onnx_rnn(node *node) {
  importer *im = node->im;
  value *x = node_required(node, 0), *parts[3][DIRECTIONS];
  rnn_node rnn = {0};
  if (!x || !node_required(node, 1) || !node_required(node, 2)) return;
  read_rnn(node, &rnn);
  (void)node_int(node, "hidden_size", 0); /* W and R have it */
  if (x->rank != 3) import_invalid(im, "the input has rank %d, expected 3", x->rank);
  rnn.type = x->type == CLAVE_F64 ? CLAVE_F64 : CLAVE_F32;
  if (!import_ok(im)) return;
  x = emit_cast(im, x, rnn.type);
  rnn.layer.x = rnn.batch_first ? emit_transpose(im, x, 0, 1) : x;
  if (!rnn.layer.x) return;
  rnn.layer.valid = valid_steps(&rnn, node_input(node, 4));
  for (int d = 0; d < rnn.n_directions && import_ok(im); d++) {
    rnn_layer layer = rnn.layer;
    rnn_set_operands(&rnn, d, &layer);
    parts[0][d] = emit_rnn(im, &layer, &parts[1][d], &parts[2][d]);
  }
  for (int i = 0; i < (rnn.kind == RNN_LSTM ? 3 : 2) && import_ok(im); i++)
    if (node_has_output(node, i))
      node_set(node, i,
               emit_cast(im, directions_joined(&rnn, parts[i], i == 0), node_input(node, 0)->type));
}

/* Returns the numbers of codes (directions, in, gates * hidden) as (directions, gates * hidden,
 * in). Scales and zeros are for each direction, or for each of its columns. */
static value *decoded_weight(node *node, int weight, int scale, int zero) {
  importer *im = node->im;
  value *codes = node_required(node, weight),
        *factors[] = {node_required(node, scale), node_input(node, zero)};
  if (!codes || !factors[0] || codes->rank != 3) return NULL;
  for (int i = 0; i < 2 && factors[i]; i++) {
    const number dims[] = {codes->dims[0], number_int(1),
                           factors[i]->rank == 2 ? codes->dims[2] : number_int(1)};
    factors[i] = emit_reshape(im, factors[i], 3, dims);
  }
  value *out = emit_cast(im, codes, CLAVE_F32);
  if (factors[1]) out = emit_binary(im, "sub", out, emit_cast(im, factors[1], CLAVE_F32));
  return emit_transpose(im, emit_binary(im, "mul", out, factors[0]), 1, 2);
}

/* An LSTM of quantised weights. onnxruntime also rounds its inputs and states to 8 bits. */
void onnx_dynamic_quantize_lstm(node *node) {
  enum { W = 1, R = 2, N_INPUTS = 8, W_SCALE = 8, W_ZERO, R_SCALE, R_ZERO };
  value *inputs[N_INPUTS];
  for (int i = 0; i < N_INPUTS; i++) inputs[i] = node_input(node, i);
  inputs[W] = decoded_weight(node, W, W_SCALE, W_ZERO);
  inputs[R] = decoded_weight(node, R, R_SCALE, R_ZERO);
  if (!import_ok(node->im)) return;
  struct node plain = *node;
  plain.inputs = inputs;
  plain.n_inputs = N_INPUTS;
  onnx_rnn(&plain);
}
