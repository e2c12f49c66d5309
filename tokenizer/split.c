/* Splitting at matches. What a behavior does with a match is decided in one place, the joiner. */
#include "tokenizer/split.h"

#include <stdlib.h>
#include <string.h>

#include "tokenizer/pattern.h"
#include "tokenizer/unicode.h"

/* ---------------------------------------------------------------- behaviors */

static clave_status give(span_joiner *j, size_t begin, size_t end) {
  if (begin == end) return NULL;
  return j->to->take(j->to, (span){j->text + begin, end - begin}, j->first && begin == 0);
}

static clave_status release(span_joiner *j) {
  if (!j->holds) return NULL;
  j->holds = false;
  return give(j, j->begin, j->end);
}

/* Does a span go into the same piece as the one held back? */
static bool joins(const span_joiner *j, bool match) {
  switch (j->behavior) {
    case SPLIT_MERGED_WITH_PREVIOUS:
      return match && !j->was_match;
    case SPLIT_MERGED_WITH_NEXT:
      return !match && j->was_match;
    case SPLIT_CONTIGUOUS:
      return match == j->was_match;
    default:
      return false;
  }
}

clave_status joiner_add(span_joiner *j, size_t begin, size_t end, bool match) {
  match ^= j->invert;
  if (j->behavior == SPLIT_ISOLATED) return give(j, begin, end);
  if (j->behavior == SPLIT_REMOVED) return match ? NULL : give(j, begin, end);
  if (j->holds && joins(j, match)) {
    j->end = end;
  } else {
    TRY(release(j));
    j->begin = begin;
    j->end = end;
    j->holds = true;
  }
  j->was_match = match;
  return NULL;
}

clave_status joiner_finish(span_joiner *j) { return release(j); }

/* ---------------------------------------------------------------- pre_tokenizers */

typedef struct match_pre_tokenizer match_pre_tokenizer;
struct match_pre_tokenizer {
  pre_tokenizer base;
  clave_status (*find)(const match_pre_tokenizer *self, span in, span_joiner *to);
  split_behavior behavior;
  bool invert;
  pattern *pattern;          /* owned */
  text literal;              /* owned */
  bool (*is_kind)(uint32_t); /* one of the three */
};

static clave_status split_matches(const pre_tokenizer *base, span in, bool first, piece_sink *to) {
  const match_pre_tokenizer *s = (const match_pre_tokenizer *)(const void *)base;
  span_joiner j = {
      .behavior = s->behavior, .invert = s->invert, .first = first, .text = in.data, .to = to};
  TRY(s->find(s, in, &j));
  return joiner_finish(&j);
}

static void destroy_matches(pre_tokenizer *base) {
  match_pre_tokenizer *s = (match_pre_tokenizer *)(void *)base;
  pattern_destroy(s->pattern);
  text_free(&s->literal);
  free(s);
}

static match_pre_tokenizer *new_pre_tokenizer(split_behavior behavior, bool invert) {
  match_pre_tokenizer *s = calloc(1, sizeof *s);
  if (!s) return NULL;
  *s = (match_pre_tokenizer){
      .base = {split_matches, destroy_matches}, .behavior = behavior, .invert = invert};
  return s;
}

/* A match, and the gap between it and the last one. */
static clave_status add_match(span_joiner *j, size_t *last, size_t begin, size_t end) {
  if (*last < begin) TRY(joiner_add(j, *last, begin, false));
  *last = end;
  return joiner_add(j, begin, end, true);
}

static clave_status add_rest(span_joiner *j, size_t last, span in) {
  return last < in.size ? joiner_add(j, last, in.size, false) : NULL;
}

static clave_status add_patterns(pattern_search *search, span in, span_joiner *j) {
  size_t last = 0;
  bool found;
  for (;;) {
    TRY(pattern_search_next(search, &found));
    if (!found) return add_rest(j, last, in);
    TRY(add_match(j, &last, search->begin, search->end));
  }
}

static clave_status find_pattern(const match_pre_tokenizer *s, span in, span_joiner *j) {
  pattern_search search;
  TRY(pattern_search_begin(s->pattern, in, &search));
  clave_status st = add_patterns(&search, in, j);
  pattern_search_end(&search);
  return st;
}

clave_status pattern_pre_tokenizer_create(span source, split_behavior behavior, bool invert,
                                          pre_tokenizer **out) {
  *out = NULL;
  match_pre_tokenizer *s = new_pre_tokenizer(behavior, invert);
  if (!s) return status_no_memory();
  s->find = find_pattern;
  clave_status st = pattern_create(source, &s->pattern);
  if (st) {
    destroy_matches(&s->base);
    return st;
  }
  *out = &s->base;
  return NULL;
}

static clave_status find_literal(const match_pre_tokenizer *s, span in, span_joiner *j) {
  size_t last = 0, n = s->literal.size;
  for (;;) {
    const char *hit = memmem(in.data + last, in.size - last, s->literal.data, n);
    if (!hit) return add_rest(j, last, in);
    size_t begin = (size_t)(hit - in.data);
    TRY(add_match(j, &last, begin, begin + n));
  }
}

clave_status literal_pre_tokenizer_create(span literal, split_behavior behavior, bool invert,
                                          pre_tokenizer **out) {
  *out = NULL;
  if (literal.size == 0) return UNSUPPORTED("splitting at an empty string is not supported");
  match_pre_tokenizer *s = new_pre_tokenizer(behavior, invert);
  if (!s) return status_no_memory();
  s->find = find_literal;
  text_append(&s->literal, literal.data, literal.size);
  if (s->literal.failed) {
    destroy_matches(&s->base);
    return status_no_memory();
  }
  *out = &s->base;
  return NULL;
}

static clave_status find_kind(const match_pre_tokenizer *s, span in, span_joiner *j) {
  size_t last = 0;
  for (size_t i = 0, n; i < in.size; i += n) {
    uint32_t c;
    n = utf8_read(in.data + i, &c);
    if (s->is_kind(c)) TRY(add_match(j, &last, i, i + n));
  }
  return add_rest(j, last, in);
}

clave_status kind_pre_tokenizer_create(bool (*is_kind)(uint32_t c), split_behavior behavior,
                                       pre_tokenizer **out) {
  match_pre_tokenizer *s = new_pre_tokenizer(behavior, false);
  *out = NULL;
  if (!s) return status_no_memory();
  s->find = find_kind;
  s->is_kind = is_kind;
  *out = &s->base;
  return NULL;
}
