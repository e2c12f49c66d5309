/* Builds the double array from sorted keys, a node's children at a time. Children of one node share
 * a block of 256 units, so that an index never leaves the array. */
#include "tokenizer/trie.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

enum { BLOCK = 256, OPEN_BLOCKS = 16, MAX_UNITS = 1 << 30 };

typedef struct key {
  uint64_t prefix; /* its first 8 bytes, the first one on top, zeros beyond its end */
  span text;
  uint32_t value, order;
} key;

typedef struct range { /* the keys below a node: they share `depth` bytes */
  uint32_t node, first, last, depth;
} range;

typedef struct link { /* free units by index, in a ring that begins at the root */
  uint32_t prev, next;
} link;

typedef struct builder {
  key *keys;   /* sorted */
  range *todo; /* a stack */
  size_t n_todo, cap_todo;
  trie_unit *units;
  link *links;
  uint32_t count; /* of units */
  size_t cap_units, cap_links;
} builder;

static int compare_keys(const void *a, const void *b) {
  const key *x = a, *y = b;
  if (x->prefix != y->prefix) return x->prefix < y->prefix ? -1 : 1;
  size_t n = x->text.size < y->text.size ? x->text.size : y->text.size;
  int c = memcmp(x->text.data, y->text.data, n);
  if (c != 0) return c;
  if (x->text.size != y->text.size) return x->text.size < y->text.size ? -1 : 1;
  return x->order < y->order ? -1 : 1;
}

static uint64_t prefix_of(span s) {
  uint64_t prefix = 0;
  for (size_t i = 0; i < 8; i++) prefix = prefix << 8 | (i < s.size ? (uint8_t)s.data[i] : 0);
  return prefix;
}

static void unlink_unit(builder *b, uint32_t i) {
  b->links[b->links[i].prev].next = b->links[i].next;
  b->links[b->links[i].next].prev = b->links[i].prev;
}

static clave_status grow_units(builder *b) {
  if (b->count >= MAX_UNITS) return INVALID("the vocabulary is too large for a trie");
  size_t need = (size_t)b->count + BLOCK;
  bool good = array_reserve(&b->units, &b->cap_units, need, sizeof *b->units) &&
              array_reserve(&b->links, &b->cap_links, need, sizeof *b->links);
  return good ? NULL : status_no_memory();
}

/* A block more; what is still free in the oldest open one stays so for good: looking there again
 * and again would cost more than it saves. */
static clave_status add_block(builder *b) {
  TRY(grow_units(b));
  uint32_t start = b->count;
  b->count += BLOCK;
  for (uint32_t i = start; i < b->count; i++) {
    b->units[i] = (trie_unit){0, TRIE_NONE, TRIE_NONE};
    uint32_t last = i == 0 ? 0 : b->links[0].prev;
    b->links[i] = (link){last, 0};
    b->links[last].next = i;
    b->links[0].prev = i;
  }
  uint32_t closed = start >= OPEN_BLOCKS * BLOCK ? start - (OPEN_BLOCKS - 1) * BLOCK : 0;
  while (b->links[0].next != 0 && b->links[0].next < closed) unlink_unit(b, b->links[0].next);
  return NULL;
}

static bool all_free(const builder *b, uint32_t base, const uint8_t *labels, size_t n) {
  for (size_t i = 0; i < n; i++) {
    uint32_t at = base ^ labels[i];
    if (at == 0 || b->units[at].parent != TRIE_NONE) return false;
  }
  return true;
}

/* A base under which all labels are free. */
static clave_status find_base(builder *b, const uint8_t *labels, size_t n, uint32_t *base) {
  for (uint32_t i = b->links[0].next; i != 0; i = b->links[i].next) {
    *base = i ^ labels[0];
    if (all_free(b, *base, labels, n)) return NULL;
  }
  *base = b->count;
  return add_block(b);
}

static clave_status push_range(builder *b, range r) {
  if (!array_reserve(&b->todo, &b->cap_todo, b->n_todo + 1, sizeof *b->todo))
    return status_no_memory();
  b->todo[b->n_todo++] = r;
  return NULL;
}

/* The children of a node: a unit each, and the ranges below them. */
static clave_status add_children(builder *b, range r) {
  uint8_t labels[BLOCK];
  uint32_t starts[BLOCK + 1], base;
  size_t n = 0;
  while (r.first < r.last && b->keys[r.first].text.size == r.depth) {
    if (b->units[r.node].value == TRIE_NONE) b->units[r.node].value = b->keys[r.first].value;
    r.first++;
  }
  if (r.first == r.last) return NULL;
  for (uint32_t i = r.first; i < r.last; i++) {
    uint8_t label = (uint8_t)b->keys[i].text.data[r.depth];
    if (n > 0 && labels[n - 1] == label) continue;
    labels[n] = label;
    starts[n++] = i;
  }
  starts[n] = r.last;
  TRY(find_base(b, labels, n, &base));
  b->units[r.node].base = base;
  for (size_t i = n; i-- > 0;) {
    uint32_t child = base ^ labels[i];
    unlink_unit(b, child);
    b->units[child] = (trie_unit){0, r.node, TRIE_NONE};
    TRY(push_range(b, (range){child, starts[i], starts[i + 1], r.depth + 1}));
  }
  return NULL;
}

static clave_status build(builder *b, const span *keys, const uint32_t *values, size_t count) {
  size_t bytes;
  if (count >= UINT32_MAX || !mul_size(count + 1, sizeof *b->keys, &bytes))
    return status_no_memory();
  b->keys = malloc(bytes);
  if (!b->keys) return status_no_memory();
  for (size_t i = 0; i < count; i++)
    b->keys[i] = (key){prefix_of(keys[i]), keys[i], values[i], (uint32_t)i};
  qsort(b->keys, count, sizeof *b->keys, compare_keys);
  TRY(add_block(b));
  b->units[0].parent = TRIE_NONE - 1; /* no node's child, yet not free */
  TRY(push_range(b, (range){0, 0, (uint32_t)count, 0}));
  while (b->n_todo > 0) TRY(add_children(b, b->todo[--b->n_todo]));
  return NULL;
}

clave_status trie_create(const span *keys, const uint32_t *values, size_t count, trie *out) {
  builder b = {0};
  *out = (trie){0};
  clave_status st = build(&b, keys, values, count);
  free(b.keys);
  free(b.todo);
  free(b.links);
  if (st) {
    free(b.units);
    return st;
  }
  *out = (trie){b.units, b.count};
  return NULL;
}

void trie_destroy(trie *t) {
  free(t->units);
  *t = (trie){0};
}

size_t trie_longest(const trie *t, span in, uint32_t *value) {
  size_t longest = 0;
  uint32_t node = 0;
  for (size_t i = 0; i < in.size && (node = trie_step(t, node, in.data[i])) != 0; i++) {
    if (t->units[node].value == TRIE_NONE) continue;
    longest = i + 1;
    *value = t->units[node].value;
  }
  return longest;
}
