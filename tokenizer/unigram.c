/* Unigram: Viterbi over byte positions, along a trie of all pieces. */
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "tokenizer/model.h"
#include "tokenizer/trie.h"

enum { SHORT = 128 };                     /* bytes of pieces that need no memory of their own */
static const double unknown_penalty = 10; /* below the worst piece */

typedef struct unigram {
  token_model base;
  const vocab *vocab; /* borrowed, outlives us */
  bool single;
  uint32_t unknown_id;
  uint8_t *kinds; /* by id, owned; NULL: all normal */
  double *scores; /* by id, owned */
  trie pieces;    /* all that a segmentation may use */
  double unknown_score;
  size_t longest; /* bytes of a piece or a character */
  uint32_t byte_ids[256];
} unigram;

typedef struct path { /* the best one that ends at a byte */
  double score;
  uint32_t start, id; /* of its last piece; start UNREACHED: there is none */
} path;
#define UNREACHED UINT32_MAX

static uint8_t kind_of(const unigram *m, uint32_t id) {
  return m->kinds ? m->kinds[id] : PIECE_NORMAL;
}

/* SentencePiece adds in floats, and begins again at 0 where sums get so large that they say little:
 * both decide near ties. */
static const double rebase_below = -1e5;

static double rounded(const unigram *m, double score) {
  return m->single ? (double)(float)score : score;
}

static void offer(const unigram *m, path *paths, uint32_t start, uint32_t end, uint32_t id,
                  double score) {
  double sum = rounded(m, paths[start].score + score);
  path *p = &paths[end];
  if (p->start == UNREACHED || sum > p->score) *p = (path){sum, start, id};
}

static void rebase(const unigram *m, path *paths, size_t at, size_t size) {
  double base = paths[at].score;
  size_t last = size - at < m->longest ? size : at + m->longest;
  for (size_t i = at; i <= last; i++) {
    if (paths[i].start != UNREACHED) paths[i].score = rounded(m, paths[i].score - base);
  }
}

/* All pieces that begin at a character; it is unknown if it is none by itself. */
static void offer_pieces(const unigram *m, span in, path *paths, uint32_t start, uint32_t size) {
  bool known = false;
  uint32_t node = 0;
  for (uint32_t end = start; end < in.size;) {
    node = trie_step(&m->pieces, node, in.data[end++]);
    if (node == 0) break;
    uint32_t id = m->pieces.units[node].value;
    if (id == TRIE_NONE) continue;
    offer(m, paths, start, end, id, m->scores[id]);
    known |= end - start == size;
  }
  if (!known) offer(m, paths, start, start + size, m->unknown_id, m->unknown_score);
}

/* Ids of the path from its end, in place: paths[i].start becomes the end of the piece from i. */
static void turn_around(path *paths, uint32_t end) {
  uint32_t id = VOCAB_NONE, next = end;
  for (uint32_t at = end; at > 0;) {
    path p = paths[at];
    paths[at].start = next;
    paths[at].id = id;
    next = at;
    id = p.id;
    at = p.start;
  }
  paths[0].start = next;
  paths[0].id = id;
}

static clave_status append_unknown(const unigram *m, span run, id_list *out) {
  uint32_t id = model_find(m->vocab, m->kinds, run);
  if (id != VOCAB_NONE) {
    id_list_append(out, id);
  } else if (!append_bytes(m->byte_ids, run, out)) {
    if (m->unknown_id == VOCAB_NONE) return model_unknown(run);
    id_list_append(out, m->unknown_id);
  }
  return NULL;
}

static clave_status append_path(const unigram *m, span in, const path *paths, id_list *out) {
  for (uint32_t at = 0; at < in.size;) {
    uint32_t start = at, id = paths[at].id;
    at = paths[at].start;
    if (id != m->unknown_id) {
      id_list_append(out, id);
      continue;
    }
    while (at < in.size && paths[at].id == id) at = paths[at].start;
    TRY(append_unknown(m, (span){in.data + start, at - start}, out));
  }
  return out->failed ? status_no_memory() : NULL;
}

static clave_status encode_along(const unigram *m, span in, path *paths, id_list *out) {
  paths[0] = (path){0};
  for (size_t i = 1; i <= in.size; i++) paths[i].start = UNREACHED;
  for (uint32_t at = 0, n; at < in.size; at += n) {
    if (m->single && paths[at].score < rebase_below) rebase(m, paths, at, in.size);
    n = (uint32_t)character_size((span){in.data + at, in.size - at});
    offer_pieces(m, in, paths, at, n);
  }
  turn_around(paths, (uint32_t)in.size);
  return append_path(m, in, paths, out);
}

static clave_status encode_unigram(const token_model *self, span piece, id_list *out) {
  const unigram *m = (const unigram *)self;
  size_t bytes;
  if (piece.size == 0) return NULL;
  if (piece.size < SHORT) {
    path paths[SHORT];
    return encode_along(m, piece, paths, out);
  }
  if (piece.size >= UINT32_MAX || !mul_size(piece.size + 1, sizeof(path), &bytes))
    return INVALID("a piece of %zu bytes is too long", piece.size);
  path *paths = malloc(bytes);
  if (!paths) return status_no_memory();
  clave_status st = encode_along(m, piece, paths, out);
  free(paths);
  return st;
}

/* ---------------------------------------------------------------- making one */

static void destroy_unigram(token_model *self) {
  unigram *m = (unigram *)self;
  if (!m) return;
  trie_destroy(&m->pieces);
  free(m->kinds);
  free(m->scores);
  free(m);
}

/* Of a user-defined piece of n bytes: better than any other way through them, if scores are
 * logarithms of probabilities. */
static double user_score(size_t n) { return (double)(float)((double)n * 0.1 - 0.1); }

static clave_status fill_trie(unigram *m, span *keys, uint32_t *ids) {
  size_t n = 0;
  for (uint32_t id = 0; id < vocab_size(m->vocab); id++) {
    span piece = vocab_piece(m->vocab, id);
    if (piece.size == 0 || (kind_of(m, id) != PIECE_NORMAL && kind_of(m, id) != PIECE_USER))
      continue;
    if (kind_of(m, id) == PIECE_USER) m->scores[id] = user_score(piece.size);
    if (piece.size > m->longest) m->longest = piece.size;
    keys[n] = piece;
    ids[n++] = id;
  }
  return trie_create(keys, ids, n, &m->pieces);
}

static clave_status make_trie(unigram *m) {
  size_t n = (size_t)vocab_size(m->vocab) + 1;
  span *keys = malloc(n * sizeof *keys);
  uint32_t *ids = malloc(n * sizeof *ids);
  clave_status st = keys && ids ? fill_trie(m, keys, ids) : status_no_memory();
  free(keys);
  free(ids);
  return st;
}

static clave_status init_unigram(unigram *m, const unigram_options *o) {
  uint32_t n = vocab_size(m->vocab);
  TRY(copy_kinds(m->vocab, o->kinds, &m->kinds));
  m->scores = malloc(((size_t)n + 1) * sizeof *m->scores);
  if (!m->scores) return status_no_memory();
  memcpy(m->scores, o->scores, n * sizeof *m->scores);
  double min_score = DBL_MAX;
  m->longest = 4;
  for (uint32_t id = 0; id < n; id++) {
    if (!vocab_has(m->vocab, id) || kind_of(m, id) != PIECE_NORMAL) continue;
    if (m->scores[id] < min_score) min_score = m->scores[id];
  }
  m->unknown_score = rounded(m, min_score - unknown_penalty);
  copy_byte_ids(&o->unknown, m->byte_ids);
  return make_trie(m);
}

clave_status unigram_create(const vocab *v, const unigram_options *o, token_model **out) {
  *out = NULL;
  unigram *m = calloc(1, sizeof *m);
  if (!m) return status_no_memory();
  m->base = (token_model){encode_unigram, destroy_unigram};
  m->vocab = v;
  m->single = o->single;
  m->unknown_id = o->unknown.id;
  clave_status st = init_unigram(m, o);
  if (st) {
    destroy_unigram(&m->base);
    return st;
  }
  *out = &m->base;
  return NULL;
}
