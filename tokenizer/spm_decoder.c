/* SentencePiece's way back: U+2581 is a space, bytes join to characters, control pieces are
 * nothing. */
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "tokenizer/sentencepiece.h"

typedef struct spm_decoder {
  token_decoder base;
  spm_decoder_options options;
  normalizer *denormalize; /* owned; NULL: none */
} spm_decoder;

typedef struct spm_decoding {
  decoding base;
  const spm_decoder *decoder;
  text whole; /* with a denormalizer: all, as it can look ahead any distance */
  char bytes[4];
  size_t n_bytes;   /* of a character that byte pieces have begun */
  bool any;         /* text was written */
  bool space_taken; /* a piece lost the dummy space */
} spm_decoding;

int spm_byte_of(span piece) {
  static const char digits[] = "0123456789ABCDEF";
  if (piece.size != 6 || memcmp(piece.data, "<0x", 3) != 0 || piece.data[5] != '>') return -1;
  const char *high = memchr(digits, piece.data[3], 16), *low = memchr(digits, piece.data[4], 16);
  return high && low ? (int)((high - digits) * 16 + (low - digits)) : -1;
}

static void put(spm_decoding *d, const char *bytes, size_t n, text *out) {
  text_append(d->decoder->denormalize ? &d->whole : out, bytes, n);
  d->any |= n > 0;
}

/* More bytes may make it a character. */
static bool may_go_on(const char *bytes, size_t n) {
  char low[4], high[4];
  memset(low, 0x80, sizeof low);
  memset(high, 0xBF, sizeof high);
  memcpy(low, bytes, n);
  memcpy(high, bytes, n);
  return utf8_sequence(low, sizeof low) > n || utf8_sequence(high, sizeof high) > n;
}

/* What byte pieces have made: whole characters; at the end of their run, and where they go wrong,
 * U+FFFD for each byte. */
static void put_bytes(spm_decoding *d, bool end, text *out) {
  while (d->n_bytes > 0) {
    size_t n = utf8_sequence(d->bytes, d->n_bytes);
    if (n == 0 && !end && may_go_on(d->bytes, d->n_bytes)) return;
    if (n > 0) {
      put(d, d->bytes, n, out);
    } else {
      put(d, "\xEF\xBF\xBD", 3, out);
      n = 1;
    }
    d->n_bytes -= n;
    memmove(d->bytes, d->bytes + n, d->n_bytes);
  }
}

static bool begins_with_space(span s) {
  return s.size >= strlen(SPM_SPACE) && memcmp(s.data, SPM_SPACE, strlen(SPM_SPACE)) == 0;
}

static void put_spaced(spm_decoding *d, span s, text *out) {
  while (s.size > 0) {
    size_t n = 0;
    while (n < s.size && !begins_with_space((span){s.data + n, s.size - n})) n++;
    put(d, s.data, n, out);
    if (n < s.size) {
      put(d, " ", 1, out);
      n += strlen(SPM_SPACE);
    }
    s = (span){s.data + n, s.size - n};
  }
}

static void put_piece(spm_decoding *d, uint32_t id, text *out) {
  const spm_decoder_options *o = &d->decoder->options;
  span piece = vocab_piece(o->vocab, id);
  bool at_start = !d->any && !d->space_taken;
  if (o->types[id] == SPM_CONTROL) return;
  if (o->types[id] == SPM_UNKNOWN) {
    put(d, o->unknown_surface.data, o->unknown_surface.size, out);
    return;
  }
  if (at_start && (o->strip_one || o->strip_all) && begins_with_space(piece)) {
    piece = (span){piece.data + strlen(SPM_SPACE), piece.size - strlen(SPM_SPACE)};
    d->space_taken = !o->strip_all;
  }
  put_spaced(d, piece, out);
}

static clave_status next_piece(decoding *self, uint32_t id, text *out) {
  spm_decoding *d = (spm_decoding *)self;
  const spm_decoder_options *o = &d->decoder->options;
  if (o->types[id] == SPM_BYTE) {
    d->bytes[d->n_bytes++] = (char)spm_byte_of(vocab_piece(o->vocab, id));
    put_bytes(d, false, out);
  } else {
    put_bytes(d, true, out);
    put_piece(d, id, out);
  }
  return text_status(d->decoder->denormalize ? &d->whole : out);
}

static clave_status finish_pieces(decoding *self, text *out) {
  spm_decoding *d = (spm_decoding *)self;
  const normalizer *n = d->decoder->denormalize;
  put_bytes(d, true, out);
  clave_status st = text_status(n ? &d->whole : out);
  if (!st && n)
    st = n->apply(n, (span){d->whole.data ? d->whole.data : "", d->whole.size}, true, out);
  d->whole.size = 0;
  d->any = d->space_taken = false;
  return st;
}

static void destroy_decoding(decoding *self) {
  spm_decoding *d = (spm_decoding *)self;
  if (!d) return;
  text_free(&d->whole);
  free(d);
}

static clave_status begin_pieces(const token_decoder *self, decoding **out) {
  spm_decoding *d = calloc(1, sizeof *d);
  *out = d ? &d->base : NULL;
  if (!d) return status_no_memory();
  d->base = (decoding){next_piece, finish_pieces, destroy_decoding};
  d->decoder = (const spm_decoder *)self;
  return NULL;
}

static void destroy_spm(token_decoder *self) {
  spm_decoder *d = (spm_decoder *)self;
  if (!d) return;
  if (d->denormalize) d->denormalize->destroy(d->denormalize);
  free(d);
}

clave_status spm_decoder_create(const spm_decoder_options *o, token_decoder **out) {
  *out = NULL;
  spm_decoder *d = calloc(1, sizeof *d);
  if (!d) return status_no_memory();
  d->base = (token_decoder){begin_pieces, destroy_spm};
  d->options = *o;
  clave_status st = o->denormalizer ? spm_normalizer_create(o->denormalizer, false, o->vocab, NULL,
                                                            &d->denormalize)
                                    : NULL;
  if (st) {
    destroy_spm(&d->base);
    return st;
  }
  *out = &d->base;
  return NULL;
}
