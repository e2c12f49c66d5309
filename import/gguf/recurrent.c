/* Layers with a state of constant size: LFM2's short convolutions, and the scans of Mamba-2 as in
 * build_mamba2_layer of llama.cpp's mamba-base.cpp. */
#include "import/gguf/decoder_parts.h"

enum { TOKENS = 1, CHANNELS = 2 };

/* ---------------------------------------------------------------- convolutions of the tokens */

/* Returns input (1, L, channels) after the last tokens of earlier runs, which become its own last
 * ones: (1, L + earlier, channels). */
static value *after_earlier(decoder *decoder, value *input, int64_t layer, int64_t channels,
                            int64_t earlier) {
  importer *im = decoder->im;
  const number end = number_add(im, decoder->n_tokens, number_int(earlier)),
               kept[] = {number_int(1), number_int(earlier), number_int(channels)};
  value *before = emit_state(im, layer_name(decoder, layer, "conv.earlier"), CLAVE_F32, 3, kept);
  value *all = emit_cat(im, (value *[]){before, input}, 2, TOKENS);
  value *last = emit_slice(im, all, TOKENS, decoder->n_tokens, end);
  if (!before || !emit_prepare(im, last)) return NULL;
  clave_builder_update(im->builder, before->tensor, last->tensor);
  return all;
}

/* Convolves each channel over the tokens: element t of the result is the sum of the weight's (taps)
 * times elements t - taps + 1 to t. input: (1, L, channels); part: name of the weight */
static value *recurrent_convolve(decoder *decoder, value *input, int64_t layer, const char *part,
                                 int64_t channels) {
  importer *im = decoder->im;
  const int64_t taps = decoder->n->conv_taps;
  value *sum = NULL;
  const char *name = layer_name(decoder, layer, import_text(im, "%s.weight", part));
  value *weight = emit_cast(im, gguf_matrix(decoder->file, name, channels, taps), CLAVE_F32);
  im->node = name;
  input = after_earlier(decoder, input, layer, channels, taps - 1);
  for (int64_t i = 0; i < taps && import_ok(im); i++) {
    value *at = emit_slice(im, input, TOKENS, number_int(i),
                           number_add(im, decoder->n_tokens, number_int(i)));
    value *product = emit_binary(im, "mul", at, emit_select(im, weight, 1, number_int(i)));
    sum = sum ? emit_binary(im, "add", sum, product) : product;
  }
  value *bias = decoder_bias(decoder, layer_name(decoder, layer, part), channels);
  return bias ? emit_binary(im, "add", sum, bias) : sum;
}

/* Splits the last axis of input (1, L, *) into parts of these sizes. */
static void recurrent_split(decoder *decoder, value *input, const int64_t *sizes, int n,
                            value **parts) {
  int64_t at = 0;
  for (int i = 0; i < n; at += sizes[i++])
    parts[i] = emit_slice(decoder->im, input, CHANNELS, number_int(at), number_int(at + sizes[i]));
}

value *decoder_short_conv(decoder *decoder, value *input, int64_t layer) {
  importer *im = decoder->im;
  const int64_t size = decoder->n->size;
  value *parts[3];
  value *all = decoder_linear(decoder, input, layer_name(decoder, layer, "shortconv.in_proj"),
                              3 * size, size);
  recurrent_split(decoder, all, (const int64_t[]){size, size, size}, 3, parts);
  value *out = recurrent_convolve(decoder, emit_binary(im, "mul", parts[0], parts[2]), layer,
                                  "shortconv.conv", size);
  return decoder_linear(decoder, emit_binary(im, "mul", parts[1], out),
                        layer_name(decoder, layer, "shortconv.out_proj"), size, size);
}

/* ---------------------------------------------------------------- scans */

/* Returns a number of each head, (heads). The file has them as (heads, 1). */
static value *of_heads(decoder *decoder, int64_t layer, const char *part) {
  const char *name = layer_name(decoder, layer, part);
  return emit_squeeze(decoder->im, gguf_matrix(decoder->file, name, decoder->n->scan.heads, 1), 1);
}

static value *recurrent_group(decoder *decoder, value *input, int64_t n, int64_t size) {
  const number dims[] = {number_int(1), decoder->n_tokens, number_int(n), number_int(size)};
  return emit_reshape(decoder->im, input, 4, dims);
}

/* Continues the scan from the state, which it updates. input: (1, L, heads, P); decay: (1, L,
 * heads), the logarithms; into, from: (1, L, groups, N), with which the state is written and read.
 * Returns the shape of input. */
static value *scan(decoder *decoder, int64_t layer, value *input, value *decay, value *into,
                   value *from) {
  importer *im = decoder->im;
  const gguf_scan *n = &decoder->n->scan;
  const number dims[] = {number_int(1), number_int(n->heads), number_int(n->inner / n->heads),
                         number_int(n->state)};
  value *state = emit_state(im, layer_name(decoder, layer, "scan.state"), CLAVE_F32, 4, dims);
  if (!state || !emit_prepare(im, input) || !emit_prepare(im, decay) || !emit_prepare(im, into) ||
      !emit_prepare(im, from))
    return NULL;
  value *out = emit_begin(im, "SsmScan", CLAVE_F32, input->rank, input->dims);
  emit_set_tensor(im, "x", input);
  emit_set_tensor(im, "log_decay", decay);
  emit_set_tensor(im, "b", into);
  emit_set_tensor(im, "c", from);
  emit_set_tensor(im, "state", state);
  value *after = emit_result(im, "state_out", CLAVE_F32, 4, dims);
  if (!out || !after) return NULL;
  clave_builder_update(im->builder, state->tensor, after->tensor);
  return out;
}

/* Normalizes each group. input: (1, L, inner) */
static value *normalize_groups(decoder *decoder, value *input, int64_t layer) {
  importer *im = decoder->im;
  const gguf_scan *n = &decoder->n->scan;
  const int64_t size = n->inner / n->groups;
  const char *name = layer_name(decoder, layer, "ssm_norm.weight");
  if (!gguf_has_tensor(decoder->file, name)) return input;
  value *weight = gguf_matrix(decoder->file, name, n->groups, size);
  im->node = name;
  value *groups = recurrent_group(decoder, input, n->groups, size);
  if (!emit_prepare(im, groups)) return NULL;
  value *out = emit_begin_move(im, "RmsNorm", groups, groups->rank, groups->dims);
  if (out) clave_builder_set_float(im->builder, "eps", decoder->n->eps);
  out = emit_binary(im, "mul", out, weight);
  return emit_reshape(im, out, 3, input->dims);
}

/* Returns softplus(input + the file's bias). input: (1, L, heads) */
static value *time_step(decoder *decoder, value *input, int64_t layer) {
  static const double threshold = 20; /* above it, the formula rounds to its input */
  importer *im = decoder->im;
  const char *name = layer_name(decoder, layer, "ssm_dt.bias");
  input =
      emit_binary(im, "add", input, gguf_vector_value(decoder->file, name, decoder->n->scan.heads));
  return emit_step(im, "softplus",
                   (value *[]){input, value_of_float(im, CLAVE_F32, 1),
                               value_of_float(im, CLAVE_F32, threshold)},
                   3);
}

value *decoder_mamba2(decoder *decoder, value *input, int64_t layer) {
  importer *im = decoder->im;
  const gguf_scan *n = &decoder->n->scan;
  const int64_t size = decoder->n->size, of_group = n->groups * n->state,
                convolved = n->inner + 2 * of_group;
  value *parts[3], *xbc[3];
  value *all = decoder_linear(decoder, input, layer_name(decoder, layer, "ssm_in"),
                              n->inner + convolved + n->heads, size);
  recurrent_split(decoder, all, (const int64_t[]){n->inner, convolved, n->heads}, 3, parts);
  value *inner = recurrent_convolve(decoder, parts[1], layer, "ssm_conv1d", convolved);
  recurrent_split(decoder, emit_unary(im, "silu", inner),
                  (const int64_t[]){n->inner, of_group, of_group}, 3, xbc);
  value *step = time_step(decoder, parts[2], layer);
  value *x = recurrent_group(decoder, xbc[0], n->heads, n->inner / n->heads);
  value *out = scan(decoder, layer, emit_binary(im, "mul", x, emit_unsqueeze(im, step, 3)),
                    emit_binary(im, "mul", step, of_heads(decoder, layer, "ssm_a")),
                    recurrent_group(decoder, xbc[1], n->groups, n->state),
                    recurrent_group(decoder, xbc[2], n->groups, n->state));
  value *direct = emit_unsqueeze(im, of_heads(decoder, layer, "ssm_d"), 1);
  out = emit_binary(im, "add", out, emit_binary(im, "mul", x, direct));
  const number flat[] = {number_int(1), decoder->n_tokens, number_int(n->inner)};
  out = emit_binary(im, "mul", emit_reshape(im, out, 3, flat), emit_unary(im, "silu", parts[0]));
  return decoder_linear(decoder, normalize_groups(decoder, out, layer),
                        layer_name(decoder, layer, "ssm_out"), size, n->inner);
}
