/* Going back in a conversation: to fewer ids, or before its last turn. */
#include "base/float_env.h"
#include "llm/conversation.h"

/* Removes all but the first `count` ids; the caller handles the chat. run_again: if the state
 * cannot go back it is reset, and the remaining ids will run again. */
static clave_status rewind_to(clave_llm_conversation *conversation, size_t count, bool run_again) {
  size_t n_run = conversation->n_run < count ? conversation->n_run : count;
  clave_status st =
      n_run < conversation->n_run ? conversation->state->rewind(conversation, count) : NULL;
  if (st && !run_again && count) return st;
  if (st) {
    status_free(st);
    TRY(conversation_reset_session(conversation));
    n_run = 0;
  }
  TRY(conversation_replace_ids(conversation, conversation->ids.items, count, n_run));
  if (conversation->n_logits > count) conversation->n_logits = 0;
  return NULL;
}

clave_status clave_llm_rewind(clave_llm_conversation *conversation, size_t count) {
  OWN_FLOAT_ENV;
  if (count > conversation->ids.count)
    return INVALID("cannot rewind to %zu tokens: the conversation has %zu", count,
                   conversation->ids.count);
  if (count == 0) return conversation_restart(conversation);
  TRY(rewind_to(conversation, count, false));
  chat_truncate(&conversation->chat, count);
  return NULL;
}

clave_status clave_llm_undo(clave_llm_conversation *conversation, bool question) {
  OWN_FLOAT_ENV;
  chat_memory *memory = &conversation->chat;
  if (!memory->n_turns) return INVALID("the chat has no message to remove");
  chat_turn last = memory->turns[memory->n_turns - 1];
  TRY(rewind_to(conversation, question ? last.ids_before : last.ids, true));
  if (!question) return NULL;
  memory->n_turns--;
  memory->history.size =
      memory->n_turns ? memory->turns[memory->n_turns - 1].history : last.history_before;
  return NULL;
}
