/* Byte pair encoding. A piece becomes a list of symbols, each with the rank of the pair it makes
 * with the next one; the best pair is joined until there is none. Short pieces are scanned for it,
 * long ones keep a heap. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "llm/model.h"
#include "llm/trie.h"

enum { FEW_SYMBOLS = 64 }; /* on the stack, and scanned */
#define NO_PAIR UINT32_MAX
#define END UINT32_MAX

typedef struct pair_slot {
  uint32_t left, right; /* left VOCAB_NONE: free */
  uint32_t rank, result;
} pair_slot;

typedef struct bpe {
  token_model base;
  const vocab *vocab; /* borrowed, outlives us */
  bpe_options options;
  uint8_t *kinds; /* by id, owned; NULL: all normal */
  uint32_t n_ids;
  pair_slot *pairs; /* (pair_mask + 1), owned; NULL: pairs are found by their bytes */
  uint32_t pair_mask;
  uint32_t *ranks;  /* by id, owned; NULL: the id */
  size_t max_piece; /* bytes of the longest */
  trie user;        /* of user-defined pieces; no units: there are none */
  bool has_unused;
  uint32_t byte_ids[256];    /* of the unknown rule */
  uint32_t byte_symbol[256]; /* pieces of a single byte */
  char *prefix, *suffix;     /* owned, behind options' spans */
} bpe;

typedef struct symbol {
  uint32_t start, size;  /* bytes of the text */
  uint32_t id;           /* VOCAB_NONE: none in the vocabulary */
  uint32_t rank, result; /* of the pair with the next one; NO_PAIR: none */
  uint32_t prev, next;   /* END */
} symbol;

typedef struct work {
  const bpe *m;
  span text;
  symbol *symbols;
  uint32_t count;
  uint32_t *splits; /* by id of an unused piece: bytes of its left part when last seen; 0: never */
  bool pending;     /* an unknown symbol is to come before the next one */
} work;

static uint8_t kind_of(const bpe *m, uint32_t id) { return m->kinds ? m->kinds[id] : PIECE_NORMAL; }

/* The model's own id of some bytes. */
static uint32_t find_piece(const bpe *m, span s) {
  if (s.size > m->max_piece) return VOCAB_NONE;
  uint32_t id = vocab_find(m->vocab, s);
  return id != VOCAB_NONE && kind_of(m, id) == PIECE_ADDED ? VOCAB_NONE : id;
}

/* ---------------------------------------------------------------- pairs */

static uint32_t pair_start(uint32_t left, uint32_t right, uint32_t mask) {
  uint64_t h = ((uint64_t)left << 32 | right) * 0x9E3779B97F4A7C15u;
  return (uint32_t)(h >> 32) & mask;
}

static pair_slot *find_slot(const bpe *m, uint32_t left, uint32_t right) {
  for (uint32_t i = pair_start(left, right, m->pair_mask);; i = (i + 1) & m->pair_mask) {
    pair_slot *s = &m->pairs[i];
    if (s->left == VOCAB_NONE || (s->left == left && s->right == right)) return s;
  }
}

static bool is_user(const bpe *m, uint32_t id) {
  return id != VOCAB_NONE && kind_of(m, id) == PIECE_USER;
}

/* The pair by its joined bytes; both parts lie side by side in the text. */
static void rank_by_bytes(const work *w, symbol *left, const symbol *right) {
  const bpe *m = w->m;
  if (m->user.units && (is_user(m, left->id) || is_user(m, right->id))) return;
  uint32_t id = find_piece(m, (span){w->text.data + left->start, left->size + right->size});
  if (id == VOCAB_NONE) return;
  left->rank = m->ranks ? m->ranks[id] : id;
  left->result = id;
  if (w->splits && kind_of(m, id) == PIECE_UNUSED) w->splits[id] = left->size;
}

static void rank_pair(const work *w, uint32_t at) {
  symbol *left = &w->symbols[at];
  left->rank = NO_PAIR;
  if (left->next == END) return;
  if (!w->m->pairs) {
    rank_by_bytes(w, left, &w->symbols[left->next]);
    return;
  }
  const pair_slot *s = find_slot(w->m, left->id, w->symbols[left->next].id);
  if (s->left == VOCAB_NONE) return;
  left->rank = s->rank;
  left->result = s->result;
}

/* Joins a symbol with the next one. */
static void join_pair(const work *w, uint32_t at) {
  symbol *left = &w->symbols[at], *right = &w->symbols[left->next];
  left->size += right->size;
  left->id = left->result;
  left->next = right->next;
  right->rank = NO_PAIR;
  if (left->next != END) w->symbols[left->next].prev = at;
  if (left->prev != END) rank_pair(w, left->prev);
  rank_pair(w, at);
}

static void merge_few(const work *w) {
  for (;;) {
    uint32_t best = 0;
    for (uint32_t i = 0; i != END; i = w->symbols[i].next) {
      if (w->symbols[i].rank < w->symbols[best].rank) best = i;
    }
    if (w->symbols[best].rank == NO_PAIR) return;
    join_pair(w, best);
  }
}

/* ---------------------------------------------------------------- the heap of long pieces */

typedef struct heap { /* of rank << 32 | symbol; an entry that no longer holds is skipped */
  uint64_t *items;
  size_t count;
} heap;

static void sift_down(heap *h, size_t at) {
  uint64_t item = h->items[at];
  for (size_t child; (child = at * 2 + 1) < h->count; at = child) {
    if (child + 1 < h->count && h->items[child + 1] < h->items[child]) child++;
    if (item <= h->items[child]) break;
    h->items[at] = h->items[child];
  }
  h->items[at] = item;
}

static void push(heap *h, uint32_t rank, uint32_t at) {
  if (rank == NO_PAIR) return;
  uint64_t item = (uint64_t)rank << 32 | at;
  size_t i = h->count++;
  for (; i > 0 && item < h->items[(i - 1) / 2]; i = (i - 1) / 2)
    h->items[i] = h->items[(i - 1) / 2];
  h->items[i] = item;
}

static uint64_t pop(heap *h) {
  uint64_t item = h->items[0];
  h->items[0] = h->items[--h->count];
  if (h->count > 0) sift_down(h, 0);
  return item;
}

/* A merge pops one entry and pushes two at most, so 2n have room. */
static clave_status merge_many(const work *w) {
  heap h = {malloc(2 * (size_t)w->count * sizeof *h.items), 0};
  if (!h.items) return status_no_memory();
  for (uint32_t i = 0; i < w->count; i++) {
    if (w->symbols[i].rank != NO_PAIR) h.items[h.count++] = (uint64_t)w->symbols[i].rank << 32 | i;
  }
  for (size_t i = h.count / 2; i-- > 0;) sift_down(&h, i);
  while (h.count > 0) {
    uint64_t item = pop(&h);
    uint32_t at = (uint32_t)item;
    if (w->symbols[at].rank != item >> 32) continue;
    join_pair(w, at);
    uint32_t prev = w->symbols[at].prev;
    if (prev != END) push(&h, w->symbols[prev].rank, prev);
    push(&h, w->symbols[at].rank, at);
  }
  free(h.items);
  return NULL;
}

/* ---------------------------------------------------------------- the first symbols */

static void add_symbol(work *w, uint32_t id, size_t start, size_t size) {
  w->symbols[w->count] = (symbol){.start = (uint32_t)start,
                                  .size = (uint32_t)size,
                                  .id = id,
                                  .rank = NO_PAIR,
                                  .prev = w->count ? w->count - 1 : END,
                                  .next = w->count + 1};
  w->count++;
}

static void flush_unknown(work *w) {
  if (w->pending) add_symbol(w, w->m->options.unknown.id, 0, 0);
  w->pending = false;
}

/* A symbol that the vocabulary lacks becomes one that it has, before anything is merged. As in
 * Hugging Face's, bytes do not flush the unknown symbol before them. */
static void add_unknown(work *w, span s) {
  const bpe *m = w->m;
  if (has_bytes(m->byte_ids, s)) {
    for (size_t i = 0; i < s.size; i++) add_symbol(w, m->byte_ids[(uint8_t)s.data[i]], 0, 0);
  } else if (m->options.unknown.id != VOCAB_NONE) {
    if (!m->options.unknown.fuse) flush_unknown(w);
    w->pending = true;
  }
}

/* A character with what the options put around it. */
static void add_character(work *w, size_t start, size_t size, text *scratch) {
  const bpe_options *o = &w->m->options;
  span s = {w->text.data + start, size};
  bool prefixed = start > 0 && o->continuing_prefix.size > 0;
  bool suffixed = start + size == w->text.size && o->word_suffix.size > 0;
  if (prefixed || suffixed) {
    scratch->size = 0;
    if (prefixed) text_append(scratch, o->continuing_prefix.data, o->continuing_prefix.size);
    text_append(scratch, s.data, s.size);
    if (suffixed) text_append(scratch, o->word_suffix.data, o->word_suffix.size);
    if (scratch->failed) return;
    s = (span){scratch->data, scratch->size};
  }
  uint32_t id = find_piece(w->m, s);
  if (id == VOCAB_NONE && w->m->pairs) {
    add_unknown(w, s);
    return;
  }
  flush_unknown(w);
  add_symbol(w, id, start, size);
}

static clave_status split_characters(work *w) {
  text scratch = {0};
  for (size_t at = 0, n; at < w->text.size; at += n) {
    span rest = {w->text.data + at, w->text.size - at};
    uint32_t id = VOCAB_NONE;
    n = w->m->user.units ? trie_longest(&w->m->user, rest, &id) : 0;
    if (n > 0) {
      flush_unknown(w);
      add_symbol(w, id, at, n);
    } else {
      n = character_size(rest);
      add_character(w, at, n, &scratch);
    }
  }
  flush_unknown(w);
  clave_status st = text_status(&scratch);
  text_free(&scratch);
  return st;
}

static void split_bytes(work *w) {
  for (size_t at = 0; at < w->text.size; at++) {
    uint32_t id = w->m->byte_symbol[(uint8_t)w->text.data[at]];
    if (id == VOCAB_NONE && w->m->pairs) {
      add_unknown(w, (span){w->text.data + at, 1});
    } else {
      flush_unknown(w);
      add_symbol(w, id, at, 1);
    }
  }
  flush_unknown(w);
}

/* ---------------------------------------------------------------- ids */

static void emit_symbol(work *w, uint32_t id, span s, id_list *out) {
  const bpe *m = w->m;
  if (id != VOCAB_NONE) {
    id_list_append(out, id);
    w->pending = false;
    return;
  }
  bool done = append_bytes(m->byte_ids, s, out);
  bool joins = w->pending && m->options.unknown.fuse;
  if (!done && !joins && m->options.unknown.id != VOCAB_NONE)
    id_list_append(out, m->options.unknown.id);
  w->pending = !done;
}

/* An unused piece falls into the two parts that it was last made of anywhere in the text, these
 * perhaps again. `ends`: where what is still to be written ends, the next on top. */
static clave_status emit_unused(work *w, const symbol *s, id_list *out) {
  uint32_t *ends = malloc((s->size + 1) * sizeof *ends), n = 0, start = s->start;
  if (!ends) return status_no_memory();
  ends[n++] = s->start + s->size;
  while (n > 0) {
    span part = {w->text.data + start, ends[n - 1] - start};
    uint32_t id = find_piece(w->m, part);
    uint32_t left = id != VOCAB_NONE && kind_of(w->m, id) == PIECE_UNUSED ? w->splits[id] : 0;
    if (left > 0) {
      ends[n++] = start + left;
      continue;
    }
    emit_symbol(w, id, part, out);
    start = ends[--n];
  }
  free(ends);
  return NULL;
}

static clave_status emit(work *w, id_list *out) {
  w->pending = false;
  for (uint32_t i = 0; i != END; i = w->symbols[i].next) {
    const symbol *s = &w->symbols[i];
    if (w->splits && s->id != VOCAB_NONE && kind_of(w->m, s->id) == PIECE_UNUSED) {
      TRY(emit_unused(w, s, out));
    } else {
      emit_symbol(w, s->id, (span){w->text.data + s->start, s->size}, out);
    }
  }
  return out->failed ? status_no_memory() : NULL;
}

static clave_status encode_symbols(work *w, id_list *out) {
  if (w->m->options.symbols == BPE_BYTES) {
    split_bytes(w);
  } else {
    TRY(split_characters(w));
  }
  if (w->count == 0) return NULL;
  w->symbols[w->count - 1].next = END;
  for (uint32_t i = 0; i < w->count; i++) rank_pair(w, i);
  if (w->count <= FEW_SYMBOLS) {
    merge_few(w);
  } else {
    TRY(merge_many(w));
  }
  return emit(w, out);
}

/* Symbols that a piece can make: one for each byte, of what is put around characters too. */
static bool most_symbols(const bpe *m, span piece, size_t *most) {
  return mul_size(piece.size, m->options.continuing_prefix.size + 1, most) &&
         add_size(*most, m->options.word_suffix.size, most) && *most < UINT32_MAX / 2;
}

static clave_status encode_long(work *w, size_t most, id_list *out) {
  w->symbols = malloc(most * sizeof *w->symbols);
  if (w->m->has_unused) w->splits = calloc(w->m->n_ids, sizeof *w->splits);
  clave_status st =
      w->symbols && (w->splits || !w->m->has_unused) ? encode_symbols(w, out) : status_no_memory();
  free(w->symbols);
  free(w->splits);
  return st;
}

static clave_status encode_bpe(const token_model *self, span piece, id_list *out) {
  const bpe *m = (const bpe *)self;
  size_t most;
  if (piece.size == 0) return NULL;
  if (m->options.whole_first) {
    uint32_t id = find_piece(m, piece);
    if (id != VOCAB_NONE) {
      id_list_append(out, id);
      return out->failed ? status_no_memory() : NULL;
    }
  }
  if (!most_symbols(m, piece, &most))
    return INVALID("a piece of %zu bytes is too long", piece.size);
  work w = {.m = m, .text = piece};
  if (most > FEW_SYMBOLS || m->has_unused) return encode_long(&w, most, out);
  symbol few[FEW_SYMBOLS];
  w.symbols = few;
  return encode_symbols(&w, out);
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

static clave_status fill_pairs(bpe *m) {
  size_t n = 16, bytes;
  while (n < m->options.n_merges + m->options.n_merges / 2) n *= 2;
  if (n > UINT32_MAX || !mul_size(n, sizeof *m->pairs, &bytes)) return status_no_memory();
  m->pairs = malloc(bytes);
  if (!m->pairs) return status_no_memory();
  memset(m->pairs, 0xFF, bytes);
  m->pair_mask = (uint32_t)n - 1;
  for (size_t i = 0; i < m->options.n_merges; i++) {
    bpe_merge g = m->options.merges[i];
    *find_slot(m, g.left, g.right) = (pair_slot){g.left, g.right, (uint32_t)i, g.result};
  }
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
    bool merges = kind_of(m, id) == PIECE_NORMAL || kind_of(m, id) == PIECE_UNUSED;
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
    TRY(fill_pairs(m));
  } else {
    TRY(fill_ranks(m));
  }
  for (uint32_t id = 0; id < m->n_ids; id++) {
    size_t size = vocab_piece(m->vocab, id).size;
    if (size > m->max_piece) m->max_piece = size;
  }
  for (int b = 0; b < 256; b++) {
    char byte = (char)b;
    m->byte_symbol[b] = find_piece(m, (span){&byte, 1});
  }
  memset(m->byte_ids, 0xFF, sizeof m->byte_ids);
  if (m->options.unknown.byte_ids)
    memcpy(m->byte_ids, m->options.unknown.byte_ids, sizeof m->byte_ids);
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
