/* Unigram: Viterbi over byte positions, using a trie of all pieces. */
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "tokenizer/model.h"
#include "tokenizer/trie.h"

enum { SHORT = 128 };                     /* bytes of pieces whose paths fit on the stack */
static const double unknown_penalty = 10; /* subtracted from the lowest score */

typedef struct unigram {
  token_model base;
  const vocab *vocab; /* borrowed; must outlive the model */
  bool single;
  uint32_t unknown_id;
  uint8_t *kinds; /* by id, owned; NULL if all are normal */
  double *scores; /* by id, owned */
  trie pieces;    /* all pieces that a segmentation may use */
  double unknown_score;
  size_t longest; /* bytes of the longest piece or character */
  uint32_t byte_ids[256];
} unigram;

typedef struct path { /* best path that ends at a byte */
  double score;
  uint32_t start, id; /* the path's last piece; start UNREACHED: there is no path */
} path;
#define UNREACHED UINT32_MAX

static uint8_t unigram_kind_of(const unigram *unigram, uint32_t id) {
  return unigram->kinds ? unigram->kinds[id] : PIECE_NORMAL;
}

/* SentencePiece adds floats, and restarts at 0 when sums get so large that they lose precision.
 * Both can decide between segmentations with nearly equal sums. */
static const double rebase_below = -1e5;

static double unigram_rounded(const unigram *unigram, double score) {
  return unigram->single ? (double)(float)score : score;
}

static void unigram_offer(const unigram *unigram, path *paths, uint32_t start, uint32_t end,
                          uint32_t id, double score) {
  double sum = unigram_rounded(unigram, paths[start].score + score);
  path *place = &paths[end];
  if (place->start == UNREACHED || sum > place->score) *place = (path){sum, start, id};
}

static void unigram_rebase(const unigram *unigram, path *paths, size_t at, size_t size) {
  double base = paths[at].score;
  size_t last = size - at < unigram->longest ? size : at + unigram->longest;
  for (size_t i = at; i <= last; i++) {
    if (paths[i].start != UNREACHED)
      paths[i].score = unigram_rounded(unigram, paths[i].score - base);
  }
}

/* Offers all pieces that begin at a character. The character itself is offered as unknown if it is
 * not a piece. */
static void offer_pieces(const unigram *unigram, span in, path *paths, uint32_t start,
                         uint32_t size) {
  bool known = false;
  uint32_t node = 0;
  for (uint32_t end = start; end < in.size;) {
    node = trie_step(&unigram->pieces, node, in.data[end++]);
    if (node == 0) break;
    uint32_t id = unigram->pieces.units[node].value;
    if (id == TRIE_NONE) continue;
    unigram_offer(unigram, paths, start, end, id, unigram->scores[id]);
    known |= end - start == size;
  }
  if (!known)
    unigram_offer(unigram, paths, start, start + size, unigram->unknown_id, unigram->unknown_score);
}

/* Reverses the path in place: paths[i].start is set to the end of the piece that begins at i, and
 * paths[i].id to its id. */
static void turn_around(path *paths, uint32_t end) {
  uint32_t id = VOCAB_NONE, next = end;
  for (uint32_t at = end; at > 0;) {
    path step = paths[at];
    paths[at].start = next;
    paths[at].id = id;
    next = at;
    id = step.id;
    at = step.start;
  }
  paths[0].start = next;
  paths[0].id = id;
}

static clave_status append_unknown(const unigram *unigram, span run, id_list *out) {
  uint32_t id = model_find(unigram->vocab, unigram->kinds, run);
  if (id != VOCAB_NONE) {
    id_list_append(out, id);
  } else if (!append_bytes(unigram->byte_ids, run, out)) {
    if (unigram->unknown_id == VOCAB_NONE) return model_unknown(run);
    id_list_append(out, unigram->unknown_id);
  }
  return NULL;
}

static clave_status unigram_append_path(const unigram *unigram, span in, const path *paths,
                                        id_list *out) {
  for (uint32_t at = 0; at < in.size;) {
    uint32_t start = at, id = paths[at].id;
    at = paths[at].start;
    if (id != unigram->unknown_id) {
      id_list_append(out, id);
      continue;
    }
    while (at < in.size && paths[at].id == id) at = paths[at].start;
    TRY(append_unknown(unigram, (span){in.data + start, at - start}, out));
  }
  return out->failed ? status_no_memory() : NULL;
}

static clave_status encode_along(const unigram *unigram, span in, path *paths, id_list *out) {
  paths[0] = (path){0};
  for (size_t i = 1; i <= in.size; i++) paths[i].start = UNREACHED;
  for (uint32_t at = 0, n; at < in.size; at += n) {
    if (unigram->single && paths[at].score < rebase_below)
      unigram_rebase(unigram, paths, at, in.size);
    n = (uint32_t)character_size((span){in.data + at, in.size - at});
    offer_pieces(unigram, in, paths, at, n);
  }
  turn_around(paths, (uint32_t)in.size);
  return unigram_append_path(unigram, in, paths, out);
}

static clave_status encode_unigram(const token_model *self, span pretoken, id_list *out) {
  const unigram *model = (const unigram *)self;
  size_t bytes;
  if (pretoken.size == 0) return NULL;
  if (pretoken.size < SHORT) {
    path paths[SHORT];
    return encode_along(model, pretoken, paths, out);
  }
  if (pretoken.size >= UINT32_MAX || !mul_size(pretoken.size + 1, sizeof(path), &bytes))
    return INVALID("a pre-token of %zu bytes is too long", pretoken.size);
  path *paths = malloc(bytes);
  if (!paths) return status_no_memory();
  clave_status st = encode_along(model, pretoken, paths, out);
  free(paths);
  return st;
}

/* ---------------------------------------------------------------- creation */

static void destroy_unigram(token_model *self) {
  unigram *model = (unigram *)self;
  if (!model) return;
  trie_destroy(&model->pieces);
  free(model->kinds);
  free(model->scores);
  free(model);
}

/* Returns the score of a user-defined piece of n bytes. If scores are log probabilities, it is
 * better than any other path over these bytes. */
static double user_score(size_t n) { return (double)(float)((double)n * 0.1 - 0.1); }

static clave_status fill_trie(unigram *unigram, span *keys, uint32_t *ids) {
  size_t n = 0;
  for (uint32_t id = 0; id < vocab_size(unigram->vocab); id++) {
    span piece = vocab_piece(unigram->vocab, id);
    if (piece.size == 0 || (unigram_kind_of(unigram, id) != PIECE_NORMAL &&
                            unigram_kind_of(unigram, id) != PIECE_USER))
      continue;
    if (unigram_kind_of(unigram, id) == PIECE_USER) unigram->scores[id] = user_score(piece.size);
    if (piece.size > unigram->longest) unigram->longest = piece.size;
    keys[n] = piece;
    ids[n++] = id;
  }
  return trie_create(keys, ids, n, &unigram->pieces);
}

static clave_status unigram_make_trie(unigram *unigram) {
  size_t n = (size_t)vocab_size(unigram->vocab) + 1;
  span *keys = malloc(n * sizeof *keys);
  uint32_t *ids = malloc(n * sizeof *ids);
  clave_status st = keys && ids ? fill_trie(unigram, keys, ids) : status_no_memory();
  free(keys);
  free(ids);
  return st;
}

static clave_status init_unigram(unigram *unigram, const unigram_options *options) {
  uint32_t n = vocab_size(unigram->vocab);
  TRY(copy_kinds(unigram->vocab, options->kinds, &unigram->kinds));
  unigram->scores = malloc(((size_t)n + 1) * sizeof *unigram->scores);
  if (!unigram->scores) return status_no_memory();
  memcpy(unigram->scores, options->scores, n * sizeof *unigram->scores);
  double min_score = DBL_MAX;
  unigram->longest = 4;
  for (uint32_t id = 0; id < n; id++) {
    if (!vocab_has(unigram->vocab, id) || unigram_kind_of(unigram, id) != PIECE_NORMAL) continue;
    if (unigram->scores[id] < min_score) min_score = unigram->scores[id];
  }
  unigram->unknown_score = unigram_rounded(unigram, min_score - unknown_penalty);
  copy_byte_ids(&options->unknown, unigram->byte_ids);
  return unigram_make_trie(unigram);
}

clave_status unigram_create(const vocab *vocab, const unigram_options *options, token_model **out) {
  *out = NULL;
  unigram *unigram = calloc(1, sizeof *unigram);
  if (!unigram) return status_no_memory();
  unigram->base = (token_model){encode_unigram, destroy_unigram};
  unigram->vocab = vocab;
  unigram->single = options->single;
  unigram->unknown_id = options->unknown.id;
  clave_status st = init_unigram(unigram, options);
  if (st) {
    destroy_unigram(&unigram->base);
    return st;
  }
  *out = &unigram->base;
  return NULL;
}
