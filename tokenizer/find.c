/* Lookup of tokens by their spelling in the file, and by id. */
#include "tokenizer/find.h"

#include <string.h>

#include "tokenizer/byte_level.h"
#include "tokenizer/tokenizer.h"

bool tokenizer_has(const clave_tokenizer *tokenizer, uint32_t id) {
  return vocab_has(tokenizer->vocab, id);
}

static clave_status find_bytes(const clave_tokenizer *tokenizer, span spelling, uint32_t *id) {
  text bytes = {0};
  bool in_alphabet = byte_level_decode(spelling, &bytes);
  clave_status st = text_status(&bytes);
  if (!st && in_alphabet) {
    *id = vocab_find(tokenizer->vocab, (span){bytes.data ? bytes.data : "", bytes.size});
    if (*id != VOCAB_NONE && vocab_has(tokenizer->other_pieces, *id)) *id = VOCAB_NONE;
  }
  text_free(&bytes);
  return st;
}

clave_status tokenizer_find(const clave_tokenizer *tokenizer, span spelling, uint32_t *id) {
  *id = vocab_find(tokenizer->byte_level ? tokenizer->other_pieces : tokenizer->vocab, spelling);
  return *id == VOCAB_NONE && tokenizer->byte_level ? find_bytes(tokenizer, spelling, id) : NULL;
}

int32_t clave_tokenizer_find(const clave_tokenizer *tokenizer, const char *token) {
  span wanted = {token, strlen(token)};
  /* Added tokens come first, because a rank may be spelled like an added token. */
  for (size_t i = 0; i < tokenizer->n_added; i++) {
    span spelled = tokenizer->added[i].text;
    bool same = spelled.size == wanted.size && memcmp(spelled.data, wanted.data, spelled.size) == 0;
    if (same) return (int32_t)tokenizer->added[i].id;
  }
  uint32_t id;
  /* This fails only if memory is exhausted, which counts as not found. */
  status_free(tokenizer_find(tokenizer, wanted, &id));
  return id == VOCAB_NONE ? CLAVE_NO_TOKEN : (int32_t)id;
}
