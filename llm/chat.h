#ifndef LLM_CHAT_H
#define LLM_CHAT_H
/* Chats as ids, by templates. What stands in messages, tools and documents is text like any other:
 * special tokens count only where the template itself writes them. */
#include "llm/conversation.h"
#include "llm/template.h"

/* The template that is meant by a built-in's name, a Jinja text, or (if `files`) a path. */
clave_status chat_template_of(const char *said, bool files, clave_template **out) STATUS_CHECK;
/* The id with which the model's template ends an answer, CLAVE_NO_TOKEN if there is none. */
clave_status chat_find_end(const clave_llm *llm, int32_t *out) STATUS_CHECK;

/* A rendering of the model's template, or of another; marked: as template_render. */
clave_status chat_render(const clave_llm *llm, const clave_template *template,
                         const clave_template_inputs *inputs, bool marked,
                         jinja_output *out) STATUS_CHECK;
/* Ids of a rendering from byte `from` on. */
clave_status chat_encode(const clave_llm *llm, const jinja_output *rendered, size_t from,
                         id_list *out) STATUS_CHECK;

/* Stands for an answer, to find what the template writes behind it. */
#define CHAT_ANSWER "CLAVE_ANSWER"

/* chat_messages.c: a history is the messages of a JSON array, with the commas between them.
 * default_system: the first, if they do not begin with one; NULL: none. */
void chat_append_message(text *out, const char *role, const char *content, size_t size);
clave_status chat_append_messages(const clave_llm_message *messages, size_t count,
                                  const char *default_system, text *out) STATUS_CHECK;
clave_status chat_append_array(const char *array, const char *default_system,
                               text *out) STATUS_CHECK;
/* The model's own template, or another one that is made (and to be destroyed). */
clave_status chat_own_or_named(const clave_llm *llm, const char *name, clave_template **made,
                               const clave_template **out) STATUS_CHECK;
/* What a caller says, checked; its messages go to the history. */
clave_status chat_read_inputs(const clave_template_inputs *given, const char *default_system,
                              clave_template_inputs *in, text *history) STATUS_CHECK;
clave_status chat_render_history(const clave_llm *llm, const clave_template *template,
                                 const text *history, const clave_template_inputs *inputs,
                                 bool marked, jinja_output *out) STATUS_CHECK;

#endif
