/* Merging. Each symbol has the rank of the pair it makes with the next one; the best pair is joined
 * until there is none. Few symbols are scanned for it, many keep a heap. */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "tokenizer/bpe.h"

enum { FEW_SYMBOLS = 64 }; /* that are scanned */

typedef struct list {
  const bpe *m;
  span text;
  symbol *symbols;
  uint32_t count;
  uint32_t *splits;
} list;

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
  return id != VOCAB_NONE && bpe_kind(m, id) == PIECE_USER;
}

/* The pair by its joined bytes; both parts lie side by side in the text. */
static void rank_by_bytes(const list *l, symbol *left, const symbol *right) {
  const bpe *m = l->m;
  if (m->user.units && (is_user(m, left->id) || is_user(m, right->id))) return;
  uint32_t id = bpe_find(m, (span){l->text.data + left->start, left->size + right->size});
  if (id == VOCAB_NONE) return;
  left->rank = m->ranks ? m->ranks[id] : id;
  left->result = id;
  if (l->splits && bpe_kind(m, id) == PIECE_UNUSED) l->splits[id] = left->size;
}

static void rank_pair(const list *l, uint32_t at) {
  symbol *left = &l->symbols[at];
  left->rank = NO_PAIR;
  if (left->next == END) return;
  if (!l->m->pairs) {
    rank_by_bytes(l, left, &l->symbols[left->next]);
    return;
  }
  const pair_slot *s = find_slot(l->m, left->id, l->symbols[left->next].id);
  if (s->left == VOCAB_NONE) return;
  left->rank = s->rank;
  left->result = s->result;
}

/* Joins a symbol with the next one. */
static void join_pair(const list *l, uint32_t at) {
  symbol *left = &l->symbols[at], *right = &l->symbols[left->next];
  left->size += right->size;
  left->id = left->result;
  left->next = right->next;
  right->rank = NO_PAIR;
  right->id = JOINED;
  if (left->next != END) l->symbols[left->next].prev = at;
  if (left->prev != END) rank_pair(l, left->prev);
  rank_pair(l, at);
}

static void merge_few(const list *l) {
  for (;;) {
    uint32_t best = 0;
    for (uint32_t i = 0; i != END; i = l->symbols[i].next) {
      if (l->symbols[i].rank < l->symbols[best].rank) best = i;
    }
    if (l->symbols[best].rank == NO_PAIR) return;
    join_pair(l, best);
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
static clave_status merge_many(const list *l) {
  heap h = {malloc(2 * (size_t)l->count * sizeof *h.items), 0};
  if (!h.items) return status_no_memory();
  for (uint32_t i = 0; i < l->count; i++) {
    if (l->symbols[i].rank != NO_PAIR) h.items[h.count++] = (uint64_t)l->symbols[i].rank << 32 | i;
  }
  for (size_t i = h.count / 2; i-- > 0;) sift_down(&h, i);
  while (h.count > 0) {
    uint64_t item = pop(&h);
    uint32_t at = (uint32_t)item;
    if (l->symbols[at].rank != item >> 32) continue;
    join_pair(l, at);
    uint32_t prev = l->symbols[at].prev;
    if (prev != END) push(&h, l->symbols[prev].rank, prev);
    push(&h, l->symbols[at].rank, at);
  }
  free(h.items);
  return NULL;
}

clave_status bpe_merge_symbols(const bpe *m, span in, symbol *symbols, uint32_t count,
                               uint32_t *splits) {
  list l = {m, in, symbols, count, splits};
  if (count < 2) return NULL;
  for (uint32_t i = 0; i < count; i++) {
    symbols[i].prev = i > 0 ? i - 1 : END;
    symbols[i].next = i + 1 < count ? i + 1 : END;
    rank_pair(&l, i);
  }
  if (count > FEW_SYMBOLS) return merge_many(&l);
  merge_few(&l);
  return NULL;
}

clave_status bpe_pairs_create(bpe *m) {
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
