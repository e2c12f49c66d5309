/* Imports the graph of a language model as forward(tokens, position) with caches as state. */
#include "import/onnx/decoder.h"

#include <string.h>

#include "import/emit_index.h"

/* ---------------------------------------------------------------- inputs that position implies */

static value *declare_input(importer *im, const char *name, int rank, const number *dims) {
  int64_t literals[2];
  clave_id ids[2];
  value *input = value_new(im, CLAVE_I64, rank, dims);
  if (!input) return NULL;
  for (int i = 0; i < rank; i++) {
    literals[i] = dims[i].i;
    ids[i] = dims[i].id;
  }
  input->tensor =
      clave_builder_tensor(im->builder, CLAVE_SLOT_INPUT, name, CLAVE_I64, rank, literals, ids);
  clave_builder_input(im->builder, name, input->tensor);
  return input;
}

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

/* Returns the value of an input that the tokens and their position determine. The role is not PAST.
 */
static value *implied_input(importer *im, const decoder *decoder, const onnx_value_info *info,
                            value *tokens) {
  const number one = number_int(1), mask[] = {one, decoder->total},
               row[] = {one, decoder->n_tokens};
  clave_dtype type;
  if (!onnx_dtype(info->elem_type, &type) || info->rank > 2) {
    import_unsupported(im, "expected a tensor of rank 2 at most");
    return NULL;
  }
  switch (role_of(info->name)) {
    case TOKENS:
      return emit_cast(im, tokens, type);
    case MASK:
      return emit_full(im, type, 2, mask, one);
    case POSITIONS:
      return emit_cast(im, emit_reshape(im, decoder->positions, 2, row), type);
    case USE_CACHE:
    case N_LOGITS:
      return value_numbers(im, type, (int)info->rank, (const int64_t[]){1, 1}, &one);
    default:
      import_unsupported(im, "a language model's input of this name");
      return NULL;
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
  int64_t literals[CLAVE_MAX_RANK];
  clave_id ids[CLAVE_MAX_RANK];
  for (int i = 0; i < cache->rank; i++) {
    literals[i] = cache->dims[i].i;
    ids[i] = cache->dims[i].id;
  }
  cache->state = value_new(im, cache->type, cache->rank, cache->dims);
  if (cache->state)
    cache->state->tensor = clave_builder_tensor(im->builder, CLAVE_SLOT_STATE, cache->past,
                                                cache->type, cache->rank, literals, ids);
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
  if (!cache->present || !info->is_tensor || !onnx_dtype(info->elem_type, &cache->type) ||
      info->rank < 2 || info->rank > CLAVE_MAX_RANK ||
      (info->dims[0].size >= 0 && info->dims[0].size != 1)) {
    import_unsupported(im, "expected a tensor (batch, ...) with an output \"present...\"");
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

static value *declare_method(importer *im, decoder *decoder, int64_t max_context) {
  const number one = number_int(1);
  decoder->n_tokens = number_new(im, "length", NUMBER_INT, 1, max_context);
  decoder->context = number_new(im, "context", NUMBER_INT, 1, max_context);
  value *tokens = declare_input(im, "tokens", 2, (const number[]){one, decoder->n_tokens});
  decoder->position = declare_input(im, "position", 0, NULL);
  decoder->positions =
      emit_binary(im, "add", decoder->position, emit_arange_tensor(im, decoder->n_tokens));
  decoder->first = emit_read_count(im, decoder->position, number_int(max_context - 1));
  decoder->total = number_add(im, decoder->first, decoder->n_tokens);
  decoder->total.no_sign = true;
  return tokens;
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
    if (!im->fatal) onnx_bind(onnx, info->name, input);
  }
  if (!im->fatal && !decoder->n_caches)
    im->fatal = UNSUPPORTED("not a language model: expected inputs \"past...\" for earlier tokens");
}

/* ---------------------------------------------------------------- caches in the graph */

cache *decoder_cache_of(const onnx_import *onnx, const value *past) {
  const decoder *decoder = onnx->decoder;
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
  value *state = decoder_state(im, cache, rows);
  if (!state || !rows || !import_ok(im)) return NULL;
  if (rows->type != cache->type || rows->rank != cache->rank) {
    import_unsupported(im, "new rows of rank %d and dtype %s for a cache of rank %d and dtype %s",
                       rows->rank, clave_dtype_name(rows->type), cache->rank,
                       clave_dtype_name(cache->type));
    return NULL;
  }
  return decoder_set_present(decoder, im, cache,
                             emit_slice_update(im, state, rows, cache->axis, decoder->first));
}

value *decoder_cat(const onnx_import *onnx, value *past, value *rows, int axis) {
  importer *im = onnx->im;
  cache *cache = decoder_cache_of(onnx, past);
  if (cache && axis == cache->axis && !import_scope(im))
    return decoder_append(onnx->decoder, im, cache, rows);
  return emit_cat(im, (value *[]){past, rows}, 2, axis);
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
  const char *name = graph->outputs[0].name;
  for (size_t i = 0; i < graph->n_outputs; i++)
    if (strcmp(graph->outputs[i].name, "logits") == 0) name = "logits";
  im->node = name;
  const onnx_binding *logits = onnx_lookup(onnx, name);
  if (!logits)
    import_invalid(im, "the result of no node");
  else if (logits->value)
    emit_output(im, name, decoder_last_token(im, logits->value));
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
