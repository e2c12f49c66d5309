/* Conversations: lifetime, prompts, forks. */
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

static clave_status copy_stops(clave_llm_conversation *conversation, const char *const *stops,
                               size_t n) {
  span *copies = mem_pool_alloc(conversation->pool, n + 1, sizeof *copies);
  const char **texts = mem_pool_alloc(conversation->pool, n + 1, sizeof *texts);
  if (!copies || !texts) return status_no_memory();
  for (size_t i = 0; i < n; i++) {
    size_t size = strlen(stops[i]);
    if (size == 0) return INVALID("stop text %zu is empty", i);
    if (!utf8_valid(stops[i], size)) return INVALID("stop text %zu is not valid UTF-8", i);
    texts[i] = mem_pool_strdup(conversation->pool, stops[i], size);
    if (!texts[i]) return status_no_memory();
    copies[i] = (span){texts[i], size};
  }
  conversation->options.stop = texts;
  conversation->options.n_stop = n;
  conversation->stop.stops = copies;
  conversation->stop.n_stops = n;
  return NULL;
}

static clave_status conversation_read_options(clave_llm_conversation *conversation,
                                              const clave_llm_conversation_options *options) {
  clave_llm_conversation_options *own = &conversation->options;
  TRY(sized_read(options, own, SIZED(clave_llm_conversation_options, session)));
  if (!own->prefill_chunk) own->prefill_chunk = DEFAULT_CHUNK;
  TRY(sized_read(own->session, &conversation->session_options, SIZED(clave_session_options, seed)));
  own->session = &conversation->session_options;
  if (own->n_stop && !conversation->llm->tokenizer) return INVALID("stop texts need a tokenizer");
  TRY(copy_stops(conversation, own->stop, own->n_stop));
  TRY(clave_sampler_create(own->sampler, &conversation->sampler));
  own->sampler = sampler_options_of(conversation->sampler);
  return NULL;
}

static clave_status conversation_init(clave_llm_conversation *conversation,
                                      const clave_llm_conversation_options *options) {
  clave_llm *llm = conversation->llm;
  int64_t start = clock_ns();
  TRY(mem_pool_create(&conversation->pool));
  TRY(conversation_read_options(conversation, options));
  if (llm->tokenizer) TRY(clave_text_stream_create(llm->tokenizer, true, &conversation->stream));
  conversation->logits = calloc(llm->info.n_vocab, sizeof *conversation->logits);
  if (!conversation->logits) return status_no_memory();
  TRY(conversation->state->open(conversation));
  conversation->stats.load_ms = llm->load_ms + conversation_ms_since(start);
  return NULL;
}

clave_status clave_llm_conversation_create(clave_llm *llm,
                                           const clave_llm_conversation_options *options,
                                           clave_llm_conversation **out) {
  OWN_FLOAT_ENV;
  *out = NULL;
  clave_llm_conversation *conversation = calloc(1, sizeof *conversation);
  if (!conversation) return status_no_memory();
  conversation->llm = llm;
  conversation->state = llm->paged ? &shared_pages_state : &own_session_state;
  llm->n_references++;
  clave_status st = conversation_init(conversation, options);
  if (st) {
    clave_llm_conversation_destroy(conversation);
    return st;
  }
  *out = conversation;
  return NULL;
}

void clave_llm_conversation_destroy(clave_llm_conversation *conversation) {
  if (!conversation) return;
  conversation->state->close(conversation);
  clave_sampler_destroy(conversation->sampler);
  clave_text_stream_destroy(conversation->stream);
  stop_text_free(&conversation->stop);
  text_free(&conversation->new_text);
  chat_free(&conversation->chat);
  id_list_free(&conversation->ids);
  free(conversation->logits);
  mem_pool_destroy(conversation->pool);
  clave_llm_destroy(conversation->llm);
  free(conversation);
}

clave_status conversation_text_of(const clave_llm *llm, clave_text_stream *stream, uint32_t id,
                                  const char **bytes, size_t *size) {
  *bytes = "";
  *size = 0;
  if (!stream || !tokenizer_has(llm->tokenizer, id)) return NULL;
  return clave_text_stream_next(stream, id, bytes, size);
}

/* Passes prompted ids to the stream, so that the text of later tokens continues from them. Discards
 * the text of the prompted ids. */
static clave_status stream_ids(const clave_llm *llm, clave_text_stream *stream, const uint32_t *ids,
                               size_t n) {
  const char *bytes;
  size_t size;
  for (size_t i = 0; i < n; i++) TRY(conversation_text_of(llm, stream, ids[i], &bytes, &size));
  return NULL;
}

clave_status conversation_replace_ids(clave_llm_conversation *conversation, const uint32_t *ids,
                                      size_t n, size_t n_run) {
  clave_text_stream *stream = NULL;
  id_list list = {0};
  for (size_t i = 0; i < n; i++) id_list_append(&list, ids[i]);
  clave_status st = list.failed ? status_no_memory() : NULL;
  if (!st && conversation->stream)
    st = clave_text_stream_create(conversation->llm->tokenizer, true, &stream);
  if (!st) st = stream_ids(conversation->llm, stream, ids, n);
  if (st) {
    clave_text_stream_destroy(stream);
    id_list_free(&list);
    return st;
  }
  clave_text_stream_destroy(conversation->stream);
  id_list_free(&conversation->ids);
  conversation->stream = stream;
  conversation->stream_is_stale = false;
  conversation->ids = list;
  conversation->n_run = n_run;
  conversation->prompted = n_run + 1 < n;
  text_clear(&conversation->stop.held);
  return NULL;
}

clave_status conversation_renew_stream(clave_llm_conversation *conversation) {
  clave_text_stream *stream;
  if (!conversation->stream_is_stale) return NULL;
  TRY(clave_text_stream_create(conversation->llm->tokenizer, true, &stream));
  clave_status st =
      stream_ids(conversation->llm, stream, conversation->ids.items, conversation->ids.count);
  if (st) {
    clave_text_stream_destroy(stream);
    return st;
  }
  clave_text_stream_destroy(conversation->stream);
  conversation->stream = stream;
  conversation->stream_is_stale = false;
  return NULL;
}

clave_status conversation_restart(clave_llm_conversation *conversation) {
  TRY(conversation->state->clear(conversation));
  conversation->n_run = conversation->n_written = conversation->n_logits = 0;
  TRY(conversation_replace_ids(conversation, NULL, 0, 0));
  chat_forget(&conversation->chat);
  return NULL;
}

clave_status clave_llm_reset(clave_llm_conversation *conversation) {
  OWN_FLOAT_ENV;
  TRY(conversation_restart(conversation));
  sampler_set_draws(conversation->sampler, 0);
  conversation->stats = (clave_llm_stats){.load_ms = conversation->stats.load_ms};
  conversation->prompt_ns = 0;
  return NULL;
}

static clave_status copy_conversation(const clave_llm_conversation *from,
                                      clave_llm_conversation *to) {
  TRY(to->state->share(from, to));
  TRY(conversation_replace_ids(to, from->ids.items, from->ids.count, from->n_run));
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

clave_status clave_llm_set_sampler(clave_llm_conversation *conversation,
                                   const clave_sampler_options *options) {
  OWN_FLOAT_ENV;
  clave_sampler *sampler;
  TRY(clave_sampler_create(options, &sampler));
  sampler_set_draws(sampler, sampler_draws(conversation->sampler));
  clave_sampler_destroy(conversation->sampler);
  conversation->sampler = sampler;
  conversation->options.sampler = sampler_options_of(sampler);
  return NULL;
}

/* ---------------------------------------------------------------- prompts */

static clave_status check_prompt(const clave_llm_conversation *conversation, const uint32_t *ids,
                                 size_t n, size_t capacity) {
  const clave_llm_info *info = &conversation->llm->info;
  if (n > capacity)
    return INVALID(
        "a prompt of %zu tokens after %zu tokens leaves no space for an answer in the context of "
        "%u tokens: %zu too many",
        n, conversation->ids.count, info->max_context, n - capacity);
  for (size_t i = 0; i < n; i++) {
    if (ids[i] >= info->n_vocab)
      return INVALID(
          "id %u at position %zu of the prompt is out of range: the model has ids below %u", ids[i],
          i, info->n_vocab);
  }
  return NULL;
}

void conversation_start_clock(clave_llm_conversation *conversation) {
  if (!conversation->prompt_ns) conversation->prompt_ns = clock_ns();
}

clave_status conversation_append(clave_llm_conversation *conversation, const uint32_t *ids,
                                 size_t n, size_t capacity) {
  size_t before = conversation->ids.count;
  conversation_start_clock(conversation);
  TRY(check_prompt(conversation, ids, n, capacity));
  TRY(conversation_renew_stream(conversation));
  for (size_t i = 0; i < n; i++) id_list_append(&conversation->ids, ids[i]);
  clave_status st = conversation->ids.failed
                        ? status_no_memory()
                        : stream_ids(conversation->llm, conversation->stream, ids, n);
  if (st) {
    conversation->ids.count = before;
    conversation->ids.failed = false;
    conversation->stream_is_stale = conversation->stream != NULL;
    return st;
  }
  text_clear(&conversation->stop.held);
  conversation->prompted = conversation->prompted || n > 0;
  conversation->stats.prompt_tokens += n;
  return NULL;
}

/* Fails unless capacity for at least one more token remains. */
clave_status clave_llm_prompt(clave_llm_conversation *conversation, const uint32_t *ids, size_t n) {
  OWN_FLOAT_ENV;
  size_t capacity = conversation->llm->info.max_context - conversation->ids.count;
  return conversation_append(conversation, ids, n, capacity ? capacity - 1 : 0);
}

/* Prepends BOS to the first text, unless the text already begins with it. */
static clave_status conversation_prompt_encoded(clave_llm_conversation *conversation,
                                                const clave_ids *ids) {
  id_list all = {0};
  int64_t bos = conversation->llm->info.bos,
          first = ids->count ? (int64_t)ids->items[0] : CLAVE_NO_TOKEN;
  if (conversation->ids.count == 0 && bos != CLAVE_NO_TOKEN && first != bos)
    id_list_append(&all, (uint32_t)bos);
  for (size_t i = 0; i < ids->count; i++) id_list_append(&all, ids->items[i]);
  clave_status st =
      all.failed ? status_no_memory() : clave_llm_prompt(conversation, all.items, all.count);
  id_list_free(&all);
  return st;
}

clave_status clave_llm_prompt_text(clave_llm_conversation *conversation, const char *bytes,
                                   size_t size) {
  OWN_FLOAT_ENV;
  clave_ids ids;
  conversation_start_clock(conversation);
  if (!conversation->llm->tokenizer)
    return INVALID("a text prompt needs a tokenizer; without one, pass token ids");
  TRY(clave_tokenizer_encode(conversation->llm->tokenizer, bytes, size, NULL, &ids));
  clave_status st = conversation_prompt_encoded(conversation, &ids);
  clave_ids_free(&ids);
  return st;
}
