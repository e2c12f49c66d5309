#ifndef TOKENIZER_SPLIT_H
#define TOKENIZER_SPLIT_H
/* Splitting at the matches of a pattern, a string or a kind of character. */
#include "tokenizer/tokenizer.h"

typedef enum split_behavior { /* treatment of a match */
                              SPLIT_REMOVED,
                              SPLIT_ISOLATED,
                              SPLIT_MERGED_WITH_PREVIOUS,
                              SPLIT_MERGED_WITH_NEXT,
                              SPLIT_CONTIGUOUS /* adjacent matches are one pre-token */
} split_behavior;

/* invert: the text between the matches counts as matched. */
clave_status pattern_pre_tokenizer_create(span source, split_behavior behavior, bool invert,
                                          pre_tokenizer **out) STATUS_CHECK;
clave_status literal_pre_tokenizer_create(span literal, split_behavior behavior, bool invert,
                                          pre_tokenizer **out) STATUS_CHECK;
/* Every character of the kind is a match. */
clave_status kind_pre_tokenizer_create(bool (*is_kind)(uint32_t c), split_behavior behavior,
                                       pre_tokenizer **out) STATUS_CHECK;

/* For pre-tokenizers that find matches themselves: receives consecutive spans that cover a text
 * and passes them to a sink, joined as the behavior requires. */
typedef struct span_joiner {
  split_behavior behavior;
  bool invert, first;
  const char *text;
  pretoken_sink *to;
  size_t begin, end; /* the span that is held back */
  bool holds, was_match;
} span_joiner;
/* match: the span is a match. joiner_finish passes on the span that is held back. */
clave_status joiner_add(span_joiner *joiner, size_t begin, size_t end, bool match) STATUS_CHECK;
clave_status joiner_finish(span_joiner *joiner) STATUS_CHECK;

#endif
