/* WordPiece: greedy longest match in a trie; inside a word the search begins below the continuing
 * prefix. */
#include <stdlib.h>
#include <string.h>

#include "tokenizer/model.h"
#include "tokenizer/trie.h"

typedef struct wordpiece {
  token_model base;
  uint32_t unknown_id;
  size_t max_characters;
  trie pieces;
  uint32_t inside; /* node of the continuing prefix; 0, and has_inside is false, if no piece has the
                      prefix */
  bool has_inside;
} wordpiece;

/* Returns the end of the longest piece that begins at `at`, 0 if none exists. */
static size_t longest_piece(const wordpiece *wordpiece, span word, size_t at, uint32_t *id) {
  uint32_t node = at > 0 ? wordpiece->inside : 0;
  size_t end = 0;
  if (at > 0 && !wordpiece->has_inside) return 0;
  while (at < word.size && (node = trie_step(&wordpiece->pieces, node, word.data[at++])) != 0) {
    if (wordpiece->pieces.units[node].value == TRIE_NONE) continue;
    *id = wordpiece->pieces.units[node].value;
    end = at;
  }
  return end;
}

static bool too_long(const wordpiece *wordpiece, span word) {
  size_t n = 0;
  for (size_t i = 0; i < word.size; i++) n += (word.data[i] & 0xC0) != 0x80;
  return n > wordpiece->max_characters;
}

static clave_status encode_wordpiece(const token_model *self, span word, id_list *out) {
  const wordpiece *model = (const wordpiece *)self;
  size_t before = out->count, at = 0;
  bool known = !too_long(model, word);
  while (known && at < word.size) {
    uint32_t id = VOCAB_NONE;
    at = longest_piece(model, word, at, &id);
    known = at > 0;
    if (known) id_list_append(out, id);
  }
  if (!known) {
    if (model->unknown_id == VOCAB_NONE) return model_unknown(word);
    out->count = before;
    id_list_append(out, model->unknown_id);
  }
  return out->failed ? status_no_memory() : NULL;
}

static void destroy_wordpiece(token_model *self) {
  wordpiece *model = (wordpiece *)self;
  if (!model) return;
  trie_destroy(&model->pieces);
  free(model);
}

static void find_inside(wordpiece *wordpiece, span prefix) {
  uint32_t node = 0;
  wordpiece->has_inside = true;
  for (size_t i = 0; wordpiece->has_inside && i < prefix.size; i++) {
    node = trie_step(&wordpiece->pieces, node, prefix.data[i]);
    wordpiece->has_inside = node != 0;
  }
  wordpiece->inside = node;
}

static clave_status wordpiece_make_trie(wordpiece *wordpiece, const vocab *vocab,
                                        const uint8_t *kinds) {
  size_t n = (size_t)vocab_size(vocab) + 1, count = 0;
  span *keys = malloc(n * sizeof *keys);
  uint32_t *ids = malloc(n * sizeof *ids);
  clave_status st = keys && ids ? NULL : status_no_memory();
  for (uint32_t id = 0; !st && id < vocab_size(vocab); id++) {
    if (vocab_piece(vocab, id).size == 0 || (kinds && kinds[id] == PIECE_ADDED)) continue;
    keys[count] = vocab_piece(vocab, id);
    ids[count++] = id;
  }
  if (!st) st = trie_create(keys, ids, count, &wordpiece->pieces);
  free(keys);
  free(ids);
  return st;
}

clave_status wordpiece_create(const vocab *vocab, const wordpiece_options *options,
                              token_model **out) {
  *out = NULL;
  wordpiece *wordpiece = calloc(1, sizeof *wordpiece);
  if (!wordpiece) return status_no_memory();
  wordpiece->base = (token_model){encode_wordpiece, destroy_wordpiece};
  wordpiece->unknown_id = options->unknown_id;
  wordpiece->max_characters = options->max_characters;
  clave_status st = wordpiece_make_trie(wordpiece, vocab, options->kinds);
  if (st) {
    destroy_wordpiece(&wordpiece->base);
    return st;
  }
  find_inside(wordpiece, options->continuing_prefix);
  *out = &wordpiece->base;
  return NULL;
}
