/* SentencePiece's decoding: U+2581 is a space, bytes join to characters, control pieces are
 * dropped. */
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "tokenizer/sentencepiece.h"

typedef struct spm_decoder {
  token_decoder base;
  spm_decoder_options options;
  normalizer *denormalize; /* owned; may be NULL */
} spm_decoder;

typedef struct spm_decoding {
  decoding base;
  const spm_decoder *decoder;
  text whole; /* with a denormalizer: the whole text, because rules can look ahead any distance */
  char bytes[4];
  size_t n_bytes;   /* bytes of an incomplete character from byte pieces */
  bool any;         /* some text was written */
  bool space_taken; /* the dummy space was removed from a piece */
} spm_decoding;

int spm_byte_of(span piece) {
  static const char digits[] = "0123456789ABCDEF";
  if (piece.size != 6 || memcmp(piece.data, "<0x", 3) != 0 || piece.data[5] != '>') return -1;
  const char *high = memchr(digits, piece.data[3], 16), *low = memchr(digits, piece.data[4], 16);
  return high && low ? (int)((high - digits) * 16 + (low - digits)) : -1;
}

static void spm_decoder_put(spm_decoding *decoding, const char *bytes, size_t n, text *out) {
  text_append(decoding->decoder->denormalize ? &decoding->whole : out, bytes, n);
  decoding->any |= n > 0;
}

/* True if more bytes may complete the character. */
static bool may_go_on(const char *bytes, size_t n) {
  char low[4], high[4];
  memset(low, 0x80, sizeof low);
  memset(high, 0xBF, sizeof high);
  memcpy(low, bytes, n);
  memcpy(high, bytes, n);
  return utf8_sequence(low, sizeof low) > n || utf8_sequence(high, sizeof high) > n;
}

/* Writes the complete characters made by byte pieces. At the end of their run, and where they are
 * ill-formed, writes U+FFFD for each byte. */
static void put_bytes(spm_decoding *decoding, bool end, text *out) {
  while (decoding->n_bytes > 0) {
    size_t n = utf8_sequence(decoding->bytes, decoding->n_bytes);
    if (n == 0 && !end && may_go_on(decoding->bytes, decoding->n_bytes)) return;
    if (n > 0) {
      spm_decoder_put(decoding, decoding->bytes, n, out);
    } else {
      spm_decoder_put(decoding, "\xEF\xBF\xBD", 3, out);
      n = 1;
    }
    decoding->n_bytes -= n;
    memmove(decoding->bytes, decoding->bytes + n, decoding->n_bytes);
  }
}

static bool begins_with_space(span span) {
  return span.size >= strlen(SPM_SPACE) && memcmp(span.data, SPM_SPACE, strlen(SPM_SPACE)) == 0;
}

static void put_spaced(spm_decoding *decoding, span range, text *out) {
  while (range.size > 0) {
    size_t n = 0;
    while (n < range.size && !begins_with_space((span){range.data + n, range.size - n})) n++;
    spm_decoder_put(decoding, range.data, n, out);
    if (n < range.size) {
      spm_decoder_put(decoding, " ", 1, out);
      n += strlen(SPM_SPACE);
    }
    range = (span){range.data + n, range.size - n};
  }
}

static void put_piece(spm_decoding *decoding, uint32_t id, text *out) {
  const spm_decoder_options *options = &decoding->decoder->options;
  span piece = vocab_piece(options->vocab, id);
  bool at_start = !decoding->any && !decoding->space_taken;
  if (options->types[id] == SPM_CONTROL) return;
  if (options->types[id] == SPM_UNKNOWN) {
    spm_decoder_put(decoding, options->unknown_surface.data, options->unknown_surface.size, out);
    return;
  }
  if (at_start && (options->strip_one || options->strip_all) && begins_with_space(piece)) {
    piece = (span){piece.data + strlen(SPM_SPACE), piece.size - strlen(SPM_SPACE)};
    decoding->space_taken = !options->strip_all;
  }
  put_spaced(decoding, piece, out);
}

static clave_status next_piece(decoding *self, uint32_t id, text *out) {
  spm_decoding *state = (spm_decoding *)self;
  const spm_decoder_options *options = &state->decoder->options;
  if (options->types[id] == SPM_BYTE) {
    state->bytes[state->n_bytes++] = (char)spm_byte_of(vocab_piece(options->vocab, id));
    put_bytes(state, false, out);
  } else {
    put_bytes(state, true, out);
    put_piece(state, id, out);
  }
  return text_status(state->decoder->denormalize ? &state->whole : out);
}

static clave_status finish_pieces(decoding *self, text *out) {
  spm_decoding *state = (spm_decoding *)self;
  const normalizer *normalizer = state->decoder->denormalize;
  put_bytes(state, true, out);
  clave_status st = text_status(normalizer ? &state->whole : out);
  if (!st && normalizer)
    st = normalizer->apply(normalizer,
                           (span){state->whole.data ? state->whole.data : "", state->whole.size},
                           true, out);
  state->whole.size = 0;
  state->any = state->space_taken = false;
  return st;
}

static void spm_decoder_destroy_decoding(decoding *self) {
  spm_decoding *state = (spm_decoding *)self;
  if (!state) return;
  text_free(&state->whole);
  free(state);
}

static clave_status begin_pieces(const token_decoder *self, decoding **out) {
  spm_decoding *state = calloc(1, sizeof *state);
  *out = state ? &state->base : NULL;
  if (!state) return status_no_memory();
  state->base = (decoding){next_piece, finish_pieces, spm_decoder_destroy_decoding};
  state->decoder = (const spm_decoder *)self;
  return NULL;
}

static void spm_decoder_destroy(token_decoder *self) {
  spm_decoder *decoder = (spm_decoder *)self;
  if (!decoder) return;
  if (decoder->denormalize) decoder->denormalize->destroy(decoder->denormalize);
  free(decoder);
}

clave_status spm_decoder_create(const spm_decoder_options *options, token_decoder **out) {
  *out = NULL;
  spm_decoder *decoder = calloc(1, sizeof *decoder);
  if (!decoder) return status_no_memory();
  decoder->base = (token_decoder){begin_pieces, spm_decoder_destroy};
  decoder->options = *options;
  clave_status st = options->denormalizer
                        ? spm_normalizer_create(options->denormalizer, false, options->vocab, NULL,
                                                &decoder->denormalize)
                        : NULL;
  if (st) {
    spm_decoder_destroy(&decoder->base);
    return st;
  }
  *out = &decoder->base;
  return NULL;
}
