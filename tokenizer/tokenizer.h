#ifndef TOKENIZER_TOKENIZER_H
#define TOKENIZER_TOKENIZER_H
/* The implementation of clave_tokenizer.h: one pipeline for all formats. A text is cut at the
 * tokens that are matched verbatim. The text between them is normalized, split, and passed to the
 * model.
 *
 *   text ─ added tokens ─▶ normalizer ─▶ pre_tokenizer ─▶ model ─▶ ids ─▶ frame (BOS, EOS)
 *   ids ─▶ decoder ─▶ text
 *
 * A format's reader (format.h) fills in a clave_tokenizer; load.c, find.c, encode.c, parts.c and
 * decode.c use it. */
#include "base/memory.h"
#include "clave_tokenizer.h"
#include "tokenizer/model.h"

/* Base of all normalizers. Each object of a kind below has its base as the first member and is
 * immutable once created. */
typedef struct normalizer normalizer;
struct normalizer {
  /* Appends the normalized text to `out`; first: `in` begins the text. */
  clave_status (*apply)(const normalizer *self, span in, bool first, text *out);
  void (*destroy)(normalizer *self);
};

/* Receives pre-tokens in order; pretoken.data is valid until `receive` returns. */
typedef struct pretoken_sink pretoken_sink;
struct pretoken_sink {
  clave_status (*receive)(pretoken_sink *self, span pretoken,
                          bool first); /* first: it begins the text */
};

typedef struct pre_tokenizer pre_tokenizer;
struct pre_tokenizer {
  /* Splits `in`. The pre-tokens need not cover it, and their text may differ from it. */
  clave_status (*split)(const pre_tokenizer *self, span in, bool first, pretoken_sink *to);
  void (*destroy)(pre_tokenizer *self);
};

/* State of decoding one text; the first member of a decoder's state. The concatenation of all that
 * next and finish append is the text of all ids, so streaming and decoding are the same. The result
 * is bytes, not necessarily UTF-8: decode.c makes it valid and holds back incomplete characters. */
typedef struct decoding decoding;
struct decoding {
  clave_status (*next)(decoding *self, uint32_t id, text *out); /* id: must be in the vocabulary */
  clave_status (*finish)(decoding *self, text *out);            /* then a new text begins */
  void (*destroy)(decoding *self);
};
typedef struct token_decoder token_decoder;
struct token_decoder {
  clave_status (*begin)(const token_decoder *self, decoding **out); /* self must outlive *out */
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
  bool byte_level;          /* the pieces are bytes that the file writes as characters */
  vocab *other_pieces;      /* owned: if byte_level, the pieces outside of its alphabet */
  token_model *model;       /* owned */
  normalizer *normalize;    /* owned; may be NULL */
  pre_tokenizer *split;     /* owned; NULL: the whole text is one pre-token */
  token_decoder *decode;    /* owned */
  const added_token *added; /* in pool */
  size_t n_added;
  struct added_matcher *matcher,
      *text_matcher;  /* owned: match all of `added`, and all that are not special */
  bool match_special; /* value of CLAVE_SPECIAL_DEFAULT */
  bool dummy_space;   /* the normalizer puts a space before a text, and after special tokens */
  const struct shown_token *shown; /* in pool, by id: texts shown instead of their pieces */
  size_t n_shown;
  const bool *special; /* in pool, (vocab_size): ids that skip_special leaves out; may be NULL */
  int32_t bos, eos;
  const uint32_t *prefix, *suffix; /* in pool: put around a text if options.bos, options.eos */
  size_t n_prefix, n_suffix;
};

#endif
