/* GPT-2's alphabet: bytes that are printable Latin-1 characters are written as these characters,
 * and the 68 other bytes as U+0100 onwards, in order. */
#include "tokenizer/byte_level.h"

#include "tokenizer/unicode.h"

static bool is_itself(uint32_t byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte != 0xAD);
}

/* Returns the number of smaller bytes that are not written as themselves (0..32, 127..160, 173). */
static uint32_t rank_of(uint32_t byte) {
  return byte <= 32 ? byte : byte <= 160 ? byte - 127 + 33 : 67;
}

static bool byte_level_byte_of(uint32_t c, uint8_t *byte) {
  if (c < 0x100) {
    *byte = (uint8_t)c;
    return is_itself(c);
  }
  c -= 0x100;
  *byte = (uint8_t)(c < 33 ? c : c < 67 ? c - 33 + 127 : 173);
  return c < 68;
}

void byte_level_encode(span bytes, text *out) {
  for (size_t i = 0; i < bytes.size; i++) {
    uint32_t b = (uint8_t)bytes.data[i];
    unicode_append(out, is_itself(b) ? b : 0x100 + rank_of(b));
  }
}

bool byte_level_covers(span in) {
  uint32_t c;
  uint8_t byte;
  for (size_t i = 0; i < in.size;) {
    i += utf8_read(in.data + i, &c);
    if (!byte_level_byte_of(c, &byte)) return false;
  }
  return true;
}

bool byte_level_decode(span in, text *out) {
  size_t before = out->size;
  for (size_t i = 0; i < in.size;) {
    uint32_t c;
    uint8_t byte;
    i += utf8_read(in.data + i, &c);
    if (!byte_level_byte_of(c, &byte)) {
      out->size = before;
      return false;
    }
    text_append(out, (const char *)&byte, 1);
  }
  return true;
}
