/* Imports the graph of a language model as forward(tokens, position) with caches as state. */
#include "import/onnx/decoder.h"

#include <string.h>

/* ---------------------------------------------------------------- inputs that position implies */

/* The kinds of inputs besides past values, by their names in the files of transformers, optimum and
 * onnxruntime-genai. */
typedef enum input_role { TOKENS, MASK, POSITIONS, USE_CACHE, N_LOGITS, PAST, UNKNOWN } input_role;
static const struct {
  const char *name;
  input_role role;
} roles[] = {{"input_ids", TOKENS},
             {"attention_mask", MASK},
             {"position_ids", POSITIONS},
             {"use_cache_branch", USE_CACHE},
             {"num_logits_to_keep", N_LOGITS}};

static input_role role_of(const char *name) {
  for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
    if (strcmp(name, roles[i].name) == 0) return roles[i].role;
  return strncmp(name, "past", 4) == 0 ? PAST : UNKNOWN;
}

/* True for integers (batch, length), of which the batch may be 1. */
static bool is_batch(const onnx_value_info *info, clave_dtype type) {
  return (type == CLAVE_I64 || type == CLAVE_I32) && info->rank == 2 &&
         (info->dims[0].size < 0 || info->dims[0].size == 1) && info->dims[1].size < 0;
}

/* Returns the value of an input that the tokens and their position determine. The role is not PAST.
 */
static value *implied_input(importer *im, const decoder *decoder, const onnx_value_info *info,
                            value *tokens) {
  const number one = number_int(1), mask[] = {one, decoder->total},
               row[] = {one, decoder->n_tokens};
  const input_role role = role_of(info->name);
  clave_dtype type;
  if (role == UNKNOWN) {
    import_unsupported(im, "expected tokens, a mask, positions or past values");
    return NULL;
  }
  if (!onnx_dtype(info->elem_type, &type) || (role <= POSITIONS && !is_batch(info, type)) ||
      (role > POSITIONS && info->rank > 1)) {
    import_unsupported(im, role > POSITIONS ? "expected one element"
                                            : "expected integers (batch, length) of open sizes");
    return NULL;
  }
  switch (role) {
    case TOKENS:
      return emit_cast(im, tokens, type);
    case MASK:
      return emit_full(im, type, 2, mask, one); /* no token is padding */
    case POSITIONS:
      return emit_cast(im, emit_reshape(im, decoder->positions, 2, row), type);
    default: /* USE_CACHE: true; N_LOGITS: one token's */
      return value_numbers(im, type, (int)info->rank, (const int64_t[]){1}, &one);
  }
}

/* ---------------------------------------------------------------- past inputs */

/* Finds the output that is the new value of a past input: "present" instead of "past_key_values" or
 * "past". */
static const char *present_of(const onnx_graph *graph, const char *past) {
  static const char *const prefixes[] = {"past_key_values", "past"};
  for (size_t k = 0; k < 2; k++) {
    const size_t n = strlen(prefixes[k]);
    if (strncmp(past, prefixes[k], n) != 0) continue;
    for (size_t i = 0; i < graph->n_outputs; i++) {
      const char *name = graph->outputs[i].name;
      if (strncmp(name, "present", 7) == 0 && strcmp(name + 7, past + n) == 0) return name;
    }
  }
  return NULL;
}

/* The open axis besides the batch has the rows; of several it is the last but one, as in (B, n,
 * past, D). -1: none is open. */
static int decoder_rows_axis(const onnx_value_info *info) {
  int axis = -1, n_open = 0;
  for (int i = 1; i < (int)info->rank; i++) {
    if (info->dims[i].size >= 0) continue;
    axis = i;
    n_open++;
  }
  return n_open > 1 ? (int)info->rank - 2 : axis;
}

static value *declare_state(importer *im, cache *cache) {
  cache->state = emit_state(im, cache->past, cache->type, cache->rank, cache->dims);
  return cache->state;
}

/* The rows before `end` of a state. */
static value *rows_before(importer *im, const cache *cache, value *state, number end) {
  return cache->axis < 0 ? state : emit_slice(im, state, cache->axis, number_int(0), end);
}

static value *bind_past(importer *im, const decoder *decoder, const onnx_graph *graph,
                        const onnx_value_info *info, cache *cache) {
  bool is_known = true;
  *cache = (struct cache){.past = info->name, .present = present_of(graph, info->name)};
  if (!cache->present) {
    import_unsupported(im, "no output has its new value, \"present...\"");
    return NULL;
  }
  if (!info->is_tensor || !onnx_dtype(info->elem_type, &cache->type) || info->rank < 2 ||
      info->rank > CLAVE_MAX_RANK || (info->dims[0].size >= 0 && info->dims[0].size != 1)) {
    import_unsupported(im, "expected a tensor (batch, ...) of batch 1");
    return NULL;
  }
  cache->rank = (int)info->rank;
  cache->axis = decoder_rows_axis(info);
  for (int i = 0; i < cache->rank; i++) {
    cache->is_open[i] = i && i != cache->axis && info->dims[i].size < 0;
    cache->dims[i] = number_int(i ? info->dims[i].size : 1);
    is_known = is_known && !cache->is_open[i];
  }
  if (cache->axis >= 0) cache->dims[cache->axis] = decoder->context;
  if (is_known) {
    cache->before = rows_before(im, cache, declare_state(im, cache), decoder->first);
  } else {
    number dims[CLAVE_MAX_RANK];
    memcpy(dims, cache->dims, sizeof dims);
    dims[cache->axis] = decoder->first;
    cache->before = value_new(im, cache->type, cache->rank, dims);
  }
  return cache->before;
}

/* ---------------------------------------------------------------- the method's inputs */

/* Reads the position as a number. llm/state.c knows rows that are written from it on by its name.
 */
static number decoder_read_position(importer *im, value *position, int64_t max_context) {
  const number first = number_new(im, "position", NUMBER_INT, 0, max_context - 1);
  if (!emit_prepare(im, position)) return first;
  clave_builder_op(im->builder, "Item", im->node);
  emit_set_tensor(im, "x", position);
  clave_builder_set_value(im->builder, "out", first.id);
  return first;
}

static value *declare_method(importer *im, decoder *decoder, int64_t max_context) {
  const number one = number_int(1);
  decoder->n_tokens = number_new(im, "length", NUMBER_INT, 1, max_context);
  decoder->context = number_new(im, "context", NUMBER_INT, 1, max_context);
  value *tokens = emit_input(im, "tokens", CLAVE_I64, 2, (const number[]){one, decoder->n_tokens});
  decoder->position = emit_input(im, "position", CLAVE_I64, 0, NULL);
  decoder->positions =
      emit_binary(im, "add", decoder->position, emit_arange_tensor(im, decoder->n_tokens));
  decoder->first = decoder_read_position(im, decoder->position, max_context);
  decoder->total = number_add(im, decoder->first, decoder->n_tokens);
  decoder->total.no_sign = true;
  return tokens;
}

/* True if the token ids are an input, and not an initializer. */
static bool has_tokens(const onnx_graph *graph, const onnx_import *onnx) {
  for (size_t i = 0; i < graph->n_inputs; i++) {
    const onnx_binding *bound = onnx_lookup(onnx, graph->inputs[i].name);
    if (role_of(graph->inputs[i].name) == TOKENS)
      return !bound || !bound->value || !value_is_constant(bound->value);
  }
  return false;
}

void decoder_bind_inputs(onnx_import *onnx, const onnx_graph *graph, int64_t max_context) {
  importer *im = onnx->im;
  decoder *decoder = import_alloc(im, 1, sizeof *decoder);
  struct cache *caches = import_alloc(im, graph->n_inputs + 1, sizeof *caches);
  if (!decoder || !caches) return;
  im->node = "tokens";
  value *tokens = declare_method(im, decoder, max_context);
  (void)import_end_node(im, "input");
  decoder->caches = caches;
  onnx->decoder = decoder;
  for (size_t i = 0; i < graph->n_inputs && !im->fatal; i++) {
    const onnx_value_info *info = &graph->inputs[i];
    if (onnx_lookup(onnx, info->name)) continue; /* an initializer, too */
    im->node = info->name;
    value *input = role_of(info->name) == PAST
                       ? bind_past(im, decoder, graph, info, &caches[decoder->n_caches++])
                       : implied_input(im, decoder, info, tokens);
    if (!import_end_node(im, "input")) input = NULL;
    const input_role role = role_of(info->name);
    if (input && (role == TOKENS || role == POSITIONS)) input->is_of_tokens = true;
    if (!im->fatal) onnx_bind(onnx, info->name, input);
  }
  if (!im->fatal && !im->n_reported && !has_tokens(graph, onnx))
    im->fatal = UNSUPPORTED("not a language model: expected an input \"input_ids\"");
  if (!im->fatal && !decoder->n_caches)
    im->fatal = UNSUPPORTED("not a language model: expected inputs \"past...\" for earlier tokens");
}

/* ---------------------------------------------------------------- caches in the graph */

cache *decoder_cache_of(const onnx_import *onnx, const value *past) {
  const decoder *decoder = onnx->decoder;
  if (import_scope(onnx->im)) return NULL; /* a body cannot write state */
  for (size_t i = 0; decoder && past && i < decoder->n_caches; i++) {
    cache *cache = &decoder->caches[i];
    if (cache->before == past && cache->axis >= 0 && !cache->after) return cache;
  }
  return NULL;
}

value *decoder_state(importer *im, cache *cache, const value *rows) {
  if (cache->state || !rows || !import_ok(im)) return cache->state;
  for (int i = 0; i < cache->rank; i++) {
    if (!cache->is_open[i]) continue;
    if (rows->dims[i].id) {
      import_unsupported(im, "a cache whose size depends on the run");
      return NULL;
    }
    cache->dims[i] = cache->before->dims[i] = rows->dims[i];
  }
  return declare_state(im, cache);
}

value *decoder_set_present(const decoder *decoder, importer *im, cache *cache, value *written) {
  cache->after = rows_before(im, cache, written, decoder->total);
  if (written) clave_builder_update(im->builder, cache->state->tensor, written->tensor);
  return cache->after;
}

value *decoder_append(const decoder *decoder, importer *im, cache *cache, value *rows) {
  if (!rows || !import_ok(im)) return NULL;
  if (rows->type != cache->type || rows->rank != cache->rank) {
    import_unsupported(im, "new rows of rank %d and dtype %s for a cache of rank %d and dtype %s",
                       rows->rank, clave_dtype_name(rows->type), cache->rank,
                       clave_dtype_name(cache->type));
    return NULL;
  }
  value *state = decoder_state(im, cache, rows);
  if (!state || !import_ok(im)) return NULL;
  number_check(im, NUMBER_EQ, rows->dims[cache->axis], decoder->n_tokens,
               "new rows that are not one for each token");
  return decoder_set_present(decoder, im, cache,
                             emit_slice_update(im, state, rows, cache->axis, decoder->first));
}

value *decoder_cat(const onnx_import *onnx, value *past, value *rows, int axis) {
  importer *im = onnx->im;
  cache *cache = decoder_cache_of(onnx, past);
  if (cache && axis == cache->axis) return decoder_append(onnx->decoder, im, cache, rows);
  return emit_cat(im, (value *[]){past, rows}, 2, axis);
}

/* ---------------------------------------------------------------- rows of tokens */

/* How an op treats the rows of tokens, which come before the last axis. */
typedef enum row_rule { SEPARATE, LAST_AXIS, OF_TABLE, BY_CONSTANT, IN_ROWS } row_rule;
static const struct {
  const char *op;
  row_rule rule;
} row_rules[] = {{"Add", SEPARATE},
                 {"BiasGelu", SEPARATE},
                 {"Cast", SEPARATE},
                 {"Clip", SEPARATE},
                 {"Concat", LAST_AXIS},
                 {"Div", SEPARATE},
                 {"FastGelu", SEPARATE},
                 {"Gather", OF_TABLE},
                 {"GatherBlockQuantized", OF_TABLE},
                 {"Gelu", SEPARATE},
                 {"GroupQueryAttention", SEPARATE},
                 {"Identity", SEPARATE},
                 {"LayerNormalization", LAST_AXIS},
                 {"MatMul", BY_CONSTANT},
                 {"MatMulNBits", SEPARATE},
                 {"MoE", SEPARATE},
                 {"Mul", SEPARATE},
                 {"QMoE", SEPARATE},
                 {"QuickGelu", SEPARATE},
                 {"RMSNormalization", LAST_AXIS},
                 {"Relu", SEPARATE},
                 {"Reshape", IN_ROWS},
                 {"RotaryEmbedding", SEPARATE},
                 {"Shape", SEPARATE},
                 {"Sigmoid", SEPARATE},
                 {"SimplifiedLayerNormalization", LAST_AXIS},
                 {"SkipLayerNormalization", SEPARATE},
                 {"SkipSimplifiedLayerNormalization", SEPARATE},
                 {"Softmax", LAST_AXIS},
                 {"Split", LAST_AXIS},
                 {"Sub", SEPARATE},
                 {"SwiGLU", SEPARATE},
                 {"Swish", SEPARATE},
                 {"Tanh", SEPARATE}};

static bool keeps_rows(node *node) {
  for (size_t i = 0; i < sizeof row_rules / sizeof *row_rules; i++) {
    if (strcmp(node->op, row_rules[i].op) != 0) continue;
    const value *input = node_input(node, 0);
    const int64_t axis = node_int(node, "axis", strcmp(node->op, "Split") == 0 ? 0 : -1);
    switch (row_rules[i].rule) {
      case LAST_AXIS:
        return axis == -1 || (input && axis == input->rank - 1);
      case OF_TABLE:
        return input && !input->is_of_tokens;
      case BY_CONSTANT:
        return node_input(node, 1) && !node_input(node, 1)->is_of_tokens;
      case IN_ROWS: /* the last axis stays within a token's row */
        return node->outputs[0] && node->outputs[0]->rank > 0 &&
               !node->outputs[0]->dims[node->outputs[0]->rank - 1].id;
      default:
        return true;
    }
  }
  return false;
}

void decoder_note_rows(node *node) {
  bool of_tokens = false;
  for (int i = 0; i < node->n_inputs; i++)
    of_tokens = of_tokens || (node->inputs[i] && node->inputs[i]->is_of_tokens);
  if (!of_tokens) return;
  decoder *decoder = node->onnx->decoder;
  decoder->mixes_tokens = decoder->mixes_tokens || !keeps_rows(node);
  for (int i = 0; i < node->n_outputs; i++)
    if (node->outputs[i] && !value_is_constant(node->outputs[i]))
      node->outputs[i]->is_of_tokens = true;
}

/* ---------------------------------------------------------------- outputs */

/* Returns the last row of logits (1, L, V) as (1, 1, V). */
static value *decoder_last_token(importer *im, value *logits) {
  if (logits->rank != 3 || number_is(logits->dims[1], 1) || !emit_prepare(im, logits))
    return logits;
  value *out = emit_begin_move(im, "Slice", logits, 3,
                               (const number[]){logits->dims[0], number_int(1), logits->dims[2]});
  clave_builder_set_int(im->builder, "axis", 1);
  clave_builder_set_int(im->builder, "start", -1);
  return out;
}

static void add_logits(onnx_import *onnx, const onnx_graph *graph) {
  importer *im = onnx->im;
  const onnx_binding *logits = NULL;
  for (size_t i = 0; i < graph->n_outputs; i++)
    if (strcmp(graph->outputs[i].name, "logits") == 0) logits = onnx_lookup(onnx, "logits");
  im->node = "logits";
  if (!logits)
    import_unsupported(im, "a language model needs this output");
  else if (logits->value)
    emit_output(im, "logits", decoder_last_token(im, logits->value));
  (void)import_end_node(im, "output");
}

static void update_state(onnx_import *onnx, cache *cache) {
  importer *im = onnx->im;
  const onnx_binding *present = onnx_lookup(onnx, cache->present);
  im->node = cache->present;
  if (!present)
    import_invalid(im, "the result of no node");
  else if (cache->axis >= 0 && present->value != cache->after)
    import_unsupported(im, "a present value that is not its past value with new rows");
  else if (cache->axis < 0 && present->value &&
           (present->value->type != cache->type || present->value->rank != cache->rank))
    import_unsupported(im, "a present value of another rank or dtype than its past value");
  else if (cache->axis < 0 && present->value && present->value != cache->before) {
    value *after = emit_copy(im, emit_reshape(im, present->value, cache->rank, cache->dims));
    if (after) clave_builder_update(im->builder, cache->state->tensor, after->tensor);
  }
  (void)import_end_node(im, "output");
}

void decoder_add_outputs(onnx_import *onnx, const onnx_graph *graph) {
  add_logits(onnx, graph);
  for (size_t i = 0; i < onnx->decoder->n_caches && !onnx->im->fatal && !onnx->im->n_reported; i++)
    if (onnx->decoder->caches[i].present) update_state(onnx, &onnx->decoder->caches[i]);
}
