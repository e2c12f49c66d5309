/* XXH3 wrapped in plain functions: the only file that includes xxhash. */
#include "base/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

struct hash_state;
/* hash_state is XXH3's state; the cast keeps xxhash out of the header. */
static XXH3_state_t *xxh(hash_state *hash) { return (XXH3_state_t *)(void *)hash; }

hash_state *hash_create(void) {
  XXH3_state_t *state = XXH3_createState();
  if (state) (void)XXH3_64bits_reset(state);
  return (hash_state *)(void *)state;
}

void hash_update(hash_state *hash, const void *bytes, size_t n) {
  (void)XXH3_64bits_update(xxh(hash), bytes, n);
}
uint64_t hash_value(const hash_state *hash) {
  return XXH3_64bits_digest((const XXH3_state_t *)(const void *)hash);
}

void hash_destroy(hash_state *hash) {
  if (hash) (void)XXH3_freeState(xxh(hash));
}

uint64_t hash_bytes(const void *bytes, size_t n) { return XXH3_64bits(bytes, n); }

void hash_bytes_128(const void *bytes, size_t n, uint64_t out[2]) {
  XXH128_hash_t h = XXH3_128bits(bytes, n);
  out[0] = h.low64;
  out[1] = h.high64;
}
