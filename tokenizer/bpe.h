#ifndef TOKENIZER_BPE_H
#define TOKENIZER_BPE_H
/* The parts of BPE: bpe.c turns a pre-token into symbols and symbols into ids, bpe_merge.c merges
 * symbols, bpe_junctions.c finds the places that no merge crosses. */
#include "tokenizer/model.h"

/* A bit per pair of character classes (byte classes for BPE_BYTES): true if some merge joins a left
 * symbol that ends in the first class and a right symbol that begins with the second. */
typedef struct junctions {
  uint64_t bits[256 * 4];
} junctions;

#define NO_PAIR UINT32_MAX

typedef struct pair_slot {
  uint32_t left, right; /* left VOCAB_NONE: the slot is free */
  uint32_t rank, result;
} pair_slot;

typedef struct bpe {
  token_model base;
  const vocab *vocab; /* borrowed; must outlive the model */
  bpe_options options;
  uint8_t *kinds; /* by id, owned; NULL if all are normal */
  uint32_t n_ids;
  pair_slot *pairs; /* (pair_mask + 1), owned; NULL if pairs are looked up by their joined bytes */
  uint32_t pair_mask;
  uint32_t *ranks;  /* by id, owned; NULL if the rank is the id */
  size_t max_piece; /* bytes of the longest piece */
  trie user;        /* user-defined pieces; without units if there are none */
  bool has_unused;
  junctions junctions;
  uint32_t byte_ids[256];    /* byte_ids of the unknown rule */
  uint32_t byte_symbol[256]; /* ids of the single-byte pieces */
  char *prefix, *suffix;     /* owned; the spans in options point to them */
} bpe;

static inline uint8_t bpe_kind(const bpe *bpe, uint32_t id) {
  return bpe->kinds ? bpe->kinds[id] : PIECE_NORMAL;
}

/* Returns the id of the piece with these bytes, VOCAB_NONE if the model has no such piece. */
static inline uint32_t bpe_find(const bpe *bpe, span span) {
  return span.size > bpe->max_piece ? VOCAB_NONE : model_find(bpe->vocab, bpe->kinds, span);
}

typedef struct symbol {
  uint32_t start, size; /* in bytes of the text */
  uint32_t id; /* VOCAB_NONE: not in the vocabulary; JOINED: merged into the symbol before it */
  uint32_t rank, result; /* values of the pair with the next symbol; NO_PAIR if none exists */
  uint32_t prev, next;   /* END at either end */
} symbol;
#define END UINT32_MAX
#define JOINED (UINT32_MAX - 1)

/* Merges adjacent symbols until no pair has a rank. splits (may be NULL): for each unused piece,
 * by id, the bytes of the left part in its last merge. */
clave_status bpe_merge_symbols(const bpe *bpe, span in, symbol *symbols, uint32_t count,
                               uint32_t *splits) STATUS_CHECK;
clave_status bpe_pairs_create(bpe *bpe) STATUS_CHECK; /* reads options.merges */

/* Fills the junctions. Everything else in bpe must be set before. */
void bpe_junctions_fill(bpe *bpe);
uint8_t bpe_first_class(const bpe *bpe, span span); /* span: must not be empty */
uint8_t bpe_last_class(const bpe *bpe, span span);
static inline bool bpe_may_join(const bpe *bpe, uint8_t last, uint8_t first) {
  return bpe->junctions.bits[last * 4 + first / 64] >> (first % 64) & 1;
}

#endif
