#ifndef BASE_HASH_H
#define BASE_HASH_H
/* XXH3 (libxxhash, inlined): content hashes of files and cache keys. Not cryptographic. */
#include <stddef.h>
#include <stdint.h>

typedef struct hash_state hash_state; /* 64-bit, streaming */
hash_state *hash_create(void);        /* NULL when memory is out */
void hash_update(hash_state *hash, const void *bytes, size_t n);
uint64_t hash_value(const hash_state *hash);
void hash_destroy(hash_state *hash); /* accepts NULL */

uint64_t hash_bytes(const void *bytes, size_t n);
void hash_bytes_128(const void *bytes, size_t n, uint64_t out[2]);

#endif
