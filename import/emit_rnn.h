#ifndef IMPORT_EMIT_RNN_H
#define IMPORT_EMIT_RNN_H
/* Emits recurrent networks: one Matmul for the inputs of all time steps, and a Scan over the steps.
 */
#include "import/emit.h"

typedef enum rnn_kind { RNN_SIMPLE, RNN_GRU, RNN_LSTM } rnn_kind;

enum { RNN_ACTIVATIONS = 3 };

typedef enum rnn_function {
  RNN_SIGMOID,
  RNN_TANH,
  RNN_RELU,
  RNN_AFFINE, /* alpha * x + beta */
  RNN_LEAKY_RELU,
  RNN_THRESHOLDED_RELU,
  RNN_SCALED_TANH, /* alpha * tanh(beta * x) */
  RNN_HARD_SIGMOID,
  RNN_ELU,
  RNN_SOFTSIGN,
  RNN_SOFTPLUS
} rnn_function;

typedef struct rnn_activation {
  rnn_function function;
  double alpha, beta;
} rnn_activation;

/* One layer in one direction. The gates, in this order, are z, r, h of a GRU and i, o, f, c of an
 * LSTM. All floats have one dtype. */
typedef struct rnn_layer {
  rnn_kind kind;
  value *x;               /* (time, batch, in) */
  value *w, *r;           /* (gates * hidden, in), (gates * hidden, hidden) */
  value *w_bias, *r_bias; /* (gates * hidden), or NULL */
  value *peephole;        /* (3 * hidden) of the gates i, o and f; or NULL */
  value *valid;           /* BOOL (time, batch, 1): steps that are not padding; NULL: all */
  value *h, *c;           /* (batch, hidden) at the start; c: of an LSTM only */
  rnn_activation activations[RNN_ACTIVATIONS]; /* f, g, h of ONNX */
  double clip;                                 /* limits the gates; 0: no limit */
  bool reverse, input_forget, linear_before_reset;
} rnn_layer;

/* Returns the outputs (time, batch, hidden), which are 0 in padding, and sets the last states. */
value *emit_rnn(importer *im, const rnn_layer *layer, value **last_h, value **last_c);

#endif
