/* Pieces joined as they are. */
#include "tokenizer/byte_decoder.h"

#include <stdlib.h>

typedef struct byte_decoder {
  token_decoder base;
  const vocab *vocab; /* borrowed, outlives us */
} byte_decoder;

typedef struct byte_decoding {
  decoding base;
  const vocab *vocab;
} byte_decoding;

static clave_status append_piece(decoding *base, uint32_t id, text *out) {
  span s = vocab_piece(((byte_decoding *)(void *)base)->vocab, id);
  text_append(out, s.data, s.size);
  return text_status(out);
}

static clave_status finish(decoding *base, text *out) {
  (void)base;
  return text_status(out);
}

static void destroy_decoding(decoding *base) { free(base); }

static clave_status begin(const token_decoder *base, decoding **out) {
  byte_decoding *d = calloc(1, sizeof *d);
  *out = d ? &d->base : NULL;
  if (!d) return status_no_memory();
  *d = (byte_decoding){.base = {append_piece, finish, destroy_decoding},
                       .vocab = ((const byte_decoder *)(const void *)base)->vocab};
  return NULL;
}

static void destroy(token_decoder *base) { free(base); }

clave_status byte_decoder_create(const vocab *v, token_decoder **out) {
  byte_decoder *d = calloc(1, sizeof *d);
  *out = d ? &d->base : NULL;
  if (!d) return status_no_memory();
  *d = (byte_decoder){.base = {begin, destroy}, .vocab = v};
  return NULL;
}
