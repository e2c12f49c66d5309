#ifndef TOKENIZER_TRIE_H
#define TOKENIZER_TRIE_H
/* Which of many byte strings begin here: a double-array trie (Aoe 1989), read-only once made. */
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "tokenizer/vocab.h"

typedef struct trie_unit {
  uint32_t base;   /* a child over byte b, if there is one, lies at base ^ b */
  uint32_t parent; /* TRIE_NONE: free */
  uint32_t value;  /* of the key that ends here; TRIE_NONE: none does */
} trie_unit;

typedef struct trie {
  trie_unit *units; /* (count) a multiple of 256, owned; units[0] is the root */
  uint32_t count;
} trie;
#define TRIE_NONE UINT32_MAX

/* Keys in any order, not empty; of equal keys the first one counts. No key: a root alone. */
clave_status trie_create(const span *keys, const uint32_t *values, size_t count,
                         trie *out) STATUS_CHECK;
void trie_destroy(trie *trie); /* takes a zeroed one */

/* The child of a node (0: the root) over a byte, 0 if there is none. */
static inline uint32_t trie_step(const trie *trie, uint32_t node, char byte) {
  uint32_t child = trie->units[node].base ^ (uint8_t)byte;
  return trie->units[child].parent == node ? child : 0;
}

/* Bytes of the longest key that `in` begins with, 0: none does. */
size_t trie_longest(const trie *trie, span in, uint32_t *value);

#endif
