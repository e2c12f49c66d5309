/* Junctions: a text may be cut between two symbols that no sequence of merges can join. This is
 * decided by the last character of the left symbol and the first character of the right one. */
#include <string.h>

#include "tokenizer/bpe.h"

enum { SPACE_CLASS = 255, FIRST_HASHED = 128, N_HASHED = 127 };

/* Returns the class of a character: ASCII characters have their code as class, U+2581, which stands
 * for a space, has its own class, and all others are hashed into the remaining classes. */
static uint8_t bpe_junctions_class_of(span span) {
  uint32_t bytes = 0;
  if (span.size == 1) return (uint8_t)span.data[0];
  if (span.size == 3 && memcmp(span.data, "\xE2\x96\x81", 3) == 0) return SPACE_CLASS;
  memcpy(&bytes, span.data, span.size < sizeof bytes ? span.size : sizeof bytes);
  return (uint8_t)(FIRST_HASHED + (bytes * 0x9E3779B1u >> 16) % N_HASHED);
}

uint8_t bpe_first_class(const bpe *bpe, span range) {
  if (bpe->options.symbols == BPE_BYTES) return (uint8_t)range.data[0];
  return bpe_junctions_class_of((span){range.data, character_size(range)});
}

uint8_t bpe_last_class(const bpe *bpe, span range) {
  size_t begin = range.size - 1;
  if (bpe->options.symbols == BPE_BYTES) return (uint8_t)range.data[begin];
  while (begin > 0 && (range.data[begin] & 0xC0) == 0x80) begin--;
  return bpe_junctions_class_of((span){range.data + begin, range.size - begin});
}

static void join_classes(bpe *bpe, uint8_t last, uint8_t first) {
  bpe->junctions.bits[last * 4 + first / 64] |= (uint64_t)1 << (first % 64);
}

static void join_all(bpe *bpe) { memset(bpe->junctions.bits, 0xFF, sizeof bpe->junctions.bits); }

/* Marks all adjacent characters within a piece as joinable. */
static void join_within(bpe *bpe, span piece) {
  uint8_t last = 0;
  for (size_t at = 0, n; at < piece.size; at += n) {
    span rest = {piece.data + at, piece.size - at};
    n = bpe->options.symbols == BPE_BYTES ? 1 : character_size(rest);
    uint8_t class = bpe_junctions_class_of((span){rest.data, n});
    if (at > 0) join_classes(bpe, last, class);
    last = class;
  }
}

void bpe_junctions_fill(bpe *bpe) {
  if (bpe->has_unused) {
    join_all(bpe); /* an unused piece is split as in its latest merge, which may be anywhere in the
                      text, so no cut is safe */
    return;
  }
  for (size_t i = 0; bpe->pairs && i < bpe->options.n_merges; i++) {
    span left = vocab_piece(bpe->vocab, bpe->options.merges[i].left);
    span right = vocab_piece(bpe->vocab, bpe->options.merges[i].right);
    if (left.size == 0 || right.size == 0) {
      join_all(bpe);
      return;
    }
    join_classes(bpe, bpe_last_class(bpe, left), bpe_first_class(bpe, right));
  }
  for (uint32_t id = 0; !bpe->pairs && id < bpe->n_ids; id++) {
    if (bpe_kind(bpe, id) == PIECE_NORMAL) join_within(bpe, vocab_piece(bpe->vocab, id));
  }
}
