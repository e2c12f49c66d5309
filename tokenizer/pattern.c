/* Matching with PCRE2. No other file uses PCRE2. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "tokenizer/pattern.h"

#include <pcre2.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer/unicode.h"

enum {
  PATTERN_MAX = 64 << 10, /* bytes of a pattern */
  STEP_LIMIT = 1000000,   /* PCRE2's match limit for one search, plus: */
  STEPS_PER_BYTE = 8, /* per byte of the text, because \s*\n backtracks over every run of blanks */
  HEAP_LIMIT = 64 << 10, /* KiB, for the interpreter */
  JIT_STACK = 32 << 10,  /* initial bytes */
  JIT_STACK_MAX = 16 << 20
};

typedef struct pattern_scratch { /* memory of one search */
  pcre2_match_data *data;
  pcre2_match_context *context;
  pcre2_jit_stack *stack; /* NULL without JIT */
} pattern_scratch;

struct pattern {
  pcre2_code *code; /* owned */
  bool jit;
  _Atomic(pattern_scratch *) spare; /* owned: kept for reuse by the next search */
};

/* ---------------------------------------------------------------- compiling */

static pcre2_code *pattern_compile(span source, int *error, size_t *offset) {
  pcre2_compile_context *context = pcre2_compile_context_create(NULL);
  *error = PCRE2_ERROR_NOMEMORY;
  *offset = 0;
  if (!context) return NULL;
  (void)pcre2_set_newline(context, PCRE2_NEWLINE_LF);
  (void)pcre2_set_bsr(context, PCRE2_BSR_UNICODE);
  /* The text is valid UTF-8 already: MATCH_INVALID_UTF would check it again at each match. */
  pcre2_code *code =
      pcre2_compile((PCRE2_SPTR)source.data, source.size,
                    PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, error, offset, context);
  pcre2_compile_context_free(context);
  return code;
}

static bool is_out_of_memory(int error) {
  return error == PCRE2_ERROR_NOMEMORY || error == PCRE2_ERROR_HEAP_FAILED;
}

static clave_status is_script(span name, bool *is_known) {
  text text = {0};
  int error = 0;
  size_t offset;
  text_printf(&text, "\\p{sc:%.*s}", (int)name.size, name.data);
  clave_status st = text_status(&text);
  pcre2_code *code = st ? NULL : pattern_compile((span){text.data, text.size}, &error, &offset);
  if (!st && !code && is_out_of_memory(error)) st = status_no_memory();
  *is_known = code != NULL;
  pcre2_code_free(code);
  text_free(&text);
  return st;
}

static clave_status compile_translated(pattern *pattern, const text *text) {
  int error;
  size_t offset;
  TRY(text_status(text));
  pattern->code =
      pattern_compile((span){text->data ? text->data : "", text->size}, &error, &offset);
  if (!pattern->code) {
    if (is_out_of_memory(error)) return status_no_memory();
    PCRE2_UCHAR why[128] = "";
    (void)pcre2_get_error_message(error, why, sizeof why);
    return INVALID("%s near \"%.20s\"", (const char *)why, text->data + offset);
  }
  pattern->jit = pcre2_jit_compile(pattern->code, PCRE2_JIT_COMPLETE) == 0;
  return NULL;
}

static clave_status fill_pattern(pattern *pattern, span source) {
  text translated = {0};
  if (source.size > PATTERN_MAX) {
    return INVALID("pattern of %zu bytes: expected at most %d", source.size, PATTERN_MAX);
  }
  clave_status st = pattern_translate(source, is_script, &translated);
  if (!st) st = compile_translated(pattern, &translated);
  text_free(&translated);
  return status_while(st, "pattern \"%.*s\"", (int)(source.size < 200 ? source.size : 200),
                      source.data);
}

clave_status pattern_create(span source, pattern **out) {
  *out = NULL;
  pattern *pattern = calloc(1, sizeof *pattern);
  if (!pattern) return status_no_memory();
  clave_status st = fill_pattern(pattern, source);
  if (st) {
    pattern_destroy(pattern);
    return st;
  }
  *out = pattern;
  return NULL;
}

static void destroy_scratch(pattern_scratch *scratch) {
  if (!scratch) return;
  pcre2_match_data_free(scratch->data);
  pcre2_match_context_free(scratch->context);
  pcre2_jit_stack_free(scratch->stack);
  free(scratch);
}

void pattern_destroy(pattern *pattern) {
  if (!pattern) return;
  destroy_scratch(atomic_load(&pattern->spare));
  pcre2_code_free(pattern->code);
  free(pattern);
}

/* ---------------------------------------------------------------- searching */

static pattern_scratch *create_scratch(const pattern *pattern) {
  pattern_scratch *scratch = calloc(1, sizeof *scratch);
  if (!scratch) return NULL;
  scratch->data = pcre2_match_data_create(1, NULL); /* only the bounds of the whole match */
  scratch->context = pcre2_match_context_create(NULL);
  if (pattern->jit) scratch->stack = pcre2_jit_stack_create(JIT_STACK, JIT_STACK_MAX, NULL);
  if (!scratch->data || !scratch->context || (pattern->jit && !scratch->stack)) {
    destroy_scratch(scratch);
    return NULL;
  }
  (void)pcre2_set_heap_limit(scratch->context, HEAP_LIMIT);
  if (scratch->stack) pcre2_jit_stack_assign(scratch->context, NULL, scratch->stack);
  return scratch;
}

clave_status pattern_search_begin(const pattern *regex, span in, pattern_search *search) {
  pattern_scratch *scratch = atomic_exchange(&((pattern *)(uintptr_t)regex)->spare, NULL);
  if (!scratch) scratch = create_scratch(regex);
  if (!scratch) return status_no_memory();
  uint32_t limit = UINT32_MAX;
  if (in.size < (UINT32_MAX - STEP_LIMIT) / STEPS_PER_BYTE) {
    limit = STEP_LIMIT + STEPS_PER_BYTE * (uint32_t)in.size;
  }
  (void)pcre2_set_match_limit(scratch->context, limit);
  (void)pcre2_set_depth_limit(scratch->context, limit);
  *search = (pattern_search){.pattern = regex, .in = in, .last_end = SIZE_MAX, .scratch = scratch};
  return NULL;
}

void pattern_search_end(pattern_search *search) {
  destroy_scratch(
      atomic_exchange(&((pattern *)(uintptr_t)search->pattern)->spare, search->scratch));
  search->scratch = NULL;
}

static clave_status match_error(int code) {
  if (code == PCRE2_ERROR_NOMEMORY) return status_no_memory();
  PCRE2_UCHAR why[128] = "";
  (void)pcre2_get_error_message(code, why, sizeof why);
  return INVALID("the pattern takes too long on this text: %s", (const char *)why);
}

/* Searches for one match from search->at on; returns PCRE2_ERROR_NOMATCH if none exists. */
static int match_once(const pattern_search *search) {
  const pattern_scratch *scratch = search->scratch;
  PCRE2_SPTR data = (PCRE2_SPTR)search->in.data;
  int rc = pcre2_match(search->pattern->code, data, search->in.size, search->at, PCRE2_NO_UTF_CHECK,
                       scratch->data, scratch->context);
  if (rc != PCRE2_ERROR_JIT_STACKLIMIT) return rc;
  return pcre2_match(search->pattern->code, data, search->in.size, search->at,
                     PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, scratch->data, scratch->context);
}

clave_status pattern_search_next(pattern_search *search, bool *found) {
  for (*found = false; search->at <= search->in.size;) {
    int rc = match_once(search);
    if (rc == PCRE2_ERROR_NOMATCH) return NULL;
    if (rc < 0) return match_error(rc);
    const size_t *place = pcre2_get_ovector_pointer(search->scratch->data);
    if (place[1] < place[0]) return INVALID("\\K in a lookaround of the pattern is not supported");
    search->begin = place[0];
    search->end = search->at = place[1];
    bool again = search->begin == search->end && search->end == search->last_end;
    if (search->begin == search->end) { /* continue at the next character */
      uint32_t c;
      search->at += search->at < search->in.size ? utf8_read(search->in.data + search->at, &c) : 1;
    }
    search->last_end = search->end;
    if (again) continue;
    *found = true;
    return NULL;
  }
  return NULL;
}

static clave_status replace_found(pattern_search *search, span with, text *out) {
  size_t at = 0;
  for (bool found;;) {
    TRY(pattern_search_next(search, &found));
    text_append(out, search->in.data + at, (found ? search->begin : search->in.size) - at);
    if (!found) return text_status(out);
    text_append(out, with.data, with.size);
    at = search->end;
  }
}

clave_status pattern_replace(const pattern *pattern, span in, span with, text *out) {
  pattern_search search;
  TRY(pattern_search_begin(pattern, in, &search));
  clave_status st = replace_found(&search, with, out);
  pattern_search_end(&search);
  return st;
}
