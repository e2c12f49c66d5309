#ifndef TOKENIZER_TOKENIZER_H
#define TOKENIZER_TOKENIZER_H
/* The tokenizer behind clave_tokenizer.h: one pipeline for all formats. A text is cut at the tokens
 * that are matched as they stand; what lies between is normalized, split, and given to the model.
 *
 *   text ─ added tokens ─▶ normalizer ─▶ pre_tokenizer ─▶ model ─▶ ids ─▶ frame (BOS, EOS)
 *   ids ─▶ decoder ─▶ text
 *
 * A format's reader (format.h) fills it in; load.c, find.c, encode.c, parts.c and decode.c use it.
 */
#include "base/memory.h"
#include "clave_tokenizer.h"
#include "tokenizer/model.h"

/* Each is the first member of an object of its kind, read-only once made. */
typedef struct normalizer normalizer;
struct normalizer {
  /* Appends to `out`; first: the piece begins the text. */
  clave_status (*apply)(const normalizer *self, span in, bool first, text *out);
  void (*destroy)(normalizer *self);
};

/* What pieces are given to, one by one in order; piece.data is valid until take returns. */
typedef struct piece_sink piece_sink;
struct piece_sink {
  clave_status (*take)(piece_sink *self, span piece, bool first); /* first: it begins the text */
};

typedef struct pre_tokenizer pre_tokenizer;
struct pre_tokenizer {
  /* Pieces need not cover `in`, and may be rewritten. */
  clave_status (*split)(const pre_tokenizer *self, span in, bool first, piece_sink *to);
  void (*destroy)(pre_tokenizer *self);
};

/* A text in the making: the first member of a decoder's state. What next and finish append joins to
 * the text of all ids: streaming and decoding are the same. Bytes, not necessarily UTF-8: the
 * tokenizer makes it so, and holds back half characters. */
typedef struct decoding decoding;
struct decoding {
  clave_status (*next)(decoding *self, uint32_t id, text *out); /* id: in the vocabulary */
  clave_status (*finish)(decoding *self, text *out);            /* then the text begins again */
  void (*destroy)(decoding *self);
};
typedef struct token_decoder token_decoder;
struct token_decoder {
  clave_status (*begin)(const token_decoder *self, decoding **out); /* self outlives it */
  void (*destroy)(token_decoder *self);
};

/* A token that is matched in the text before anything else. */
typedef struct added_token {
  uint32_t id;
  span text;                /* owned by the tokenizer's pool */
  bool special, normalized; /* normalized: matched in the normalized text */
  bool strip_left, strip_right, single_word;
} added_token;

typedef struct shown_token {
  uint32_t id;
  span text;
} shown_token;

struct clave_tokenizer {
  mem_pool *pool; /* owned: texts and tables */
  const char *format;
  vocab *vocab;             /* owned */
  bool byte_level;          /* its pieces are bytes that the file writes as characters */
  vocab *written;           /* owned: with byte_level, those that are not in its alphabet */
  token_model *model;       /* owned */
  normalizer *normalize;    /* owned; NULL: none */
  pre_tokenizer *split;     /* owned; NULL: all is one piece */
  token_decoder *decode;    /* owned */
  const added_token *added; /* in pool */
  size_t n_added;
  struct added_matcher *matcher, *text_matcher; /* owned, made by load.c: of all of added; of
                                                   those not special */
  bool match_special;                           /* what CLAVE_SPECIAL_DEFAULT means */
  bool dummy_space; /* the normalizer puts a space before a text, and behind special tokens */
  const struct shown_token *shown; /* in pool, by id: what decoding sees instead of their piece */
  size_t n_shown;
  const bool *special; /* in pool: ids that skip_special leaves out, (vocab_size); NULL: none */
  int32_t bos, eos;
  const uint32_t *prefix, *suffix; /* in pool: put around a text if options.bos, options.eos */
  size_t n_prefix, n_suffix;
};

#endif
