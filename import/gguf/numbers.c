/* Reads the hyperparameters of a file. */
#include "import/gguf/numbers.h"

#include <math.h>

enum {
  MAX_LAYERS = 10000,
  MAX_WIDTH = 1 << 20,
  MAX_HEAD = 1 << 16,
  MAX_TOKENS = INT32_MAX,
  MAX_EXPERTS = 65536,
  MAX_TAPS = 64
};

static clave_status read_architecture(gguf_file *file, const gguf_architecture **out) {
  span name = {"", 0};
  const char *known;
  TRY(gguf_need(file, "general.architecture"));
  TRY(gguf_read_text(file, "general.architecture", &name));
  *out = gguf_find_architecture(file->im, name, &known);
  if (!*out)
    return UNSUPPORTED("architecture: expected one of %s, got %s", known,
                       gguf_shown(file->im, name));
  file->architecture = (*out)->name;
  return NULL;
}

/* ---------------------------------------------------------------- single numbers */

static clave_status numbers_read_needed(gguf_file *file, const char *name, int64_t least,
                                        int64_t most, int64_t *out) {
  const char *key = gguf_own(file, name);
  TRY(gguf_need(file, key));
  return gguf_read_integer(file, key, least, most, out);
}

/* The elements of an array that has one for each layer, also for those that are not used. */
static int64_t all_layers(const gguf_numbers *numbers) {
  return numbers->n_layers + numbers->n_predicting;
}

/* Reads a number that holds for all layers: the elements of an array must be equal, or 0 for layers
 * without attention if `least` is 0. */
static clave_status numbers_read_same(gguf_file *file, const char *name,
                                      const gguf_numbers *numbers, int64_t least, int64_t *out) {
  double found = 0;
  const gguf_key *array;
  const char *key = gguf_own(file, name);
  if (!gguf_is_array(file, key)) return gguf_read_integer(file, key, least, MAX_WIDTH, out);
  TRY(gguf_read_array(file, key, GGUF_INTEGERS, all_layers(numbers), &array));
  for (int64_t i = 0; i < numbers->n_layers; i++) {
    const double own = gguf_element(array, (uint64_t)i);
    if (i && own != found && (least || (own != 0 && found != 0)))
      return UNSUPPORTED("key '%s' differs between layers, which is not supported", key);
    if (!i || own != 0) found = own;
  }
  *out = (int64_t)found;
  if (found >= (double)least && found <= MAX_WIDTH) return NULL;
  return INVALID("key '%s': expected %lld to %d for each layer, got %.0f", key, (long long)least,
                 MAX_WIDTH, found);
}

/* ---------------------------------------------------------------- experts */

static clave_status numbers_read_gating(gguf_file *file, gguf_numbers *numbers) {
  const char *key = gguf_own(file, "expert_gating_func");
  int64_t gating = 0;
  TRY(gguf_read_integer(file, key, 0, MAX_TOKENS, &gating));
  const gguf_gating own = numbers->architecture->gating;
  numbers->gating = gating ? (gguf_gating)gating : own ? own : GATING_SOFTMAX;
  if (numbers->gating <= GATING_CHOSEN) return NULL;
  return UNSUPPORTED(
      "key '%s': expected 1 (softmax), 2 (sigmoid) or 3 (softmax of the chosen), got %lld", key,
      (long long)gating);
}

/* The tensors have the sizes of experts, and the layers that have experts. */
static clave_status numbers_read_experts(gguf_file *file, gguf_numbers *numbers) {
  int64_t groups = 0;
  TRY(gguf_read_integer(file, gguf_own(file, "expert_count"), 0, MAX_EXPERTS, &numbers->n_experts));
  if (numbers->n_experts <= 1) numbers->n_experts = 0; /* as in llama.cpp */
  if (!numbers->n_experts) return NULL;
  if (!numbers->architecture->has_experts)
    return UNSUPPORTED("a mixture of experts is not supported for %s", file->architecture);
  TRY(gguf_need(file, gguf_own(file, "expert_used_count")));
  TRY(numbers_read_same(file, "expert_used_count", numbers, 1, &numbers->n_used));
  if (numbers->n_used > numbers->n_experts)
    return INVALID("key '%s': expected 1 to %lld, got %lld", gguf_own(file, "expert_used_count"),
                   (long long)numbers->n_experts, (long long)numbers->n_used);
  TRY(gguf_read_integer(file, gguf_own(file, "expert_group_count"), 0, MAX_EXPERTS, &groups));
  if (groups > 1) return UNSUPPORTED("a choice among groups of experts is not supported");
  TRY(numbers_read_gating(file, numbers));
  numbers->normalizes_shares = numbers->architecture->normalizes_shares;
  TRY(gguf_read_flag(file, gguf_own(file, "expert_weights_norm"), &numbers->normalizes_shares));
  numbers->shares_scale = 1;
  return gguf_read_number(file, gguf_own(file, "expert_weights_scale"), &numbers->shares_scale);
}

/* ---------------------------------------------------------------- windows */

static clave_status numbers_read_windows(gguf_file *file, gguf_numbers *numbers) {
  const gguf_key *has = NULL;
  int64_t window = numbers->architecture->window, pattern = numbers->architecture->pattern;
  const char *key = gguf_own(file, "attention.sliding_window");
  TRY(gguf_read_integer(file, key, 0, MAX_TOKENS, &window));
  if (window && !numbers->architecture->has_windows)
    return UNSUPPORTED("key '%s' is %lld: a window is not supported for %s", key, (long long)window,
                       file->architecture);
  key = gguf_own(file, "attention.sliding_window_pattern");
  if (gguf_is_array(file, key))
    TRY(gguf_read_array(file, key, GGUF_FLAGS, all_layers(numbers), &has));
  else
    TRY(gguf_read_integer(file, key, 0, MAX_TOKENS, &pattern));
  numbers->windows =
      mem_pool_alloc(file->im->pool, (size_t)numbers->n_layers, sizeof *numbers->windows);
  if (!numbers->windows) return status_no_memory();
  for (int64_t i = 0; i < numbers->n_layers; i++) {
    const bool local =
        has ? gguf_element(has, (uint64_t)i) != 0 : pattern == 0 || (i + 1) % pattern != 0;
    numbers->windows[i] = local ? window : 0;
    numbers->has_local = numbers->has_local || numbers->windows[i] > 0;
  }
  return NULL;
}

/* ---------------------------------------------------------------- RoPE */

/* Reads the kind of scaling. Without that key, other keys and tensors imply it: llama.cpp's
 * converter writes no name with Phi-3's factors. */
static clave_status read_kind_of_rope(gguf_file *file, rope_kind *out) {
  static const char *const names[] = {"none", "linear", "yarn", "longrope"};
  span name = {NULL, 0};
  TRY(gguf_read_text(file, gguf_own(file, "rope.scaling.type"), &name));
  if (!name.data) {
    const bool scaled = gguf_has(file, gguf_own(file, "rope.scale_linear")) ||
                        gguf_has(file, gguf_own(file, "rope.scaling.factor"));
    *out = gguf_find_tensor(file, "rope_factors_long.weight") ? ROPE_LONG
           : scaled                                           ? ROPE_LINEAR
                                                              : ROPE_NONE;
    return NULL;
  }
  for (int i = 0; i < 4; i++) {
    *out = (rope_kind)i;
    if (span_is(name, names[i])) return NULL;
  }
  return UNSUPPORTED("rope scaling: expected one of none, linear, yarn, longrope, got %s",
                     gguf_shown(file->im, name));
}

static clave_status numbers_read_rope(gguf_file *file, const gguf_numbers *numbers,
                                      gguf_rope *rope) {
  *rope = (gguf_rope){.dims = numbers->key_size,
                      .base = 10000,
                      .factor = 1,
                      .original = numbers->context,
                      .beta_fast = 32,
                      .beta_slow = 1,
                      .exact = numbers->architecture->exact_yarn};
  const char *key = gguf_own(file, "rope.dimension_count");
  TRY(gguf_read_integer(file, key, 2, MAX_TOKENS, &rope->dims));
  if (numbers->has_rope && (rope->dims % 2 || rope->dims > numbers->key_size))
    return INVALID("key '%s': expected an even number up to %lld, got %lld", key,
                   (long long)numbers->key_size, (long long)rope->dims);
  TRY(read_kind_of_rope(file, &rope->kind));
  key = gguf_own(file, "rope.freq_base");
  TRY(gguf_read_number(file, key, &rope->base));
  if (rope->base <= 1)
    return INVALID("key '%s': expected more than 1, got %s", key,
                   gguf_number_text(file->im, rope->base));
  TRY(gguf_read_number(file, gguf_own(file, "rope.scale_linear"), &rope->factor));
  TRY(gguf_read_number(file, gguf_own(file, "rope.scaling.factor"), &rope->factor));
  TRY(gguf_read_integer(file, gguf_own(file, "rope.scaling.original_context_length"), 2, MAX_TOKENS,
                        &rope->original));
  TRY(gguf_read_number(file, gguf_own(file, "rope.scaling.attn_factor"), &rope->magnitude));
  TRY(gguf_read_number(file, gguf_own(file, "rope.scaling.yarn_beta_fast"), &rope->beta_fast));
  return gguf_read_number(file, gguf_own(file, "rope.scaling.yarn_beta_slow"), &rope->beta_slow);
}

/* Reads the RoPE of layers with a window, which is not scaled if it has its own base. */
static clave_status read_local_rope(gguf_file *file, const gguf_numbers *numbers,
                                    gguf_rope *local) {
  const double own = numbers->architecture->local_base;
  *local = numbers->rope;
  if (numbers->architecture->plain_local)
    *local = (gguf_rope){
        .dims = numbers->rope.dims, .base = own > 0 ? own : numbers->rope.base, .factor = 1};
  return gguf_read_number(file, gguf_own(file, "rope.freq_base_swa"), &local->base);
}

/* ---------------------------------------------------------------- all numbers */

static clave_status numbers_read_recurrence(gguf_file *file, gguf_numbers *numbers) {
  const gguf_recurrence kind = numbers->architecture->recurrence;
  gguf_scan *scan = &numbers->scan;
  if (kind == RECURRENCE_CONV)
    return numbers_read_needed(file, "shortconv.l_cache", 2, MAX_TAPS, &numbers->conv_taps);
  if (kind == RECURRENCE_NONE) return NULL;
  TRY(numbers_read_needed(file, "ssm.conv_kernel", 2, MAX_TAPS, &numbers->conv_taps));
  TRY(numbers_read_needed(file, "ssm.inner_size", 1, MAX_WIDTH, &scan->inner));
  TRY(numbers_read_needed(file, "ssm.state_size", 1, MAX_WIDTH, &scan->state));
  TRY(numbers_read_needed(file, "ssm.time_step_rank", 1, MAX_WIDTH, &scan->heads));
  TRY(numbers_read_needed(file, "ssm.group_count", 1, MAX_WIDTH, &scan->groups));
  if (scan->inner % scan->heads || scan->heads % scan->groups)
    return INVALID("%lld elements cannot be split into %lld heads of %lld groups",
                   (long long)scan->inner, (long long)scan->heads, (long long)scan->groups);
  return NULL;
}

static clave_status numbers_read_sizes(gguf_file *file, gguf_numbers *numbers) {
  TRY(numbers_read_needed(file, "block_count", 1, MAX_LAYERS, &numbers->n_layers));
  TRY(gguf_read_integer(file, gguf_own(file, "nextn_predict_layers"), 0, numbers->n_layers - 1,
                        &numbers->n_predicting));
  numbers->n_layers -= numbers->n_predicting;
  TRY(numbers_read_needed(file, "embedding_length", 1, MAX_WIDTH, &numbers->size));
  TRY(numbers_read_needed(file, "context_length", 2, MAX_TOKENS, &numbers->context));
  return numbers_read_recurrence(file, numbers);
}

/* Reads the sizes of attention and of feed-forward networks. */
static clave_status numbers_read_widths(gguf_file *file, gguf_numbers *numbers) {
  const gguf_recurrence kind = numbers->architecture->recurrence;
  const int64_t least = kind == RECURRENCE_SCAN ? 0 : 1;
  TRY(gguf_need(file, gguf_own(file, "feed_forward_length")));
  TRY(numbers_read_same(file, "feed_forward_length", numbers, least, &numbers->n_hidden));
  TRY(gguf_need(file, gguf_own(file, "attention.head_count")));
  TRY(numbers_read_same(file, "attention.head_count", numbers, least, &numbers->n_heads));
  if (!numbers->n_heads) return NULL;
  numbers->n_kv = numbers->n_heads;
  TRY(numbers_read_same(file, "attention.head_count_kv", numbers, kind == RECURRENCE_NONE,
                        &numbers->n_kv));
  if (!numbers->n_kv || numbers->n_heads % numbers->n_kv)
    return INVALID("%lld heads of queries cannot share %lld heads of keys",
                   (long long)numbers->n_heads, (long long)numbers->n_kv);
  numbers->key_size = numbers->value_size =
      numbers->size / numbers->n_heads ? numbers->size / numbers->n_heads : 1;
  TRY(gguf_read_integer(file, gguf_own(file, "attention.key_length"), 1, MAX_HEAD,
                        &numbers->key_size));
  return gguf_read_integer(file, gguf_own(file, "attention.value_length"), 1, MAX_HEAD,
                           &numbers->value_size);
}

/* Reads factors of embeddings, residuals and logits. */
static clave_status numbers_read_scales(gguf_file *file, gguf_numbers *numbers) {
  const gguf_architecture *architecture = numbers->architecture;
  const char *logits = gguf_own(file, "logit_scale");
  numbers->has_rope =
      numbers->n_heads && !architecture->learned_positions && architecture->no_rope_step != 1;
  numbers->residual_scale = numbers->logits_scale = 1;
  numbers->embedding_scale = architecture->scaled_embeddings ? sqrt((double)numbers->size) : 1;
  if (architecture->has_scales) {
    TRY(gguf_read_number(file, gguf_own(file, "embedding_scale"), &numbers->embedding_scale));
    TRY(gguf_read_number(file, gguf_own(file, "residual_scale"), &numbers->residual_scale));
    TRY(gguf_read_flag(file, gguf_own(file, "rope.scaling.finetuned"), &numbers->has_rope));
  }
  if (!architecture->has_scales && !architecture->scales_logits) return NULL;
  TRY(gguf_need(file, logits));
  TRY(gguf_read_number(file, logits, &numbers->logits_scale));
  if (architecture->has_scales) numbers->logits_scale = 1 / numbers->logits_scale;
  return NULL;
}

static clave_status numbers_read_factors(gguf_file *file, gguf_numbers *numbers) {
  const gguf_architecture *architecture = numbers->architecture;
  const bool is_wide = architecture->wide && numbers->n_layers == architecture->wide;
  const double scaled_by =
      is_wide ? (double)numbers->size / (double)numbers->n_heads : (double)numbers->key_size;
  const bool is_layer = architecture->norm == NORM_LAYER;
  const char *of_layer = gguf_own(file, "attention.layer_norm_epsilon"),
             *of_rms = gguf_own(file, "attention.layer_norm_rms_epsilon"),
             *eps = is_layer ? of_layer : of_rms, *other = is_layer ? of_rms : of_layer;
  numbers->scale = pow(scaled_by, -0.5);
  numbers->attention_cap = architecture->attention_cap;
  numbers->logits_cap = architecture->logits_cap;
  if (!gguf_has(file, other)) TRY(gguf_need(file, eps));
  TRY(gguf_read_number(file, other, &numbers->eps)); /* some files have both keys */
  TRY(gguf_read_number(file, eps, &numbers->eps));
  TRY(gguf_read_number(file, gguf_own(file, "attention.scale"), &numbers->scale));
  TRY(gguf_read_number(file, gguf_own(file, "attn_logit_softcapping"), &numbers->attention_cap));
  TRY(gguf_read_number(file, gguf_own(file, "final_logit_softcapping"), &numbers->logits_cap));
  return numbers_read_scales(file, numbers);
}

static clave_status numbers_read_block(gguf_file *file, gguf_numbers *numbers) {
  const gguf_block block = numbers->architecture->block;
  const char *key = gguf_own(file, "use_parallel_residual");
  bool causal = true, parallel = false;
  TRY(gguf_read_flag(file, gguf_own(file, "attention.causal"), &causal));
  if (!causal) return UNSUPPORTED("attention that also sees later tokens is not supported");
  if (block == BLOCK_BY_KEY) TRY(gguf_need(file, key));
  if (block == BLOCK_BY_KEY || block == BLOCK_BY_NORM) TRY(gguf_read_flag(file, key, &parallel));
  numbers->is_parallel =
      block == BLOCK_PARALLEL || (block == BLOCK_BY_KEY && parallel) ||
      (block == BLOCK_BY_NORM && !gguf_find_tensor(file, "blk.0.ffn_norm.weight"));
  return NULL;
}

clave_status gguf_read_numbers(gguf_file *file, gguf_numbers *out) {
  *out = (gguf_numbers){0};
  TRY(read_architecture(file, &out->architecture));
  TRY(numbers_read_block(file, out));
  TRY(numbers_read_sizes(file, out));
  TRY(numbers_read_experts(file, out));
  TRY(numbers_read_widths(file, out));
  TRY(numbers_read_factors(file, out));
  TRY(numbers_read_windows(file, out));
  TRY(numbers_read_rope(file, out, &out->rope));
  TRY(read_local_rope(file, out, &out->local));
  return gguf_check_keys(file);
}
