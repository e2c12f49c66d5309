/* The graph of a decoder. `input`, the state of L tokens, is (1, L, size) F32. */
#include "import/gguf/decoder.h"

#include <math.h>

#include "import/emit_decoder.h"
#include "import/gguf/rope.h"
#include "import/gguf/weights.h"

enum { HEADS = 1, ROWS = 2 };
/* Tokens of a prompt that a layer with a window processes at once: its cache has so many rows more
 * than the window, less one. */
enum { PROMPT_PIECE = 256 };

/* cos and sin of the tokens' angles: (L, dims / 2) F32. */
typedef struct angles {
  value *cos, *sin;
} angles;

typedef struct decoder {
  gguf_file *file;
  importer *im;
  const gguf_numbers *n;
  int64_t max_context;
  number n_tokens; /* L */
  number context;  /* rows of caches without a window; type of a constant until one is declared */
  bool has_context;
  value *position;      /* I64, rank 0 */
  angles angles, local; /* for layers without and with a window */
} decoder;

/* ---------------------------------------------------------------- inputs */

static value *declare_inputs(decoder *decoder) {
  clave_builder_method(decoder->im->builder, "forward");
  decoder->n_tokens = number_new(decoder->im, "length", NUMBER_INT, 1, decoder->max_context);
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
    found = decoder->max_context > rope->original ? longer : shorter;
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
  const gguf_rope *rope = &decoder->n->rope, *local = &decoder->n->local;
  im->node = "rope";
  value *steps = emit_arange_tensor(im, decoder->n_tokens);
  value *positions = emit_cast(im, emit_binary(im, "add", decoder->position, steps), CLAVE_F32);
  decoder->angles = make_angles(decoder, positions, rope, read_divisors(decoder, rope));
  decoder->local = decoder->n->architecture->local_base > 0
                       ? make_angles(decoder, positions, local, NULL)
                       : decoder->angles;
}

/* ---------------------------------------------------------------- layers */

/* Returns the name of a tensor of a layer. */
static const char *layer_name(decoder *decoder, int64_t layer, const char *part) {
  return import_text(decoder->im, "blk.%lld.%s", (long long)layer, part);
}

/* input: (*, columns). Returns (*, rows). */
static value *decoder_linear(decoder *decoder, value *input, const char *name, int64_t rows,
                             int64_t columns) {
  importer *im = decoder->im;
  const char *bias = import_text(im, "%s.bias", name);
  value *weight = gguf_matrix(decoder->file, import_text(im, "%s.weight", name), rows, columns);
  im->node = name;
  value *added =
      gguf_has_tensor(decoder->file, bias) ? gguf_vector_value(decoder->file, bias, rows) : NULL;
  return emit_matmul(im, input, emit_transpose(im, weight, 0, 1), added, 1, 1);
}

static value *decoder_norm(decoder *decoder, value *input, const char *name, int64_t size) {
  importer *im = decoder->im;
  value *weight = gguf_vector_value(decoder->file, import_text(im, "%s.weight", name), size);
  im->node = name;
  if (!emit_prepare(im, input) || !emit_prepare(im, weight)) return NULL;
  value *out = emit_begin_move(im, "RmsNorm", input, input->rank, input->dims);
  emit_set_tensor(im, "weight", weight);
  if (out) clave_builder_set_float(im->builder, "eps", decoder->n->eps);
  return out;
}

/* Reshapes (1, L, heads * size) to (1, L, heads, size). */
static value *decoder_split_heads(decoder *decoder, value *input, int64_t heads, int64_t size) {
  return emit_reshape(
      decoder->im, input, 4,
      (const number[]){number_int(1), decoder->n_tokens, number_int(heads), number_int(size)});
}

/* Sets rows to q, k and v: (1, L, heads, size) each. */
static void decoder_project(decoder *decoder, value *input, int64_t layer, value *rows[3]) {
  static const char *const names[] = {"attn_q", "attn_k", "attn_v"};
  const gguf_numbers *n = decoder->n;
  const int64_t heads[] = {n->n_heads, n->n_kv, n->n_kv},
                sizes[] = {n->key_size, n->key_size, n->value_size};
  const int64_t widths[] = {heads[0] * sizes[0], heads[1] * sizes[1], heads[2] * sizes[2]};
  value *merged = NULL;
  int64_t at = 0;
  if (n->architecture->merged)
    merged = decoder_linear(decoder, input, layer_name(decoder, layer, "attn_qkv"),
                            widths[0] + widths[1] + widths[2], n->size);
  for (int i = 0; i < 3; i++, at += widths[i - 1]) {
    rows[i] = n->architecture->merged
                  ? emit_slice(decoder->im, merged, 2, number_int(at), number_int(at + widths[i]))
                  : decoder_linear(decoder, input, layer_name(decoder, layer, names[i]), widths[i],
                                   n->size);
    rows[i] = decoder_split_heads(decoder, rows[i], heads[i], sizes[i]);
  }
}

/* ---------------------------------------------------------------- caches */

/* A cache of keys or values: (1, n_kv, rows, size), where 0 rows are those of the context. */
static value *declare_cache(decoder *decoder, const char *name, int64_t rows, int64_t size) {
  importer *im = decoder->im;
  if (!rows && !decoder->has_context) {
    decoder->context = number_new(im, "context", NUMBER_INT, 1, decoder->max_context);
    decoder->has_context = true;
  }
  const number dims[] = {number_int(1), number_int(decoder->n->n_kv),
                         rows ? number_int(rows) : decoder->context, number_int(size)};
  return emit_state(im, name, CLAVE_F16, 4, dims);
}

/* Attention of q over the caches, into which k and v are written. rows: (1, heads, L, size) of q, k
 * and v. Returns the shape of q with the size of v. */
static value *attend_cached(decoder *decoder, int64_t layer, value *const *rows) {
  importer *im = decoder->im;
  const gguf_numbers *n = decoder->n;
  const int64_t own = n->windows[layer], window = own < decoder->max_context ? own : 0,
                most = window + PROMPT_PIECE - 1,
                limited = most < decoder->max_context ? most : decoder->max_context,
                n_rows = window ? limited : 0;
  value *keys =
            declare_cache(decoder, layer_name(decoder, layer, "cache.keys"), n_rows, n->key_size),
        *values = declare_cache(decoder, layer_name(decoder, layer, "cache.values"), n_rows,
                                n->value_size);
  im->node = layer_name(decoder, layer, "attention");
  cached_attention call = {rows[0], rows[1], rows[2],  decoder->position, keys,
                           values,  window,  n->scale, n->attention_cap};
  value *out = emit_cached_attention(im, &call);
  if (!out) return NULL;
  clave_builder_update(im->builder, keys->tensor, call.keys->tensor);
  clave_builder_update(im->builder, values->tensor, call.values->tensor);
  return out;
}

/* ---------------------------------------------------------------- blocks */

static value *decoder_attention(decoder *decoder, value *input, int64_t layer) {
  importer *im = decoder->im;
  const gguf_numbers *n = decoder->n;
  value *rows[3];
  const angles *angles = n->windows[layer] ? &decoder->local : &decoder->angles;
  decoder_project(decoder, input, layer, rows);
  if (n->architecture->normed_heads) {
    rows[0] =
        decoder_norm(decoder, rows[0], layer_name(decoder, layer, "attn_q_norm"), n->key_size);
    rows[1] =
        decoder_norm(decoder, rows[1], layer_name(decoder, layer, "attn_k_norm"), n->key_size);
  }
  im->node = layer_name(decoder, layer, "rope");
  for (int i = 0; i < 3; i++)
    rows[i] = emit_transpose(
        im,
        i < 2 ? emit_rope(im, rows[i], angles->cos, angles->sin, n->architecture->interleaved)
              : rows[i],
        HEADS, ROWS);
  value *out = emit_transpose(im, attend_cached(decoder, layer, rows), HEADS, ROWS);
  const int64_t width = n->n_heads * n->value_size;
  out = emit_reshape(im, out, 3,
                     (const number[]){number_int(1), decoder->n_tokens, number_int(width)});
  return decoder_linear(decoder, out, layer_name(decoder, layer, "attn_output"), n->size, width);
}

static value *feed_forward(decoder *decoder, value *input, int64_t layer) {
  importer *im = decoder->im;
  const gguf_numbers *n = decoder->n;
  const number half = number_int(n->n_hidden), all = number_int(2 * n->n_hidden);
  value *gate, *up;
  if (n->architecture->merged) {
    value *both =
        decoder_linear(decoder, input, layer_name(decoder, layer, "ffn_up"), all.i, n->size);
    gate = emit_slice(im, both, 2, number_int(0), half);
    up = emit_slice(im, both, 2, half, all);
  } else {
    gate = decoder_linear(decoder, input, layer_name(decoder, layer, "ffn_gate"), half.i, n->size);
    up = decoder_linear(decoder, input, layer_name(decoder, layer, "ffn_up"), half.i, n->size);
  }
  gate = emit_unary(im, n->architecture->gelu ? "gelu_tanh" : "silu", gate);
  return decoder_linear(decoder, emit_binary(im, "mul", gate, up),
                        layer_name(decoder, layer, "ffn_down"), n->size, half.i);
}

static value *decoder_block(decoder *decoder, value *input, int64_t layer) {
  importer *im = decoder->im;
  const bool post = decoder->n->architecture->post_norms;
  const int64_t size = decoder->n->size;
  value *y = decoder_attention(
      decoder, decoder_norm(decoder, input, layer_name(decoder, layer, "attn_norm"), size), layer);
  if (post) y = decoder_norm(decoder, y, layer_name(decoder, layer, "post_attention_norm"), size);
  input = emit_binary(im, "add", input, y);
  y = feed_forward(
      decoder, decoder_norm(decoder, input, layer_name(decoder, layer, "ffn_norm"), size), layer);
  if (post) y = decoder_norm(decoder, y, layer_name(decoder, layer, "post_ffw_norm"), size);
  return emit_binary(im, "add", input, y);
}

/* ---------------------------------------------------------------- the whole model */

/* Returns the logits (1, n_vocab) of the last token. embedding: (n_vocab, size), which a file
 * without "output" uses for its output as well. */
static value *decoder_add_logits(decoder *decoder, value *input, value *embedding) {
  importer *im = decoder->im;
  const int64_t size = decoder->n->size;
  im->node = "output_norm";
  if (!emit_prepare(im, input)) return NULL;
  value *last =
      emit_begin_move(im, "Select", input, 2, (const number[]){number_int(1), number_int(size)});
  if (!last) return NULL;
  clave_builder_set_int(im->builder, "axis", 1);
  clave_builder_set_int(im->builder, "index", -1);
  last = decoder_norm(decoder, last, "output_norm", size);
  im->node = "output";
  value *logits = gguf_has_tensor(decoder->file, "output.weight")
                      ? decoder_linear(decoder, last, "output", embedding->dims[0].i, size)
                      : emit_matmul(im, last, emit_transpose(im, embedding, 0, 1), NULL, 1, 1);
  const double cap = decoder->n->logits_cap;
  if (!(cap > 0)) return logits;
  logits = emit_unary(im, "tanh", emit_binary_float(im, "div", logits, cap));
  return emit_binary_float(im, "mul", logits, cap);
}

int64_t gguf_build(gguf_file *file, const gguf_numbers *numbers, int64_t max_context) {
  importer *im = file->im;
  decoder made = {.file = file, .im = im, .n = numbers, .max_context = max_context};
  value *tokens = declare_inputs(&made);
  value *embedding = gguf_matrix(file, "token_embd.weight", -1, numbers->size);
  set_angles(&made);
  im->node = "token_embd";
  value *input = emit_cast(im, emit_index_select(im, embedding, 0, tokens), CLAVE_F32);
  if (numbers->architecture->scaled_embeddings)
    input = emit_binary_float(im, "mul", input, sqrt((double)numbers->size));
  for (int64_t i = 0; i < numbers->n_layers && import_ok(im); i++)
    input = decoder_block(&made, input, i);
  value *logits = decoder_add_logits(&made, input, embedding);
  if (logits) emit_output(im, "logits", logits);
  return import_end_node(im, "gguf") && embedding ? embedding->dims[0].i : 0;
}
