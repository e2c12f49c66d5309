/* Tokens with their types and scores, and the ids that keys name. */
#include "import/gguf/vocabulary.h"

#include <math.h>

#include "base/hash.h"

static clave_status vocabulary_read_tokens(gguf_file *file, vocabulary *out) {
  const gguf_key *array;
  TRY(gguf_need(file, GGUF_TOKENIZER "tokens"));
  TRY(gguf_read_array(file, GGUF_TOKENIZER "tokens", GGUF_TEXTS, -1, &array));
  if ((uint64_t)out->count != array->count)
    return INVALID("has %llu tokens, and token_embd.weight has rows for %lld",
                   (unsigned long long)array->count, (long long)out->count);
  out->tokens = mem_pool_alloc(file->im->pool, (size_t)out->count, sizeof *out->tokens);
  if (!out->tokens) return status_no_memory();
  const uint8_t *at = array->data;
  for (int64_t i = 0; i < out->count; i++) {
    span *token = &out->tokens[i];
    TRY(gguf_next_text(file, array, (uint64_t)i, &at, token));
    token->data = mem_pool_strdup(file->im->pool, token->data, token->size);
    if (!token->data) return status_no_memory();
  }
  return NULL;
}

static clave_status vocabulary_read_types(gguf_file *file, vocabulary *out) {
  const gguf_key *array;
  TRY(gguf_read_array(file, GGUF_TOKENIZER "token_type", GGUF_INTEGERS, out->count, &array));
  out->types = mem_pool_alloc(file->im->pool, (size_t)out->count, 1);
  if (!out->types) return status_no_memory();
  for (int64_t i = 0; i < out->count; i++) {
    const double type = array ? gguf_element(array, (uint64_t)i) : TOKEN_NORMAL;
    if (!(type >= TOKEN_NORMAL && type <= TOKEN_BYTE))
      return INVALID("token %lld: expected type %d to %d, got %.0f", (long long)i, TOKEN_NORMAL,
                     TOKEN_BYTE, type);
    out->types[i] = (uint8_t)type;
  }
  return NULL;
}

static clave_status vocabulary_read_scores(gguf_file *file, vocabulary *out) {
  static const double largest = 3.4e38;
  const gguf_key *array;
  TRY(gguf_read_array(file, GGUF_TOKENIZER "scores", GGUF_NUMBERS, out->count, &array));
  out->scores = mem_pool_alloc(file->im->pool, (size_t)out->count, sizeof *out->scores);
  if (!out->scores) return status_no_memory();
  for (int64_t i = 0; array && i < out->count; i++) {
    const double score = gguf_element(array, (uint64_t)i);
    if (fabs(score) > largest)
      return INVALID("token %lld: expected a score that f32 can hold, got %g", (long long)i, score);
    out->scores[i] = (float)score;
  }
  return NULL;
}

/* ---------------------------------------------------------------- ids by text */

/* Returns the place of a text in the index: its own, or a free one. */
static size_t vocabulary_slot(const vocabulary *vocabulary, span text) {
  size_t at = (size_t)hash_bytes(text.data, text.size) & (vocabulary->n_index - 1);
  while (vocabulary->index[at] >= 0 &&
         !span_is_same(vocabulary->tokens[vocabulary->index[at]], text))
    at = (at + 1) & (vocabulary->n_index - 1);
  return at;
}

static clave_status vocabulary_make_index(vocabulary *out) {
  out->n_index = 4;
  while (out->n_index < 2 * (size_t)out->count) out->n_index *= 2;
  out->index = mem_pool_alloc(out->file->im->pool, out->n_index, sizeof *out->index);
  if (!out->index) return status_no_memory();
  for (size_t i = 0; i < out->n_index; i++) out->index[i] = -1;
  for (int64_t i = 0; i < out->count; i++) {
    const size_t at = vocabulary_slot(out, out->tokens[i]);
    if (out->index[at] < 0) out->index[at] = (int32_t)i;
  }
  return NULL;
}

int32_t vocabulary_find(const vocabulary *vocabulary, span text) {
  return vocabulary->index[vocabulary_slot(vocabulary, text)];
}

clave_status vocabulary_check_once(const vocabulary *vocabulary) {
  for (int64_t i = 0; i < vocabulary->count; i++)
    if (vocabulary_find(vocabulary, vocabulary->tokens[i]) != i)
      return INVALID("token %s is in the vocabulary twice",
                     gguf_shown(vocabulary->file->im, vocabulary->tokens[i]));
  return NULL;
}

clave_status vocabulary_read(gguf_file *file, int64_t n_vocab, vocabulary *out) {
  *out = (vocabulary){.file = file, .count = n_vocab};
  if (n_vocab > INT32_MAX) return UNSUPPORTED("has %lld tokens", (long long)n_vocab);
  TRY(vocabulary_read_tokens(file, out));
  TRY(vocabulary_read_types(file, out));
  TRY(vocabulary_read_scores(file, out));
  return vocabulary_make_index(out);
}

/* ---------------------------------------------------------------- ids of keys */

clave_status vocabulary_read_id(gguf_file *file, const char *name, int64_t n_vocab, int64_t *id) {
  *id = -1;
  return gguf_read_integer(file, import_text(file->im, GGUF_TOKENIZER "%s_token_id", name), 0,
                           n_vocab - 1, id);
}
