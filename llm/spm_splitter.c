/* Cuts a normalized text for BPE where no piece can go on: between two characters that no piece has
 * side by side. The ids are those of the whole text; short words are merged faster, and repeat. */
#include <stdlib.h>
#include <string.h>

#include "llm/sentencepiece.h"

enum { SPACE_UNIT = 0xFF }; /* U+2581, as no byte of UTF-8 is */

typedef struct spm_splitter {
  splitter base;
  bool anywhere;           /* else before U+2581 only, so that what is unknown stays side by side */
  uint64_t pairs[256 * 4]; /* a bit for each last byte of a character and first of the next */
} spm_splitter;

typedef struct unit { /* a character: its bytes, the first and the last as the table has them */
  size_t size;
  uint8_t first, last;
} unit;

static unit unit_at(span s, size_t at) {
  uint8_t first = (uint8_t)s.data[at];
  if (first < 0x80) return (unit){1, first, first};
  span rest = {s.data + at, s.size - at};
  size_t size = character_size(rest);
  if (size == 3 && memcmp(rest.data, SPM_SPACE, 3) == 0) return (unit){3, SPACE_UNIT, SPACE_UNIT};
  return (unit){size, first, (uint8_t)rest.data[size - 1]};
}

static void note_pairs(spm_splitter *s, span piece) {
  unit u = unit_at(piece, 0);
  for (size_t at = u.size; at < piece.size; at += u.size) {
    unit next = unit_at(piece, at);
    s->pairs[u.last * 4 + next.first / 64] |= (uint64_t)1 << (next.first % 64);
    u = next;
  }
}

static bool may_cut(const spm_splitter *s, uint8_t last, uint8_t first) {
  if (first != SPACE_UNIT && !s->anywhere) return false;
  return !(s->pairs[last * 4 + first / 64] >> (first % 64) & 1);
}

static clave_status split_text(const splitter *self, span in, bool first, piece_sink *to) {
  const spm_splitter *s = (const spm_splitter *)self;
  size_t begin = 0;
  unit u = unit_at(in, 0);
  for (size_t at = u.size; at < in.size;) {
    unit next = unit_at(in, at);
    if (may_cut(s, u.last, next.first)) {
      TRY(to->take(to, (span){in.data + begin, at - begin}, first && begin == 0));
      begin = at;
    }
    u = next;
    at += next.size;
  }
  return to->take(to, (span){in.data + begin, in.size - begin}, first && begin == 0);
}

static void destroy_splitter(splitter *self) { free(self); }

clave_status spm_splitter_create(const vocab *v, const uint8_t *kinds, bool byte_fallback,
                                 splitter **out) {
  *out = NULL;
  for (uint32_t id = 0; id < vocab_size(v); id++) {
    if (kinds[id] == PIECE_UNUSED) return NULL;
  }
  if (!byte_fallback && vocab_find(v, (span){SPM_SPACE, 3}) == VOCAB_NONE) return NULL;
  spm_splitter *s = calloc(1, sizeof *s);
  if (!s) return status_no_memory();
  s->base = (splitter){split_text, destroy_splitter};
  s->anywhere = byte_fallback;
  for (uint32_t id = 0; id < vocab_size(v); id++) {
    if (kinds[id] != PIECE_ADDED) note_pairs(s, vocab_piece(v, id));
  }
  *out = &s->base;
  return NULL;
}
