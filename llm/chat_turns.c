/* Chats in a conversation: turns, whose messages go behind what the model has run. */
#include <stdlib.h>
#include <string.h>

#include "base/float_env.h"
#include "base/hash.h"
#include "llm/chat.h"
#include "tokenizer/find.h"
#include "tokenizer/unicode.h"

/* The text of the ids since the last rendering, without the id that ended them and those that the
 * tokenizer lacks. */
static clave_status answer_text(const clave_llm_conversation *c, char **out, size_t *size) {
  const clave_llm *l = c->llm;
  size_t from = chat_answer_at(&c->chat), n = c->ids.count;
  id_list known = {0};
  if (n > from && llm_is_stop_id(l, c->ids.items[n - 1])) n--;
  for (size_t i = from; i < n; i++) {
    if (tokenizer_has(l->tokenizer, c->ids.items[i])) id_list_append(&known, c->ids.items[i]);
  }
  clave_status st = known.failed ? status_no_memory() : NULL;
  if (!st) st = clave_tokenizer_decode(l->tokenizer, known.items, known.count, true, out, size);
  id_list_free(&known);
  return st;
}

/* Where of the new rendering what is not in the conversation yet begins: behind what was rendered
 * before and the answer, with or without the white space around that. 0: it is another text. */
static size_t known_bytes(const chat_memory *m, const jinja_output *o, const char *answer,
                          size_t size) {
  const chat_turn *last = m->n_turns ? &m->turns[m->n_turns - 1] : NULL;
  size_t before = last ? last->rendered : 0;
  if (!before || o->text.size < before || hash_bytes(o->text.data, before) != last->rendered_hash)
    return 0;
  const char *rest = o->text.data + before;
  size_t left = o->text.size - before, lead = unicode_skip_space((span){answer, size}, 0);
  size_t end = unicode_skip_space_before((span){answer, size}, size, lead);
  const span forms[] = {{answer, size}, {answer + lead, end - lead}, {answer, end}};
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    if (left >= forms[i].size && memcmp(rest, forms[i].data, forms[i].size) == 0)
      return before + forms[i].size;
  }
  return 0;
}

/* Prompts what of the rendering is new. */
static clave_status prompt_rest(clave_llm_conversation *c, const jinja_output *o, size_t from) {
  id_list ids = {0};
  const id_list *all = &c->ids;
  clave_status st = chat_encode(c->llm, o, from, &ids);
  if (!st && !from && ids.count >= c->llm->info.max_context)
    st = INVALID("a chat of %zu tokens does not fit into the context of %u: %zu too many",
                 ids.count, c->llm->info.max_context, ids.count + 1 - c->llm->info.max_context);
  if (!st && !from && all->count) st = conversation_begin_again(c);
  bool ended = !st && from && ids.count && all->count && llm_is_stop_id(c->llm, ids.items[0]) &&
               all->items[all->count - 1] == ids.items[0];
  if (!st) st = clave_llm_prompt(c, ids.items + ended, ids.count - ended);
  id_list_free(&ids);
  return st;
}

/* A turn whose messages were prompted: `history` holds them, and is taken. There is room for it. */
static void remember(clave_llm_conversation *c, text *history, chat_turn turn) {
  chat_memory *m = &c->chat;
  text_free(&m->history);
  m->history = *history;
  *history = (text){0};
  m->turns[m->n_turns++] = turn;
}

/* The whole chat, of which the conversation may hold the beginning. `known`: bytes of the history
 * that went before these messages. */
static clave_status prompt_whole(clave_llm_conversation *c, const clave_template *t, text *history,
                                 size_t known, const clave_template_inputs *inputs, span answer) {
  chat_memory *m = &c->chat;
  chat_turn turn = {.history_before = known, .history = history->size};
  jinja_output o = {0};
  if (!array_reserve(&m->turns, &m->capacity, m->n_turns + 1, sizeof *m->turns))
    return status_no_memory();
  TRY(chat_render_history(c->llm, t, history, inputs, true, &o));
  size_t from = known_bytes(m, &o, answer.data, answer.size);
  if (from) turn.ids_before = c->ids.count;
  clave_status st = prompt_rest(c, &o, from);
  if (!from && !st) m->n_turns = 0; /* their ids are no longer there */
  turn.ids = c->ids.count;
  turn.rendered = o.text.size;
  turn.rendered_hash = hash_bytes(o.text.data ? o.text.data : "", o.text.size);
  if (!st) remember(c, history, turn);
  jinja_output_free(&o);
  return st;
}

/* New messages behind ids that no chat of ours made: what the template writes behind an answer. */
static clave_status prompt_behind(clave_llm_conversation *c, const clave_template *t,
                                  const text *messages, const clave_template_inputs *inputs) {
  text history = {0};
  jinja_output o = {0};
  chat_append_message(&history, "user", "?", 1);
  chat_append_message(&history, "assistant", CHAT_ANSWER, strlen(CHAT_ANSWER));
  text_puts(&history, ",");
  text_append(&history, messages->data, messages->size);
  clave_status st = text_status(&history);
  if (!st) st = chat_render_history(c->llm, t, &history, inputs, true, &o);
  text_free(&history);
  if (st) return st;
  const char *at = memmem(o.text.data, o.text.size, CHAT_ANSWER, strlen(CHAT_ANSWER));
  st = at ? prompt_rest(c, &o, (size_t)(at - o.text.data) + strlen(CHAT_ANSWER))
          : INVALID("the chat template does not write the answers before the last message");
  jinja_output_free(&o);
  return st;
}

/* The chat's messages and, if there is one, the answer to the last of them. */
static clave_status history_with_answer(const clave_llm_conversation *c, span answer, text *out) {
  const chat_memory *m = &c->chat;
  text_append(out, m->history.data, m->history.size);
  if (c->ids.count > chat_answer_at(m))
    chat_append_message(out, "assistant", answer.data, answer.size);
  return text_status(out);
}

/* Prompts the messages `fresh` behind what the conversation holds. */
static clave_status prompt_turn(clave_llm_conversation *c, const clave_template *t, text *fresh,
                                const clave_template_inputs *in) {
  text history = {0};
  char *answer = NULL;
  size_t size = 0;
  if (!c->chat.history.size)
    return c->ids.count ? prompt_behind(c, t, fresh, in)
                        : prompt_whole(c, t, fresh, 0, in, (span){"", 0});
  TRY(answer_text(c, &answer, &size));
  clave_status st = history_with_answer(c, (span){answer, size}, &history);
  size_t known = history.size;
  if (fresh->size) text_puts(&history, ",");
  text_append(&history, fresh->data, fresh->size);
  if (!st) st = text_status(&history);
  if (!st) st = prompt_whole(c, t, &history, known, in, (span){answer, size});
  text_free(&history);
  clave_text_free(answer);
  return st;
}

/* Messages behind those of the conversation, given in one of two ways: count of them, or those of
 * `given`. */
static clave_status prompt_messages(clave_llm_conversation *c, const char *template_name,
                                    const clave_llm_message *messages, size_t count,
                                    const clave_template_inputs *given) {
  clave_template *made;
  const clave_template *t;
  text fresh = {0};
  clave_template_inputs in = {.size = sizeof in, .add_generation_prompt = true};
  bool begins = !c->ids.count && !c->chat.history.size;
  const char *system = begins ? c->llm->default_system : NULL;
  conversation_start_clock(c);
  TRY(chat_own_or_named(c->llm, template_name, &made, &t));
  clave_status st = given ? chat_read_inputs(given, system, &in, &fresh)
                          : chat_append_messages(messages, count, system, &fresh);
  if (!st) st = prompt_turn(c, t, &fresh, &in);
  text_free(&fresh);
  clave_template_destroy(made);
  return st;
}

clave_status clave_llm_prompt_chat(clave_llm_conversation *c, const char *template_name,
                                   const clave_llm_message *messages, size_t count) {
  OWN_FLOAT_ENV;
  return prompt_messages(c, template_name, messages, count, NULL);
}

clave_status clave_llm_prompt_messages(clave_llm_conversation *c,
                                       const clave_template_inputs *inputs) {
  OWN_FLOAT_ENV;
  return prompt_messages(c, NULL, NULL, 0, inputs);
}

clave_status clave_llm_messages(const clave_llm_conversation *c, char **out) {
  text all = {0};
  char *answer = NULL;
  size_t size = 0;
  *out = NULL;
  text_puts(&all, "[");
  clave_status st = c->chat.history.size ? answer_text(c, &answer, &size) : NULL;
  text history = {0};
  if (!st && answer) st = history_with_answer(c, (span){answer, size}, &history);
  text_append(&all, history.data, history.size);
  text_puts(&all, "]");
  if (!st) st = text_status(&all);
  text_free(&history);
  clave_text_free(answer);
  if (st) text_free(&all);
  *out = all.data;
  return st;
}
