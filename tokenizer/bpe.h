#ifndef TOKENIZER_BPE_H
#define TOKENIZER_BPE_H
/* BPE's parts: bpe.c makes symbols of a piece and ids of symbols, bpe_merge.c joins them,
 * bpe_junctions.c says between which none ever are. */
#include "tokenizer/model.h"

/* Classes of characters (of bytes for BPE_BYTES) that some merge joins, left and right of it. */
typedef struct junctions {
  uint64_t bits[256 * 4];
} junctions;

#define NO_PAIR UINT32_MAX

typedef struct pair_slot {
  uint32_t left, right; /* left VOCAB_NONE: free */
  uint32_t rank, result;
} pair_slot;

typedef struct bpe {
  token_model base;
  const vocab *vocab; /* borrowed, outlives us */
  bpe_options options;
  uint8_t *kinds; /* by id, owned; NULL: all normal */
  uint32_t n_ids;
  pair_slot *pairs; /* (pair_mask + 1), owned; NULL: pairs are found by their bytes */
  uint32_t pair_mask;
  uint32_t *ranks;  /* by id, owned; NULL: the id */
  size_t max_piece; /* bytes of the longest */
  trie user;        /* of user-defined pieces; no units: there are none */
  bool has_unused;
  junctions junctions;
  uint32_t byte_ids[256];    /* of the unknown rule */
  uint32_t byte_symbol[256]; /* pieces of a single byte */
  char *prefix, *suffix;     /* owned, behind options' spans */
} bpe;

static inline uint8_t bpe_kind(const bpe *bpe, uint32_t id) {
  return bpe->kinds ? bpe->kinds[id] : PIECE_NORMAL;
}

/* The model's own id of some bytes. */
static inline uint32_t bpe_find(const bpe *bpe, span span) {
  return span.size > bpe->max_piece ? VOCAB_NONE : model_find(bpe->vocab, bpe->kinds, span);
}

typedef struct symbol {
  uint32_t start, size;  /* bytes of the text */
  uint32_t id;           /* VOCAB_NONE: none in the vocabulary; JOINED: part of the one before */
  uint32_t rank, result; /* of the pair with the next one; NO_PAIR: none */
  uint32_t prev, next;   /* END */
} symbol;
#define END UINT32_MAX
#define JOINED (UINT32_MAX - 1)

/* Joins neighbours until no pair has a rank. splits: NULL, or by id of an unused piece the bytes of
 * its left part when last seen. */
clave_status bpe_merge_symbols(const bpe *bpe, span in, symbol *symbols, uint32_t count,
                               uint32_t *splits) STATUS_CHECK;
clave_status bpe_pairs_create(bpe *bpe) STATUS_CHECK; /* from options.merges */

/* After all else of bpe is made. */
void bpe_junctions_fill(bpe *bpe);
uint8_t bpe_first_class(const bpe *bpe, span span); /* span: not empty */
uint8_t bpe_last_class(const bpe *bpe, span span);
static inline bool bpe_may_join(const bpe *bpe, uint8_t last, uint8_t first) {
  return bpe->junctions.bits[last * 4 + first / 64] >> (first % 64) & 1;
}

#endif
