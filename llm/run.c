/* Runs of the model: tokens of one conversation, or of several that share a pool. */
#include <stdlib.h>

#include "llm/conversation.h"

/* ---------------------------------------------------------------- one run */

/* The state is about to take n more ids than have run: it gets room; logits of before are gone. */
static clave_status prepare(clave_llm_conversation *c, size_t n) {
  TRY(c->state->make_room(c, c->n_run, c->n_run + n));
  if (c->n_written < c->n_run + n) c->n_written = c->n_run + n;
  c->n_logits = 0;
  return NULL;
}

clave_status conversation_run_parts(const llm_method *m, const run_part *parts, size_t n) {
  const clave_llm_conversation *c = parts[0].c;
  for (size_t i = 0; i < n; i++) TRY(prepare(parts[i].c, parts[i].n));
  clave_status st = c->state->run(m, parts, n);
  const char *by = clave_session_answered_by(c->session);
  for (size_t i = 0; i < n; i++) {
    if (st) status_free(c->state->run_again(parts[i].c, parts[i].c->n_run));
    if (!st) parts[i].c->n_run += parts[i].n;
    if (!st) parts[i].c->answered_by = by;
  }
  return st;
}

clave_status conversation_part_logits(const llm_method *m, const run_part *parts, size_t n,
                                      size_t i, size_t back, float *out) {
  for (size_t k = i + 1; k < n; k++) back += m->takes_rows && !parts[k].all_logits ? 1 : parts[k].n;
  return llm_method_logits(m, parts[i].c->session, back, out);
}

/* ---------------------------------------------------------------- all that is pending */

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

/* What of each conversation's ids the next run takes, and by which method; *n: of how many. */
static const llm_method *choose_parts(clave_llm_conversation *const *cs, size_t n_cs,
                                      run_part *parts, size_t *n) {
  const clave_llm *l = cs[0]->llm;
  size_t total = 0, left = cs[0]->options.prefill_chunk;
  *n = 0;
  for (size_t i = 0; i < n_cs && left; i++) {
    clave_llm_conversation *c = cs[i];
    size_t take = smaller(c->ids.count - c->n_run, smaller(c->options.prefill_chunk, left));
    if (c->n_logits == c->ids.count || !take) continue;
    parts[(*n)++] = (run_part){.c = c, .n = take};
    total += take;
    left -= take;
  }
  const llm_method *m = *n ? llm_methods_choose(l->methods, l->n_methods, &total) : NULL;
  for (size_t i = 0; i < *n; i++) { /* it may take fewer */
    parts[i].n = smaller(parts[i].n, total);
    total -= parts[i].n;
  }
  while (*n && !parts[*n - 1].n) --*n;
  return m;
}

static clave_status run_some(const llm_method *m, const run_part *parts, size_t n) {
  TRY(conversation_run_parts(m, parts, n));
  for (size_t i = 0; i < n; i++) {
    clave_llm_conversation *c = parts[i].c;
    if (c->n_run < c->ids.count) continue;
    TRY(conversation_part_logits(m, parts, n, i, 0, c->logits));
    c->n_logits = c->n_run;
  }
  return NULL;
}

clave_status conversation_run_pending(clave_llm_conversation *const *cs, size_t n) {
  size_t n_parts;
  clave_status st = NULL;
  run_part *parts = calloc(n, sizeof *parts);
  if (!parts) return status_no_memory();
  for (size_t i = 0; i < n && !st; i++) {
    bool missing = cs[i]->n_logits != cs[i]->ids.count && cs[i]->n_run == cs[i]->ids.count;
    if (missing) st = cs[i]->state->run_again(cs[i], cs[i]->n_run - 1);
  }
  for (const llm_method *m; !st && (m = choose_parts(cs, n, parts, &n_parts));) {
    cs[0]->state->lock(cs[0]);
    st = run_some(m, parts, n_parts);
    cs[0]->state->unlock(cs[0]);
  }
  free(parts);
  return st;
}
