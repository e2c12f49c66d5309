/* How likely a text is to a model: the log probability of each of its tokens. */
#include <math.h>

#include "base/float_env.h"
#include "llm/conversation.h"
#include "llm/logits.h"

static clave_status log_probability(const float *x, size_t n, uint32_t id, double *out) {
  for (size_t i = 0; i < n; i++) {
    if (isnan(x[i])) return INVALID("the logits have a NaN, of id %zu", i);
  }
  float largest = logits_largest(x, n);
  if (isinf(largest)) return INVALID("the largest of the logits is %g", (double)largest);
  *out = logits_log_probability(x, id, largest, logits_log_sum(x, n, largest));
  return NULL;
}

/* out[i]: of the id that follows the i-th of those that run. */
static clave_status run_and_read(const llm_method *m, const run_part *part, size_t n, double *out) {
  clave_llm_conversation *c = part->c;
  const uint32_t *ids = c->ids.items + c->n_run;
  TRY(conversation_run_parts(m, part, 1));
  for (size_t i = 0; i < part->n; i++) {
    TRY(conversation_part_logits(m, part, 1, 0, part->n - 1 - i, c->logits));
    if (i + 1 < n) TRY(log_probability(c->logits, c->llm->info.n_vocab, ids[i + 1], &out[i]));
  }
  return NULL;
}

enum { MOST_LOGITS = 1 << 24 }; /* per run: 64 MB of floats */

/* Returns how many of n tokens may run at once: one if a run gives logits of its last token alone.
 */
static size_t most_at_once(const clave_llm_conversation *c, size_t n) {
  const clave_llm *l = c->llm;
  size_t most = c->options.prefill_chunk, rows = MOST_LOGITS / l->info.n_vocab;
  for (int i = 0; i < l->n_methods; i++) {
    const llm_method *m = &l->methods[i];
    if (!m->all_logits && !m->takes_rows) return 1;
  }
  if (most > rows) most = rows ? rows : 1;
  return n < most ? n : most;
}

/* Runs ids as far as one method takes them. */
static clave_status run_piece(clave_llm_conversation *c, size_t n, double *out, size_t *taken) {
  const clave_llm *l = c->llm;
  *taken = most_at_once(c, n);
  const llm_method *m = llm_methods_choose(l->methods, l->n_methods, taken);
  c->state->lock(c);
  clave_status st = run_and_read(m, &(run_part){.c = c, .n = *taken, .all_logits = true}, n, out);
  c->state->unlock(c);
  return st;
}

clave_status clave_llm_score(clave_llm_conversation *c, const uint32_t *ids, size_t n,
                             double *out) {
  OWN_FLOAT_ENV;
  TRY(conversation_run_pending(&c, 1));
  bool first = c->ids.count == 0;
  TRY(conversation_append(c, ids, n, c->llm->info.max_context - c->ids.count));
  if (n && first) out[0] = NAN;
  if (n && !first) TRY(log_probability(c->logits, c->llm->info.n_vocab, ids[0], &out[0]));
  for (size_t at = 0, taken; at < n; at += taken) {
    TRY(run_piece(c, n - at, out + at + 1, &taken));
    c->n_logits = c->n_run;
  }
  return NULL;
}
