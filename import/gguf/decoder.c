/* The graph of a decoder. */
#include "import/gguf/decoder.h"

#include <math.h>

#include "import/gguf/rope.h"

/* ---------------------------------------------------------------- inputs */

static value *declare_inputs(decoder *decoder) {
  clave_builder_method(decoder->im->builder, "forward");
  decoder->n_tokens = number_new(decoder->im, "length", NUMBER_INT, 1, decoder->caches.max_context);
  value *tokens = emit_input(decoder->im, "tokens", CLAVE_I64, 2,
                             (const number[]){number_int(1), decoder->n_tokens});
  decoder->position = emit_input(decoder->im, "position", CLAVE_I64, 0, NULL);
  return tokens;
}

/* ---------------------------------------------------------------- RoPE */

/* Returns the file's divisors of frequencies (dims / 2), or NULL. LongRoPE has other divisors for
 * contexts that are longer than the original one. */
static const float *read_divisors(decoder *decoder, const gguf_rope *rope) {
  const float *found = NULL;
  if (rope->kind == ROPE_LONG) {
    const float *shorter = gguf_vector(decoder->file, "rope_factors_short.weight", rope->dims / 2),
                *longer = gguf_vector(decoder->file, "rope_factors_long.weight", rope->dims / 2);
    found = decoder->caches.max_context > rope->original ? longer : shorter;
  } else if (gguf_has_tensor(decoder->file, "rope_freqs.weight")) {
    found = gguf_vector(decoder->file, "rope_freqs.weight", rope->dims / 2);
  }
  for (int64_t i = 0; found && i < rope->dims / 2; i++)
    if (!isfinite(found[i]) || found[i] <= 0)
      import_end(decoder->im, INVALID("has rope factors that are not positive numbers"));
  return found;
}

static angles make_angles(decoder *decoder, value *positions, const gguf_rope *rope,
                          const float *divisors) {
  importer *im = decoder->im;
  const int64_t n = rope->dims / 2;
  const double magnitude = gguf_magnitude(rope, decoder->n->context);
  float *frequencies = import_ok(im) ? import_alloc(im, (size_t)n, sizeof *frequencies) : NULL;
  if (!frequencies) return (angles){0};
  gguf_frequencies(rope, divisors, frequencies);
  for (int64_t i = 0; i < n; i++)
    if (!isfinite(frequencies[i])) {
      import_end(decoder->im,
                 INVALID("rope's base, factor or factors produce frequencies that are not "
                         "finite"));
      return (angles){0};
    }
  value *table = value_constant(im, "", CLAVE_F32, 1, &n, frequencies);
  value *angle = emit_binary(im, "mul", emit_unsqueeze(im, positions, 1), table);
  angles found = {emit_unary(im, "cos", angle), emit_unary(im, "sin", angle)};
  if (magnitude == 1) return found;
  return (angles){emit_binary_float(im, "mul", found.cos, magnitude),
                  emit_binary_float(im, "mul", found.sin, magnitude)};
}

static void set_angles(decoder *decoder) {
  importer *im = decoder->im;
  const gguf_architecture *architecture = decoder->n->architecture;
  const gguf_rope *rope = &decoder->n->rope, *local = &decoder->n->local;
  im->node = "rope";
  decoder->positions =
      emit_binary(im, "add", decoder->position, emit_arange_tensor(im, decoder->n_tokens));
  if (!decoder->n->has_rope) return;
  value *positions = emit_cast(im, decoder->positions, CLAVE_F32);
  decoder->angles = make_angles(decoder, positions, rope, read_divisors(decoder, rope));
  const bool plain = architecture->plain_local, own = plain || local->base != rope->base;
  decoder->local =
      decoder->n->has_local && own
          ? make_angles(decoder, positions, local, plain ? NULL : read_divisors(decoder, rope))
          : decoder->angles;
}

/* ---------------------------------------------------------------- blocks */

/* Returns the normalized input of attention, or the input if norms follow it. Falcon's larger
 * models have another norm for attention than for the feed-forward network. */
static value *attention_input(decoder *decoder, value *input, int64_t layer) {
  const bool other = decoder->n->is_parallel && layer_has(decoder, layer, "attn_norm_2");
  if (decoder->n->architecture->norms == NORMS_AFTER) return input;
  return decoder_norm(decoder, input,
                      layer_name(decoder, layer, other ? "attn_norm_2" : "attn_norm"),
                      decoder->n->size);
}

/* normed: the input of attention */
static value *feed_forward_input(decoder *decoder, value *input, value *normed, int64_t layer) {
  const char *own = decoder->n->architecture->ffn_norm;
  const bool has_norm = layer_has(decoder, layer, own ? own : "ffn_norm");
  if (decoder->n->architecture->norms == NORMS_AFTER) return input;
  if (decoder->n->is_parallel && !has_norm && !layer_has(decoder, layer, "attn_norm_2"))
    return normed;
  if (decoder->n->is_parallel && !has_norm) own = "attn_norm";
  return decoder_norm(decoder, input, layer_name(decoder, layer, own ? own : "ffn_norm"),
                      decoder->n->size);
}

/* Returns the change of attention or a feed-forward network, normalized by a norm after it. */
static value *decoder_scaled(decoder *decoder, value *change, int64_t layer, const char *norm) {
  const double scale = decoder->n->residual_scale;
  if (decoder->n->architecture->norms != NORMS_BEFORE)
    change = decoder_norm(decoder, change, layer_name(decoder, layer, norm), decoder->n->size);
  return scale == 1 ? change : emit_binary_float(decoder->im, "mul", change, scale);
}

/* Attention, or what a layer has with it or in its place. input: normalized */
static value *decoder_mix(decoder *decoder, value *input, int64_t layer) {
  const gguf_recurrence kind = decoder->n->architecture->recurrence;
  if (kind == RECURRENCE_CONV && layer_has(decoder, layer, "shortconv.conv"))
    return decoder_short_conv(decoder, input, layer);
  if (decoder->n->architecture->single && layer_has(decoder, layer, "ffn_down"))
    return decoder_network(decoder, input, layer, "", decoder->n->n_hidden);
  if (decoder->n->architecture->single && layer_has(decoder, layer, "ffn_gate_inp"))
    return decoder_experts(decoder, input, layer);
  if (!decoder->n->n_heads) return decoder_mamba2(decoder, input, layer);
  if (kind != RECURRENCE_SCAN || !layer_has(decoder, layer, "ssm_in"))
    return decoder_attention(decoder, input, layer);
  value *scanned = decoder_mamba2(decoder, input, layer);
  if (!layer_has(decoder, layer, "attn_q")) return scanned;
  return emit_binary(decoder->im, "add", decoder_attention(decoder, input, layer), scanned);
}

static value *decoder_feed_forward(decoder *decoder, value *input, int64_t layer) {
  return decoder->n->n_experts && layer_has(decoder, layer, "ffn_gate_inp")
             ? decoder_experts(decoder, input, layer)
             : decoder_network(decoder, input, layer, "", decoder->n->n_hidden);
}

static value *decoder_block(decoder *decoder, value *input, int64_t layer) {
  importer *im = decoder->im;
  value *normed = attention_input(decoder, input, layer);
  value *mixed =
      decoder_scaled(decoder, decoder_mix(decoder, normed, layer), layer, "post_attention_norm");
  value *state = emit_binary(im, "add", input, mixed);
  if (decoder->n->architecture->single) return state;
  value *source =
      feed_forward_input(decoder, decoder->n->is_parallel ? input : state, normed, layer);
  value *made = decoder_feed_forward(decoder, source, layer);
  return emit_binary(im, "add", state, decoder_scaled(decoder, made, layer, "post_ffw_norm"));
}

/* ---------------------------------------------------------------- the whole model */

/* Returns the logits (1, n_vocab) of the last token. embedding: (n_vocab, size), which a file
 * without "output" uses for its output as well. */
static value *decoder_add_logits(decoder *decoder, value *input, value *embedding) {
  importer *im = decoder->im;
  const int64_t size = decoder->n->size;
  const char *own = decoder->n->architecture->output_norm, *norm = own ? own : "output_norm";
  im->node = norm;
  if (!emit_prepare(im, input)) return NULL;
  value *last =
      emit_begin_move(im, "Select", input, 2, (const number[]){number_int(1), number_int(size)});
  if (!last) return NULL;
  clave_builder_set_int(im->builder, "axis", 1);
  clave_builder_set_int(im->builder, "index", -1);
  last = decoder_norm(decoder, last, norm, size);
  im->node = "output";
  value *logits = gguf_has_tensor(decoder->file, "output.weight")
                      ? decoder_linear(decoder, last, "output", embedding->dims[0].i, size)
                      : emit_matmul(im, last, emit_transpose(im, embedding, 0, 1), NULL, 1, 1);
  const double cap = decoder->n->logits_cap, scale = decoder->n->logits_scale;
  if (scale != 1) logits = emit_binary_float(im, "mul", logits, scale);
  if (!(cap > 0)) return logits;
  logits = emit_unary(im, "tanh", emit_binary_float(im, "div", logits, cap));
  return emit_binary_float(im, "mul", logits, cap);
}

/* Returns the first state: (1, L, size) F32. tokens: (1, L) I64 */
static value *embed(decoder *decoder, value *embedding, value *tokens) {
  importer *im = decoder->im;
  const gguf_numbers *n = decoder->n;
  im->node = "token_embd";
  value *out = emit_cast(im, emit_index_select(im, embedding, 0, tokens), CLAVE_F32);
  if (n->embedding_scale != 1) out = emit_binary_float(im, "mul", out, n->embedding_scale);
  if (!n->architecture->learned_positions) return out;
  value *table = gguf_matrix(decoder->file, "position_embd.weight", -1, n->size);
  im->node = "position_embd";
  if (table && table->dims[0].i < decoder->caches.max_context)
    import_end(im, INVALID("max_context: expected at most %lld, the number of positions, got %lld",
                           (long long)table->dims[0].i, (long long)decoder->caches.max_context));
  value *rows = emit_index_select(im, table, 0, decoder->positions);
  return emit_binary(im, "add", out, emit_cast(im, rows, CLAVE_F32));
}

int64_t gguf_build(gguf_file *file, const gguf_numbers *numbers, const gguf_caches *caches) {
  importer *im = file->im;
  decoder made = {.file = file, .im = im, .n = numbers, .caches = *caches};
  value *tokens = declare_inputs(&made);
  value *embedding = gguf_matrix(file, "token_embd.weight", -1, numbers->size);
  set_angles(&made);
  value *input = embed(&made, embedding, tokens);
  for (int64_t i = 0; i < numbers->n_layers && import_ok(im); i++)
    input = decoder_block(&made, input, i);
  value *logits = decoder_add_logits(&made, input, embedding);
  if (logits) emit_output(im, "logits", logits);
  return import_end_node(im, "gguf") && embedding ? embedding->dims[0].i : 0;
}
