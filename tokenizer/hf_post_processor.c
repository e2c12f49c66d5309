/* The post-processors of tokenizer.json: ids that encode(add_special_tokens=True) adds before and
 * after the ids of a text. */
#include <string.h>

#include "tokenizer/hf.h"

enum { FRAME_MAX = 64 }; /* ids on each side */

typedef struct post_processor {
  uint32_t prefix[FRAME_MAX], suffix[FRAME_MAX];
  size_t n_prefix, n_suffix;
} post_processor;

static clave_status hf_post_processor_insert(uint32_t *list, size_t *count, size_t at,
                                             uint32_t id) {
  if (*count == FRAME_MAX) return UNSUPPORTED("more than %d ids around a text", FRAME_MAX);
  memmove(list + at + 1, list + at, (*count - at) * sizeof *list);
  list[at] = id;
  ++*count;
  return NULL;
}

/* Wraps `outer` around the frame `inner`: a later processor wraps the result of an earlier one. */
static clave_status hf_post_processor_wrap(post_processor *inner, const post_processor *outer) {
  for (size_t i = 0; i < outer->n_prefix; i++) {
    TRY(hf_post_processor_insert(inner->prefix, &inner->n_prefix, i, outer->prefix[i]));
  }
  for (size_t i = 0; i < outer->n_suffix; i++) {
    TRY(hf_post_processor_insert(inner->suffix, &inner->n_suffix, inner->n_suffix,
                                 outer->suffix[i]));
  }
  return NULL;
}

/* Reads [token, id]. */
static clave_status read_pair(const json *value, const char *key, uint32_t *id) {
  const json *pair;
  TRY(field(value, key, JSON_ARRAY, &pair));
  if (json_count(pair) != 2) return INVALID("\"%s\": expected a token and its id", key);
  return status_while(json_index(json_next(json_first(pair)), VOCAB_MAX, id), "\"%s\"", key);
}

static clave_status read_cls_sep(const json *json, int depth, post_processor *processor) {
  (void)depth;
  TRY(read_pair(json, "cls", &processor->prefix[0]));
  TRY(read_pair(json, "sep", &processor->suffix[0]));
  processor->n_prefix = processor->n_suffix = 1;
  return NULL;
}

/* Appends the ids of {"SpecialToken": {"id": name}}, found in "special_tokens" by name. */
static clave_status hf_post_processor_add_special(const json *tokens, const json *values,
                                                  uint32_t *list, size_t *count) {
  const json *token, *ids;
  span name;
  TRY(field_text(values, "id", NULL, &name));
  TRY(field(tokens, name.data, JSON_OBJECT, &token));
  TRY(field(token, "ids", JSON_ARRAY, &ids));
  for (const json *i = json_first(ids); i; i = json_next(i)) {
    uint32_t id;
    TRY(json_index(i, VOCAB_MAX, &id));
    TRY(hf_post_processor_insert(list, count, *count, id));
  }
  return NULL;
}

static clave_status hf_post_processor_read_template(const json *value, int depth,
                                                    post_processor *processor) {
  const json *single, *tokens, *special;
  size_t n_texts = 0;
  (void)depth;
  TRY(field(value, "single", JSON_ARRAY, &single));
  TRY(field(value, "special_tokens", JSON_OBJECT, &tokens));
  for (const json *p = json_first(single); p; p = json_next(p)) {
    if (field_or_null(p, "Sequence")) {
      n_texts++;
      continue;
    }
    TRY(field(p, "SpecialToken", JSON_OBJECT, &special));
    TRY(hf_post_processor_add_special(tokens, special,
                                      n_texts ? processor->suffix : processor->prefix,
                                      n_texts ? &processor->n_suffix : &processor->n_prefix));
  }
  return n_texts == 1 ? NULL : UNSUPPORTED("\"single\": expected one text, got %zu", n_texts);
}

static clave_status read_nothing(const json *json, int depth, post_processor *processor) {
  (void)json;
  (void)depth;
  (void)processor;
  return NULL;
}

static clave_status hf_post_processor_read_sequence(const json *json, int depth,
                                                    post_processor *processor);

typedef struct processor_type {
  const char *name;
  clave_status (*read)(const json *json, int depth, post_processor *processor);
} processor_type;
static const processor_type processor_types[] = {
    {"TemplateProcessing", hf_post_processor_read_template},
    {"BertProcessing", read_cls_sep},
    {"RobertaProcessing", read_cls_sep},
    {"ByteLevel", read_nothing}, /* only changes offsets */
    {"Sequence", hf_post_processor_read_sequence}};

static clave_status hf_post_processor_read_at_depth(const json *json, int depth,
                                                    post_processor *processor) {
  size_t index;
  if (depth > HF_MAX_DEPTH) return UNSUPPORTED("sequences are nested too deeply");
  TRY(hf_find(json, processor_types, sizeof *processor_types,
              sizeof processor_types / sizeof *processor_types, &index));
  return status_while(processor_types[index].read(json, depth, processor), "%s",
                      processor_types[index].name);
}

static clave_status hf_post_processor_read_sequence(const json *value, int depth,
                                                    post_processor *processor) {
  const json *list;
  TRY(field(value, "processors", JSON_ARRAY, &list));
  for (const json *p = json_first(list); p; p = json_next(p)) {
    post_processor outer = {.n_prefix = 0};
    TRY(hf_post_processor_read_at_depth(p, depth + 1, &outer));
    TRY(hf_post_processor_wrap(processor, &outer));
  }
  return NULL;
}

static clave_status hf_post_processor_keep(clave_tokenizer *tokenizer, const uint32_t *ids,
                                           size_t n, const uint32_t **out, size_t *count) {
  for (size_t i = 0; i < n; i++) {
    if (!vocab_has(tokenizer->vocab, ids[i]))
      return INVALID("id %u is not in the vocabulary", ids[i]);
  }
  uint32_t *copy = mem_pool_alloc(tokenizer->pool, n, sizeof *copy);
  if (!copy) return status_no_memory();
  memcpy(copy, ids, n * sizeof *copy);
  *out = copy;
  *count = n;
  return NULL;
}

clave_status hf_read_post_processor(const json *json, clave_tokenizer *tokenizer) {
  post_processor processor = {.n_prefix = 0};
  if (!json || json_kind_of(json) == JSON_NULL) return NULL;
  TRY(hf_post_processor_read_at_depth(json, 0, &processor));
  TRY(hf_post_processor_keep(tokenizer, processor.prefix, processor.n_prefix, &tokenizer->prefix,
                             &tokenizer->n_prefix));
  TRY(hf_post_processor_keep(tokenizer, processor.suffix, processor.n_suffix, &tokenizer->suffix,
                             &tokenizer->n_suffix));
  if (processor.n_prefix > 0) tokenizer->bos = (int32_t)processor.prefix[0];
  if (processor.n_suffix > 0) tokenizer->eos = (int32_t)processor.suffix[processor.n_suffix - 1];
  return NULL;
}
