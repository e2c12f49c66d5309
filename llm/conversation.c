/* Conversations: what they own, prompts, forks. */
#include "llm/conversation.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/float_env.h"
#include "base/sized.h"
#include "base/utf8.h"
#include "tokenizer/find.h"

enum { DEFAULT_CHUNK = 512 };

double conversation_ms_since(int64_t start) { return 1e-6 * (double)(clock_ns() - start); }

/* ---------------------------------------------------------------- lifetime */

static clave_status copy_stops(clave_llm_conversation *c, const char *const *stops, size_t n) {
  span *copies = mem_pool_alloc(c->pool, n + 1, sizeof *copies);
  const char **texts = mem_pool_alloc(c->pool, n + 1, sizeof *texts);
  if (!copies || !texts) return status_no_memory();
  for (size_t i = 0; i < n; i++) {
    size_t size = strlen(stops[i]);
    if (size == 0) return INVALID("stop text %zu is empty", i);
    if (!utf8_valid(stops[i], size)) return INVALID("stop text %zu is not UTF-8", i);
    texts[i] = mem_pool_strdup(c->pool, stops[i], size);
    if (!texts[i]) return status_no_memory();
    copies[i] = (span){texts[i], size};
  }
  c->options.stop = texts;
  c->options.n_stop = n;
  c->stop.stops = copies;
  c->stop.n_stops = n;
  return NULL;
}

static clave_status read_options(clave_llm_conversation *c,
                                 const clave_llm_conversation_options *o) {
  clave_llm_conversation_options *own = &c->options;
  TRY(sized_read(o, own, SIZED(clave_llm_conversation_options, session)));
  if (!own->prefill_chunk) own->prefill_chunk = DEFAULT_CHUNK;
  TRY(sized_read(own->session, &c->session_options, SIZED(clave_session_options, seed)));
  own->session = &c->session_options;
  if (own->n_stop && !c->llm->tokenizer) return INVALID("stop texts need a tokenizer");
  TRY(copy_stops(c, own->stop, own->n_stop));
  TRY(clave_sampler_create(own->sampler, &c->sampler));
  own->sampler = sampler_options_of(c->sampler);
  return NULL;
}

static clave_status init(clave_llm_conversation *c, const clave_llm_conversation_options *options) {
  clave_llm *l = c->llm;
  int64_t start = clock_ns();
  TRY(mem_pool_create(&c->pool));
  TRY(read_options(c, options));
  if (l->tokenizer) TRY(clave_text_stream_create(l->tokenizer, true, &c->stream));
  c->logits = calloc(l->info.n_vocab, sizeof *c->logits);
  if (!c->logits) return status_no_memory();
  TRY(c->state->open(c));
  c->stats.load_ms = l->load_ms + conversation_ms_since(start);
  return NULL;
}

clave_status clave_llm_conversation_create(clave_llm *l,
                                           const clave_llm_conversation_options *options,
                                           clave_llm_conversation **out) {
  OWN_FLOAT_ENV;
  *out = NULL;
  clave_llm_conversation *c = calloc(1, sizeof *c);
  if (!c) return status_no_memory();
  c->llm = l;
  c->state = l->paged ? &shared_pages_state : &own_session_state;
  l->holds++;
  clave_status st = init(c, options);
  if (st) {
    clave_llm_conversation_destroy(c);
    return st;
  }
  *out = c;
  return NULL;
}

void clave_llm_conversation_destroy(clave_llm_conversation *c) {
  if (!c) return;
  c->state->close(c);
  clave_sampler_destroy(c->sampler);
  clave_text_stream_destroy(c->stream);
  stop_text_free(&c->stop);
  text_free(&c->fresh);
  chat_free(&c->chat);
  id_list_free(&c->ids);
  free(c->logits);
  mem_pool_destroy(c->pool);
  clave_llm_destroy(c->llm);
  free(c);
}

clave_status conversation_text_of(const clave_llm *l, clave_text_stream *stream, uint32_t id,
                                  const char **bytes, size_t *size) {
  *bytes = "";
  *size = 0;
  if (!stream || !tokenizer_has(l->tokenizer, id)) return NULL;
  return clave_text_stream_next(stream, id, bytes, size);
}

/* Prompts are not given as text, but what follows joins to them. */
static clave_status see_ids(const clave_llm *l, clave_text_stream *stream, const uint32_t *ids,
                            size_t n) {
  const char *bytes;
  size_t size;
  for (size_t i = 0; i < n; i++) TRY(conversation_text_of(l, stream, ids[i], &bytes, &size));
  return NULL;
}

clave_status conversation_take_ids(clave_llm_conversation *c, const uint32_t *ids, size_t n,
                                   size_t n_run) {
  clave_text_stream *stream = NULL;
  id_list list = {0};
  for (size_t i = 0; i < n; i++) id_list_append(&list, ids[i]);
  clave_status st = list.failed ? status_no_memory() : NULL;
  if (!st && c->stream) st = clave_text_stream_create(c->llm->tokenizer, true, &stream);
  if (!st) st = see_ids(c->llm, stream, ids, n);
  if (st) {
    clave_text_stream_destroy(stream);
    id_list_free(&list);
    return st;
  }
  clave_text_stream_destroy(c->stream);
  id_list_free(&c->ids);
  c->stream = stream;
  c->stream_lags = false;
  c->ids = list;
  c->n_run = n_run;
  c->prompted = n_run + 1 < n;
  text_clear(&c->stop.held);
  return NULL;
}

clave_status conversation_renew_stream(clave_llm_conversation *c) {
  clave_text_stream *stream;
  if (!c->stream_lags) return NULL;
  TRY(clave_text_stream_create(c->llm->tokenizer, true, &stream));
  clave_status st = see_ids(c->llm, stream, c->ids.items, c->ids.count);
  if (st) {
    clave_text_stream_destroy(stream);
    return st;
  }
  clave_text_stream_destroy(c->stream);
  c->stream = stream;
  c->stream_lags = false;
  return NULL;
}

clave_status conversation_begin_again(clave_llm_conversation *c) {
  TRY(c->state->clear(c));
  c->n_run = c->n_written = c->n_logits = 0;
  TRY(conversation_take_ids(c, NULL, 0, 0));
  chat_forget(&c->chat);
  return NULL;
}

clave_status clave_llm_reset(clave_llm_conversation *c) {
  OWN_FLOAT_ENV;
  TRY(conversation_begin_again(c));
  sampler_set_draws(c->sampler, 0);
  c->stats = (clave_llm_stats){.load_ms = c->stats.load_ms};
  c->prompt_ns = 0;
  return NULL;
}

static clave_status copy_conversation(const clave_llm_conversation *from,
                                      clave_llm_conversation *to) {
  TRY(to->state->share(from, to));
  TRY(conversation_take_ids(to, from->ids.items, from->ids.count, from->n_run));
  to->n_written = from->n_written;
  to->n_logits = from->n_logits;
  sampler_set_draws(to->sampler, sampler_draws(from->sampler));
  memcpy(to->logits, from->logits, from->llm->info.n_vocab * sizeof *to->logits);
  text_append(&to->stop.held, from->stop.held.data, from->stop.held.size);
  to->answered_by = from->answered_by;
  to->prompted = from->prompted;
  TRY(chat_copy(&from->chat, &to->chat));
  return text_status(&to->stop.held);
}

clave_status clave_llm_fork(const clave_llm_conversation *from, clave_llm_conversation **out) {
  OWN_FLOAT_ENV;
  TRY(clave_llm_conversation_create(from->llm, &from->options, out));
  clave_status st = copy_conversation(from, *out);
  if (!st) return NULL;
  clave_llm_conversation_destroy(*out);
  *out = NULL;
  return st;
}

clave_status clave_llm_set_sampler(clave_llm_conversation *c,
                                   const clave_sampler_options *options) {
  OWN_FLOAT_ENV;
  clave_sampler *sampler;
  TRY(clave_sampler_create(options, &sampler));
  sampler_set_draws(sampler, sampler_draws(c->sampler));
  clave_sampler_destroy(c->sampler);
  c->sampler = sampler;
  c->options.sampler = sampler_options_of(sampler);
  return NULL;
}

/* ---------------------------------------------------------------- prompts */

static clave_status check_prompt(const clave_llm_conversation *c, const uint32_t *ids, size_t n,
                                 size_t room) {
  const clave_llm_info *info = &c->llm->info;
  if (n > room)
    return INVALID(
        "a prompt of %zu tokens behind %zu does not fit into the context of %u: %zu too many", n,
        c->ids.count, info->max_context, n - room);
  for (size_t i = 0; i < n; i++) {
    if (ids[i] >= info->n_vocab)
      return INVALID("id %u at %zu of the prompt; the model has ids below %u", ids[i], i,
                     info->n_vocab);
  }
  return NULL;
}

void conversation_start_clock(clave_llm_conversation *c) {
  if (!c->prompt_ns) c->prompt_ns = clock_ns();
}

clave_status conversation_append(clave_llm_conversation *c, const uint32_t *ids, size_t n,
                                 size_t room) {
  size_t before = c->ids.count;
  conversation_start_clock(c);
  TRY(check_prompt(c, ids, n, room));
  TRY(conversation_renew_stream(c));
  for (size_t i = 0; i < n; i++) id_list_append(&c->ids, ids[i]);
  clave_status st = c->ids.failed ? status_no_memory() : see_ids(c->llm, c->stream, ids, n);
  if (st) {
    c->ids.count = before;
    c->ids.failed = false;
    c->stream_lags = c->stream != NULL;
    return st;
  }
  text_clear(&c->stop.held);
  c->prompted = c->prompted || n > 0;
  c->stats.prompt_tokens += n;
  return NULL;
}

/* A token must follow. */
clave_status clave_llm_prompt(clave_llm_conversation *c, const uint32_t *ids, size_t n) {
  OWN_FLOAT_ENV;
  size_t room = c->llm->info.max_context - c->ids.count;
  return conversation_append(c, ids, n, room ? room - 1 : 0);
}

/* Puts BOS before the first text, unless the text spells it. */
static clave_status prompt_encoded(clave_llm_conversation *c, const clave_ids *ids) {
  id_list all = {0};
  int64_t bos = c->llm->info.bos, first = ids->count ? (int64_t)ids->items[0] : CLAVE_NO_TOKEN;
  if (c->ids.count == 0 && bos != CLAVE_NO_TOKEN && first != bos)
    id_list_append(&all, (uint32_t)bos);
  for (size_t i = 0; i < ids->count; i++) id_list_append(&all, ids->items[i]);
  clave_status st = all.failed ? status_no_memory() : clave_llm_prompt(c, all.items, all.count);
  id_list_free(&all);
  return st;
}

clave_status clave_llm_prompt_text(clave_llm_conversation *c, const char *bytes, size_t size) {
  OWN_FLOAT_ENV;
  clave_ids ids;
  conversation_start_clock(c);
  if (!c->llm->tokenizer) return INVALID("a prompt of text needs a tokenizer; ids do not");
  TRY(clave_tokenizer_encode(c->llm->tokenizer, bytes, size, NULL, &ids));
  clave_status st = prompt_encoded(c, &ids);
  clave_ids_free(&ids);
  return st;
}
