/* Merging. Each symbol has the rank of its pair with the next one, and the best pair is merged
 * until there is none. Few symbols are scanned for the best pair, many use a heap. */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "tokenizer/bpe.h"

enum { FEW_SYMBOLS = 64 }; /* limit for scanning */

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

static pair_slot *bpe_merge_find_slot(const bpe *bpe, uint32_t left, uint32_t right) {
  for (uint32_t i = pair_start(left, right, bpe->pair_mask);; i = (i + 1) & bpe->pair_mask) {
    pair_slot *slot = &bpe->pairs[i];
    if (slot->left == VOCAB_NONE || (slot->left == left && slot->right == right)) return slot;
  }
}

static bool is_user(const bpe *bpe, uint32_t id) {
  return id != VOCAB_NONE && bpe_kind(bpe, id) == PIECE_USER;
}

/* Ranks a pair by its joined bytes; both parts are adjacent in the text. */
static void rank_by_bytes(const list *list, symbol *left, const symbol *right) {
  const bpe *bpe = list->m;
  if (bpe->user.units && (is_user(bpe, left->id) || is_user(bpe, right->id))) return;
  uint32_t id = bpe_find(bpe, (span){list->text.data + left->start, left->size + right->size});
  if (id == VOCAB_NONE) return;
  left->rank = bpe->ranks ? bpe->ranks[id] : id;
  left->result = id;
  if (list->splits && bpe_kind(bpe, id) == PIECE_UNUSED) list->splits[id] = left->size;
}

static void rank_pair(const list *list, uint32_t at) {
  symbol *left = &list->symbols[at];
  left->rank = NO_PAIR;
  if (left->next == END) return;
  if (!list->m->pairs) {
    rank_by_bytes(list, left, &list->symbols[left->next]);
    return;
  }
  const pair_slot *slot = bpe_merge_find_slot(list->m, left->id, list->symbols[left->next].id);
  if (slot->left == VOCAB_NONE) return;
  left->rank = slot->rank;
  left->result = slot->result;
}

/* Merges a symbol with the next one. */
static void join_pair(const list *list, uint32_t at) {
  symbol *left = &list->symbols[at], *right = &list->symbols[left->next];
  left->size += right->size;
  left->id = left->result;
  left->next = right->next;
  right->rank = NO_PAIR;
  right->id = JOINED;
  if (left->next != END) list->symbols[left->next].prev = at;
  if (left->prev != END) rank_pair(list, left->prev);
  rank_pair(list, at);
}

static void merge_few(const list *list) {
  for (;;) {
    uint32_t best = 0;
    for (uint32_t i = 0; i != END; i = list->symbols[i].next) {
      if (list->symbols[i].rank < list->symbols[best].rank) best = i;
    }
    if (list->symbols[best].rank == NO_PAIR) return;
    join_pair(list, best);
  }
}

/* ---------------------------------------------------------------- heap for many symbols */

typedef struct heap { /* entries are rank << 32 | symbol; outdated entries are skipped */
  uint64_t *items;
  size_t count;
} heap;

static void sift_down(heap *heap, size_t at) {
  uint64_t item = heap->items[at];
  for (size_t child; (child = at * 2 + 1) < heap->count; at = child) {
    if (child + 1 < heap->count && heap->items[child + 1] < heap->items[child]) child++;
    if (item <= heap->items[child]) break;
    heap->items[at] = heap->items[child];
  }
  heap->items[at] = item;
}

static void push(heap *heap, uint32_t rank, uint32_t at) {
  if (rank == NO_PAIR) return;
  uint64_t item = (uint64_t)rank << 32 | at;
  size_t i = heap->count++;
  for (; i > 0 && item < heap->items[(i - 1) / 2]; i = (i - 1) / 2)
    heap->items[i] = heap->items[(i - 1) / 2];
  heap->items[i] = item;
}

static uint64_t pop(heap *heap) {
  uint64_t item = heap->items[0];
  heap->items[0] = heap->items[--heap->count];
  if (heap->count > 0) sift_down(heap, 0);
  return item;
}

/* A merge pops one entry and pushes at most two, so a capacity of 2n is enough. */
static clave_status merge_many(const list *list) {
  heap heap = {malloc(2 * (size_t)list->count * sizeof *heap.items), 0};
  if (!heap.items) return status_no_memory();
  for (uint32_t i = 0; i < list->count; i++) {
    if (list->symbols[i].rank != NO_PAIR)
      heap.items[heap.count++] = (uint64_t)list->symbols[i].rank << 32 | i;
  }
  for (size_t i = heap.count / 2; i-- > 0;) sift_down(&heap, i);
  while (heap.count > 0) {
    uint64_t item = pop(&heap);
    uint32_t at = (uint32_t)item;
    if (list->symbols[at].rank != item >> 32) continue;
    join_pair(list, at);
    uint32_t prev = list->symbols[at].prev;
    if (prev != END) push(&heap, list->symbols[prev].rank, prev);
    push(&heap, list->symbols[at].rank, at);
  }
  free(heap.items);
  return NULL;
}

clave_status bpe_merge_symbols(const bpe *bpe, span in, symbol *symbols, uint32_t count,
                               uint32_t *splits) {
  list list = {bpe, in, symbols, count, splits};
  if (count < 2) return NULL;
  for (uint32_t i = 0; i < count; i++) {
    symbols[i].prev = i > 0 ? i - 1 : END;
    symbols[i].next = i + 1 < count ? i + 1 : END;
    rank_pair(&list, i);
  }
  if (count > FEW_SYMBOLS) return merge_many(&list);
  merge_few(&list);
  return NULL;
}

clave_status bpe_pairs_create(bpe *bpe) {
  size_t n = 16, bytes;
  while (n < bpe->options.n_merges + bpe->options.n_merges / 2) n *= 2;
  if (n > UINT32_MAX || !mul_size(n, sizeof *bpe->pairs, &bytes)) return status_no_memory();
  bpe->pairs = malloc(bytes);
  if (!bpe->pairs) return status_no_memory();
  memset(bpe->pairs, 0xFF, bytes);
  bpe->pair_mask = (uint32_t)n - 1;
  for (size_t i = 0; i < bpe->options.n_merges; i++) {
    bpe_merge merge = bpe->options.merges[i];
    *bpe_merge_find_slot(bpe, merge.left, merge.right) =
        (pair_slot){merge.left, merge.right, (uint32_t)i, merge.result};
  }
  return NULL;
}
