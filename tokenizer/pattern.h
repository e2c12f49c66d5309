#ifndef TOKENIZER_PATTERN_H
#define TOKENIZER_PATTERN_H
/* Regular expressions, in the syntax of Oniguruma and Rust's regex, whose patterns the formats
 * carry: matched by PCRE2. */
#include "base/memory.h"
#include "tokenizer/vocab.h"

typedef struct pattern pattern; /* read-only once made; threads may share one */
/* Errors show the pattern and the place in it, and name what is not supported. */
clave_status pattern_create(span source, pattern **out) STATUS_CHECK;
void pattern_destroy(pattern *pattern); /* takes NULL */

/* The matches in a text, one after the other; an empty one is not given where the last ended. */
typedef struct pattern_search {
  const pattern *pattern;
  span in;
  size_t at;         /* where the next search begins */
  size_t begin, end; /* of the match that was found */
  size_t last_end;   /* SIZE_MAX: none yet */
  struct pattern_scratch *scratch;
} pattern_search;
/* `in` is valid UTF-8. pattern_search_end after each good begin. */
clave_status pattern_search_begin(const pattern *pattern, span in,
                                  pattern_search *search) STATUS_CHECK;
/* An error: the pattern takes too long, or too much memory, on this text. */
clave_status pattern_search_next(pattern_search *search, bool *found) STATUS_CHECK;
void pattern_search_end(pattern_search *search);
/* Appends `in` with each match replaced. */
clave_status pattern_replace(const pattern *pattern, span in, span with, text *out) STATUS_CHECK;

/* pattern_syntax.c: the pattern as PCRE2 writes it. is_script: does PCRE2 know the script? */
clave_status pattern_translate(span source, clave_status (*is_script)(span name, bool *is),
                               text *out) STATUS_CHECK;

#endif
