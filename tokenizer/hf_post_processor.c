/* tokenizer.json's post-processors: what encode(add_special_tokens=True) puts before and behind the
 * ids of one text. */
#include <string.h>

#include "tokenizer/hf.h"

enum { FRAME_MAX = 64 }; /* ids on a side */

typedef struct post_processor {
  uint32_t prefix[FRAME_MAX], suffix[FRAME_MAX];
  size_t n_prefix, n_suffix;
} post_processor;

static clave_status insert(uint32_t *list, size_t *n, size_t at, uint32_t id) {
  if (*n == FRAME_MAX) return UNSUPPORTED("more than %d ids around a text", FRAME_MAX);
  memmove(list + at + 1, list + at, (*n - at) * sizeof *list);
  list[at] = id;
  ++*n;
  return NULL;
}

/* Puts `inner` into `outer`: a later processor wraps what the earlier one made. */
static clave_status wrap(post_processor *inner, const post_processor *outer) {
  for (size_t i = 0; i < outer->n_prefix; i++) {
    TRY(insert(inner->prefix, &inner->n_prefix, i, outer->prefix[i]));
  }
  for (size_t i = 0; i < outer->n_suffix; i++) {
    TRY(insert(inner->suffix, &inner->n_suffix, inner->n_suffix, outer->suffix[i]));
  }
  return NULL;
}

/* [token, id] */
static clave_status read_pair(const json *v, const char *key, uint32_t *id) {
  const json *pair;
  TRY(field(v, key, JSON_ARRAY, &pair));
  if (json_count(pair) != 2) return INVALID("\"%s\": expected a token and its id", key);
  return status_while(json_index(json_next(json_first(pair)), VOCAB_MAX, id), "\"%s\"", key);
}

static clave_status read_cls_sep(const json *v, int depth, post_processor *f) {
  (void)depth;
  TRY(read_pair(v, "cls", &f->prefix[0]));
  TRY(read_pair(v, "sep", &f->suffix[0]));
  f->n_prefix = f->n_suffix = 1;
  return NULL;
}

/* The ids of {"SpecialToken": {"id": name}}, which "special_tokens" has. */
static clave_status add_special(const json *tokens, const json *v, uint32_t *list, size_t *n) {
  const json *token, *ids;
  span name;
  TRY(field_text(v, "id", NULL, &name));
  TRY(field(tokens, name.data, JSON_OBJECT, &token));
  TRY(field(token, "ids", JSON_ARRAY, &ids));
  for (const json *i = json_first(ids); i; i = json_next(i)) {
    uint32_t id;
    TRY(json_index(i, VOCAB_MAX, &id));
    TRY(insert(list, n, *n, id));
  }
  return NULL;
}

static clave_status read_template(const json *v, int depth, post_processor *f) {
  const json *single, *tokens, *special;
  size_t n_texts = 0;
  (void)depth;
  TRY(field(v, "single", JSON_ARRAY, &single));
  TRY(field(v, "special_tokens", JSON_OBJECT, &tokens));
  for (const json *p = json_first(single); p; p = json_next(p)) {
    if (field_or_null(p, "Sequence")) {
      n_texts++;
      continue;
    }
    TRY(field(p, "SpecialToken", JSON_OBJECT, &special));
    TRY(add_special(tokens, special, n_texts ? f->suffix : f->prefix,
                    n_texts ? &f->n_suffix : &f->n_prefix));
  }
  return n_texts == 1 ? NULL : UNSUPPORTED("\"single\": expected one text, got %zu", n_texts);
}

static clave_status read_nothing(const json *v, int depth, post_processor *f) {
  (void)v;
  (void)depth;
  (void)f;
  return NULL;
}

static clave_status read_sequence(const json *v, int depth, post_processor *f);

typedef struct part {
  const char *name;
  clave_status (*read)(const json *v, int depth, post_processor *f);
} part;
static const part parts[] = {{"TemplateProcessing", read_template},
                             {"BertProcessing", read_cls_sep},
                             {"RobertaProcessing", read_cls_sep},
                             {"ByteLevel", read_nothing}, /* it moves offsets only */
                             {"Sequence", read_sequence}};

static clave_status read_at_depth(const json *v, int depth, post_processor *f) {
  size_t index;
  if (depth > HF_MAX_DEPTH) return UNSUPPORTED("sequences nested too deeply");
  TRY(hf_find(v, parts, sizeof *parts, sizeof parts / sizeof *parts, &index));
  return status_while(parts[index].read(v, depth, f), "%s", parts[index].name);
}

static clave_status read_sequence(const json *v, int depth, post_processor *f) {
  const json *list;
  TRY(field(v, "processors", JSON_ARRAY, &list));
  for (const json *p = json_first(list); p; p = json_next(p)) {
    post_processor outer = {.n_prefix = 0};
    TRY(read_at_depth(p, depth + 1, &outer));
    TRY(wrap(f, &outer));
  }
  return NULL;
}

static clave_status keep(clave_tokenizer *t, const uint32_t *ids, size_t n, const uint32_t **out,
                         size_t *count) {
  for (size_t i = 0; i < n; i++) {
    if (!vocab_has(t->vocab, ids[i])) return INVALID("id %u is not in the vocabulary", ids[i]);
  }
  uint32_t *copy = mem_pool_alloc(t->pool, n, sizeof *copy);
  if (!copy) return status_no_memory();
  memcpy(copy, ids, n * sizeof *copy);
  *out = copy;
  *count = n;
  return NULL;
}

clave_status hf_read_post_processor(const json *v, clave_tokenizer *t) {
  post_processor f = {.n_prefix = 0};
  if (!v || json_kind_of(v) == JSON_NULL) return NULL;
  TRY(read_at_depth(v, 0, &f));
  TRY(keep(t, f.prefix, f.n_prefix, &t->prefix, &t->n_prefix));
  TRY(keep(t, f.suffix, f.n_suffix, &t->suffix, &t->n_suffix));
  if (f.n_prefix > 0) t->bos = (int32_t)f.prefix[0];
  if (f.n_suffix > 0) t->eos = (int32_t)f.suffix[f.n_suffix - 1];
  return NULL;
}
