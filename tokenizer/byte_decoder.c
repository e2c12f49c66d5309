/* The decoder of byte-level vocabularies: concatenates the pieces. */
#include "tokenizer/byte_decoder.h"

#include <stdlib.h>

typedef struct byte_decoder {
  token_decoder base;
  const vocab *vocab; /* borrowed; must outlive the decoder */
} byte_decoder;

typedef struct byte_decoding {
  decoding base;
  const vocab *vocab;
} byte_decoding;

static clave_status append_piece(decoding *base, uint32_t id, text *out) {
  span piece = vocab_piece(((byte_decoding *)(void *)base)->vocab, id);
  text_append(out, piece.data, piece.size);
  return text_status(out);
}

static clave_status finish(decoding *base, text *out) {
  (void)base;
  return text_status(out);
}

static void destroy_decoding(decoding *base) { free(base); }

static clave_status begin(const token_decoder *base, decoding **out) {
  byte_decoding *state = calloc(1, sizeof *state);
  *out = state ? &state->base : NULL;
  if (!state) return status_no_memory();
  *state = (byte_decoding){.base = {append_piece, finish, destroy_decoding},
                           .vocab = ((const byte_decoder *)(const void *)base)->vocab};
  return NULL;
}

static void destroy(token_decoder *base) { free(base); }

clave_status byte_decoder_create(const vocab *vocab, token_decoder **out) {
  byte_decoder *decoder = calloc(1, sizeof *decoder);
  *out = decoder ? &decoder->base : NULL;
  if (!decoder) return status_no_memory();
  *decoder = (byte_decoder){.base = {begin, destroy}, .vocab = vocab};
  return NULL;
}
