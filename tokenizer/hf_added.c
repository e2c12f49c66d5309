/* tokenizer.json's added tokens. Their ids are computed as the library does, which only warns where
 * the file says something else: the vocabulary's if the token is in it, else the next free one. */
#include <stdlib.h>
#include <string.h>

#include "tokenizer/byte_level.h"
#include "tokenizer/find.h"
#include "tokenizer/hf.h"

typedef struct reader {
  clave_tokenizer *t;
  added_token *list; /* in pool */
  uint32_t n_own;    /* entries of the model's vocabulary */
  uint32_t after;    /* the largest id added so far + 1, 0: none */
  bool *is_added;    /* by id, (n_ids); in pool */
  uint8_t *kinds;    /* the same */
  uint32_t n_ids;    /* room of both */
} reader;

static clave_status read_token(const json *v, clave_tokenizer *t, added_token *out) {
  span content;
  TRY(json_expect(v, JSON_OBJECT));
  TRY(field_text(v, "content", NULL, &content));
  TRY(field_bool(v, "special", false, &out->special));
  TRY(field_bool(v, "normalized", !out->special, &out->normalized));
  TRY(field_bool(v, "lstrip", false, &out->strip_left));
  TRY(field_bool(v, "rstrip", false, &out->strip_right));
  TRY(field_bool(v, "single_word", false, &out->single_word));
  char *copy = mem_pool_strdup(t->pool, content.data, content.size);
  if (!copy) return status_no_memory();
  out->text = (span){copy, content.size};
  return NULL;
}

/* The same token again: the last one's options count, special it stays. */
static void replace_token(reader *r, const added_token *token) {
  for (size_t i = 0; i < r->t->n_added; i++) {
    if (r->list[i].id != token->id) continue;
    bool special = r->list[i].special || token->special;
    r->list[i] = *token;
    r->list[i].special = special;
  }
}

static clave_status add_token(reader *r, const json *v) {
  added_token token = {0};
  TRY(read_token(v, r->t, &token));
  if (token.text.size == 0) return NULL;
  TRY(tokenizer_find(r->t, token.text, &token.id));
  if (token.id == VOCAB_NONE) {
    token.id = r->after > r->n_own ? r->after : r->n_own;
    if (token.id >= r->n_ids) return INVALID("id %u is out of range", token.id);
    TRY(hf_add_piece(r->t, token.id, token.text));
    r->kinds[token.id] = PIECE_ADDED;
  }
  if (token.id >= r->after) r->after = token.id + 1;
  if (r->is_added[token.id]) {
    replace_token(r, &token);
  } else {
    r->is_added[token.id] = true;
    r->list[r->t->n_added++] = token;
  }
  return NULL;
}

static clave_status mark_special(clave_tokenizer *t) {
  bool *special = mem_pool_alloc(t->pool, vocab_size(t->vocab), sizeof *special);
  if (!special) return status_no_memory();
  for (size_t i = 0; i < t->n_added; i++) special[t->added[i].id] |= t->added[i].special;
  for (uint32_t id = 0; id < vocab_size(t->vocab); id++) { /* by its text: of equal pieces all */
    if (!vocab_has(t->vocab, id)) continue;
    uint32_t same = t->byte_level ? id : vocab_find(t->vocab, vocab_piece(t->vocab, id));
    if (same != VOCAB_NONE) special[id] |= special[same];
  }
  t->special = special;
  return NULL;
}

clave_status hf_read_added(const json *v, clave_tokenizer *t, uint8_t **kinds) {
  bool has = v && json_kind_of(v) != JSON_NULL;
  uint32_t count = has ? json_count(v) : 0;
  reader r = {.t = t, .n_ids = vocab_size(t->vocab) + count};
  if (has) TRY(json_expect(v, JSON_ARRAY));
  for (uint32_t id = 0; id < vocab_size(t->vocab); id++) r.n_own += vocab_has(t->vocab, id);
  r.list = mem_pool_alloc(t->pool, (size_t)count + 1, sizeof *r.list);
  r.is_added = mem_pool_alloc(t->pool, (size_t)r.n_ids + 1, sizeof *r.is_added);
  r.kinds = mem_pool_alloc(t->pool, (size_t)r.n_ids + 1, 1);
  if (!r.list || !r.is_added || !r.kinds) return status_no_memory();
  t->added = r.list;
  *kinds = r.kinds;
  uint32_t at = 0;
  for (const json *e = has ? json_first(v) : NULL; e; e = json_next(e), at++) {
    TRY(status_while(add_token(&r, e), "added token %u", at));
  }
  return mark_special(t);
}

static int compare_shown(const void *a, const void *b) {
  const shown_token *x = a, *y = b;
  return x->id < y->id ? -1 : x->id > y->id;
}

/* What a token is to the decoder, if that is not its piece; with byte_level that is bytes. */
static clave_status add_shown(clave_tokenizer *t, const added_token *token, shown_token *list) {
  text normal = {0}, bytes = {0};
  clave_status st = t->normalize->apply(t->normalize, token->text, true, &normal);
  if (!st) st = text_status(&normal);
  span s = {normal.data ? normal.data : "", normal.size};
  bool same = !st && s.size == token->text.size && memcmp(s.data, token->text.data, s.size) == 0;
  if (!st && !same) {
    if (t->byte_level && byte_level_decode(s, &bytes)) s = (span){bytes.data, bytes.size};
    char *copy = mem_pool_strdup(t->pool, s.data, s.size);
    if (!copy || bytes.failed) st = status_no_memory();
    list[t->n_shown++] = (shown_token){token->id, {copy, s.size}};
  }
  text_free(&normal);
  text_free(&bytes);
  return st;
}

clave_status hf_read_shown(clave_tokenizer *t) {
  if (!t->normalize) return NULL;
  shown_token *list = mem_pool_alloc(t->pool, t->n_added + 1, sizeof *list);
  if (!list) return status_no_memory();
  t->shown = list;
  for (size_t i = 0; i < t->n_added; i++) {
    if (t->added[i].normalized) TRY(add_shown(t, &t->added[i], list));
  }
  qsort(list, t->n_shown, sizeof *list, compare_shown);
  return NULL;
}
