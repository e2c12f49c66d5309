/* Generates answers token by token, decides when an answer ends, and reports log probabilities. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/float_env.h"
#include "llm/conversation.h"
#include "llm/logits.h"

/* ---------------------------------------------------------------- the next token */

static clave_status sample(clave_llm_conversation *conversation, uint32_t *id) {
  sampler_input in = {.logits = conversation->logits,
                      .count = conversation->llm->info.n_vocab,
                      .seen = conversation->ids.items,
                      .n_seen = conversation->ids.count,
                      .change = conversation->options.change_logits,
                      .change_ctx = conversation->options.change_logits_ctx};
  sampler_scratch *scratch;
  TRY(scratch_acquire(&conversation->llm->scratch, &scratch));
  clave_status st = sampler_choose(conversation->sampler, scratch, &in, id);
  scratch_release(&conversation->llm->scratch, scratch);
  if (st) return st;
  id_list_append(&conversation->ids, *id);
  if (!conversation->ids.failed) return NULL;
  conversation->ids.failed = false;
  return status_no_memory();
}

static void count_token(clave_llm_conversation *conversation, double ms) {
  clave_llm_stats *stats = &conversation->stats;
  if (conversation->prompted) {
    stats->prompt_ms += ms;
    if (stats->ttft_ms == 0) stats->ttft_ms = conversation_ms_since(conversation->prompt_ns);
  } else {
    stats->decode_ms += ms;
    stats->decode_tokens++;
  }
  conversation->prompted = false;
}

/* Stores the text of `id` (may be NULL) in conversation->new_text. At the `end`, appends the text
 * that the stream still holds. */
static clave_status answer_read_text(clave_llm_conversation *conversation, const uint32_t *id,
                                     bool end) {
  const char *bytes;
  size_t size;
  text_clear(&conversation->new_text);
  if (id) {
    TRY(conversation_text_of(conversation->llm, conversation->stream, *id, &bytes, &size));
    text_append(&conversation->new_text, bytes, size);
  }
  if (end) {
    TRY(clave_text_stream_finish(conversation->stream, &bytes, &size));
    text_append(&conversation->new_text, bytes, size);
  }
  return text_status(&conversation->new_text);
}

/* Drops the incomplete character that the stream still holds. */
static void drop_rest(clave_llm_conversation *conversation) {
  const char *bytes;
  size_t size;
  clave_status st = clave_text_stream_finish(conversation->stream, &bytes, &size);
  if (st) conversation->stream_is_stale = true;
  status_free(st);
}

/* Searches the text of `id` (may be NULL) for stop texts, and stores the text that can be released
 * in conversation->stop.released. `end`: no text follows, so all of it is released. */
static clave_status decide_text(clave_llm_conversation *conversation, const uint32_t *id, bool end,
                                bool *found) {
  *found = false;
  if (!conversation->stream) return NULL;
  clave_status st = answer_read_text(conversation, id, end);
  if (!st)
    st = stop_text_add(&conversation->stop, conversation->new_text.data,
                       conversation->new_text.size, end, found);
  if (st) conversation->stream_is_stale = true;
  if (*found && !end) drop_rest(conversation);
  return st;
}

static void borrow_text(const clave_llm_conversation *conversation, const char **bytes,
                        size_t *size) {
  if (!conversation->stream) return;
  *bytes = conversation->stop.released.data ? conversation->stop.released.data : "";
  *size = conversation->stop.released.size;
}

static clave_status answer_take_token(clave_llm_conversation *conversation, clave_llm_token *out) {
  bool found, full, stops;
  TRY(sample(conversation, &out->id));
  full = conversation->ids.count >= conversation->llm->info.max_context;
  stops = !conversation->options.ignore_stop_ids && llm_is_stop_id(conversation->llm, out->id);
  TRY(decide_text(conversation, stops ? NULL : &out->id, stops || full, &found));
  borrow_text(conversation, &out->text, &out->text_size);
  out->stop = found   ? CLAVE_LLM_STOP_TEXT
              : stops ? CLAVE_LLM_STOP_ID
              : full  ? CLAVE_LLM_CONTEXT_FULL
                      : CLAVE_LLM_GOES_ON;
  return NULL;
}

static clave_status check_continues(const clave_llm_conversation *conversation) {
  const clave_llm_info *info = &conversation->llm->info;
  if (conversation->ids.count == 0) return INVALID("the conversation has no prompt");
  if (conversation->ids.count < info->max_context) return NULL;
  return INVALID("the context of %u tokens is full", info->max_context);
}

/* Chooses a token from the current logits. start: the time before the run that computed them. On
 * failure, restores the ids and the sampler. */
static clave_status finish_token(clave_llm_conversation *conversation, int64_t start,
                                 clave_llm_token *out) {
  size_t before = conversation->ids.count;
  uint64_t draws = sampler_draws(conversation->sampler);
  clave_status st = answer_take_token(conversation, out);
  if (st) {
    *out = (clave_llm_token){0};
    conversation->ids.count = before;
    sampler_set_draws(conversation->sampler, draws);
    return st;
  }
  count_token(conversation, conversation_ms_since(start));
  return NULL;
}

clave_status clave_llm_next(clave_llm_conversation *conversation, clave_llm_token *out) {
  OWN_FLOAT_ENV;
  *out = (clave_llm_token){0};
  TRY(check_continues(conversation));
  int64_t start = clock_ns();
  TRY(conversation_renew_stream(conversation));
  TRY(conversation_run_pending(&conversation, 1));
  return finish_token(conversation, start, out);
}

static clave_status check_each(clave_llm_conversation *const *cs, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (cs[i]->llm != cs[0]->llm)
      return INVALID("conversation %zu belongs to another model than the first", i);
    for (size_t k = 0; k < i; k++)
      if (cs[k] == cs[i])
        return INVALID("conversations %zu and %zu are the same conversation", k, i);
    TRY(status_while(check_continues(cs[i]), "conversation %zu", i));
  }
  return NULL;
}

/* Runs the pending ids of all conversations; conversations that share a session run together. */
static clave_status run_each(clave_llm_conversation **waiting, size_t n) {
  while (n) {
    size_t together = 1, left = 0;
    for (size_t i = 1; i < n; i++) {
      clave_llm_conversation *conversation = waiting[i];
      if (conversation->session != waiting[0]->session) continue;
      waiting[i] = waiting[together];
      waiting[together++] = conversation;
    }
    TRY(conversation_run_pending(waiting, together));
    for (size_t i = together; i < n; i++) waiting[left++] = waiting[i];
    n = left;
  }
  return NULL;
}

clave_status clave_llm_next_each(clave_llm_conversation *const *cs, size_t n, clave_llm_token *out,
                                 size_t *done) {
  OWN_FLOAT_ENV;
  *done = 0;
  for (size_t i = 0; i < n; i++) out[i] = (clave_llm_token){0};
  TRY(check_each(cs, n));
  int64_t start = clock_ns();
  for (size_t i = 0; i < n; i++) TRY(conversation_renew_stream(cs[i]));
  clave_llm_conversation **waiting = calloc(n + 1, sizeof *waiting);
  if (!waiting) return status_no_memory();
  for (size_t i = 0; i < n; i++) waiting[i] = cs[i];
  clave_status st = run_each(waiting, n);
  free(waiting);
  for (size_t i = 0; i < n && !st; i++) {
    st = finish_token(cs[i], start, &out[i]);
    *done += !st;
  }
  return st;
}

clave_status clave_llm_flush(clave_llm_conversation *conversation, const char **bytes,
                             size_t *size) {
  OWN_FLOAT_ENV;
  bool found;
  *bytes = "";
  *size = 0;
  TRY(conversation_renew_stream(conversation));
  TRY(decide_text(conversation, NULL, true, &found));
  borrow_text(conversation, bytes, size);
  return NULL;
}

/* ---------------------------------------------------------------- probability of a token */

/* Inserts id into the n ids with the largest logits so far, after those of equal logits. */
static void insert_id(const float *logits, clave_llm_logprob *top, size_t n, uint32_t id) {
  size_t at = n;
  for (; at > 0 && logits[id] > logits[top[at - 1].id]; at--) top[at] = top[at - 1];
  top[at].id = id;
}

static void find_top(const float *logits, size_t n_vocab, clave_llm_logprob *top, size_t count) {
  size_t n = 0;
  for (size_t i = 0; i < n_vocab && count; i++) {
    if (n == count && !(logits[i] > logits[top[n - 1].id])) continue;
    insert_id(logits, top, n < count ? n : n - 1, (uint32_t)i);
    n += n < count;
  }
}

clave_status clave_llm_logprobs(const clave_llm_conversation *conversation,
                                clave_llm_logprob *chosen, clave_llm_logprob *top, size_t count) {
  OWN_FLOAT_ENV;
  const float *values = conversation->logits;
  size_t n = conversation->llm->info.n_vocab, n_ids = conversation->ids.count;
  if (n_ids == 0 || conversation->n_logits != n_ids - 1 || conversation->n_logits == 0)
    return INVALID("probabilities exist only directly after a token is chosen");
  if (count > n)
    return INVALID("expected at most as many tokens as the vocabulary has: %zu requested of %zu",
                   count, n);
  float largest = logits_largest(values, n);
  double sum = logits_log_sum(values, n, largest);
  find_top(values, n, top, count);
  for (size_t i = 0; i < count; i++)
    top[i].logprob = (float)logits_log_probability(values, top[i].id, largest, sum);
  uint32_t id = conversation->ids.items[n_ids - 1];
  if (chosen)
    *chosen = (clave_llm_logprob){id, (float)logits_log_probability(values, id, largest, sum)};
  return NULL;
}

/* ---------------------------------------------------------------- queries */

const uint32_t *clave_llm_ids(const clave_llm_conversation *conversation, size_t *count) {
  *count = conversation->ids.count;
  return conversation->ids.items;
}

const char *clave_llm_answered_by(const clave_llm_conversation *conversation) {
  return conversation->answered_by;
}

void clave_llm_get_stats(const clave_llm_conversation *conversation, clave_llm_stats *stats) {
  *stats = conversation->stats;
}

const char *clave_llm_stop_name(clave_llm_stop stop) {
  static const char *const names[] = {"goes_on", "stop_id", "stop_text", "context_full"};
  return (unsigned)stop < sizeof names / sizeof *names ? names[stop] : NULL;
}
