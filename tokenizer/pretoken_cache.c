/* A direct-mapped table of short pre-tokens: newer ones replace older ones. */
#include "tokenizer/pretoken_cache.h"

#include <stdlib.h>
#include <string.h>

enum { LONGEST = 23, N_ENTRIES = 1 << 12, SHORT_TEXT = 4096 };

typedef struct key { /* the pre-token, padding zeros, its size */
  uint64_t words[3];
} key;

typedef struct entry {
  key key;            /* size 0: the entry is free */
  uint32_t at, count; /* range of its ids in the list */
} entry;

struct pretoken_cache {
  entry entries[N_ENTRIES];
};

pretoken_cache *pretoken_cache_create(size_t text_size) {
  return text_size >= SHORT_TEXT ? calloc(1, sizeof(pretoken_cache)) : NULL;
}

void pretoken_cache_destroy(pretoken_cache *cache) { free(cache); }

static key pretoken_cache_key_of(span pretoken) {
  char bytes[LONGEST + 1] = {0};
  key key;
  memcpy(bytes, pretoken.data, pretoken.size);
  bytes[LONGEST] = (char)pretoken.size;
  memcpy(key.words, bytes, sizeof bytes);
  return key;
}

static entry *pretoken_cache_entry_of(pretoken_cache *cache, const key *key) {
  uint64_t h = key->words[0] * 0x9E3779B97F4A7C15u;
  h = (h ^ (h >> 32) ^ key->words[1]) * 0xBF58476D1CE4E5B9u;
  h = (h ^ (h >> 32) ^ key->words[2]) * 0x94D049BB133111EBu;
  return &cache->entries[(h >> 40) % N_ENTRIES];
}

static bool pretoken_cache_same_key(const key *left, const key *right) {
  return left->words[0] == right->words[0] && left->words[1] == right->words[1] &&
         left->words[2] == right->words[2];
}

clave_status pretoken_cache_encode(pretoken_cache *cache, const token_model *model, span pretoken,
                                   id_list *out) {
  if (!cache || pretoken.size == 0 || pretoken.size > LONGEST)
    return model->encode(model, pretoken, out);
  key key = pretoken_cache_key_of(pretoken);
  entry *row = pretoken_cache_entry_of(cache, &key);
  if (pretoken_cache_same_key(&row->key, &key)) {
    for (uint32_t i = 0; i < row->count; i++) id_list_append(out, out->items[row->at + i]);
    return out->failed ? status_no_memory() : NULL;
  }
  size_t before = out->count;
  TRY(model->encode(model, pretoken, out));
  if (out->count <= UINT32_MAX)
    *row = (entry){key, (uint32_t)before, (uint32_t)(out->count - before)};
  return NULL;
}
