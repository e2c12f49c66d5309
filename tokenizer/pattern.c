/* Matching by PCRE2. The only user of PCRE2. */
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
  STEP_LIMIT = 1000000,   /* of one attempt, as PCRE2 counts, and: */
  STEPS_PER_BYTE = 8,     /* of the text: \s*\n goes back over all of a run of blanks */
  HEAP_LIMIT = 64 << 10,  /* KiB, of the interpreter */
  JIT_STACK = 32 << 10,   /* bytes, to begin with */
  JIT_STACK_MAX = 16 << 20
};

typedef struct pattern_scratch { /* what one search needs */
  pcre2_match_data *data;
  pcre2_match_context *context;
  pcre2_jit_stack *stack; /* NULL: no JIT */
} pattern_scratch;

struct pattern {
  pcre2_code *code; /* owned */
  bool jit;
  _Atomic(pattern_scratch *) spare; /* owned: kept for the next search */
};

/* ---------------------------------------------------------------- compiling */

static pcre2_code *compile(span source, int *error, size_t *offset) {
  pcre2_compile_context *context = pcre2_compile_context_create(NULL);
  *error = PCRE2_ERROR_NOMEMORY;
  *offset = 0;
  if (!context) return NULL;
  (void)pcre2_set_newline(context, PCRE2_NEWLINE_LF);
  (void)pcre2_set_bsr(context, PCRE2_BSR_UNICODE);
  /* The text is made valid UTF-8 before it comes here: MATCH_INVALID_UTF would check it at each
   * match again. */
  pcre2_code *code =
      pcre2_compile((PCRE2_SPTR)source.data, source.size,
                    PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, error, offset, context);
  pcre2_compile_context_free(context);
  return code;
}

static bool is_out_of_memory(int error) {
  return error == PCRE2_ERROR_NOMEMORY || error == PCRE2_ERROR_HEAP_FAILED;
}

static clave_status is_script(span name, bool *is) {
  text t = {0};
  int error = 0;
  size_t offset;
  text_printf(&t, "\\p{sc:%.*s}", (int)name.size, name.data);
  clave_status st = text_status(&t);
  pcre2_code *code = st ? NULL : compile((span){t.data, t.size}, &error, &offset);
  if (!st && !code && is_out_of_memory(error)) st = status_no_memory();
  *is = code != NULL;
  pcre2_code_free(code);
  text_free(&t);
  return st;
}

static clave_status compile_translated(pattern *p, const text *t) {
  int error;
  size_t offset;
  TRY(text_status(t));
  p->code = compile((span){t->data ? t->data : "", t->size}, &error, &offset);
  if (!p->code) {
    if (is_out_of_memory(error)) return status_no_memory();
    PCRE2_UCHAR why[128] = "";
    (void)pcre2_get_error_message(error, why, sizeof why);
    return INVALID("%s near \"%.20s\"", (const char *)why, t->data + offset);
  }
  p->jit = pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE) == 0;
  return NULL;
}

static clave_status fill_pattern(pattern *p, span source) {
  text translated = {0};
  if (source.size > PATTERN_MAX) {
    return INVALID("pattern of %zu bytes, at most %d are possible", source.size, PATTERN_MAX);
  }
  clave_status st = pattern_translate(source, is_script, &translated);
  if (!st) st = compile_translated(p, &translated);
  text_free(&translated);
  return status_while(st, "pattern \"%.*s\"", (int)(source.size < 200 ? source.size : 200),
                      source.data);
}

clave_status pattern_create(span source, pattern **out) {
  *out = NULL;
  pattern *p = calloc(1, sizeof *p);
  if (!p) return status_no_memory();
  clave_status st = fill_pattern(p, source);
  if (st) {
    pattern_destroy(p);
    return st;
  }
  *out = p;
  return NULL;
}

static void destroy_scratch(pattern_scratch *s) {
  if (!s) return;
  pcre2_match_data_free(s->data);
  pcre2_match_context_free(s->context);
  pcre2_jit_stack_free(s->stack);
  free(s);
}

void pattern_destroy(pattern *p) {
  if (!p) return;
  destroy_scratch(atomic_load(&p->spare));
  pcre2_code_free(p->code);
  free(p);
}

/* ---------------------------------------------------------------- searching */

static pattern_scratch *create_scratch(const pattern *p) {
  pattern_scratch *s = calloc(1, sizeof *s);
  if (!s) return NULL;
  s->data = pcre2_match_data_create(1, NULL); /* only where the whole match lies */
  s->context = pcre2_match_context_create(NULL);
  if (p->jit) s->stack = pcre2_jit_stack_create(JIT_STACK, JIT_STACK_MAX, NULL);
  if (!s->data || !s->context || (p->jit && !s->stack)) {
    destroy_scratch(s);
    return NULL;
  }
  (void)pcre2_set_heap_limit(s->context, HEAP_LIMIT);
  if (s->stack) pcre2_jit_stack_assign(s->context, NULL, s->stack);
  return s;
}

clave_status pattern_search_begin(const pattern *p, span in, pattern_search *s) {
  pattern_scratch *scratch = atomic_exchange(&((pattern *)(uintptr_t)p)->spare, NULL);
  if (!scratch) scratch = create_scratch(p);
  if (!scratch) return status_no_memory();
  uint32_t limit = UINT32_MAX;
  if (in.size < (UINT32_MAX - STEP_LIMIT) / STEPS_PER_BYTE) {
    limit = STEP_LIMIT + STEPS_PER_BYTE * (uint32_t)in.size;
  }
  (void)pcre2_set_match_limit(scratch->context, limit);
  (void)pcre2_set_depth_limit(scratch->context, limit);
  *s = (pattern_search){.pattern = p, .in = in, .last_end = SIZE_MAX, .scratch = scratch};
  return NULL;
}

void pattern_search_end(pattern_search *s) {
  destroy_scratch(atomic_exchange(&((pattern *)(uintptr_t)s->pattern)->spare, s->scratch));
  s->scratch = NULL;
}

static clave_status match_error(int code) {
  if (code == PCRE2_ERROR_NOMEMORY) return status_no_memory();
  PCRE2_UCHAR why[128] = "";
  (void)pcre2_get_error_message(code, why, sizeof why);
  return INVALID("the pattern takes too long on this text: %s", (const char *)why);
}

/* One match from s->at on; PCRE2_ERROR_NOMATCH if there is none. */
static int match_once(const pattern_search *s) {
  const pattern_scratch *scratch = s->scratch;
  PCRE2_SPTR data = (PCRE2_SPTR)s->in.data;
  int rc = pcre2_match(s->pattern->code, data, s->in.size, s->at, PCRE2_NO_UTF_CHECK, scratch->data,
                       scratch->context);
  if (rc != PCRE2_ERROR_JIT_STACKLIMIT) return rc;
  return pcre2_match(s->pattern->code, data, s->in.size, s->at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                     scratch->data, scratch->context);
}

clave_status pattern_search_next(pattern_search *s, bool *found) {
  for (*found = false; s->at <= s->in.size;) {
    int rc = match_once(s);
    if (rc == PCRE2_ERROR_NOMATCH) return NULL;
    if (rc < 0) return match_error(rc);
    const size_t *place = pcre2_get_ovector_pointer(s->scratch->data);
    if (place[1] < place[0]) return INVALID("the pattern's \\K in a lookaround is not supported");
    s->begin = place[0];
    s->end = s->at = place[1];
    bool again = s->begin == s->end && s->end == s->last_end;
    if (s->begin == s->end) { /* look on from the next character */
      uint32_t c;
      s->at += s->at < s->in.size ? utf8_read(s->in.data + s->at, &c) : 1;
    }
    s->last_end = s->end;
    if (again) continue;
    *found = true;
    return NULL;
  }
  return NULL;
}

static clave_status replace_found(pattern_search *s, span with, text *out) {
  size_t at = 0;
  for (bool found;;) {
    TRY(pattern_search_next(s, &found));
    text_append(out, s->in.data + at, (found ? s->begin : s->in.size) - at);
    if (!found) return text_status(out);
    text_append(out, with.data, with.size);
    at = s->end;
  }
}

clave_status pattern_replace(const pattern *p, span in, span with, text *out) {
  pattern_search search;
  TRY(pattern_search_begin(p, in, &search));
  clave_status st = replace_found(&search, with, out);
  pattern_search_end(&search);
  return st;
}
