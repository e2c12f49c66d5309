#ifndef TOKENIZER_ENCODE_H
#define TOKENIZER_ENCODE_H
/* Encodes text to ids. */
#include "tokenizer/added.h"
#include "tokenizer/pretoken_cache.h"
#include "tokenizer/tokenizer.h"

typedef struct encoder {
  pretoken_sink sink; /* receives the pre-tokens of a text */
  const clave_tokenizer *tokenizer;
  const added_matcher *matcher; /* tokens that are matched verbatim */
  pretoken_cache *cache;        /* borrowed; may be NULL */
  id_list ids;                  /* ids so far; the creator of the encoder frees them */
} encoder;
/* Returns an encoder without ids. match_special: special tokens that occur in the text are encoded
 * as their ids. */
encoder encoder_of(const clave_tokenizer *tokenizer, bool match_special, pretoken_cache *cache);
/* Appends the ids of `in`, which is valid UTF-8. first: `in` begins the text. The caller must
 * check ids.failed for failed appends. */
clave_status encoder_add(encoder *encoder, span in, bool first) STATUS_CHECK;

#endif
