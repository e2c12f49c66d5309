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

static clave_status byte_decoder_finish(decoding *base, text *out) {
  (void)base;
  return text_status(out);
}

static void byte_decoder_destroy_decoding(decoding *base) { free(base); }

static clave_status byte_decoder_begin(const token_decoder *base, decoding **out) {
  byte_decoding *state = calloc(1, sizeof *state);
  *out = state ? &state->base : NULL;
  if (!state) return status_no_memory();
  *state =
      (byte_decoding){.base = {append_piece, byte_decoder_finish, byte_decoder_destroy_decoding},
                      .vocab = ((const byte_decoder *)(const void *)base)->vocab};
  return NULL;
}

static void byte_decoder_destroy(token_decoder *base) { free(base); }

clave_status byte_decoder_create(const vocab *vocab, token_decoder **out) {
  byte_decoder *decoder = calloc(1, sizeof *decoder);
  *out = decoder ? &decoder->base : NULL;
  if (!decoder) return status_no_memory();
  *decoder = (byte_decoder){.base = {byte_decoder_begin, byte_decoder_destroy}, .vocab = vocab};
  return NULL;
}
