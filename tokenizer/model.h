#ifndef TOKENIZER_MODEL_H
#define TOKENIZER_MODEL_H
/* A tokenizer's model (BPE, Unigram, WordPiece): converts a pre-token, which is already normalized,
 * to ids. Immutable once created. */
#include "base/memory.h"
#include "base/status.h"
#include "tokenizer/ids.h"
#include "tokenizer/trie.h"
#include "tokenizer/vocab.h"

typedef struct token_model token_model;
struct token_model { /* first member of each model */
  clave_status (*encode)(const token_model *self, span pretoken, id_list *out);
  void (*destroy)(token_model *self);
};

/* The treatment of characters that the vocabulary lacks. */
typedef struct unknown_rule {
  uint32_t id; /* VOCAB_NONE: BPE drops the characters, as Hugging Face does without unk_token;
                  other models fail with an error that shows them */
  bool fuse;   /* consecutive unknown characters of a pre-token are encoded as one id */
  const uint32_t *byte_ids; /* [256]: ids of bytes, used instead if all bytes of a character have
                               one, else VOCAB_NONE; may be NULL */
} unknown_rule;

/* The role of a piece of the vocabulary in the model. */
typedef enum piece_kind {
  PIECE_NORMAL,
  PIECE_ADDED, /* never produced by the model: control, unknown and byte pieces, added tokens */
  PIECE_USER,  /* user-defined: matched first wherever it occurs, the longest one first */
  PIECE_UNUSED /* BPE: split again into the parts that it was merged from; Unigram: never used */
} piece_kind;

/* ---- BPE: merges the adjacent pair with the lowest rank, in case of ties the leftmost, until no
 * pair has a rank; O(n log n). */
typedef struct bpe_merge {
  uint32_t left, right, result; /* ids; rank: position in the list, the last one of duplicates */
} bpe_merge;
typedef enum bpe_symbols { BPE_CHARACTERS, BPE_BYTES } bpe_symbols; /* the initial symbols */
typedef struct bpe_options {
  const bpe_merge *merges; /* NULL: every pair whose joined bytes are a piece, ranked by `scores` */
  size_t n_merges;
  const float *scores;  /* used without merges: ranks pieces by descending score (SentencePiece),
                           (vocab_size), no NaN; NULL: by ascending id (tiktoken) */
  const uint8_t *kinds; /* piece_kind by id, (vocab_size); NULL if all are normal */
  bpe_symbols symbols;
  bool whole_first; /* a pre-token in the vocabulary is not split (ignore_merges, tiktoken) */
  span continuing_prefix, word_suffix; /* on all symbols but the first; on the last ("</w>") */
  unknown_rule unknown;
} bpe_options;
/* The vocabulary must outlive the model, here and below; everything else is copied. */
clave_status bpe_create(const vocab *vocab, const bpe_options *options,
                        token_model **out) STATUS_CHECK;

/* ---- Unigram: finds the segmentation with the largest sum of scores (Viterbi; Kudo 2018). */
typedef struct unigram_options {
  const double *scores; /* log probabilities by id, (vocab_size), no NaN */
  const uint8_t *kinds; /* piece_kind by id, (vocab_size); NULL if all are normal */
  bool single;          /* use SentencePiece's float arithmetic instead of doubles */
  unknown_rule unknown; /* consecutive unknown characters are always fused */
} unigram_options;
clave_status unigram_create(const vocab *vocab, const unigram_options *options,
                            token_model **out) STATUS_CHECK;

/* ---- WordPiece: repeatedly takes the longest prefix in the vocabulary. If the rest of a word has
 * no such prefix, the whole word is unknown (Devlin et al. 2018). */
typedef struct wordpiece_options {
  span continuing_prefix; /* "##" */
  uint32_t unknown_id;    /* VOCAB_NONE: unknown words are an error */
  size_t max_characters;  /* longer words are unknown */
  const uint8_t *kinds;   /* piece_kind by id, (vocab_size); NULL if all are normal */
} wordpiece_options;
clave_status wordpiece_create(const vocab *vocab, const wordpiece_options *options,
                              token_model **out) STATUS_CHECK;

/* ---- Whole words. */
typedef struct word_options {
  bool split; /* a pre-token is several words, each beginning with U+2581; otherwise it is one word
               */
  const uint8_t *kinds; /* piece_kind by id, (vocab_size); NULL if all are normal */
  unknown_rule unknown;
} word_options;
clave_status word_create(const vocab *vocab, const word_options *options,
                         token_model **out) STATUS_CHECK;

/* Helpers of the models. model_find returns the id of a piece, VOCAB_NONE if it is PIECE_ADDED.
 * model_unknown returns the error for text that the vocabulary lacks. */
uint32_t model_find(const vocab *vocab, const uint8_t *kinds, span piece);
clave_status model_unknown(span piece) STATUS_CHECK;
bool has_bytes(const uint32_t *byte_ids, span span); /* (256): true if all bytes have an id */
/* Appends the ids of all bytes. Returns false, and appends nothing, if a byte has no id. */
bool append_bytes(const uint32_t *byte_ids, span span, id_list *out);
/* Returns the bytes of the first character, 1 if it is ill-formed. */
size_t character_size(span span);
/* Creates a trie of all PIECE_USER; it has no units if there are none. */
clave_status user_trie_create(const vocab *vocab, const uint8_t *kinds, trie *out) STATUS_CHECK;
void copy_byte_ids(const unknown_rule *rule, uint32_t *out /* [256] */);
clave_status copy_kinds(const vocab *vocab, const uint8_t *kinds, uint8_t **out) STATUS_CHECK;

#endif
