/* Builds the double array from sorted keys, the children of one node at a time. Children of one
 * node share a block of 256 units, so an index never leaves the array. */
#include "tokenizer/trie.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

enum { BLOCK = 256, OPEN_BLOCKS = 16, MAX_UNITS = 1 << 30 };

typedef struct key {
  uint64_t prefix; /* the first 8 bytes, the first one most significant, zero-padded */
  span text;
  uint32_t value, order;
} key;

typedef struct range { /* the keys below a node, which share `depth` bytes */
  uint32_t node, first, last, depth;
} range;

typedef struct link { /* ring of the free units, by index, starting at the root */
  uint32_t prev, next;
} link;

typedef struct builder {
  key *keys;   /* sorted */
  range *todo; /* a stack */
  size_t n_todo, cap_todo;
  trie_unit *units;
  link *links;
  uint32_t count; /* number of units */
  size_t cap_units, cap_links;
} builder;

static int trie_compare_keys(const void *left, const void *right) {
  const key *a = left, *b = right;
  if (a->prefix != b->prefix) return a->prefix < b->prefix ? -1 : 1;
  size_t n = a->text.size < b->text.size ? a->text.size : b->text.size;
  int c = memcmp(a->text.data, b->text.data, n);
  if (c != 0) return c;
  if (a->text.size != b->text.size) return a->text.size < b->text.size ? -1 : 1;
  return a->order < b->order ? -1 : 1;
}

static uint64_t prefix_of(span span) {
  uint64_t prefix = 0;
  for (size_t i = 0; i < 8; i++) prefix = prefix << 8 | (i < span.size ? (uint8_t)span.data[i] : 0);
  return prefix;
}

static void unlink_unit(builder *builder, uint32_t i) {
  builder->links[builder->links[i].prev].next = builder->links[i].next;
  builder->links[builder->links[i].next].prev = builder->links[i].prev;
}

static clave_status grow_units(builder *builder) {
  if (builder->count >= MAX_UNITS) return INVALID("the vocabulary is too large for a trie");
  size_t need = (size_t)builder->count + BLOCK;
  bool good = array_reserve(&builder->units, &builder->cap_units, need, sizeof *builder->units) &&
              array_reserve(&builder->links, &builder->cap_links, need, sizeof *builder->links);
  return good ? NULL : status_no_memory();
}

/* Adds a block. No longer searches the oldest open block for free units, because repeated searches
 * would cost more than they save. */
static clave_status trie_add_block(builder *builder) {
  TRY(grow_units(builder));
  uint32_t start = builder->count;
  builder->count += BLOCK;
  for (uint32_t i = start; i < builder->count; i++) {
    builder->units[i] = (trie_unit){0, TRIE_NONE, TRIE_NONE};
    uint32_t last = i == 0 ? 0 : builder->links[0].prev;
    builder->links[i] = (link){last, 0};
    builder->links[last].next = i;
    builder->links[0].prev = i;
  }
  uint32_t closed = start >= OPEN_BLOCKS * BLOCK ? start - (OPEN_BLOCKS - 1) * BLOCK : 0;
  while (builder->links[0].next != 0 && builder->links[0].next < closed)
    unlink_unit(builder, builder->links[0].next);
  return NULL;
}

static bool all_free(const builder *builder, uint32_t base, const uint8_t *labels, size_t n) {
  for (size_t i = 0; i < n; i++) {
    uint32_t at = base ^ labels[i];
    if (at == 0 || builder->units[at].parent != TRIE_NONE) return false;
  }
  return true;
}

/* Finds a base for which the units of all labels are free. */
static clave_status find_base(builder *builder, const uint8_t *labels, size_t n, uint32_t *base) {
  for (uint32_t i = builder->links[0].next; i != 0; i = builder->links[i].next) {
    *base = i ^ labels[0];
    if (all_free(builder, *base, labels, n)) return NULL;
  }
  *base = builder->count;
  return trie_add_block(builder);
}

static clave_status push_range(builder *builder, range range) {
  if (!array_reserve(&builder->todo, &builder->cap_todo, builder->n_todo + 1,
                     sizeof *builder->todo))
    return status_no_memory();
  builder->todo[builder->n_todo++] = range;
  return NULL;
}

/* Adds the children of a node: a unit for each, and the ranges of keys below them. */
static clave_status add_children(builder *builder, range r) {
  uint8_t labels[BLOCK];
  uint32_t starts[BLOCK + 1], base;
  size_t n = 0;
  while (r.first < r.last && builder->keys[r.first].text.size == r.depth) {
    if (builder->units[r.node].value == TRIE_NONE)
      builder->units[r.node].value = builder->keys[r.first].value;
    r.first++;
  }
  if (r.first == r.last) return NULL;
  for (uint32_t i = r.first; i < r.last; i++) {
    uint8_t label = (uint8_t)builder->keys[i].text.data[r.depth];
    if (n > 0 && labels[n - 1] == label) continue;
    labels[n] = label;
    starts[n++] = i;
  }
  starts[n] = r.last;
  TRY(find_base(builder, labels, n, &base));
  builder->units[r.node].base = base;
  for (size_t i = n; i-- > 0;) {
    uint32_t child = base ^ labels[i];
    unlink_unit(builder, child);
    builder->units[child] = (trie_unit){0, r.node, TRIE_NONE};
    TRY(push_range(builder, (range){child, starts[i], starts[i + 1], r.depth + 1}));
  }
  return NULL;
}

static clave_status trie_build(builder *builder, const span *keys, const uint32_t *values,
                               size_t count) {
  size_t bytes;
  if (count >= UINT32_MAX || !mul_size(count + 1, sizeof *builder->keys, &bytes))
    return status_no_memory();
  builder->keys = malloc(bytes);
  if (!builder->keys) return status_no_memory();
  for (size_t i = 0; i < count; i++)
    builder->keys[i] = (key){prefix_of(keys[i]), keys[i], values[i], (uint32_t)i};
  qsort(builder->keys, count, sizeof *builder->keys, trie_compare_keys);
  TRY(trie_add_block(builder));
  builder->units[0].parent = TRIE_NONE - 1; /* neither a child nor free */
  TRY(push_range(builder, (range){0, 0, (uint32_t)count, 0}));
  while (builder->n_todo > 0) TRY(add_children(builder, builder->todo[--builder->n_todo]));
  return NULL;
}

clave_status trie_create(const span *keys, const uint32_t *values, size_t count, trie *out) {
  builder builder = {0};
  *out = (trie){0};
  clave_status st = trie_build(&builder, keys, values, count);
  free(builder.keys);
  free(builder.todo);
  free(builder.links);
  if (st) {
    free(builder.units);
    return st;
  }
  *out = (trie){builder.units, builder.count};
  return NULL;
}

void trie_destroy(trie *tree) {
  free(tree->units);
  *tree = (trie){0};
}

size_t trie_longest(const trie *trie, span in, uint32_t *value) {
  size_t longest = 0;
  uint32_t node = 0;
  for (size_t i = 0; i < in.size && (node = trie_step(trie, node, in.data[i])) != 0; i++) {
    if (trie->units[node].value == TRIE_NONE) continue;
    longest = i + 1;
    *value = trie->units[node].value;
  }
  return longest;
}
