/* Answers: the loop over tokens, where it stops, how likely a token was. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/float_env.h"
#include "llm/conversation.h"
#include "llm/logits.h"

/* ---------------------------------------------------------------- the next token */

static clave_status sample(clave_llm_conversation *c, uint32_t *id) {
  sampler_input in = {.logits = c->logits,
                      .count = c->llm->info.n_vocab,
                      .seen = c->ids.items,
                      .n_seen = c->ids.count,
                      .change = c->options.change_logits,
                      .change_ctx = c->options.change_logits_ctx};
  sampler_scratch *scratch;
  TRY(scratch_take(&c->llm->scratch, &scratch));
  clave_status st = sampler_choose(c->sampler, scratch, &in, id);
  scratch_give(&c->llm->scratch, scratch);
  if (st) return st;
  id_list_append(&c->ids, *id);
  if (!c->ids.failed) return NULL;
  c->ids.failed = false;
  return status_no_memory();
}

static void count_token(clave_llm_conversation *c, double ms) {
  clave_llm_stats *s = &c->stats;
  if (c->prompted) {
    s->prompt_ms += ms;
    if (s->ttft_ms == 0) s->ttft_ms = conversation_ms_since(c->prompt_ns);
  } else {
    s->decode_ms += ms;
    s->decode_tokens++;
  }
  c->prompted = false;
}

/* The text of `id` (NULL: none) and, perhaps, of the end, into c->fresh. */
static clave_status read_text(clave_llm_conversation *c, const uint32_t *id, bool end) {
  const char *bytes;
  size_t size;
  text_clear(&c->fresh);
  if (id) {
    TRY(conversation_text_of(c->llm, c->stream, *id, &bytes, &size));
    text_append(&c->fresh, bytes, size);
  }
  if (end) {
    TRY(clave_text_stream_finish(c->stream, &bytes, &size));
    text_append(&c->fresh, bytes, size);
  }
  return text_status(&c->fresh);
}

/* What of a character the stream still has is dropped. */
static void drop_rest(clave_llm_conversation *c) {
  const char *bytes;
  size_t size;
  clave_status st = clave_text_stream_finish(c->stream, &bytes, &size);
  if (st) c->stream_lags = true;
  status_free(st);
}

/* Puts into c->stop.given what is decided now that `id` (NULL: none) came and, perhaps, the end. */
static clave_status decide_text(clave_llm_conversation *c, const uint32_t *id, bool end,
                                bool *found) {
  *found = false;
  if (!c->stream) return NULL;
  clave_status st = read_text(c, id, end);
  if (!st) st = stop_text_add(&c->stop, c->fresh.data, c->fresh.size, end, found);
  if (st) c->stream_lags = true;
  if (*found && !end) drop_rest(c);
  return st;
}

static void give_text(const clave_llm_conversation *c, const char **bytes, size_t *size) {
  if (!c->stream) return;
  *bytes = c->stop.given.data ? c->stop.given.data : "";
  *size = c->stop.given.size;
}

static clave_status take_token(clave_llm_conversation *c, clave_llm_token *out) {
  bool found, full, stops;
  TRY(sample(c, &out->id));
  full = c->ids.count >= c->llm->info.max_context;
  stops = !c->options.ignore_stop_ids && llm_is_stop_id(c->llm, out->id);
  TRY(decide_text(c, stops ? NULL : &out->id, stops || full, &found));
  give_text(c, &out->text, &out->text_size);
  out->stop = found   ? CLAVE_LLM_STOP_TEXT
              : stops ? CLAVE_LLM_STOP_ID
              : full  ? CLAVE_LLM_CONTEXT_FULL
                      : CLAVE_LLM_GOES_ON;
  return NULL;
}

static clave_status check_goes_on(const clave_llm_conversation *c) {
  const clave_llm_info *info = &c->llm->info;
  if (c->ids.count == 0) return INVALID("nothing was prompted");
  if (c->ids.count < info->max_context) return NULL;
  return INVALID("the context of %u tokens is full", info->max_context);
}

/* Of the logits that are there; start: of the run that gave them. */
static clave_status finish_token(clave_llm_conversation *c, int64_t start, clave_llm_token *out) {
  size_t before = c->ids.count;
  uint64_t draws = sampler_draws(c->sampler);
  clave_status st = take_token(c, out);
  if (st) {
    *out = (clave_llm_token){0};
    c->ids.count = before;
    sampler_set_draws(c->sampler, draws);
    return st;
  }
  count_token(c, conversation_ms_since(start));
  return NULL;
}

clave_status clave_llm_next(clave_llm_conversation *c, clave_llm_token *out) {
  OWN_FLOAT_ENV;
  *out = (clave_llm_token){0};
  TRY(check_goes_on(c));
  int64_t start = clock_ns();
  TRY(conversation_renew_stream(c));
  TRY(conversation_run_pending(&c, 1));
  return finish_token(c, start, out);
}

static clave_status check_each(clave_llm_conversation *const *cs, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (cs[i]->llm != cs[0]->llm)
      return INVALID("conversation %zu is with another model than the first", i);
    for (size_t k = 0; k < i; k++)
      if (cs[k] == cs[i]) return INVALID("conversations %zu and %zu are one", k, i);
    TRY(status_while(check_goes_on(cs[i]), "conversation %zu", i));
  }
  return NULL;
}

/* Runs conversations that share a session together, beginning with the first one that waits. */
static clave_status run_each(clave_llm_conversation **waiting, size_t n) {
  while (n) {
    size_t together = 1, left = 0;
    for (size_t i = 1; i < n; i++) {
      clave_llm_conversation *c = waiting[i];
      if (c->session != waiting[0]->session) continue;
      waiting[i] = waiting[together];
      waiting[together++] = c;
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

clave_status clave_llm_flush(clave_llm_conversation *c, const char **bytes, size_t *size) {
  OWN_FLOAT_ENV;
  bool found;
  *bytes = "";
  *size = 0;
  TRY(conversation_renew_stream(c));
  TRY(decide_text(c, NULL, true, &found));
  give_text(c, bytes, size);
  return NULL;
}

/* ---------------------------------------------------------------- how likely a token was */

/* Puts id among the n largest so far, of equal ones behind. */
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

clave_status clave_llm_logprobs(const clave_llm_conversation *c, clave_llm_logprob *chosen,
                                clave_llm_logprob *top, size_t count) {
  OWN_FLOAT_ENV;
  const float *x = c->logits;
  size_t n = c->llm->info.n_vocab, n_ids = c->ids.count;
  if (n_ids == 0 || c->n_logits != n_ids - 1 || c->n_logits == 0)
    return INVALID("there are probabilities only behind a token that was just chosen");
  if (count > n) return INVALID("the %zu likeliest of %zu tokens", count, n);
  float largest = logits_largest(x, n);
  double sum = logits_log_sum(x, n, largest);
  find_top(x, n, top, count);
  for (size_t i = 0; i < count; i++)
    top[i].logprob = (float)logits_log_probability(x, top[i].id, largest, sum);
  uint32_t id = c->ids.items[n_ids - 1];
  if (chosen) *chosen = (clave_llm_logprob){id, (float)logits_log_probability(x, id, largest, sum)};
  return NULL;
}

/* ---------------------------------------------------------------- what is known of it */

const uint32_t *clave_llm_ids(const clave_llm_conversation *c, size_t *count) {
  *count = c->ids.count;
  return c->ids.items;
}

const char *clave_llm_answered_by(const clave_llm_conversation *c) { return c->answered_by; }

void clave_llm_get_stats(const clave_llm_conversation *c, clave_llm_stats *stats) {
  *stats = c->stats;
}

const char *clave_llm_stop_name(clave_llm_stop stop) {
  static const char *const names[] = {"goes_on", "stop_id", "stop_text", "context_full"};
  return (unsigned)stop < sizeof names / sizeof *names ? names[stop] : NULL;
}
