/* Back in a conversation: to fewer ids, or before its last turn. */
#include "base/float_env.h"
#include "llm/conversation.h"

/* Takes back what stands behind the first `count` ids; the chat is the caller's matter. run_again:
 * where the state cannot go back it is made anew. */
static clave_status go_back(clave_llm_conversation *c, size_t count, bool run_again) {
  size_t n_run = c->n_run < count ? c->n_run : count;
  clave_status st = n_run < c->n_run ? c->state->cut(c, count) : NULL;
  if (st && !run_again && count) return st;
  if (st) {
    status_free(st);
    TRY(conversation_reset_session(c));
    n_run = 0;
  }
  TRY(conversation_take_ids(c, c->ids.items, count, n_run));
  if (c->n_logits > count) c->n_logits = 0;
  return NULL;
}

clave_status clave_llm_rewind(clave_llm_conversation *c, size_t count) {
  OWN_FLOAT_ENV;
  if (count > c->ids.count)
    return INVALID("back to %zu tokens in a conversation of %zu", count, c->ids.count);
  if (count == 0) return conversation_begin_again(c);
  TRY(go_back(c, count, false));
  chat_cut(&c->chat, count);
  return NULL;
}

clave_status clave_llm_undo(clave_llm_conversation *c, bool question) {
  OWN_FLOAT_ENV;
  chat_memory *m = &c->chat;
  if (!m->n_turns) return INVALID("there is no turn of a chat to take back");
  chat_turn last = m->turns[m->n_turns - 1];
  TRY(go_back(c, question ? last.ids_before : last.ids, true));
  if (!question) return NULL;
  m->n_turns--;
  m->history.size = m->n_turns ? m->turns[m->n_turns - 1].history : last.history_before;
  return NULL;
}
