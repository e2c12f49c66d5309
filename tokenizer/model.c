/* Helpers shared by the models. */
#include "tokenizer/model.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

uint32_t model_find(const vocab *vocab, const uint8_t *kinds, span piece) {
  uint32_t id = vocab_find(vocab, piece);
  return id != VOCAB_NONE && kinds && kinds[id] == PIECE_ADDED ? VOCAB_NONE : id;
}

clave_status model_unknown(span piece) {
  enum { SHOWN = 40 };
  return INVALID("the vocabulary lacks \"%.*s\"%s and an unknown token",
                 (int)(piece.size < SHOWN ? piece.size : SHOWN), piece.data,
                 piece.size > SHOWN ? "..." : "");
}

bool has_bytes(const uint32_t *byte_ids, span span) {
  for (size_t i = 0; i < span.size; i++) {
    if (byte_ids[(uint8_t)span.data[i]] == VOCAB_NONE) return false;
  }
  return true;
}

bool append_bytes(const uint32_t *byte_ids, span span, id_list *out) {
  if (!has_bytes(byte_ids, span)) return false;
  for (size_t i = 0; i < span.size; i++) id_list_append(out, byte_ids[(uint8_t)span.data[i]]);
  return true;
}

size_t character_size(span span) {
  size_t n = utf8_sequence(span.data, span.size);
  return n ? n : 1;
}

void copy_byte_ids(const unknown_rule *rule, uint32_t *out) {
  memset(out, 0xFF, 256 * sizeof *out);
  if (rule->byte_ids) memcpy(out, rule->byte_ids, 256 * sizeof *out);
}

clave_status copy_kinds(const vocab *vocab, const uint8_t *kinds, uint8_t **out) {
  *out = NULL;
  if (!kinds) return NULL;
  *out = malloc((size_t)vocab_size(vocab) + 1);
  if (!*out) return status_no_memory();
  memcpy(*out, kinds, vocab_size(vocab));
  return NULL;
}

clave_status user_trie_create(const vocab *vocab, const uint8_t *kinds, trie *out) {
  uint32_t n = 0, n_ids = vocab_size(vocab);
  *out = (trie){0};
  for (uint32_t id = 0; id < n_ids; id++) n += kinds[id] == PIECE_USER;
  if (n == 0) return NULL;
  span *keys = malloc(n * sizeof *keys);
  uint32_t *ids = malloc(n * sizeof *ids);
  clave_status st = keys && ids ? NULL : status_no_memory();
  n = 0;
  for (uint32_t id = 0; !st && id < n_ids; id++) {
    if (kinds[id] != PIECE_USER) continue;
    keys[n] = vocab_piece(vocab, id);
    ids[n++] = id;
  }
  if (!st) st = trie_create(keys, ids, n, out);
  free(keys);
  free(ids);
  return st;
}
