#ifndef TOKENIZER_ENCODE_H
#define TOKENIZER_ENCODE_H
/* Text to ids. */
#include "tokenizer/added.h"
#include "tokenizer/piece_cache.h"
#include "tokenizer/tokenizer.h"

typedef struct encoder {
  piece_sink sink; /* what the pieces of a text end in */
  const clave_tokenizer *tokenizer;
  const added_matcher *matcher; /* of tokens that are matched as they stand */
  piece_cache *cache;           /* borrowed; NULL: none */
  id_list ids;                  /* so far; whoever made the encoder frees them */
} encoder;
/* Without ids. match_special: special tokens written in the text become their ids. */
encoder encoder_of(const clave_tokenizer *tokenizer, bool match_special, piece_cache *cache);
/* Appends the ids of `in`, valid UTF-8; first: it begins the text. A failed append is left to
 * ids.failed. */
clave_status encoder_take(encoder *encoder, span in, bool first) STATUS_CHECK;

#endif
