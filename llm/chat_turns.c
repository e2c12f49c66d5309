/* Chats in a conversation: turns, whose messages are appended to the ids that the model has run. */
#include <stdlib.h>
#include <string.h>

#include "base/float_env.h"
#include "base/hash.h"
#include "llm/chat.h"
#include "tokenizer/find.h"
#include "tokenizer/unicode.h"

/* Stores the text of the ids since the last rendering, without the stop id at the end and without
 * ids that the tokenizer lacks. */
static clave_status answer_text(const clave_llm_conversation *conversation, char **out,
                                size_t *size) {
  const clave_llm *llm = conversation->llm;
  size_t from = chat_answer_at(&conversation->chat), n = conversation->ids.count;
  id_list known = {0};
  if (n > from && llm_is_stop_id(llm, conversation->ids.items[n - 1])) n--;
  for (size_t i = from; i < n; i++) {
    if (tokenizer_has(llm->tokenizer, conversation->ids.items[i]))
      id_list_append(&known, conversation->ids.items[i]);
  }
  clave_status st = known.failed ? status_no_memory() : NULL;
  if (!st) st = clave_tokenizer_decode(llm->tokenizer, known.items, known.count, true, out, size);
  id_list_free(&known);
  return st;
}

/* Returns the size of the part of a new rendering that the conversation already contains: the last
 * rendering and the answer, with or without the answer's surrounding white space. Returns 0 if the
 * rendering begins differently. */
static size_t chat_turns_known_bytes(const chat_memory *memory, const jinja_output *output,
                                     const char *answer, size_t size) {
  const chat_turn *last = memory->n_turns ? &memory->turns[memory->n_turns - 1] : NULL;
  size_t before = last ? last->rendered : 0;
  if (!before || output->text.size < before ||
      hash_bytes(output->text.data, before) != last->rendered_hash)
    return 0;
  const char *rest = output->text.data + before;
  size_t left = output->text.size - before, lead = unicode_skip_space((span){answer, size}, 0);
  size_t end = unicode_skip_space_before((span){answer, size}, size, lead);
  const span forms[] = {{answer, size}, {answer + lead, end - lead}, {answer, end}};
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    if (left >= forms[i].size && memcmp(rest, forms[i].data, forms[i].size) == 0)
      return before + forms[i].size;
  }
  return 0;
}

/* Prompts the rendering from byte `from` on. If `from` is 0, restarts the conversation first. */
static clave_status prompt_rest(clave_llm_conversation *conversation, const jinja_output *output,
                                size_t from) {
  id_list ids = {0};
  const id_list *all = &conversation->ids;
  clave_status st = chat_encode(conversation->llm, output, from, &ids);
  if (!st && !from && ids.count >= conversation->llm->info.max_context)
    st = INVALID(
        "a chat of %zu tokens leaves no space for an answer in the context of %u tokens: %zu too "
        "many",
        ids.count, conversation->llm->info.max_context,
        ids.count + 1 - conversation->llm->info.max_context);
  if (!st && !from && all->count) st = conversation_restart(conversation);
  bool ended = !st && from && ids.count && all->count &&
               llm_is_stop_id(conversation->llm, ids.items[0]) &&
               all->items[all->count - 1] == ids.items[0];
  if (!st) st = clave_llm_prompt(conversation, ids.items + ended, ids.count - ended);
  id_list_free(&ids);
  return st;
}

/* Records a turn after its messages were prompted. Moves `history` into the chat memory, whose
 * `turns` has capacity for the turn. */
static void remember(clave_llm_conversation *conversation, text *history, chat_turn turn) {
  chat_memory *memory = &conversation->chat;
  text_free(&memory->history);
  memory->history = *history;
  *history = (text){0};
  memory->turns[memory->n_turns++] = turn;
}

/* Renders the whole chat and prompts the part that the conversation lacks. `known`: size of the
 * history before the new messages. */
static clave_status prompt_whole(clave_llm_conversation *conversation,
                                 const clave_template *template, text *history, size_t known,
                                 const clave_template_inputs *inputs, span answer) {
  chat_memory *memory = &conversation->chat;
  chat_turn turn = {.history_before = known, .history = history->size};
  jinja_output output = {0};
  if (!array_reserve(&memory->turns, &memory->capacity, memory->n_turns + 1, sizeof *memory->turns))
    return status_no_memory();
  TRY(chat_render_history(conversation->llm, template, history, inputs, true, &output));
  size_t from = chat_turns_known_bytes(memory, &output, answer.data, answer.size);
  if (from) turn.ids_before = conversation->ids.count;
  clave_status st = prompt_rest(conversation, &output, from);
  if (!from && !st) memory->n_turns = 0; /* their ids are no longer in the conversation */
  turn.ids = conversation->ids.count;
  turn.rendered = output.text.size;
  turn.rendered_hash = hash_bytes(output.text.data ? output.text.data : "", output.text.size);
  if (!st) remember(conversation, history, turn);
  jinja_output_free(&output);
  return st;
}

/* Prompts messages after ids that do not come from a chat. Renders a sample question and answer
 * before them, and prompts only the text after that answer. */
static clave_status prompt_after_ids(clave_llm_conversation *conversation,
                                     const clave_template *template, const text *messages,
                                     const clave_template_inputs *inputs) {
  text history = {0};
  jinja_output output = {0};
  chat_append_message(&history, "user", "?", 1);
  chat_append_message(&history, "assistant", CHAT_ANSWER, strlen(CHAT_ANSWER));
  text_puts(&history, ",");
  text_append(&history, messages->data, messages->size);
  clave_status st = text_status(&history);
  if (!st) st = chat_render_history(conversation->llm, template, &history, inputs, true, &output);
  text_free(&history);
  if (st) return st;
  const char *at = memmem(output.text.data, output.text.size, CHAT_ANSWER, strlen(CHAT_ANSWER));
  st =
      at ? prompt_rest(conversation, &output, (size_t)(at - output.text.data) + strlen(CHAT_ANSWER))
         : INVALID("the chat template does not write the answers before the last message");
  jinja_output_free(&output);
  return st;
}

/* Appends the chat's messages and, if there is one, the answer to the last message. */
static clave_status history_with_answer(const clave_llm_conversation *conversation, span answer,
                                        text *out) {
  const chat_memory *memory = &conversation->chat;
  text_append(out, memory->history.data, memory->history.size);
  if (conversation->ids.count > chat_answer_at(memory))
    chat_append_message(out, "assistant", answer.data, answer.size);
  return text_status(out);
}

/* Prompts the new messages after the ids of the conversation. */
static clave_status prompt_turn(clave_llm_conversation *conversation,
                                const clave_template *template, text *new_messages,
                                const clave_template_inputs *in) {
  text history = {0};
  char *answer = NULL;
  size_t size = 0;
  if (!conversation->chat.history.size)
    return conversation->ids.count
               ? prompt_after_ids(conversation, template, new_messages, in)
               : prompt_whole(conversation, template, new_messages, 0, in, (span){"", 0});
  TRY(answer_text(conversation, &answer, &size));
  clave_status st = history_with_answer(conversation, (span){answer, size}, &history);
  size_t known = history.size;
  if (new_messages->size) text_puts(&history, ",");
  text_append(&history, new_messages->data, new_messages->size);
  if (!st) st = text_status(&history);
  if (!st) st = prompt_whole(conversation, template, &history, known, in, (span){answer, size});
  text_free(&history);
  clave_text_free(answer);
  return st;
}

/* Continues the conversation's chat by the messages of `given` or, if it is NULL, by `messages`. */
static clave_status prompt_messages(clave_llm_conversation *conversation, const char *template_name,
                                    const clave_llm_message *messages, size_t count,
                                    const clave_template_inputs *given) {
  clave_template *made;
  const clave_template *template;
  text new_messages = {0};
  clave_template_inputs in = {.size = sizeof in, .add_generation_prompt = true};
  bool begins = !conversation->ids.count && !conversation->chat.history.size;
  const char *system = begins ? conversation->llm->default_system : NULL;
  conversation_start_clock(conversation);
  TRY(chat_select_template(conversation->llm, template_name, &made, &template));
  clave_status st = given ? chat_read_inputs(given, system, &in, &new_messages)
                          : chat_append_messages(messages, count, system, &new_messages);
  if (!st) st = prompt_turn(conversation, template, &new_messages, &in);
  text_free(&new_messages);
  clave_template_destroy(made);
  return st;
}

clave_status clave_llm_prompt_chat(clave_llm_conversation *conversation, const char *template_name,
                                   const clave_llm_message *messages, size_t count) {
  OWN_FLOAT_ENV;
  return prompt_messages(conversation, template_name, messages, count, NULL);
}

clave_status clave_llm_prompt_messages(clave_llm_conversation *conversation,
                                       const clave_template_inputs *inputs) {
  OWN_FLOAT_ENV;
  return prompt_messages(conversation, NULL, NULL, 0, inputs);
}

clave_status clave_llm_messages(const clave_llm_conversation *conversation, char **out) {
  text all = {0};
  char *answer = NULL;
  size_t size = 0;
  *out = NULL;
  text_puts(&all, "[");
  clave_status st =
      conversation->chat.history.size ? answer_text(conversation, &answer, &size) : NULL;
  text history = {0};
  if (!st && answer) st = history_with_answer(conversation, (span){answer, size}, &history);
  text_append(&all, history.data, history.size);
  text_puts(&all, "]");
  if (!st) st = text_status(&all);
  text_free(&history);
  clave_text_free(answer);
  if (st) text_free(&all);
  *out = all.data;
  return st;
}
