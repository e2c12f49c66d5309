/* Decodes base64. */
#include "base/base64.h"

#include <stdint.h>

static int base64_value_of(char c) {
  return c >= 'A' && c <= 'Z'   ? c - 'A'
         : c >= 'a' && c <= 'z' ? c - 'a' + 26
         : c >= '0' && c <= '9' ? c - '0' + 52
         : c == '+'             ? 62
         : c == '/'             ? 63
                                : -1;
}

bool base64_decode(const char *in, size_t size, text *out) {
  size_t before = out->size, padding = 0;
  if (size % 4 != 0) return false;
  while (padding < 2 && padding < size && in[size - 1 - padding] == '=') padding++;
  for (size_t i = 0; i < size; i += 4) {
    uint32_t bits = 0;
    for (size_t j = i; j < i + 4; j++) {
      int value = j >= size - padding ? 0 : base64_value_of(in[j]);
      if (value < 0) {
        out->size = before;
        return false;
      }
      bits = bits << 6 | (uint32_t)value;
    }
    char bytes[3] = {(char)(bits >> 16 & 0xFF), (char)(bits >> 8 & 0xFF), (char)(bits & 0xFF)};
    text_append(out, bytes, i + 4 == size ? 3 - padding : 3);
  }
  return true;
}
