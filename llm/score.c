/* Scores a text: the log probability that the model assigns to each of its tokens. */
#include <math.h>

#include "base/float_env.h"
#include "llm/conversation.h"
#include "llm/logits.h"

static clave_status log_probability(const float *values, size_t n, uint32_t id, double *out) {
  for (size_t i = 0; i < n; i++) {
    if (isnan(values[i])) return INVALID("the logit of id %zu is NaN", i);
  }
  float largest = logits_largest(values, n);
  if (isinf(largest))
    return INVALID("the largest logit is %g: expected a finite number", (double)largest);
  *out = logits_log_probability(values, id, largest, logits_log_sum(values, n, largest));
  return NULL;
}

/* Runs the chunk; out[i] is the log probability of the id that follows its i-th id. */
static clave_status run_and_read(const llm_method *method, const run_chunk *chunk, size_t n,
                                 double *out) {
  clave_llm_conversation *conversation = chunk->conversation;
  const uint32_t *ids = conversation->ids.items + conversation->n_run;
  TRY(conversation_run_chunks(method, chunk, 1));
  for (size_t i = 0; i < chunk->n; i++) {
    TRY(conversation_chunk_logits(method, chunk, 1, 0, chunk->n - 1 - i, conversation->logits));
    if (i + 1 < n)
      TRY(log_probability(conversation->logits, conversation->llm->info.n_vocab, ids[i + 1],
                          &out[i]));
  }
  return NULL;
}

enum { MAX_LOGITS = 1 << 24 }; /* per run: 64 MB as floats */

/* Returns how many of n tokens may run at once; only one if a run computes logits only for its last
 * token. */
static size_t score_most_at_once(const clave_llm_conversation *conversation, size_t n) {
  const clave_llm *llm = conversation->llm;
  size_t most = conversation->options.prefill_chunk, rows = MAX_LOGITS / llm->info.n_vocab;
  for (int i = 0; i < llm->n_methods; i++) {
    const llm_method *method = &llm->methods[i];
    if (!method->all_logits && !method->accepts_rows) return 1;
  }
  if (most > rows) most = rows ? rows : 1;
  return n < most ? n : most;
}

/* Runs as many ids as one method accepts. */
static clave_status run_piece(clave_llm_conversation *conversation, size_t n, double *out,
                              size_t *n_run) {
  const clave_llm *llm = conversation->llm;
  *n_run = score_most_at_once(conversation, n);
  const llm_method *method = llm_methods_choose(llm->methods, llm->n_methods, n_run);
  conversation->state->lock(conversation);
  clave_status st = run_and_read(
      method, &(run_chunk){.conversation = conversation, .n = *n_run, .all_logits = true}, n, out);
  conversation->state->unlock(conversation);
  return st;
}

clave_status clave_llm_score(clave_llm_conversation *conversation, const uint32_t *ids, size_t n,
                             double *out) {
  OWN_FLOAT_ENV;
  TRY(conversation_run_pending(&conversation, 1));
  bool first = conversation->ids.count == 0;
  TRY(conversation_append(conversation, ids, n,
                          conversation->llm->info.max_context - conversation->ids.count));
  if (n && first) out[0] = NAN;
  if (n && !first)
    TRY(log_probability(conversation->logits, conversation->llm->info.n_vocab, ids[0], &out[0]));
  for (size_t at = 0, n_run; at < n; at += n_run) {
    TRY(run_piece(conversation, n - at, out + at + 1, &n_run));
    conversation->n_logits = conversation->n_run;
  }
  return NULL;
}
