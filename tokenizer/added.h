#ifndef TOKENIZER_ADDED_H
#define TOKENIZER_ADDED_H
/* Added tokens: matched in the text verbatim, before anything is split. */
#include "tokenizer/tokenizer.h"

enum { ADDED_MAX_TEXT = 1024 }; /* bytes; limits the time of a search */

typedef struct added_set added_set;         /* tokens searched for together */
typedef struct added_matcher added_matcher; /* one set for the text, one for the normalized text */

/* normalize: applied to the texts of `normalized` tokens; may be NULL. */
clave_status added_matcher_create(const added_token *tokens, size_t n, bool with_special,
                                  const normalizer *normalize, added_matcher **out) STATUS_CHECK;
void added_matcher_destroy(added_matcher *matcher); /* accepts NULL */
const added_set *added_in_text(const added_matcher *matcher);
const added_set *added_in_normalized(const added_matcher *matcher);

typedef struct added_match {
  size_t begin, end; /* include the white space that the token strips */
  uint32_t id;
  bool strips_right;
} added_match;
/* Finds the next match from `at` on (0 at first, later the end of the last match): the leftmost
 * match or, if several begin there, the longest. */
bool added_find(const added_set *set, span text, size_t at, added_match *out);

#endif
