/* Splitting at matches. All behaviors are implemented in one place, the joiner. */
#include "tokenizer/split.h"

#include <stdlib.h>
#include <string.h>

#include "tokenizer/pattern.h"
#include "tokenizer/unicode.h"

/* ---------------------------------------------------------------- behaviors */

static clave_status pass_pretoken(span_joiner *joiner, size_t begin, size_t end) {
  if (begin == end) return NULL;
  return joiner->to->receive(joiner->to, (span){joiner->text + begin, end - begin},
                             joiner->first && begin == 0);
}

static clave_status split_release(span_joiner *joiner) {
  if (!joiner->holds) return NULL;
  joiner->holds = false;
  return pass_pretoken(joiner, joiner->begin, joiner->end);
}

/* True if a span joins the pre-token that is held back. */
static bool joins(const span_joiner *joiner, bool match) {
  switch (joiner->behavior) {
    case SPLIT_MERGED_WITH_PREVIOUS:
      return match && !joiner->was_match;
    case SPLIT_MERGED_WITH_NEXT:
      return !match && joiner->was_match;
    case SPLIT_CONTIGUOUS:
      return match == joiner->was_match;
    default:
      return false;
  }
}

clave_status joiner_add(span_joiner *joiner, size_t begin, size_t end, bool match) {
  match ^= joiner->invert;
  if (joiner->behavior == SPLIT_ISOLATED) return pass_pretoken(joiner, begin, end);
  if (joiner->behavior == SPLIT_REMOVED) return match ? NULL : pass_pretoken(joiner, begin, end);
  if (joiner->holds && joins(joiner, match)) {
    joiner->end = end;
  } else {
    TRY(split_release(joiner));
    joiner->begin = begin;
    joiner->end = end;
    joiner->holds = true;
  }
  joiner->was_match = match;
  return NULL;
}

clave_status joiner_finish(span_joiner *joiner) { return split_release(joiner); }

/* ---------------------------------------------------------------- pre_tokenizers */

typedef struct match_pre_tokenizer match_pre_tokenizer;
struct match_pre_tokenizer {
  pre_tokenizer base;
  clave_status (*find)(const match_pre_tokenizer *self, span in, span_joiner *to);
  split_behavior behavior;
  bool invert;
  pattern *pattern;          /* owned */
  text literal;              /* owned */
  bool (*is_kind)(uint32_t); /* exactly one of these three is set */
};

static clave_status split_matches(const pre_tokenizer *base, span in, bool first,
                                  pretoken_sink *to) {
  const match_pre_tokenizer *splitter = (const match_pre_tokenizer *)(const void *)base;
  span_joiner joiner = {.behavior = splitter->behavior,
                        .invert = splitter->invert,
                        .first = first,
                        .text = in.data,
                        .to = to};
  TRY(splitter->find(splitter, in, &joiner));
  return joiner_finish(&joiner);
}

static void destroy_matches(pre_tokenizer *base) {
  match_pre_tokenizer *splitter = (match_pre_tokenizer *)(void *)base;
  pattern_destroy(splitter->pattern);
  text_free(&splitter->literal);
  free(splitter);
}

static match_pre_tokenizer *split_new(split_behavior behavior, bool invert) {
  match_pre_tokenizer *splitter = calloc(1, sizeof *splitter);
  if (!splitter) return NULL;
  *splitter = (match_pre_tokenizer){
      .base = {split_matches, destroy_matches}, .behavior = behavior, .invert = invert};
  return splitter;
}

/* Adds a match, and the gap between it and the last one. */
static clave_status add_match(span_joiner *joiner, size_t *last, size_t begin, size_t end) {
  if (*last < begin) TRY(joiner_add(joiner, *last, begin, false));
  *last = end;
  return joiner_add(joiner, begin, end, true);
}

static clave_status add_rest(span_joiner *joiner, size_t last, span in) {
  return last < in.size ? joiner_add(joiner, last, in.size, false) : NULL;
}

static clave_status add_patterns(pattern_search *search, span in, span_joiner *joiner) {
  size_t last = 0;
  bool found;
  for (;;) {
    TRY(pattern_search_next(search, &found));
    if (!found) return add_rest(joiner, last, in);
    TRY(add_match(joiner, &last, search->begin, search->end));
  }
}

static clave_status split_find_pattern(const match_pre_tokenizer *splitter, span in,
                                       span_joiner *joiner) {
  pattern_search search;
  TRY(pattern_search_begin(splitter->pattern, in, &search));
  clave_status st = add_patterns(&search, in, joiner);
  pattern_search_end(&search);
  return st;
}

clave_status pattern_pre_tokenizer_create(span source, split_behavior behavior, bool invert,
                                          pre_tokenizer **out) {
  *out = NULL;
  match_pre_tokenizer *splitter = split_new(behavior, invert);
  if (!splitter) return status_no_memory();
  splitter->find = split_find_pattern;
  clave_status st = pattern_create(source, &splitter->pattern);
  if (st) {
    destroy_matches(&splitter->base);
    return st;
  }
  *out = &splitter->base;
  return NULL;
}

static clave_status find_literal(const match_pre_tokenizer *splitter, span in,
                                 span_joiner *joiner) {
  size_t last = 0, n = splitter->literal.size;
  for (;;) {
    const char *hit = memmem(in.data + last, in.size - last, splitter->literal.data, n);
    if (!hit) return add_rest(joiner, last, in);
    size_t begin = (size_t)(hit - in.data);
    TRY(add_match(joiner, &last, begin, begin + n));
  }
}

clave_status literal_pre_tokenizer_create(span literal, split_behavior behavior, bool invert,
                                          pre_tokenizer **out) {
  *out = NULL;
  if (literal.size == 0) return UNSUPPORTED("splitting at an empty string is not supported");
  match_pre_tokenizer *splitter = split_new(behavior, invert);
  if (!splitter) return status_no_memory();
  splitter->find = find_literal;
  text_append(&splitter->literal, literal.data, literal.size);
  if (splitter->literal.failed) {
    destroy_matches(&splitter->base);
    return status_no_memory();
  }
  *out = &splitter->base;
  return NULL;
}

static clave_status split_find_kind(const match_pre_tokenizer *splitter, span in,
                                    span_joiner *joiner) {
  size_t last = 0;
  for (size_t i = 0, n; i < in.size; i += n) {
    uint32_t c;
    n = utf8_read(in.data + i, &c);
    if (splitter->is_kind(c)) TRY(add_match(joiner, &last, i, i + n));
  }
  return add_rest(joiner, last, in);
}

clave_status kind_pre_tokenizer_create(bool (*is_kind)(uint32_t c), split_behavior behavior,
                                       pre_tokenizer **out) {
  match_pre_tokenizer *splitter = split_new(behavior, false);
  *out = NULL;
  if (!splitter) return status_no_memory();
  splitter->find = split_find_kind;
  splitter->is_kind = is_kind;
  *out = &splitter->base;
  return NULL;
}
