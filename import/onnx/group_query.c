/* GroupQueryAttention of com.microsoft: attention over caches that are results as well. */

#include "import/emit_decoder.h"
#include "import/onnx/attention.h"
#include "import/onnx/contrib.h"
#include "import/onnx/converters.h"
#include "import/onnx/decoder.h"

/* Positions of the new tokens: from `first` on, or from offsets[b] on (B, I64). */
typedef struct cache_place {
  number tokens, total; /* new tokens; all tokens of the longest sequence */
  number first;         /* for one sequence; else 0 */
  value *offsets;       /* for several sequences, else NULL */
  value *positions;     /* the new tokens' (L), if a decoder has them; else NULL */
  cache *key, *value;   /* a decoder's; NULL: past and present are tensors */
} cache_place;

enum {
  QUERY,
  KEY,
  VALUE,
  PAST_KEY,
  PAST_VALUE,
  SEQLENS,
  TOTAL,
  COS,
  SIN,
  POSITIONS,
  BIAS,
  SINK,
  KEY_SCALE,
  VALUE_SCALE,
  QUERY_NORM,
  KEY_NORM,
  QUERY_SEQLENS
};

static void refuse_variants(node *node) {
  static const char *const none[] = {"NONE"};
  importer *im = node->im;
  if (node_input(node, KEY_SCALE) || node_input(node, VALUE_SCALE))
    import_unsupported(im, "quantised caches");
  (void)node_choice(node, "k_quant_type", none, 1);
  (void)node_choice(node, "v_quant_type", none, 1);
  (void)node_int(node, "kv_cache_bit_width", 8);
  if (node_input(node, QUERY_SEQLENS)) import_unsupported(im, "query_seqlens");
  if (node_int(node, "sliding_window_cache", 0) && !node->onnx->decoder)
    import_unsupported(im, "sliding_window_cache");
  if (!node_int(node, "causal", 1)) import_unsupported(im, "causal = 0");
  if (node_int(node, "qk_output", 0)) import_unsupported(im, "qk_output");
  if (node_has_output(node, 3)) import_unsupported(im, "result 3, the scores");
}

/* ---------------------------------------------------------------- projections */

/* Reshapes (B, L, n * dim) to (B, L, n, dim). */
static value *rows_of_heads(node *node, value *input, int64_t n) {
  if (!input) return NULL;
  if (input->rank != 3 || n < 1 || (!input->dims[2].id && input->dims[2].i % n)) {
    import_invalid(node->im, "a tensor of rank %d cannot be split into %lld heads", input->rank,
                   (long long)n);
    return NULL;
  }
  const number dim = number_floor_div(node->im, input->dims[2], number_int(n));
  return emit_reshape(node->im, input, 4,
                      (const number[]){input->dims[0], input->dims[1], number_int(n), dim});
}

/* Reads q, k and v as (B, L, heads, dim); k and v may be packed after q. */
static bool read_query_rows(node *node, value **rows) {
  importer *im = node->im;
  value *q = node_required(node, QUERY), *k = node_input(node, KEY), *v = node_input(node, VALUE);
  const int64_t n = node_int(node, "num_heads", 0), n_kv = node_int(node, "kv_num_heads", 0);
  if (n < 1 || n_kv < 1 || n % n_kv || n > INT16_MAX)
    import_invalid(im, "num_heads is %lld, kv_num_heads %lld", (long long)n, (long long)n_kv);
  if (!k != !v) import_invalid(im, "one of key and value is missing");
  if (!q || !import_ok(im)) return false;
  if (k) {
    rows[0] = rows_of_heads(node, q, n);
    rows[1] = rows_of_heads(node, k, n_kv);
    rows[2] = rows_of_heads(node, v, n_kv);
  } else {
    value *all = rows_of_heads(node, q, n + 2 * n_kv);
    const int64_t ends[] = {0, n, n + n_kv, n + 2 * n_kv};
    for (int i = 0; i < 3 && all; i++)
      rows[i] = emit_slice(im, all, 2, number_int(ends[i]), number_int(ends[i + 1]));
  }
  return import_ok(im);
}

static void normalise_heads(node *node, value **rows) {
  static const char *const names[] = {"q_norm_epsilon", "k_norm_epsilon"};
  const double eps = node_float(node, "qk_norm_epsilon", (double)1e-6f);
  for (int i = 0; i < 2; i++) {
    value *weight = node_input(node, QUERY_NORM + i);
    const double own = node_float(node, names[i], eps);
    if (weight) rows[i] = onnx_norm(node->im, "RmsNorm", rows[i], weight, NULL, 1, own);
  }
}

/* ---------------------------------------------------------------- positions */

/* The place of tokens whose past keys and values are state; false: they are not. */
static bool read_decoder_place(node *node, cache_place *place) {
  const decoder *decoder = node->onnx->decoder;
  cache *key = decoder_cache_of(node->onnx, node_input(node, PAST_KEY)),
        *value = decoder_cache_of(node->onnx, node_input(node, PAST_VALUE));
  if (!key || !value || key == value) return false;
  place->key = key;
  place->value = value;
  place->total = decoder->total;
  place->first = decoder->first;
  place->positions = decoder->positions;
  return true;
}

static cache_place read_place(node *node, const value *query) {
  importer *im = node->im;
  cache_place place = {.tokens = query->dims[1], .first = number_int(0)};
  if (read_decoder_place(node, &place)) return place;
  value *lengths = node_required(node, SEQLENS);
  place.total = value_scalar(im, node_required(node, TOTAL), "total_sequence_length");
  place.total.no_sign = true;
  if (!node_input(node, PAST_KEY)) {
    place.total = place.tokens;
  } else if (number_is(query->dims[0], 1)) {
    place.first = number_sub(im, place.total, place.tokens);
    place.first.no_sign = true;
  } else if (lengths && import_ok(im)) {
    /* a first prompt may be padded: it begins at 0 */
    const number before = number_sub(im, number_int(1), place.tokens);
    value *flat = emit_reshape(im, emit_cast(im, lengths, CLAVE_I64), 1, query->dims);
    value *offsets = emit_binary(im, "add", flat, value_of_number(im, CLAVE_I64, before));
    place.offsets = offsets ? emit_binary_float(im, "maximum", offsets, 0) : NULL;
  }
  return place;
}

/* Returns the rows of a table of angles for the new tokens. */
static value *place_angles(node *node, const cache_place *place, value *table) {
  importer *im = node->im;
  value *positions = node_input(node, POSITIONS);
  if (!table) return NULL;
  if (!positions) positions = place->positions;
  if (!positions && place->offsets) {
    value *steps = emit_arange(im, CLAVE_I64, number_int(0), number_int(1), place->tokens);
    positions = emit_binary(im, "add", emit_unsqueeze(im, place->offsets, 1), steps);
  }
  if (positions) return emit_index_select(im, table, 0, positions);
  return emit_slice(im, table, 0, place->first, number_add(im, place->first, place->tokens));
}

static void rotate_heads(node *node, const cache_place *place, value **rows) {
  const bool interleaved = node_int(node, "rotary_interleaved", 0);
  if (!node_int(node, "do_rotary", 0)) return;
  value *cos = place_angles(node, place, node_required(node, COS)),
        *sin = place_angles(node, place, node_required(node, SIN));
  for (int i = 0; i < 2; i++) rows[i] = onnx_rotate(node, rows[i], cos, sin, interleaved);
}

/* ---------------------------------------------------------------- caches */

/* Writes the new rows of each sequence at its own position. past has the result's size. */
static value *write_sequences(importer *im, value *past, value *input, const cache_place *place) {
  const number one = number_int(1), n = past->dims[2];
  value *at = emit_arange(im, CLAVE_I64, number_int(0), one, n);
  value *row = emit_binary(im, "sub", at, emit_unsqueeze(im, place->offsets, 1)); /* (B, n) */
  value *size = value_of_number(im, CLAVE_I64, place->tokens);
  row = emit_reshape(im, row, 4, (const number[]){past->dims[0], one, n, one});
  value *is_new = row ? onnx_both(im, emit_binary(im, "ge", row, value_of_float(im, CLAVE_I64, 0)),
                                  emit_binary(im, "lt", row, size))
                      : NULL;
  value *last = emit_binary_float(im, "sub", size, 1);
  row = emit_binary(im, "minimum", row ? emit_binary_float(im, "maximum", row, 0) : NULL, last);
  value *rows = row ? emit_expand(im, row, 4, past->dims) : NULL;
  return emit_where(im, is_new, emit_gather(im, input, 2, rows), past);
}

/* Returns the cache after the new rows input (B, n_kv, L, dim): as long as the past, or as all
 * tokens if those are more. */
static value *written_cache(node *node, value *past, value *input, const cache_place *place) {
  importer *im = node->im;
  number before[4], after[4];
  if (!past || !input || !import_ok(im)) return input;
  if (past->rank != 4 || past->type != input->type) {
    import_unsupported(im, "a cache of rank %d and dtype %s", past->rank,
                       clave_dtype_name(past->type));
    return NULL;
  }
  for (int d = 0; d < 4; d++) before[d] = after[d] = number_int(0);
  after[2] = number_max(im, number_sub(im, place->total, past->dims[2]), number_int(0));
  after[2].no_sign = true;
  value *room = emit_pad(im, past, before, after, "constant", 0);
  if (!room) return NULL;
  for (int d = 0; d < 4; d++)
    if (d != 2) room->dims[d] = input->dims[d];
  return place->offsets ? write_sequences(im, room, input, place)
                        : emit_slice_update(im, room, input, 2, place->first);
}

static value *first_rows(importer *im, value *cache, number n) {
  return cache ? emit_slice(im, cache, 2, number_int(0), n) : NULL;
}

/* ---------------------------------------------------------------- the op */

static void set_call(node *node, const cache_place *place, attention_call *call) {
  importer *im = node->im;
  const int64_t window = node_int(node, "local_window_size", -1);
  const attention_span span = {.queries = place->tokens,
                               .keys = place->total,
                               .first = place->first,
                               .offsets = place->offsets,
                               .left = window > 0 ? window - 1 : -1,
                               .right = 0};
  call->scale = node_float(node, "scale", 0);
  call->softcap = node_float(node, "softcap", 0);
  call->bias = node_input(node, BIAS);
  call->sink = node_input(node, SINK);
  if (node_int(node, "smooth_softmax", -1) == 1 && !call->sink) /* -1: off */
    call->sink = emit_full(im, call->q->type, 1, &call->q->dims[1], number_float(0));
  call->causal = number_is(place->first, 0) && !place->offsets && span.left < 0;
  /* the only token of one sequence sees all keys */
  const bool sees_all = number_is(place->tokens, 1) && !place->offsets && span.left < 0;
  if (!call->causal && !sees_all) call->allowed = onnx_visible(im, &span);
}

/* Attention that writes the new rows into the state, and reads the rows that it needs there. The
 * call has no scores and no bias. */
static value *attend_in_place(node *node, const cache_place *place, const attention_call *call) {
  importer *im = node->im;
  const decoder *decoder = node->onnx->decoder;
  cached_attention cached = {.q = call->q,
                             .k = call->k,
                             .v = call->v,
                             .position = decoder->position,
                             .keys = decoder_state(im, place->key, call->k),
                             .values = decoder_state(im, place->value, call->v),
                             .sinks = emit_cast(im, call->sink, CLAVE_F32),
                             .window = node_int(node, "local_window_size", -1),
                             .scale = call->scale,
                             .softcap = call->softcap};
  value *out = emit_cached_attention(im, &cached);
  if (!out) return NULL;
  node_set(node, 1, decoder_set_present(decoder, im, place->key, cached.keys));
  node_set(node, 2, decoder_set_present(decoder, im, place->value, cached.values));
  return out;
}

static value *appended_cache(node *node, int i, value *input, const cache_place *place) {
  if (!place->key) return written_cache(node, node_input(node, i), input, place);
  return decoder_append(node->onnx->decoder, node->im, i == PAST_KEY ? place->key : place->value,
                        input);
}

void onnx_group_query_attention(node *node) {
  importer *im = node->im;
  value *rows[3] = {0};
  attention_call call = {.scores_kind = SCORES_NONE};
  refuse_variants(node);
  if (!read_query_rows(node, rows) || !rows[0]) return;
  normalise_heads(node, rows);
  const cache_place place = read_place(node, rows[0]);
  if (!import_ok(im)) return;
  rotate_heads(node, &place, rows);
  for (int i = 0; i < 3; i++) rows[i] = emit_transpose(im, rows[i], 1, 2);
  call.q = rows[0];
  call.k = rows[1];
  call.v = rows[2];
  if (!call.q || !call.k || !call.v || !import_ok(im)) return;
  set_call(node, &place, &call);
  if (place.key && !call.bias) {
    node_set(node, 0, onnx_join_heads(node, attend_in_place(node, &place, &call)));
    return;
  }
  value *keys = appended_cache(node, PAST_KEY, rows[1], &place),
        *values = appended_cache(node, PAST_VALUE, rows[2], &place);
  call.k = first_rows(im, keys, place.total);
  call.v = first_rows(im, values, place.total);
  node_set(node, 0, onnx_join_heads(node, onnx_attend(node, &call)));
  node_set(node, 1, keys);
  node_set(node, 2, values);
}
