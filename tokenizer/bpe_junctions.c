/* A text may be cut between two symbols that no merge joins, whatever they have grown to: the last
 * character of the one and the first of the other tell. */
#include <string.h>

#include "tokenizer/bpe.h"

enum { SPACE_CLASS = 255, FIRST_HASHED = 128, N_HASHED = 127 };

/* ASCII as it is; U+2581 by itself, as it stands for a space; the others share what is left. */
static uint8_t class_of(span s) {
  uint32_t bytes = 0;
  if (s.size == 1) return (uint8_t)s.data[0];
  if (s.size == 3 && memcmp(s.data, "\xE2\x96\x81", 3) == 0) return SPACE_CLASS;
  memcpy(&bytes, s.data, s.size < sizeof bytes ? s.size : sizeof bytes);
  return (uint8_t)(FIRST_HASHED + (bytes * 0x9E3779B1u >> 16) % N_HASHED);
}

uint8_t bpe_first_class(const bpe *m, span s) {
  if (m->options.symbols == BPE_BYTES) return (uint8_t)s.data[0];
  return class_of((span){s.data, character_size(s)});
}

uint8_t bpe_last_class(const bpe *m, span s) {
  size_t begin = s.size - 1;
  if (m->options.symbols == BPE_BYTES) return (uint8_t)s.data[begin];
  while (begin > 0 && (s.data[begin] & 0xC0) == 0x80) begin--;
  return class_of((span){s.data + begin, s.size - begin});
}

static void join_classes(bpe *m, uint8_t last, uint8_t first) {
  m->junctions.bits[last * 4 + first / 64] |= (uint64_t)1 << (first % 64);
}

static void join_all(bpe *m) { memset(m->junctions.bits, 0xFF, sizeof m->junctions.bits); }

/* Between all neighbours within a piece. */
static void join_within(bpe *m, span piece) {
  uint8_t last = 0;
  for (size_t at = 0, n; at < piece.size; at += n) {
    span rest = {piece.data + at, piece.size - at};
    n = m->options.symbols == BPE_BYTES ? 1 : character_size(rest);
    uint8_t class = class_of((span){rest.data, n});
    if (at > 0) join_classes(m, last, class);
    last = class;
  }
}

void bpe_junctions_fill(bpe *m) {
  if (m->has_unused) {
    join_all(m); /* these fall apart as they were made anywhere in the text */
    return;
  }
  for (size_t i = 0; m->pairs && i < m->options.n_merges; i++) {
    span left = vocab_piece(m->vocab, m->options.merges[i].left);
    span right = vocab_piece(m->vocab, m->options.merges[i].right);
    if (left.size == 0 || right.size == 0) {
      join_all(m);
      return;
    }
    join_classes(m, bpe_last_class(m, left), bpe_first_class(m, right));
  }
  for (uint32_t id = 0; !m->pairs && id < m->n_ids; id++) {
    if (bpe_kind(m, id) == PIECE_NORMAL) join_within(m, vocab_piece(m->vocab, id));
  }
}
