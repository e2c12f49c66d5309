/* A direct-mapped table of short pieces: a newer one takes the place of an older. */
#include "tokenizer/piece_cache.h"

#include <stdlib.h>
#include <string.h>

enum { LONGEST = 23, N_ENTRIES = 1 << 12, SHORT_TEXT = 4096 };

typedef struct key { /* the piece, zeros, its size */
  uint64_t words[3];
} key;

typedef struct entry {
  key key;            /* of size 0: free */
  uint32_t at, count; /* its ids in the list */
} entry;

struct piece_cache {
  entry entries[N_ENTRIES];
};

piece_cache *piece_cache_create(size_t text_size) {
  return text_size >= SHORT_TEXT ? calloc(1, sizeof(piece_cache)) : NULL;
}

void piece_cache_destroy(piece_cache *c) { free(c); }

static key key_of(span piece) {
  char bytes[LONGEST + 1] = {0};
  key k;
  memcpy(bytes, piece.data, piece.size);
  bytes[LONGEST] = (char)piece.size;
  memcpy(k.words, bytes, sizeof bytes);
  return k;
}

static entry *entry_of(piece_cache *c, const key *k) {
  uint64_t h = k->words[0] * 0x9E3779B97F4A7C15u;
  h = (h ^ (h >> 32) ^ k->words[1]) * 0xBF58476D1CE4E5B9u;
  h = (h ^ (h >> 32) ^ k->words[2]) * 0x94D049BB133111EBu;
  return &c->entries[(h >> 40) % N_ENTRIES];
}

static bool same_key(const key *a, const key *b) {
  return a->words[0] == b->words[0] && a->words[1] == b->words[1] && a->words[2] == b->words[2];
}

clave_status piece_cache_encode(piece_cache *c, const token_model *m, span piece, id_list *out) {
  if (!c || piece.size == 0 || piece.size > LONGEST) return m->encode(m, piece, out);
  key k = key_of(piece);
  entry *e = entry_of(c, &k);
  if (same_key(&e->key, &k)) {
    for (uint32_t i = 0; i < e->count; i++) id_list_append(out, out->items[e->at + i]);
    return out->failed ? status_no_memory() : NULL;
  }
  size_t before = out->count;
  TRY(m->encode(m, piece, out));
  if (out->count <= UINT32_MAX) *e = (entry){k, (uint32_t)before, (uint32_t)(out->count - before)};
  return NULL;
}
