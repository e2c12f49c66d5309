#ifndef TEST_TOKENIZER_PROTO_WRITER_H
#define TEST_TOKENIZER_PROTO_WRITER_H
/* Writes protocol buffers, to make SentencePiece models in tests. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "tokenizer/vocab.h"

static inline void put_varint(text *t, uint64_t value) {
  do {
    char byte = (char)((value & 0x7F) | (value > 0x7F ? 0x80 : 0));
    text_append(t, &byte, 1);
    value >>= 7;
  } while (value);
}

static inline void put_int(text *t, uint32_t number, uint64_t value) {
  put_varint(t, number << 3);
  put_varint(t, value);
}

static inline void put_float(text *t, uint32_t number, float value) {
  put_varint(t, number << 3 | 5);
  text_append(t, (const char *)&value, sizeof value); /* little-endian machines */
}

static inline void put_bytes(text *t, uint32_t number, span s) {
  put_varint(t, number << 3 | 2);
  put_varint(t, s.size);
  text_append(t, s.data, s.size);
}

/* Appends a message and empties it. */
static inline void put_message(text *t, uint32_t number, text *message) {
  put_bytes(t, number, (span){message->data ? message->data : "", message->size});
  text_free(message);
}

/* A piece of a ModelProto. */
static inline void put_piece(text *t, const char *piece, float score, uint64_t type) {
  text m = {0};
  put_bytes(&m, 1, (span){piece, strlen(piece)});
  put_float(&m, 2, score);
  put_int(&m, 3, type);
  put_message(t, 1, &m);
}

/* A table of one-byte replacements, in darts-clone's layout: 'A' to "b", 'C' to nothing. */
static inline void put_charsmap(text *t) {
  static const char texts[] = "b\0";
  uint32_t units[512] = {[0] = 256u << 10};
  units[256 ^ 'A'] = 'A' | 1u << 8 | (uint32_t)((256 ^ 'A') ^ 5) << 10;
  units[256 ^ 'C'] = 'C' | 1u << 8 | (uint32_t)((256 ^ 'C') ^ 6) << 10;
  units[5] = 1u << 31;
  units[6] = 1u << 31 | 1;
  uint32_t size = sizeof units;
  text_append(t, (const char *)&size, sizeof size);
  text_append(t, (const char *)units, sizeof units);
  text_append(t, texts, sizeof texts - 1);
}

static inline void put_trainer(text *t, uint64_t algorithm, bool byte_fallback) {
  text m = {0};
  put_int(&m, 3, algorithm);
  put_int(&m, 35, byte_fallback);
  put_message(t, 2, &m);
}

/* As the normalizer's (3) or the denormalizer's (5). */
static inline void put_spec(text *t, uint32_t number) {
  text m = {0}, map = {0};
  put_charsmap(&map);
  put_message(&m, 2, &map);
  put_int(&m, 3, number == 3);
  put_int(&m, 4, 0);
  put_message(t, number, &m);
}

/* A model with a piece of every type, of bytes if there is fallback to them. */
static inline void put_model(text *t, uint64_t algorithm, bool byte_fallback) {
  put_piece(t, "<unk>", 0, 2);
  put_piece(t, "<s>", 0, 3);
  put_piece(t, "</s>", 0, 3);
  put_piece(t, "[x]", 0, 4);
  put_piece(t, "\xE2\x96\x81", -1, 1);
  put_piece(t, "a", -2, 1);
  put_piece(t, "b", -3, 1);
  put_piece(t, "ab", -0.5f, 1);
  put_piece(t,
            "\xE2\x96\x81"
            "ab",
            -0.25f, 5);
  for (unsigned b = 0; byte_fallback && b < 256; b++) {
    char name[8];
    (void)snprintf(name, sizeof name, "<0x%02X>", b);
    put_piece(t, name, 0, 6);
  }
  put_trainer(t, algorithm, byte_fallback);
  put_spec(t, 3);
  if (byte_fallback) put_spec(t, 5);
}

#endif
