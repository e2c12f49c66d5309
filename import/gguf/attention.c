/* Attention over caches. */
#include "import/gguf/decoder_parts.h"

enum { HEADS = 1, ROWS = 2 };

/* ---------------------------------------------------------------- queries, keys and values */

/* Reshapes (1, L, heads * size) to (1, L, heads, size). */
static value *split_heads(decoder *decoder, value *input, int64_t heads, int64_t size) {
  return emit_reshape(
      decoder->im, input, 4,
      (const number[]){number_int(1), decoder->n_tokens, number_int(heads), number_int(size)});
}

/* Normalizes each head by its own weight. input: (1, L, heads, size) */
static value *normalize_own(decoder *decoder, value *input, const char *name, int64_t heads,
                            int64_t size) {
  importer *im = decoder->im;
  value *weight = gguf_matrix(decoder->file, import_text(im, "%s.weight", name), heads, size);
  im->node = name;
  if (!emit_prepare(im, input)) return NULL;
  value *out = emit_begin_move(im, "LayerNorm", input, input->rank, input->dims);
  if (out) clave_builder_set_float(im->builder, "eps", decoder->n->eps);
  return emit_binary(im, "mul", out, weight);
}

static bool has_head_norms(decoder *decoder, int64_t layer, bool rotated) {
  switch (decoder->n->architecture->head_norms) {
    case HEAD_NORMS_EACH:
      return !rotated;
    case HEAD_NORMS_ROTATED:
      return rotated;
    case HEAD_NORMS_OPTIONAL:
    case HEAD_NORMS_OWN:
      return !rotated && layer_has(decoder, layer, "attn_q_norm");
    default:
      return false;
  }
}

/* Normalizes the heads of q and k. rotated: after RoPE. */
static void normalize_heads(decoder *decoder, int64_t layer, bool rotated, value *rows[3]) {
  static const char *const names[] = {"attn_q_norm", "attn_k_norm"};
  const gguf_numbers *n = decoder->n;
  const int64_t heads[] = {n->n_heads, n->n_kv};
  if (!has_head_norms(decoder, layer, rotated)) return;
  for (int i = 0; i < 2; i++) {
    const char *name = layer_name(decoder, layer, names[i]);
    rows[i] = n->architecture->head_norms == HEAD_NORMS_OWN
                  ? normalize_own(decoder, rows[i], name, heads[i], n->key_size)
                  : decoder_norm(decoder, rows[i], name, n->key_size);
  }
}

/* Sets rows to q, k and v: (1, L, heads, size) each. */
static void decoder_project(decoder *decoder, value *input, int64_t layer, value *rows[3]) {
  static const char *const names[] = {"attn_q", "attn_k", "attn_v"}, *const norms[] = {
                                                                         "attn_q_norm",
                                                                         "attn_k_norm"};
  const gguf_numbers *n = decoder->n;
  const int64_t heads[] = {n->n_heads, n->n_kv, n->n_kv},
                sizes[] = {n->key_size, n->key_size, n->value_size};
  const int64_t widths[] = {heads[0] * sizes[0], heads[1] * sizes[1], heads[2] * sizes[2]};
  const bool merged = layer_has(decoder, layer, "attn_qkv"),
             together = n->architecture->head_norms == HEAD_NORMS_TOGETHER;
  value *all = merged ? decoder_linear(decoder, input, layer_name(decoder, layer, "attn_qkv"),
                                       widths[0] + widths[1] + widths[2], n->size)
                      : NULL;
  int64_t at = 0;
  for (int i = 0; i < 3; i++, at += widths[i - 1]) {
    rows[i] = merged ? emit_slice(decoder->im, all, 2, number_int(at), number_int(at + widths[i]))
                     : decoder_linear(decoder, input, layer_name(decoder, layer, names[i]),
                                      widths[i], n->size);
    if (together && i < 2)
      rows[i] = decoder_norm(decoder, rows[i], layer_name(decoder, layer, norms[i]), widths[i]);
    rows[i] = split_heads(decoder, rows[i], heads[i], sizes[i]);
  }
}

/* ---------------------------------------------------------------- caches */

/* Declares a cache of keys or values, (1, n_kv, rows, size), and its scales if it is of integers.
 */
static void declare_cache(decoder *decoder, const char *name, number rows, int64_t size,
                          value **cache, value **scales) {
  importer *im = decoder->im;
  const number dims[] = {number_int(1), number_int(decoder->n->n_kv), rows, number_int(size)};
  *cache = emit_state(im, name, decoder->caches.type, 4, dims);
  *scales = decoder->caches.type == CLAVE_I8
                ? emit_state(im, import_text(im, "%s.scales", name), CLAVE_F32, 3, dims)
                : NULL;
}

int64_t gguf_cache_rows(const gguf_caches *caches, int64_t window) {
  const bool is_ring = window && window < caches->max_context - caches->prompt_piece + 1;
  return is_ring ? window + caches->prompt_piece - 1 : caches->max_context;
}

/* Rows without a window are open up to the context. */
static number cache_rows(decoder *decoder, int64_t window) {
  const int64_t most = decoder->caches.max_context;
  if (window) return number_int(gguf_cache_rows(&decoder->caches, window));
  if (!decoder->has_context)
    decoder->context = number_new(decoder->im, "context", NUMBER_INT, 1, most);
  decoder->has_context = true;
  return decoder->context;
}

/* Attention of q over the caches, into which k and v are written. rows: (1, heads, L, size) of q, k
 * and v. Returns the shape of q with the size of v. */
static value *attend_cached(decoder *decoder, int64_t layer, value *const *rows) {
  importer *im = decoder->im;
  const gguf_numbers *n = decoder->n;
  const int64_t own = n->windows[layer], window = own < decoder->caches.max_context ? own : 0;
  const number n_rows = cache_rows(decoder, window);
  cached_attention call = {
      .q = rows[0],
      .k = rows[1],
      .v = rows[2],
      .position = decoder->position,
      .sinks = layer_has(decoder, layer, "attn_sinks")
                   ? gguf_vector_value(decoder->file,
                                       layer_name(decoder, layer, "attn_sinks.weight"), n->n_heads)
                   : NULL,
      .window = window,
      .scale = n->scale,
      .softcap = n->attention_cap};
  declare_cache(decoder, layer_name(decoder, layer, "cache.keys"), n_rows, n->key_size, &call.keys,
                &call.key_scales);
  declare_cache(decoder, layer_name(decoder, layer, "cache.values"), n_rows, n->value_size,
                &call.values, &call.value_scales);
  const value *before[] = {call.keys, call.values, call.key_scales, call.value_scales};
  im->node = layer_name(decoder, layer, "attention");
  value *out = emit_cached_attention(im, &call);
  const value *after[] = {call.keys, call.values, call.key_scales, call.value_scales};
  for (int i = 0; i < 4 && out; i++)
    if (before[i]) clave_builder_update(im->builder, before[i]->tensor, after[i]->tensor);
  return out;
}

/* ---------------------------------------------------------------- the block */

static bool has_rope(const decoder *decoder, int64_t layer) {
  const gguf_numbers *n = decoder->n;
  const int step = n->architecture->no_rope_step;
  if (!n->has_rope || (step && (layer + 1) % step == 0)) return false;
  return !n->architecture->local_rope || !n->has_local || n->windows[layer];
}

value *decoder_attention(decoder *decoder, value *input, int64_t layer) {
  importer *im = decoder->im;
  const gguf_numbers *n = decoder->n;
  value *rows[3];
  const angles *angles = n->windows[layer] ? &decoder->local : &decoder->angles;
  decoder_project(decoder, input, layer, rows);
  normalize_heads(decoder, layer, false, rows);
  im->node = layer_name(decoder, layer, "rope");
  for (int i = 0; i < 2 && has_rope(decoder, layer); i++)
    rows[i] = emit_rope(im, rows[i], angles->cos, angles->sin, n->architecture->interleaved);
  normalize_heads(decoder, layer, true, rows);
  for (int i = 0; i < 3; i++) rows[i] = emit_transpose(im, rows[i], HEADS, ROWS);
  value *out = emit_transpose(im, attend_cached(decoder, layer, rows), HEADS, ROWS);
  const int64_t width = n->n_heads * n->value_size;
  out = emit_reshape(im, out, 3,
                     (const number[]){number_int(1), decoder->n_tokens, number_int(width)});
  return decoder_linear(decoder, out, layer_name(decoder, layer, "attn_output"), n->size, width);
}
