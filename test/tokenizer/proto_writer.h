#ifndef TEST_TOKENIZER_PROTO_WRITER_H
#define TEST_TOKENIZER_PROTO_WRITER_H
/* Writes protocol buffers, to make SentencePiece models in tests. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "tokenizer/vocab.h"

static inline void put_varint(text *text, uint64_t value) {
  do {
    char byte = (char)((value & 0x7F) | (value > 0x7F ? 0x80 : 0));
    text_append(text, &byte, 1);
    value >>= 7;
  } while (value);
}

static inline void put_int(text *text, uint32_t number, uint64_t value) {
  put_varint(text, number << 3);
  put_varint(text, value);
}

static inline void put_float(text *text, uint32_t number, float value) {
  put_varint(text, number << 3 | 5);
  text_append(text, (const char *)&value, sizeof value); /* little-endian machines */
}

static inline void put_bytes(text *text, uint32_t number, span span) {
  put_varint(text, number << 3 | 2);
  put_varint(text, span.size);
  text_append(text, span.data, span.size);
}

/* Appends a message and empties it. */
static inline void put_message(text *to, uint32_t number, text *message) {
  put_bytes(to, number, (span){message->data ? message->data : "", message->size});
  text_free(message);
}

/* A piece of a ModelProto. */
static inline void put_piece(text *model, const char *piece, float score, uint64_t type) {
  text message = {0};
  put_bytes(&message, 1, (span){piece, strlen(piece)});
  put_float(&message, 2, score);
  put_int(&message, 3, type);
  put_message(model, 1, &message);
}

/* Writes a table of one-byte replacements, in darts-clone's layout: 'A' by "b", 'C' by nothing. */
static inline void put_charsmap(text *text) {
  static const char texts[] = "b\0";
  uint32_t units[512] = {[0] = 256u << 10};
  units[256 ^ 'A'] = 'A' | 1u << 8 | (uint32_t)((256 ^ 'A') ^ 5) << 10;
  units[256 ^ 'C'] = 'C' | 1u << 8 | (uint32_t)((256 ^ 'C') ^ 6) << 10;
  units[5] = 1u << 31;
  units[6] = 1u << 31 | 1;
  uint32_t size = sizeof units;
  text_append(text, (const char *)&size, sizeof size);
  text_append(text, (const char *)units, sizeof units);
  text_append(text, texts, sizeof texts - 1);
}

static inline void put_trainer(text *model, uint64_t algorithm, bool byte_fallback) {
  text spec = {0};
  put_int(&spec, 3, algorithm);
  put_int(&spec, 35, byte_fallback);
  put_message(model, 2, &spec);
}

/* Writes the spec of the normalizer (number 3) or of the denormalizer (5). */
static inline void put_spec(text *model, uint32_t number) {
  text spec = {0}, map = {0};
  put_charsmap(&map);
  put_message(&spec, 2, &map);
  put_int(&spec, 3, number == 3);
  put_int(&spec, 4, 0);
  put_message(model, number, &spec);
}

/* Writes a model with a piece of every type, and with bytes if byte_fallback. */
static inline void put_model(text *text, uint64_t algorithm, bool byte_fallback) {
  put_piece(text, "<unk>", 0, 2);
  put_piece(text, "<s>", 0, 3);
  put_piece(text, "</s>", 0, 3);
  put_piece(text, "[x]", 0, 4);
  put_piece(text, "\xE2\x96\x81", -1, 1);
  put_piece(text, "a", -2, 1);
  put_piece(text, "b", -3, 1);
  put_piece(text, "ab", -0.5f, 1);
  put_piece(text,
            "\xE2\x96\x81"
            "ab",
            -0.25f, 5);
  for (unsigned b = 0; byte_fallback && b < 256; b++) {
    char name[8];
    (void)snprintf(name, sizeof name, "<0x%02X>", b);
    put_piece(text, name, 0, 6);
  }
  put_trainer(text, algorithm, byte_fallback);
  put_spec(text, 3);
  if (byte_fallback) put_spec(text, 5);
}

#endif
