/* Attention and RotaryEmbedding of ai.onnx, and what attention ops share. */
#include "import/onnx/attention.h"

#include <math.h>

#include "base/dtype.h"
#include "import/emit_decoder.h"
#include "import/onnx/converters.h"
#include "import/onnx/decoder.h"

/* ---------------------------------------------------------------- heads */

value *onnx_split_heads(node *node, value *input, int64_t n) {
  if (!input) return NULL;
  if (input->rank != 3 || n < 1 || n > INT32_MAX ||
      (!input->dims[2].id && (input->dims[2].i % n || input->dims[2].i == 0))) {
    import_invalid(node->im, "a tensor of rank %d cannot be split into %lld heads", input->rank,
                   (long long)n);
    return NULL;
  }
  const number dim = number_floor_div(node->im, input->dims[2], number_int(n));
  value *heads = emit_reshape(node->im, input, 4,
                              (const number[]){input->dims[0], input->dims[1], number_int(n), dim});
  return emit_transpose(node->im, heads, 1, 2);
}

value *onnx_join_heads(node *node, value *input) {
  if (!input) return NULL;
  value *rows = emit_transpose(node->im, input, 1, 2);
  const number width = number_mul(node->im, input->dims[1], input->dims[3]);
  return emit_reshape(node->im, rows, 3, (const number[]){input->dims[0], input->dims[2], width});
}

/* Repeats the heads of k or v for the heads of query that share them. */
static value *repeat_heads(importer *im, value *input, const value *query) {
  if (!input || number_is_same(input->dims[1], query->dims[1])) return input;
  const number each = number_floor_div(im, query->dims[1], input->dims[1]);
  const number wide[] = {input->dims[0], input->dims[1], each, input->dims[2], input->dims[3]};
  const number dims[] = {input->dims[0], query->dims[1], input->dims[2], input->dims[3]};
  return emit_reshape(im, emit_expand(im, emit_unsqueeze(im, input, 2), 5, wide), 4, dims);
}

/* ---------------------------------------------------------------- masks */

value *onnx_both(importer *im, value *left, value *right) {
  if (!left || !right) return left ? left : right;
  return emit_binary(im, "logical_and", left, right);
}

value *onnx_visible(importer *im, const attention_span *span) {
  const number one = number_int(1), zero = number_int(0);
  if (span->left < 0 && span->right < 0) return NULL;
  value *key = emit_arange(im, CLAVE_I64, zero, one, span->keys);
  value *query = emit_arange(im, CLAVE_I64, span->first, one, span->queries);
  query = query ? emit_unsqueeze(im, query, 1) : NULL;
  if (query && span->offsets) {
    const number dims[] = {span->offsets->dims[0], one, one, one};
    query = emit_binary(im, "add", query, emit_reshape(im, span->offsets, 4, dims));
  }
  value *last =
      query && span->right > 0 ? emit_binary_float(im, "add", query, (double)span->right) : query;
  value *out = span->right >= 0 ? emit_binary(im, "le", key, last) : NULL;
  if (span->left < 0) return out;
  value *begin = emit_binary_float(im, "sub", query, (double)span->left);
  return onnx_both(im, out, emit_binary(im, "ge", key, begin));
}

value *onnx_before(importer *im, value *lengths, number n) {
  const number one = number_int(1);
  if (!lengths) return NULL;
  if (lengths->rank != 1) import_invalid(im, "lengths have rank %d, expected 1", lengths->rank);
  value *at = emit_arange(im, CLAVE_I64, number_int(0), one, n);
  value *end = emit_reshape(im, emit_cast(im, lengths, CLAVE_I64), 4,
                            (const number[]){lengths->dims[0], one, one, one});
  return emit_binary(im, "lt", at, end);
}

value *onnx_append(node *node, value *past, value *input) {
  if (!past || !input) return input;
  if (past->rank != 4 || past->type != input->type) {
    import_invalid(node->im, "past keys or values of rank %d and dtype %s", past->rank,
                   clave_dtype_name(past->type));
    return NULL;
  }
  return decoder_cat(node->onnx, past, input, 2);
}

/* ---------------------------------------------------------------- scores */

/* One mask for the op: BOOL, or added to the scores. */
static value *joined_mask(importer *im, const attention_call *call) {
  if (!call->bias || !call->allowed) return call->bias ? call->bias : call->allowed;
  value *hidden = value_of_float(im, call->bias->type, -INFINITY);
  return emit_where(im, call->allowed, call->bias, hidden);
}

static value *fused_attention(importer *im, const attention_call *call) {
  value *mask = joined_mask(im, call), *q = call->q, *k = call->k, *v = call->v;
  if (!emit_prepare(im, q) || !emit_prepare(im, k) || !emit_prepare(im, v)) return NULL;
  if (mask && !emit_prepare(im, mask)) return NULL;
  value *out = emit_begin(im, "Attention", q->type, 4,
                          (const number[]){q->dims[0], q->dims[1], q->dims[2], v->dims[3]});
  if (!out) return NULL;
  emit_set_tensor(im, "q", q);
  emit_set_tensor(im, "k", k);
  emit_set_tensor(im, "v", v);
  emit_set_tensor(im, "mask", mask);
  clave_builder_set_bool(im->builder, "causal", call->causal);
  if (call->scale != 0) clave_builder_set_float(im->builder, "scale", call->scale);
  return out;
}

/* Keeps the scores as a result, in q's dtype. */
static void keep_scores(importer *im, attention_call *call, int kind, value *scores) {
  if (call->scores_kind == kind) call->scores = emit_cast(im, scores, call->q->type);
}

/* Softmax with the score of a sink for each head, which has no value. */
static value *softmax_with_sink(importer *im, value *scores, value *sink) {
  if (!sink || !scores) return emit_softmax(im, scores, 3, false);
  const number one = number_int(1), n = scores->dims[3];
  const number wide[] = {scores->dims[0], scores->dims[1], scores->dims[2], one};
  const number column[] = {sink->dims[0], one, one};
  sink = emit_reshape(im, emit_cast(im, sink, scores->type), 3, column);
  sink = emit_expand(im, sink, 4, wide);
  value *all = emit_cat(im, (value *[]){scores, sink}, 2, 3);
  value *out = emit_softmax(im, all, 3, false);
  return out ? emit_slice(im, out, 3, number_int(0), n) : NULL;
}

static value *capped(importer *im, value *scores, double cap) {
  if (cap == 0) return scores;
  scores = emit_unary(im, "tanh", emit_binary_float(im, "div", scores, cap));
  return emit_binary_float(im, "mul", scores, cap);
}

/* Adds the bias, and -inf where keys are hidden. */
static value *masked(importer *im, const attention_call *call, value *scores) {
  value *allowed = call->allowed;
  if (!scores) return NULL;
  if (call->causal) {
    const attention_span span = {call->q->dims[2], call->k->dims[2], number_int(0), NULL, -1, 0};
    allowed = onnx_both(im, allowed, onnx_visible(im, &span));
  }
  if (call->bias) scores = emit_binary(im, "add", scores, emit_cast(im, call->bias, scores->type));
  if (!allowed || !scores) return scores;
  return emit_where(im, allowed, scores, value_of_float(im, scores->type, -INFINITY));
}

/* scale * query @ the transpose of key */
static value *raw_scores(importer *im, const attention_call *call, value *query, value *key) {
  value *transposed = emit_transpose(im, key, 2, 3);
  if (!query || !transposed) return NULL;
  const number dim = query->dims[3];
  if (call->scale != 0 || (!dim.id && dim.i > 0)) {
    const double scale = call->scale != 0 ? call->scale : 1 / sqrt((double)dim.i);
    return emit_matmul(im, query, transposed, NULL, scale, 1);
  }
  const number root = number_compute(im, NUMBER_SQRT, number_to_float(im, dim), dim);
  return emit_binary(im, "div", emit_matmul(im, query, transposed, NULL, 1, 1),
                     value_of_number(im, query->type, root));
}

/* Computes in steps what the op does, in F32 for 16-bit dtypes, as the op has no cap, sink or
 * scores. */
static value *written_attention(importer *im, attention_call *call) {
  value *q = call->q;
  const clave_dtype type = q->type == CLAVE_F64 ? CLAVE_F64 : CLAVE_F32;
  value *k = emit_cast(im, repeat_heads(im, call->k, q), type);
  value *v = emit_cast(im, repeat_heads(im, call->v, q), type);
  if (!k || !v) return NULL;
  value *scores = raw_scores(im, call, emit_cast(im, q, type), k);
  keep_scores(im, call, SCORES_RAW, scores);
  scores = capped(im, scores, call->softcap);
  keep_scores(im, call, SCORES_CAPPED, scores);
  scores = masked(im, call, scores);
  keep_scores(im, call, SCORES_BIASED, scores);
  value *shares = softmax_with_sink(im, scores, call->sink);
  if ((call->bias || call->allowed || call->causal) && !call->sink) {
    const int axis = 3;
    value *max = emit_reduce(im, "max", scores, &axis, 1, true);
    value *none = emit_binary_float(im, "eq", max, -INFINITY);
    shares = emit_where(im, none, value_of_float(im, type, 0), shares);
  }
  keep_scores(im, call, SCORES_SOFTMAX, shares);
  return emit_cast(im, emit_matmul(im, shares, v, NULL, 1, 1), q->type);
}

value *onnx_attend(node *node, attention_call *call) {
  importer *im = node->im;
  if (!call->q || !call->k || !call->v || !import_ok(im)) return NULL;
  if (call->q->rank != 4 || call->k->rank != 4 || call->v->rank != 4) {
    import_invalid(im, "q, k and v have ranks %d, %d and %d", call->q->rank, call->k->rank,
                   call->v->rank);
    return NULL;
  }
  if (call->k->type != call->q->type || call->v->type != call->q->type) {
    import_unsupported(im, "q, k and v of different dtypes");
    return NULL;
  }
  if (call->bias && call->bias->type != call->q->type)
    call->bias = emit_cast(im, call->bias, call->q->type);
  const bool plain = call->softcap == 0 && !call->sink && call->scores_kind == SCORES_NONE;
  return plain ? fused_attention(im, call) : written_attention(im, call);
}

/* ---------------------------------------------------------------- Attention */

/* Pads a mask whose last dimension ends before the keys do: those are hidden. */
static value *padded_mask(importer *im, value *mask, number keys) {
  number before[CLAVE_MAX_RANK], after[CLAVE_MAX_RANK];
  if (!mask || mask->rank < 1) return mask;
  const int last = mask->rank - 1;
  if (number_is(mask->dims[last], 1) || number_is_same(mask->dims[last], keys)) return mask;
  for (int d = 0; d <= last; d++) before[d] = after[d] = number_int(0);
  after[last] = number_max(im, number_sub(im, keys, mask->dims[last]), number_int(0));
  return emit_pad(im, mask, before, after, "constant", mask->type == CLAVE_BOOL ? 0 : -INFINITY);
}

/* Sets the mask of positions: causal, windows and the number of valid keys. */
static void set_positions(node *node, attention_call *call, value *past, value *lengths) {
  importer *im = node->im;
  const bool causal = node_int(node, "is_causal", 0);
  attention_span span = {.queries = call->q->dims[2],
                         .keys = call->k->dims[2],
                         .first = past ? past->dims[2] : number_int(0),
                         .left = node_int(node, "left_window_size", -1),
                         .right = node_int(node, "right_window_size", -1)};
  if (span.left < -1 || span.right < -1) import_invalid(im, "a window size is less than -1");
  if (causal) span.right = 0;
  if (lengths) {
    value *count = emit_cast(im, value_of_number(im, CLAVE_I64, span.queries), CLAVE_I64);
    span.offsets = emit_binary(im, "sub", emit_cast(im, lengths, CLAVE_I64), count);
    call->allowed = onnx_both(im, call->allowed, onnx_before(im, lengths, span.keys));
  }
  call->causal = causal && !past && !lengths && span.left < 0;
  if (!call->causal) call->allowed = onnx_both(im, call->allowed, onnx_visible(im, &span));
}

/* Reads q, k and v: of rank 4, or of rank 3 with the number of heads. */
static bool read_heads(node *node, attention_call *call) {
  value *inputs[3];
  const int64_t q_heads = node_int(node, "q_num_heads", 0),
                kv_heads = node_int(node, "kv_num_heads", 0);
  for (int i = 0; i < 3; i++) {
    inputs[i] = node_required(node, i);
    if (inputs[i] && inputs[i]->rank == 3)
      inputs[i] = onnx_split_heads(node, inputs[i], i ? kv_heads : q_heads);
    if (inputs[i] && inputs[i]->rank != 4)
      import_invalid(node->im, "input %d has rank %d, expected 3 or 4", i, inputs[i]->rank);
  }
  call->q = inputs[0];
  call->k = inputs[1];
  call->v = inputs[2];
  return import_ok(node->im);
}

void onnx_attention(node *node) {
  importer *im = node->im;
  attention_call call = {.scores_kind = SCORES_NONE};
  value *q = node_required(node, 0), *mask = node_input(node, 3), *past = node_input(node, 4),
        *past_value = node_input(node, 5);
  const int64_t mode = node_int(node, "qk_matmul_output_mode", 0);
  call.scale = node_float(node, "scale", 0);
  call.softcap = node_float(node, "softcap", 0);
  (void)node_int(node, "softmax_precision", 1);
  if (node_has(node, "scale") && call.scale == 0) import_unsupported(im, "a scale of 0");
  if (!read_heads(node, &call)) return;
  if (node_has_output(node, 3)) call.scores_kind = (int)mode;
  call.k = onnx_append(node, past, call.k);
  call.v = onnx_append(node, past_value, call.v);
  if (!call.k || !call.v) return;
  mask = padded_mask(im, mask, call.k->dims[2]);
  if (mask && mask->type == CLAVE_BOOL)
    call.allowed = mask;
  else
    call.bias = mask;
  set_positions(node, &call, past, node_input(node, 6));
  value *out = onnx_attend(node, &call);
  node_set(node, 0, q->rank == 3 ? onnx_join_heads(node, out) : out);
  node_set(node, 1, call.k);
  node_set(node, 2, call.v);
  node_set(node, 3, call.scores);
}

/* ---------------------------------------------------------------- RotaryEmbedding */

value *onnx_rotate(node *node, value *input, value *cos, value *sin, bool interleaved) {
  importer *im = node->im;
  if (!input || !cos || !sin || !import_ok(im)) return NULL;
  return emit_rope(im, input, emit_cast(im, cos, input->type), emit_cast(im, sin, input->type),
                   interleaved);
}

/* Returns the rows of a table for positions (B, L); a position of one element is that of the first
 * row, and NULL means that the table has a row for each token. */
static value *rotary_rows(importer *im, value *table, value *positions, number length) {
  if (!positions || !table) return table;
  if (positions->rank == 2) return emit_index_select(im, table, 0, positions);
  const number first = value_scalar(im, positions, "position_ids");
  return emit_slice(im, table, 0, first, number_add(im, first, length));
}

/* The number of heads of input, (B, L, n * dim): an attribute, or by the width of the table. */
static number rotary_heads(node *node, const value *input, const value *cos) {
  const int64_t n = node_int(node, "num_heads", 0);
  if (n > 0) return number_int(n);
  return number_floor_div(node->im, input->dims[2],
                          number_mul(node->im, cos->dims[cos->rank - 1], number_int(2)));
}

/* kind: the input of the positions, "1" or "3" */
void onnx_rotary_embedding(node *node) {
  importer *im = node->im;
  const bool last = node->kind[0] == '3';
  value *x = node_required(node, 0),
        *positions = last ? node_input(node, 3) : node_required(node, 1),
        *cos = node_required(node, last ? 1 : 2), *sin = node_required(node, last ? 2 : 3);
  const bool interleaved = node_int(node, "interleaved", 0);
  if (!x || !cos || !sin) return;
  const int64_t rotated = node_int(node, "rotary_embedding_dim", 0);
  if (rotated > 0 && !number_is(cos->dims[cos->rank - 1], rotated / 2))
    import_invalid(im, "the table's rows do not have rotary_embedding_dim / 2 elements");
  if (!last && node_float(node, "scale", 1) != 1) import_unsupported(im, "a scale");
  if (!last && node_int(node, "is_packed_batching", 0))
    import_unsupported(im, "is_packed_batching");
  if (x->rank != 3 && x->rank != 4) import_invalid(im, "the input has rank %d", x->rank);
  if (!import_ok(im)) return;
  value *rows = x;
  if (x->rank == 4) {
    (void)node_int(node, "num_heads", 0);
    rows = emit_transpose(im, x, 1, 2);
  } else {
    const number n = rotary_heads(node, x, cos);
    const number dims[] = {x->dims[0], x->dims[1], n, number_floor_div(im, x->dims[2], n)};
    rows = emit_reshape(im, x, 4, dims);
  }
  if (!rows) return;
  const number length = rows->dims[1];
  value *out = onnx_rotate(node, rows, rotary_rows(im, cos, positions, length),
                           rotary_rows(im, sin, positions, length), interleaved);
  node_set(node, 0,
           x->rank == 4 ? emit_transpose(im, out, 1, 2) : emit_reshape(im, out, 3, x->dims));
}
