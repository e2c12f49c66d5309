#ifndef BASE_SHA256_H
#define BASE_SHA256_H
/* SHA-256 (FIPS 180-4), for hashes that other tools compare, as in lists of a program's parts. */
#include <stddef.h>
#include <stdint.h>

typedef struct sha256 {
  uint32_t state[8];
  uint64_t size; /* bytes so far */
  uint8_t block[64];
} sha256;
void sha256_begin(sha256 *sha256);
void sha256_add(sha256 *sha256, const void *bytes, size_t n);
enum { SHA256_TEXT = 65 };
void sha256_end(sha256 *sha256, char hex[SHA256_TEXT]); /* 64 lower-case digits and NUL */

#endif
