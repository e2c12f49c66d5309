#ifndef TOKENIZER_MODEL_H
#define TOKENIZER_MODEL_H
/* A tokenizer's model: BPE, Unigram, WordPiece. It turns a piece of text, normalized and split
 * off already, into ids. Read-only once made. */
#include "base/memory.h"
#include "base/status.h"
#include "tokenizer/ids.h"
#include "tokenizer/trie.h"
#include "tokenizer/vocab.h"

typedef struct token_model token_model;
struct token_model { /* the first member of each model */
  clave_status (*encode)(const token_model *self, span piece, id_list *out);
  void (*destroy)(token_model *self);
};

/* What stands for characters the vocabulary lacks. */
typedef struct unknown_rule {
  uint32_t id;              /* VOCAB_NONE: BPE drops them, as Hugging Face without unk_token; others
                               say what is unknown */
  bool fuse;                /* neighbours in a piece become one */
  const uint32_t *byte_ids; /* [256]: each byte's id instead, if all of a character's have one, else
                               VOCAB_NONE; NULL: none */
} unknown_rule;

/* What a piece of the vocabulary is to the model. */
typedef enum piece_kind {
  PIECE_NORMAL,
  PIECE_ADDED, /* not the model's: in no text (control, unknown, byte; added tokens) */
  PIECE_USER,  /* user-defined: wherever it is in the text, the longest first, before the rest */
  PIECE_UNUSED /* BPE: taken apart again as it was made; Unigram: in no segmentation */
} piece_kind;

/* ---- BPE: the pair of neighbours with the lowest rank is joined, the leftmost of equals first,
 * until there is none; O(n log n). */
typedef struct bpe_merge {
  uint32_t left, right, result; /* ids; the rank is its place in the list, the last if twice */
} bpe_merge;
typedef enum bpe_symbols { BPE_CHARACTERS, BPE_BYTES } bpe_symbols; /* what it begins with */
typedef struct bpe_options {
  const bpe_merge *merges; /* NULL: each pair whose joined bytes are a piece, ranked as follows */
  size_t n_merges;
  const float *scores;  /* without merges: by descending score (SentencePiece), (vocab_size), no
                           NaN; NULL: by ascending id (tiktoken) */
  const uint8_t *kinds; /* piece_kind by id, (vocab_size); NULL: all normal */
  bpe_symbols symbols;
  bool whole_first; /* a piece that is in the vocabulary is taken whole (ignore_merges, tiktoken) */
  span continuing_prefix, word_suffix; /* of all symbols but the first; of the last ("</w>") */
  unknown_rule unknown;
} bpe_options;
/* The vocabulary outlives the model, here and below; the rest is copied. */
clave_status bpe_create(const vocab *vocab, const bpe_options *options,
                        token_model **out) STATUS_CHECK;

/* ---- Unigram: the segmentation with the largest sum of scores (Viterbi; Kudo 2018). */
typedef struct unigram_options {
  const double *scores; /* log-probabilities by id, (vocab_size), no NaN */
  const uint8_t *kinds; /* piece_kind by id, (vocab_size); NULL: all normal */
  bool single;          /* SentencePiece's float arithmetic instead of doubles */
  unknown_rule unknown; /* neighbours in a piece are always one */
} unigram_options;
clave_status unigram_create(const vocab *vocab, const unigram_options *options,
                            token_model **out) STATUS_CHECK;

/* ---- WordPiece: the longest prefix in the vocabulary, again and again; what does not come out
 * even is unknown as a whole (Devlin et al. 2018). */
typedef struct wordpiece_options {
  span continuing_prefix; /* "##" */
  uint32_t unknown_id;    /* VOCAB_NONE: an error says what is unknown */
  size_t max_characters;  /* longer words are unknown */
  const uint8_t *kinds;   /* piece_kind by id, (vocab_size); NULL: all normal */
} wordpiece_options;
clave_status wordpiece_create(const vocab *vocab, const wordpiece_options *options,
                              token_model **out) STATUS_CHECK;

/* ---- Whole words. */
typedef struct word_options {
  bool split;           /* a piece is many words, each begun by U+2581; else it is one */
  const uint8_t *kinds; /* piece_kind by id, (vocab_size); NULL: all normal */
  unknown_rule unknown;
} word_options;
clave_status word_create(const vocab *vocab, const word_options *options,
                         token_model **out) STATUS_CHECK;

/* What models share: the id of a piece unless it is PIECE_ADDED, and errors about what is unknown.
 */
uint32_t model_find(const vocab *vocab, const uint8_t *kinds, span piece);
clave_status model_unknown(span piece) STATUS_CHECK;
bool has_bytes(const uint32_t *byte_ids, span span); /* (256): all of s have one */
/* The ids of all of the bytes; false, with nothing appended: there are none. */
bool append_bytes(const uint32_t *byte_ids, span span, id_list *out);
/* Bytes of the first character, 1 if it is ill-formed. */
size_t character_size(span span);
/* Over all PIECE_USER; without units if there are none. */
clave_status user_trie_create(const vocab *vocab, const uint8_t *kinds, trie *out) STATUS_CHECK;
void copy_byte_ids(const unknown_rule *rule, uint32_t *out /* [256] */);
clave_status copy_kinds(const vocab *vocab, const uint8_t *kinds, uint8_t **out) STATUS_CHECK;

#endif
