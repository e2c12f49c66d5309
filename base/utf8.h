#ifndef BASE_UTF8_H
#define BASE_UTF8_H
/* UTF-8 as in RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns the length in bytes of the well-formed sequence at the start of text (n bytes), or 0. */
static inline size_t utf8_sequence(const char *text, size_t n) {
  const uint8_t *bytes = (const uint8_t *)text;
  if (n == 0) return 0;
  if (bytes[0] < 0x80) return 1;
  if (bytes[0] < 0xC2 || bytes[0] > 0xF4) return 0;
  size_t length = bytes[0] < 0xE0 ? 2 : bytes[0] < 0xF0 ? 3 : 4;
  if (n < length) return 0;
  for (size_t i = 1; i < length; i++) {
    if ((bytes[i] & 0xC0) != 0x80) return 0;
  }
  if ((bytes[0] == 0xE0 && bytes[1] < 0xA0) || (bytes[0] == 0xED && bytes[1] > 0x9F)) return 0;
  if ((bytes[0] == 0xF0 && bytes[1] < 0x90) || (bytes[0] == 0xF4 && bytes[1] > 0x8F)) return 0;
  return length;
}

/* Reads the well-formed sequence at the start of text and returns its length in bytes. */
static inline size_t utf8_read(const char *text, uint32_t *code_point) {
  const uint8_t *bytes = (const uint8_t *)text;
  if (bytes[0] < 0x80) {
    *code_point = bytes[0];
    return 1;
  }
  if (bytes[0] < 0xE0) {
    *code_point = (bytes[0] & 0x1FU) << 6 | (bytes[1] & 0x3FU);
    return 2;
  }
  if (bytes[0] < 0xF0) {
    *code_point = (bytes[0] & 0x0FU) << 12 | (bytes[1] & 0x3FU) << 6 | (bytes[2] & 0x3FU);
    return 3;
  }
  *code_point = (bytes[0] & 0x07U) << 18 | (bytes[1] & 0x3FU) << 12 | (bytes[2] & 0x3FU) << 6 |
                (bytes[3] & 0x3FU);
  return 4;
}

static inline size_t utf8_size(uint32_t c) {
  return c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
}

/* Writes a code point and returns its length in bytes. */
static inline size_t utf8_write(uint32_t c, char *to /* [4] */) {
  static const uint8_t lead[] = {0, 0, 0xC0, 0xE0, 0xF0};
  size_t n = utf8_size(c);
  for (size_t i = n; i-- > 1; c >>= 6) to[i] = (char)(0x80 | (c & 0x3F));
  to[0] = (char)(lead[n] | c);
  return n;
}

static inline bool utf8_valid(const char *text, size_t n) {
  while (n > 0) {
    size_t length = utf8_sequence(text, n);
    if (length == 0) return false;
    text += length;
    n -= length;
  }
  return true;
}

#endif
