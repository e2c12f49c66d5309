/* Attention, MultiHeadAttention and QAttention of com.microsoft. */
#include "import/onnx/attention.h"
#include "import/onnx/converters.h"
#include "import/onnx/quantize.h"

/* ---------------------------------------------------------------- masks */

/* Returns what is added to the scores: 0, or `filter` where the mask (BOOL) is false. */
static value *filtered(importer *im, value *mask, clave_dtype type, double filter) {
  if (!mask) return NULL;
  return emit_where(im, mask, value_of_float(im, type, 0), value_of_float(im, type, filter));
}

/* Returns BOOL (B, 1, 1, n): position j is at least starts[b]. */
static value *from_start(importer *im, value *starts, number n) {
  value *before = onnx_before(im, starts, n);
  return before ? emit_unary(im, "logical_not", before) : NULL;
}

/* A mask of rank 1: (B) ends, or (2 B) ends and starts. */
static value *mask_of_ends(node *node, value *mask, number batch, number keys) {
  importer *im = node->im;
  if (number_is_same(mask->dims[0], batch)) return onnx_before(im, mask, keys);
  const number two = number_mul(im, batch, number_int(2));
  if (number_is_same(mask->dims[0], two)) {
    value *ends = emit_slice(im, mask, 0, number_int(0), batch),
          *starts = emit_slice(im, mask, 0, batch, two);
    return onnx_both(im, onnx_before(im, ends, keys), from_start(im, starts, keys));
  }
  import_unsupported(im, "a mask of rank 1 whose size is not that of one or two batches");
  return NULL;
}

/* Reads a mask of keys as BOOL, broadcast to the scores: of rank 1; (B, T) or (B, L, T), where 0
 * hides a key. */
static value *mask_of_keys(node *node, value *mask, number batch, number keys) {
  importer *im = node->im;
  const number one = number_int(1);
  if (!mask || !import_ok(im)) return NULL;
  if (mask->rank == 1) return mask_of_ends(node, mask, batch, keys);
  if (mask->rank != 2 && mask->rank != 3) {
    import_unsupported(im, "a mask of rank %d", mask->rank);
    return NULL;
  }
  if (number_is(mask->dims[mask->rank - 1], 1) && !number_is(keys, 1))
    import_unsupported(im, "a mask that does not name the keys");
  const number rows = mask->rank == 3 ? mask->dims[1] : one;
  const number dims[] = {mask->dims[0], one, rows, mask->dims[mask->rank - 1]};
  value *wide = emit_reshape(im, mask, 4, dims);
  return wide ? emit_binary(im, "gt", wide, value_of_float(im, wide->type, 0)) : NULL;
}

/* Sets bias and mask: `mask` hides keys by `filter`, extra is added to the scores, and with the
 * attribute `unidirectional` queries see earlier keys only. past: the number of past keys. */
static void set_masks(node *node, attention_call *call, value *mask, value *extra, number past) {
  importer *im = node->im;
  const double filter = node_float(node, "mask_filter_value", -10000.0);
  const attention_span span = {call->q->dims[2], call->k->dims[2], past, NULL, -1, 0};
  value *keys = mask_of_keys(node, mask, call->q->dims[0], call->k->dims[2]);
  call->bias = filtered(im, keys, call->q->type, filter);
  if (extra) call->bias = call->bias ? emit_binary(im, "add", call->bias, extra) : extra;
  if (!node_int(node, "unidirectional", 0)) return;
  call->causal = number_is(past, 0);
  if (!call->causal) call->allowed = onnx_visible(im, &span);
}

/* ---------------------------------------------------------------- MultiHeadAttention */

/* Returns part i of packed heads, (B, L, n_heads, parts, dim), as (B, L, n_heads * dim). */
static value *packed_part(importer *im, value *input, int64_t i) {
  value *part = input ? emit_select(im, input, 3, number_int(i)) : NULL;
  if (!part) return NULL;
  const number width = number_mul(im, part->dims[2], part->dims[3]);
  return emit_reshape(im, part, 3, (const number[]){part->dims[0], part->dims[1], width});
}

/* Reads q, k and v, of which k and v may be packed, or all three. */
static void read_projections(node *node, value **projections) {
  importer *im = node->im;
  value *q = node_required(node, 0), *k = node_input(node, 1), *v = node_input(node, 2);
  if (q && q->rank == 5) {
    for (int64_t i = 0; i < 3; i++) projections[i] = packed_part(im, q, i);
  } else if (k && k->rank == 5) {
    projections[0] = q;
    for (int64_t i = 0; i < 2; i++) projections[1 + i] = packed_part(im, k, i);
  } else {
    projections[0] = q;
    projections[1] = k;
    projections[2] = v;
  }
  for (int i = 0; i < 3; i++)
    if (!projections[i]) import_invalid(im, "query, key or value is missing");
}

/* Adds parts of the bias, in the order of q, k and v, to those of rank 3. */
static void add_biases(importer *im, value *bias, value **projections) {
  number at = number_int(0);
  for (int i = 0; i < 3 && bias && import_ok(im); i++) {
    const value *x = projections[i];
    const number width = x->rank == 3 ? x->dims[2] : number_mul(im, x->dims[1], x->dims[3]);
    const number end = number_add(im, at, width);
    if (x->rank == 3)
      projections[i] = emit_binary(im, "add", projections[i], emit_slice(im, bias, 0, at, end));
    at = end;
  }
}

static value *projected_heads(node *node, value *input, int64_t n) {
  return input && input->rank == 4 ? input : onnx_split_heads(node, input, n);
}

static void refuse_inputs(node *node, int first, int last) {
  for (int i = first; i <= last; i++)
    if (node_input(node, i)) import_unsupported(node->im, "input %d, a shared buffer", i);
}

void onnx_multi_head_attention(node *node) {
  importer *im = node->im;
  value *projections[3] = {0}, *past = node_input(node, 6), *past_value = node_input(node, 7);
  const int64_t n = node_int(node, "num_heads", 0);
  attention_call call = {.scores_kind = SCORES_NONE, .scale = node_float(node, "scale", 0)};
  refuse_inputs(node, 8, 9);
  if (node_has_output(node, 3)) import_unsupported(im, "result 3, the scores");
  read_projections(node, projections);
  if (!import_ok(im)) return;
  add_biases(im, node_input(node, 3), projections);
  call.q = projected_heads(node, projections[0], n);
  call.k = onnx_append(node, past, projected_heads(node, projections[1], n));
  call.v = onnx_append(node, past_value, projected_heads(node, projections[2], n));
  if (!call.q || !call.k || !call.v || !import_ok(im)) return;
  set_masks(node, &call, node_input(node, 4), node_input(node, 5),
            past ? past->dims[2] : number_int(0));
  node_set(node, 0, onnx_join_heads(node, onnx_attend(node, &call)));
  node_set(node, 1, call.k);
  node_set(node, 2, call.v);
}

/* ---------------------------------------------------------------- Attention */

/* Splits the joint projection (B, L, q + k + v) by the attribute qkv_hidden_sizes, or evenly. */
static void split_projection(node *node, value *input, value **projections) {
  importer *im = node->im;
  int64_t sizes[3];
  number at = number_int(0);
  if (!input) return;
  const int given = node_ints(node, "qkv_hidden_sizes", sizes, 3);
  const number third = number_floor_div(im, input->dims[2], number_int(3));
  if (given >= 0 && given != 3) import_invalid(im, "qkv_hidden_sizes has %d numbers", given);
  for (int i = 0; i < 3 && import_ok(im); i++) {
    const number end = number_add(im, at, given == 3 ? number_int(sizes[i]) : third);
    projections[i] = emit_slice(im, input, 2, at, end);
    at = end;
  }
}

/* Attends with the joint projection input. Inputs: the mask, the past (2, B, n_heads, P, dim) and
 * what is added to the scores, each of which may be NULL. */
static void attend_projection(node *node, value *input, value *mask, value *past, value *extra) {
  importer *im = node->im;
  value *projections[3] = {0};
  const int64_t n = node_int(node, "num_heads", 0);
  attention_call call = {.scores_kind = SCORES_NONE, .scale = node_float(node, "scale", 0)};
  if (node_int(node, "do_rotary", 0)) import_unsupported(im, "do_rotary");
  (void)node_int(node, "rotary_embedding_dim", 0);
  if (node_int(node, "past_present_share_buffer", 0))
    import_unsupported(im, "past_present_share_buffer");
  split_projection(node, input, projections);
  if (past && past->rank != 5) import_invalid(im, "the past has rank %d, expected 5", past->rank);
  if (!import_ok(im)) return;
  value *past_key = past ? emit_select(im, past, 0, number_int(0)) : NULL,
        *past_value = past ? emit_select(im, past, 0, number_int(1)) : NULL;
  call.q = onnx_split_heads(node, projections[0], n);
  call.k = onnx_append(node, past_key, onnx_split_heads(node, projections[1], n));
  call.v = onnx_append(node, past_value, onnx_split_heads(node, projections[2], n));
  if (!call.q || !call.k || !call.v || !import_ok(im)) return;
  set_masks(node, &call, mask, extra, past_key ? past_key->dims[2] : number_int(0));
  node_set(node, 0, onnx_join_heads(node, onnx_attend(node, &call)));
  if (!node_has_output(node, 1)) return;
  value *both[] = {emit_unsqueeze(im, call.k, 0), emit_unsqueeze(im, call.v, 0)};
  node_set(node, 1, emit_cat(im, both, 2, 0));
}

void onnx_contrib_attention(node *node) {
  importer *im = node->im;
  value *x = node_required(node, 0), *weight = node_required(node, 1), *bias = node_input(node, 2);
  refuse_inputs(node, 6, 6);
  if (x && x->rank != 3) import_invalid(im, "the input has rank %d, expected 3", x->rank);
  if (!x || !weight || !import_ok(im)) return;
  attend_projection(node, emit_matmul(im, x, weight, bias, 1, 1), node_input(node, 3),
                    node_input(node, 4), node_input(node, 5));
}

/* Inputs: input, weight, bias, input_scale, weight_scale, mask, input_zero, weight_zero, past */
void onnx_qattention(node *node) {
  const quantized x = {node_required(node, 0), node_required(node, 3), node_input(node, 6)},
                  weight = {node_required(node, 1), node_required(node, 4), node_input(node, 7)};
  value *bias = node_required(node, 2);
  value *sums = onnx_integer_product(node, &x, &weight);
  value *projection =
      emit_binary(node->im, "add", onnx_scale_product(node, sums, &x, &weight), bias);
  attend_projection(node, projection, node_input(node, 5), node_input(node, 8), NULL);
}
