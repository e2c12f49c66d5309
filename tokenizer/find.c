/* Tokens by how the file writes them, and by id. */
#include "tokenizer/find.h"

#include <string.h>

#include "tokenizer/byte_level.h"
#include "tokenizer/tokenizer.h"

bool tokenizer_has(const clave_tokenizer *t, uint32_t id) { return vocab_has(t->vocab, id); }

static clave_status find_bytes(const clave_tokenizer *t, span written, uint32_t *id) {
  text bytes = {0};
  bool in_alphabet = byte_level_decode(written, &bytes);
  clave_status st = text_status(&bytes);
  if (!st && in_alphabet) {
    *id = vocab_find(t->vocab, (span){bytes.data ? bytes.data : "", bytes.size});
    if (*id != VOCAB_NONE && vocab_has(t->written, *id)) *id = VOCAB_NONE;
  }
  text_free(&bytes);
  return st;
}

clave_status tokenizer_find(const clave_tokenizer *t, span written, uint32_t *id) {
  *id = vocab_find(t->byte_level ? t->written : t->vocab, written);
  return *id == VOCAB_NONE && t->byte_level ? find_bytes(t, written, id) : NULL;
}

int32_t clave_tokenizer_find(const clave_tokenizer *t, const char *token) {
  span wanted = {token, strlen(token)};
  for (size_t i = 0; i < t->n_added; i++) { /* what a rank is written as may be one of these, too */
    span s = t->added[i].text;
    bool same = s.size == wanted.size && memcmp(s.data, wanted.data, s.size) == 0;
    if (same) return (int32_t)t->added[i].id;
  }
  uint32_t id;
  status_free(tokenizer_find(t, wanted, &id)); /* nothing that a caller could be told */
  return id == VOCAB_NONE ? CLAVE_NO_TOKEN : (int32_t)id;
}
