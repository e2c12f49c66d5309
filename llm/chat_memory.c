/* The chat part of a conversation: copies it, and truncates it when the conversation goes back. */
#include <stdlib.h>
#include <string.h>

#include "llm/conversation.h"

void chat_forget(chat_memory *memory) {
  text_clear(&memory->history);
  memory->n_turns = 0;
}

void chat_free(chat_memory *memory) {
  text_free(&memory->history);
  free(memory->turns);
}

clave_status chat_copy(const chat_memory *from, chat_memory *to) {
  text_append(&to->history, from->history.data, from->history.size);
  TRY(text_status(&to->history));
  if (!array_reserve(&to->turns, &to->capacity, from->n_turns, sizeof *to->turns))
    return status_no_memory();
  if (from->n_turns) memcpy(to->turns, from->turns, from->n_turns * sizeof *to->turns);
  to->n_turns = from->n_turns;
  return NULL;
}

void chat_truncate(chat_memory *memory, size_t count) {
  size_t before = memory->n_turns;
  bool inside = false;
  while (memory->n_turns && memory->turns[memory->n_turns - 1].ids > count)
    inside = memory->turns[--memory->n_turns].ids_before < count;
  if (memory->n_turns == before) return;
  if (inside ||
      !memory->n_turns) { /* the ids end within messages, or belong to no turn of the chat */
    chat_forget(memory);
  } else {
    memory->history.size = memory->turns[memory->n_turns - 1].history;
  }
}

size_t chat_answer_at(const chat_memory *memory) {
  return memory->n_turns ? memory->turns[memory->n_turns - 1].ids : 0;
}
