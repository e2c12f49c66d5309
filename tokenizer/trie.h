#ifndef TOKENIZER_TRIE_H
#define TOKENIZER_TRIE_H
/* Finds the strings of a set that a text begins with: a double-array trie (Aoe 1989), immutable
 * once created. */
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "tokenizer/vocab.h"

typedef struct trie_unit {
  uint32_t base;   /* the child for byte b, if any, is at base ^ b */
  uint32_t parent; /* TRIE_NONE: the unit is free */
  uint32_t value;  /* value of the key that ends here; TRIE_NONE if none does */
} trie_unit;

typedef struct trie {
  trie_unit *units; /* (count), a multiple of 256, owned; units[0] is the root */
  uint32_t count;
} trie;
#define TRIE_NONE UINT32_MAX

/* Creates a trie. Keys may be in any order and must not be empty; of equal keys the first one
 * counts. Without keys the trie is only a root. */
clave_status trie_create(const span *keys, const uint32_t *values, size_t count,
                         trie *out) STATUS_CHECK;
void trie_destroy(trie *trie); /* accepts a zeroed trie */

/* Returns the child of a node (0: the root) for a byte, 0 if none exists. */
static inline uint32_t trie_step(const trie *trie, uint32_t node, char byte) {
  uint32_t child = trie->units[node].base ^ (uint8_t)byte;
  return trie->units[child].parent == node ? child : 0;
}

/* Returns the bytes of the longest key that `in` begins with, 0 if none exists. */
size_t trie_longest(const trie *trie, span in, uint32_t *value);

#endif
