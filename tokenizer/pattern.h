#ifndef TOKENIZER_PATTERN_H
#define TOKENIZER_PATTERN_H
/* Regular expressions in the syntax of Oniguruma and Rust's regex, as the file formats use them,
 * matched by PCRE2. */
#include "base/memory.h"
#include "tokenizer/vocab.h"

typedef struct pattern pattern; /* immutable once created; threads may share one */
/* Creates a pattern. Errors show the position in it, and the name of what is not supported. */
clave_status pattern_create(span source, pattern **out) STATUS_CHECK;
void pattern_destroy(pattern *pattern); /* accepts NULL */

/* Iterates over the matches in a text. An empty match at the end of the last match is skipped. */
typedef struct pattern_search {
  const pattern *pattern;
  span in;
  size_t at;         /* start of the next search */
  size_t begin, end; /* the current match */
  size_t last_end;   /* end of the last match; SIZE_MAX before the first */
  struct pattern_scratch *scratch;
} pattern_search;
/* `in` must be valid UTF-8. Call pattern_search_end after each successful begin. */
clave_status pattern_search_begin(const pattern *pattern, span in,
                                  pattern_search *search) STATUS_CHECK;
/* Fails if matching needs too much time or memory on this text. */
clave_status pattern_search_next(pattern_search *search, bool *found) STATUS_CHECK;
void pattern_search_end(pattern_search *search);
/* Appends `in` with each match replaced by `with`. */
clave_status pattern_replace(const pattern *pattern, span in, span with, text *out) STATUS_CHECK;

/* pattern_syntax.c: translates a pattern to PCRE2's syntax. is_script: sets *is to true if PCRE2
 * knows the script. */
clave_status pattern_translate(span source, clave_status (*is_script)(span name, bool *is_known),
                               text *out) STATUS_CHECK;

#endif
