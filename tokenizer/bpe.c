/* Byte pair encoding: a piece becomes symbols, these are merged from cut to cut, and then are ids.
 */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "tokenizer/bpe.h"

enum { FEW_SYMBOLS = 64 }; /* on the stack */

typedef struct work {
  const bpe *m;
  span text;
  id_list *out;
  symbol *symbols; /* since the last cut; `few`, or owned */
  uint32_t count, capacity;
  uint8_t last_class;
  bool pending;       /* an unknown symbol is to come before the next one */
  bool after_unknown; /* the last id was the unknown one */
  uint32_t *splits;   /* see bpe_merge_symbols; owned */
  text scratch;       /* a character with what is put around it */
  symbol few[FEW_SYMBOLS];
} work;

/* ---------------------------------------------------------------- ids */

static void emit_symbol(work *w, uint32_t id, span s) {
  const bpe *m = w->m;
  if (id != VOCAB_NONE) {
    id_list_append(w->out, id);
    w->after_unknown = false;
    return;
  }
  bool done = append_bytes(m->byte_ids, s, w->out);
  bool joins = w->after_unknown && m->options.unknown.fuse;
  if (!done && !joins && m->options.unknown.id != VOCAB_NONE)
    id_list_append(w->out, m->options.unknown.id);
  w->after_unknown = !done;
}

static uint32_t split_of(const work *w, uint32_t id) {
  bool falls = w->splits && id != VOCAB_NONE && bpe_kind(w->m, id) == PIECE_UNUSED;
  return falls ? w->splits[id] : 0;
}

/* An unused piece falls into the two parts that it was last made of anywhere in the text, these
 * perhaps again. `ends`: where what is still to be written ends, the next on top. */
static clave_status emit_unused(work *w, const symbol *s) {
  uint32_t *ends = malloc(((size_t)s->size + 1) * sizeof *ends), n = 0, start = s->start;
  if (!ends) return status_no_memory();
  ends[n++] = s->start + s->size;
  while (n > 0) {
    span part = {w->text.data + start, ends[n - 1] - start};
    uint32_t id = bpe_find(w->m, part), left = split_of(w, id);
    if (left > 0) {
      ends[n++] = start + left;
      continue;
    }
    emit_symbol(w, id, part);
    start = ends[--n];
  }
  free(ends);
  return NULL;
}

/* Merges and writes what there is since the last cut. */
static clave_status finish_symbols(work *w) {
  TRY(bpe_merge_symbols(w->m, w->text, w->symbols, w->count, w->splits));
  for (uint32_t i = 0; i < w->count; i++) {
    const symbol *s = &w->symbols[i];
    if (s->id == JOINED) continue;
    if (split_of(w, s->id) > 0) {
      TRY(emit_unused(w, s));
    } else {
      emit_symbol(w, s->id, (span){w->text.data + s->start, s->size});
    }
  }
  w->count = 0;
  return w->out->failed ? status_no_memory() : NULL;
}

/* ---------------------------------------------------------------- the first symbols */

static clave_status grow_symbols(work *w) {
  size_t capacity = (size_t)w->capacity * 2, bytes;
  if (capacity > UINT32_MAX / 2 || !mul_size(capacity, sizeof *w->symbols, &bytes))
    return INVALID("a piece of %zu bytes is too long", w->text.size);
  symbol *grown = realloc(w->symbols == w->few ? NULL : w->symbols, bytes);
  if (!grown) return status_no_memory();
  if (w->symbols == w->few) memcpy(grown, w->few, sizeof w->few);
  w->symbols = grown;
  w->capacity = (uint32_t)capacity;
  return NULL;
}

/* s: what the vocabulary has, or would have, for the symbol. */
static clave_status add_symbol(work *w, uint32_t id, size_t start, size_t size, span s) {
  uint8_t first = s.size > 0 ? bpe_first_class(w->m, s) : 0;
  if (w->count > 0 && !bpe_may_join(w->m, w->last_class, first)) TRY(finish_symbols(w));
  if (w->count == w->capacity) TRY(grow_symbols(w));
  w->symbols[w->count++] = (symbol){.start = (uint32_t)start, .size = (uint32_t)size, .id = id};
  w->last_class = s.size > 0 ? bpe_last_class(w->m, s) : 0;
  return NULL;
}

static clave_status add_id(work *w, uint32_t id) {
  return add_symbol(w, id, 0, 0, vocab_piece(w->m->vocab, id));
}

static clave_status flush_unknown(work *w) {
  if (!w->pending) return NULL;
  w->pending = false;
  return add_id(w, w->m->options.unknown.id);
}

/* A symbol that the vocabulary lacks becomes one that it has, before anything is merged. As in
 * Hugging Face's, bytes do not flush the unknown symbol before them. */
static clave_status add_unknown(work *w, span s) {
  const bpe *m = w->m;
  if (has_bytes(m->byte_ids, s)) {
    for (size_t i = 0; i < s.size; i++) TRY(add_id(w, m->byte_ids[(uint8_t)s.data[i]]));
  } else if (m->options.unknown.id != VOCAB_NONE) {
    if (!m->options.unknown.fuse) TRY(flush_unknown(w));
    w->pending = true;
  }
  return NULL;
}

static clave_status add_found(work *w, uint32_t id, size_t start, size_t size, span s) {
  if (id == VOCAB_NONE && w->m->pairs) return add_unknown(w, s);
  TRY(flush_unknown(w));
  return add_symbol(w, id, start, size, s);
}

/* A character with what the options put around it. */
static clave_status add_character(work *w, size_t start, size_t size) {
  const bpe_options *o = &w->m->options;
  span s = {w->text.data + start, size};
  bool prefixed = start > 0 && o->continuing_prefix.size > 0;
  bool suffixed = start + size == w->text.size && o->word_suffix.size > 0;
  if (prefixed || suffixed) {
    w->scratch.size = 0;
    if (prefixed) text_append(&w->scratch, o->continuing_prefix.data, o->continuing_prefix.size);
    text_append(&w->scratch, s.data, s.size);
    if (suffixed) text_append(&w->scratch, o->word_suffix.data, o->word_suffix.size);
    TRY(text_status(&w->scratch));
    s = (span){w->scratch.data, w->scratch.size};
  }
  return add_found(w, bpe_find(w->m, s), start, size, s);
}

static clave_status add_characters(work *w) {
  for (size_t at = 0, n; at < w->text.size; at += n) {
    span rest = {w->text.data + at, w->text.size - at};
    uint32_t id = VOCAB_NONE;
    n = w->m->user.units ? trie_longest(&w->m->user, rest, &id) : 0;
    if (n > 0) {
      TRY(add_found(w, id, at, n, (span){rest.data, n}));
    } else {
      n = character_size(rest);
      TRY(add_character(w, at, n));
    }
  }
  return flush_unknown(w);
}

static clave_status add_bytes(work *w) {
  for (size_t at = 0; at < w->text.size; at++) {
    span s = {w->text.data + at, 1};
    TRY(add_found(w, w->m->byte_symbol[(uint8_t)s.data[0]], at, 1, s));
  }
  return flush_unknown(w);
}

static clave_status encode_symbols(work *w) {
  if (w->m->has_unused) {
    w->splits = calloc(w->m->n_ids, sizeof *w->splits);
    if (!w->splits) return status_no_memory();
  }
  if (w->m->options.symbols == BPE_BYTES) {
    TRY(add_bytes(w));
  } else {
    TRY(add_characters(w));
  }
  return finish_symbols(w);
}

static clave_status encode_bpe(const token_model *self, span piece, id_list *out) {
  const bpe *m = (const bpe *)self;
  uint32_t whole = m->options.whole_first ? bpe_find(m, piece) : VOCAB_NONE;
  if (whole != VOCAB_NONE) {
    id_list_append(out, whole);
    return out->failed ? status_no_memory() : NULL;
  }
  if (piece.size >= UINT32_MAX) return INVALID("a piece of %zu bytes is too long", piece.size);
  work w; /* not zeroed: `few` is large */
  w.m = m;
  w.text = piece;
  w.out = out;
  w.symbols = w.few;
  w.count = 0;
  w.capacity = FEW_SYMBOLS;
  w.last_class = 0;
  w.pending = w.after_unknown = false;
  w.splits = NULL;
  w.scratch = (text){0};
  clave_status st = encode_symbols(&w);
  if (w.symbols != w.few) free(w.symbols);
  free(w.splits);
  text_free(&w.scratch);
  return st;
}

/* ---------------------------------------------------------------- making one */

static void destroy_bpe(token_model *self) {
  bpe *m = (bpe *)self;
  if (!m) return;
  trie_destroy(&m->user);
  free(m->kinds);
  free(m->pairs);
  free(m->ranks);
  free(m->prefix);
  free(m->suffix);
  free(m);
}

static clave_status copy_span(span *s, char **owned) {
  *owned = malloc(s->size + 1);
  if (!*owned) return status_no_memory();
  if (s->size > 0) memcpy(*owned, s->data, s->size);
  s->data = *owned;
  return NULL;
}

/* Floats as integers in descending order: 0 for the largest, equal for equal ones. */
static uint32_t descending(float score) {
  uint32_t bits;
  score += 0.0f; /* -0 is 0 */
  memcpy(&bits, &score, sizeof bits);
  return bits & 0x80000000u ? bits : ~bits & 0x7FFFFFFFu;
}

static clave_status fill_ranks(bpe *m) {
  if (!m->options.scores && !m->kinds) return NULL;
  m->ranks = malloc((m->n_ids + 1) * sizeof *m->ranks);
  if (!m->ranks) return status_no_memory();
  for (uint32_t id = 0; id < m->n_ids; id++) {
    bool merges = bpe_kind(m, id) == PIECE_NORMAL || bpe_kind(m, id) == PIECE_UNUSED;
    m->ranks[id] = !merges ? NO_PAIR : m->options.scores ? descending(m->options.scores[id]) : id;
  }
  return NULL;
}

static clave_status read_kinds(bpe *m) {
  if (!m->options.kinds) return NULL;
  TRY(copy_kinds(m->vocab, m->options.kinds, &m->kinds));
  for (uint32_t id = 0; id < m->n_ids; id++) m->has_unused |= m->kinds[id] == PIECE_UNUSED;
  return user_trie_create(m->vocab, m->kinds, &m->user);
}

static clave_status init_bpe(bpe *m) {
  TRY(copy_span(&m->options.continuing_prefix, &m->prefix));
  TRY(copy_span(&m->options.word_suffix, &m->suffix));
  TRY(read_kinds(m));
  if (m->options.merges) {
    TRY(bpe_pairs_create(m));
  } else {
    TRY(fill_ranks(m));
  }
  for (uint32_t id = 0; id < m->n_ids; id++) {
    size_t size = vocab_piece(m->vocab, id).size;
    if (size > m->max_piece) m->max_piece = size;
  }
  for (int b = 0; b < 256; b++) {
    char byte = (char)b;
    m->byte_symbol[b] = bpe_find(m, (span){&byte, 1});
  }
  copy_byte_ids(&m->options.unknown, m->byte_ids);
  bpe_junctions_fill(m);
  m->options.merges = NULL; /* the caller's, as are these */
  m->options.scores = NULL;
  m->options.kinds = NULL;
  m->options.unknown.byte_ids = NULL;
  return NULL;
}

clave_status bpe_create(const vocab *v, const bpe_options *o, token_model **out) {
  *out = NULL;
  bpe *m = calloc(1, sizeof *m);
  if (!m) return status_no_memory();
  m->base = (token_model){encode_bpe, destroy_bpe};
  m->vocab = v;
  m->options = *o;
  m->n_ids = vocab_size(v);
  clave_status st = init_bpe(m);
  if (st) {
    destroy_bpe(&m->base);
    return st;
  }
  *out = &m->base;
  return NULL;
}
