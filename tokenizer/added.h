#ifndef TOKENIZER_ADDED_H
#define TOKENIZER_ADDED_H
/* Added tokens: those found in the text as they stand, before anything is split. */
#include "tokenizer/tokenizer.h"

enum { ADDED_MAX_TEXT = 1024 }; /* bytes: bounds the time of a search */

typedef struct added_set added_set;         /* tokens that are looked for at once */
typedef struct added_matcher added_matcher; /* a set for the text, one for the normalized text */

/* normalize: NULL or what the texts of `normalized` tokens go through, too. */
clave_status added_matcher_create(const added_token *tokens, size_t n, bool with_special,
                                  const normalizer *normalize, added_matcher **out) STATUS_CHECK;
void added_matcher_destroy(added_matcher *matcher); /* takes NULL */
const added_set *added_in_text(const added_matcher *matcher);
const added_set *added_in_normalized(const added_matcher *matcher);

typedef struct added_match {
  size_t begin, end; /* with the white space that the token strips */
  uint32_t id;
  bool strips_right;
} added_match;
/* The next match from `at` on (where the last match ended, 0 at first): leftmost, then longest. */
bool added_find(const added_set *set, span text, size_t at, added_match *out);

#endif
