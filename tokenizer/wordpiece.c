/* WordPiece: greedy longest match along a trie; inside a word it begins below the prefix. */
#include <stdlib.h>
#include <string.h>

#include "tokenizer/model.h"
#include "tokenizer/trie.h"

typedef struct wordpiece {
  token_model base;
  uint32_t unknown_id;
  size_t max_characters;
  trie pieces;
  uint32_t inside; /* the node of the continuing prefix; 0 and has_inside false: no piece has it */
  bool has_inside;
} wordpiece;

/* The end of the longest piece from `at`, 0: there is none. */
static size_t longest_piece(const wordpiece *m, span word, size_t at, uint32_t *id) {
  uint32_t node = at > 0 ? m->inside : 0;
  size_t end = 0;
  if (at > 0 && !m->has_inside) return 0;
  while (at < word.size && (node = trie_step(&m->pieces, node, word.data[at++])) != 0) {
    if (m->pieces.units[node].value == TRIE_NONE) continue;
    *id = m->pieces.units[node].value;
    end = at;
  }
  return end;
}

static bool too_long(const wordpiece *m, span word) {
  size_t n = 0;
  for (size_t i = 0; i < word.size; i++) n += (word.data[i] & 0xC0) != 0x80;
  return n > m->max_characters;
}

static clave_status encode_wordpiece(const token_model *self, span word, id_list *out) {
  const wordpiece *m = (const wordpiece *)self;
  size_t before = out->count, at = 0;
  bool known = !too_long(m, word);
  while (known && at < word.size) {
    uint32_t id = VOCAB_NONE;
    at = longest_piece(m, word, at, &id);
    known = at > 0;
    if (known) id_list_append(out, id);
  }
  if (!known) {
    if (m->unknown_id == VOCAB_NONE) return model_unknown(word);
    out->count = before;
    id_list_append(out, m->unknown_id);
  }
  return out->failed ? status_no_memory() : NULL;
}

static void destroy_wordpiece(token_model *self) {
  wordpiece *m = (wordpiece *)self;
  if (!m) return;
  trie_destroy(&m->pieces);
  free(m);
}

static void find_inside(wordpiece *m, span prefix) {
  uint32_t node = 0;
  m->has_inside = true;
  for (size_t i = 0; m->has_inside && i < prefix.size; i++) {
    node = trie_step(&m->pieces, node, prefix.data[i]);
    m->has_inside = node != 0;
  }
  m->inside = node;
}

static clave_status make_trie(wordpiece *m, const vocab *v, const uint8_t *kinds) {
  size_t n = (size_t)vocab_size(v) + 1, count = 0;
  span *keys = malloc(n * sizeof *keys);
  uint32_t *ids = malloc(n * sizeof *ids);
  clave_status st = keys && ids ? NULL : status_no_memory();
  for (uint32_t id = 0; !st && id < vocab_size(v); id++) {
    if (vocab_piece(v, id).size == 0 || (kinds && kinds[id] == PIECE_ADDED)) continue;
    keys[count] = vocab_piece(v, id);
    ids[count++] = id;
  }
  if (!st) st = trie_create(keys, ids, count, &m->pieces);
  free(keys);
  free(ids);
  return st;
}

clave_status wordpiece_create(const vocab *v, const wordpiece_options *o, token_model **out) {
  *out = NULL;
  wordpiece *m = calloc(1, sizeof *m);
  if (!m) return status_no_memory();
  m->base = (token_model){encode_wordpiece, destroy_wordpiece};
  m->unknown_id = o->unknown_id;
  m->max_characters = o->max_characters;
  clave_status st = make_trie(m, v, o->kinds);
  if (st) {
    destroy_wordpiece(&m->base);
    return st;
  }
  find_inside(m, o->continuing_prefix);
  *out = &m->base;
  return NULL;
}
