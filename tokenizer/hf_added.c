/* The added tokens of tokenizer.json. As in the library, a token's id is its id in the vocabulary
 * or, if it is not there, the next free id. If the file has another id, the library only warns. */
#include <stdlib.h>
#include <string.h>

#include "tokenizer/byte_level.h"
#include "tokenizer/find.h"
#include "tokenizer/hf.h"

typedef struct reader {
  clave_tokenizer *tokenizer;
  added_token *list; /* in pool */
  uint32_t n_own;    /* entries of the model's vocabulary */
  uint32_t after;    /* largest id added so far + 1; 0 if none */
  bool *is_added;    /* by id, (n_ids); in pool */
  uint8_t *kinds;    /* by id, (n_ids); in pool */
  uint32_t n_ids;    /* capacity of both */
} reader;

static clave_status hf_added_read_token(const json *json, clave_tokenizer *tokenizer,
                                        added_token *out) {
  span content;
  TRY(json_expect(json, JSON_OBJECT));
  TRY(field_text(json, "content", NULL, &content));
  TRY(field_bool(json, "special", false, &out->special));
  TRY(field_bool(json, "normalized", !out->special, &out->normalized));
  TRY(field_bool(json, "lstrip", false, &out->strip_left));
  TRY(field_bool(json, "rstrip", false, &out->strip_right));
  TRY(field_bool(json, "single_word", false, &out->single_word));
  char *copy = mem_pool_strdup(tokenizer->pool, content.data, content.size);
  if (!copy) return status_no_memory();
  out->text = (span){copy, content.size};
  return NULL;
}

/* Replaces a token that occurs again. The options of the last occurrence apply, but a token that
 * was special stays special. */
static void replace_token(reader *reader, const added_token *token) {
  for (size_t i = 0; i < reader->tokenizer->n_added; i++) {
    if (reader->list[i].id != token->id) continue;
    bool special = reader->list[i].special || token->special;
    reader->list[i] = *token;
    reader->list[i].special = special;
  }
}

static clave_status hf_added_add(reader *reader, const json *json) {
  added_token token = {0};
  TRY(hf_added_read_token(json, reader->tokenizer, &token));
  if (token.text.size == 0) return NULL;
  TRY(tokenizer_find(reader->tokenizer, token.text, &token.id));
  if (token.id == VOCAB_NONE) {
    token.id = reader->after > reader->n_own ? reader->after : reader->n_own;
    if (token.id >= reader->n_ids) return INVALID("id %u is out of range", token.id);
    TRY(hf_add_piece(reader->tokenizer, token.id, token.text));
    reader->kinds[token.id] = PIECE_ADDED;
  }
  if (token.id >= reader->after) reader->after = token.id + 1;
  if (reader->is_added[token.id]) {
    replace_token(reader, &token);
  } else {
    reader->is_added[token.id] = true;
    reader->list[reader->tokenizer->n_added++] = token;
  }
  return NULL;
}

static clave_status hf_added_mark_special(clave_tokenizer *tokenizer) {
  bool *special = mem_pool_alloc(tokenizer->pool, vocab_size(tokenizer->vocab), sizeof *special);
  if (!special) return status_no_memory();
  for (size_t i = 0; i < tokenizer->n_added; i++)
    special[tokenizer->added[i].id] |= tokenizer->added[i].special;
  for (uint32_t id = 0; id < vocab_size(tokenizer->vocab);
       id++) { /* compared by text, so that all ids of equal pieces are found */
    if (!vocab_has(tokenizer->vocab, id)) continue;
    uint32_t same = tokenizer->byte_level
                        ? id
                        : vocab_find(tokenizer->vocab, vocab_piece(tokenizer->vocab, id));
    if (same != VOCAB_NONE) special[id] |= special[same];
  }
  tokenizer->special = special;
  return NULL;
}

clave_status hf_read_added(const json *value, clave_tokenizer *tokenizer, uint8_t **kinds) {
  bool has = value && json_kind_of(value) != JSON_NULL;
  uint32_t count = has ? json_count(value) : 0;
  reader reader = {.tokenizer = tokenizer, .n_ids = vocab_size(tokenizer->vocab) + count};
  if (has) TRY(json_expect(value, JSON_ARRAY));
  for (uint32_t id = 0; id < vocab_size(tokenizer->vocab); id++)
    reader.n_own += vocab_has(tokenizer->vocab, id);
  reader.list = mem_pool_alloc(tokenizer->pool, (size_t)count + 1, sizeof *reader.list);
  reader.is_added =
      mem_pool_alloc(tokenizer->pool, (size_t)reader.n_ids + 1, sizeof *reader.is_added);
  reader.kinds = mem_pool_alloc(tokenizer->pool, (size_t)reader.n_ids + 1, 1);
  if (!reader.list || !reader.is_added || !reader.kinds) return status_no_memory();
  tokenizer->added = reader.list;
  *kinds = reader.kinds;
  uint32_t at = 0;
  for (const json *e = has ? json_first(value) : NULL; e; e = json_next(e), at++) {
    TRY(status_while(hf_added_add(&reader, e), "added token %u", at));
  }
  return hf_added_mark_special(tokenizer);
}

static int hf_added_compare_shown(const void *left, const void *right) {
  const shown_token *a = left, *b = right;
  return a->id < b->id ? -1 : a->id > b->id;
}

/* Adds the text that decoding shows for a token, if it differs from the token's text. It consists
 * of bytes if byte_level. */
static clave_status add_shown(clave_tokenizer *tokenizer, const added_token *token,
                              shown_token *list) {
  text normal = {0}, bytes = {0};
  clave_status st = tokenizer->normalize->apply(tokenizer->normalize, token->text, true, &normal);
  if (!st) st = text_status(&normal);
  span range = {normal.data ? normal.data : "", normal.size};
  bool same = !st && range.size == token->text.size &&
              memcmp(range.data, token->text.data, range.size) == 0;
  if (!st && !same) {
    if (tokenizer->byte_level && byte_level_decode(range, &bytes))
      range = (span){bytes.data, bytes.size};
    char *copy = mem_pool_strdup(tokenizer->pool, range.data, range.size);
    if (!copy || bytes.failed) st = status_no_memory();
    list[tokenizer->n_shown++] = (shown_token){token->id, {copy, range.size}};
  }
  text_free(&normal);
  text_free(&bytes);
  return st;
}

clave_status hf_read_shown(clave_tokenizer *tokenizer) {
  if (!tokenizer->normalize) return NULL;
  shown_token *list = mem_pool_alloc(tokenizer->pool, tokenizer->n_added + 1, sizeof *list);
  if (!list) return status_no_memory();
  tokenizer->shown = list;
  for (size_t i = 0; i < tokenizer->n_added; i++) {
    if (tokenizer->added[i].normalized) TRY(add_shown(tokenizer, &tokenizer->added[i], list));
  }
  qsort(list, tokenizer->n_shown, sizeof *list, hf_added_compare_shown);
  return NULL;
}
