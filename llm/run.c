/* Runs of the model: tokens of one conversation, or of several that share a pool. */
#include <stdlib.h>

#include "llm/conversation.h"

/* ---------------------------------------------------------------- one run */

/* Prepares the state for n more ids: reserves capacity and invalidates the logits. */
static clave_status prepare(clave_llm_conversation *conversation, size_t n) {
  TRY(conversation->state->reserve_capacity(conversation, conversation->n_run,
                                            conversation->n_run + n));
  if (conversation->n_written < conversation->n_run + n)
    conversation->n_written = conversation->n_run + n;
  conversation->n_logits = 0;
  return NULL;
}

clave_status conversation_run_chunks(const llm_method *method, const run_chunk *chunks, size_t n) {
  const clave_llm_conversation *conversation = chunks[0].conversation;
  for (size_t i = 0; i < n; i++) TRY(prepare(chunks[i].conversation, chunks[i].n));
  clave_status st = conversation->state->run(method, chunks, n);
  const char *by = clave_session_answered_by(conversation->session);
  for (size_t i = 0; i < n; i++) {
    if (st)
      status_free(
          conversation->state->run_again(chunks[i].conversation, chunks[i].conversation->n_run));
    if (!st) chunks[i].conversation->n_run += chunks[i].n;
    if (!st) chunks[i].conversation->answered_by = by;
  }
  return st;
}

clave_status conversation_chunk_logits(const llm_method *method, const run_chunk *chunks, size_t n,
                                       size_t i, size_t back, float *out) {
  for (size_t k = i + 1; k < n; k++)
    back += method->accepts_rows && !chunks[k].all_logits ? 1 : chunks[k].n;
  return llm_method_logits(method, chunks[i].conversation->session, back, out);
}

/* ---------------------------------------------------------------- pending ids */

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

/* Selects the method of the next run, and the number of ids that it runs of each conversation. Sets
 * *count to the number of chunks. */
static const llm_method *llm_run_choose_chunks(clave_llm_conversation *const *cs, size_t n_cs,
                                               run_chunk *chunks, size_t *count) {
  const clave_llm *llm = cs[0]->llm;
  size_t total = 0, left = cs[0]->options.prefill_chunk;
  *count = 0;
  for (size_t i = 0; i < n_cs && left; i++) {
    clave_llm_conversation *conversation = cs[i];
    size_t take = smaller(conversation->ids.count - conversation->n_run,
                          smaller(conversation->options.prefill_chunk, left));
    if (conversation->n_logits == conversation->ids.count || !take) continue;
    chunks[(*count)++] = (run_chunk){.conversation = conversation, .n = take};
    total += take;
    left -= take;
  }
  const llm_method *method =
      *count ? llm_methods_choose(llm->methods, llm->n_methods, &total) : NULL;
  for (size_t i = 0; i < *count; i++) { /* the method may accept fewer */
    chunks[i].n = smaller(chunks[i].n, total);
    total -= chunks[i].n;
  }
  while (*count && !chunks[*count - 1].n) --*count;
  return method;
}

static clave_status run_some(const llm_method *method, const run_chunk *chunks, size_t n) {
  TRY(conversation_run_chunks(method, chunks, n));
  for (size_t i = 0; i < n; i++) {
    clave_llm_conversation *conversation = chunks[i].conversation;
    if (conversation->n_run < conversation->ids.count) continue;
    TRY(conversation_chunk_logits(method, chunks, n, i, 0, conversation->logits));
    conversation->n_logits = conversation->n_run;
  }
  return NULL;
}

clave_status conversation_run_pending(clave_llm_conversation *const *cs, size_t n) {
  size_t n_chunks;
  clave_status st = NULL;
  run_chunk *chunks = calloc(n, sizeof *chunks);
  if (!chunks) return status_no_memory();
  for (size_t i = 0; i < n && !st; i++) {
    bool missing = cs[i]->n_logits != cs[i]->ids.count && cs[i]->n_run == cs[i]->ids.count;
    if (missing) st = cs[i]->state->run_again(cs[i], cs[i]->n_run - 1);
  }
  for (const llm_method *m; !st && (m = llm_run_choose_chunks(cs, n, chunks, &n_chunks));) {
    cs[0]->state->lock(cs[0]);
    st = run_some(m, chunks, n_chunks);
    cs[0]->state->unlock(cs[0]);
  }
  free(chunks);
  return st;
}
