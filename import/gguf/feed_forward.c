/* Feed-forward networks. */
#include <string.h>

#include "import/gguf/decoder_parts.h"

value *decoder_activate(decoder *decoder, value *input) {
  const char *kind = decoder->n->architecture->activation;
  if (!kind) kind = "silu";
  if (strcmp(kind, "relu2") != 0) return emit_unary(decoder->im, kind, input);
  value *positive = emit_unary(decoder->im, "relu", input);
  return emit_binary(decoder->im, "mul", positive, positive);
}

value *decoder_gate(decoder *decoder, value *gate, value *up) {
  const double limit = 7, slope = 1.702;
  importer *im = decoder->im;
  if (!decoder->n->architecture->clamped)
    return emit_binary(im, "mul", decoder_activate(decoder, gate), up);
  gate = emit_binary_float(im, "minimum", gate, limit);
  up = emit_binary_float(im, "maximum", emit_binary_float(im, "minimum", up, limit), -limit);
  value *share = emit_unary(im, "sigmoid", emit_binary_float(im, "mul", gate, slope));
  return emit_binary(im, "mul", emit_binary_float(im, "add", up, 1),
                     emit_binary(im, "mul", gate, share));
}

/* Returns the inner state of a gated network. Without a tensor for the gate, the rows of ffn_up are
 * those of the gate and then those of the linear part. */
static value *gated(decoder *decoder, value *input, int64_t layer, const char *suffix,
                    int64_t hidden) {
  importer *im = decoder->im;
  const int64_t size = decoder->n->size;
  const char *gate_name = import_text(im, "ffn_gate%s", suffix),
             *up_name = layer_name(decoder, layer, import_text(im, "ffn_up%s", suffix));
  value *gate, *up;
  if (hidden < 0 || layer_has(decoder, layer, gate_name)) {
    gate = decoder_linear(decoder, input, layer_name(decoder, layer, gate_name), hidden, size);
    up = decoder_linear(decoder, input, up_name, hidden, size);
  } else {
    value *both = decoder_linear(decoder, input, up_name, 2 * hidden, size);
    gate = emit_slice(im, both, 2, number_int(0), number_int(hidden));
    up = emit_slice(im, both, 2, number_int(hidden), number_int(2 * hidden));
  }
  return decoder_gate(decoder, gate, up);
}

value *decoder_network(decoder *decoder, value *input, int64_t layer, const char *suffix,
                       int64_t hidden) {
  const char *up = import_text(decoder->im, "ffn_up%s", suffix),
             *down = import_text(decoder->im, "ffn_down%s", suffix);
  value *inner =
      decoder->n->architecture->ungated
          ? decoder_activate(decoder, decoder_linear(decoder, input, layer_name(decoder, layer, up),
                                                     hidden, decoder->n->size))
          : gated(decoder, input, layer, suffix, hidden);
  if (!inner) return NULL;
  return decoder_linear(decoder, inner, layer_name(decoder, layer, down), decoder->n->size,
                        inner->dims[inner->rank - 1].i);
}
